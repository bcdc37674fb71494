"""The core: every kernel gives the same bits, and the answers of independent code."""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from models import make_vocabulary, make_weights
from rheostat.core.binding import CoreModel
from rheostat.core.build import FLAGS, find_compiler, run_compiler, sources
from rheostat.core.library import kernels
from rheostat.core.values import Choice, Widths
from rheostat.errors import ModelFileError, RheostatError
from rheostat.model import planes
from rheostat.model.cut import cut, reorder
from rheostat.model.flops import executed_flops
from rheostat.model.operating_point import Ranking
from rheostat.model.ordered import as_precision, ordered_bytes
from rheostat.model.path import position_of
from rheostat.model.planes import matrix_sizes
from rheostat.model.shape import ModelShape
from rheostat.model.widths import best_of
from rheostat.runtime.onnx.session import GraphEngine

SHAPE = ModelShape(61, 12, (40, 33, 12), (2, 1, 3))
CLUSTERED = ModelShape(61, 12, (40, 12), (2, 1), (20, 33, 50))
Floats = NDArray[np.float32]
Case = tuple[ModelShape, Widths, list[int], int]  # a shape, a position, a text, a seed


def small_weights(shape: ModelShape, seed: int = 0) -> dict[str, Floats]:
    return {name: array / 2 for name, array in make_weights(shape, seed).items()}


def open_core(shape: ModelShape, precision: Any = "int8", kernel: str | None = None, seed: int = 0) -> CoreModel:
    file = ordered_bytes(small_weights(shape, seed), shape, make_vocabulary(shape.vocabulary_size), precision)
    return CoreModel(file, kernel)


def read(model: CoreModel, position: Widths, words: list[int]) -> Floats:
    """log p of every next word after each of these words."""
    state, rows = model.start(), []
    for word in words:
        state = model.step(position, state, word)
        rows.append(model.log_probabilities(model.predict(position, state)))
    return np.array(rows)


@st.composite
def models(draw: st.DrawFn) -> Case:
    layers = draw(st.integers(1, 3))
    embedding = draw(st.integers(1, 70))
    hidden = [draw(st.integers(1, 70)) for _ in range(layers - 1)] + [embedding]
    windows = tuple(draw(st.integers(1, 3)) for _ in range(layers))
    words = draw(st.integers(4, 50))
    splits = tuple(sorted(draw(st.sets(st.integers(1, words - 1), max_size=3))))
    shape = ModelShape(words, embedding, tuple(hidden), windows, splits)
    sizes = (*hidden, words)
    bounds = [draw(st.sampled_from([*range(0, size, 16), size])) for size in sizes]
    position = Widths(
        [draw(st.integers(1, size)) for size in hidden], bounds=draw(st.sampled_from([None, bounds, [0] * len(sizes)]))
    )
    text = draw(st.lists(st.integers(0, words - 1), min_size=1, max_size=40))  # more than a block
    return shape, position, text, draw(st.integers(0, 99))


# --- the same bits everywhere -----------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["int8", "fp32"])
@given(case=models())
@settings(max_examples=60)
def test_all_kernels_give_the_same_bits(precision: str, case: Case) -> None:
    shape, position, text, seed = case
    found = [read(open_core(shape, precision, kernel, seed), position, text) for kernel in kernels()]
    assert len(found) > 1 or kernels() == ["plain"]
    for other in found[1:]:
        assert np.array_equal(found[0].view(np.int32), other.view(np.int32))


@pytest.mark.parametrize("precision", ["int8", "fp32"])
@given(case=models())
@settings(max_examples=60)
def test_a_block_of_words_gives_the_bits_of_single_steps(precision: str, case: Case) -> None:
    shape, position, text, seed = case
    model = open_core(shape, precision, seed=seed)
    one_by_one = model.start()
    for word in text:
        one_by_one = model.step(position, one_by_one, word)
    assert model.steps(position, model.start(), text) == one_by_one


