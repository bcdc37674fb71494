"""The states of texts already read: one more word costs one step, and deleting words costs none.

Knows sequences of ids and how many bytes a state takes; does not know what a state is. States of different operating
points must not mix, so each point has its own history.

A text is found by the hashes of its prefixes and then compared id by id: a collision can lose a state but never returns
a wrong one. The hashes of a text that grew by a word are those of the text before and one more.

The next word of a text needs its newest state. Once the text continues, the older state is needed again only if words
are deleted or another text begins the same way; until then it is *spare*. Spare states are dropped first, then the
least recently used.
"""

from __future__ import annotations

import random
import sys
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

State = TypeVar("State")
TokenIds: TypeAlias = Sequence[int] | NDArray[np.integer[Any]]

DEFAULT_LIMIT_BYTES = 64 << 20
ENTRY_BYTES = 512  # Python's overhead per entry, rounded up
_ID_BYTES = 4
_HASH_MASK = 2**64 - 1
# A state counts as abandoned if it was not used while this many times the number of all states were added. Without
# this rule, the last states of abandoned texts would slowly take up the memory of spare states.
_ROUNDS_UNTIL_ABANDONED = 8


class Found(NamedTuple, Generic[State]):
    """The length of the longest known prefix of a text, and the state after it; (0, None) if there is none."""

    length: int
    state: State | None


@dataclass(slots=True)
class _Entry(Generic[State]):
    ids: bytes  # int32
    state: State
    size_bytes: int
    last_used: int  # the number of puts at that time
    continued: bool = False


class History(Generic[State]):
    """States by text (ids), bounded in bytes; safe to use from several threads."""

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        # By hash, least recently used first.
        self._recent: OrderedDict[int, _Entry[State]] = OrderedDict()
        self._spare: OrderedDict[int, _Entry[State]] = OrderedDict()
        self._size_bytes = 0
        self._puts = 0
        self._last: tuple[list[int], list[int], bytes] = ([], [], b"")  # ids, hashes of their prefixes, ids as bytes
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._recent) + len(self._spare)

    @property
    def size_bytes(self) -> int:
        """Memory of all entries, including ids and bookkeeping; never above `limit_bytes`."""
        return self._size_bytes

    def longest(self, ids: TokenIds) -> Found[State]:
        """The longest prefix of a text, perhaps all of it, whose state is known."""
        hashes, data = self._keys(ids)
        with self._lock:
            length = self._longest(hashes, data, len(hashes))
            if not length:
                return Found(0, None)
            return Found(length, self._use(hashes[length - 1]).state)

    def put(self, ids: TokenIds, state: State, size_bytes: int) -> None:
        """Keep the state after a text, unless the text is empty or the state alone exceeds the limit.

        size_bytes: of everything that stays in memory with the state; for a view, that is the whole base array.
        """
        if not len(ids):
            return
        hashes, data = self._keys(ids)
        size_bytes += len(data) + ENTRY_BYTES
        with self._lock:
            self._puts += 1
            self._remove(hashes[-1])
            if size_bytes > self.limit_bytes:
                return
            if before := self._longest(hashes, data, len(hashes) - 1):
                self._make_spare(hashes[before - 1])
            self._recent[hashes[-1]] = _Entry(data, state, size_bytes, self._puts)
            self._size_bytes += size_bytes
            while self._size_bytes > self.limit_bytes:
                self._remove(self._least_needed())

    def _keys(self, ids: TokenIds) -> tuple[list[int], bytes]:
        """The hashes of all prefixes of a text, and its ids as bytes.

        Texts mostly grow by a word: only what follows the last text asked for is computed then.
        """
        last_ids, hashes, data = self._last
        count = len(last_ids)
        if isinstance(ids, list) and ids[:count] == last_ids:
            new = ids[count:]
            if new:
                hashes, total = hashes.copy(), hashes[-1] if hashes else 0
                for token, multiplier in zip(new, _multipliers_of(len(ids))[count:].tolist(), strict=True):
                    total = (total + (token + 1) * multiplier) & _HASH_MASK
                    hashes.append(total)
                data += b"".join(token.to_bytes(_ID_BYTES, sys.byteorder, signed=True) for token in new)
        else:
            array = _as_array(ids)
            hashes, data = prefix_hashes(array).tolist(), array.tobytes()
        if isinstance(ids, list):
            self._last = ids.copy(), hashes, data  # replaced as a whole: another thread sees the old or the new one
        return hashes, data

    def clear(self) -> None:
        """Forget all texts."""
        with self._lock:
            self._recent.clear()
            self._spare.clear()
            self._size_bytes = 0

    def _longest(self, hashes: list[int], data: bytes, length: int) -> int:
        """The length of the longest known prefix of at most `length` ids; 0 if there is none."""
        recent, spare = self._recent, self._spare
        while length:
            entry = recent.get(hashes[length - 1]) or spare.get(hashes[length - 1])
            if entry and len(entry.ids) == length * _ID_BYTES and data.startswith(entry.ids):
                return length
            length -= 1
        return 0

    def _use(self, key: int) -> _Entry[State]:
        if key in self._spare:
            self._recent[key] = self._spare.pop(key)
        self._recent.move_to_end(key)
        entry = self._recent[key]
        entry.last_used = self._puts
        return entry

    def _make_spare(self, key: int) -> None:
        """Make a state spare the first time its text continues. If it continues again, several texts begin with it."""
        entry = self._recent.get(key)
        if entry and not entry.continued:
            entry.continued = True
            self._spare[key] = self._recent.pop(key)

    def _least_needed(self) -> int:
        oldest = next(iter(self._recent))  # never empty: it has the entry that was put last
        abandoned = self._puts - self._recent[oldest].last_used > _ROUNDS_UNTIL_ABANDONED * len(self)
        return oldest if abandoned or not self._spare else next(iter(self._spare))

    def _remove(self, key: int) -> None:
        entry = self._recent.pop(key, None) or self._spare.pop(key, None)
        if entry:
            self._size_bytes -= entry.size_bytes


# --- hashes ------------------------------------------------------------------------------------------------


def _as_array(ids: TokenIds) -> NDArray[np.int32]:
    return np.ascontiguousarray(ids, np.int32)


_multipliers = np.empty(0, np.uint64)


def prefix_hashes(ids: NDArray[np.int32]) -> NDArray[np.uint64]:
    """[n] hashes of the first 1, 2, … n ids: the sum, modulo 2**64, of each id times a multiplier of its position."""
    # Plus one, so an id of 0 counts too.
    return np.cumsum((ids.astype(np.uint64) + np.uint64(1)) * _multipliers_of(len(ids)), dtype=np.uint64)


def _multipliers_of(length: int) -> NDArray[np.uint64]:
    """Random numbers from a fixed seed: a longer list starts with the shorter one."""
    global _multipliers
    numbers = _multipliers
    if len(numbers) < length:
        # Not NumPy's: importing its generators takes as long as several queries, and megabytes.
        numbers = np.frombuffer(random.Random(0).randbytes(8 * max(1024, 2 * length)), np.uint64)
        _multipliers = numbers
    return numbers[:length]
