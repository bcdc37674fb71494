"""Graphs and engines: all forms agree, states are values, only allowed words are chosen, products do not overflow."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from models import TINY, make_point, make_weights, write_tiny
from rheostat.errors import PrecisionError
from rheostat.model.cut import cut
from rheostat.model.file import open_model
from rheostat.model.knob import choose
from rheostat.model.precision import PRECISIONS, Precision
from rheostat.model.shape import ModelShape
from rheostat.runtime.onnx import format as onnx_format
from rheostat.runtime.onnx.graph import Form, build_graph, state_sizes
from rheostat.runtime.onnx.session import STEPPED, STRETCH, GraphEngine, Session, State
from rheostat.runtime.onnx.weights import LARGEST, RuntimeWeights, prepare, reduce

WIDE = ModelShape(300, 48, (70, 65, 48), (2, 1, 3))
IDS = np.random.default_rng(3).integers(0, 300, STEPPED + 10)


def random_weights(shape: ModelShape, seed: int = 0) -> dict[str, NDArray[Any]]:
    random = np.random.default_rng(seed)
    return {name: random.normal(0, 0.3, size).astype(np.float32) for name, size in shape.tensor_shapes().items()}


@pytest.fixture(scope="module", params=PRECISIONS)
def engine(request: pytest.FixtureRequest) -> GraphEngine:
    return GraphEngine.build(random_weights(WIDE), WIDE, request.param, threads=1)


def steps(engine: GraphEngine, ids: NDArray[np.int64], state: State | None = None) -> Iterator[Any]:
    state = state or engine.initial_state()
    for token in ids.tolist():
        step = engine.step(state, token)
        yield step
        state = step.state


def scores_after(engine: GraphEngine, ids: NDArray[np.int64]) -> list[NDArray[np.float32]]:
    """log p of every word after each of these tokens, one by one."""
    state, scores = engine.initial_state(), []
    for token in ids.tolist():
        reading = engine.read(state, token)
        state = reading.state
        scores.append(engine.look_up(reading))
    return scores


def assert_same_state(one: State, other: State, tolerance: float = 1e-5) -> None:
    for ours, theirs in zip(one, other, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=tolerance)


# Forms


@pytest.mark.parametrize("form", get_args(Form))
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("cell", TINY)
def test_every_graph_passes_the_checker(cell: Any, precision: Precision, form: Form) -> None:
    model = build_graph(prepare(make_weights(TINY[cell]), precision), TINY[cell], precision, form).complete()
    onnx.checker.check_model(model)
    assert {opset.domain: opset.version for opset in model.opset_import}[""] <= 17


def test_messages_have_the_same_bytes_as_the_onnx_package() -> None:
    inputs, outputs, options = ["x", "", "é"], ["y"], {"to": 1, "axis": -1, "axes": [0, 300], "size": 2**40}
    theirs = onnx.helper.make_node("Some", inputs, outputs, name="node", domain="there", **options)
    node = onnx_format.node("Some", inputs, outputs, "node", "there", options)
    assert node == theirs.SerializeToString()
    for size in ((), (0,), ("T", 3)):
        port = onnx.helper.make_tensor_value_info("port", onnx_format.INT64, size)
        assert onnx_format.port("port", onnx_format.INT64, size) == port.SerializeToString()
    for kind in (np.float32, np.uint8, np.int8, np.int32, np.int64, np.bool_):
        array = np.ones((2, 300), kind)
        tensor = onnx.numpy_helper.from_array(array, "tensor")
        assert onnx_format.tensor("tensor", array) == tensor.SerializeToString()


def test_graph_describes_its_inputs_and_outputs() -> None:
    shape = TINY["qrnn"]
    graph = build_graph(prepare(make_weights(shape), "fp32"), shape, "fp32", "step")
    assert [port.name for port in graph.inputs] == [
        "token", "k", "allowed", "state.0.c", "state.0.inputs", "state.1.c", "state.2.c", "state.2.inputs",
    ]  # fmt: skip
    assert [port.name for port in graph.outputs][:3] == ["top_words", "top_probabilities", "opened"]
    plain = build_graph(prepare(make_weights(TINY["lstm"]), "fp32"), TINY["lstm"], "fp32", "step")
    assert [port.name for port in plain.outputs][:3] == ["top_words", "top_probabilities", "log_probabilities"]
    assert state_sizes(shape) == {"0.c": 5, "0.inputs": 4, "1.c": 6, "2.c": 4, "2.inputs": 12}


def test_word_by_word_equals_the_whole_sequence(engine: GraphEngine) -> None:
    one_by_one = list(steps(engine, IDS))
    scores, state = engine.log_probabilities(engine.initial_state(), IDS)
    stepped = np.stack(scores_after(engine, IDS))
    np.testing.assert_allclose(stepped, scores, atol=1e-4)
    assert np.median(np.abs(stepped - scores).max(axis=1)) < 1e-5
    assert [step.words.tolist() for step in one_by_one] == np.argsort(-scores, axis=1, kind="stable")[:, :3].tolist()
    assert_same_state(one_by_one[-1].state, state, 1e-5)


def test_replay_equals_stepping_over_more_than_one_stretch(engine: GraphEngine) -> None:
    ids = np.tile(IDS, 10)[: STRETCH + 5]
    *_, last = steps(engine, ids)
    assert_same_state(engine.replay(engine.initial_state(), ids), last.state, 1e-5)


def test_a_short_replay_equals_stepping(engine: GraphEngine) -> None:
    *_, last = steps(engine, IDS[:5])
    assert_same_state(engine.replay(engine.initial_state(), IDS[:5]), last.state)
    assert_same_state(engine.replay(last.state, []), last.state, 0)


def test_a_sequence_can_be_split_anywhere(engine: GraphEngine) -> None:
    whole, after = engine.log_probabilities(engine.initial_state(), IDS)
    first, between = engine.log_probabilities(engine.initial_state(), IDS[:1])
    rest, end = engine.log_probabilities(between, IDS[1:])
    np.testing.assert_allclose(np.concatenate([first, rest]), whole, atol=1e-5)
    assert_same_state(after, end, 1e-5)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_session_does_not_need_its_temporary_constants(precision: Precision) -> None:
    """Constants that are not weights are freed once a session is open, so it must have copied them."""
    weights = prepare(random_weights(WIDE), precision)
    graph = build_graph(weights, WIDE, precision, "step")
    session = Session(graph, weights, threads=1)
    feeds: dict[str, Any] = {
        f"state.{name}": np.zeros((1, size), np.float32) for name, size in state_sizes(WIDE).items()
    }
    feeds |= {"token": np.array([5]), "k": np.array([3]), "allowed": np.ones(300, np.uint8)}
    before = session.run(["log_probabilities"], feeds)[0]
    ours = {id(array) for array in weights.values()}
    for array in graph.constants.values():
        if id(array) not in ours:
            array.fill(1)
    np.testing.assert_array_equal(session.run(["log_probabilities"], feeds)[0], before)


def test_a_state_is_a_value(engine: GraphEngine) -> None:
    state = engine.step(engine.initial_state(), 5).state
    copies = [part.copy() for part in state]
    one, _, other = engine.read(state, 7), engine.read(state, 8), engine.read(state, 7)
    assert np.array_equal(engine.look_up(one), engine.look_up(other))
    assert all(np.array_equal(part, copy) for part, copy in zip(state, copies, strict=True))


def test_threads_that_share_an_engine_get_the_same_answers_as_alone(engine: GraphEngine) -> None:
    texts = [np.roll(IDS, shift) for shift in range(8)]
    alone = [engine.log_probabilities(engine.initial_state(), text)[0][-1] for text in texts]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda text: scores_after(engine, text)[-1], texts))
    np.testing.assert_allclose(together, alone, atol=1e-4)


# Words


def test_probabilities_are_those_of_all_words(engine: GraphEngine) -> None:
    step = engine.step(engine.initial_state(), 5, k=300)
    assert step.probabilities.sum() == pytest.approx(1, abs=1e-5)
    scores = engine.look_up(engine.read(engine.initial_state(), 5))
    np.testing.assert_allclose(np.log(step.probabilities), scores[step.words], atol=1e-4)
    allowed = np.zeros(300, np.bool_)
    allowed[step.words[10:20]] = True
    among = engine.step(engine.initial_state(), 5, k=3, allowed=allowed)
    np.testing.assert_array_equal(among.words, step.words[10:13])
    np.testing.assert_array_equal(among.probabilities, step.probabilities[10:13])


@pytest.mark.parametrize("allowed", [(), (7,), (3, 8, 250)])
def test_no_more_words_than_are_allowed(engine: GraphEngine, allowed: tuple[int, ...]) -> None:
    mask = np.zeros(300, np.bool_)
    mask[list(allowed)] = True
    step = engine.step(engine.initial_state(), 5, k=1000, allowed=mask)
    assert sorted(step.words.tolist()) == list(allowed)
    assert len(step.probabilities) == len(allowed)


# Precisions


def test_eight_bits_stay_near_floats() -> None:
    weights = random_weights(WIDE)
    exact, near = (GraphEngine.build(weights, WIDE, precision, 1) for precision in ("fp32", "int8"))
    expected, _ = exact.log_probabilities(exact.initial_state(), IDS)
    found, _ = near.log_probabilities(near.initial_state(), IDS)
    np.testing.assert_allclose(found, expected, atol=0.2)
    assert np.abs(found - expected).mean() < 0.03


@pytest.mark.parametrize("form", ["step", "sequence"])
def test_the_largest_weights_and_inputs_do_not_saturate(form: str) -> None:
    """Every product is as large as possible: if 16 bits overflow, different words get the same score."""
    shape = ModelShape(9, 64, (64,), (1,))
    weights = {name: np.zeros(size, np.float32) for name, size in shape.tensor_shapes().items()}
    weights["embedding.weight"][:, :] = np.linspace(0.1, 1, 9, dtype=np.float32)[:, None]
    weights["embedding.weight"][4:] *= -1
    weights["layers.0.weight"][:, :] = 1  # all of z, f and o are the sum of 64 equal numbers
    exact, near = (GraphEngine.build(weights, shape, precision, 1) for precision in ("fp32", "int8"))
    found, expected = ([each.look_up(each.read(each.initial_state(), token)) for token in range(9)]
                       for each in (near, exact))  # fmt: skip
    if form == "sequence":
        found, _ = near.log_probabilities(near.initial_state(), range(9))
        expected, _ = exact.log_probabilities(exact.initial_state(), range(9))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.exp(ours), np.exp(theirs), atol=0.05)


def test_two_largest_products_fit_in_sixteen_bits() -> None:
    assert 2 * 255 * LARGEST < 2**15


@pytest.mark.parametrize("stored", ["float32", "float16", "int8"])
def test_prepared_weights_are_near_and_small_and_prepared_once(stored: str) -> None:
    floats = random_weights(WIDE)
    weights: dict[str, NDArray[Any]] = {name: array.astype(np.float16) for name, array in floats.items()}
    if stored != "float16":
        weights = floats
    if stored == "int8":
        scale = np.abs(floats["embedding.weight"]).max(axis=1) / np.float32(127)
        q = np.rint(floats["embedding.weight"] / scale[:, None]).astype(np.int8)
        weights = floats | {"embedding.weight": q, "embedding.weight.scale": scale}
    prepared = prepare(weights, "int8")
    for name, matrix in floats.items():
        if matrix.ndim == 2:
            assert np.abs(prepared[name]).max() == LARGEST
            near = prepared[name] * prepared[f"{name}.scale"][:, None]
            assert np.abs(near - matrix).max() < np.abs(matrix).max() / LARGEST
    again = prepare(prepared, "int8")
    assert all(again[name] is array for name, array in prepared.items())


def test_rows_of_zeros_stay_zeros() -> None:
    zeros = np.zeros((2, 40), np.float32)
    assert not reduce(zeros)[0].any()


def test_cutting_prepared_weights_equals_preparing_the_cut() -> None:
    shape = TINY["qrnn"]
    point = make_point(shape)
    small, cut_shape = cut(prepare(make_weights(shape), "int8"), shape, point)
    engine = GraphEngine.build(small, cut_shape, "int8", 1)
    exact_weights, _ = cut(make_weights(shape), shape, point)
    exact = GraphEngine.build(exact_weights, cut_shape, "fp32", 1)
    found, expected = (each.look_up(each.read(each.initial_state(), 5)) for each in (engine, exact))
    np.testing.assert_allclose(found, expected, atol=0.05)


def test_an_unknown_precision_is_named() -> None:
    with pytest.raises(PrecisionError, match=r"'int3'.*expected one of fp32, int8"):
        GraphEngine.build(random_weights(WIDE), WIDE, "int3")  # type: ignore[arg-type]


def test_an_engine_says_how_large_it_is() -> None:
    weights = random_weights(WIDE)
    sizes = [GraphEngine.build(weights, WIDE, precision, 1).session_bytes for precision in ("fp32", "int8")]
    assert sizes == sorted(sizes, reverse=True)
    engine = GraphEngine.build(weights, WIDE, "int8", 1)
    before = engine.session_bytes
    engine.replay(engine.initial_state(), IDS)
    assert engine.session_bytes > before
    assert engine.weight_bytes < WIDE.parameters * 1.5


def test_weights_at_an_odd_offset_are_moved() -> None:
    """Another program may write such a file; unaligned numbers are slow to multiply, or not allowed."""
    raw = np.zeros(WIDE.vocabulary_size * 4 + 1, np.uint8)
    odd = raw[1:].view(np.float32)
    weights = random_weights(WIDE) | {"output.bias": odd}
    assert not odd.flags.aligned
    assert prepare(weights, "fp32")["output.bias"].flags.aligned


def test_a_cut_prepares_again_only_what_its_point_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reduced: list[tuple[int, ...]] = []

    def counted(matrix: NDArray[Any], scale: Any = None) -> Any:
        reduced.append(matrix.shape)
        return reduce(matrix, scale)

    monkeypatch.setattr("rheostat.runtime.onnx.weights.reduce", counted)
    with open_model(write_tiny(tmp_path / "tiny.safetensors")) as file:
        weights, whole = RuntimeWeights(file, "int8", keep=True), prepare(file.stored_weights(), "int8")
        matrices = len(reduced)
        for point, changes in ((choose(file, 0.8, ranking="random-3"), False), (file.point("second"), True)):
            reduced.clear()
            found = weights.of(point)
            assert (file.shape.tensor_shapes()["embedding.weight"] in reduced) != changes
            assert changes or len(reduced) == matrices
            expected = prepare(cut(whole, file.shape, point)[0], "int8")
            assert found.keys() == expected.keys()
            assert all((found[name] == expected[name]).all() for name in expected)
