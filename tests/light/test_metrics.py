"""What perplexity and recall mean."""

from __future__ import annotations

import math

import pytest

from rheostat.metrics import Quality, QualityCount, perplexity


def test_counts_of_blocks_add_up() -> None:
    count = QualityCount()
    count.add(4 * math.log(2), {1: 1, 3: 2, 5: 3}, 4)
    count.add(4 * math.log(8), {1: 0, 3: 1, 5: 4}, 4)
    quality = count.quality()
    assert quality.perplexity == pytest.approx(4.0)  # the geometric mean of 2 and 8
    assert quality.recall == {1: 1 / 8, 3: 3 / 8, 5: 7 / 8}
    assert quality.as_json() == {
        "perplexity": pytest.approx(4.0),
        "recall_at_1": 0.125,
        "recall_at_3": 0.375,
        "recall_at_5": 0.875,
        "tokens": 8,
    }


def test_a_hopeless_loss_is_an_infinite_perplexity() -> None:
    assert perplexity(1e6) == math.inf
    assert Quality(1e6, {}, 1).perplexity == math.inf
