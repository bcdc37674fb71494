"""The core from Python, by ctypes: thin, typed, and without the GIL while C runs.

A `CoreModel` is opened on the bytes of an ordered model file and may be used from several threads. States and answers
are plain NumPy arrays that belong to the caller. Knows ids and numbers; knows nothing of texts or policies.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakSet, finalize

import numpy as np
from numpy.typing import NDArray

from rheostat.core.build import FOLDER, REMEDY, library_name
from rheostat.errors import ModelFileError, NotCopyable, RheostatError

MAX_LAYERS = 16  # RHEO_MAX_LAYERS
MAX_CLUSTERS = 64  # RHEO_MAX_CLUSTERS
MAX_BEST = 1024  # RHEO_MAX_BEST
MAX_CACHE = 1024  # RHEO_MAX_CACHE
ALIGNMENT = 64  # more than the RHEO_ALIGNMENT that C asks for: parts then begin with cache lines
BAD_FILE = 1  # RHEO_BAD_FILE
EVERY_ROW = 2**31 - 1  # a bit bound above all rows
SPARE_ANSWERS = 4  # whose memory is kept for the next ones
MAX_THREADS = 1024  # RHEO_MAX_THREADS

Ids: TypeAlias = NDArray[np.int32]
Floats: TypeAlias = NDArray[np.float32]


class ErrorText(ctypes.Structure):
    """One line of text about what went wrong."""

    _fields_ = [("text", ctypes.c_char * 256)]


class _Config(ctypes.Structure):
    _fields_ = [
        ("vocabulary_size", ctypes.c_int32),
        ("embedding_size", ctypes.c_int32),
        ("layers", ctypes.c_int32),
        ("hidden_sizes", ctypes.c_int32 * MAX_LAYERS),
        ("windows", ctypes.c_int32 * MAX_LAYERS),
        ("clusters", ctypes.c_int32),
        ("cluster_start", ctypes.c_int32 * (MAX_CLUSTERS + 1)),
        ("positions", ctypes.c_int32),
        ("is_int8", ctypes.c_int32),
        ("bits", ctypes.c_int32),
        ("counts", ctypes.c_int32),
    ]


class _Position(ctypes.Structure):
    _fields_ = [
        ("widths", ctypes.c_int32 * MAX_LAYERS),
        ("bounds", ctypes.c_int32 * (MAX_LAYERS + 1)),
        ("cost", ctypes.c_float),
        ("without_counts", ctypes.c_int32),
    ]


POSITION_BYTES = ctypes.sizeof(_Position)


class _Choice(ctypes.Structure):
    _fields_ = [
        ("mask", ctypes.c_void_p),
        ("prefix", ctypes.c_char_p),
        ("prefix_length", ctypes.c_size_t),
        ("candidates", ctypes.c_void_p),
        ("candidate_count", ctypes.c_size_t),
    ]


@dataclass(frozen=True)
class Config:
    """The sizes of an open model. positions: of its path. counts: words of its longest n-grams; 0 if it has none."""

    vocabulary_size: int
    embedding_size: int
    hidden_sizes: tuple[int, ...]
    windows: tuple[int, ...]
    cluster_start: tuple[int, ...]
    positions: int
    is_int8: bool
    bits: int
    counts: int = 0


class ScoredWords(NamedTuple):
    """The most probable words, best first."""

    ids: Ids
    log_probabilities: Floats


class Widths:
    """One width per layer and the bit bounds, ready to be handed to C.

    bounds: how many filters of each layer, and at last how many words, are read in 8 bits; the others in 4. None: all.
    cost: says how much the counts of a file weigh; None: nothing.
    """

    def __init__(self, widths: Sequence[int], cost: float | None = 1.0, bounds: Sequence[int] | None = None) -> None:
        layers = len(widths)
        if not 1 <= layers <= MAX_LAYERS:
            raise RheostatError(f"a position of {layers} widths was given; expected one per layer")
        if bounds is not None and len(bounds) != layers + 1:
            raise RheostatError(
                f"{len(bounds)} bit bounds were given; expected {layers + 1}: of the layers and the words"
            )
        self.widths = tuple(int(width) for width in widths)
        self.bounds = None if bounds is None else tuple(int(bound) for bound in bounds)
        self.cost = cost
        in_8_bits = (EVERY_ROW,) * (layers + 1) if self.bounds is None else self.bounds
        position = _Position(
            (ctypes.c_int32 * MAX_LAYERS)(*self.widths),
            (ctypes.c_int32 * (MAX_LAYERS + 1))(*in_8_bits),
            1.0 if cost is None else cost,
            cost is None,
        )
        self._as_parameter_ = ctypes.byref(position)


_POINTER, _SIZE, _INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "rheo_workspace_bytes": (_INT, [_POINTER, _SIZE, _POINTER, _POINTER]),
    "rheo_open": (_INT, [_POINTER, _POINTER, _SIZE, _POINTER, _SIZE, ctypes.c_char_p, _POINTER]),
    "rheo_config_of": (ctypes.POINTER(_Config), [_POINTER]),
    "rheo_kernel_of": (ctypes.c_char_p, [_POINTER]),
    "rheo_kernel_name": (ctypes.c_char_p, [_INT]),
    "rheo_use_workers": (None, [_POINTER, _POINTER]),
    "rheo_pool_bytes": (_SIZE, [_INT]),
    "rheo_pool_start": (_INT, [_POINTER, _INT, _POINTER, _SIZE, _POINTER]),
    "rheo_pool_workers": (_POINTER, [_POINTER]),
    "rheo_pool_stop": (None, [_POINTER]),
    "rheo_word": (_POINTER, [_POINTER, _INT, _POINTER]),
    "rheo_find_word": (_INT, [_POINTER, ctypes.c_char_p, _SIZE]),
    "rheo_unknown_id": (_INT, [_POINTER]),
    "rheo_end_id": (_INT, [_POINTER]),
    "rheo_position_at": (_INT, [_POINTER, _INT, _POINTER, _POINTER]),
    "rheo_position_near": (_INT, [_POINTER, ctypes.c_float, _POINTER, _POINTER]),
    "rheo_state_bytes": (_SIZE, [_POINTER]),
    "rheo_answer_bytes": (_SIZE, [_POINTER]),
    "rheo_scratch_bytes": (_SIZE, [_POINTER]),
    "rheo_start": (None, [_POINTER, _POINTER]),
    "rheo_step": (_INT, [_POINTER, _POINTER, _POINTER, _INT, _POINTER, _POINTER]),
    "rheo_steps": (_INT, [_POINTER, _POINTER, _POINTER, _POINTER, _SIZE, _POINTER, _POINTER]),
    "rheo_evaluate": (_INT, [_POINTER, _POINTER, _POINTER, _POINTER, _SIZE, _POINTER, _POINTER, _POINTER, _POINTER]),
    "rheo_predict": (_INT, [_POINTER, _POINTER, _POINTER, _POINTER, _POINTER]),
    "rheo_cache_bytes": (_SIZE, [_POINTER, _INT]),
    "rheo_cache_start": (_INT, [_POINTER, _POINTER, _INT, _POINTER]),
    "rheo_cache_add": (None, [_POINTER, _POINTER, _POINTER, _POINTER, _INT]),
    "rheo_cache_mix": (
        _INT,
        [_POINTER, _POINTER, _POINTER, _POINTER, ctypes.c_float, ctypes.c_float, _POINTER, _POINTER],
    ),
    "rheo_best": (_INT, [_POINTER, _POINTER, _POINTER, _INT, _POINTER, _POINTER, _POINTER, _POINTER]),
    "rheo_query": (_INT, [_POINTER, _POINTER, _POINTER, _INT, *[_POINTER] * 3, _INT, *[_POINTER] * 5]),
    "rheo_log_probabilities": (_INT, [_POINTER, _POINTER, _POINTER, _POINTER]),
    "rheo_executed": (ctypes.c_int64, [_POINTER, _POINTER]),
    "rheo_typing_set_keys": (_INT, [_POINTER, _POINTER, _INT, _POINTER, _POINTER]),
    "rheo_typing_bytes": (_SIZE, [_INT, _SIZE]),
    "rheo_typing_open": (
        _INT,
        [_POINTER, ctypes.c_char_p, _SIZE, _POINTER, _INT, _INT, _POINTER, _SIZE, _POINTER],
    ),
    "rheo_typed_bytes": (_SIZE, [_POINTER]),
    "rheo_typed_open": (_INT, [_POINTER, _POINTER, _POINTER, _POINTER, _SIZE, _POINTER]),
    "rheo_typed_open_answer": (_INT, [_POINTER, _POINTER, _POINTER, _POINTER, _POINTER, _SIZE, _POINTER]),
    "rheo_typed_log_probability": (ctypes.c_float, [_POINTER, _INT]),
    "rheo_typed_best": (
        _INT,
        [_POINTER, _POINTER, _POINTER, _POINTER, _POINTER, _INT, _POINTER, _POINTER, _POINTER],
    ),
}


@cache
def load_library(path: Path | None = None) -> ctypes.CDLL:
    """The shared library of the package, or another build of it: `path`, or the one that $RHEOSTAT_CORE names."""
    path = path or Path(os.environ.get("RHEOSTAT_CORE") or FOLDER / library_name())
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise RheostatError(
            f"the compiled core {path.name} cannot be loaded ({error}); expected it beside rheostat.h: reinstall the "
            f"package, or {REMEDY} and run python -m rheostat.core.build"
        ) from error
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def kernels(library: ctypes.CDLL | None = None) -> list[str]:
    """The kernels that this processor can run, fastest first."""
    found: list[str] = []
    library = library or load_library()
    while name := library.rheo_kernel_name(len(found)):
        found.append(name.decode())
    return found


class Block(NotCopyable):
    """Memory that belongs to the caller and begins at a cache line: a state, an answer, a scratch. `address` is kept,
    since asking NumPy for it can take longer than a step.
    """

    __slots__ = ("_room", "address", "size")

    def __init__(self, size: int) -> None:
        self._room = np.empty(size + ALIGNMENT, np.uint8)
        start = self._room.__array_interface__["data"][0]
        self.address: int = start + -start % ALIGNMENT
        self.size = size

    def copy(self) -> Block:
        other = Block(self.size)
        ctypes.memmove(other.address, self.address, self.size)
        return other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Block) and self.tobytes() == other.tobytes()

    def __hash__(self) -> int:
        return hash(self.tobytes())

    def tobytes(self) -> bytes:
        return ctypes.string_at(self.address, self.size)


class Answer(Block):
    """How probable every next word is. Its memory is used again once nobody needs the answer: fresh memory costs more
    than the call, since an answer takes many pages.
    """

    __slots__ = ("_spare",)

    def __init__(self, size: int, spare: list[tuple[NDArray[np.uint8], int]]) -> None:
        self._spare = spare
        try:
            self._room, self.address = spare.pop()
            self.size = size
        except IndexError:
            super().__init__(size)

    def __del__(self) -> None:
        if len(self._spare) < SPARE_ANSWERS:
            self._spare.append((self._room, self.address))


class Choice(NotCopyable):
    """Which words may be chosen: those a mask [V] allows, those with a prefix, those of a list. Can be reused."""

    def __init__(
        self,
        mask: NDArray[np.bool_] | NDArray[np.uint8] | None = None,
        prefix: bytes | None = None,
        candidates: NDArray[Any] | None = None,
    ) -> None:
        """The arrays are kept as long as the choice."""
        self._mask = None if mask is None else np.ascontiguousarray(mask).view(np.uint8)
        self._candidates = None if candidates is None else np.ascontiguousarray(candidates, np.int32)
        self.vocabulary_size = None if mask is None else len(mask)
        self._as_parameter_ = ctypes.byref(
            _Choice(
                None if self._mask is None else self._mask.ctypes.data,
                prefix,
                0 if prefix is None else len(prefix),
                None if self._candidates is None else self._candidates.ctypes.data,
                0 if self._candidates is None else len(self._candidates),
            )
        )

    @classmethod
    def among(cls, address: int, count: int) -> Choice:
        """`count` int32 ids at an address, which the caller keeps."""
        choice = cls.__new__(cls)
        choice.vocabulary_size = None
        choice._as_parameter_ = ctypes.byref(_Choice(None, None, 0, address, count))
        return choice


class _Workplace(threading.local):
    """What a thread needs for its calls, made once per thread."""

    def __init__(self, scratch_bytes: int) -> None:
        self.scratch = Block(scratch_bytes)
        self.error = ErrorText()
        self.error_at = ctypes.byref(self.error)
        self.found = ctypes.c_int32()
        self.found_at = ctypes.byref(self.found)
        self.ids = np.empty(MAX_BEST, np.int32)
        self.scores = np.empty(MAX_BEST, np.float32)
        self.ids_at, self.scores_at = self.ids.ctypes.data, self.scores.ctypes.data


EVERYTHING = Choice()


class Query(NamedTuple):
    """The state and the answer after one more word, and the k best words with their log p."""

    state: Block
    answer: Answer
    words: list[int]
    log_probabilities: list[float]


class CoreModel(NotCopyable):
    """A model that C has opened on `file`, the bytes of an ordered model file, which are kept and never copied.

    threads: that compute a query together; the answers do not depend on it. The first call starts them, and they end
    with the model. A forked process starts its own.
    """

    def __init__(
        self, file: Any, kernel: str | None = None, library: ctypes.CDLL | None = None, threads: int = 1
    ) -> None:
        if not 1 <= threads <= MAX_THREADS:
            raise RheostatError(f"{threads} threads were asked for; expected 1 to {MAX_THREADS}")
        self._library = library or load_library()
        self._file = np.frombuffer(file, np.uint8)
        error, needed, model = ErrorText(), ctypes.c_size_t(), ctypes.c_void_p()
        address, size = self._file.ctypes.data, len(self._file)
        name = None if kernel is None else kernel.encode()
        check(self._library.rheo_workspace_bytes(address, size, ctypes.byref(needed), ctypes.byref(error)), error)
        self._workspace = Block(needed.value)
        opened = self._library.rheo_open(
            ctypes.byref(model), address, size, self._workspace.address, needed.value, name, ctypes.byref(error)
        )
        check(opened, error)
        self._model = model
        self._state_bytes = int(self._library.rheo_state_bytes(model))
        self._answer_bytes = int(self._library.rheo_answer_bytes(model))
        self._spare_answers: list[tuple[NDArray[np.uint8], int]] = []
        self._here = _Workplace(int(self._library.rheo_scratch_bytes(model)))
        self.config = self._read_config()
        self.kernel: str = self._library.rheo_kernel_of(model).decode()
        self.threads = threads
        self._lacks_threads = threads > 1  # until the first call
        self._starting = threading.Lock()
        self._end_threads: finalize[..., CoreModel] | None = None

    def _start_threads(self) -> None:
        """Before the first call that computes. No other call can be using the model: each comes here first."""
        with self._starting:
            if not self._lacks_threads:
                return
            memory, pool, error = Block(self._library.rheo_pool_bytes(self.threads)), ctypes.c_void_p(), ErrorText()
            status = self._library.rheo_pool_start(
                ctypes.byref(pool), self.threads, memory.address, memory.size, ctypes.byref(error)
            )
            check(status, error)
            self._end_threads = finalize(self, _stop_pool, self._library, pool, memory)
            self._end_threads.atexit = False  # the system ends them with the process, whoever may still be computing
            self._library.rheo_use_workers(self._model, self._library.rheo_pool_workers(pool))
            _with_threads.add(self)
            self._lacks_threads = False

    def forget_threads(self) -> None:
        """In a forked process, which has none of the threads: the next call starts others."""
        if self._end_threads is not None:
            self._end_threads.detach()
            self._library.rheo_use_workers(self._model, None)
        self._starting, self._end_threads, self._lacks_threads = threading.Lock(), None, True

    @property
    def handle(self) -> ctypes.c_void_p:
        """The model as C knows it."""
        return self._model

    @property
    def file_bytes(self) -> int:
        return len(self._file)

    @property
    def workspace_bytes(self) -> int:
        """What opening took beside the file."""
        return self._workspace.size

    def full_position(self) -> Widths:
        return Widths(self.config.hidden_sizes)

    def position_at(self, number: int) -> Widths:
        """A position of the file's path, the most expensive one first."""
        return self._position(self._library.rheo_position_at, number)

    def position_near(self, share: float) -> Widths:
        """The largest position of the file's path that costs no more than this share."""
        return self._position(self._library.rheo_position_near, share)

    def word(self, number: int) -> str | None:
        """The word of an id; None for an id that the model does not have."""
        length = ctypes.c_int32()
        address = self._library.rheo_word(self._model, number, ctypes.byref(length))
        return None if address is None else ctypes.string_at(address, length.value).decode()

    def find_word(self, word: str) -> int:
        """The id of a word; -1 if the model does not have it."""
        data = word.encode()
        return int(self._library.rheo_find_word(self._model, data, len(data)))

    def start(self) -> Block:
        """The state before the text starts."""
        state = Block(self._state_bytes)
        self._library.rheo_start(self._model, state.address)
        return state

    def step(self, position: Widths, state: Block, word: int) -> Block:
        """The state after one more word."""
        if self._lacks_threads:
            self._start_threads()
        after, here = self._copy(state), self._here
        status = self._library.rheo_step(
            self._model, position, after.address, word, here.scratch.address, here.error_at
        )
        check(status, here.error)
        return after

    def steps(self, position: Widths, state: Block, words: Sequence[int] | NDArray[Any]) -> Block:
        """The state after many words: the same bits as one by one, sooner."""
        if self._lacks_threads:
            self._start_threads()
        after, here = self._copy(state), self._here
        ids = np.ascontiguousarray(words, np.int32)
        status = self._library.rheo_steps(
            self._model, position, after.address, ids.ctypes.data, len(ids), here.scratch.address, here.error_at
        )
        check(status, here.error)
        return after

    @property
    def answer_bytes(self) -> int:
        return self._answer_bytes

    def predict(self, position: Widths, state: Block) -> Answer:
        """An answer: how probable every next word is."""
        if self._lacks_threads:
            self._start_threads()
        answer, here = Answer(self._answer_bytes, self._spare_answers), self._here
        status = self._library.rheo_predict(self._model, position, state.address, answer.address, here.error_at)
        check(status, here.error)
        return answer

    def query(self, position: Widths, state: Block, word: int, k: int, choice: Choice = EVERYTHING) -> Query:
        """Read one more word, predict, and find the k best words of the choice: all in one call. k = 0 finds none."""
        if self._lacks_threads:
            self._start_threads()
        self._check_choice(choice)
        here, after, answer = self._here, Block(self._state_bytes), Answer(self._answer_bytes, self._spare_answers)
        here.found.value = 0
        status = self._library.rheo_query(
            self._model,
            position,
            state.address,
            word,
            after.address,
            answer.address,
            choice,
            k,
            here.ids_at,
            here.scores_at,
            here.found_at,
            here.scratch.address,
            here.error_at,
        )
        if status:
            check(status, here.error)
        found = here.found.value
        return Query(after, answer, here.ids[:found].tolist(), here.scores[:found].tolist())

    def start_cache(self, words: int) -> Block:
        """An empty cache of the last words."""
        cache, here = Block(int(self._library.rheo_cache_bytes(self._model, words))), self._here
        check(self._library.rheo_cache_start(self._model, cache.address, words, here.error_at), here.error)
        return cache

    def add_to_cache(self, position: Widths, cache: Block, state: Block, word: int) -> None:
        """Remember, in this cache, that a word followed the text of a state."""
        self._library.rheo_cache_add(self._model, position, cache.address, state.address, word)

    def mix_cache(
        self, position: Widths, cache: Block, state: Block, weight: float, sharpness: float, answer: Block
    ) -> None:
        """Mix a cache into the answer for a state."""
        here = self._here
        status = self._library.rheo_cache_mix(
            self._model, position, cache.address, state.address, weight, sharpness, answer.address, here.error_at
        )
        check(status, here.error)

    def best(self, answer: Block, k: int, choice: Choice = EVERYTHING) -> ScoredWords:
        """The k most probable words of the choice."""
        ids, scores = self.best_words(answer, k, choice)
        return ScoredWords(np.array(ids, np.int32), np.array(scores, np.float32))

    def best_words(self, answer: Block, k: int, choice: Choice = EVERYTHING) -> tuple[list[int], list[float]]:
        """The same as lists: words and their log p."""
        if self._lacks_threads:
            self._start_threads()
        self._check_choice(choice)
        here = self._here
        status = self._library.rheo_best(
            self._model, answer.address, choice, k, here.ids_at, here.scores_at, here.found_at, here.error_at
        )
        if status:
            check(status, here.error)
        found = here.found.value
        return here.ids[:found].tolist(), here.scores[:found].tolist()

    def _check_choice(self, choice: Choice) -> None:
        if choice.vocabulary_size is not None and choice.vocabulary_size != self.config.vocabulary_size:
            raise RheostatError(
                f"a mask of {choice.vocabulary_size} words was given; expected {self.config.vocabulary_size}"
            )

    def _copy(self, state: Block) -> Block:
        after = Block(self._state_bytes)
        ctypes.memmove(after.address, state.address, self._state_bytes)
        return after

    def log_probabilities(self, answer: Block) -> Floats:
        """log p of every word [V]."""
        if self._lacks_threads:
            self._start_threads()
        scores, here = np.empty(self.config.vocabulary_size, np.float32), self._here
        status = self._library.rheo_log_probabilities(self._model, answer.address, scores.ctypes.data, here.error_at)
        check(status, here.error)
        return scores

    def evaluate(
        self, position: Widths, state: Block, words: Sequence[int] | NDArray[Any]
    ) -> tuple[Block, Floats, Ids]:
        """Read all words but the last: the state, log p of each following word, and how many words were likelier."""
        if self._lacks_threads:
            self._start_threads()
        ids = np.ascontiguousarray(words, np.int32)
        count = len(ids) - 1
        after, here = self._copy(state), self._here
        scores, ranks = np.empty(count, np.float32), np.empty(count, np.int32)
        status = self._library.rheo_evaluate(
            self._model,
            position,
            after.address,
            ids.ctypes.data,
            count,
            scores.ctypes.data,
            ranks.ctypes.data,
            here.scratch.address,
            here.error_at,
        )
        check(status, here.error)
        return after, scores, ranks

    def executed_flops(self, answer: Block) -> int:
        """FLOPs of the query that an answer belongs to, with the clusters that were opened so far."""
        return 2 * int(self._library.rheo_executed(self._model, answer.address))

    def _read_config(self) -> Config:
        found = self._library.rheo_config_of(self._model).contents
        return Config(
            found.vocabulary_size,
            found.embedding_size,
            tuple(found.hidden_sizes[: found.layers]),
            tuple(found.windows[: found.layers]),
            tuple(found.cluster_start[: found.clusters + 1]),
            found.positions,
            bool(found.is_int8),
            found.bits,
            found.counts,
        )

    def _position(self, look_up: Any, asked: float) -> Widths:
        found, error = _Position(), ErrorText()
        check(look_up(self._model, asked, ctypes.byref(found), ctypes.byref(error)), error)
        layers, config = len(self.config.hidden_sizes), self.config
        bounds = tuple(found.bounds[: layers + 1])
        is_whole = bounds == (*config.hidden_sizes, config.vocabulary_size)
        return Widths(found.widths[:layers], found.cost, None if is_whole else bounds)


_with_threads: WeakSet[CoreModel] = WeakSet()


def _stop_pool(library: ctypes.CDLL, pool: ctypes.c_void_p, memory: Block) -> None:
    library.rheo_pool_stop(pool)
    assert memory.size  # stays until here


def _forget_threads() -> None:
    for model in list(_with_threads):
        model.forget_threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


def check(status: int, error: ErrorText) -> None:
    """Raise what C reports."""
    if status:
        kind = ModelFileError if status == BAD_FILE else RheostatError
        raise kind(error.text.decode())
