"""What an exported folder says about text can be implemented from it alone; the samples read text so too."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from make_writing_cases import TEXTS, mixed_texts

from rheostat.text.tokenizers import FOLDED_CHARACTERS
from rheostat.words.passage import context_words
from rheostat.words.text_rules import describe_text
from rheostat.words.writing import matching_form

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
DESCRIBED = describe_text("words", {})
VECTORS = DESCRIBED["vectors"]


def ask_javascript(folder: Path, texts: list[str], samples: dict[str, dict[str, str]]) -> Any:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node: install Debian's nodejs")
    (folder / "input.json").write_text(json.dumps({"described": DESCRIBED, "texts": texts, "samples": samples}))
    command = [node, "--no-warnings", str(HERE / "check_text_rules.mjs"), str(folder / "input.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_split(found: Any) -> None:
    """Words and prefixes are those of the vectors."""
    for vector, words in zip(VECTORS["words"], found["words"], strict=True):
        assert words == vector["words"], vector["text"]
    for vector, typed in zip(VECTORS["typed"], found["typed"], strict=True):
        assert typed["words"] == vector["words"], vector["text"]
        assert typed["prefix"] == matching_form(vector["prefix"]), vector["text"]


def test_a_program_written_from_the_rules_gives_the_answers_of_the_vectors(tmp_path: Path) -> None:
    texts = [*TEXTS, *mixed_texts(200), *(vector["text"] for vector in VECTORS["words"])]
    found = ask_javascript(tmp_path, texts, {})
    check_split(found)
    for vector, typed in zip(VECTORS["typed"], found["typed"], strict=True):
        assert typed["startsSentence"] == vector["starts_sentence"], vector["text"]
    for kind in ("shown", "inserted"):
        for vector, answer in zip(VECTORS[kind], found[kind], strict=True):
            assert answer == vector[kind], vector
    for text, words in zip(texts, found["texts"], strict=True):
        assert words == context_words(f"{text} ", "words"), text


SKETCHES = {"Keyboard.kt": ('"""(.*?)"""', r"\\u(\w{4})"), "Keyboard.swift": ('#"(.*?)"#', r"\\u\{(\w+)\}")}


def sketch_patterns(name: str) -> dict[str, str]:
    """The regular expressions of a sketch: what is inside the quotes of its raw strings."""
    source, quoted = (EXAMPLES / name).read_text(encoding="utf-8"), SKETCHES[name][0]
    found = {}
    for kind in ("piece", "prefix"):
        (written,) = re.findall(
            rf"{kind}Pattern = (?:try! NS)?Reg(?:ularExpression|ex)\((.*?)\)\n(?! *[|+])", source, re.DOTALL
        )
        found[kind] = "".join(re.findall(quoted, written))
    return found


def test_the_sketches_split_text_as_the_vectors_say(tmp_path: Path) -> None:
    found = ask_javascript(tmp_path, [], {name: sketch_patterns(name) for name in SKETCHES})["samples"]
    for name in SKETCHES:
        check_split(found[name])


@pytest.mark.parametrize("name", SKETCHES)
def test_the_sketches_fold_the_same_characters(name: str) -> None:
    source = (EXAMPLES / name).read_text(encoding="utf-8")
    (table,) = re.findall(r"folded = (?:mapOf\(|\[)\n(.*?)\n *[\])]", source, re.DOTALL)
    pairs = re.findall(r'"([^"]+)"(?: to|:) "([^"]*)"', table)
    escape = SKETCHES[name][1]
    assert {
        re.sub(escape, lambda code: chr(int(code[1], 16)), sign): plain for sign, plain in pairs
    } == FOLDED_CHARACTERS
