"""Our QRNN layer has the outputs of fastai 1.0.61's layer, recorded by `tests/data/make_fastai_qrnn.py`.

The two compute one function in two conventions. fastai keeps 1 - f of the old cell where we keep f of it, and
σ(-x) = 1 - σ(x), so its forget rows and biases change their sign; its columns start with the newest input,
ours with the oldest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from rheostat.training.layers import LayerState, QrnnLayer  # noqa: E402

RECORDED = Path(__file__).parents[1] / "data" / "fastai_qrnn.npz"
TOLERANCE = 1e-5
WINDOWS = (1, 2)
STARTS = ("zero", "given")


@pytest.fixture(scope="module")
def recorded() -> dict[str, np.ndarray]:
    with np.load(RECORDED) as file:
        return dict(file)


def from_fastai(weight: np.ndarray, bias: np.ndarray, window: int) -> tuple[np.ndarray, np.ndarray]:
    """fastai's weight [3m, r·D] and bias [3m] in our convention."""
    rows, columns = weight.shape
    newest_first = weight.reshape(rows, window, columns // window)
    weight = newest_first[:, ::-1].reshape(rows, columns).copy()
    bias = bias.copy()
    forget = slice(rows // 3, 2 * rows // 3)
    weight[forget] *= -1
    bias[forget] *= -1
    return weight, bias


def layer_of(recorded: dict[str, np.ndarray], window: int) -> QrnnLayer:
    weight, bias = from_fastai(recorded[f"{window}.weight"], recorded[f"{window}.bias"], window)
    layer = QrnnLayer(weight.shape[1] // window, weight.shape[0] // 3, window)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weight))
        layer.bias.copy_(torch.from_numpy(bias))
    return layer


def start_of(layer: QrnnLayer, recorded: dict[str, np.ndarray], start: str) -> LayerState:
    """A text's first state. In fastai the inputs before a text are always zeros."""
    cell = recorded["initial_cell"]
    state = layer.initial_state(len(cell))
    if start == "given":
        state = LayerState(cell=torch.from_numpy(cell), inputs=state.inputs)
    return state


def assert_close(ours: Any, theirs: np.ndarray) -> None:
    np.testing.assert_allclose(ours.detach().numpy(), theirs, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("window", WINDOWS)
def test_layer_equals_fastai_over_consecutive_calls(recorded: dict[str, np.ndarray], window: int, start: str) -> None:
    layer = layer_of(recorded, window)
    state = start_of(layer, recorded, start)
    for call, inputs in enumerate(recorded["inputs"]):
        hidden, state = layer(torch.from_numpy(inputs), state)
        assert_close(hidden, recorded[f"{window}.{start}.hidden"][call])
        assert_close(state.cell, recorded[f"{window}.{start}.cell"][call])
        assert_close(state.inputs, inputs[len(inputs) - (window - 1) :])


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("window", WINDOWS)
def test_one_call_over_the_whole_text_equals_fastai_in_pieces(
    recorded: dict[str, np.ndarray], window: int, start: str
) -> None:
    layer = layer_of(recorded, window)
    inputs = recorded["inputs"].reshape(-1, *recorded["inputs"].shape[2:])
    hidden, state = layer(torch.from_numpy(inputs), start_of(layer, recorded, start))
    theirs = recorded[f"{window}.{start}.hidden"]
    assert_close(hidden, theirs.reshape(-1, *theirs.shape[2:]))
    assert_close(state.cell, recorded[f"{window}.{start}.cell"][-1])


@pytest.mark.parametrize("window", WINDOWS)
def test_the_recording_tells_the_conventions_apart(recorded: dict[str, np.ndarray], window: int) -> None:
    """Without conversion the outputs are far off, so the comparisons above cannot pass by accident."""
    layer = layer_of(recorded, window)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(recorded[f"{window}.weight"]))
        layer.bias.copy_(torch.from_numpy(recorded[f"{window}.bias"]))
    hidden, _ = layer(torch.from_numpy(recorded["inputs"][0]), start_of(layer, recorded, "zero"))
    difference = np.abs(hidden.detach().numpy() - recorded[f"{window}.zero.hidden"][0])
    assert difference.max() > 1000 * TOLERANCE
