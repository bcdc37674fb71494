"""Hidden words: the package's list, and a user's changes to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import rheostat
from models import write_words
from rheostat.bundled import HIDDEN_WORDS
from rheostat.cli import app
from rheostat.errors import RheostatError, UserWordsError
from rheostat.model.shape import ModelShape
from rheostat.text.vocabulary import END_OF_LINE, UNKNOWN
from rheostat.words.hidden_words import find_joined, find_misspellings, is_near, read_hidden_words, read_word_list

WORDS = (UNKNOWN, END_OF_LINE, "the", "crap", "crane", "crab")
SHAPE = ModelShape(len(WORDS), 4, (8, 4), (2, 1))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_words(tmp_path_factory.mktemp("hidden") / "model.safetensors", WORDS, SHAPE)


def changes(folder: Path, text: str) -> Path:
    path = folder / "changes.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_list_has_whole_words_in_lower_case_in_order_and_once() -> None:
    lines = [line for line in HIDDEN_WORDS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert lines == sorted(set(lines)) and all(line == line.strip().lower() and line for line in lines)
    assert read_hidden_words() == frozenset(lines)


def test_ordinary_words_are_not_on_the_list() -> None:
    ordinary = "gay lesbian black white jewish muslim breast sex scunthorpe assassin cockpit class pass hello disabled"
    assert not read_hidden_words() & set(ordinary.split())


def test_a_hidden_word_is_neither_suggested_nor_completed(model: Path) -> None:
    predictor = rheostat.load(model, slips=False)  # what was typed is no suggestion
    assert {s.word for s in predictor.suggest("the", k=9)} == {"the", "crane", "crab"}
    assert {s.word for s in predictor.complete("the cra", k=9)} == {"crane", "crab"}
    assert predictor.complete("the crap", k=9) == []


def test_a_file_adds_words_to_the_list_and_removes_others(tmp_path: Path, model: Path) -> None:
    path = changes(tmp_path, "\ufeff# mine\nCrab\n\n -crap \n")
    assert read_hidden_words(path) == (read_hidden_words() | {"crab"}) - {"crap"}
    found = rheostat.load(model, hidden_words=path, slips=False).complete("the cra", k=9)
    assert {suggestion.word for suggestion in found} == {"crap", "crane"}


def test_an_application_can_set_exactly_the_hidden_words(model: Path) -> None:
    assert read_hidden_words(["One", "two"]) == {"one", "two"} and read_hidden_words([]) == frozenset()
    assert "crap" in {s.word for s in rheostat.load(model, hidden_words=()).complete("the cra", k=9)}


@pytest.mark.parametrize("text", ["two words", "-"])
def test_a_line_that_is_not_a_word_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserWordsError, match="line 2 is not one word"):
        read_hidden_words(changes(tmp_path, f"good\n{text}\n"))


def test_an_unreadable_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(UserWordsError, match=r"absent\.txt cannot be read"):
        read_hidden_words(tmp_path / "absent.txt")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(UserWordsError, match="not UTF-8"):
        read_hidden_words(tmp_path / "binary")


def test_the_command_line_takes_the_file_as_an_option_or_from_the_environment(tmp_path: Path, model: Path) -> None:
    path = str(changes(tmp_path, "-crap\n"))
    arguments = ["suggest", "the", "--model", str(model), "--prefix", "crap"]

    def words(*more: str, **environment: str) -> str:
        return CliRunner().invoke(app, [*arguments, *more], env=environment, catch_exceptions=False).stdout

    assert words() == ""
    assert words("--hidden-words", path).startswith("crap")
    assert words(RHEOSTAT_HIDDEN_WORDS=path).startswith("crap")


# Misspellings


@pytest.mark.parametrize(
    ("word", "other", "edits"),
    [
        ("becuase", "because", 1),
        ("teh", "the", 1),
        ("definetly", "definitely", 2),
        ("same", "same", 0),
        ("ab", "ba", 1),
    ],
)
def test_edits_between_words(word: str, other: str, edits: int) -> None:
    assert is_near(word, other, edits) and is_near(other, word, edits)
    assert not edits or not is_near(word, other, edits - 1)


def test_a_misspelling_is_rare_near_a_frequent_word_and_in_no_list() -> None:
    counts = {"because": 5000, "the": 9000, "becuase": 50, "becaused": 51, "thy": 3, "teh": 4, "hagrid": 4, "hard": 900}
    listed = {"because", "the", "thy", "hard"}
    assert find_misspellings(counts, listed) == {"becuase": "because", "teh": "the", "hagrid": "hard"}
    assert "hagrid" not in find_misspellings(counts, listed, {"hagrid": "Hagrid"})  # a name


def test_long_words_need_not_be_so_rare() -> None:
    counts = {"definitely": 300, "definetly": 60, "useful": 90, "usefull": 8, "watched": 400, "rewatched": 29}
    counts |= {
        "software": 90,
        "softwares": 9,
        "weird": 3000,
        "wierd": 51,
        "venom": 40,
        "venmo": 10,
        "mango": 900,
        "mgoan": 9,
        "dismissal": 12,
    }
    listed = {"definitely", "useful", "watched", "software", "weird", "venom", "mango", "dismissal"}
    assert find_misspellings(counts, listed) == {"definetly": "definitely", "usefull": "useful", "wierd": "weird"}


def test_a_rare_word_of_a_list_can_be_a_misspelling() -> None:
    counts = {"believe": 5000, "belive": 20, "games": 5000, "gamer": 5, "point": 5000, "pointe": 5, "changing": 5000}
    counts |= {"channing": 5, "during": 5000, "durning": 30}
    assert find_misspellings(counts, counts.keys()) == {}
    rare = {"belive", "gamer", "pointe", "channing", "durning"}
    assert find_misspellings(counts, counts.keys(), rare=rare) == {"belive": "believe"}  # "durning" is too frequent


def test_contractions_keep_their_apostrophes() -> None:
    counts = {"don't": 900, "dont": 300, "what'd": 2, "what": 900, "its": 500, "it's": 900}
    assert find_misspellings(counts, {"what", "its"}) == {"dont": "don't"}
    listed = {"there's": 900, "theres": 40, "mother's": 240, "mothers": 120, "i'll": 900, "ill": 20}
    listed |= {"can't": 900, "cant": 60, "i'm": 900, "im": 400}
    found = {"theres": "there's", "cant": "can't", "im": "i'm"}
    assert find_misspellings(listed, {"theres", "mothers", "ill", "cant"}) == found


def test_two_words_in_one_are_a_misspelling_if_they_are_much_more_often_apart() -> None:
    counts = {
        "a": 90,
        "lot": 80,
        "alot": 9,
        "after": 50,
        "all": 60,
        "afterall": 2,
        "over": 50,
        "take": 50,
        "takeover": 3,
    }
    listed = {"a", "lot", "after", "all", "afterall", "over", "take", "takeover"}
    pairs = {("a", "lot"): 45, ("after", "all"): 60, ("take", "over"): 60}
    assert set(pairs) == {halves for _, halves in find_joined(counts, listed)}
    assert find_misspellings(counts, listed, pairs=pairs) == {"alot": "a lot", "afterall": "after all"}
    assert find_misspellings(counts, listed, pairs={}) == {}


def test_word_lists_are_read(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("Teh->the\n\nbecuase->because, cause,\nwierd\n")
    assert read_word_list(tmp_path / "list.txt") == {"teh", "becuase", "wierd"}
    with pytest.raises(UserWordsError, match="cannot be read"):
        read_word_list(tmp_path / "none.txt")
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(UserWordsError, match="has no words; expected one word per line"):
        read_word_list(tmp_path / "empty.txt")


def test_packed_misspellings_are_read_and_never_suggested(tmp_path: Path) -> None:
    words = (UNKNOWN, END_OF_LINE, "the", "teh", "because", "becuase", "game", "gaem")
    model = write_words(tmp_path / "model.safetensors", words, ModelShape(len(words), 8, (16, 8), (2, 1)))
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.txt").write_text("the " * 300 + "because " * 300 + "teh becuase game gaem\n")
    (tmp_path / "list").write_text("the\nbecause\ngame\n")
    (tmp_path / "wrong").write_text("gaem->game\n")
    with pytest.raises(RheostatError, match="give it as data"):
        rheostat.pack(model, model, word_lists=[tmp_path / "list"])
    out = tmp_path / "packed.safetensors"
    summary = rheostat.pack(model, out, word_lists=[tmp_path / "list"], misspellings=tmp_path / "wrong", data=tmp_path)
    assert summary["hidden_words"] == 3
    with rheostat.load(out) as predictor, rheostat.load(model) as before:
        assert {one.word.lower() for one in predictor.suggest("the", k=8)} == {"the", "because", "game"}
        assert len(before.suggest("the", k=8)) == 6
        assert np.array_equal(predictor.log_probabilities("teh"), before.log_probabilities("teh"))
    again = rheostat.pack(out, tmp_path / "again.safetensors", precision="fp16")
    assert again["hidden_words"] == 3  # other edits keep them


def test_a_misspelling_that_the_model_knows_is_corrected_unless_it_was_taught(tmp_path: Path) -> None:
    with rheostat.load(user_words=tmp_path / "words.json") as predictor:
        assert predictor.log_probabilities("I").shape == (20_000,)
        assert "teh" in rheostat.open_model("chat").hidden_words
        best = predictor.correct("I went to teh")[0]
        assert (best.word, best.kind, best.advice) == ("the", "correction", "correct")
        predictor.learn("teh")
        assert predictor.correct("I went to teh")[0].kind == "typed"
