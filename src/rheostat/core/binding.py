"""The core from Python, by ctypes: thin, typed, and without the GIL while C runs.

A `CoreModel` is opened on the bytes of an ordered model file and may be used from several threads. States and answers
are plain NumPy arrays that belong to the caller. Knows ids and numbers; knows nothing of texts or policies.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rheostat.core.build import FOLDER, REMEDY, library_name
from rheostat.errors import ModelFileError, RheostatError

MAX_LAYERS = 16  # RHEO_MAX_LAYERS
MAX_CLUSTERS = 64  # RHEO_MAX_CLUSTERS
MAX_BEST = 1024  # RHEO_MAX_BEST
ALIGNMENT = 64  # more than the RHEO_ALIGNMENT that C asks for: parts then begin with cache lines
BAD_FILE = 1  # RHEO_BAD_FILE

Memory: TypeAlias = NDArray[np.uint8]
Ids: TypeAlias = NDArray[np.int32]
Floats: TypeAlias = NDArray[np.float32]


class _Error(ctypes.Structure):
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
    ]


class _Position(ctypes.Structure):
    _fields_ = [("widths", ctypes.c_int32 * MAX_LAYERS), ("cost", ctypes.c_float)]


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
    """The sizes of an open model. positions: of its path."""

    vocabulary_size: int
    embedding_size: int
    hidden_sizes: tuple[int, ...]
    windows: tuple[int, ...]
    cluster_start: tuple[int, ...]
    positions: int
    is_int8: bool


class Best(NamedTuple):
    """The most probable words, best first."""

    ids: Ids
    log_probabilities: Floats


class Position:
    """One width per layer, ready to be handed to C."""

    def __init__(self, widths: Sequence[int], cost: float = 1.0) -> None:
        if not 1 <= len(widths) <= MAX_LAYERS:
            raise RheostatError(f"a position of {len(widths)} widths was given; expected one per layer")
        self.widths = tuple(int(width) for width in widths)
        self.cost = cost
        self._as_parameter_ = ctypes.byref(_Position((ctypes.c_int32 * MAX_LAYERS)(*self.widths), cost))


_POINTER, _SIZE, _INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "rheo_workspace_bytes": (_INT, [_POINTER, _SIZE, _POINTER, _POINTER]),
    "rheo_open": (_INT, [_POINTER, _POINTER, _SIZE, _POINTER, _SIZE, ctypes.c_char_p, _POINTER]),
    "rheo_config_of": (ctypes.POINTER(_Config), [_POINTER]),
    "rheo_kernel_of": (ctypes.c_char_p, [_POINTER]),
    "rheo_kernel_name": (ctypes.c_char_p, [_INT]),
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
    "rheo_best": (_INT, [_POINTER, _POINTER, _POINTER, _INT, _POINTER, _POINTER, _POINTER, _POINTER]),
    "rheo_log_probabilities": (_INT, [_POINTER, _POINTER, _POINTER, _POINTER]),
    "rheo_executed": (ctypes.c_int64, [_POINTER, _POINTER]),
}


@cache
def load_library(path: Path | None = None) -> ctypes.CDLL:
    """The shared library of the package, or another build of it."""
    path = path or FOLDER / library_name()
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
    library, found = library or load_library(), []
    while name := library.rheo_kernel_name(len(found)):
        found.append(name.decode())
    return found


def _memory(size: int) -> Memory:
    """Bytes that begin at a cache line."""
    room = np.empty(size + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return room[start : start + size]


class CoreModel:
    """A model that C has opened on `file`, the bytes of an ordered model file, which are kept and never copied."""

    def __init__(self, file: Any, kernel: str | None = None, library: ctypes.CDLL | None = None) -> None:
        self._library = library or load_library()
        self._file = np.frombuffer(file, np.uint8)
        error, needed, model = _Error(), ctypes.c_size_t(), ctypes.c_void_p()
        address, size = self._file.ctypes.data, len(self._file)
        name = None if kernel is None else kernel.encode()
        self._check(self._library.rheo_workspace_bytes(address, size, ctypes.byref(needed), ctypes.byref(error)), error)
        self._workspace = _memory(needed.value)
        self._check(
            self._library.rheo_open(
                ctypes.byref(model), address, size, self._workspace.ctypes.data, needed.value, name, ctypes.byref(error)
            ),
            error,
        )
        self._model = model
        self._state_bytes = int(self._library.rheo_state_bytes(model))
        self._answer_bytes = int(self._library.rheo_answer_bytes(model))
        self._scratch = threading.local()
        self.config = self._read_config()
        self.kernel: str = self._library.rheo_kernel_of(model).decode()

    @property
    def workspace_bytes(self) -> int:
        """What opening took beside the file."""
        return len(self._workspace)

    def full_position(self) -> Position:
        return Position(self.config.hidden_sizes)

    def position_at(self, number: int) -> Position:
        """A position of the file's path, the most expensive one first."""
        return self._position(self._library.rheo_position_at, number)

    def position_near(self, share: float) -> Position:
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

    def start(self) -> Memory:
        """The state before the text starts."""
        state = _memory(self._state_bytes)
        self._library.rheo_start(self._model, state.ctypes.data)
        return state

    def step(self, position: Position, state: Memory, word: int) -> Memory:
        """The state after one more word."""
        after, error = state.copy(), _Error()
        status = self._library.rheo_step(
            self._model, position, after.ctypes.data, word, self._room(), ctypes.byref(error)
        )
        self._check(status, error)
        return after

    def steps(self, position: Position, state: Memory, words: Sequence[int] | NDArray[Any]) -> Memory:
        """The state after many words: the same bits as one by one, sooner."""
        after, error = state.copy(), _Error()
        ids = np.ascontiguousarray(words, np.int32)
        status = self._library.rheo_steps(
            self._model, position, after.ctypes.data, ids.ctypes.data, len(ids), self._room(), ctypes.byref(error)
        )
        self._check(status, error)
        return after

    def predict(self, position: Position, state: Memory) -> Memory:
        """An answer: how probable every next word is."""
        answer, error = _memory(self._answer_bytes), _Error()
        status = self._library.rheo_predict(
            self._model, position, state.ctypes.data, answer.ctypes.data, ctypes.byref(error)
        )
        self._check(status, error)
        return answer

    def best(
        self,
        answer: Memory,
        k: int,
        *,
        mask: NDArray[np.bool_] | NDArray[np.uint8] | None = None,
        prefix: bytes | None = None,
        candidates: Ids | None = None,
    ) -> Best:
        """The k most probable words: of all, of those a mask allows, of those with a prefix, of a list."""
        ids, scores = np.empty(k, np.int32), np.empty(k, np.float32)
        found, error = ctypes.c_int32(), _Error()
        choice = _Choice(
            None if mask is None else mask.ctypes.data,
            prefix,
            0 if prefix is None else len(prefix),
            None if candidates is None else candidates.ctypes.data,
            0 if candidates is None else len(candidates),
        )
        status = self._library.rheo_best(
            self._model,
            answer.ctypes.data,
            ctypes.byref(choice),
            k,
            ids.ctypes.data,
            scores.ctypes.data,
            ctypes.byref(found),
            ctypes.byref(error),
        )
        self._check(status, error)
        return Best(ids[: found.value], scores[: found.value])

    def log_probabilities(self, answer: Memory) -> Floats:
        """log p of every word [V]."""
        scores, error = np.empty(self.config.vocabulary_size, np.float32), _Error()
        status = self._library.rheo_log_probabilities(
            self._model, answer.ctypes.data, scores.ctypes.data, ctypes.byref(error)
        )
        self._check(status, error)
        return scores

    def evaluate(
        self, position: Position, state: Memory, words: Sequence[int] | NDArray[Any]
    ) -> tuple[Memory, Floats, Ids]:
        """Read all words but the last: the state, log p of each following word, and how many words were likelier."""
        ids = np.ascontiguousarray(words, np.int32)
        count = len(ids) - 1
        after, error = state.copy(), _Error()
        scores, ranks = np.empty(count, np.float32), np.empty(count, np.int32)
        status = self._library.rheo_evaluate(
            self._model,
            position,
            after.ctypes.data,
            ids.ctypes.data,
            count,
            scores.ctypes.data,
            ranks.ctypes.data,
            self._room(),
            ctypes.byref(error),
        )
        self._check(status, error)
        return after, scores, ranks

    def executed_flops(self, answer: Memory) -> int:
        """FLOPs of the query that an answer belongs to, with the clusters that were opened so far."""
        return 2 * int(self._library.rheo_executed(self._model, answer.ctypes.data))

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
        )

    def _position(self, look_up: Any, asked: float) -> Position:
        found, error = _Position(), _Error()
        self._check(look_up(self._model, asked, ctypes.byref(found), ctypes.byref(error)), error)
        return Position(found.widths[: len(self.config.hidden_sizes)], found.cost)

    def _room(self) -> int:
        """The scratch of this thread."""
        if not hasattr(self._scratch, "room"):
            self._scratch.room = _memory(int(self._library.rheo_scratch_bytes(self._model)))
        return int(self._scratch.room.ctypes.data)

    @staticmethod
    def _check(status: int, error: _Error) -> None:
        if status:
            kind = ModelFileError if status == BAD_FILE else RheostatError
            raise kind(error.text.decode())
