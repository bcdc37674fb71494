"""Typing, measured for a model, n-grams and a custom predictor: counted by hand, and through the command."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import rheostat
from models import write_words
from rheostat.cli import app
from rheostat.errors import RheostatError
from rheostat.measure import personal, typing
from rheostat.measure.keystrokes import KeystrokeCount, simulate_plain
from rheostat.measure.results import read_results, write_results
from rheostat.measure.typing import find_predictor, plain_words, resampled, saved_shares
from rheostat.model.shape import ModelShape
from rheostat.report.typing_page import typing_page
from rheostat.text.tokenizers import tokenize
from rheostat.text.vocabulary import END_OF_LINE, UNKNOWN

WORDS = (UNKNOWN, END_OF_LINE, "we", "can", "go", "together", "now", "home")


class Oracle:
    """Always offers the same words, or those with the typed letters."""

    def __init__(self, *words: str) -> None:
        self.words, self.asked = words, 0

    def complete(self, text: str, k: int) -> list[str]:
        self.asked += 1
        prefix = "" if text[-1:] in ("", " ") else text.split()[-1]
        return [word for word in self.words if word.startswith(prefix)][:k]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for split in ("train", "valid", "test"):
        (folder / f"{split}.txt").write_text("We can go now.\n\nwe go home\ncan we go together\n" * 4)
    return folder


@pytest.fixture
def aac(tmp_path: Path) -> Path:
    folder = tmp_path / "aac"
    folder.mkdir()
    (folder / "test.txt").write_text("We can go now.\nWe can go together!\n...\n")
    (folder / "dev.txt").write_text("go home\n")
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_words(tmp_path / "model.safetensors", WORDS, ModelShape(len(WORDS), 8, (16, 8), (2, 1)))


def test_words_of_the_plain_protocol() -> None:
    assert plain_words("I don’t KNOW, 3 times (well-known)") == ["i", "don't", "know", "times", "well", "known"]


def test_the_plain_protocol_counted_by_hand() -> None:
    # "we" at once: 1 key. "cannot" after "ca": 2 + 1. "x" never: 1 + 1.
    oracle = {"": ["we"], "we ": ["to"], "we c": ["cat"], "we ca": ["cannot"]}
    count = simulate_plain(["we", "cannot", "x"], lambda text: oracle.get(text, []))
    assert count == KeystrokeCount(typed=1 + 3 + 2, needed=3 + 7 + 2, words=3, taken=2, at_once=1, fewest=3)
    assert count.limit_share == 1 - 3 / 12


def test_a_custom_predictor_is_measured_alone(aac: Path) -> None:
    found = rheostat.measure_typing(predictors={"mine": Oracle("we", "can", "go")}, aac=aac)
    assert [(text.name, text.slots, text.units, text.words) for text in found.texts] == [
        ("aac-test", 5, 2, 8),
        ("aac-test", 3, 2, 8),
        ("aac-test-as-written", 5, 2, 8),
        ("aac-test-as-written", 3, 2, 8),
    ]
    row = found.rows[0]
    assert (row.keystrokes_typed, row.keystrokes_needed) == (3 + 4 + 3 + 9, 3 + 4 + 3 + 4 + 3 + 4 + 3 + 9)
    assert row.next_word_share == 6 / 8
    assert row.never_share == 2 / 8 and row.over_ngram is None
    assert row.limit_share == 1 - 8 / row.keystrokes_needed == found.limit_share(found.texts[0])


def test_slots_bound_what_is_looked_at(aac: Path) -> None:
    found = rheostat.measure_typing(predictors={"mine": Oracle("a", "b", "c", "we", "can")}, aac=aac)
    five, three = found.rows[:2]
    assert five.next_word_share == 4 / 8 and three.next_word_share == 0


def test_a_model_is_compared_with_the_best_ngram_and_new_lines_are_apart(model: Path, corpus: Path, aac: Path) -> None:
    found = rheostat.measure_typing(model, data=corpus, aac=aac, knobs=[1.0], orders=[2, 1], words=20)
    names = ("aac-test", "aac-test-new", "aac-test-as-written")
    assert [text.name for text in found.texts] == [name for name in names for _ in range(2)] + ["corpus"]
    new = next(text for text in found.texts if text.name == "aac-test-new")
    assert (new.units, new.words) == (1, 4)  # "we can go now" is in the training text, whatever its punctuation
    assert found.texts[-1].words == 20 and found.texts[-1].protocol == "own"
    by_text = [row for row in found.rows if (row.text, row.slots) == ("corpus", 3)]
    ngrams = [row for row in by_text if row.predictor in ("2-gram", "unigrams")]
    best = max(row.saved_share for row in ngrams)
    for row in by_text:
        assert row.over_ngram == pytest.approx(row.saved_share - best)
        assert row.over_ngram_interval is not None and row.over_ngram_interval[0] <= row.over_ngram_interval[1]
    assert min(abs(row.over_ngram or 0) for row in ngrams) == 0


def test_results_survive_a_round_trip_and_make_a_page(model: Path, corpus: Path, aac: Path, tmp_path: Path) -> None:
    (tmp_path / "wrong.txt").write_text("home->hmoe\nfoo\n")
    results = tmp_path / "typing.json"
    options = [str(model), "--data", str(corpus), "--aac", str(aac), "--knob", "1", "--order", "2", "--words", "8"]
    extra = ["--misspellings", str(tmp_path / "wrong.txt"), "-o", str(results), "--page", str(tmp_path / "page.md")]
    answer = CliRunner().invoke(app, ["typing", *options, *extra, "--json"], catch_exceptions=False)
    found = read_results(results)
    assert json.loads(answer.stdout) == json.loads(results.read_text())
    write_results(tmp_path / "again.json", found)
    assert (tmp_path / "again.json").read_bytes() == results.read_bytes()
    page = (tmp_path / "page.md").read_text()
    assert page == typing_page(found)  # type: ignore[arg-type]
    assert page.count("If every word were taken with its first keystroke, ") == len(found.texts)  # type: ignore[union-attr]
    assert "## aac-test-new, 5 slots" in page and "## Misspellings" in page and "home" in page
    pytest.importorskip("jinja2", reason="pages of a report need the report extra")
    rheostat.write_report([results], out=tmp_path / "report")
    assert (tmp_path / "report" / "typing.md").read_text() == page


def test_results_are_shown_even_if_they_cannot_be_written(
    model: Path, aac: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rheostat.measure.typing.check_results_target", Path)  # it was writable when the run began
    (tmp_path / "file").write_text("")
    arguments = ["typing", str(model), "--aac", str(aac), "--knob", "1", "-o", str(tmp_path / "file" / "typing.json")]
    answer = CliRunner().invoke(app, arguments)
    assert isinstance(answer.exception, RheostatError) and "file is a file, not a folder" in str(answer.exception)
    assert "saved · next word · never" in answer.stdout


def test_equal_lines_are_typed_once(aac: Path) -> None:
    (aac / "test.txt").write_text("we go\n" * 3)
    oracle = Oracle("we", "go")
    found = rheostat.measure_typing(predictors={"mine": oracle}, aac=aac)
    assert oracle.asked == 2 * len(found.texts) and found.rows[0].words == 6


def test_a_model_is_set_beside_the_one_that_it_replaces(model: Path, corpus: Path, tmp_path: Path) -> None:
    options = {"data": corpus, "knobs": [1.0], "orders": [], "words": 4}
    same = rheostat.measure_typing(model, old=model, **options).succession  # type: ignore[arg-type]
    assert same is not None and same.perplexity_ratio == 1 and same.shared < same.tokens
    assert same.perplexity == pytest.approx(_perplexity_by_hand(model, corpus / "test.txt"), rel=1e-4)
    fewer = write_words(tmp_path / "old.safetensors", WORDS[:5], ModelShape(5, 8, (16, 8), (2, 1)))
    found = rheostat.measure_typing(model, old=fewer, **options)  # type: ignore[arg-type]
    both = found.succession
    assert both is not None and both.shared < same.shared
    assert both.unknown_share == pytest.approx(1 / 12), "the full stop"
    assert both.old_unknown_share == pytest.approx(4 / 12), "now, home and together too"
    assert both.file_bytes == model.stat().st_size and both.query_ratio > 0
    assert "## Compared with the previous model" in typing_page(found)
    with pytest.raises(RheostatError, match="without a model or a corpus"):
        rheostat.measure_typing(model, old=fewer, aac=corpus, knobs=[1.0])
    oracle = Oracle("we")
    options |= {"old": tmp_path / "absent", "predictors": {"mine": oracle}}
    with pytest.raises(RheostatError, match="absent"):
        rheostat.measure_typing(model, **options)  # type: ignore[arg-type]
    assert oracle.asked == 0, "refused before anything is typed"


def test_slips_and_a_memory_have_their_rows(
    model: Path, aac: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = {name: [["We can go now", "we go home together"], ["can we go home"]] for name in ("ann", "bob", "cem")}
    monkeypatch.setattr(typing, "held_out_senders", lambda: SimpleNamespace(messages=messages))
    for module in (typing, personal):
        monkeypatch.setattr(module, "FIRST_WORDS", (4, 8))
    (tmp_path / "wrong.txt").write_text("now\n")
    options = {"aac": aac, "knobs": [1.0, 1.0], "misspellings": tmp_path / "wrong.txt"}
    found = rheostat.measure_typing(model, slips=True, senders=2, **options)  # type: ignore[arg-type]
    row = found.slips[0]
    assert (row.text, row.words) == ("aac-test", 8) and 0 <= (row.tap_changed_misspelt or 0) <= row.tap_changed
    assert [(one.first_words, one.senders) for one in found.memory] == [(4, 2), (8, 2)]
    assert found.typos_learned is not None and found.typos_learned[1] == 24
    page = typing_page(found)
    (time,) = found.memory_times
    assert time.phrases > 0 and time.p50_ratio > 0 and f"With {time.phrases} phrases in the memory" in page
    assert "without words in `wrong.txt`" in page and "2 chitchat senders" in page


def _perplexity_by_hand(model: Path, text: Path) -> float:
    predictor, losses = rheostat.load(model), []
    index = predictor.vocabulary.index
    words = [word for line in text.read_text().splitlines() if line for word in [*tokenize(line, "words"), END_OF_LINE]]
    for place in range(1, len(words)):
        if words[place] in index:
            losses.append(-predictor.log_probabilities_after(words[:place])[index[words[place]]])
    return float(np.exp(np.mean(losses)))


def test_dev_is_another_text(model: Path, aac: Path) -> None:
    found = rheostat.measure_typing(model, aac=aac, split="dev", knobs=[1.0])
    assert {text.name for text in found.texts} == {"aac-dev", "aac-dev-as-written"} and found.rows[0].words == 2


def test_a_predictor_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_predictor.py").write_text(
        "class Mine:\n    def complete(self, text, k):\n        return ['we']\nready = Mine()\nother = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    assert find_predictor("my_predictor:ready").complete("", 3) == ["we"]
    assert find_predictor("my_predictor:Mine").complete("", 3) == ["we"]
    for name in ("my_predictor:other", "my_predictor:none", "no_such_module:x", "my_predictor", "os:system", ":x"):
        with pytest.raises(RheostatError, match=re.escape(name)):
            find_predictor(name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({}, "no text to type"), ({"split": "train"}, "expected 'test'"), ({"aac": "nowhere"}, "cannot be read")],
)
def test_what_cannot_be_measured_is_an_error(arguments: dict[str, str], message: str) -> None:
    with pytest.raises(RheostatError, match=message):
        rheostat.measure_typing(predictors={"mine": Oracle("we")}, **arguments)  # type: ignore[arg-type]


def test_nothing_to_suggest_words_is_an_error(aac: Path) -> None:
    with pytest.raises(RheostatError, match="nothing suggests"):
        rheostat.measure_typing(aac=aac)


# Intervals


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(10, 20)), min_size=1, max_size=9))
def test_resampled_shares_lie_between_the_units_own(pairs: list[tuple[int, int]]) -> None:
    counts = [KeystrokeCount(typed, needed) for typed, needed in pairs]
    draws = resampled(len(counts), 50, 1)
    assert (draws.sum(1) == len(counts)).all()
    shares, own = saved_shares(counts, draws), [one.saved_share for one in counts]
    assert (shares >= min(own) - 1e-12).all() and (shares <= max(own) + 1e-12).all()


def test_a_predictor_compared_with_itself_differs_by_nothing() -> None:
    counts = [KeystrokeCount(typed, 10) for typed in (1, 5, 9)]
    draws = resampled(3, 100, 1)
    assert np.array_equal(saved_shares(counts, draws) - saved_shares(counts, draws), np.zeros(100))
