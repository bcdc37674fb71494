"""Splits for the query: the cheapest there are under the stated model, quickly, for any counts."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheostat.splits import ASKING, expected_multiplications, opening_probability, query_splits

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


def test_a_cluster_is_opened_the_more_often_the_more_of_the_text_it_has() -> None:
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
