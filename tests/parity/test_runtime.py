"""The runtime against torch: the same log-probabilities at every operating point, the same quality on a text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch")

from models import TINY, make_point, make_ranking, make_weights, write_tiny  # noqa: E402
from rheostat.model.cut import cut  # noqa: E402
from rheostat.model.file import open_model  # noqa: E402
from rheostat.model.operating_point import OperatingPoint, Update, full_point  # noqa: E402
from rheostat.model.shape import ModelShape  # noqa: E402
from rheostat.model.widths import best_of, select  # noqa: E402
from rheostat.runtime.evaluation import RuntimeEvaluator  # noqa: E402
from rheostat.runtime.onnx.session import GraphEngine  # noqa: E402
from rheostat.runtime.onnx.weights import prepare  # noqa: E402
from rheostat.training.evaluation import PointEvaluator  # noqa: E402
from rheostat.training.language_model import LanguageModel  # noqa: E402

Weights = dict[str, NDArray[Any]]

SHAPES = {
    "plain": ModelShape(40, 6, (9, 8, 6), (1, 1, 1)),
    "windows": ModelShape(40, 6, (9, 8, 6), (2, 3, 2)),
    "tapered": ModelShape(40, 6, (33, 17, 6), (2, 1, 1)),
    "adaptive": TINY["qrnn"],
}
IDS = np.random.default_rng(7).integers(0, 11, 60)


def torch_log_probabilities(weights: Weights, shape: ModelShape, ids: NDArray[np.int64]) -> NDArray[np.float32]:
    model = LanguageModel.from_weights(shape, weights)
    with torch.inference_mode():
        outputs = model(torch.as_tensor(ids)[:, None], model.initial_state(1))
        result: NDArray[np.float32] = model.log_probabilities(outputs.dropped[:, 0]).numpy()
    return result


def stepped(engine: GraphEngine, ids: NDArray[np.int64]) -> NDArray[np.float32]:
    state, rows = engine.initial_state(), []
    for token in ids.tolist():
        reading = engine.read(state, token)
        state = reading.state
        rows.append(engine.look_up(reading))
    return np.stack(rows)


def points(shape: ModelShape) -> dict[str, OperatingPoint]:
    ranking = make_ranking(shape)
    last = shape.hidden_sizes[-1]
    gated = make_point(shape)
    return {
        "full": full_point(shape),
        "selected": select(ranking, shape, 0.6),
        "tapered": best_of(ranking, shape, [*range(len(shape.hidden_sizes), 1, -1), last]),
        "cut last layer": best_of(ranking, shape, [*shape.hidden_sizes[:-1], last - 1]),
        "gates and updates": gated,
        "gates alone": OperatingPoint("gates", "l0", full_point(shape).keep, gates=_gates(shape)),
        "updates alone": OperatingPoint("updates", "random", full_point(shape).keep, updates=_updates(shape)),
    }


def _gates(shape: ModelShape) -> tuple[NDArray[np.float32], ...]:
    return tuple(np.linspace(0.2, 1, size, dtype=np.float32) for size in shape.hidden_sizes)


def _updates(shape: ModelShape) -> tuple[Update, ...]:
    random = np.random.default_rng(2)
    return tuple(
        Update(*(random.normal(0, 0.3, size).astype(np.float32) for size in sizes)) for sizes in shape.update_shapes(1)
    )


@pytest.mark.parametrize("point", points(SHAPES["plain"]))
@pytest.mark.parametrize("name", SHAPES)
def test_runtime_equals_torch_at_every_point(name: str, point: str) -> None:
    weights, shape = cut(make_weights(SHAPES[name]), SHAPES[name], points(SHAPES[name])[point])
    expected = torch_log_probabilities(weights, shape, IDS)
    engine = GraphEngine.build(weights, shape, "fp32", 1)
    np.testing.assert_allclose(stepped(engine, IDS), expected, atol=1e-4)
    np.testing.assert_allclose(engine.log_probabilities(engine.initial_state(), IDS)[0], expected, atol=1e-4)


@pytest.mark.parametrize("point", points(SHAPES["plain"]))
def test_eight_bits_stay_near_torch_at_every_point(point: str) -> None:
    shape = SHAPES["windows"]
    prepared = prepare(make_weights(shape), "int8")
    weights, cut_shape = cut(prepared, shape, points(shape)[point])
    exact, _ = cut(make_weights(shape), shape, points(shape)[point])
    engine = GraphEngine.build(weights, cut_shape, "int8", 1)
    np.testing.assert_allclose(stepped(engine, IDS), torch_log_probabilities(exact, cut_shape, IDS), atol=0.05)


@pytest.mark.parametrize("cell", ["lstm", "skip-lstm"])
@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-4), ("int8", 0.02)])
def test_lstm_baselines_equal_torch(cell: Any, precision: Any, tolerance: float) -> None:
    shape, ids = TINY[cell], IDS % 9
    weights = make_weights(shape)
    expected = torch_log_probabilities(weights, shape, ids)
    engine = GraphEngine.build(weights, shape, precision, 1)
    np.testing.assert_allclose(stepped(engine, ids), expected, atol=tolerance)
    np.testing.assert_allclose(engine.log_probabilities(engine.initial_state(), ids)[0], expected, atol=tolerance)


@pytest.mark.parametrize("stored", ["fp32", "fp16", "int8"])
def test_a_text_has_the_same_quality_on_the_runtime_and_in_torch(tmp_path: Path, stored: Any) -> None:
    path = write_tiny(tmp_path / "model.safetensors", precision=stored)
    with open_model(path) as file:
        for point in [full_point(file.shape), *file.points()]:
            ours = RuntimeEvaluator(file, threads=1).quality(point, IDS)
            theirs = PointEvaluator(file).quality(point, IDS)
            assert ours.loss == pytest.approx(theirs.loss, abs=1e-5)
            assert ours.recall == theirs.recall
            assert ours.predictions == theirs.predictions
