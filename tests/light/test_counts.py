"""Counts: the small n-gram model in a file. The core against its definition in NumPy; files; counting."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import rheostat
from models import make_vocabulary, make_weights, write_tiny, write_words
from rheostat.cli import app
from rheostat.core.binding import CoreModel
from rheostat.core.library import kernels
from rheostat.core.values import Widths
from rheostat.errors import ModelFileError, RheostatError
from rheostat.measure.counting import SAMPLE, sample_texts
from rheostat.model.counts import Counts, level_of, share_of
from rheostat.model.file import open_model
from rheostat.model.ordered import ordered_bytes
from rheostat.model.path import PathPosition
from rheostat.model.shape import ModelShape
from rheostat.model.writer import write_model
from rheostat.text.vocabulary import END_OF_LINE, UNKNOWN

WORDS = (UNKNOWN, END_OF_LINE, "we", "can", "go", "together", "now", "home")
SHAPE = ModelShape(300, 16, (24, 16), (2, 1))
VOCABULARY = make_vocabulary(SHAPE.vocabulary_size)


def some_counts(vocabulary_size: int = 300, seed: int = 1, orders: int = 3, words: int = 12, costs: int = 3) -> Counts:
    """Counts over a few words, so that contexts occur; shares after a context sum to less than 1."""
    rng = np.random.default_rng(seed)
    rows, levels = [], []
    for order in range(2, orders + 2):
        chosen = np.unique(rng.integers(0, words, (40 * order, order)), axis=0).astype(np.uint16)
        rows.append(chosen)
        levels.append(level_of(rng.uniform(1e-5, 0.9 / words, len(chosen))))
    table = np.linspace(1, 0.1, costs, dtype=np.float32) if costs > 1 else np.ones(1, np.float32)
    weights = rng.uniform(0, 1, (costs, orders)).astype(np.float32)
    counts = Counts(tuple(rows), tuple(levels), table, weights)
    counts.check(vocabulary_size)
    return counts


def opened(counts: Counts | None, precision: str = "int8", kernel: str | None = None) -> CoreModel:
    weights = {name: 0.5 * array for name, array in make_weights(SHAPE).items()}
    return CoreModel(ordered_bytes(weights, SHAPE, VOCABULARY, precision, counts=counts), kernel)  # type: ignore[arg-type]


def expected(counts: Counts, text: list[int], cost: float, precision: str) -> np.ndarray:
    plain = opened(None, precision)
    answer = plain.predict(plain.full_position(), plain.steps(plain.full_position(), plain.start(), text))
    return np.log(counts.mix(np.exp(plain.log_probabilities(answer).astype(float)), text, cost))


def scores_after(core: CoreModel, position: Widths, text: list[int]) -> np.ndarray:
    return core.log_probabilities(core.predict(position, core.steps(position, core.start(), text)))


TEXTS = st.lists(st.integers(0, 13), min_size=1, max_size=40)


@settings(max_examples=60)
@given(TEXTS, st.floats(0.05, 1.0), st.integers(0, 5), st.integers(1, 3), st.sampled_from(["int8", "fp32"]))
def test_the_core_mixes_as_defined(text: list[int], cost: float, seed: int, orders: int, precision: str) -> None:
    counts = some_counts(seed=seed, orders=orders, costs=1 + seed % 3)
    core = opened(counts, precision)
    position = Widths(SHAPE.hidden_sizes, cost)
    answer = core.predict(position, core.steps(position, core.start(), text))
    ours, wanted = core.log_probabilities(answer), expected(counts, text, cost, precision)
    np.testing.assert_allclose(ours, wanted, atol=2e-5)
    assert np.exp(ours.astype(float)).sum() == pytest.approx(1, abs=1e-4)
    best = core.best(answer, 10)
    order = np.lexsort((np.arange(len(ours)), -ours))[:10]
    assert best.ids.tolist() == order.tolist() and np.array_equal(best.log_probabilities, ours[order])


@settings(max_examples=30)
@given(TEXTS.filter(lambda text: len(text) > 1), st.integers(0, 3), st.sampled_from(["int8", "fp32"]))
def test_evaluation_has_the_same_bits_as_queries(text: list[int], seed: int, precision: str) -> None:
    core = opened(some_counts(seed=seed), precision)
    position, state = Widths(SHAPE.hidden_sizes, 0.5), core.start()
    after, scores, ranks = core.evaluate(position, state, text)
    for place, word in enumerate(text[:-1]):
        state = core.step(position, state, word)
        own = core.log_probabilities(core.predict(position, state))
        assert scores[place] == own[text[place + 1]]
        assert ranks[place] == (own > own[text[place + 1]]).sum()
    assert after == state == core.steps(position, core.start(), text[:-1])


@pytest.mark.parametrize("kernel", kernels())
def test_every_kernel_gives_the_same_bits(kernel: str) -> None:
    counts, text = some_counts(), [1, 2, 3, 4, 5, 2, 3]
    scores = []
    for core in (opened(counts), opened(counts, kernel=kernel)):
        position = Widths(SHAPE.hidden_sizes, 0.3)
        state = core.steps(position, core.start(), text)
        scores.append(core.log_probabilities(core.predict(position, state)))
    assert np.array_equal(*scores)


def test_without_counts_the_network_answers_alone() -> None:
    plain, core = opened(None), opened(some_counts())
    text, position = [1, 2, 3], Widths(SHAPE.hidden_sizes, None)
    answers = [
        one.log_probabilities(one.predict(position, one.steps(position, one.start(), text))) for one in (plain, core)
    ]
    assert np.array_equal(*answers)
    assert (plain.config.counts, core.config.counts) == (0, 4)


def test_a_context_without_rows_leaves_the_network_as_it_is() -> None:
    plain, core = opened(None), opened(some_counts(words=12))
    text, position = [200, 201, 202], Widths(SHAPE.hidden_sizes)
    answers = [
        one.log_probabilities(one.predict(position, one.steps(position, one.start(), text))) for one in (plain, core)
    ]
    assert np.array_equal(*answers)


@given(st.floats(1e-6, 1.0))
def test_levels_never_round_a_share_up(share: float) -> None:
    stored = float(share_of(level_of(np.array([share])))[0])
    assert share * 0.93 < stored <= share * (1 + 1e-6)


def test_weights_lie_between_their_neighbours_in_the_table() -> None:
    counts = replace(
        some_counts(orders=1), costs=np.array([1, 0.5], np.float32), weights=np.array([[0.2], [0.4]], np.float32)
    )
    found = [counts.weights_at(cost)[0] for cost in (1, 0.75, 0.5, 0.1)]
    np.testing.assert_allclose(found, [0.2, 0.3, 0.4, 0.4], atol=1e-6)


def test_a_hostile_sum_leaves_the_network_a_share() -> None:
    rows = np.array([[1, word] for word in range(50)], np.uint16)
    counts = Counts((rows,), (np.zeros(50, np.uint8),), np.ones(1, np.float32), np.ones((1, 1), np.float32))
    core = opened(counts)
    answer = core.predict(core.full_position(), core.steps(core.full_position(), core.start(), [1]))
    found = np.exp(core.log_probabilities(answer).astype(float))
    assert np.isfinite(found).all() and found.min() > 0 and found.sum() == pytest.approx(1, abs=1e-4)


# Files


def test_counts_survive_a_file(tmp_path: Path) -> None:
    shape = ModelShape(8, 8, (16, 8), (2, 1))
    path = write_words(tmp_path / "model.safetensors", WORDS, shape)
    with open_model(path) as file:
        counts = some_counts(file.shape.vocabulary_size, words=5)
        contents = file.contents()
    write_model(path, replace(contents, counts=counts))
    with open_model(path) as file:
        assert file.description.format_version == 2 and file.description.counts_order == 4
        found = file.counts()
        assert found is not None and found.size_bytes == counts.size_bytes
        for ours, theirs in zip((*found.rows, *found.levels), (*counts.rows, *counts.levels), strict=True):
            assert np.array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": (np.array([[2, 1], [1, 1]], np.uint16),)}, "not ascending"),
        ({"rows": (np.array([[1, 1], [1, 1]], np.uint16),)}, "not ascending"),
        ({"rows": (np.array([[1, 1], [1, 60000]], np.uint16),)}, "60000"),
        ({"costs": np.array([0.5, 0.6], np.float32), "weights": np.ones((2, 1), np.float32)}, "do not descend"),
        ({"weights": np.array([[1.5]], np.float32)}, "beyond 0 to 1"),
    ],
)
def test_wrong_counts_are_refused_by_python_and_by_the_core(change: dict[str, object], message: str) -> None:
    rows = np.array([[1, 1], [1, 2]], np.uint16)
    fine = Counts((rows,), (np.full(2, 40, np.uint8),), np.ones(1, np.float32), np.full((1, 1), 0.5, np.float32))
    fine.check(300)
    opened(fine)
    wrong = replace(fine, **change)  # type: ignore[arg-type]
    with pytest.raises(ModelFileError, match=message):
        wrong.check(300)
    with pytest.raises(ModelFileError):
        opened(wrong)


# Counting a text


@pytest.fixture
def counted(tmp_path: Path) -> tuple[Path, Path]:
    """A model that was never trained, and a corpus with phrases that it cannot know."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for split in ("train", "valid", "test"):
        (folder / f"{split}.txt").write_text("we can go home now\nnow we can go together\n" * 60)
    path = write_words(tmp_path / "model.safetensors", WORDS, ModelShape(8, 8, (16, 8), (2, 1)))
    return path, folder


