"""The predictor: suggestions, cached states, the knob, the user's words, and all kinds of text."""

from __future__ import annotations

import gc
import random
import shutil
import threading
import time
import tracemalloc
import weakref
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rheostat
from models import make_weights, write_tiny, write_words
from rheostat.core.binding import CoreModel
from rheostat.core.values import Query
from rheostat.errors import OperatingPointError, RheostatError
from rheostat.model import knob as knob_positions
from rheostat.model.contents import add_points
from rheostat.model.cut import cut
from rheostat.model.file import open_model
from rheostat.model.knob import choose
from rheostat.model.operating_point import Update
from rheostat.model.shape import ModelShape
from rheostat.model.writer import write_model
from rheostat.runtime.engine import CoreEngine, CoreReading
from rheostat.runtime.history import NODE_BYTES
from rheostat.runtime.onnx.session import GraphEngine
from rheostat.runtime.predictor import Predictor
from rheostat.text.vocabulary import END_OF_LINE, UNKNOWN

WORDS = (
    UNKNOWN,
    END_OF_LINE,
    *["i", "am", "the", "game", "gate", "gates", "garden", "sees", "saw", "boat", "paris", ".", ",", "<num>"],
)
NEVER_SUGGESTED = {UNKNOWN, END_OF_LINE, ".", ",", "<num>"}
SHAPE = ModelShape(len(WORDS), 8, (24, 20, 8), (2, 1, 1))
TEXT = ["i", "saw", "the", "boat", ".", "the", "garden", "gate", "sees", "paris", ",", "i", "am", "the", "game"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_words(
        tmp_path_factory.mktemp("predictor") / "model.safetensors",
        WORDS,
        SHAPE,
        weights=make_weights(SHAPE, seed=5),
        casing={"paris": "Paris"},
    )


def words_of(suggestions: list[rheostat.Suggestion]) -> list[str]:
    return [suggestion.word for suggestion in suggestions]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The tokens that engines read."""
    seen: list[int] = []
    query, replay = CoreModel.query, CoreEngine.replay

    def counted(self: CoreModel, position: Any, state: Any, token: int, *rest: Any) -> Query:
        seen.append(token)
        return query(self, position, state, token, *rest)

    def replayed(self: CoreEngine, state: Any, ids: Any) -> object:
        seen.extend(ids)
        return replay(self, state, ids)

    monkeypatch.setattr(CoreModel, "query", counted)
    monkeypatch.setattr(CoreEngine, "replay", replayed)
    return seen


def test_suggestions_are_the_most_probable_suggestible_words(model: Path) -> None:
    predictor = rheostat.load(model, precision="fp32")
    log_probabilities = predictor.log_probabilities_after([END_OF_LINE, "i", "saw"])
    order = [WORDS[i] for i in np.argsort(-log_probabilities) if WORDS[i] not in NEVER_SUGGESTED]
    found = predictor.suggest("I saw", k=5)
    assert [word.lower() for word in words_of(found)] == order[:5]
    assert found[0].probability == pytest.approx(float(np.exp(log_probabilities[WORDS.index(order[0])])), rel=1e-5)


def test_a_prefix_ranks_only_the_words_that_begin_with_it_exactly(model: Path) -> None:
    predictor = rheostat.load(model, precision="fp32", slips=False)
    log_probabilities = predictor.log_probabilities_after([END_OF_LINE, "i", "saw", "the"])
    expected = sorted((w for w in WORDS if w.startswith("ga")), key=lambda w: -log_probabilities[WORDS.index(w)])
    assert words_of(predictor.suggest("I saw the", k=9, prefix="ga")) == expected
    assert words_of(predictor.complete("I saw the ga", k=9)) == expected


def test_capitals_are_restored(model: Path) -> None:
    predictor = rheostat.load(model, slips=False)
    assert words_of(predictor.suggest("the boat sees", prefix="par")) == ["Paris"]
    assert words_of(predictor.complete("I saw. Gar")) == ["Garden"]


def test_one_more_word_costs_one_step_and_deleting_words_costs_none(model: Path, steps: list[int]) -> None:
    predictor = rheostat.load(model)
    typed = " ".join(TEXT)
    predictor.suggest(typed)
    steps.clear()
    predictor.suggest(typed + " the")
    assert len(steps) == 1
    steps.clear()
    for end in range(len(TEXT), len(TEXT) - 5, -1):
        predictor.suggest(" ".join(TEXT[:end]))
    assert not steps


def test_typing_letters_of_a_word_costs_no_step(model: Path, steps: list[int]) -> None:
    predictor = rheostat.load(model)
    predictor.complete("i saw the ")
    steps.clear()
    for letters in ("g", "ga", "gat", "gate"):
        predictor.complete(f"i saw the {letters}")
    assert not steps


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_turning_the_knob_mid_sentence_equals_a_fresh_run(model: Path, precision: str) -> None:
    turned = rheostat.load(model, precision=precision)  # type: ignore[arg-type]
    chance = random.Random(4)
    for end in range(1, len(TEXT) + 1):
        knob = chance.choice([1.0, 0.8, 0.6, 0.4])
        turned.turn(knob)
        fresh = rheostat.load(model, knob=knob, precision=precision)  # type: ignore[arg-type]
        found, expected = (p.suggest(" ".join(TEXT[:end])) for p in (turned, fresh))
        assert words_of(found) == words_of(expected)
        assert [s.probability for s in found] == pytest.approx([s.probability for s in expected], rel=1e-4)


def test_the_knob_never_spends_more_than_requested(model: Path) -> None:
    predictor = rheostat.load(model)
    for knob in (1.0, 0.77, 0.5, 0.31):
        predictor.turn(knob)
        assert predictor.flops_fraction <= knob
        assert predictor.knob == knob


def test_a_position_that_cannot_be_served_is_an_error_and_changes_nothing(model: Path) -> None:
    predictor = rheostat.load(model, knob=0.7)
    before = predictor.point
    for wrong in ({"knob": 0.0}, {"knob": 1.5}, {"point": "no such"}, {}, {"knob": 0.5, "latency_ms": 1.0}):
        for wait in (True, False):
            with pytest.raises(OperatingPointError):
                predictor.turn(**wrong, wait=wait)  # type: ignore[arg-type]
    assert predictor.point is before


def test_a_new_point_is_built_in_the_background_while_the_old_one_serves(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = rheostat.load(model, engine="onnx")
    may_build = threading.Event()

    def slow(*arguments: Any) -> Any:
        may_build.wait(10)
        return cut(*arguments)

    monkeypatch.setattr("rheostat.runtime.onnx.weights.cut", slow)
    predictor.turn(0.6, wait=False)
    assert predictor.flops_fraction == 1
    assert predictor.suggest("i saw the")
    may_build.set()
    for _ in range(500):
        if predictor.flops_fraction < 1:
            break
        threading.Event().wait(0.02)
    assert predictor.knob == 0.6


@pytest.mark.parametrize("stored", ["fp32", "fp16", "int8"])
def test_weights_are_kept_only_from_the_first_turn_on(tmp_path: Path, stored: Any) -> None:
    shape = ModelShape(len(WORDS), 8, (600, 600, 8), (2, 1, 1))
    path = write_words(tmp_path / "wide.safetensors", WORDS, shape, precision=stored)
    in_int8 = sum(np.prod(size) for size in shape.tensor_shapes().values())
    rheostat.load(path, engine="onnx").suggest("i saw the")  # created once for all predictors
    tracemalloc.start()  # sees NumPy's arrays, and not what ONNX Runtime holds
    try:
        predictor = rheostat.load(path, engine="onnx")
        predictor.suggest("i saw the")
        loaded, _ = tracemalloc.get_traced_memory()
        predictor.turn(0.6)
        turned, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert loaded < in_int8 / 4
    assert in_int8 < turned < 1.5 * in_int8
    if (maps := Path("/proc/self/maps")).exists():
        assert str(path) not in maps.read_text()


@pytest.mark.parametrize("stored", ["fp32", "int8"])
def test_turning_the_knob_of_the_core_takes_no_memory(tmp_path: Path, stored: Any) -> None:
    shape = ModelShape(len(WORDS), 8, (600, 600, 8), (2, 1, 1))
    path = write_words(tmp_path / "wide.safetensors", WORDS, shape, precision=stored)
    in_int8 = sum(np.prod(size) for size in shape.tensor_shapes().values())
    rheostat.load(path, 0.5).suggest("i saw the")  # created once for all predictors
    tracemalloc.start()
    try:
        predictor = rheostat.load(path)
        predictor.suggest("i saw the")
        loaded, _ = tracemalloc.get_traced_memory()
        for knob in (0.9, 0.7, 0.5, 0.3):
            predictor.turn(knob)
            predictor.suggest("i saw the")
        turned, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert in_int8 < loaded < 1.5 * in_int8
    assert turned - loaded < in_int8 / 4  # states and answers; another copy of the weights would be more


def test_a_deleted_predictor_is_freed_at_once(model: Path) -> None:
    predictor = rheostat.load(model)
    point = weakref.ref(predictor.point)  # held by the engine and its caches
    gc.disable()
    try:
        del predictor
        assert point() is None
    finally:
        gc.enable()


def test_a_turn_overrides_earlier_ones_still_in_the_background(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = rheostat.load(model, knob=0.4, engine="onnx")
    predictor.turn(1.0)
    may_build, builds, others = threading.Event(), [], set(threading.enumerate())

    def slow(*arguments: Any) -> Any:
        may_build.wait(10)
        builds.append(arguments)
        return cut(*arguments)

    monkeypatch.setattr("rheostat.runtime.onnx.weights.cut", slow)
    for knob in (0.9, 0.8, 0.7, 0.6, 0.5):
        predictor.turn(knob, wait=False)
    predictor.turn(0.4)  # visited before, so it does not wait for the others
    may_build.set()
    for thread in set(threading.enumerate()) - others:
        thread.join(10)
    assert builds and predictor.knob == 0.4 and predictor.flops_fraction <= 0.4


def test_of_several_turns_in_the_background_the_last_one_counts(model: Path) -> None:
    predictor = rheostat.load(model)
    others = set(threading.enumerate())
    for knob in (0.9, 0.8, 0.7, 0.6, 0.5):
        predictor.turn(knob, wait=False)
    for thread in set(threading.enumerate()) - others:
        thread.join(10)
    assert predictor.knob == 0.5 and predictor.flops_fraction <= 0.5


@pytest.fixture
def unmeasured(model: Path, tmp_path: Path) -> Path:
    """A file of its own, since times are kept for the life of a process."""
    return Path(shutil.copy(model, tmp_path))


def test_a_latency_is_met_by_the_largest_point_that_was_measured_to_fit(unmeasured: Path) -> None:
    predictor = rheostat.load(unmeasured)
    predictor.turn(latency_ms=1000)
    assert predictor.flops_fraction == 1
    with pytest.raises(OperatingPointError, match="ms per query was requested; the smallest point tried, 4% of"):
        predictor.turn(latency_ms=1e-9)


def test_a_latency_is_met_by_the_largest_step_of_the_knob(unmeasured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, tried, query = 0.0, list[float](), CoreEngine.query

    def timed(self: CoreEngine, *arguments: Any) -> Any:
        nonlocal now_s
        share = self.shape.flops / SHAPE.flops
        now_s += 0.001 if share <= 0.7 else 0.0010001  # barely too slow
        tried.append(share)
        return query(self, *arguments)

    monkeypatch.setattr(CoreEngine, "query", timed)
    predictor = rheostat.load(unmeasured)
    with monkeypatch.context() as clock:
        clock.setattr(time, "perf_counter", lambda: now_s)
        predictor.turn(latency_ms=1.00001)
        assert predictor.knob == 0.7 and type(predictor.knob) is float
        first_round = tried[: len(set(tried))]
        assert first_round == sorted(set(tried), reverse=True)  # interleaved, from the full model down
        tried.clear()
        now_s += 1000  # whatever happens later
        predictor.turn(1.0)
        predictor.turn(latency_ms=1.00001)
    assert predictor.knob == 0.7 and not tried  # from the table
    assert rheostat.load(unmeasured).at(0.5).knob == 0.5


def test_a_noisy_clock_gives_the_same_answer_twice(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One query in five is slow, and small positions look slower than large ones now and then."""
    now_s, chance, query = 0.0, random.Random(1), CoreEngine.query

    def timed(self: CoreEngine, *arguments: Any) -> Any:
        nonlocal now_s
        share = self.shape.flops / SHAPE.flops
        now_s += 0.001 * share * chance.uniform(0.8, 1.2) * (30 if chance.random() < 0.2 else 1)
        return query(self, *arguments)

    monkeypatch.setattr(CoreEngine, "query", timed)
    found = set[float]()
    with monkeypatch.context() as clock:
        clock.setattr(time, "perf_counter", lambda: now_s)
        for number in range(5):
            predictor = rheostat.load(shutil.copy(model, tmp_path / f"{number}.safetensors"))
            predictor.turn(latency_ms=0.5)
            found.add(predictor.knob)
            predictor.turn(latency_ms=0.5)
            assert predictor.knob in found
    assert max(found) - min(found) <= 0.1 and min(found) >= 0.35


@pytest.fixture
def updated(model: Path, tmp_path: Path) -> tuple[Path, float, str]:
    """The model with a stored update for the cut of a knob position, but too far below the position to be used."""
    with open_model(model) as file:
        knob = next(knob for knob in np.arange(0.9, 0.3, -0.01) if knob - choose(file, knob).flops_fraction > 0.011)
        plain = choose(file, knob)
        sizes = [plain.cut_shape(file.shape).matrix_shape(layer) for layer in range(len(plain.keep))]
        updates = tuple(Update(np.ones((r, 1), np.float32), np.ones((1, c), np.float32)) for r, c in sizes)
        path = tmp_path / "updated.safetensors"
        write_model(path, add_points(file.contents(), [replace(plain, updates=updates)]))
        return path, float(knob), plain.name


def test_a_stored_point_reports_its_own_share(updated: tuple[Path, float, str]) -> None:
    path, _, name = updated
    turned = rheostat.load(path)
    turned.turn(point=name)
    assert rheostat.load(path, point=name).knob == turned.knob == turned.flops_fraction < 1


def test_an_update_is_never_taken_for_the_plain_cut_of_the_same_name(updated: tuple[Path, float, str]) -> None:
    path, knob, name = updated
    predictor, fresh = rheostat.load(path, knob), rheostat.load(path, point=name)
    assert predictor.point.name == fresh.point.name and predictor.point.updates is None
    predictor.turn(point=name)
    np.testing.assert_array_equal(predictor.log_probabilities_after(TEXT), fresh.log_probabilities_after(TEXT))


def test_log_probabilities_are_a_copy(model: Path) -> None:
    predictor = rheostat.load(model)
    words = list(predictor.vocabulary.words[2:5])
    before = predictor.log_probabilities_after(words).copy()
    predictor.log_probabilities_after(words)[:] = 0
    np.testing.assert_array_equal(predictor.log_probabilities_after(words), before)


@pytest.mark.parametrize(("cache_bytes", "kept"), [(1, {0.7}), (1 << 30, {0.9, 0.8, 0.7})])
def test_the_cache_of_points_is_bounded_and_the_one_in_use_stays(
    model: Path, cache_bytes: int, kept: set[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = Predictor(model, cache_bytes=cache_bytes, history_bytes=1 << 20, engine="onnx")
    for knob in (0.9, 0.8, 0.7):
        predictor.turn(knob)
        assert predictor.suggest("i saw")
    builds: list[object] = []
    monkeypatch.setattr("rheostat.runtime.onnx.weights.cut", lambda *what: builds.append(what) or cut(*what))
    for knob in (0.7, 0.8, 0.9):
        builds.clear()
        predictor.turn(knob)
        assert bool(builds) == (knob not in kept)


def test_threads_get_the_same_answers_as_alone(model: Path) -> None:
    predictor = rheostat.load(model, knob=0.7)
    texts = [" ".join(TEXT[start:end]) for start in range(6) for end in range(start + 1, len(TEXT))]
    alone = {text: words_of(rheostat.load(model, knob=0.7).suggest(text)) for text in texts[::9]}
    wrong: list[str] = []

    def type_all(seed: int) -> None:
        for text in random.Random(seed).sample(texts, len(texts)):
            found = words_of(predictor.suggest(text))
            if text in alone and found != alone[text]:
                wrong.append(text)

    threads = [threading.Thread(target=type_all, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_learned_words_are_suggested_at_once_listed_and_forgotten(model: Path, tmp_path: Path) -> None:
    predictor = rheostat.load(model, user_words=tmp_path / "words.json", slips=False)
    assert "Rheostat" not in words_of(predictor.complete("the Rhe"))
    predictor.learn("Rheostat")
    assert words_of(predictor.complete("the Rhe")) == ["Rheostat"]
    again = rheostat.load(model, user_words=tmp_path / "words.json", slips=False)
    assert words_of(again.complete("the rhe"))[0] == "Rheostat"
    assert again.complete("the rhe")[0].source == "user"
    assert [word.word for word in again.user_words.words()] == ["Rheostat"]
    assert again.forget("Rheostat")
    assert not again.complete("the rhe")


def test_excluded_words_are_not_suggested(model: Path) -> None:
    predictor = rheostat.load(model, hidden_words=["game", "Gates"])
    assert set(words_of(predictor.suggest("i saw the", k=9, prefix="ga"))) == {"gate", "garden"}


def test_a_hidden_word_is_suggested_once_the_user_has_learned_it(model: Path) -> None:
    predictor = rheostat.load(model, hidden_words=["game"])
    predictor.learn("Game")
    assert [s.source for s in predictor.suggest("i saw the", k=9, prefix="ga") if s.word == "Game"] == ["user"]


def test_a_predictor_at_another_point_leaves_the_first_where_it_was(model: Path) -> None:
    first = rheostat.load(model)
    second = first.at(0.6)
    fresh = rheostat.load(model, 0.6)
    assert (first.knob, second.knob) == (1.0, 0.6)
    assert second.suggest("i saw the") == fresh.suggest("i saw the")
    second.turn(1.0)
    first.turn(0.8)
    assert second.knob == 1.0 and second.user_words is first.user_words


def test_special_tokens_and_punctuation_are_never_suggested(model: Path) -> None:
    found = words_of(rheostat.load(model).suggest("i", k=50))
    assert len(found) == len(WORDS) - len(NEVER_SUGGESTED) and not set(found) & NEVER_SUGGESTED


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   \n\n ",
        "x" * 10_000,
        "i saw the " * 100_000,
        "\x00\x01\x1b[31m\x7f",
        "👩‍👩‍👧‍👦🇩🇪👍🏽 the",
        "שלום עולם the مرحبا",
        "<unk> <eos> <num>",
        "i\ud800saw",
    ],
)
def test_any_text_gets_an_answer(model: Path, text: str) -> None:
    predictor = rheostat.load(model)
    found = predictor.suggest(text)
    assert len(found) == 3 and {word.lower() for word in words_of(found)} < set(WORDS) - NEVER_SUGGESTED
    assert all(first.probability >= second.probability > 0 for first, second in pairwise(found))
    assert words_of(predictor.complete(f"{text} ")) == words_of(found)
    before_the_cursor = predictor.complete(text)
    assert all(0 <= suggestion.replaces <= len(text) for suggestion in before_the_cursor)


def test_long_texts_are_read_within_the_bound(model: Path, steps: list[int]) -> None:
    predictor, unbounded = Predictor(model, context=16, precision="fp32"), rheostat.load(model, precision="fp32")
    long = TEXT * 20
    steps.clear()
    found = predictor.suggest(" ".join(long), k=5)
    read = [WORDS[token] for token in steps]
    assert 8 <= len(read) <= 16 and read == long[-len(read) :]
    expected = np.exp(unbounded.log_probabilities_after(read))
    assert [s.probability for s in found] == pytest.approx([expected[WORDS.index(s.word.lower())] for s in found])
    assert found != unbounded.suggest(" ".join(long), k=5)


@pytest.mark.parametrize("k", [0, -1, 1000])
def test_an_impossible_number_of_suggestions_is_refused(model: Path, k: int) -> None:
    with pytest.raises(RheostatError, match=r"k is .*; expected a whole number from 1 to 100"):
        rheostat.load(model).suggest("i", k=k)


def test_the_predictor_reads_as_the_engine_does(model: Path) -> None:
    with open_model(model) as file:
        weights, shape = cut(file.weights(), file.shape, knob_positions.choose(file, 0.6))
    engine = GraphEngine.build(weights, shape, "fp32", 1)
    state = engine.initial_state()
    for word in (END_OF_LINE, *TEXT):
        reading = engine.read(state, WORDS.index(word))
        state = reading.state
    predictor = rheostat.load(model, knob=0.6, precision="fp32")
    np.testing.assert_allclose(
        predictor.log_probabilities_after([END_OF_LINE, *TEXT]), engine.look_up(reading), atol=1e-5
    )


def test_memory_and_answers_stay_the_same_over_many_random_texts(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live: weakref.WeakSet[CoreReading] = weakref.WeakSet()
    made = CoreReading.__init__

    def watched(self: CoreReading, *arguments: Any) -> None:
        made(self, *arguments)
        live.add(self)

    monkeypatch.setattr(CoreReading, "__init__", watched)
    predictor = Predictor(model, history_bytes=1 << 18)
    chance = random.Random(1)
    words: list[str] = []
    most_bytes = 0
    for _ in range(3000):
        words = [*words[-40:], chance.choice(WORDS[2:-3])] if chance.random() < 0.9 else words[:-3]
        predictor.suggest(" ".join(words))
        most_bytes = max(most_bytes, sum(reading.size_bytes + NODE_BYTES for reading in live))
    assert (1 << 16) < most_bytes <= 1 << 18
    assert words_of(predictor.suggest(" ".join(words))) == words_of(rheostat.load(model).suggest(" ".join(words)))


@pytest.mark.parametrize(
    ("cell", "precision", "ran"), [("qrnn", "int8", "core"), ("qrnn", "fp32", "core"), ("lstm", "int8", "onnx")]
)
def test_the_core_runs_everything_that_it_can(cell: Any, precision: Any, ran: str, tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "model.safetensors", cell)
    assert rheostat.load(path, precision=precision).engine == ran
    assert rheostat.load(path, precision=precision, engine="onnx").engine == "onnx"


def test_an_engine_that_cannot_run_a_model_says_so(tmp_path: Path) -> None:
    lstm = write_tiny(tmp_path / "lstm.safetensors", "lstm")
    with pytest.raises(rheostat.RheostatError, match="the core has no lstm; expected a qrnn"):
        rheostat.load(lstm, engine="core")
    with pytest.raises(rheostat.RheostatError, match="the engine is 'torch'; expected one of core, onnx"):
        rheostat.load(lstm, engine="torch")  # type: ignore[arg-type]