@pytest.mark.parametrize("precision", ["int8", "fp32"])
@given(case=models())
@settings(max_examples=40)
def test_a_position_gives_the_bits_of_the_cut_model(precision: Any, case: Case) -> None:
    """The other side is NumPy: rows and columns selected, and rows after the bit bounds rounded to 4 bits."""
    shape, position, text, seed = case
    vocabulary = make_vocabulary(shape.vocabulary_size)
    order = Ranking("first", "test", tuple(-np.arange(size, dtype=np.float32) for size in shape.hidden_sizes))
    whole = as_precision(small_weights(shape, seed), precision)
    point = replace(best_of(order, shape, position.widths), bounds=position.bounds if precision == "int8" else None)
    small, cut_shape = cut(whole, shape, point)
    cut_model = CoreModel(ordered_bytes(small, cut_shape, vocabulary, precision))
    ours = read(CoreModel(ordered_bytes(whole, shape, vocabulary, precision)), position, text)
    assert np.array_equal(ours, read(cut_model, cut_model.full_position(), text))


@given(case=models())
@settings(max_examples=40)
def test_a_file_of_4_bits_gives_the_bits_of_the_knob_at_4_bits(case: Case) -> None:
    shape, position, text, seed = case
    arguments = (small_weights(shape, seed), shape, make_vocabulary(shape.vocabulary_size))
    whole, upper = CoreModel(ordered_bytes(*arguments)), CoreModel(ordered_bytes(*arguments, bits=4))
    assert (whole.config.bits, upper.config.bits) == (8, 4)
    at_4_bits = Widths(position.widths, bounds=[0] * (len(position.widths) + 1))
    assert np.array_equal(read(whole, at_4_bits, text), read(upper, position, text))


@pytest.mark.parametrize("precision", ["int8", "fp32"])
@given(case=models())
@settings(max_examples=60)
def test_evaluation_gives_the_bits_of_single_answers(precision: str, case: Case) -> None:
    shape, position, text, seed = case
    model = open_core(shape, precision, seed=seed)
    state, scores, ranks = model.evaluate(position, model.start(), [*text, 0])
    rows, following = read(model, position, text), [*text[1:], 0]
    wanted = rows[np.arange(len(text)), following]
    assert np.array_equal(scores, wanted)
    assert np.array_equal(ranks, (rows > wanted[:, None]).sum(1))
    assert state == model.steps(position, model.start(), text)


# --- against independent code -----------------------------------------------------------------------------


def sigmoid(x: NDArray[np.float64]) -> NDArray[np.float64]:
    result: NDArray[np.float64] = 1 / (1 + np.exp(-x))
    return result


def textbook(weights: dict[str, Floats], shape: ModelShape, words: list[int]) -> NDArray[np.float64]:
    """log p after each word by the equations of the paper, in float64."""
    doubles = {name: array.astype(np.float64) for name, array in weights.items()}
    inputs = doubles["embedding.weight"][words]
    for layer, size in enumerate(shape.hidden_sizes):
        window = shape.windows[layer]
        padded = np.vstack([np.zeros((window - 1, inputs.shape[1])), inputs])
        stacked = np.hstack([padded[step : step + len(inputs)] for step in range(window)])
        gates = stacked @ doubles[f"layers.{layer}.weight"].T + doubles[f"layers.{layer}.bias"]
        z, f, o = np.tanh(gates[:, :size]), sigmoid(gates[:, size : 2 * size]), sigmoid(gates[:, 2 * size :])
        cell, hidden = np.zeros(size), []
        for step in range(len(inputs)):
            cell = f[step] * cell + (1 - f[step]) * z[step]
            hidden.append(o[step] * cell)
        inputs = np.array(hidden)
    logits = inputs @ doubles["embedding.weight"].T + doubles["output.bias"]
    result: NDArray[np.float64] = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    return result


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_the_core_follows_the_equations(precision: str) -> None:
    words = [5, 1, 60, 7, 7, 0, 33, 2]
    model = open_core(SHAPE, precision)
    expected = textbook(small_weights(SHAPE), SHAPE, words)
    assert np.abs(read(model, model.full_position(), words) - expected).max() < (1e-5 if precision == "fp32" else 0.05)


@pytest.mark.parametrize("shape", [SHAPE, CLUSTERED], ids=["plain", "clusters"])
def test_core_and_onnx_runtime_agree(shape: ModelShape) -> None:
    words, weights = [5, 1, 60, 7, 7, 0, 33, 2], small_weights(shape)
    engine = GraphEngine.build(weights, shape, "fp32", threads=1)
    state, rows = engine.initial_state(), []
    for word in words:
        reading = engine.read(state, word)
        state = reading.state
        rows.append(engine.look_up(reading).copy())
    model = open_core(shape, "fp32")
    assert np.abs(read(model, model.full_position(), words) - np.array(rows)).max() < 1e-5


