"""Perplexity and recall on the runtime, against plain arithmetic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models import TINY, make_weights, write_tiny
from rheostat import metrics
from rheostat.errors import CorpusError
from rheostat.metrics import stretch_size
from rheostat.model.file import open_model
from rheostat.model.operating_point import full_point
from rheostat.runtime.evaluation import RuntimeEvaluator
from rheostat.runtime.onnx.engine import graph_quality
from rheostat.runtime.onnx.session import GraphEngine

IDS = np.random.default_rng(5).integers(0, 11, 40)


@pytest.fixture(scope="module")
def engine() -> GraphEngine:
    return GraphEngine.build(make_weights(TINY["qrnn"]), TINY["qrnn"], "fp32", 1)


def test_every_token_but_the_first_is_predicted_once(engine: GraphEngine) -> None:
    state, losses, ranks = engine.initial_state(), [], []
    for token, target in zip(IDS[:-1].tolist(), IDS[1:].tolist(), strict=True):
        reading = engine.read(state, token)
        state, scores = reading.state, engine.look_up(reading)
        losses.append(-scores[target])
        ranks.append((scores > scores[target]).sum())
    quality = graph_quality(engine, IDS)
    assert quality.predictions == 39
    assert quality.loss == pytest.approx(np.mean(losses), abs=1e-5)
    assert quality.recall == {k: np.mean(np.array(ranks) < k) for k in (1, 3, 5)}


def test_the_length_of_a_stretch_changes_nothing(engine: GraphEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, shares = graph_quality(engine, IDS), list[float]()
    monkeypatch.setattr(metrics, "MOST_TOKENS", 7)
    apart = graph_quality(engine, IDS, shares.append)
    assert apart.loss == pytest.approx(whole.loss, abs=1e-6)
    assert apart.recall == whole.recall
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_a_large_vocabulary_takes_short_stretches() -> None:
    assert stretch_size(10_000) * 10_000 <= metrics.MOST_NUMBERS
    assert stretch_size(267_735) == 31
    assert stretch_size(11) == metrics.MOST_TOKENS
    assert stretch_size(2**30) == 1


def test_a_text_of_one_token_is_refused(engine: GraphEngine) -> None:
    with pytest.raises(CorpusError, match="expected at least two tokens"):
        graph_quality(engine, IDS[:1])


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-6), ("int8", 0.02)])
def test_points_of_a_file_are_measured_in_every_precision(tmp_path: Path, precision: Any, tolerance: float) -> None:
    with open_model(write_tiny(tmp_path / "model.safetensors")) as file:
        evaluator, exact = RuntimeEvaluator(file, precision, 1), RuntimeEvaluator(file, threads=1)
        for point in [full_point(file.shape), *file.points()]:
            assert evaluator.quality(point, IDS).loss == pytest.approx(exact.quality(point, IDS).loss, abs=tolerance)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_lazy_adaptive_softmax_has_the_same_quality_as_a_full_one(precision: Any) -> None:
    shape = TINY["qrnn"]
    engine = GraphEngine.build(make_weights(shape), shape, precision, 1)
    ids = np.random.default_rng(6).integers(0, shape.vocabulary_size, 300)
    lazy = graph_quality(engine, ids)
    whole = metrics.stream_quality(engine.log_probabilities, engine.initial_state(), 50, ids)
    assert lazy.loss == pytest.approx(whole.loss, abs=1e-5)
    assert lazy.recall == pytest.approx(whole.recall, abs=0.004)
