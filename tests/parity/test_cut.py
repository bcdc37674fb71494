"""Cutting equals masking: a plain NumPy network with filters zeroed, gated and updated, beside the cut model.

The reference below is written from the equations and shares no code with the package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from models import TINY, make_point, make_ranking, make_vocabulary, make_weights, shared_model, write_file
from rheostat.model.cut import cut, reorder
from rheostat.model.file import open_model
from rheostat.model.operating_point import OperatingPoint, Update, full_point
from rheostat.model.precision import dequantize, quantize
from rheostat.model.shape import ModelShape
from rheostat.model.widths import select

Matrix = NDArray[np.float64]
Weights = dict[str, NDArray[Any]]

STEPS = 6


# The reference


def sigmoid(x: Matrix) -> Matrix:
    return 1 / (1 + np.exp(-x))


def windows_of(x: Matrix, window: int) -> Matrix:
    """[T, r·D]: the last r inputs, oldest first, zeros before the start."""
    padded = np.concatenate([np.zeros((window - 1, x.shape[1])), x])
    return np.stack([padded[step : step + window].reshape(-1) for step in range(len(x))])


def pool(z: Matrix, f: Matrix, o: Matrix) -> Matrix:
    c = np.zeros(z.shape[1])
    states = []
    for step in range(len(z)):
        c = f[step] * c + (1 - f[step]) * z[step]
        states.append(o[step] * c)
    return np.stack(states)


def layer_output(pre: Matrix, mask: Matrix | float) -> Matrix:
    z, f, o = np.split(pre, 3, axis=1)
    return pool(np.tanh(z) * mask, sigmoid(f), sigmoid(o))


def outputs(weights: Weights, shape: ModelShape, ids: list[int]) -> list[Matrix]:
    """Logits of words and of clusters at every step, with the matrices as they are."""
    x = np.asarray(weights["embedding.weight"], np.float64)[ids]
    for layer, window in enumerate(shape.windows):
        x = layer_output(
            windows_of(x, window) @ weights[f"layers.{layer}.weight"].T + weights[f"layers.{layer}.bias"], 1.0
        )
    return read_out(weights, weights.get("output.weight", weights["embedding.weight"]), x)


def read_out(weights: Weights, output: NDArray[Any], x: Matrix) -> list[Matrix]:
    logits = [x @ output.T + weights["output.bias"]]
    if "clusters.weight" in weights:
        logits.append(x @ weights["clusters.weight"].T + weights["clusters.bias"])
    return logits


def masked_outputs(weights: Weights, shape: ModelShape, point: OperatingPoint, ids: list[int]) -> list[Matrix]:
    """The whole network with Z multiplied by the gates of the point, which are zero for filters left out.

    An update is learned on matrices with gates folded in, so what it reads is not gated.
    """
    x = np.asarray(weights["embedding.weight"], np.float64)[ids]
    kept_inputs: NDArray[Any] = np.arange(shape.embedding_size)
    input_gates: Matrix = np.ones(shape.embedding_size)
    for layer, (size, window) in enumerate(zip(shape.hidden_sizes, shape.windows, strict=True)):
        keep = point.keep[layer]
        pre = windows_of(x, window) @ weights[f"layers.{layer}.weight"].T + weights[f"layers.{layer}.bias"]
        update = point.updates[layer] if point.updates else None
        if update is not None:
            ungated = windows_of(x[:, kept_inputs] / input_gates, window)
            change = ungated @ update.v.astype(np.float64).T @ update.u.astype(np.float64).T
            for block, part in enumerate(np.split(change, 3, axis=1)):
                pre[:, block * size + keep] += part
        gates = point.gates[layer] if point.gates else None
        kept_inputs, input_gates = keep, np.ones(len(keep)) if gates is None else gates.astype(np.float64)
        mask = np.zeros(size)
        mask[keep] = input_gates
        x = layer_output(pre, mask)
    return read_out(weights, weights["embedding.weight"], x)


# Models and points to try


@dataclass(frozen=True)
class Case:
    shape: ModelShape
    point: OperatingPoint
    weights: Weights
    ids: list[int]


@st.composite
def cases(draw: st.DrawFn, gates: bool = True, updates: bool = True) -> Case:
    hidden_sizes = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    windows = tuple(draw(st.integers(1, 3)) for _ in hidden_sizes)
    vocabulary_size = draw(st.integers(4, 8))
    splits = draw(st.sampled_from([(), (2,), (1, 3)]))
    shape = ModelShape(vocabulary_size, hidden_sizes[-1], hidden_sizes, windows, splits)
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    point = draw_point(draw, shape, random, gates, updates)
    weights = {name: random.normal(0, 0.7, size) for name, size in shape.tensor_shapes().items()}
    return Case(shape, point, weights, random.integers(0, vocabulary_size, STEPS).tolist())


def draw_point(
    draw: Callable[[st.SearchStrategy[Any]], Any],
    shape: ModelShape,
    random: np.random.Generator,
    gates: bool,
    updates: bool,
) -> OperatingPoint:
    widths = [draw(st.integers(1, size)) for size in shape.hidden_sizes]
    cut_shape = shape.with_hidden_sizes(widths)

    def gate(width: int) -> Any:
        wanted = gates and draw(st.booleans())
        return random.uniform(0.1, 1, width).astype(np.float32) if wanted else None

    def update(sizes: tuple[tuple[int, int], tuple[int, int]]) -> Update | None:
        wanted = updates and draw(st.booleans())
        return Update(*(random.normal(0, 0.5, size).astype(np.float32) for size in sizes)) if wanted else None

    rank = draw(st.integers(1, 2))
    return OperatingPoint(
        "drawn",
        "random",
        tuple(
            np.sort(random.permutation(size)[:width]).astype(np.int32)
            for size, width in zip(shape.hidden_sizes, widths, strict=True)
        ),
        gates=tuple(gate(width) for width in widths),
        updates=tuple(update(sizes) for sizes in cut_shape.update_shapes(rank)),
    )


def assert_same(found: list[Matrix], expected: list[Matrix], tolerance: float = 1e-9) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)


# Cutting


@settings(max_examples=200)
@given(cases())
def test_cut_model_equals_masked_model(case: Case) -> None:
    small, small_shape = cut(case.weights, case.shape, case.point)
    assert {name: array.shape for name, array in small.items()} == small_shape.tensor_shapes()
    assert_same(outputs(small, small_shape, case.ids), masked_outputs(case.weights, case.shape, case.point, case.ids))


@settings(max_examples=60)
@given(cases())
def test_torch_and_numpy_are_cut_the_same_way(case: Case) -> None:
    torch = pytest.importorskip("torch")
    expected, expected_shape = cut(case.weights, case.shape, case.point)
    small, small_shape = cut(
        {name: torch.from_numpy(array) for name, array in case.weights.items()}, case.shape, case.point
    )
    assert small_shape == expected_shape
    assert small.keys() == expected.keys()
    for name, array in expected.items():
        assert small[name].is_contiguous()
        np.testing.assert_allclose(small[name].numpy(), array, rtol=1e-12, atol=1e-12)


def test_gradients_flow_through_cutting() -> None:
    torch = pytest.importorskip("torch")
    shape = TINY["qrnn"]
    weights = {name: torch.from_numpy(array).requires_grad_() for name, array in make_weights(shape).items()}
    point = make_point(shape)
    small, _ = cut(weights, shape, point)
    small["layers.1.weight"].sum().backward()
    rows = {int(row) for row in weights["layers.1.weight"].grad.abs().sum(1).nonzero()}
    assert rows == {block * 6 + int(kept) for block in range(3) for kept in point.keep[1]}


@settings(max_examples=40)
@given(cases())
def test_the_full_point_is_the_unpruned_model_bit_for_bit(case: Case) -> None:
    same, shape = cut(case.weights, case.shape, full_point(case.shape))
    assert shape == case.shape
    assert same.keys() == case.weights.keys()
    assert all(same[name] is array for name, array in case.weights.items())


@settings(max_examples=40)
@given(cases())
def test_cutting_does_not_change_the_weights(case: Case) -> None:
    before = {name: array.copy() for name, array in case.weights.items()}
    cut(case.weights, case.shape, case.point)
    for name, array in before.items():
        np.testing.assert_array_equal(case.weights[name], array)


@settings(max_examples=40)
@given(cases(updates=False), st.data())
def test_cutting_a_cut_model_equals_cutting_once(case: Case, data: st.DataObject) -> None:
    small, small_shape = cut(case.weights, case.shape, case.point)
    again = draw_point(data.draw, small_shape, np.random.default_rng(0), gates=False, updates=False)
    smaller, smaller_shape = cut(small, small_shape, again)
    at_once = replace(
        case.point,
        keep=tuple(kept[chosen] for kept, chosen in zip(case.point.keep, again.keep, strict=True)),
        gates=tuple(
            None if gates is None else gates[chosen]
            for gates, chosen in zip(case.point.gates or (), again.keep, strict=True)
        ),
    )
    expected = masked_outputs(case.weights, case.shape, at_once, case.ids)
    assert_same(outputs(smaller, smaller_shape, case.ids), expected)


def test_uncut_layers_keep_their_arrays() -> None:
    shape = TINY["qrnn"]
    weights = make_weights(shape)
    whole = full_point(shape)
    first_only = replace(whole, keep=(np.array([0, 3], np.int32), *whole.keep[1:]))
    small, small_shape = cut(weights, shape, first_only)
    assert "output.weight" not in small
    assert not small_shape.is_cut
    changed = {name for name, array in small.items() if array is not weights[name]}
    assert changed == {"layers.0.weight", "layers.0.bias", "layers.1.weight"}


@settings(max_examples=60)
@given(cases())
def test_int8_is_cut_as_it_is_stored(case: Case) -> None:
    stored: Weights = {}
    values: Weights = {}
    for name, array in case.weights.items():
        stored[name] = values[name] = array.astype(np.float32)
        if array.ndim == 2:
            stored[name], stored[f"{name}.scale"] = quantize(array.astype(np.float32))
            values[name] = dequantize(stored[name], stored[f"{name}.scale"])
    small, small_shape = cut(stored, case.shape, case.point)
    expected, expected_shape = cut(values, case.shape, case.point)
    assert small_shape == expected_shape
    for name, array in expected.items():
        found = small[name]
        if found.dtype == np.int8:
            found = dequantize(found, small[f"{name}.scale"])
        np.testing.assert_allclose(found, array, rtol=1e-6, atol=1e-7)
    for layer in range(len(case.shape.hidden_sizes)):
        gated = layer and case.point.gate(layer - 1) is not None
        if not gated and case.point.update(layer) is None:
            assert small[f"layers.{layer}.weight"].dtype == np.int8, "only folding and merging make it float"


# Reordering


@settings(max_examples=60)
@given(cases(), st.integers(0, 100))
def test_reordered_model_gives_the_same_outputs(case: Case, seed: int) -> None:
    ranking = make_ranking(case.shape, seed)
    reordered = reorder(case.weights, case.shape, ranking)
    assert {name: array.shape for name, array in reordered.items()} == case.shape.tensor_shapes()
    assert_same(outputs(reordered, case.shape, case.ids), outputs(case.weights, case.shape, case.ids))


@settings(max_examples=40)
@given(cases(), st.integers(0, 100))
def test_a_prefix_of_the_reordered_model_is_the_point_of_the_ranking(case: Case, seed: int) -> None:
    shape, ranking = case.shape, make_ranking(case.shape, seed)
    keep = tuple(
        np.sort(ranking.order(layer)[: (size + 1) // 2]).astype(np.int32)
        for layer, size in enumerate(shape.hidden_sizes)
    )
    best = OperatingPoint("best", "", keep)
    prefix = replace(best, keep=tuple(np.arange(len(kept), dtype=np.int32) for kept in keep))
    # The input embedding is permuted too, so the two are compared by what they compute.
    small, small_shape = cut(case.weights, shape, best)
    reordered, reordered_shape = cut(reorder(case.weights, shape, ranking), shape, prefix)
    assert small_shape == reordered_shape
    assert_same(outputs(reordered, reordered_shape, case.ids), outputs(small, small_shape, case.ids))


@settings(max_examples=20)
@given(cases(), st.integers(0, 100))
def test_a_cut_model_can_be_reordered(case: Case, seed: int) -> None:
    small, small_shape = cut(case.weights, case.shape, case.point)
    reordered = reorder(small, small_shape, make_ranking(small_shape, seed))
    assert_same(outputs(reordered, small_shape, case.ids), outputs(small, small_shape, case.ids))


# With files


def test_torch_and_numpy_weights_make_the_same_file(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    shape = TINY["qrnn"]
    weights = make_weights(shape)
    tensors = {name: torch.from_numpy(array).requires_grad_() for name, array in weights.items()}
    kinds = {
        "numpy": weights,
        "torch": tensors,
        "bfloat16": {name: tensor.bfloat16() for name, tensor in tensors.items()},
        "float64": {name: array.astype(np.float64) for name, array in weights.items()},
    }
    for kind, arrays in kinds.items():
        write_file(
            tmp_path / kind,
            shape=shape,
            vocabulary=make_vocabulary(shape.vocabulary_size),
            weights=arrays,
            text={},
        )
    assert len({(tmp_path / kind).read_bytes() for kind in kinds}) == 1


@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
def test_a_point_from_a_file_cuts_the_weights_from_that_file(tmp_path: Path, precision: Any) -> None:
    shape = TINY["qrnn"]
    weights, point = make_weights(shape), make_point(shape)
    write_file(
        tmp_path / "model",
        shape=shape,
        vocabulary=make_vocabulary(shape.vocabulary_size),
        weights=weights,
        text={},
        points=[point],
        precision=precision,
    )
    with open_model(tmp_path / "model") as file:
        small, small_shape = cut(file.weights(), shape, file.point(point.name))
        expected, expected_shape = cut(file.weights(), shape, point)
    assert small_shape == expected_shape
    for name, array in expected.items():
        np.testing.assert_array_equal(small[name], array)


def test_the_shared_model_at_80_percent_equals_the_masked_model() -> None:
    with open_model(shared_model()) as file:
        shape, weights = file.shape, file.weights()
    point = select(make_ranking(shape), shape, 0.8)
    small, small_shape = cut(weights, shape, point)
    ids = [42, 7, 1999, 3]
    assert_same(outputs(small, small_shape, ids), masked_outputs(weights, shape, point, ids), tolerance=1e-5)
