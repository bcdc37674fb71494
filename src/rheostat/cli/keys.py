"""Single keys from a terminal, as they are pressed. Knows terminals; knows nothing about what the keys do."""

from __future__ import annotations

import codecs
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager

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
            yield _keys(terminal)
        finally:
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)

    def _keys(terminal: int) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        while data := os.read(terminal, 1):
            for character in decoder.decode(data):
                if character == "\x1b":
                    if key := _SEQUENCES.get(_rest_of_sequence(terminal)):
                        yield key
                elif key := named(character):
                    yield key

    def _rest_of_sequence(terminal: int) -> str:
        """What follows an escape character. A sequence that is not known is read too, so that it types nothing."""
        sequence = ""
        while select.select([terminal], [], [], ESCAPE_SECONDS)[0]:
            character = os.read(terminal, 1).decode("ascii", "ignore")
            sequence += character
            is_introduction = len(sequence) == 1 and character in "[O"
            if not is_introduction and (character.isalpha() or character == "~" or len(sequence) > 16):
                break
        return sequence


def named(character: str) -> str | None:
    """The name of a key, or a printable character; None for anything else."""
    return _NAMED.get(character) or (character if character.isprintable() else None)