def test_counting_helps_and_what_it_says_is_what_evaluation_finds(counted: tuple[Path, Path], tmp_path: Path) -> None:
    model, corpus = counted
    out = tmp_path / "out.safetensors"
    found = rheostat.add_counts(model, out, data=corpus, megabytes=0.01, knobs=[1.0, 0.6])
    assert len(found.ngrams) == 3 and sum(found.ngrams) > 0 and found.size_bytes <= 10_000 + 100
    assert found.tuned[0].cost == 1 and len(found.tuned) == 2
    for one in found.tuned:
        assert one.perplexity_with < one.perplexity_without
    with_counts, without = (
        rheostat.evaluate(out, data=corpus, split="valid", precision="int8", counts=counts).quality.perplexity
        for counts in (True, False)
    )
    assert with_counts < without / 2
    assert rheostat.evaluate(model, data=corpus, split="valid", precision="int8").quality.perplexity == without


def test_weights_are_tuned_at_the_cost_that_the_core_looks_them_up_by(
    counted: tuple[Path, Path], tmp_path: Path
) -> None:
    """On a path with bits, a position costs less than its share of the FLOPs."""
    model, corpus = counted
    ordered, out = tmp_path / "ordered.safetensors", tmp_path / "out.safetensors"
    rheostat.pack(model, ordered, precision="int8", order=True)
    with open_model(ordered) as file:
        whole, bounds, shape = file.shape.hidden_sizes, (0, 0, 0), file.shape
        path = (PathPosition(1.0, whole), PathPosition(shape.cost_fraction(whole, bounds), whole, bounds))
        contents = replace(file.contents(), knob_path=path)
    write_model(ordered, contents)
    found = rheostat.add_counts(ordered, out, data=corpus, megabytes=0.01, knobs=[0.6])
    with rheostat.load(out, 0.6) as predictor:
        assert predictor.flops_fraction == 1 and predictor.cost < 0.6
        assert [one.cost for one in found.tuned] == [1, pytest.approx(predictor.cost)]
    assert found.sample <= 60 * 12  # the validation text has no more


