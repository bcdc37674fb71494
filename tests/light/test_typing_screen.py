"""The typing screen of the terminal: keys do what a shell does, corrections are shown and can be undone."""

from __future__ import annotations

import pytest

import rheostat
from rheostat.cli import keys
from rheostat.cli.typing_screen import Screen
from rheostat.words.memory import Memory


@pytest.fixture
def screen() -> Screen:
    return Screen(rheostat.load(memory=Memory()))


def press(screen: Screen, *pressed: str) -> None:
    for key in pressed:
        assert screen.press(key)


def test_letters_are_typed_where_the_cursor_is(screen: Screen) -> None:
    press(screen, *"see u", keys.LEFT, *"yo", keys.TO_END, *" at", keys.TO_START, *"I ")
    assert screen.text == "I see you at"
    press(screen, keys.DELETE, keys.RIGHT, keys.BACKSPACE)
    assert screen.text == "I e you at"


def test_words_and_lines_are_deleted_as_in_a_shell(screen: Screen) -> None:
    press(screen, *"see you there", keys.DELETE_WORD)
    assert screen.text == "see you "
    press(screen, keys.DELETE_WORD, keys.LEFT, keys.LEFT, keys.DELETE_REST)
    assert screen.text == "se"
    press(screen, keys.DELETE_LINE, keys.DELETE_WORD, keys.BACKSPACE, keys.DELETE)
    assert screen.text == ""


def test_up_and_down_recall_earlier_lines(screen: Screen) -> None:
    press(screen, *"one", keys.ENTER, *"two", keys.ENTER, keys.UP)
    assert screen.line == "two"
    press(screen, keys.UP, keys.UP)
    assert screen.line == "one"
    press(screen, keys.DOWN, keys.DOWN, keys.DOWN)
    assert screen.line == "" and screen.finished == ["one", "two"]


def test_unknown_keys_type_nothing(screen: Screen) -> None:
    for character in ("\x00", "\x0c", "\x1b", "\x1f", "\x9b"):
        assert keys.named(character) is None
    before = screen.text
    press(screen, "insert")
    assert screen.text == before


def test_a_word_is_corrected_at_its_end_and_undo_brings_it_back(screen: Screen) -> None:
    press(screen, *"what are you dping")
    assert screen.offered[0].kind == "correction"
    press(screen, " ")
    assert screen.text == "what are you doing " and "dping → doing" in screen.note
    press(screen, keys.UNDO)
    assert screen.text == "what are you dping "


def test_a_taught_word_stays(screen: Screen) -> None:
    press(screen, *"what are you dping", keys.TEACH, " ")
    assert screen.text == "what are you dping "
    press(screen, keys.DELETE_LINE, keys.TEACH)
    assert screen.note == "  there is no word before the cursor"


def test_a_marked_word_is_taken_and_learned(screen: Screen) -> None:
    press(screen, *"see you at the ", keys.NEXT)
    wanted = screen.offered[1].word
    press(screen, keys.TAB)
    assert screen.text == f"see you at the {wanted} "
    press(screen, keys.ENTER)
    memory = screen.predictor.memory
    assert memory is not None and memory.count("the", wanted.lower()) == 1.0


def test_page_keys_turn_the_knob_and_control_d_ends(screen: Screen) -> None:
    press(screen, keys.PAGE_DOWN)
    assert screen.predictor.knob == pytest.approx(0.95)
    press(screen, keys.PAGE_UP)
    assert screen.predictor.knob == 1.0
    assert not screen.press(keys.LEAVE)
