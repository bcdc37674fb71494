"""What a caller of the core holds and hands to it: memory, positions, choices; and what it gets back.

C allocates nothing, so states, answers and workspaces are blocks that belong to the caller.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rheostat.core.library import MAX_LAYERS, ChoiceStruct, PositionStruct
from rheostat.errors import NotCopyable, RheostatError

ALIGNMENT = 64  # more than the RHEO_ALIGNMENT that C asks for: parts then begin with cache lines
EVERY_ROW = 2**31 - 1  # a bit bound above all rows
SPARE_ANSWERS = 4  # whose memory is kept for the next ones

Ids: TypeAlias = NDArray[np.int32]
Floats: TypeAlias = NDArray[np.float32]


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

    lock: held by who looks into the answer. Looking opens clusters of an adaptive softmax, and so changes it.
    """

    __slots__ = ("_spare", "lock")

    def __init__(self, size: int, spare: list[tuple[NDArray[np.uint8], int]]) -> None:
        self._spare, self.lock = spare, threading.Lock()
        try:
            self._room, self.address = spare.pop()
            self.size = size
        except IndexError:
            super().__init__(size)

    def __del__(self) -> None:
        if len(self._spare) < SPARE_ANSWERS:
            self._spare.append((self._room, self.address))


_WidthsArray, _BoundsArray = ctypes.c_int32 * MAX_LAYERS, ctypes.c_int32 * (MAX_LAYERS + 1)


class Widths:
    """One width per layer and the bit bounds, ready to be handed to C.

    bounds: how many filters of each layer, then how many words, are read in 8 bits; the others in 4. None: all.
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
        self.widths = tuple(map(int, widths))
        self.bounds = None if bounds is None else tuple(map(int, bounds))
        self.cost = cost
        in_8_bits = (EVERY_ROW,) * (layers + 1) if self.bounds is None else self.bounds
        position = PositionStruct(
            _WidthsArray(*self.widths), _BoundsArray(*in_8_bits), 1.0 if cost is None else cost, cost is None
        )
        self._as_parameter_ = ctypes.byref(position)


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
            ChoiceStruct(
                None if self._mask is None else self._mask.ctypes.data,
                prefix,
                0 if prefix is None else len(prefix),
                None if self._candidates is None else self._candidates.ctypes.data,
                0 if self._candidates is None else len(self._candidates),
            )
        )

    @classmethod
    def from_ids(cls, address: int, count: int) -> Choice:
        """`count` int32 ids at an address, which the caller keeps."""
        choice = cls.__new__(cls)
        choice.vocabulary_size = None
        choice._as_parameter_ = ctypes.byref(ChoiceStruct(None, None, 0, address, count))
        return choice


EVERYTHING = Choice()


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


class Query(NamedTuple):
    """The state and the answer after one more word, and the k best words with their log p."""

    state: Block
    answer: Answer
    words: list[int]
    log_probabilities: list[float]