def test_reordering_filters_changes_nothing_but_rounding() -> None:
    random = np.random.default_rng(3)
    ranking = Ranking("r", "test", tuple(random.random(size, np.float32) for size in SHAPE.hidden_sizes))
    ordered = reorder(small_weights(SHAPE), SHAPE, ranking)
    vocabulary = make_vocabulary(SHAPE.vocabulary_size)
    other, words = CoreModel(ordered_bytes(ordered, SHAPE, vocabulary, "fp32")), [3, 9, 27]
    model = open_core(SHAPE, "fp32")
    found = read(other, other.full_position(), words)
    assert np.abs(found - read(model, model.full_position(), words)).max() < 1e-5


def test_the_least_byte_is_multiplied_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """We write no -128, but a file may hold it: pairs of products with it still fit 16 bits."""
    monkeypatch.setattr(planes, "LARGEST_INTEGER", 128)
    weights: dict[str, Any] = as_precision(small_weights(SHAPE), "int8")
    for name in matrix_sizes(SHAPE):
        weights[name] = np.where(np.arange(weights[name].shape[0])[:, None] % 2, weights[name], np.int8(-128))
    floats = weights | {name: weights[name] * weights[f"{name}.scale"][:, None] for name in matrix_sizes(SHAPE)}
    file, words = ordered_bytes(weights, SHAPE, make_vocabulary(SHAPE.vocabulary_size)), [5, 1, 60, 7]
    found = [read(model := CoreModel(file, kernel), model.full_position(), words) for kernel in kernels()]
    assert np.abs(found[0] - textbook(floats, SHAPE, words)).max() < 0.1
    for other in found[1:]:
        assert np.array_equal(found[0].view(np.int32), other.view(np.int32))


# --- the best words ---------------------------------------------------------------------------------------


def expected_best(scores: Floats, allowed: list[int], k: int) -> list[int]:
    return sorted(allowed, key=lambda word: (-scores[word], word))[:k]


@given(case=models(), k=st.integers(1, 60), data=st.data())
@settings(max_examples=80)
def test_the_best_words_are_exact(case: Case, k: int, data: st.DataObject) -> None:
    shape, position, text, seed = case
    model = open_core(shape, seed=seed)
    state = model.steps(position, model.start(), text)
    scores = model.log_probabilities(model.predict(position, state))
    allowed = data.draw(st.lists(st.booleans(), min_size=shape.vocabulary_size, max_size=shape.vocabulary_size))
    chosen = [word for word, may in enumerate(allowed) if may]
    for choice in (Choice(mask=np.array(allowed)), Choice(candidates=np.array(chosen, np.int32))):
        answer = model.predict(position, state)
        found = model.best(answer, k, choice)
        assert found.ids.tolist() == expected_best(scores, chosen, k)
        assert np.array_equal(found.log_probabilities, scores[found.ids])
        again = model.best(answer, k, choice)  # clusters are open now
        assert np.array_equal(again.ids, found.ids)


@given(case=models(), k=st.integers(0, 5))
@settings(max_examples=40)
def test_a_query_in_one_call_gives_the_bits_of_three(case: Case, k: int) -> None:
    shape, position, text, seed = case
    model = open_core(shape, seed=seed)
    state = model.steps(position, model.start(), text)
    mask = Choice(mask=np.arange(shape.vocabulary_size) % 2 == 0)
    query = model.query(position, state, text[0], k, mask)
    after = model.step(position, state, text[0])
    assert query.state == after
    answer = model.predict(position, after)
    words, scores = model.best_words(answer, k, mask) if k else ([], [])
    assert (query.words, query.log_probabilities) == (words, scores)
    assert np.array_equal(model.log_probabilities(query.answer), model.log_probabilities(answer))


def test_the_memory_of_an_answer_is_used_again_only_when_nobody_has_it() -> None:
    model = open_core(ModelShape(60, 8, (12, 8), (2, 1)))
    position, start = model.full_position(), model.start()
    held = model.query(position, start, 1, 1)
    before = model.log_probabilities(held.answer)
    places = {model.query(position, start, word, 1).answer.address for word in range(2, 9)}
    assert held.answer.address not in places and len(places) < 7
    assert np.array_equal(model.log_probabilities(held.answer), before)


