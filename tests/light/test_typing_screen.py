"""The typing screen of the terminal: keys do what a shell does, corrections are shown and can be undone."""

from __future__ import annotations

import os
import sys

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


def test_a_line_that_was_begun_is_still_there_after_up_and_down(screen: Screen) -> None:
    press(screen, *"one", keys.ENTER, *"half a li", keys.UP)
    assert screen.line == "one"
    press(screen, keys.DOWN, *"ne")
    assert screen.line == "half a line"
    press(screen, keys.UP, keys.ENTER, keys.DOWN)  # another line was sent instead
    assert screen.line == "" and screen.finished == ["one", "one"]


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


def test_undo_changes_the_corrected_word_alone(screen: Screen) -> None:
    press(screen, *"what are you dping tonight my friend", keys.LEFT, keys.UNDO)
    assert screen.text == "what are you dping tonight my friend"
    assert screen.before == "what are you dping tonight my frien"
    press(screen, keys.UNDO)
    assert screen.text == "what are you dping tonight my friend"


def test_undo_goes_back_correction_by_correction(screen: Screen) -> None:
    press(screen, *"what are ypu diong ")
    assert screen.text == "what are you doing "
    press(screen, keys.UNDO)
    assert screen.text == "what are you diong "
    press(screen, keys.UNDO)
    assert screen.text == "what are ypu diong " and screen.cursor == len("what are ypu diong ")


def test_a_corrected_word_that_was_changed_does_not_come_back(screen: Screen) -> None:
    press(screen, *"what are you dping ", keys.BACKSPACE, *"s", keys.UNDO)
    assert screen.text == "what are you doings"


def test_undo_after_enter_brings_the_word_back_in_the_finished_line(screen: Screen) -> None:
    memory = screen.predictor.memory
    assert memory is not None
    press(screen, *"what are you dping", keys.ENTER)
    assert screen.text == "what are you doing\n" and "Ctrl-Z" in screen.note
    press(screen, keys.UNDO)
    assert screen.text == "what are you dping\n"
    press(screen, *"so")
    assert memory.count("you", "doing") == 0.0 and memory.count("are", "you") == 1.0  # what stands there is learned
    press(screen, keys.ENTER, *"what are you dping", keys.ENTER, *"so", keys.UNDO)
    assert screen.text == "what are you dping\nso\nwhat are you dping\nso"  # it was meant


def test_a_line_corrected_at_its_end_is_learned_as_it_was_corrected(screen: Screen) -> None:
    memory = screen.predictor.memory
    assert memory is not None
    press(screen, *"what are you doign", keys.ENTER)  # a slip that is sure enough; nobody typed "doing"
    assert not screen.press(keys.LEAVE)
    assert memory.count("you", "doing") == 1.0 and memory.count("doign") == 0.0


@pytest.mark.parametrize("end", [" ", ",", ".", "?", "!", ":", ")", "…"])
def test_signs_end_a_word_too(screen: Screen, end: str) -> None:
    press(screen, *f"what are you dping{end}")
    assert screen.text == f"what are you doing{end}"
    press(screen, *"man", keys.UNDO)
    assert screen.text == f"what are you dping{end}man"


def test_a_word_that_was_brought_back_is_not_corrected_again(screen: Screen) -> None:
    press(screen, *"what are you dping ", keys.UNDO, keys.BACKSPACE, " ")
    assert screen.text == "what are you dping "
    press(screen, keys.DELETE_LINE, *"what are you Dping ")
    assert screen.text == "what are you Dping "


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


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such sequences")
@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        (b"\x1b[A\x1bOB\x1b[3~\x1b[6~", [keys.UP, keys.DOWN, keys.DELETE, keys.PAGE_DOWN]),
        (b"\x1b]11;rgb:1e1e/1e1e/1e1e\x07", []),  # the terminal answers what its background is
        (b"\x1b]11;rgb:1e1e/1e1e/1e1e\x1b\\", []),
        (b"\x1bP>|XTerm(390)\x1b\\", []),  # its name
        (b"\x1b_Gi=31;OK\x1b\\", []),  # whether it shows pictures
        (b"\x1b[?65;1;2;6;9;15;18;21;22c", []),  # what it can do
        (b"\x1b[M aB", []),  # the mouse, in three bytes
        (b"\x1b[M\x20\xe1\xf3", []),
        (b"\x1b[<0;12;7M", []),
        (b"\x1b[[A", []),  # F1 of the Linux console
        (b"\x1b[1;5C\x1b[Z\x1b(B", []),
        (b"\x1bx\x1b\xc3\xa9", []),  # Alt and a letter
        (b"\x1b\x1b[A", []),
        (b"\x1b[", []),
        (b"\x1b]never ends", []),
    ],
)
def test_sequences_are_read_whole(sent: bytes, wanted: list[str]) -> None:
    theirs, ours = os.pipe()
    os.write(ours, sent + (b"" if sent.endswith((b"[", b"ends")) else "é!".encode()))
    os.close(ours)
    found = list(keys.read_keys(theirs))
    os.close(theirs)
    assert found == [*wanted, *([] if sent.endswith((b"[", b"ends")) else ["é", "!"])]
