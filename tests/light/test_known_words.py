"""Known words: correct words outside the vocabulary, which are stored as a Bloom filter and not corrected."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import rheostat
from models import rewrite, write_words
from rheostat.bundled import model_path
from rheostat.cli import app
from rheostat.errors import ModelFileError, RheostatError
from rheostat.measure.packing import pack
from rheostat.model.file import open_model
from rheostat.model.names import KNOWN
from rheostat.model.shape import ModelShape
from rheostat.model.writer import write_model
from rheostat.text.known_words import HEADER_BYTES, MOST_PLACES, KnownWords, select_known
from rheostat.text.vocabulary import END_OF_LINE, UNKNOWN

VOCABULARY = (UNKNOWN, END_OF_LINE, "the", "tilt", "title", "late", "don't")
SHAPE = ModelShape(len(VOCABULARY), 4, (8, 4), (2, 1))
LETTERS = string.ascii_lowercase


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_words(tmp_path / "model.safetensors", VOCABULARY, SHAPE)


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    """A list of which "latte" and "irritates" are worth storing."""
    path = tmp_path / "list.txt"
    path.write_text("Latvia\nlatte\nlatte's\ntilted\nlate\nirritates\nox\n3rd\n", encoding="utf-8")
    return path


# --- the filter --------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(words=st.sets(st.text(min_size=3, max_size=12), min_size=1, max_size=60))
def test_every_word_that_was_put_in_is_found(words: set[str]) -> None:
    known = KnownWords.of(words)
    assert all(word in known for word in words)
    assert all(f"{word}'s" in known for word in words if not word.endswith("'s"))
    assert KnownWords(known.to_bytes()).to_bytes() == known.to_bytes() and known.count == len(words)


def test_other_words_are_found_about_once_in_fifty() -> None:
    chance = random.Random(3)
    words = {"".join(chance.choices(LETTERS, k=chance.randint(3, 10))) for _ in range(5000)}
    others = {"".join(chance.choices(LETTERS, k=chance.randint(3, 10))) for _ in range(5000)} - words
    slipped = {word[:1] + chance.choice(LETTERS) + word[2:] for word in words} - words
    known = KnownWords.of(words)
    expected = (1 - np.exp(-5 / 8)) ** 5
    for strangers in (others, slipped):
        assert sum(word in known for word in strangers) / len(strangers) == pytest.approx(expected, rel=0.3)


def test_short_words_and_other_things_are_not_found() -> None:
    known = KnownWords.of(["latte"])
    assert "la" not in known and "" not in known and 7 not in known and "LATTE" not in known


def test_words_worth_storing_are_in_lower_case_of_letters_and_new() -> None:
    words = [
        "Latvia",
        "latte",
        "latte's",
        "tilted",
        "late",
        "irritates",
        "ox",
        "3rd",
        "o'clock",
        "o'",
        "won't",
        "éclair",
    ]
    assert select_known(words, VOCABULARY) == ["irritates", "latte", "o'clock", "tilted", "won't", "éclair"]


DAMAGED: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "no bits": (lambda data: data[:HEADER_BYTES], "known words in 8 bytes"),
    "no words": (lambda data: bytes(4) + data[4:], "0 known words"),
    "no places": (lambda data: data[:4] + b"\0" + data[5:], "with 0 places"),
    "too many places": (lambda data: data[:4] + bytes([MOST_PLACES + 1]) + data[5:], "with 17 places"),
    "something in the gap": (lambda data: data[:6] + b"x" + data[7:], "with 5 places"),
    "all bits": (lambda data: data[:HEADER_BYTES] + b"\xff" * 30, "240 bits of 2 known words"),
    "no bit": (lambda data: data[:HEADER_BYTES] + bytes(30), "0 bits of 2 known words"),
}


@pytest.mark.parametrize(("change", "found"), DAMAGED.values(), ids=list(DAMAGED))
def test_damaged_known_words_are_refused_in_one_line(
    change: Callable[[bytes], bytes], found: str, model: Path, tmp_path: Path
) -> None:
    damaged = change(KnownWords.of(["latte", "irritates"]).to_bytes())
    with pytest.raises(ValueError, match=found):
        KnownWords(damaged)
    out = tmp_path / "damaged.safetensors"
    with open_model(model) as file:
        contents = file.contents()
        write_model(out, replace(contents, words={**contents.words, KNOWN: np.frombuffer(damaged, np.uint8)}))
    with pytest.raises(ModelFileError, match=found) as caught:
        rheostat.load(out)
    assert str(caught.value).startswith(str(out)) and "\n" not in str(caught.value)


# --- in a file ---------------------------------------------------------------------------------------------


def test_pack_stores_known_words_and_keeps_them(model: Path, listed: Path, tmp_path: Path) -> None:
    out, again = tmp_path / "out.safetensors", tmp_path / "again.safetensors"
    assert pack(model, out, known_words=[listed])["known_words"] == {"words": 2, "bytes": HEADER_BYTES + 2}
    assert pack(out, again, precision="fp16")["known_words"] == {"words": 2, "bytes": HEADER_BYTES + 2}
    with open_model(again) as file:
        assert file.known_words is not None and "latte" in file.known_words and "irritates" in file.known_words
        assert file.description.format_version == 2
    with open_model(model) as file:
        assert file.known_words is None
    with pytest.raises(RheostatError, match="no word that the vocabulary lacks"):
        (tmp_path / "names").write_text("Latvia\nlate\n")
        pack(model, out, known_words=[tmp_path / "names"])


def test_the_command_takes_several_lists_and_inspect_shows_the_words(model: Path, listed: Path, tmp_path: Path) -> None:
    (tmp_path / "more").write_text("falafel\n")
    out = str(tmp_path / "out.safetensors")
    options = ["--known-words", str(listed), "--known-words", str(tmp_path / "more"), "-o", out]
    assert CliRunner().invoke(app, ["pack", str(model), *options]).exit_code == 0
    assert json.loads(CliRunner().invoke(app, ["inspect", out, "--json"]).output)["known_words"]["words"] == 3
    assert "3, 11 bytes" in CliRunner().invoke(app, ["inspect", out]).output
    assert "none" in CliRunner().invoke(app, ["inspect", str(model)]).output


def test_known_words_are_a_list_of_bytes(model: Path, listed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.safetensors"
    pack(model, out, known_words=[listed])
    rewrite(out, header=lambda header: header[KNOWN].update(dtype="I8"))
    with pytest.raises(ModelFileError, match="tensor known of I8"):
        open_model(out)


# --- what users see ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled model with three known words."""
    folder = tmp_path_factory.mktemp("known")
    (folder / "list").write_text("rumbling\nwavelength\nlatte\n")
    pack(model_path(), folder / "model.safetensors", known_words=[folder / "list"])
    return folder / "model.safetensors"


