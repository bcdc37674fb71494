"""The examples run, and what an exported folder says about text is what the code does."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

from rheostat.text.tokenizers import TOKENIZERS
from rheostat.words.passage import context_words
from rheostat.words.text_rules import (
    CASING_RULE,
    HIDDEN_RULE,
    INSERT_RULE,
    PREFIX_RULE,
    RULES,
    describe_text,
)
from rheostat.words.writing import split_typed

EXAMPLES = Path(__file__).parents[2] / "examples"
EXPORT_PAGE = Path(__file__).parents[2] / "docs" / "export.md"


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


def test_the_page_on_export_has_every_rule() -> None:
    page = " ".join(EXPORT_PAGE.read_text(encoding="utf-8").split())
    for rule in (*RULES["words"], *PREFIX_RULE, *CASING_RULE, *INSERT_RULE, *HIDDEN_RULE):
        assert re.sub("<[a-z]+>", r"`\g<0>`", rule) in page, rule


def test_what_is_not_specified_is_said_so() -> None:
    for tokenizer in TOKENIZERS:
        described = describe_text(tokenizer, {})
        assert bool(described["patterns"]) == (tokenizer == "words")
        assert any(rule.startswith("Not specified") for rule in described["rules"]) == (tokenizer != "words")


def test_sketches_for_onnx_runtime_say_that_they_were_not_compiled() -> None:
    page = EXPORT_PAGE.read_text(encoding="utf-8")
    for language in ("kotlin", "swift", "cpp"):
        heading = page[: page.index(f"```{language}\n")].rpartition("\n## ")[2]
        assert "**not compiled and not run**" in heading, language


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ok👍🏽", ["ok", "👍🏽"]),
        ("🇩🇪🇫🇷 👨\u200d👩\u200d👧 ❤️", ["🇩🇪", "🇫🇷", "👨\u200d👩\u200d👧", "❤️"]),
        ("one\r\ntwo\u2028three", ["one", "<eos>", "two", "three"]),
        ("1st 1990's dogs'", ["<num>", "<num>", "dogs", "'"]),
        ("cafe\u0301 हिन्दी", ["cafe\u0301", "हिन्दी"]),
    ],
)
def test_the_hard_cases_have_vectors(text: str, words: list[str]) -> None:
    """Each piece of these texts is in a vector, with these words."""
    assert context_words(text, "words") == ["<eos>", *words]
    vectors = describe_text("words", {})["vectors"]["words"]
    for word in set(words) - {"<num>", "<eos>"}:
        assert any(word in vector["words"] for vector in vectors), word
    for part in ("\r\n", "\u2028", "1st", "1990's", "dogs'", "👍🏽", "🇩🇪🇫🇷"):
        assert any(part in vector["text"] for vector in vectors), part


@pytest.mark.parametrize("text", ["Mr. ", "the U.S. ", "e.g. ", "So did I. "])
def test_abbreviations_have_vectors(text: str) -> None:
    shown = {vector["text"]: vector["shown"] for vector in describe_text("words", {})["vectors"]["shown"]}
    assert shown[text].islower() == (text != "So did I. ")
