"""Typing with slips, in C: the words that best explain what was typed (core/typing.c), by ctypes.

Knows forms of words, ids, keys and prices; knows nothing of texts, capitals or the prices that are in use.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rheostat.core.binding import CoreModel
from rheostat.core.library import ErrorText, check, load_library
from rheostat.core.values import Answer, Block
from rheostat.errors import NotCopyable

MAX_TYPED = 64  # RHEO_MAX_TYPED
MAX_KEYS = 64  # RHEO_MAX_KEYS
MAX_EXPLAINED = 64  # RHEO_MAX_EXPLAINED
# What the words of a text are worth: an answer of a model in the core, or log p of every word when it is asked for.
Scores: TypeAlias = tuple[CoreModel, Answer] | Callable[[], NDArray[np.float32]]
_ROW = struct.Struct("=iff")  # rheo_explained; unpacking all rows at once is faster than asking ctypes for each field
_RECENT = 2  # words being typed that are kept per thread: one, and the second half of one with a missed space


class _Key(ctypes.Structure):
    _fields_ = [("letter", ctypes.c_uint32), ("x", ctypes.c_float), ("y", ctypes.c_float)]


class _Prices(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_float)
        for name in (
            "neighbour",
            "distance",
            "far",
            "missed",
            "missed_double",
            "missed_apostrophe",
            "extra",
            "doubled",
            "swapped",
            "spread",
        )
    ]


class _Channel(ctypes.Structure):
    _fields_ = [
        ("count", ctypes.c_int32),
        ("precision", ctypes.c_float),
        ("prices", ctypes.c_int32 * 7),
        ("key_of", ctypes.c_uint8 * 256),
        ("keys", _Key * MAX_KEYS),
        ("price", ctypes.c_int32 * MAX_KEYS * MAX_KEYS),
    ]


class _Keystrokes(ctypes.Structure):
    _fields_ = [
        ("text", ctypes.c_char_p),
        ("length", ctypes.c_size_t),
        ("taps", ctypes.c_void_p),
        ("tap_count", ctypes.c_size_t),
        ("is_whole", ctypes.c_int32),
    ]


class _Explained(ctypes.Structure):
    _fields_ = [("word", ctypes.c_int32), ("log_probability", ctypes.c_float), ("cost", ctypes.c_float)]


class Explained(NamedTuple):
    """A word that explains what was typed. log_probability: of the word after the text; cost: of the slips, in nats."""

    word: int
    log_probability: float
    cost: float


class Channel(NotCopyable):
    """Keys and what each kind of slip costs."""

    def __init__(self, keys: Sequence[tuple[str, float, float]], prices: dict[str, float]) -> None:
        """keys: letter, x, y. prices: nats by the names of `rheo_prices`."""
        self._channel, error = _Channel(), ErrorText()
        rows = (_Key * len(keys))(*(_Key(ord(letter), x, y) for letter, x, y in keys))
        status = load_library().rheo_typing_set_keys(
            ctypes.byref(self._channel), rows, len(keys), ctypes.byref(_Prices(**prices)), ctypes.byref(error)
        )
        check(status, error)
        self.address = ctypes.addressof(self._channel)


class WordTree(NotCopyable):
    """The words that may be suggested, as C walks them. It never changes; safe to use from several threads."""

    def __init__(self, forms: Sequence[str], ids: NDArray[np.integer[Any]], vocabulary_size: int) -> None:
        """forms: the words as they are compared with what is typed, sorted; ids: of these words."""
        self._library = load_library()
        text, numbers = "\n".join(forms).encode(), np.ascontiguousarray(ids, np.int32)
        memory = Block(int(self._library.rheo_typing_bytes(len(forms), len(text))))
        tree, error = ctypes.c_void_p(), ErrorText()
        status = self._library.rheo_typing_open(
            ctypes.byref(tree),
            text,
            len(text),
            numbers.ctypes.data,
            len(forms),
            vocabulary_size,
            memory.address,
            memory.size,
            ctypes.byref(error),
        )
        check(status, error)
        self._memory, self._tree = memory, tree
        self._here = _Recent()
        self.typed_bytes = int(self._library.rheo_typed_bytes(tree))

    def typed(self, owner: object, source: Scores) -> TypedWord:
        """What is being typed after one text: `owner` identifies that text, and is passed again with every letter.

        source: gives log p of every word; or a model of the core and its answer, whose clusters are opened when they
            matter.
        """
        recent = self._here.words
        for number, (known, word) in enumerate(recent):
            if known is owner:
                if number:
                    recent.insert(0, recent.pop(number))
                return word
        memory = recent.pop()[1].memory if len(recent) >= _RECENT else Block(self.typed_bytes)
        word = TypedWord(self._library, self._tree, memory, source)
        recent.insert(0, (owner, word))
        return word


class _Recent(threading.local):
    """The words that a thread typed last; their memory is used again."""

    def __init__(self) -> None:
        self.words: list[tuple[object, TypedWord]] = []


class TypedWord(NotCopyable):
    """A word that is being typed after one text. With every further letter, C works on that letter alone."""

    def __init__(
        self,
        library: ctypes.CDLL,
        tree: ctypes.c_void_p,
        memory: Block,
        source: Scores,
    ) -> None:
        self._library, self.memory = library, memory
        self._error, self._count = ErrorText(), ctypes.c_int32()
        self._error_at, self._count_at = ctypes.byref(self._error), ctypes.byref(self._count)
        self._found = (_Explained * MAX_EXPLAINED)()
        self._bytes = memoryview(self._found).cast("B")
        self._asked = _Keystrokes()
        self._asked_at = ctypes.byref(self._asked)
        self._source, self._model, self._answer = source, None, None
        self._lock = threading.Lock()
        typed = ctypes.c_void_p()
        at = ctypes.byref(typed)
        if isinstance(source, tuple):
            self._model, self._answer, self._lock = source[0].handle, source[1].address, source[1].lock
            with self._lock:
                status = library.rheo_typed_open_answer(
                    at, tree, self._model, self._answer, memory.address, memory.size, self._error_at
                )
        else:
            values = np.ascontiguousarray(source(), np.float32)
            status = library.rheo_typed_open(at, tree, values.ctypes.data, memory.address, memory.size, self._error_at)
        check(status, self._error)
        self._typed = typed

    def log_probability(self, word: int) -> float:
        """log p of any word after the text; of a closed cluster, a bound."""
        return float(self._library.rheo_typed_log_probability(self._typed, word))

    def best(
        self, channel: Channel, form: str, k: int, *, whole: bool = False, taps: NDArray[np.float32] | None = None
    ) -> list[Explained]:
        """The k words that explain these letters best. whole: the word ends here. taps: [letters, 2]."""
        asked, text = self._asked, form.encode()
        asked.text, asked.length, asked.is_whole = text, len(text), whole
        asked.taps, asked.tap_count = (None, 0) if taps is None else (taps.ctypes.data, len(taps))
        with self._lock:
            status = self._library.rheo_typed_best(
                self._typed,
                channel.address,
                self._asked_at,
                self._model,
                self._answer,
                k,
                self._found,
                self._count_at,
                self._error_at,
            )
        check(status, self._error)
        rows = _ROW.iter_unpack(self._bytes[: _ROW.size * self._count.value])
        return list(map(Explained._make, rows))
