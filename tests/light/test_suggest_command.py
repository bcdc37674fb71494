"""`rheostat suggest`: on the command line, and typed into a real terminal (a pseudo-terminal)."""

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


def suggest(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["suggest", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_json_holds_words_probabilities_and_what_was_spent(model: Path) -> None:
    answer = json.loads(suggest("the boat", "--model", model, "--knob", "0.6", "--prefix", "ga", "--json"))
    assert {entry["word"] for entry in answer["suggestions"]} == {"game", "gate", "garden"}
    assert answer["flops_fraction"] <= 0.6 == answer["knob"]


def test_words_are_printed_one_per_line(model: Path) -> None:
    lines = suggest("the boat", "--model", model, "-k", "2").splitlines()
    assert len(lines) == 2
    assert all(float(line.split("\t")[1]) <= 1 for line in lines)


def test_taught_words_are_kept_in_their_file(model: Path, tmp_path: Path) -> None:
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
        seen = _until(ours, "knob 100%")
        os.write(ours, b"the boat gar")
        seen += _until(ours, "the boat gar")
        os.write(ours, b"\x1b[B\x1b[B")  # down, down
        seen += _until(ours, "knob 90%")
        os.write(ours, b"\t\x04")
        seen += _until(ours, "the boat garden")
        process.wait(20)
        assert process.returncode == 0
    os.close(ours)
    assert " garden " in seen


def _until(terminal: int, wanted: str, seconds: float = 60) -> str:
    """What the terminal shows up to the moment when `wanted` is there."""
    seen, end = "", time.monotonic() + seconds
    while wanted not in seen:
        assert time.monotonic() < end, f"no {wanted!r} in {seen!r}"
        if select.select([terminal], [], [], 0.5)[0]:
            try:
                seen += os.read(terminal, 4096).decode(errors="replace")
            except OSError:  # the other end is closed
                break
    return seen
