"""Keystroke savings of a model at its current point: the typing simulator with a real predictor.

Knows how suggestions become the words that a user sees; `typing_simulator` defines what counts as a keystroke.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from rheostat.measure.texts import LINE_END, Text
from rheostat.measure.typing_simulator import KeystrokeCount, simulate
from rheostat.words.writing import Suggestion

SUGGESTIONS = 3


class Completes(Protocol):
    """What a keyboard needs: a `Predictor`, or a baseline instead of one."""

    def complete(self, text: str, k: int = 3) -> Sequence[Suggestion]: ...


def keystroke_savings(
    predictor: Completes,
    text: Text,
    words: int,
    progress: Callable[[float], None] = lambda share: None,
) -> KeystrokeCount:
    """Type the first words of a text with a keyboard's suggestions. progress: share done.

    The predictor does not learn from the words.
    """
    typed = _first(text.typed_words(), words)
    return simulate(_with_progress(typed, progress), lambda so_far: offered(predictor, so_far))


def offered(predictor: Completes, text: str) -> list[str]:
    """The word before the cursor after taking each suggestion: "role-playing" if "role-p" is typed."""
    return [_last_word(suggestion.insert_into(text)) for suggestion in predictor.complete(text, SUGGESTIONS)]


def _last_word(text: str) -> str:
    word = text.split()[-1]
    opening = next((place for place, character in enumerate(word) if character.isalnum()), 0)
    return word[opening:]


def _first(words: list[str], count: int) -> list[str]:
    """The first words, with the line ends between them."""
    chosen: list[str] = []
    for word in words:
        count -= word != LINE_END
        if count < 0:
            break
        chosen.append(word)
    return chosen


def _with_progress(words: list[str], progress: Callable[[float], None]) -> Iterator[str]:
    for number, word in enumerate(words):
        progress(number / len(words))
        yield word
    progress(1.0)
