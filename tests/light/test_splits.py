"""Softmax splits: the cheapest under the documented model, found quickly, for any counts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheostat.model.clusters import (
    ASKING,
    cheapest_splits,
    opening_probability,
    opening_rates,
    query_splits,
    split_places,
)


def expected_multiplications(counts: Sequence[int], width: int, splits: Sequence[int]) -> float:
    """The expected cost of a query: the head with a row per tail, and each tail as often as it is opened."""
    total, bounds = max(sum(counts), 1), [*splits, len(counts)]
    cost = float(width * (splits[0] + len(splits)))
    for first, last in pairwise(bounds):
        share = np.array([sum(counts[first:last]) / total])
        cost += ASKING + float(opening_probability(share)[0]) * width * (last - first)
    return cost


ZIPF = [round(1e7 / rank) for rank in range(1, 267_736)]


@given(st.lists(st.integers(0, 10**6), min_size=4, max_size=12), st.integers(1, 3), st.sampled_from([400, 200_000]))
def test_no_other_splits_are_cheaper(counts: list[int], tails: int, width: int) -> None:
    counts = sorted(counts, reverse=True)
    found = query_splits(counts, width, tails)
    others = combinations(range(1, len(counts)), tails)
    cheapest = min(expected_multiplications(counts, width, splits) for splits in others)
    assert expected_multiplications(counts, width, found) == pytest.approx(cheapest)


def test_cost_of_a_hand_computed_example() -> None:
    counts = [87, 8, 3, 2]  # the tail has 13 % of the text
    opened = 1 / (1 + 0.5**1.8)
    expected = 10 * (1 + 1) + ASKING + opened * 10 * 3
    assert expected_multiplications(counts, 10, [1]) == pytest.approx(expected)


def test_a_cluster_with_more_of_the_text_is_opened_more_often() -> None:
    found = opening_probability(np.array([0, 0.01, 0.065, 0.3, 1]))
    assert found[0] == 0
    assert found[2] == pytest.approx(0.5)
    assert (np.diff(found) > 0).all()
    assert found[-1] < 1


def test_more_tails_of_a_large_vocabulary_make_a_query_cheaper() -> None:
    costs = [expected_multiplications(ZIPF, 400, query_splits(ZIPF, 400, tails)) for tails in (1, 2, 3)]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < 400 * len(ZIPF) / 2


def test_splits_ascend_and_leave_a_word_in_every_cluster() -> None:
    assert query_splits([5, 5, 5, 5], 4, 3) == (1, 2, 3)
    assert query_splits([0, 0, 0], 4, 2) == (1, 2)


@pytest.mark.parametrize("tails", [0, 3, 17])
def test_an_impossible_number_of_tails_is_refused(tails: int) -> None:
    with pytest.raises(ValueError, match="tail clusters for 3 words; expected 1 to 16"):
        query_splits([3, 2, 1], 4, tails)


def test_measured_rates_replace_the_model() -> None:
    """Two queries: one gives the last two words no probability, the other opens the cluster of the last word."""
    places = split_places(4)
    mass_before = np.array([[0.5, 0.9, 1.0, 1.0], [0.1, 0.2, 0.3, 1.0]])
    rates = opening_rates(mass_before, np.array([0.05, 0.15]))
    assert rates[0].tolist() == [0, 0.5, 1, 1]
    assert rates[2].tolist() == [0, 0, 0, 0.5]
    assert cheapest_splits(places, rates, 10**6, 1) == (3,)  # half of the last word, rather than all of two


def test_the_number_of_clusters_weighs_the_cost_of_checking_them() -> None:
    places, never = split_places(4), np.zeros((4, 4))
    assert (
        len(cheapest_splits(places, never, 10**9)) == 1
    )  # one cluster is never opened, and two would only cost more checks
    some = 1 - np.eye(4, k=1)  # clusters between neighbours are never opened, longer ones always
    assert cheapest_splits(10 * places, some, 10**9) == (10, 20, 30)
    assert cheapest_splits(10 * places, some, 10**3) == ()  # a check costs more than all words


def test_nothing_is_split_if_checking_costs_more_than_all_words() -> None:
    places, never = split_places(12), np.zeros((12, 12))
    assert cheapest_splits(places, never, 10) == ()
    assert cheapest_splits(places, never, 10, 1) == (1,)
    assert cheapest_splits(places, never, 10, 1, least_head=3) == (3,)


def test_no_cluster_crosses_a_bound() -> None:
    places, rates = split_places(12), np.zeros((12, 12))
    assert cheapest_splits(places, rates, 10**6, bounds=(5, 8)) == (1, 5, 8)
    assert cheapest_splits(places, rates, 4, bounds=(5, 8)) == (5, 8)  # one more is not worth its check
    assert cheapest_splits(places, rates, 4, 2, bounds=(5,)) == (1, 5)
    assert set(split_places(10_000, (77, 7777))) >= {77, 7777, 10_000}
