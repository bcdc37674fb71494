"""The typing simulator: how many keystrokes a text takes with suggestions, and what counts as a keystroke.

Knows text and keys; knows nothing of models. `keystrokes` runs it with a real predictor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

LINE_END = "\n"
Suggest = Callable[[str], Sequence[str]]  # words offered for the text before the cursor


@dataclass(frozen=True)
class KeystrokeCount:
    """Keystrokes for a text. typed: with suggestions; needed: without; taken: suggestions that were used."""

    typed: int
    needed: int
    words: int = 0
    taken: int = 0

    @property
    def saved_share(self) -> float:
        return 1 - self.typed / self.needed if self.needed else 0.0

    def saved_per_joule(self, query_mj: float) -> float:
        """Keystrokes saved per joule above idle. A word costs one query; its letters need no further query."""
        return (self.needed - self.typed) / (self.words * query_mj / 1e3)

    def as_json(self) -> dict[str, Any]:
        counts = {"keystrokes_typed": self.typed, "keystrokes_needed": self.needed}
        return {**counts, "keystrokes_saved_share": self.saved_share, "words": self.words, "taken": self.taken}


def simulate(words: Iterable[str], suggest: Suggest) -> KeystrokeCount:
    """Type a text letter by letter, accepting the wanted word as soon as it is suggested.

    words: the text between spaces, with its punctuation; LINE_END for a line end.

    Without suggestions every character is a keystroke, including the space after a word and a line end; capitals need
    no extra key. With suggestions the user looks before each letter of a word, including the first: if the wanted word
    is offered, one keystroke accepts it and also types the space. Punctuation around a word is typed normally, and the
    space of a suggestion moves behind it. Pieces without a letter, special tokens such as `<unk>`, and words
    that are never offered are typed in full. Capitals and the kind of apostrophe do not matter: keyboards correct them.
    """
    text, typed, needed, count, taken = "", 0, 0, 0, 0
    for word in words:
        if word == LINE_END:
            text, typed, needed = text.rstrip(" ") + LINE_END, typed + 1, needed + 1
            continue
        before, wanted, after = _signs_and_word(word)
        letters = _letters_typed(text + before, wanted, suggest)
        typed += len(before) + letters + len(after) + 1
        needed += len(word) + 1
        count, taken = count + 1, taken + (letters < len(wanted))
        text += word + " "
    return KeystrokeCount(typed, needed, count, taken)


def _letters_typed(text: str, wanted: str, suggest: Suggest) -> int:
    """The number of letters typed before the word is offered; all of them if it never is."""
    for letters in range(len(wanted)):
        if _plain(wanted) in map(_plain, suggest(text + wanted[:letters])):
            return letters
    return len(wanted)


def _signs_and_word(word: str) -> tuple[str, str, str]:
    """Punctuation before, the part that can be suggested, punctuation after; without a letter, all is punctuation."""
    is_special = word.startswith("<") and word.endswith(">")
    if is_special or not any(map(str.isalpha, word)):
        return word, "", ""
    places = [place for place, character in enumerate(word) if character.isalnum()]
    return word[: places[0]], word[places[0] : places[-1] + 1], word[places[-1] + 1 :]


def _plain(word: str) -> str:
    return word.casefold().replace("’", "'")
