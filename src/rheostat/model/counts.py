"""Counts: a small n-gram model in a model file, mixed into what the network says.

Each order n has rows of n words, ascending, and for each row a share d: the discounted frequency of its last word after
the others, as a level (d = exp(-level / 16)). From the shortest context to the longest that has rows,

    q_1 = p of the network      q_n(w) = a_n d(w | context) + (1 - a_n Σ d) q_{n-1}(w)

a_n is the weight of order n, from a table by the share of the cost. Knows rows, levels and weights;
core/mixing.c does the same in C, `measure.counting` makes them from text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rheostat.model.container import problem
from rheostat.model.names import COUNTS_COST, COUNTS_WEIGHT, counts_levels, counts_rows

LEVELS_PER_NAT = 16
LARGEST_SUM = 0.999  # of a_n Σ d: the network keeps a share of every answer
SMALLEST_ORDER, LARGEST_ORDER = 2, 4
MOST_COSTS = 64  # entries of the table
MOST_WORDS = 1 << 16

Rows: TypeAlias = NDArray[np.uint16]
Levels: TypeAlias = NDArray[np.uint8]

_AGAIN = "count again: rheostat count"


@dataclass(frozen=True, eq=False)
class Counts:
    """rows: by order from 2, [n, order] ascending; an order may have none. levels: of each row.

    costs: shares of the cost, descending. weights: [costs, orders] of each order at each cost.
    """

    rows: tuple[Rows, ...]
    levels: tuple[Levels, ...]
    costs: NDArray[np.float32]
    weights: NDArray[np.float32]

    @property
    def order(self) -> int:
        """The length of the longest n-grams."""
        return len(self.rows) + 1

    @property
    def size_bytes(self) -> int:
        return sum(array.nbytes for array in counts_tensors(self).values())

    def weights_at(self, cost: float) -> NDArray[np.float64]:
        """The weight of each order at a cost: between the two nearest entries of the table."""
        costs, weights = self.costs[::-1].astype(float), self.weights[::-1].astype(float)
        return np.array([np.interp(np.float32(cost), costs, column) for column in weights.T])

    def after(self, order: int, context: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The words that have a row after the last words of a context, and their shares."""
        rows, words = self.rows[order - 2], np.asarray(context[len(context) - order + 1 :], np.int64)
        if len(words) < order - 1:
            return np.empty(0, np.int64), np.empty(0)
        keys = row_keys(rows[:, :-1])
        wanted = row_keys(words[None].astype(np.uint16))[0]
        first, last = np.searchsorted(keys, wanted, "left"), np.searchsorted(keys, wanted, "right")
        return rows[first:last, -1].astype(np.int64), share_of(self.levels[order - 2][first:last])

    def mix(self, probabilities: NDArray[np.floating[Any]], context: Sequence[int], cost: float) -> NDArray[np.float64]:
        """p of every word [V] with the counts mixed in. This is the definition that the core is tested against."""
        mixed = np.asarray(probabilities, np.float64).copy()
        weights = self.weights_at(cost)
        for order in range(SMALLEST_ORDER, self.order + 1):
            words, shares = self.after(order, context)
            weight, total = weights[order - 2], shares.sum()
            weight = min(weight, LARGEST_SUM / total) if total else weight
            mixed *= 1 - weight * total
            mixed[words] += weight * shares
        return mixed

    def check(self, vocabulary_size: int) -> None:
        """Raise ModelFileError unless these are counts of a model with that many words."""
        for place, (rows, levels) in enumerate(zip(self.rows, self.levels, strict=True)):
            order = place + SMALLEST_ORDER
            keys = row_keys(rows)
            if len(rows) != len(levels) or (keys[1:] <= keys[:-1]).any():
                raise problem(f"n-grams of {order} words that are not ascending", "each once, ascending", _AGAIN)
            if len(rows) and int(rows.max()) >= vocabulary_size:
                raise problem(f"the word {int(rows.max())} in counts", f"ids below {vocabulary_size}", _AGAIN)
        costs, weights = self.costs, self.weights
        if not ((costs > 0) & (costs <= 1)).all() or (np.diff(costs) >= 0).any():
            raise problem("costs of counts that do not descend", "shares from 1 down, above 0", _AGAIN)
        if not ((weights >= 0) & (weights <= 1)).all():
            raise problem("a weight of counts beyond 0 to 1", "shares", _AGAIN)


def level_of(shares: NDArray[np.floating[Any]]) -> Levels:
    """Shares as levels, rounded down, so that their sum never grows."""
    levels = np.ceil(-np.log(np.maximum(shares, 1e-30)) * LEVELS_PER_NAT - 1e-9)
    return np.asarray(np.clip(levels, 0, 255), np.uint8)


def share_of(levels: Levels) -> NDArray[np.float64]:
    return np.exp(-levels.astype(np.float64) / LEVELS_PER_NAT)


def row_keys(rows: Rows) -> NDArray[np.uint64]:
    """One number per row, in the order of the rows; up to four words fit 64 bits."""
    keys = np.zeros(len(rows), np.uint64)
    for column in rows.T:
        keys = keys << np.uint64(16) | column.astype(np.uint64)
    return keys


def counts_tensors(counts: Counts | None) -> dict[str, NDArray[Any]]:
    """The tensors that hold counts; none without."""
    if counts is None:
        return {}
    tensors: dict[str, NDArray[Any]] = {COUNTS_COST: counts.costs, COUNTS_WEIGHT: counts.weights}
    for place, (rows, levels) in enumerate(zip(counts.rows, counts.levels, strict=True)):
        if len(rows):
            tensors |= {counts_rows(place + SMALLEST_ORDER): rows, counts_levels(place + SMALLEST_ORDER): levels}
    return tensors


def counts_of_tensors(tensors: Mapping[str, NDArray[Any]]) -> Counts:
    """The counts that these tensors hold; orders without rows are empty."""
    orders = range(SMALLEST_ORDER, tensors[COUNTS_WEIGHT].shape[1] + SMALLEST_ORDER)
    rows = (tensors.get(counts_rows(order), np.empty((0, order), np.uint16)) for order in orders)
    levels = (tensors.get(counts_levels(order), np.empty(0, np.uint8)) for order in orders)
    return Counts(tuple(rows), tuple(levels), tensors[COUNTS_COST], tensors[COUNTS_WEIGHT])
