"""Typing in the terminal, with live suggestions, the knob and the time of a query."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import NamedTuple

from rich.console import Group
from rich.live import Live
from rich.text import Text

from rheostat.cli import keys
from rheostat.cli.console import results
from rheostat.errors import OperatingPointError, UserWordsError
from rheostat.runtime.predictor import Predictor
from rheostat.runtime.remembering import CLOSING_SIGNS
from rheostat.words.writing import Suggestion, matching_form

KNOB_STEP = 0.05
HELP = (
    "Tab takes the marked word, Ctrl-N Ctrl-P mark another, Ctrl-T teaches a word, Ctrl-Z undoes a correction, "
    "Page Up Page Down turn the knob, Ctrl-D ends"
)
STYLES = {"completion": "bold", "correction": "bold italic", "typed": "dim"}


class Correction(NamedTuple):
    """A word that was corrected automatically, where it starts in its line, and what was typed."""

    start: int
    word: str
    typed: str

    @property
    def end(self) -> int:
        return self.start + len(self.word)

    def is_in(self, line: str) -> bool:
        """Whether the word still stands there, and no longer one that begins with it."""
        return line[self.start : self.end] == self.word and not line[self.end : self.end + 1].isalnum()

    def undone(self, line: str) -> str:
        return line[: self.start] + self.typed + line[self.end :]


@dataclass
class Screen:
    """The finished lines, the line that is edited, and the suggestions for what is before its cursor."""

    predictor: Predictor
    line: str = ""
    cursor: int = 0
    marked: int = 0
    note: str = ""
    finished: list[str] = field(default_factory=list)
    offered: list[Suggestion] = field(default_factory=list)
    query_ms: float = 0.0
    _recalled: int = 0  # lines back; 0 is the one that is edited
    _draft: str = ""  # the line that is edited, while an earlier one is shown
    _corrections: list[Correction] = field(default_factory=list)  # of the line, the latest last
    _kept: set[str] = field(default_factory=set)  # words that were brought back, which are not corrected again
    _is_held: bool = False  # the last finished line is not learned yet: undo may still change it

    def __post_init__(self) -> None:
        self._watch = self.predictor.watch()
        self._ask()

    @property
    def text(self) -> str:
        """Everything that was typed."""
        return "".join(f"{line}\n" for line in self.finished) + self.line

    @property
    def before(self) -> str:
        """The text before the cursor."""
        return "".join(f"{line}\n" for line in self.finished) + self.line[: self.cursor]

    def press(self, key: str) -> bool:
        """Handle a key; return False to end."""
        self.note = ""
        if key != keys.UNDO:
            self._learn_finished()
        if key == keys.LEAVE:
            self._watch.end(self.line)
            return False
        if key in (keys.NEXT, keys.PREVIOUS):
            self.marked = (self.marked + (1 if key == keys.NEXT else -1)) % max(1, len(self.offered))
            return True
        if key in (keys.PAGE_UP, keys.PAGE_DOWN):
            self._turn(KNOB_STEP if key == keys.PAGE_UP else -KNOB_STEP)
        elif not (self._move(key) or self._delete(key) or self._act(key)) and len(key) == 1:
            self._type(key)
        self.marked = 0
        self._ask()
        return True

    def _move(self, key: str) -> bool:
        """Keys that move the cursor, as in a shell."""
        places = {
            keys.LEFT: max(0, self.cursor - 1),
            keys.RIGHT: min(len(self.line), self.cursor + 1),
            keys.TO_START: 0,
            keys.TO_END: len(self.line),
        }
        if key in (keys.UP, keys.DOWN):
            self._recall(1 if key == keys.UP else -1)
        elif key in places:
            self.cursor = places[key]
        else:
            return False
        return True

    def _recall(self, by: int) -> None:
        """An earlier line, to be typed again."""
        back = self._recalled + by
        if not 0 <= back <= len(self.finished):
            return
        if not self._recalled:
            self._draft = self.line
        self._recalled = back
        self.line = self.finished[-back] if back else self._draft
        self.cursor = len(self.line)
        self._corrections.clear()

    def _delete(self, key: str) -> bool:
        before, after = self.line[: self.cursor], self.line[self.cursor :]
        if key == keys.BACKSPACE:
            before = before[:-1]
        elif key == keys.DELETE_WORD:
            kept = before.rstrip()
            before = kept[: len(kept) - len(kept.split()[-1])] if kept else ""
        elif key == keys.DELETE_LINE:
            before = ""
        elif key == keys.DELETE_REST:
            after = ""
        elif key == keys.DELETE:
            after = after[1:]
        else:
            return False
        self._edit(before, after)
        return True

    def _act(self, key: str) -> bool:
        if key == keys.TAB:
            self._take()
        elif key == keys.ENTER:
            self._finish()
        elif key == keys.TEACH:
            self._teach()
        elif key == keys.UNDO:
            self._bring_back()
        else:
            return False
        return True

    def _type(self, character: str) -> None:
        if character == " " or character in CLOSING_SIGNS:
            self._correct()
        self._edit(self.line[: self.cursor] + character, self.line[self.cursor :])

    def _edit(self, before: str, after: str, *, accepted: bool = False) -> None:
        self._corrections = _moved(self._corrections, self.line, before + after)
        self.line, self.cursor = before + after, len(before)
        if not after:  # inside a line nothing is learned until it is finished
            self._watch.see(before, accepted=accepted)

    def _correct(self) -> None:
        """Replace the word that ends here, if it is almost certainly a mistake."""
        found = self.predictor.correct(self.before, 1)
        if not found or found[0].advice != "correct":
            return
        best, shown = found[0], self.before
        typed = shown[len(shown) - best.replaces :]
        if matching_form(typed) in self._kept:
            return
        self._edit(best.insert_into(shown)[len(shown) - self.cursor :], self.line[self.cursor :])
        self._corrections.append(Correction(self.cursor - len(best.word), best.word, typed))
        self.note = f"  {typed} → {best.word}; Ctrl-Z brings it back"

    def _bring_back(self) -> None:
        """The last corrected word as it was typed, in this line or in the one that was just finished."""
        line = self.finished[-1] if self._is_held else self.line
        corrections = [one for one in self._corrections if one.is_in(line)]
        if not corrections:
            return
        last = corrections.pop()
        typed = last.undone(line)
        self._kept.add(matching_form(last.typed))
        if self._is_held:
            self.finished[-1], self._corrections = typed, _moved(corrections, line, typed)
            return
        after = len(line) - max(self.cursor, last.end)  # characters; inside the word, the cursor goes to its end
        cursor = self.cursor if self.cursor <= last.start else len(typed) - after
        self._corrections = corrections
        self._edit(typed[:cursor], typed[cursor:])

    def _finish(self) -> None:
        self._correct()
        self.finished.append(self.line)
        self.line, self.cursor, self._recalled, self._draft = "", 0, 0, ""
        self._is_held = True
        if not self._corrections:
            self._learn_finished()

    def _learn_finished(self) -> None:
        if self._is_held:
            self._watch.end(self.finished[-1])
            self._is_held = False
            self._corrections.clear()

    def _teach(self) -> None:
        words = self.line[: self.cursor].split()
        if not words:
            self.note = "  there is no word before the cursor"
            return
        word = words[-1].strip('.,;:!?"“”()')
        try:
            self.predictor.learn(word)
            self.note = f"  learned {word}"
        except UserWordsError as error:
            self.note = f"  {error}"

    def _ask(self) -> None:
        start = time.perf_counter()
        self.offered = self.predictor.complete(self.before)
        self.query_ms = 1000 * (time.perf_counter() - start)

    def _take(self) -> None:
        if self.offered:
            begun = len(self.before) - self.cursor
            self._edit(
                self.offered[self.marked].insert_into(self.before)[begun:] + " ",
                self.line[self.cursor :],
                accepted=True,
            )

    def _turn(self, by: float) -> None:
        knob = min(1.0, round(self.predictor.knob + by, 2))
        try:
            self.predictor.turn(knob)
        except OperatingPointError as error:
            self.note = str(error)

    def __rich__(self) -> Group:
        words = Text("  ")
        for place, suggestion in enumerate(self.offered):
            style = "reverse" if place == self.marked else STYLES[suggestion.kind]
            words.append(f" {suggestion.word} ", style=style)
            words.append(" ✎ " if suggestion.kind == "correction" else "   ", style="dim")
        point = self.predictor.point
        figures = (
            f"  knob {self.predictor.knob:.0%}   {point.cost:.1%} of the cost ({point.name})   {self.query_ms:.2f} ms"
        )
        typed = Text(self.before + "▏" + self.line[self.cursor :])
        return Group(words, typed, Text(figures, style="dim"), Text(self.note or f"  {HELP}", style="dim"))


def _moved(corrections: list[Correction], before: str, now: str) -> list[Correction]:
    """Where corrected words stand in a line that was changed; without those that were changed themselves."""
    found = []
    for one in corrections:
        if now.startswith(before[: one.end]):
            found.append(one)
        elif now.endswith(before[one.start :]):
            found.append(one._replace(start=one.start + len(now) - len(before)))
    return found


def type_in_terminal(predictor: Predictor) -> str:
    """Let the user type until Ctrl-D; returns the text."""
    screen = Screen(predictor)
    with keys.single_keys() as pressed, Live(screen, console=results, auto_refresh=False, transient=True) as live:
        live.refresh()
        for key in pressed:
            if not screen.press(key):
                break
            live.refresh()
    return screen.text
