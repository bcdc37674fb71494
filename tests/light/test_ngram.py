"""The n-gram baseline: against hand-computed figures, against kenlm, and in the report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from results_files import full, write_sweep
from rheostat.cli import app
from rheostat.errors import CorpusError, RheostatError
from rheostat.measure import ngram_baseline
from rheostat.measure.latency import Queries, measure_latencies
from rheostat.measure.ngram import FALLBACK_DISCOUNTS, NGramModel, discounts, estimate
from rheostat.measure.ngram_baseline import (
    NGramConfig,
    NGramPredictor,
    kenlm_perplexity,
    measure_on_corpus,
    ngram_quality,
)
from rheostat.measure.results import read_all, write_results
from rheostat.measure.texts import Text, read_text
from rheostat.metrics import stream_quality
from rheostat.report.evidence import gather
from rheostat.report.figures.costs import draw_costs, largest_shown
from rheostat.report.paper_tables import paper_table
from rheostat.report.published import load_published
from rheostat.report.sections import build_report
from rheostat.text.corpus import Corpus, CorpusConfig, Split, load_corpus

NAMES, VERBS, THINGS = ("ann", "bob", "eve"), ("sees", "hides", "paints"), ("boats", "lamps", "trees", "doors")
QUICK = NGramConfig(order=3, queries=4, warm_up=0, typed_words=20)


def write_corpus(folder: Path) -> Path:
    random = np.random.default_rng(1)
    for name, lines in (("train", 60), ("valid", 8), ("test", 8)):
        words = [[str(random.choice(part)) for part in (NAMES, VERBS, ("the", "<unk>"), THINGS)] for _ in range(lines)]
        (folder / f"ptb.{name}.txt").write_text("".join(" ".join(line) + "\n" for line in words))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("ptb"))


@pytest.fixture(scope="module")
def corpus(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return load_corpus(folder, CorpusConfig(tokenizer="ptb"), cache_directory=tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def model(corpus: Corpus) -> NGramModel:
    return estimate(corpus.splits["train"].ids, len(corpus.vocabulary), order=4)


# Estimation


def test_bigrams_of_a_toy_text_are_those_computed_by_hand() -> None:
    """The ring a a b has the bigrams ba, aa and ab, once each: a follows b and a, b follows a, c never occurs.

    Too few to estimate discounts: they are 0.5 for one occurrence and 1 for two.
    """
    toy = estimate(np.array([0, 0, 1]), 3, order=2)
    assert FALLBACK_DISCOUNTS[:2] == (0.5, 1.0)
    # of 3 different bigrams, a ends 2 and b ends 1; 1.5 of 3 are discounted and distributed over 3 words
    a, b, c = (2 - 1) / 3 + 0.5 / 3, (1 - 0.5) / 3 + 0.5 / 3, 0.5 / 3
    assert np.exp(toy.log_probabilities([])) == pytest.approx([a, b, c])
    # after a: aa and ab once each, 0.5 discounted from both, so half is backed off
    assert np.exp(toy.log_probabilities([0])) == pytest.approx([0.25 + a / 2, 0.25 + b / 2, c / 2])
    # after b: ba once
    assert np.exp(toy.log_probabilities([0, 1])) == pytest.approx([0.5 + a / 2, b / 2, c / 2])
    assert np.exp(toy.log_probabilities([2])) == pytest.approx([a, b, c]), "c was never seen"


def test_discounts_follow_from_the_counts_of_counts() -> None:
    counts = np.repeat([1, 2, 3, 4], [6, 3, 2, 1])
    y = 6 / (6 + 2 * 3)
    assert discounts(counts) == pytest.approx((1 - 2 * y * 3 / 6, 2 - 3 * y * 2 / 3, 3 - 4 * y * 1 / 2))
    assert discounts(np.array([1, 1, 1])) == FALLBACK_DISCOUNTS
    assert discounts(np.repeat([1, 2, 3, 4], [9, 1, 99, 1])) == FALLBACK_DISCOUNTS, "they would be negative"


streams = st.lists(st.integers(0, 5), min_size=6, max_size=60)


@settings(max_examples=30)
@given(streams, st.integers(2, 5), st.lists(st.integers(0, 7), max_size=6))
def test_probabilities_add_up_to_one_after_any_context(ids: list[int], order: int, context: list[int]) -> None:
    found = np.exp(estimate(np.array(ids), 8, order).log_probabilities(context).astype(np.float64))
    assert found.sum() == pytest.approx(1, abs=1e-5) and (found > 0).all()


@settings(max_examples=30)
@given(streams, st.lists(st.integers(0, 7), max_size=6), st.integers(1, 4), st.sets(st.integers(0, 7), min_size=1))
def test_the_best_words_are_those_of_the_whole_vocabulary(
    ids: list[int], context: list[int], k: int, allowed: set[int]
) -> None:
    model = estimate(np.array(ids), 8, 4)
    mask = np.isin(np.arange(8), list(allowed))
    scores = np.where(mask, model.log_probabilities(context), -np.inf).astype(np.float64)
    best = model.best(context, k, mask)
    assert len(best.ids) == min(k, len(allowed)) and mask[best.ids].all()
    assert best.probabilities == pytest.approx(np.exp(np.sort(scores)[::-1][: len(best.ids)]), rel=1e-5)
    assert best.probabilities == pytest.approx(np.exp(scores[best.ids]), rel=1e-5)


def test_nothing_is_pruned(corpus: Corpus, model: NGramModel) -> None:
    ids = np.asarray(corpus.splits["train"].ids)
    ring = np.concatenate([ids[-3:], ids])
    for order in (2, 3, 4):
        grams = {tuple(ring[place - order + 1 : place + 1]) for place in range(3, len(ring))}
        assert model.counts[order - 1] == len(grams)


@pytest.mark.parametrize(
    ("ids", "order", "error", "message"),
    [([0, 1], 0, RheostatError, "expected 1 or more"), ([0, 1], 3, CorpusError, "2 tokens has no 3-gram")],
)
def test_a_model_that_cannot_be_estimated_is_an_error(
    ids: list[int], order: int, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        estimate(np.array(ids), 2, order)


# Measured like a model


def test_n_grams_cross_line_ends_and_every_token_but_the_first_is_predicted(corpus: Corpus, model: NGramModel) -> None:
    ids = np.asarray(corpus.splits["test"].ids).tolist()
    losses = [-model.log_probabilities(ids[:place])[ids[place]] for place in range(1, len(ids))]
    found = ngram_quality(model, corpus.splits["test"])
    assert found.predictions == len(ids) - 1
    assert found.loss == pytest.approx(np.mean(losses), rel=1e-5)


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 11), min_size=6, max_size=200),
    st.lists(st.integers(0, 11), min_size=2, max_size=40),
    st.integers(1, 5),
)
def test_quality_from_the_sorted_lists_is_that_of_the_whole_vocabulary(
    train: list[int], test: list[int], order: int
) -> None:
    model, ids = estimate(np.array(train), 12, order), np.array(test)
    split = Split("test", ids, words=len(ids), unknown=0)
    start: list[int] = []
    assert ngram_quality(model, split) == stream_quality(model.read, start, 7, ids)


def test_kenlm_finds_the_same_perplexity(corpus: Corpus, model: NGramModel) -> None:
    pytest.importorskip("kenlm", reason="kenlm is not installed: pip install 'rheostat[ngram]'")
    assert kenlm_perplexity(model, corpus) == pytest.approx(
        ngram_quality(model, corpus.splits["test"]).perplexity, rel=1e-4
    )


def test_suggestions_are_suggestible_words(corpus: Corpus, model: NGramModel) -> None:
    predictor = NGramPredictor(model, corpus.vocabulary, corpus.tokenizer, corpus.casing)
    assert {one.word for one in predictor.suggest("ann sees the ", k=4)} == set(THINGS), "neither <unk> nor <eos>"
    assert [one.word for one in predictor.complete("ann sees the b")] == ["boats", "bob"]
    names = {one.word for one in predictor.suggest("ann sees the boats\n")}
    assert names == {name.title() for name in NAMES}, "a line begins"


def test_queries_are_timed_like_those_of_a_model(corpus: Corpus, model: NGramModel) -> None:
    queries = Queries(
        "n-gram",
        NGramPredictor(model, corpus.vocabulary, corpus.tokenizer, corpus.casing),
        ["the", "boats", "\n"],
        ["ann"],
    )
    (turns,) = measure_latencies([queries], queries=7, warm_up=1)
    assert sum(map(len, turns)) == 7


# The results file and the report


@pytest.fixture(scope="module")
def results(corpus: Corpus, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("results") / "ptb-ngram.json"
    _, found = measure_on_corpus(corpus, read_text(str(folder), "ptb", 100), QUICK)
    write_results(path, replace(found, subject=replace(found.subject, corpus="ptb")))
    return path


def test_results_say_which_text_was_counted(results: Path, corpus: Corpus) -> None:
    (found,) = read_all([results]).ngrams
    train = corpus.splits["train"]
    assert (found.subject.corpus_digest, found.subject.training_tokens) == (train.digest, train.tokens) != (None, 0)


def test_results_are_read_as_they_were_written(results: Path) -> None:
    written = json.loads(results.read_text())
    (found,) = read_all([results]).ngrams
    assert found.test_perplexity == written["rows"][1]["perplexity"]
    assert found.latency.latency_ms == written["latency"]["latency_ms"] > 0
    assert found.keystrokes.keystrokes_saved_share == written["keystrokes"]["keystrokes_saved_share"] > 0
    assert found.name == "3-gram, modified Kneser–Ney" and found.kenlm_perplexity is None


def test_the_report_has_a_row_and_a_line_for_n_grams(results: Path, tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path / "ptb.json", [full(3.0)])
    evidence = gather(read_all([sweep, results]))
    on = evidence.on("ptb")
    last = paper_table(load_published().table("ptb"), on).rows[-1].cells
    assert last[1] == "3-gram, modified Kneser–Ney" and last[4] == f"{on.ngrams[0].test_perplexity:.2f}"
    assert largest_shown(on) == pytest.approx(1.03 * on.ngrams[0].test_perplexity)
    titles = [section.title for section in build_report(evidence).sections]
    assert "N-gram models, for comparison" in titles


def test_n_grams_are_drawn(results: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    sweep = write_sweep(tmp_path / "ptb.json", [full(5.0)])
    draw_costs(gather(read_all([sweep, results])).on("ptb"), tmp_path / "costs.svg")
    assert "3-gram (no network)" in (tmp_path / "costs.svg").read_text()


def test_the_command_measures_and_writes(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RHEOSTAT_CACHE", str(tmp_path / "cache"))
    out, arpa = tmp_path / "results.json", tmp_path / "new" / "model.arpa"
    options = ["--order", "3", "--queries", "2", "--words", "9", "--arpa", str(arpa), "-o", str(out), "--json"]
    answer = CliRunner().invoke(app, ["ngram", "ptb", "--data", str(folder), *options], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["rows"] == json.loads(out.read_text())["rows"]
    assert arpa.read_text().startswith("\\data\\\nngram 1=")


def test_results_are_shown_even_if_they_cannot_be_written(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RHEOSTAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(ngram_baseline, "check_results_target", Path)  # it was writable when the run began
    (tmp_path / "file").write_text("")
    options = ["--order", "2", "--queries", "2", "--words", "9", "-o", str(tmp_path / "file" / "r.json"), "--json"]
    answer = CliRunner().invoke(app, ["ngram", "ptb", "--data", str(folder), *options])
    assert isinstance(answer.exception, RheostatError) and json.loads(answer.stdout)["rows"]


def test_one_file_is_typed_only_where_it_was_not_trained_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, seen = tmp_path / "mine.txt", []
    text.write_text("".join(f"line{number} is one of mine\n" for number in range(200)))
    measure = ngram_baseline.measure_on_corpus

    def watch(corpus: Corpus, typed: Text, *others: Any) -> Any:
        seen.append((corpus, typed))
        return measure(corpus, typed, *others)

    monkeypatch.setattr(ngram_baseline, "measure_on_corpus", watch)
    ngram_baseline.measure_ngram("tiny", data=str(text), order=2, queries=2, warm_up=0)
    ((corpus, typed),) = seen
    assert corpus.divided_in is not None and corpus.name == "mine"
    assert list(typed.lines) == (corpus.divided_in / "test.txt").read_text().splitlines()
    assert not set(typed.lines) & set((corpus.divided_in / "train.txt").read_text().splitlines())


def test_a_recipe_without_a_corpus_needs_data() -> None:
    with pytest.raises(RheostatError, match="no corpus"):
        CliRunner().invoke(app, ["ngram", "ptb"], catch_exceptions=False)
