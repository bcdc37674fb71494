"""What perplexity and recall mean."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheostat.metrics import Quality, QualityCount, Scores, perplexity


def test_counts_of_blocks_add_up() -> None:
    count = QualityCount()
    for targets in ([0, 2, 4, 7], [3, 3, 3, 0]):  # words with larger numbers are less probable
        count.add(Scores(np.log(np.tile(0.5 ** np.arange(1, 9), (4, 1)))), np.array(targets))
    quality = count.quality()
    assert quality.perplexity == pytest.approx(2 ** (30 / 8))
    assert quality.recall == {1: 2 / 8, 3: 3 / 8, 5: 7 / 8}
    assert quality.as_json() == {
        "perplexity": pytest.approx(2 ** (30 / 8)),
        "recall_at_1": 0.25,
        "recall_at_3": 0.375,
        "recall_at_5": 0.875,
        "tokens": 8,
    }


def test_a_hopeless_loss_is_an_infinite_perplexity() -> None:
    assert perplexity(1e6) == math.inf
    assert Quality(1e6, {}, 1).perplexity == math.inf


@given(st.integers(0, 2**32), st.sampled_from([(5,), (1, 2), (3, 9, 20), (12, 13, 14, 25)]), st.floats(0.1, 20))
def test_clusters_are_opened_only_if_they_matter(seed: int, splits: tuple[int, ...], spread: float) -> None:
    random, words, rows = np.random.default_rng(seed), 30, 12

    def log_softmax(width: int) -> np.ndarray:
        scores = random.normal(scale=spread, size=(rows, width))
        return np.asarray(scores - np.log(np.exp(scores).sum(1, keepdims=True)))

    head = log_softmax(splits[0] + len(splits))
    widths = np.diff([*splits, words])
    tails = [log_softmax(width) + head[:, splits[0] + tail, None] for tail, width in enumerate(widths)]
    whole, targets = np.concatenate([head[:, : splits[0]], *tails], axis=1), random.integers(0, words, rows)
    own = whole[np.arange(rows), targets]

    def open_tail(tail: int, chosen: np.ndarray) -> np.ndarray:
        outside = (targets < splits[tail]) | (targets >= [*splits, words][tail + 1])
        assert not (chosen & outside & (head[:, splits[0] + tail] <= own)).any()
        return np.asarray(tails[tail][chosen])

    lazy, eager = QualityCount(), QualityCount()
    lazy.add(Scores(head, splits, open_tail), targets)
    eager.add(Scores(whole), targets)
    assert lazy.quality() == eager.quality()
