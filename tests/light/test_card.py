"""What benchmarks/card.py writes into the cards of models: figures, and the text that a model was trained on."""

from __future__ import annotations

import runpy
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models import write_tiny
from results_files import full, ranked, write_sweep
from rheostat.measure.results import (
    NGramResults,
    Provenance,
    QualityFigures,
    TrainingResults,
    read_results,
    write_results,
)
from rheostat.measure.results.benchmark import TrainingOutcome, TrainingProgress
from rheostat.model.file import open_model
from rheostat.model.origin import Origin
from rheostat.text.mixture import talk_parts

ROOT = Path(__file__).parents[2]
MARKS = """# A model

<!-- figures: written by benchmarks/card.py -->
old figures
<!-- end of figures -->

## Text

<!-- training text: written by benchmarks/card.py -->
<!-- end of training text -->

The end.
"""
OURS = {"name": "letters", "weight": 2.0, "source": "a shelf", "licence": "CC0 1.0", "attribution": "Letters by Ann."}


def write_card(monkeypatch: pytest.MonkeyPatch, *arguments: Path) -> str:
    monkeypatch.setattr(sys, "argv", ["card.py", *map(str, arguments)])
    runpy.run_path(str(ROOT / "benchmarks" / "card.py"), run_name="__main__")
    return arguments[0].with_suffix(".md").read_text(encoding="utf-8")


def write_model_of(
    folder: Path, parts: list[dict[str, Any]], card: str = MARKS, corpus: str = "talk", **changes: Any
) -> tuple[Path, Path]:
    """A model that was trained on these parts, with its card and the curve of its run."""
    recipe = {"corpus": {"seed": 1, "parts": parts}, "train": {"seed": 1, "graded": 0.0}}
    splits = {name: {"tokens": 1000, "words": 900, "unknown_rate": 0.02} for name in ("train", "valid", "test")}
    provenance = {"corpus": {"name": corpus, "splits": splits}, "command": "rheostat train", "commit": "c", "date": "d"}
    model = write_tiny(folder / "small.safetensors", recipe=recipe, provenance=provenance, **changes)
    model.with_suffix(".md").write_text(card, encoding="utf-8")
    valid = QualityFigures(perplexity=61.25, recall_at_1=0.2, recall_at_3=0.4, recall_at_5=0.5, tokens=999)
    outcome = TrainingOutcome(recipe, {}, valid)
    progress = TrainingProgress(2, 300, 2500, 5400.0, finished=True)
    write_results(folder / "curve.json", TrainingResults(Provenance.of_this_process(), outcome, progress, (), ()))
    return model, folder / "curve.json"


def test_a_card_has_the_run_and_every_attribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = write_card(monkeypatch, *write_model_of(tmp_path, [OURS]))
    assert "| trained | 300 steps, 1.5 hours, finished |" in card
    assert "| tokens read | 0.0 million, 2.50 passes over the training text |" in card
    assert "| validation text | perplexity 61.2, R@3 40.0% |" in card and "| test text" not in card
    assert "| misspellings hidden, other words known | 0, 0 |" in card
    assert "| letters | 2 | a shelf | CC0 1.0 | Letters by Ann. |" in card
    assert "old figures" not in card and card.endswith("The end.\n")


def test_a_recipe_without_attributions_has_those_of_talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = [{"name": part.name, "weight": part.weight} for part in talk_parts()]
    card = write_card(monkeypatch, *write_model_of(tmp_path, bare))
    for part in talk_parts():
        assert f"| {part.name} | {part.weight:g} | {part.source} | {part.licence} | {part.attribution} |" in card


def test_a_card_credits_the_text_that_earlier_weights_were_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = Origin(recipe={"corpus": {"parts": [OURS]}})
    later = {**OURS, "name": "songs", "attribution": "Songs by Eve."}
    card = write_card(monkeypatch, *write_model_of(tmp_path, [later], origin=Origin(command="x").after(earlier)))
    assert "Songs by Eve." in card and "Letters by Ann." in card