@given(case=models(), k=st.integers(1, 5))
@settings(max_examples=40)
def test_lazy_clusters_give_what_all_clusters_give(case: Case, k: int) -> None:
    shape, position, text, seed = case
    model = open_core(shape, seed=seed)
    state = model.steps(position, model.start(), text)
    lazy, opened = model.predict(position, state), model.predict(position, state)
    scores = model.log_probabilities(opened)
    found = model.best(lazy, k)
    assert found.ids.tolist() == expected_best(scores, list(range(shape.vocabulary_size)), k)
    assert model.executed_flops(lazy) <= model.executed_flops(opened)
    assert model.executed_flops(opened) == shape.with_hidden_sizes(position.widths).flops


def together(ask: Callable[[int], object], count: int = 4) -> list[object]:
    """What threads get that ask at once."""
    start = threading.Barrier(count)
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda number: (start.wait(), ask(number))[1], range(count)))


@pytest.mark.parametrize("precision", ["int8", "fp32"])
def test_threads_that_open_the_clusters_of_one_answer_agree(precision: str) -> None:
    """Looking into an answer opens clusters in it."""
    shape = ModelShape(60_000, 128, (128,), (1,), (1000, 30_000))
    model = open_core(shape, precision)
    position, mask = Widths(shape.hidden_sizes), np.arange(shape.vocabulary_size) >= 30_000

    def best(answer: Any) -> tuple[list[int], list[float]]:
        return model.best_words(answer, 5, Choice(mask=mask))

    for word in range(20):
        state = model.step(position, model.start(), word)
        expected = best(model.predict(position, state))
        answer = model.predict(position, state)
        assert together(lambda _, answer=answer: best(answer)) == [expected] * 4
        assert best(answer) == expected


def test_a_cluster_that_could_only_tie_is_opened() -> None:
    """Clusters are opened by probability, not by id, so a later one may contain the lower of two equal words."""
    shape = ModelShape(6, 2, (2,), (1,), (3,))
    weights = {name: np.zeros(size, np.float32) for name, size in shape.tensor_shapes().items()}
    model = CoreModel(ordered_bytes(weights, shape, make_vocabulary(6), "fp32"))
    position = model.full_position()
    answer = model.predict(position, model.start())  # the words of the head and the cluster: a quarter each
    assert model.best(answer, 3).ids.tolist() == [0, 1, 2]
    assert model.executed_flops(answer) == executed_flops(shape, [1])


def test_executed_flops_count_the_clusters_that_were_opened() -> None:
    model = open_core(CLUSTERED)
    position = model.full_position()
    answer = model.predict(position, model.step(position, model.start(), 4))
    assert model.executed_flops(answer) == executed_flops(CLUSTERED, [0, 0, 0])
    model.best(answer, 1, Choice(candidates=np.array([34])))
    assert model.executed_flops(answer) == executed_flops(CLUSTERED, [0, 1, 0])


def test_a_prefix_chooses_among_the_words_that_begin_with_it() -> None:
    model = open_core(SHAPE)
    position = model.full_position()
    answer = model.predict(position, model.step(position, model.start(), 4))
    scores = model.log_probabilities(answer)
    with_prefix = [word for word in range(61) if (model.word(word) or "").startswith("word4")]
    assert len(with_prefix) == 11  # word4, word40 … word49
    assert model.best(answer, 20, Choice(prefix=b"word4")).ids.tolist() == expected_best(scores, with_prefix, 20)
    assert len(model.best(answer, 3, Choice(prefix=b"nothing")).ids) == 0
    assert len(model.best(answer, 61, Choice(prefix=b"")).ids) == 61


# --- words and positions ----------------------------------------------------------------------------------


def test_words_are_found_by_their_bytes() -> None:
    model = open_core(SHAPE)
    assert [model.find_word(model.word(number) or "") for number in range(61)] == list(range(61))
    assert model.find_word("word") == model.find_word("word600") == model.find_word("") == -1
    assert model.word(-1) is None and model.word(61) is None


