"""Single keys from a terminal, as they are pressed. Knows terminals; knows nothing about what the keys do."""

from __future__ import annotations

import codecs
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager

UP, DOWN, RIGHT, LEFT = "up", "down", "right", "left"
TAB, ENTER, BACKSPACE, LEAVE = "tab", "enter", "backspace", "leave"
_NAMED = {"\t": TAB, "\r": ENTER, "\n": ENTER, "\x7f": BACKSPACE, "\x08": BACKSPACE, "\x03": LEAVE, "\x04": LEAVE}
_ARROWS = {"A": UP, "B": DOWN, "C": RIGHT, "D": LEFT}
ESCAPE_SECONDS = 0.05  # the rest of an arrow key's sequence arrives within this time

if sys.platform == "win32":
    import msvcrt

    _WINDOWS_ARROWS = {"H": UP, "P": DOWN, "M": RIGHT, "K": LEFT}

    @contextmanager
    def single_keys() -> Iterator[Iterator[str]]:
        """The keys pressed within the block: a character, or one of the names above."""
        yield _keys()

    def _keys() -> Iterator[str]:
        while True:
            character = msvcrt.getwch()
            if character in ("\x00", "\xe0"):
                if arrow := _WINDOWS_ARROWS.get(msvcrt.getwch()):
                    yield arrow
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
                    if arrow := _rest_of_arrow(terminal):
                        yield arrow
                elif key := named(character):
                    yield key

    def _rest_of_arrow(terminal: int) -> str | None:
        """The arrow key of an escape sequence; None for any other sequence, which is read and dropped."""
        sequence = ""
        while select.select([terminal], [], [], ESCAPE_SECONDS)[0]:
            character = os.read(terminal, 1).decode("ascii", "ignore")
            sequence += character
            if character.isalpha() or character == "~":
                break
        return _ARROWS.get(sequence[-1:]) if sequence[:1] in ("[", "O") else None


def named(character: str) -> str | None:
    """The name of a key, or a printable character; None for anything else."""
    return _NAMED.get(character) or (character if character.isprintable() else None)
