"""The simulated typist: how many keystrokes a text takes with suggestions, and what counts as a keystroke.

Knows text, keys, and how suggestions become the words that a user sees; knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rheostat.measure.texts import LINE_END, Text
from rheostat.words.writing import Suggestion

SUGGESTIONS = 3
Suggest = Callable[[str], Sequence[str]]  # words offered for the text before the cursor


class Completes(Protocol):
    """What the typist needs: a `Predictor`, a baseline, or anyone's own. Whole words will do as suggestions."""

    def complete(self, text: str, k: int, /) -> Sequence[Suggestion | str]: ...


@dataclass(frozen=True)
class KeystrokeCount:
    """Keystrokes for a text. typed: with suggestions; needed: without; taken: suggestions that were used.

    at_once: words that were offered before their first letter. fewest: the theoretical limit, if every word that can be
    suggested were taken with its first keystroke; 0 if it was not counted.
    """

    typed: int
    needed: int
    words: int = 0
    taken: int = 0
    at_once: int = 0
    fewest: int = 0

    @property
    def limit_share(self) -> float | None:
        """The largest share that any suggestions could save; None if it was not counted."""
        return 1 - self.fewest / self.needed if self.fewest and self.needed else None

    @property
    def saved_share(self) -> float:
        return 1 - self.typed / self.needed if self.needed else 0.0

    def saved_per_joule(self, query_mj: float) -> float:
        """Keystrokes saved per joule above idle. A word costs one query; its letters need no further query."""
        return (self.needed - self.typed) / (self.words * query_mj / 1e3)

    def as_json(self) -> dict[str, Any]:
        counts = {"keystrokes_typed": self.typed, "keystrokes_needed": self.needed}
        found = {**counts, "keystrokes_saved_share": self.saved_share, "words": self.words, "taken": self.taken}
        return found | ({"keystrokes_fewest": self.fewest} if self.fewest else {})


def simulate(words: Iterable[str], suggest: Suggest) -> KeystrokeCount:
    """Type a text letter by letter, accepting the wanted word as soon as it is suggested.

    words: the text between spaces, with its punctuation; LINE_END for a line end.

    Without suggestions every character is a keystroke, including a line end and the space between two words; capitals
    need no extra key, and no space is typed before a line end. With suggestions the user looks before each letter of a
    word, including the first: if the wanted word is offered, one keystroke accepts it and also types the space.
    Punctuation around a word is typed normally, and the space of a suggestion moves after it. Pieces without a letter,
    special tokens such as `<unk>`, and words that are never offered are typed in full. Capitals and the kind of
    apostrophe do not matter: keyboards correct them.
    """
    text, typed, needed, count, taken, at_once, fewest = "", 0, 0, 0, 0, 0, 0
    accepts, can_accept = False, False  # whether the last word was a suggestion, and whether it could have been
    for word in words:
        if word == LINE_END:
            if text.endswith(" "):  # a space is not typed here, but a suggestion that was taken cost its key
                typed, needed, fewest = typed - (not accepts), needed - 1, fewest - (not can_accept)
            text, typed, needed, fewest = text.rstrip(" ") + LINE_END, typed + 1, needed + 1, fewest + 1
            continue
        before, wanted, after = signs_and_word(word)
        letters = _letters_typed(text + before, wanted, suggest)
        accepts, can_accept = letters < len(wanted), bool(wanted)
        typed += len(before) + letters + len(after) + 1
        needed += len(word) + 1
        fewest += len(before) + len(after) + 1
        count, taken = count + 1, taken + accepts
        at_once += letters == 0 and can_accept
        text += word + " "
    return KeystrokeCount(typed, needed, count, taken, at_once, fewest)


def simulate_plain(words: Sequence[str], suggest: Suggest) -> KeystrokeCount:
    """Type one line of words in lower case without punctuation, with nothing before it.

    The protocol of owenpkent/alpha-osk (NGRAM_SEEDS.md): the typist looks before each letter and takes the word for one
    key if it is offered; otherwise a word costs its letters and a space.
    """
    text, typed, needed, taken, at_once = "", 0, 0, 0, 0
    for word in words:
        letters = _letters_typed(text, word, suggest)
        typed, needed = typed + letters + 1, needed + len(word) + 1
        taken, at_once = taken + (letters < len(word)), at_once + (letters == 0)
        text += word + " "
    return KeystrokeCount(typed, needed, len(words), taken, at_once, fewest=len(words))


def _letters_typed(text: str, wanted: str, suggest: Suggest) -> int:
    """The number of letters typed before the word is offered; all of them if it never is."""
    for letters in range(len(wanted)):
        if as_plain(wanted) in map(as_plain, suggest(text + wanted[:letters])):
            return letters
    return len(wanted)


def signs_and_word(word: str) -> tuple[str, str, str]:
    """Punctuation before, the part that can be suggested, punctuation after; without a letter, all is punctuation."""
    is_special = word.startswith("<") and word.endswith(">")
    if is_special or not any(map(str.isalpha, word)):
        return word, "", ""
    places = [place for place, character in enumerate(word) if character.isalnum()]
    return word[: places[0]], word[places[0] : places[-1] + 1], word[places[-1] + 1 :]


def as_plain(word: str) -> str:
    """A word as it is compared with the wanted one: without capitals, with plain apostrophes."""
    return word.casefold().replace("’", "'")


# With a predictor


def keystroke_savings(
    predictor: Completes,
    text: Text,
    words: int,
    progress: Callable[[float], None] = lambda share: None,
) -> KeystrokeCount:
    """Type the first words of a text with a keyboard's suggestions. progress: share done.

    The predictor does not learn from the words.
    """
    typed = first_words(text.typed_words(), words)
    return simulate(_with_progress(typed, progress), lambda so_far: offered(predictor, so_far))


def offered(predictor: Completes, text: str, k: int = SUGGESTIONS) -> list[str]:
    """The word before the cursor after taking each suggestion: "role-playing" if "role-p" is typed."""
    suggestions = predictor.complete(text, k)
    return [one if isinstance(one, str) else last_word(one.insert_into(text)) for one in suggestions]


def last_word(text: str) -> str:
    """The last piece of a text, without the signs before it."""
    word = text.split()[-1]
    opening = next((place for place, character in enumerate(word) if character.isalnum()), 0)
    return word[opening:]


def first_words(words: Iterable[str], count: int) -> list[str]:
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
