"""Where to split a vocabulary for an adaptive softmax, so that a query is as fast as possible on the lazy runtime.

A query always computes the head, and a tail cluster only if it could hold one of the three best words. Its expected
time, counted in multiplications, is therefore

    width · (words of the head + tails)  +  Σ over tails: asking + P(opened) · width · words of the cluster

Before training, only word counts are known, so P(opened) is modelled from the cluster's mass m, its share of the text:
P = 1 / (1 + (HALF_OPEN / m) ^ STEEPNESS). This is a logistic curve in log m, and the queries of a trained model follow
it closely: it was fitted to 3,000 queries of ptb-qrnn on the Penn Treebank test text, for clusters of every size from
word 100 on, as if its softmax were split there. Once a model is trained, P(opened) can be counted (`opening_rates`) and
passed to `cheapest_splits` instead of the modelled curve.

Knows counts and sizes; knows nothing of words, files or models.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

HALF_OPEN = 0.065  # a cluster with this share of the text is opened by half of the queries
STEEPNESS = 1.8
ASKING = 200_000  # cost of checking whether a cluster can stay closed, in multiplications
MOST_TAILS = 16
PLACES = 400  # how many places for a split are tried, evenly spaced in the logarithm of the rank

Reals = NDArray[np.float64]


def opening_probability(mass: Reals) -> Reals:
    """The probability that a query opens a cluster with this share of the text."""
    with np.errstate(divide="ignore"):
        odds_against = (HALF_OPEN / np.maximum(mass, 0)) ** STEEPNESS
    return np.asarray(1 / (1 + odds_against))


def opening_rates(mass_before: Reals, threshold: Reals) -> Reals:
    """[first, last]: the share of queries that open a cluster between two places.

    mass_before: for each query, the probability of all words before each place [N, P]. threshold: for each query, the
    probability that a cluster must exceed to be opened [N].
    """
    opened = np.zeros((mass_before.shape[1],) * 2)
    for before, least in zip(mass_before, threshold, strict=True):
        opened += before[None, :] - before[:, None] > least
    return np.asarray(opened / len(threshold))


def query_splits(counts: Sequence[int] | NDArray[np.integer], width: int, tails: int) -> tuple[int, ...]:
    """The first word of each of `tails` tail clusters, chosen for the lowest expected cost of a query.

    counts: how often each word occurs, in descending order. width: columns of the output layer.
    """
    if not 1 <= tails <= min(MOST_TAILS, len(counts) - 1):
        raise ValueError(
            f"{tails} tail clusters for {len(counts)} words; expected 1 to {MOST_TAILS}, with at least one word in each"
        )
    places = split_places(len(counts))
    return cheapest_splits(places, _modelled(counts, places), width, tails)


def cheapest_splits(
    places: NDArray[np.int64],
    opened: Reals,
    width: int,
    tails: int | None = None,
    bounds: Sequence[int] = (),
    least_head: int = 1,
) -> tuple[int, ...]:
    """The first word of each tail cluster. Without `tails`, the number that makes a query cheapest, possibly none.

    opened: the probability that a query opens a cluster between two places. bounds: places that neither a cluster nor
    the head may cross. least_head: the fewest words in the head.
    """
    costs = _tail_costs(opened, width, places)
    head = np.where(places >= least_head, width * places.astype(float), np.inf)
    for bound in bounds:
        costs[np.ix_(places < bound, places > bound)] = np.inf
        head[places > bound] = np.inf
    rest = np.where(np.arange(len(places)) < len(places) - 1, np.inf, 0.0)  # cost of all words from a place on
    following: list[NDArray[np.int64]] = []
    best = np.inf if bounds else float(head[-1])
    chosen: tuple[int, ...] = ()
    for count in range(1, min(tails or MOST_TAILS, len(places) - 1) + 1):
        totals = costs + rest
        following.append(totals.argmin(axis=1))
        rest = totals.min(axis=1)
        place = int((head + rest).argmin())
        if count == tails or (tails is None and head[place] + rest[place] < best):
            best, chosen = head[place] + rest[place], _walk(places, following, place)
    return chosen


def _walk(places: NDArray[np.int64], following: Sequence[NDArray[np.int64]], place: int) -> tuple[int, ...]:
    """The places where clusters begin, in order."""
    chosen = []
    for after in reversed(following):
        chosen.append(int(places[place]))
        place = int(after[place])
    return tuple(chosen)


def split_places(words: int, bounds: Sequence[int] = ()) -> NDArray[np.int64]:
    """Ranks where a cluster may begin, then the end of the vocabulary. For a small vocabulary, every rank.

    bounds: ranks to include.
    """
    if words <= PLACES:
        return np.arange(1, words + 1)
    return np.unique([*np.geomspace(1, words, PLACES).round().astype(np.int64), *bounds])


def _modelled(counts: Sequence[int] | NDArray[np.integer], bounds: NDArray[np.integer]) -> Reals:
    """[first, last]: the probability that a cluster between two bounds is opened, from its share of the text."""
    sums = np.concatenate([[0.0], np.cumsum(np.asarray(counts, np.float64))])
    shares = (sums / max(sums[-1], 1))[bounds]
    return opening_probability(shares[None, :] - shares[:, None])


def _tail_costs(opened: Reals, width: int, bounds: NDArray[np.integer]) -> Reals:
    """[first, last]: the expected cost of a tail cluster between two bounds, including the check."""
    first, last = bounds[:, None], bounds[None, :]
    costs = ASKING + width * (1 + opened * (last - first))
    return np.where(last > first, costs, np.inf)