def test_positions_come_from_the_path() -> None:
    order = Ranking("first", "test", tuple(-np.arange(size, dtype=np.float32) for size in SHAPE.hidden_sizes))
    path = tuple(position_of(best_of(order, SHAPE, widths)) for widths in ((40, 33, 12), (20, 16, 8), (4, 4, 4)))
    model = CoreModel(
        ordered_bytes(small_weights(SHAPE), SHAPE, make_vocabulary(SHAPE.vocabulary_size), order="first", path=path)
    )
    assert model.config.positions == 3
    assert [model.position_at(number).widths for number in range(3)] == [position.widths for position in path]
    assert model.position_near(1.0).widths == (40, 33, 12)
    assert model.position_near(path[1].cost + 0.01).widths == (20, 16, 8)
    with pytest.raises(RheostatError, match="costs so little"):
        model.position_near(path[2].cost / 2)
    with pytest.raises(RheostatError, match="share of the cost"):
        model.position_near(1.5)
    with pytest.raises(RheostatError, match="no such position"):
        model.position_at(3)


def test_wrong_arguments_are_errors_in_one_line() -> None:
    model = open_core(SHAPE)
    position, state = model.full_position(), model.start()
    with pytest.raises(RheostatError, match="id is not in the vocabulary"):
        model.step(position, state, 61)
    with pytest.raises(RheostatError, match="id is not in the vocabulary"):
        model.steps(position, state, [1, -1])
    with pytest.raises(RheostatError, match="a width or a bit bound that the model does not have"):
        model.step(Widths((41, 33, 12)), state, 1)
    with pytest.raises(RheostatError, match="k must be"):
        model.best(model.predict(position, state), 2000)
    with pytest.raises(RheostatError, match="no kernel"):
        open_core(SHAPE, kernel="abacus")


# --- files ------------------------------------------------------------------------------------------------


def test_every_truncation_is_refused() -> None:
    file = ordered_bytes(small_weights(SHAPE), SHAPE, make_vocabulary(SHAPE.vocabulary_size))
    for length in [*range(0, 4000, 37), len(file) - 1]:
        with pytest.raises(ModelFileError):
            CoreModel(file[:length].copy())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'\\"format_version\\": 2', b'\\"format_version\\": 3', "expected an ordered QRNN"),
        (b'\\"cell\\": \\"qrnn\\"', b'\\"cell\\": \\"lstm\\"', "expected an ordered QRNN"),
        (b'\\"ordered\\": \\"as stored\\"', b'\\"ordered\\": \\"\\"         ', "expected an ordered QRNN"),
        (b'\\"ordered\\": \\"as stored\\"', b'\\"ordered\\": null         ', "expected an ordered QRNN"),
        (b'"output.bias"', b'"output.bios"', "no tensor output.bias"),
        (b'"layers.1.bias"', b'"layers.0.bias"', "occurs twice"),
        (b'{"__metadata__"', b'["__metadata__"', "not proper JSON"),
        (
            b'"embedding.weight.upper":{"dtype":"U8","shape":[4,2',
            b'"embedding.weight.upper":{"dtype":"U8","shape":[4,1',
            "shape of",
        ),
        (b'\\"embedding_size\\": 12', b'\\"embedding_size\\": 17', "unexpected shape of tensor embedding.weight.upper"),
        (b'"embedding.weight.lower"', b'"embedding.weight.loner"', "have a lower plane and others have none"),
    ],
)
def test_a_broken_header_says_what_is_wrong(old: bytes, new: bytes, message: str) -> None:
    file = ordered_bytes(small_weights(SHAPE), SHAPE, make_vocabulary(SHAPE.vocabulary_size)).tobytes()
    assert file.count(old) == 1 and len(old) == len(new)
    with pytest.raises(ModelFileError, match=message):
        CoreModel(file.replace(old, new))


@pytest.mark.parametrize(("name", "value"), [("embedding.weight.scale", math.nan), ("output.bias", math.inf)])
def test_a_value_that_no_model_has_is_refused(name: str, value: float) -> None:
    weights = as_precision(small_weights(SHAPE), "int8")
    weights[name] = weights[name].copy()
    weights[name].flat[7] = value
    with pytest.raises(ModelFileError, match=name):
        CoreModel(ordered_bytes(weights, SHAPE, make_vocabulary(SHAPE.vocabulary_size)))