@pytest.mark.parametrize("text", ["the thunder was rumbling", "we are on the same wavelength"])
def test_a_known_word_is_not_changed_and_a_slip_still_is(text: str, bundled: Path) -> None:
    with rheostat.load(bundled) as predictor:
        assert predictor.correct(text)[0].kind == "typed"
        best = predictor.correct("what are you dping")[0]
        assert (best.word, best.advice) == ("doing", "correct")


def test_the_core_answers_as_without_them(bundled: Path) -> None:
    with rheostat.load() as one, rheostat.load(bundled) as other:
        assert other.engine == "core"
        assert np.array_equal(one.log_probabilities("see you"), other.log_probabilities("see you"))


def test_a_known_word_is_never_suggested(bundled: Path) -> None:
    with rheostat.load(bundled) as predictor:
        found = predictor.complete("a large latt", k=9)
    assert "latte" not in {one.word for one in found if one.kind != "typed"}


def test_a_misspelling_is_corrected_even_if_a_list_has_it(tmp_path: Path) -> None:
    """The vocabulary has it, so no list can make it known."""
    (tmp_path / "list").write_text("cant\nlatte\n")
    pack(model_path(), tmp_path / "model.safetensors", known_words=[tmp_path / "list"])
    with rheostat.load(tmp_path / "model.safetensors") as predictor:
        assert predictor.correct("i cant")[0].word == "can't"
