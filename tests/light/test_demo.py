"""The demo from end to end, on a small model and a small text."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from models import make_ranking, write_words
from rheostat.cli import app
from rheostat.errors import OperatingPointError, RheostatError
from rheostat.measure.results import read_all
from rheostat.model.shape import ModelShape
from rheostat.model.widths import select
from rheostat.report import demo as demo_module
from rheostat.report.demo import STARTS, run_demo
from rheostat.text.vocabulary import END_OF_LINE, UNKNOWN

WORDS = (
    UNKNOWN,
    END_OF_LINE,
    "how",
    "are",
    "you",
    "what",
    "do",
    "think",
    "i",
    "would",
    "like",
    "to",
    "go",
    "home",
    "now",
)
SHAPE = ModelShape(len(WORDS), 8, (16, 16, 8), (2, 1, 1))
KNOBS = (1.0, 0.6, 0.3, 0.001)  # the last one is below what any model can be cut to
ROOT = Path(__file__).parents[2]
CAN_DRAW = all(importlib.util.find_spec(name) for name in ("matplotlib", "jinja2"))


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(demo_module, "KNOBS", KNOBS)
    model = write_words(tmp_path / "small.safetensors", WORDS, SHAPE)
    text = tmp_path / "messages.txt"
    text.write_text("How are you?\nI would like to go home now.\nWhat do you think?\n" * 5, encoding="utf-8")
    options = {"--model": model, "--data": text, "--queries": 4, "--meter": "none", "-o": tmp_path / "out"}
    return ["demo", *(str(part) for option in options.items() for part in option)]


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_it_shows_the_table_writes_the_report_and_suggests_next_steps(arguments: list[str], tmp_path: Path) -> None:
    printed = run(*arguments)
    assert "\x1b" not in printed and max(map(len, printed.splitlines())) <= 80 + len(str(tmp_path))
    for wanted in ("100%", "60%", "30%", "perplexity", "not measured", f"{STARTS[0]} …", "rheostat keyboard"):
        assert wanted in printed
    for command in ('suggest "Would you like" --model', "suggest --model", "keyboard", "bench"):
        assert f"rheostat {command} {tmp_path / 'small.safetensors'}" in printed  # the model that was shown
    collection = read_all([tmp_path / "out" / "small-demo.json", tmp_path / "out" / "small-demo-bench.json"])
    assert [point.knob for point in collection.sweeps[0].points] == [1.0, 0.6, 0.3]
    assert [row.label for row in collection.benches[0].rows] == ["1", "0.6", "0.3"]
    pictures = ["report-trade-off-messages.png", "small-demo-trade-off.png", "report.html"]
    assert all((tmp_path / "out" / name).is_file() == CAN_DRAW for name in pictures)
    assert ("report.html" in printed) == CAN_DRAW


def test_a_file_in_place_of_the_folder_is_noticed_first(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_module.Demo, "turn_down", lambda *_: pytest.fail("the demo was begun"))
    (tmp_path / "out").write_text("a note")
    with pytest.raises(RheostatError, match="out is a file, not a folder; choose another folder"):
        run(*arguments)


def test_json_holds_quality_cost_and_suggestions_of_every_position(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_module.Demo, "report", lambda demo: ())  # drawn in the test above
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "small-demo.json").write_text("of an earlier demo")
    answer = json.loads(run(*arguments, "--json"))
    assert (answer["model"], answer["corpus"]) == ("small.safetensors", "messages")
    assert [step["quality"]["knob"] for step in answer["steps"]] == [1.0, 0.6, 0.3]
    for step in answer["steps"]:
        assert step["quality"]["perplexity"] > 1 and step["cost"]["latency_ms"] > 0
        assert step["cost"]["widths"] == step["quality"]["widths"]
        assert [len(words) for words in step["suggestions"].values()] == [3, 3, 3]
    assert all(Path(name).is_file() for name in answer["files"])


def test_a_position_is_measured_at_the_stored_point_it_uses(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_module.Demo, "report", lambda demo: ())
    other = select(make_ranking(SHAPE, 9), SHAPE, 0.598)
    keep = (other.keep[0], other.keep[1], other.keep[2][:-1])  # widths that the ranking would not give
    share = SHAPE.flops_fraction([len(kept) for kept in keep])
    monkeypatch.setattr(demo_module, "KNOBS", (1.0, share + 0.001, 0.3))
    stored = replace(other, name="learned", criterion="l0", keep=keep, flops_fraction=share)
    write_words(tmp_path / "small.safetensors", WORDS, SHAPE, points=[stored])
    answer = json.loads(run(*arguments, "--json"))
    assert [step["quality"]["label"] for step in answer["steps"]] == ["full", "learned", "random"]
    assert answer["steps"][1]["quality"]["widths"] == list(stored.widths) == answer["steps"][1]["cost"]["widths"]


def test_a_model_without_a_ranking_has_no_knob_to_show(arguments: list[str], tmp_path: Path) -> None:
    write_words(tmp_path / "small.safetensors", WORDS, SHAPE, rankings=[], default_ranking=None)
    with pytest.raises(OperatingPointError, match="no default ranking"):
        run(*arguments)


@pytest.mark.skipif(not CAN_DRAW, reason="the report extra is not installed")
def test_from_python_it_is_one_call(arguments: list[str], tmp_path: Path) -> None:
    text, labels = str(tmp_path / "messages.txt"), set[str]()
    demo = run_demo(
        tmp_path / "small.safetensors",
        out=tmp_path / "demo",
        data=text,
        meter="none",
        queries=4,
        progress=lambda label, share: labels.add(label),
    )
    assert [step.quality.split for step in demo.steps] == ["text"] * 3 and "drawing" in labels
    assert [step.cost.ranking for step in demo.steps if step.cost] == [None, "random", "random"]
    assert (
        (tmp_path / "demo" / "report.md").read_text(encoding="utf-8").splitlines()[2].startswith("* Measured: 3 points")
    )


def test_the_table_shows_time_saved_quality_lost_and_the_ngram(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = json.loads((ROOT / "results" / "talk-ngram.json").read_text(encoding="utf-8"))
    contents["subject"]["corpus"] = "messages"  # the text of this demo
    ngram = tmp_path / "ngram.json"
    ngram.write_text(json.dumps(contents), encoding="utf-8")
    monkeypatch.setattr(demo_module, "NGRAM_RESULTS", ngram)
    shown = run(*arguments)
    assert all(heading in shown for heading in ("saved", "lost", "5-gram", "Why not an n-gram?"))
    saved = contents["keystrokes"]["keystrokes_saved_share"]
    assert (
        f"{contents['rows'][-1]['perplexity']:.1f}" in shown
        and f"{contents['subject']['size_bytes'] / 1e6:.3g} *" in shown
    )
    assert f"{saved:.0%} of the keystrokes" in " ".join(shown.split())
    facts = json.loads(run(*arguments, "--json"))
    assert facts["ngram"]["subject"]["model"] == "5-gram"


def test_an_ngram_that_was_measured_on_another_text_is_not_shown(arguments: list[str]) -> None:
    assert "5-gram" not in run(*arguments)
    assert json.loads(run(*arguments, "--json"))["ngram"] is None
