"""Typing in the terminal, with live suggestions, the knob and the time of a query."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from rich.console import Group
from rich.live import Live
from rich.text import Text

from rheostat.cli import keys
from rheostat.cli.console import results
from rheostat.errors import OperatingPointError
from rheostat.runtime.predictor import Predictor
from rheostat.words.writing import Suggestion

KNOB_STEP = 0.05
HELP = "Tab takes the marked word, ← → mark another, ↑ ↓ turn the knob, Ctrl-D ends"


@dataclass
class Screen:
    """The typed text and its suggestions."""

    predictor: Predictor
    text: str = ""
    marked: int = 0
    note: str = ""
    offered: list[Suggestion] = field(default_factory=list)
    query_ms: float = 0.0

    def __post_init__(self) -> None:
        self._ask()

    def press(self, key: str) -> bool:
        """Handle a key; return False to end."""
        self.note = ""
        if key == keys.LEAVE:
            return False
        if key in (keys.LEFT, keys.RIGHT):
            self.marked = (self.marked + (1 if key == keys.RIGHT else -1)) % max(1, len(self.offered))
            return True
        if key in (keys.UP, keys.DOWN):
            self._turn(KNOB_STEP if key == keys.UP else -KNOB_STEP)
        elif key == keys.TAB:
            self._take()
        elif key == keys.BACKSPACE:
            self.text = self.text[:-1]
        else:
            self.text += "\n" if key == keys.ENTER else key
        self.marked = 0
        self._ask()
        return True

    def _ask(self) -> None:
        start = time.perf_counter()
        self.offered = self.predictor.complete(self.text)
        self.query_ms = 1000 * (time.perf_counter() - start)

    def _take(self) -> None:
        if self.offered:
            self.text = self.offered[self.marked].insert_into(self.text) + " "

    def _turn(self, by: float) -> None:
        knob = min(1.0, round(self.predictor.knob + by, 2))
        try:
            self.predictor.turn(knob)
        except OperatingPointError as error:
            self.note = str(error)

    def __rich__(self) -> Group:
        words = Text("  ")
        for place, suggestion in enumerate(self.offered):
            words.append(f" {suggestion.word} ", style="reverse" if place == self.marked else "bold")
            words.append("   ")
        point = self.predictor.point
        figures = (
            f"  knob {self.predictor.knob:.0%}   {point.cost:.1%} of the cost ({point.name})   {self.query_ms:.2f} ms"
        )
        typed = Text(self.text + "▏")
        return Group(words, typed, Text(figures, style="dim"), Text(self.note or f"  {HELP}", style="dim"))


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
