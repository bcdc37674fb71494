"""The examples run, and what an exported folder says about text is what the code does."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from rheostat.text.tokenizers import TOKENIZERS
from rheostat.words.passage import context_words
from rheostat.words.text_rules import RULES, describe_text
from rheostat.words.writing import split_typed

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_typing_loop_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["typing_loop.py", "what are you dping "])
    runpy.run_path(str(EXAMPLES / "typing_loop.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert "dping → doing" in shown and shown.endswith("what are you doing \n")
    after_a_space = next(line for line in shown.splitlines() if line.startswith("'what are '"))
    assert "you" in after_a_space, "next words are offered"


def test_every_example_is_listed_and_sketches_say_what_they_are() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    for path in EXAMPLES.iterdir():
        assert path.name == "README.md" or f"`{path.name}`" in listed
    for name in ("Keyboard.kt", "Keyboard.swift"):
        assert "not compiled and not run" in (EXAMPLES / name).read_text()


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_vectors_are_what_the_code_does(tokenizer: str) -> None:
    described = describe_text(tokenizer, {"paris": "Paris"})
    assert described["rules"] == list(RULES[tokenizer])
    for vector in described["vectors"]["words"]:
        assert context_words(vector["text"], tokenizer) == vector["words"]
    for vector in described["vectors"]["typed"]:
        assert split_typed(vector["text"], tokenizer).prefix == vector["prefix"]


def test_a_comma_is_not_part_of_a_word() -> None:
    vectors = {vector["text"]: vector["words"] for vector in describe_text("words", {})["vectors"]["words"]}
    assert vectors["Hey, are you"] == ["<eos>", "hey", ",", "are", "you"]