def test_the_command_counts_and_pack_drops(counted: tuple[Path, Path], tmp_path: Path) -> None:
    model, corpus = counted
    out, bare = tmp_path / "out.safetensors", tmp_path / "bare.safetensors"
    options = ["count", str(model), "--data", str(corpus), "--order", "2", "--megabytes", "0.01", "-o", str(out)]
    answer = json.loads(CliRunner().invoke(app, [*options, "--json"], catch_exceptions=False).stdout)
    assert len(answer["ngrams"]) == 1 and answer["tokens"] == 60 * 12
    assert "counts of" in CliRunner().invoke(app, options, catch_exceptions=False).stdout
    summary = rheostat.pack(out, tmp_path / "half.safetensors", precision="fp16")
    assert summary["counts_order"] == 2 and summary["bytes_by_part"]["counts"] == answer["size_bytes"]
    summary = rheostat.pack(out, bare, drop_counts=True)
    assert summary["counts_order"] == 0 and "counts" not in summary["bytes_by_part"]


def test_ties_between_room_and_gain_are_kept_within_the_room(counted: tuple[Path, Path], tmp_path: Path) -> None:
    model, corpus = counted
    found = rheostat.add_counts(model, tmp_path / "out.safetensors", data=corpus, megabytes=0.0001)
    assert 0 < sum(5 + 2 * place for place, number in enumerate(found.ngrams) for _ in range(number)) <= 100


def test_models_that_cannot_have_counts_are_refused(counted: tuple[Path, Path], tmp_path: Path) -> None:
    _, corpus = counted
    with pytest.raises(RheostatError, match="plain softmax"):
        rheostat.add_counts(write_tiny(tmp_path / "tails.safetensors"), tmp_path / "out", data=corpus)
    with pytest.raises(RheostatError, match="megabytes"):
        rheostat.add_counts(counted[0], tmp_path / "out", data=corpus, megabytes=0)


def test_one_file_is_divided_before_it_is_counted(counted: tuple[Path, Path], tmp_path: Path) -> None:
    """Weights that were tuned on the counted text itself would trust the counts far too much."""
    model, corpus = counted
    text = tmp_path / "text.txt"
    text.write_text((corpus / "train.txt").read_text())
    found = rheostat.add_counts(model, tmp_path / "out.safetensors", data=text, megabytes=0.01, knobs=[1.0])
    assert found.tokens < 60 * 12 and 0 < found.sample < 60 * 12 / 10


def test_each_part_is_sampled_as_much_as_training_reads_it() -> None:
    sizes, weights = (200_000, 100_000, 50_000), (0.5, 1.0, 4.0)
    starts = np.cumsum([0, *sizes])
    texts = [
        (np.arange(start, start + size), weight) for start, size, weight in zip(starts, sizes, weights, strict=False)
    ]
    tokens = np.concatenate(sample_texts(texts))
    found = np.histogram(tokens, starts)[0]
    wanted = np.multiply(sizes, weights) / np.dot(sizes, weights)
    assert np.allclose(found / len(tokens), wanted, atol=0.001) and len(tokens) <= SAMPLE