# --- elementary functions ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The core with everything visible."""
    out = tmp_path_factory.mktemp("core") / "visible.so"
    run_compiler(find_compiler(), [*FLAGS, "-shared", "-fPIC", *sources()], out)
    try:
        return ctypes.CDLL(str(out))
    except OSError as error:  # under emulation the compiler is the host's
        pytest.skip(f"the compiler is for another processor: {error}")


def test_exponentials_and_logarithms_are_as_exact_as_stated(functions: ctypes.CDLL) -> None:
    functions.rheo_exp.restype, functions.rheo_exp.argtypes = ctypes.c_float, [ctypes.c_float]
    functions.rheo_log.restype, functions.rheo_log.argtypes = ctypes.c_double, [ctypes.c_double]
    points = np.linspace(-86.9, 87.9, 20_001, dtype=np.float32)
    found = np.array([functions.rheo_exp(float(x)) for x in points])
    assert np.abs(found / np.exp(points.astype(np.float64)) - 1).max() < 1.5e-7
    assert functions.rheo_exp(-87.5) == functions.rheo_exp(-1e30) == 0
    assert functions.rheo_exp(0.0) == 1
    for x in np.geomspace(1e-30, 1e30, 2001):
        assert functions.rheo_log(x) == pytest.approx(math.log(x), rel=1e-14, abs=1e-15)


def test_gates_are_as_exact_as_stated() -> None:
    """A layer whose products are zero: its biases alone decide σ(f) = 1/2, h = σ(o) c and c = tanh(z) / 2."""
    shape = ModelShape(61, 8, (1000, 8), (1, 1))
    z, o = np.linspace(-20, 20, 1000), np.linspace(20, -20, 1000)
    weights = {name: np.zeros_like(array) for name, array in make_weights(shape).items()}
    weights["layers.0.bias"] = np.concatenate([z, np.zeros(1000), o]).astype(np.float32)
    model = CoreModel(ordered_bytes(weights, shape, make_vocabulary(61), "fp32"))
    cells = np.frombuffer(model.step(model.full_position(), model.start(), 4).tobytes(), np.float32)[:1000]
    assert np.abs(cells - np.tanh(z.astype(np.float32).astype(np.float64)) / 2).max() <= 2.4e-7 / 2 + 6e-8


def test_any_number_but_0_in_a_mask_allows_a_word() -> None:
    model = open_core(CLUSTERED)
    position = model.full_position()
    answers = [model.predict(position, model.step(position, model.start(), 4)) for _ in range(2)]
    masks = [np.full(CLUSTERED.vocabulary_size, value, np.uint8) for value in (1, 255)]
    found = [model.best_words(answer, 61, Choice(mask=mask)) for answer, mask in zip(answers, masks, strict=True)]
    assert found[0] == found[1] and len(found[0][0]) == 61


@pytest.mark.parametrize("bias", [-5e4, -1e6, 1e6])
@pytest.mark.parametrize("precision", ["int8", "fp32"])
def test_the_best_words_are_exact_beside_a_huge_logit(precision: str, bias: float) -> None:
    """log p of all words is then rounded to the same few numbers."""
    weights = small_weights(SHAPE)
    weights["output.bias"] = weights["output.bias"].copy()
    weights["output.bias"][0] = bias
    model = CoreModel(ordered_bytes(weights, SHAPE, make_vocabulary(SHAPE.vocabulary_size), precision))
    position, state = model.full_position(), model.start()
    for word in range(2, 30):
        state = model.step(position, state, word)
        answer = model.predict(position, state)
        scores = model.log_probabilities(answer)
        assert model.best(answer, 5).ids.tolist() == expected_best(scores, list(range(SHAPE.vocabulary_size)), 5)


def test_a_cache_takes_only_words_and_positions_that_the_model_has() -> None:
    model = open_core(SHAPE)
    position, cache = model.full_position(), model.start_cache(3)
    state = model.step(position, model.start(), 4)
    for word in (-5, SHAPE.vocabulary_size, 1_000_000):
        with pytest.raises(RheostatError, match="word"):
            model.add_to_cache(position, cache, state, word)
    wide = Widths((*SHAPE.hidden_sizes[:-1], 100_000))
    with pytest.raises(RheostatError, match="width"):
        model.add_to_cache(wide, cache, state, 4)
    with pytest.raises(RheostatError, match="width"):
        model.mix_cache(wide, cache, state, 0.1, 0.1, model.predict(position, state))