def test_a_card_names_the_parts_of_talk_that_were_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model file has only those that were; so has the card of a run on chitchat alone."""
    chitchat, *others = ({"name": part.name, "weight": part.weight} for part in talk_parts())
    card = write_card(monkeypatch, *write_model_of(tmp_path, [chitchat]))
    names = ", ".join(part["name"] for part in others)
    assert f"Not read, because their files were missing: {names}." in card and "tatoeba.org" not in card
    assert "Not read" not in write_card(monkeypatch, *write_model_of(tmp_path, [chitchat, *others]))
    own = write_model_of(tmp_path, [OURS], corpus="letters")
    assert "Not read" not in write_card(monkeypatch, *own)


@pytest.mark.parametrize(
    ("digest", "tokens", "same"),
    [("t", 1000, True), ("u", 1000, False), ("", 1000, True), ("", 1001, False), ("", None, False)],
)
def test_an_ngram_of_another_text_does_not_get_into_a_card(
    digest: str,
    tokens: int | None,
    same: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By the digest of the training text or, in results from before it was recorded, by its tokens."""
    committed = read_results(ROOT / "results" / "talk-ngram.json")
    assert isinstance(committed, NGramResults)
    subject = replace(committed.subject, corpus_digest=digest, training_tokens=tokens)
    write_results(tmp_path / "ngram.json", replace(committed, subject=subject))
    model, _ = write_model_of(tmp_path, [OURS], origin=Origin(corpus_digest="t"))
    with open_model(model) as file:
        weights = file.weights_digest()
    sweep = write_sweep(tmp_path / "sweep.json", [full(), ranked("random", 0.5, 80.0)], corpus="talk", weights=weights)
    card = write_card(monkeypatch, model, sweep, tmp_path / "ngram.json")
    assert ("5-gram" in card) == same and ("results/ngram.json" in card) == same
    assert ("ngram.json: counted another text than the model" in capsys.readouterr().err) != same


@pytest.mark.parametrize(
    ("parts", "card", "message"),
    [
        ([OURS], MARKS.partition("## Text")[0], "lacks the marks <!-- training text"),
        ([OURS], "# A model\n", "lacks the marks <!-- figures"),
        ([{**OURS, "licence": ""}], MARKS, "letters has no attribution or licence"),
        ([{"name": "unheard-of", "weight": 1.0}], MARKS, "unheard-of has no attribution or licence"),
    ],
)
def test_a_card_without_credit_is_refused(
    parts: list[dict[str, Any]],
    card: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = write_model_of(tmp_path, parts, card)
    with pytest.raises(SystemExit):
        write_card(monkeypatch, *arguments)
    assert message in capsys.readouterr().err
    assert arguments[0].with_suffix(".md").read_text(encoding="utf-8") == card


@pytest.mark.parametrize(
    ("model", "results"),
    [
        ("src/rheostat/bundled/chat", ["talk-path", "talk-ngram"]),
        ("models/ptb-graded-int8", ["ptb-path"]),
        ("models/ptb-base-int8", ["ptb-training"]),
    ],
)
def test_the_committed_cards_are_as_their_command_writes_them(
    model: str, results: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for suffix in (".safetensors", ".md"):
        shutil.copy(ROOT / f"{model}{suffix}", tmp_path / f"model{suffix}")
    committed = (tmp_path / "model.md").read_text(encoding="utf-8")
    files = [ROOT / "results" / f"{name}.json" for name in results]
    assert write_card(monkeypatch, tmp_path / "model.safetensors", *files) == committed


def test_every_licence_that_the_recipe_talk_refers_to_is_there() -> None:
    texts = {path.name for path in (ROOT / "models" / "LICENSES").iterdir()}
    assert "tatoeba-contributors.txt" in texts
    for part in talk_parts():
        known = part.name == "tatoeba" or any(name.startswith(part.name) for name in texts)
        assert known, part.name
