"""Single keys from a terminal, as they are pressed. Knows terminals; knows nothing about what the keys do."""

from __future__ import annotations

import codecs
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

UP, DOWN, RIGHT, LEFT = "up", "down", "right", "left"
TO_START, TO_END, DELETE, PAGE_UP, PAGE_DOWN = "home", "end", "delete", "page up", "page down"
TAB, ENTER, BACKSPACE, LEAVE = "tab", "enter", "backspace", "leave"
DELETE_WORD, DELETE_LINE, DELETE_REST = "delete word", "delete line", "delete rest"
TEACH, UNDO, NEXT, PREVIOUS = "teach", "undo", "next", "previous"
_NAMED = {
    "\t": TAB,
    "\r": ENTER,
    "\n": ENTER,
    "\x7f": BACKSPACE,
    "\x08": BACKSPACE,
    "\x03": LEAVE,
    "\x04": LEAVE,
    "\x01": TO_START,  # Ctrl-A
    "\x02": LEFT,  # Ctrl-B
    "\x05": TO_END,  # Ctrl-E
    "\x06": RIGHT,  # Ctrl-F
    "\x0b": DELETE_REST,  # Ctrl-K
    "\x0e": NEXT,  # Ctrl-N
    "\x10": PREVIOUS,  # Ctrl-P
    "\x14": TEACH,  # Ctrl-T
    "\x15": DELETE_LINE,  # Ctrl-U
    "\x17": DELETE_WORD,  # Ctrl-W
    "\x1a": UNDO,  # Ctrl-Z
}
# What terminals send after the escape character.
_SEQUENCES = {
    "[A": UP,
    "[B": DOWN,
    "[C": RIGHT,
    "[D": LEFT,
    "OA": UP,
    "OB": DOWN,
    "OC": RIGHT,
    "OD": LEFT,
    "[H": TO_START,
    "[F": TO_END,
    "OH": TO_START,
    "OF": TO_END,
    "[1~": TO_START,
    "[4~": TO_END,
    "[7~": TO_START,
    "[8~": TO_END,
    "[3~": DELETE,
    "[5~": PAGE_UP,
    "[6~": PAGE_DOWN,
}
ESCAPE_SECONDS = 0.05  # the rest of a key's sequence arrives within this time

if sys.platform == "win32":
    import msvcrt

    _WINDOWS_KEYS = {
        "H": UP,
        "P": DOWN,
        "M": RIGHT,
        "K": LEFT,
        "G": TO_START,
        "O": TO_END,
        "S": DELETE,
        "I": PAGE_UP,
        "Q": PAGE_DOWN,
    }

    @contextmanager
    def single_keys() -> Iterator[Iterator[str]]:
        """The keys pressed within the block: a character, or one of the names above."""
        yield _keys()

    def _keys() -> Iterator[str]:
        while True:
            character = msvcrt.getwch()
            if character in ("\x00", "\xe0"):
                if key := _WINDOWS_KEYS.get(msvcrt.getwch()):
                    yield key
            elif key := named(character):
                yield key

else:
    import termios
    import tty

    @contextmanager
    def single_keys() -> Iterator[Iterator[str]]:
        """The keys pressed within the block: a character, or one of the names above."""
        terminal = sys.stdin.fileno()
        before = termios.tcgetattr(terminal)
        try:
            tty.setraw(terminal, termios.TCSADRAIN)
            mode = termios.tcgetattr(terminal)
            mode[1] |= termios.OPOST  # keep translating line ends, so lines start at the left
            termios.tcsetattr(terminal, termios.TCSADRAIN, mode)
            yield read_keys(terminal)
        finally:
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)

    def read_keys(terminal: int) -> Iterator[str]:
        """The keys that a terminal in raw mode sends."""
        decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        while data := os.read(terminal, 1):
            for character in decoder.decode(data):
                if character == "\x1b":
                    if key := _SEQUENCES.get(read_sequence(_at_once(terminal))):
                        yield key
                elif key := named(character):
                    yield key

    def _at_once(terminal: int) -> Iterator[str]:
        """Bytes that arrive without a pause, as characters of the same code."""
        while select.select([terminal], [], [], ESCAPE_SECONDS)[0] and (data := os.read(terminal, 1)):
            yield data.decode("latin-1")


def read_sequence(following: Iterator[str]) -> str:
    """What follows an escape character (ECMA-48). Unknown sequences are read whole, so that they type nothing."""
    first = next(following, "")
    if first == "[":
        first += _until(following, "@", "~")
        if first == "[[":  # a function key of the Linux console: one letter more
            first += next(following, "")
        elif first == "[M":  # the mouse: button, column and row
            first += "".join(islice(following, 3))
    elif first == "O":
        first += _until(following, "@", "~")
    elif first and first in "]PX^_":  # the terminal's answer to a question, up to a bell or an escape with a backslash
        for character in following:
            if character == "\a" or (character == "\x1b" and next(following, "\\") == "\\"):
                break
    elif " " <= first <= "/":
        first += _until(following, "0", "~")
    elif first == "\x1b":
        first += read_sequence(following)
    return first


def _until(following: Iterator[str], first: str, last: str) -> str:
    """The characters up to one from `first` to `last`."""
    found = ""
    for character in following:
        found += character
        if first <= character <= last:
            break
    return found


def named(character: str) -> str | None:
    """The name of a key, or a printable character; None for anything else."""
    return _NAMED.get(character) or (character if character.isprintable() else None)
