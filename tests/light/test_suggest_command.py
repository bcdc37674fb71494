"""`rheostat suggest` and `rheostat complete`, on the command line and in a pseudo-terminal."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import rheostat
from models import write_words
from rheostat.cli import app
from rheostat.errors import RheostatError
from rheostat.model.shape import ModelShape
from rheostat.text.vocabulary import END_OF_LINE, UNKNOWN

WORDS = (UNKNOWN, END_OF_LINE, "the", "game", "gate", "garden", "boat", "sees")
SHAPE = ModelShape(len(WORDS), 4, (8, 4), (2, 1))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_words(tmp_path_factory.mktemp("suggest") / "model.safetensors", WORDS, SHAPE)


def suggest(*arguments: object, command: str = "suggest") -> str:
    result = CliRunner().invoke(app, [command, *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def complete(*arguments: object) -> str:
    return suggest(*arguments, command="complete")


def test_json_has_words_probabilities_and_flops(model: Path) -> None:
    answer = json.loads(suggest("the boat", "--model", model, "--knob", "0.6", "--prefix", "ga", "--json"))
    assert {entry["word"] for entry in answer["suggestions"]} == {"game", "gate", "garden"}
    assert answer["flops_fraction"] <= 0.6 == answer["knob"]


@pytest.mark.parametrize("command", ["suggest", "complete"])
def test_a_position_below_what_was_measured_is_served_with_a_note(command: str, tmp_path: Path) -> None:
    curve = [{"flops_fraction": share, "perplexity": 60.0} for share in (1.0, 0.6)]
    model = write_words(tmp_path / "model.safetensors", WORDS, SHAPE, provenance={"curve": curve})
    for knob, is_known in (("0.7", True), ("0.3", False)):
        arguments = [
            sys.executable,
            "-m",
            "rheostat",
            command,
            "the boat ",
            "--model",
            str(model),
            "--knob",
            knob,
            "--json",
        ]
        answer = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
        assert answer.returncode == 0 and json.loads(answer.stdout)["suggestions"]
        if is_known:
            assert answer.stderr == ""
        else:
            (note,) = answer.stderr.splitlines()
            assert note.startswith("note: ") and "model.safetensors was" in note and "down to 60.0% only" in note
            assert "turn the knob to 0.6 or more" in note


def test_complete_takes_the_text_before_the_cursor(model: Path) -> None:
    answer = json.loads(complete("The boat sees the Ga", "--model", model, "--knob", "0.6", "--json"))
    assert {entry["word"] for entry in answer["suggestions"]} == {"Game", "Gate", "Garden"}
    assert {entry["replaces"] for entry in answer["suggestions"]} == {2}
    assert answer["flops_fraction"] <= 0.6 == answer["knob"] and answer["text"] == "The boat sees the Ga"


def test_complete_prints_what_the_api_returns(model: Path) -> None:
    expected = rheostat.load(model).complete("the boat sees the ga", k=2)
    lines = complete("the boat sees the ga", "--model", model, "-k", "2").splitlines()
    assert lines == [f"{suggestion.word}\t{suggestion.probability:.3f}" for suggestion in expected]


def test_a_small_probability_is_not_shown_as_zero() -> None:
    lines = complete("See you at the ga", "-k", "3").splitlines()
    probabilities = [line.split("\t")[1] for line in lines]
    assert all(float(one) > 0 for one in probabilities) and any("e-" in one for one in probabilities)


def test_after_a_space_complete_suggests_the_next_word(model: Path) -> None:
    assert complete("the boat ", "--model", model) == suggest("the boat", "--model", model)


def test_each_help_names_the_other() -> None:
    assert "rheostat complete" in suggest("--help")
    assert "rheostat suggest" in complete("--help")


def test_complete_needs_a_text(model: Path) -> None:
    assert CliRunner().invoke(app, ["complete", "--model", str(model)]).exit_code == 2


def test_words_are_printed_one_per_line(model: Path) -> None:
    lines = suggest("the boat", "--model", model, "-k", "2").splitlines()
    assert len(lines) == 2
    assert all(float(line.split("\t")[1]) <= 1 for line in lines)


def test_learned_words_are_stored_in_their_file(model: Path, tmp_path: Path) -> None:
    words = tmp_path / "words.json"
    suggest("the", "--model", model, "--words", words, "--learn", "Gastropod")
    assert "Gastropod" in suggest("the", "--model", model, "--words", words, "--prefix", "gas")


def test_without_a_text_and_a_terminal_it_says_what_was_expected(model: Path) -> None:
    with pytest.raises(RheostatError, match="not a terminal"):
        suggest("--model", model)


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are a Unix thing")
def test_typing_in_a_terminal_shows_suggestions_takes_one_and_turns_the_knob(model: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "rheostat", "suggest", "--model", str(model)]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        try:
            seen = _until(ours, "knob 100%")
            os.write(ours, b"the boat gar")
            seen += _until(ours, "the boat gar")
            os.write(ours, b"\x1b[6~\x1b[6~")  # page down, page down
            seen += _until(ours, "knob 90%")
            os.write(ours, b"\t\x04")
            seen += _until(ours, "the boat garden")
            process.wait(20)
        finally:
            process.kill()  # does nothing to a process that has ended
        assert process.returncode == 0
    os.close(ours)
    assert " garden " in seen


def _until(terminal: int, wanted: str, seconds: float = 60) -> str:
    """What the terminal shows until `wanted` appears."""
    seen, end = "", time.monotonic() + seconds
    while wanted not in seen:
        assert time.monotonic() < end, f"no {wanted!r} in {seen!r}"
        if select.select([terminal], [], [], 0.5)[0]:
            try:
                seen += os.read(terminal, 4096).decode(errors="replace")
            except OSError:  # the other end is closed
                break
    return seen
