"""The cache of the last words: the core against its definition in NumPy, and what depends on a text alone."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rheostat
from models import make_vocabulary, make_weights, write_words
from rheostat.core.binding import CoreModel
from rheostat.core.library import kernels
from rheostat.core.values import Widths
from rheostat.errors import RheostatError
from rheostat.model.file import open_model
from rheostat.model.knob import choose
from rheostat.model.ordered import ordered_bytes
from rheostat.model.shape import ModelShape
from rheostat.runtime.engine import Cache, CachedEngine, CoreEngine
from rheostat.runtime.evaluation import RuntimeEvaluator
from rheostat.runtime.points import engines_of
from rheostat.text.vocabulary import END_OF_LINE, UNKNOWN

SHAPE = ModelShape(60, 16, (24, 16), (2, 1))
WORDS = (UNKNOWN, END_OF_LINE, "we", "can", "go", "together", "now", "home")


def engine(cache: Cache, widths: tuple[int, ...] = SHAPE.hidden_sizes, kernel: str | None = None) -> CachedEngine:
    weights = {name: 0.5 * array for name, array in make_weights(SHAPE).items()}
    model = CoreModel(ordered_bytes(weights, SHAPE, make_vocabulary(SHAPE.vocabulary_size)), kernel)
    return CachedEngine(CoreEngine(model, Widths(widths), SHAPE, "int8", 0), cache)


def textbook(of: CachedEngine, text: list[int]) -> np.ndarray:
    """(1 - λ) p + λ p_cache, with h as the core keeps it, in eight bits."""
    core, position, width = of.core.model, of.core.position, of.core.position.widths[-1]
    state, pairs = core.start(), []
    for token in text:
        h = np.frombuffer(state.tobytes(), np.float32)[-SHAPE.hidden_sizes[-1] :][:width]
        if h.any():
            pairs.append((h, token))
        state = core.step(position, state, token)
    plain = np.exp(core.log_probabilities(core.predict(position, state)).astype(float))
    pairs = pairs[-of.cache.words :]
    if not pairs:
        return np.log(plain)

    def in_eight_bits(h: np.ndarray) -> np.ndarray:
        return np.trunc(h / abs(h).max() * 127 + 0.5 * np.sign(h)) * abs(h).max() / 127

    own = in_eight_bits(np.frombuffer(state.tobytes(), np.float32)[-SHAPE.hidden_sizes[-1] :][:width].astype(float))
    scores = np.array([of.cache.sharpness * in_eight_bits(h.astype(float)) @ own for h, _ in pairs])
    shares = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    cached = np.bincount([token for _, token in pairs], weights=shares, minlength=SHAPE.vocabulary_size)
    weight = of.cache.weight * len(pairs) / of.cache.words
    return np.log((1 - weight) * plain + weight * cached)


def read(of: CachedEngine, text: list[int]):  # type: ignore[no-untyped-def]
    state, reading = of.start(), None
    for token in text:
        reading = of.read(state, token)
        state = of.after(reading)
    return reading


@settings(max_examples=50)
@given(
    st.lists(st.integers(0, 59), min_size=1, max_size=30),
    st.integers(1, 12),
    st.floats(0, 0.5),
    st.floats(0, 3),
    st.sampled_from([SHAPE.hidden_sizes, (10, 7)]),
)
def test_the_core_mixes_the_cache_as_defined(
    text: list[int], words: int, weight: float, sharpness: float, widths: tuple[int, ...]
) -> None:
    of = engine(Cache(words, weight, sharpness), widths)
    found = of.log_probabilities(read(of, text))
    np.testing.assert_allclose(found, textbook(of, text), atol=1e-3)
    assert np.exp(found.astype(float)).sum() == pytest.approx(1, abs=1e-4)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 59), min_size=2, max_size=30), st.integers(1, 9), st.data())
def test_a_text_read_in_one_pass_has_the_same_bits(text: list[int], words: int, data: st.DataObject) -> None:
    of, place = engine(Cache(words)), data.draw(st.integers(0, len(text) - 1))
    state = of.replay(of.start(), text[:place])
    for token in text[place:]:
        reading = of.read(state, token)
        state = of.after(reading)
    assert np.array_equal(of.log_probabilities(reading), of.log_probabilities(read(of, text)))


@pytest.mark.parametrize("kernel", kernels())
def test_every_kernel_has_the_same_bits(kernel: str) -> None:
    text = [3, 5, 7, 3, 5, 9, 3]
    first, other = engine(Cache(4)), engine(Cache(4), kernel=kernel)
    assert np.array_equal(first.log_probabilities(read(first, text)), other.log_probabilities(read(other, text)))


def test_a_cache_of_another_position_is_refused() -> None:
    of, narrow = engine(Cache(4)), Widths((10, 7))
    reading, model = read(of, [1, 2, 3]), of.core.model
    with pytest.raises(RheostatError, match="read the text again"):
        model.mix_cache(narrow, reading.cache, reading.core.state, 0.1, 0.1, of.core.answer(reading.core))
    model.add_to_cache(narrow, reading.cache, reading.core.state, 4)  # starts again
    model.mix_cache(narrow, reading.cache, reading.core.state, 0.1, 0.1, of.core.answer(reading.core))


def test_an_answer_that_was_dropped_is_mixed_again() -> None:
    of = engine(Cache(4, 0.3))
    reading = read(of, [3, 5, 3, 5, 3])
    first = of.log_probabilities(reading)
    reading.core.kept.answer = None
    assert np.array_equal(of.log_probabilities(reading), first)
    reading.core.kept.answer = None
    assert [word for word, _ in of.best(reading, 5)] == np.lexsort((np.arange(len(first)), -first))[:5].tolist()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shape = ModelShape(len(WORDS), 8, (16, 8), (2, 1))
    return write_words(tmp_path_factory.mktemp("cache") / "model.safetensors", WORDS, shape)


def test_words_of_the_text_become_more_probable_and_nothing_else_changes(model: Path) -> None:
    text = "home home home home home we"
    with rheostat.load(model) as plain, rheostat.load(model, cache=rheostat.Cache(words=5, weight=0.3)) as cached:
        home, now = plain.vocabulary.encode(["home", "now"])
        before, after = np.exp(plain.log_probabilities(text)), np.exp(cached.log_probabilities(text))
        assert after[home] > before[home] and after[now] < before[now]
        assert {one.word for one in cached.complete(f"{text} no")} == {one.word for one in plain.complete(f"{text} no")}


def test_turning_the_knob_equals_a_fresh_predictor(model: Path) -> None:
    text = "we can go home now we can"
    with (
        rheostat.load(model, cache=rheostat.Cache()) as one,
        rheostat.load(model, 0.6, cache=rheostat.Cache()) as fresh,
    ):
        one.suggest(text)
        one.turn(0.6)
        assert np.array_equal(one.log_probabilities(text), fresh.log_probabilities(text))


def test_evaluation_with_a_cache_equals_queries(model: Path) -> None:
    ids = [2, 3, 4, 7, 1, 2, 3, 4, 6, 2, 3]
    with open_model(model) as file:
        evaluator = RuntimeEvaluator(file, "int8", cache=Cache(5))
        quality = evaluator.quality(choose(file, 1.0), np.array(ids))
        of = engines_of(file, "int8", 1, cache=Cache(5)).of_point(choose(file, 1.0))
        state, loss = of.start(), 0.0
        for token, target in pairwise(ids):
            reading = of.read(state, token)
            loss -= float(of.log_probabilities(reading)[target])
            state = of.after(reading)
    assert quality.perplexity == pytest.approx(np.exp(loss / (len(ids) - 1)), rel=1e-5)


@pytest.mark.parametrize("options", [{"words": 0}, {"words": 5000}, {"weight": 1.0}, {"sharpness": -1}])
def test_wrong_settings_are_errors(options: dict[str, float]) -> None:
    with pytest.raises(RheostatError, match="cache"):
        Cache(**options)  # type: ignore[arg-type]


def test_onnx_runtime_has_no_cache(model: Path) -> None:
    with pytest.raises(RheostatError, match="no cache"):
        rheostat.load(model, engine="onnx", cache=Cache())


def test_an_answer_that_is_made_again_is_kept_once_the_cache_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread asks while it is made: it must not get an answer without the cache."""
    of = engine(Cache(words=4, weight=0.5))
    state, reading = of.start(), None
    for token in (3, 5, 3, 5, 3):
        reading = of.read(state, token)
        state = of.after(reading)
    assert reading is not None
    expected = of.best(reading, 3)
    reading.core.kept.answer = None
    mix, seen = of.core.model.mix_cache, []

    def mix_while_another_asks(*arguments: Any) -> None:
        if not seen:
            seen.append(None)
            seen.append(of.best(reading, 3))
        mix(*arguments)

    monkeypatch.setattr(of.core.model, "mix_cache", mix_while_another_asks)
    assert of.best(reading, 3) == expected
    assert seen[1] == expected


def test_an_answer_that_is_dropped_while_it_is_asked_for_has_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    of = engine(Cache(words=4, weight=0.5))
    state = of.start()
    for token in (3, 5, 3, 5):
        state = of.after(of.read(state, token))
    _, expected = of.query(state, 3, 3)
    keep = of.core.keep

    def keep_nothing(answer: Any) -> Any:
        kept = keep(answer)
        kept.answer = None
        return kept

    monkeypatch.setattr(of.core, "keep", keep_nothing)
    reading, found = of.query(state, 3, 3)
    assert found == expected
    assert of.best(reading, 3) == expected
