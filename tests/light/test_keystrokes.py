"""Keystroke savings: the simulated user, counted by hand, and the same with a real model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from models import write_tiny, write_words
from rheostat.cli import app
from rheostat.errors import OperatingPointError
from rheostat.measure.keystrokes import KeystrokeCount, keystroke_savings, offered, simulate
from rheostat.measure.texts import Text, read_text
from rheostat.model.shape import ModelShape
from rheostat.runtime.predictor import Predictor
from rheostat.text.vocabulary import END_OF_LINE, UNKNOWN

WORDS = (UNKNOWN, END_OF_LINE, "the", "game", "gate", "garden", "boat", "sees", "don't")
SHAPE = ModelShape(len(WORDS), 8, (16, 8), (2, 1))


def nothing(text: str) -> list[str]:
    return []


def completer(*words: str):  # type: ignore[no-untyped-def]
    """Offers up to three of these words that begin with the typed letters, in this order."""

    def suggest(text: str) -> list[str]:
        prefix = "" if text[-1:].isspace() else (text.split() or [""])[-1].strip('"')
        return [word for word in words if word.startswith(prefix.lower())][:3]

    return suggest


# The simulated user


def test_without_suggestions_every_character_and_space_is_a_keystroke() -> None:
    count = simulate(["see", "you", "at", "ten"], nothing)
    assert (count.typed, count.needed, count.saved_share, count.taken) == (15, 15, 0, 0)


def test_a_word_offered_at_once_takes_one_keystroke() -> None:
    count = simulate(["see", "you"], completer("see", "you"))
    assert (count.typed, count.needed, count.taken, count.words) == (2, 8, 2, 2)
    assert count.saved_share == pytest.approx(0.75)


def test_letters_are_typed_until_the_word_is_offered() -> None:
    # "gate" is fourth: "g" and "ga" still match all four, "gat" only one.
    count = simulate(["gate"], completer("game", "garden", "gala", "gate"))
    assert (count.typed, count.needed) == (4, 5)


def test_a_word_that_is_never_offered_is_typed_in_full() -> None:
    count = simulate(["zebra", "game"], completer("game"))
    assert (count.typed, count.needed, count.taken) == (6 + 1, 6 + 5, 1)


def test_punctuation_is_typed_as_it_is_and_the_space_moves_behind_it() -> None:
    count = simulate(['"Game,"', "--", "1990"], completer("game"))
    assert (count.typed, count.needed) == (1 + 1 + 2 + 3 + 5, 8 + 3 + 5)


def test_a_line_end_is_a_keystroke_with_and_without_suggestions() -> None:
    seen: list[str] = []
    count = simulate(["game", "\n", "game"], lambda text: seen.append(text) or ["game"])  # type: ignore[func-returns-value]
    assert (count.typed, count.needed) == (3, 10) and seen == ["", "game\n"]


def test_no_space_is_typed_before_a_line_end() -> None:
    count = simulate(["see", "you", "\n", "1990", "\n"], nothing)
    assert (count.typed, count.needed) == (len("see you\n1990\n"),) * 2
    taken = simulate(["see", "\n"], completer("see"))
    assert (taken.typed, taken.needed, taken.fewest) == (
        2,
        4,
        2,
    )  # taking a suggestion is a key, and so is the line end


def test_the_limit_is_a_keystroke_per_word() -> None:
    count = simulate(['"Game,"', "see", "1990"], nothing)
    assert count.fewest == (3 + 1) + 1 + 5 and count.limit_share == pytest.approx(1 - count.fewest / count.needed)
    oracle = simulate(["see", "you", "\n", "at", "ten"], completer("see", "you", "at", "ten"))
    assert oracle.typed >= oracle.fewest
    always = simulate(["see", "you", "\n"], lambda text: ["see", "you"])
    assert always.typed == always.fewest and always.saved_share == always.limit_share


def test_capitals_and_apostrophes_do_not_matter() -> None:
    assert simulate(["Don’t"], lambda text: ["don't"]).typed == 1


@pytest.mark.parametrize("word", ["<unk>", "1,000", "..."])
def test_numbers_and_signs_are_typed_in_full(word: str) -> None:
    count = simulate([word], lambda text: 1 // 0)  # type: ignore[arg-type, return-value]
    assert count.typed == count.needed == len(word) + 1


def test_unused_suggestions_cost_nothing() -> None:
    words = ["we", "see", "the", "game", "in", "the", "garden"]
    assert simulate(words, lambda text: ["boat", "boats", "boating"]) == simulate(words, nothing)


def test_an_empty_text_saves_nothing() -> None:
    assert simulate([], nothing) == KeystrokeCount(0, 0) and KeystrokeCount(0, 0).saved_share == 0


def test_keystrokes_saved_per_joule() -> None:
    # 60 saved over 20 words of 5 mJ each: 0.1 J
    assert KeystrokeCount(typed=40, needed=100, words=20).saved_per_joule(5.0) == pytest.approx(600)


# A real model


@pytest.fixture(scope="module")
def predictor(tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    path = write_words(tmp_path_factory.mktemp("keystrokes") / "model.safetensors", WORDS, SHAPE)
    return Predictor(path, threads=1)


@pytest.mark.parametrize("knob", [1.0, 0.5])
def test_a_model_saves_what_its_three_suggestions_are_worth(knob: float, predictor: Predictor) -> None:
    predictor.turn(knob)
    text = Text("ours", "words", ("The boat sees the garden.", "Zebras don't!"), prepared=False)
    shares: list[float] = []
    count = keystroke_savings(predictor, text, 6, progress=shares.append)
    # From the second letter on, a word is the only match; "ga" has three, so "g" offers all of them.
    longest = sum(map(len, ["Tb", "bb", "ss", "tt", "gg.", "Zebras "])) + 1
    assert count.words == 6 and 6 <= count.typed <= longest
    assert count.needed == len("The boat sees the garden.") + 1 + len("Zebras ") and shares[-1] == 1.0


def test_all_words_of_the_text_are_typed_if_more_are_requested(predictor: Predictor) -> None:
    text = Text("ours", "words", ("the boat",), prepared=False)
    assert keystroke_savings(predictor, text, 100).words == 2


def test_suggestions_are_whole_words_before_the_cursor(predictor: Predictor) -> None:
    assert offered(predictor, 'we "ga') == [word for word in offered(predictor, "we ga") if word in WORDS]
    assert "boat-garden" in offered(predictor, "boat-gar")


@pytest.mark.parametrize(
    ("tokenizer", "line", "words"),
    [
        ("ptb", "it was n't mr. smith 's N N of <unk>", ["it", "wasn't", "mr.", "smith's", "N", "N", "of", "<unk>"]),
        ("wikitext", "a role @-@ playing game ( 1 @,@ 000 ) , no", ["a", "role-playing", "game", "(1,000),", "no"]),
        ("words", "I don't know,  sorry!", ["I", "don't", "know,", "sorry!"]),
    ],
)
def test_prepared_text_is_typed_as_it_is_written(tokenizer: str, line: str, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "test.txt").write_text(f" {line} \n")
    assert read_text(str(tmp_path), tokenizer, 100).typed_words() == [*words, "\n"]  # type: ignore[arg-type]


def test_evaluate_types_the_test_text_on_request(tmp_path: Path) -> None:
    model = write_tiny(tmp_path / "model.safetensors")
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.txt").write_text("word3 word4 word5\n" * 5)
    options = [
        "evaluate",
        str(model),
        "--data",
        str(tmp_path),
        "--keystrokes",
        "--words",
        "9",
        "--knob",
        "0.7",
        "--json",
    ]
    answer = json.loads(CliRunner().invoke(app, options, catch_exceptions=False).stdout)
    assert answer["keystrokes"]["words"] == 9
    assert 0 <= answer["keystrokes"]["keystrokes_saved_share"] < 1
    with pytest.raises(OperatingPointError, match="leave out the criterion"):
        CliRunner().invoke(app, [*options, "--criterion", "random"], catch_exceptions=False)
