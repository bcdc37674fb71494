"""Slips: where keys are, what each kind of slip costs, and which words may have been meant.

A word is ranked by p(word | context) · p(typed | word). The second factor has one price per slip; a letter typed right
is free. `core/typing.c` finds the words; this module owns the prices and turns the words into suggestions.
Knows keys, prices and words; knows nothing about models.

The prices of letters are tuned on simulated typing of the development text alone. docs/slips.md says how the others
were chosen.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

from rheostat.errors import RheostatError
from rheostat.text.tokenizers import NEGATED
from rheostat.words.writing import (
    APOSTROPHES,
    BETWEEN_SENTENCES,
    Kind,
    Suggestion,
    Typed,
    as_first_person,
    matching_form,
    present,
)

# English endings, each with the words that take it as they are: "boys" but not "trys", "seeing" but not "haveing". The
# patterns are for JavaScript too.
ENDINGS = {
    "s": "(?:[^sxzy]|[aeiou]y)$(?<!ch)(?<!sh)",
    "es": "(?:[sxzo]|ch|sh)$",
    "'s": "$",
    "ed": "(?:[^ey]|[aeiou]y)$",
    "d": "e$",
    "ing": "(?:[^e]|[eoy]e|^.e)$",
    "er": "(?:[^ey]|[aeiou]y|^[^aeiou]+y)$",
    "r": "e$",
    "ly": "$(?<![^aeiou]y)(?<![^aeiou]le)(?<!ll)(?<!ue)(?<![^l]ic)",
    "y": "[^aeiouy]$",
}
DOUBLING = ("ed", "ing", "er", "y")  # before these, a word may double its last letter
DOUBLED = "^(?:[^aeiou]*qu|[^aeiou]*)[aeiou][^aeiouwxy]$"  # it does so if it is short: "running"
SOMETIMES_DOUBLED = "[^aeiou][aeiou][^aeiouwxyl]$"  # a longer one if it is stressed there: "occurred", but "visited"


@dataclass(frozen=True)
class Prices:
    """What each kind of slip costs: -log p, in nats. The first ten are those of `rheo_prices` in rheostat.h."""

    neighbour: float = 5.0  # the key at a distance of one
    distance: float = 3.0  # more for each squared key width beyond that
    far: float = 12.0  # any other key
    missed: float = 6.0  # a letter that was not typed
    missed_double: float = 6.0  # the second one of a double letter
    missed_apostrophe: float = 3.5
    extra: float = 9.0  # a letter too many
    doubled: float = 5.0  # the same letter typed again
    swapped: float = 5.0  # two letters the wrong way round
    spread: float = 0.2525  # of taps around the centre of a key: a standard deviation in keys
    missed_space: float = 7.5  # between two words
    space_as_letter: float = 7.0  # a key above the space bar hit instead of it
    real_word: float = 1.0  # a finished word that the model knows but that was not meant
    new_letter: float = 2.5  # per letter of a word that the model does not know
    new_ending: float = 6.0  # of one that is a word of the model with an ending
    known_word: float = 8.0  # of one that the model file has among its known words

    def of_new_word(self, form: str, vocabulary: Container[str], known: Container[str] = ()) -> float:
        """What a word costs that is not in the vocabulary: "cereals" less than its letters, since "cereal" is there.

        known: the known words of the model file, which are correct.
        """
        prices = [self.new_letter * len(form)]
        prices += [self.new_ending] if is_inflected(form, vocabulary) else []
        prices += [self.known_word] if form in known else []
        return min(prices)

    def of_letters(self) -> dict[str, float]:
        """The prices that the core reads."""
        ours = ("missed_space", "space_as_letter", "real_word", "new_letter", "new_ending", "known_word")
        return {name: price for name, price in asdict(self).items() if name not in ours}


PRICES = Prices()


def is_inflected(form: str, vocabulary: Container[str]) -> bool:
    """Whether this is a word of the vocabulary with an ending, as English spells it."""
    split = ((form[: -len(ending)], ending) for ending in ENDINGS if form.endswith(ending))
    return any(word in vocabulary and _takes(word, ending, vocabulary) for word, ending in split)


def _takes(word: str, ending: str, vocabulary: Container[str]) -> bool:
    """Whether a word takes an ending as it is, without a change of its last letters."""
    if not re.search(ENDINGS[ending], word) or (ending == "y" and word + "ly" in vocabulary):  # "actualy"
        return False
    if ending not in DOUBLING:
        return True
    doubled = word + word[-1] + ending
    return not re.search(DOUBLED, word) and not (re.search(SOMETIMES_DOUBLED, word) and doubled in vocabulary)


CAN_BE_NEGATED = NEGATED | {"am", "can", "will"}
NEGATIONS = frozenset(["neither", "never", "none", "nor"])  # without the n, the opposite
HYPHENS = "-‐–—"


# --- keys --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KeyLayout:
    """Where the letters of a keyboard are. keys: letter, x in key widths, y in key heights, of each key's centre."""

    name: str
    keys: tuple[tuple[str, float, float], ...]
    above_space: str

    def nearest(self, x: float, y: float) -> str:
        """The letter of the key at a place."""
        return min(self.keys, key=lambda key: (key[1] - x) ** 2 + (key[2] - y) ** 2)[0]

    def centre(self, letter: str) -> tuple[float, float] | None:
        """Where a letter's key is; None if it has none."""
        return self._centres.get(letter)

    @cached_property
    def _centres(self) -> Mapping[str, tuple[float, float]]:
        return {letter: (x, y) for letter, x, y in self.keys}

    def neighbours(self, letter: str) -> list[str]:
        """The letters of the keys next to a letter's key, nearest first."""
        centre = self.centre(letter)
        if centre is None:
            return []
        distances = [(math.dist(centre, (x, y)), own) for own, x, y in self.keys if own != letter]
        return [own for distance, own in sorted(distances) if distance < NEXT_TO]


NEXT_TO = 1.2  # keys: the distance up to which two keys touch


@cache
def read_key_layouts() -> Mapping[str, KeyLayout]:
    """The keyboards of `key_layouts.json`, by name. A space in a row is a gap; the number is where the row begins."""
    text = Path(__file__).with_name("key_layouts.json").read_text(encoding="utf-8")
    return {name: _key_layout(name, described) for name, described in json.loads(text).items()}


def _key_layout(name: str, described: Mapping[str, Any]) -> KeyLayout:
    keys = tuple(
        (letter, start + place, float(row))
        for row, (letters, start) in enumerate(described["rows"])
        for place, letter in enumerate(letters)
        if letter != " "
    )
    return KeyLayout(name, keys, described["above_space"])


def find_key_layout(name: str) -> KeyLayout:
    """A keyboard by its name."""
    layouts = read_key_layouts()
    if not isinstance(name, str) or name not in layouts:
        raise RheostatError(f"the layout is {name!r:.40}; expected one of {', '.join(layouts)}")
    return layouts[name]


# --- words -------------------------------------------------------------------------------------------------


class Meant(NamedTuple):
    """A word that may have been meant. p: of the word and of what was typed; is_slip: it was typed otherwise."""

    word: str
    p: float
    is_slip: bool


class Halves(NamedTuple):
    """Two words that were typed as one: the first, what follows it, and what that costs."""

    first: str
    second: str
    price: float


def find_halves(form: str, layout: KeyLayout, prices: Prices = PRICES) -> Iterator[Halves]:
    """How a typed word could be two: the space between them was missed, or hit as the key above it."""
    for place in range(1, len(form)):
        if place > 1 or form[0] in "ai":
            yield Halves(form[:place], form[place:], prices.missed_space)
            if form[place] in layout.above_space and place + 1 < len(form):
                yield Halves(form[:place], form[place + 1 :], prices.space_as_letter)


def stands_alone(before: str) -> bool:
    """Whether a word after this text is a word of its own, or the last part of one with hyphens.

    Quotes and brackets may open it. After any other sign it is part of an address, a tag or the like.
    """
    run = before.split()[-1] if before and not before[-1].isspace() else ""
    inside = run.lstrip("".join(BETWEEN_SENTENCES))
    return all(character.isalpha() or character in HYPHENS + APOSTROPHES for character in inside)


def drops_negation(typed: str, words: str) -> bool:
    """Whether two words lack a negation that was typed: "donttell" is not "do tell" with the space hit as n."""
    first, _, second = words.partition(" ")
    if f"n{second}" in NEGATIONS and typed.endswith(f"n{second}"):
        return True
    lengths = [len(stem) for stem in (first, first[:-1]) if second and stem in CAN_BE_NEGATED]  # "ca" of "can"
    shown = (first + second).replace("'", "")
    return any(
        typed.startswith(ending, length) and not shown.startswith(ending, length)
        for length in lengths
        for ending in ("nt", "not")
    )


def may_be_corrected(prefix: str, shown: str, *, starts_sentence: bool) -> bool:
    """Whether a finished word may be corrected automatically to `shown`: letters only, and capitals as they were typed.

    Someone who typed a capital inside a sentence meant a name, so only another word with that capital will do; words in
    capitals are left alone. So are ways of writing: "goin" for "going", "b" for "be".
    """
    letters = prefix.replace("'", "").replace("’", "")
    if not letters.isalpha() or letters[1:] != letters[1:].lower():
        return False
    typed = letters.lower()
    if drops_negation(typed, shown.lower()):
        return False
    if (typed.endswith("in") and shown.lower() == typed + "g") or len(typed) == 1 < len(shown):
        return False
    return starts_sentence or letters[0].islower() or shown[:1].isupper()


def compose_meant(
    found: Sequence[Meant],
    literal: Meant | None,
    typed: Typed,
    casing: Mapping[str, str],
    k: int,
    *,
    tokenizer: str,
    finished: bool = False,
    before: str = "",
    own: Sequence[Suggestion] = (),
) -> list[Suggestion]:
    """The k best words as suggestions, with what was typed among them. literal: what was typed, if not in `found`.

    before: the end of the text before a finished word. own: words of the user that begin with what was typed.
    """
    form, prefix = matching_form(typed.prefix), typed.prefix
    capitals = prefix != form or typed.starts_sentence
    total = sum([one.p for one in found]) + (literal.p if literal else 0.0) or 1.0
    if finished:
        found = [one for one in found if not one.is_slip or _may_become(one.word, typed, casing, before)]
    shown: dict[str, list[Any]] = {}  # the word as it is shown: p, kind
    for one in found:
        kind: Kind = "correction" if one.is_slip else "typed" if matching_form(one.word) == form else "completion"
        if capitals or "'" in one.word:
            word = _with_capitals(one, prefix, casing, tokenizer, typed.starts_sentence)
        else:
            word = casing.get(one.word) or as_first_person(one.word)
        same = shown.setdefault(word, [0.0, kind])
        same[0] += one.p
    new = {one.word for one in own if one.word not in shown} if own else ()
    for word, p, *_ in own:
        total += p
        is_typed = matching_form(word) == form
        same = shown.setdefault(word, [0.0, "typed" if is_typed else "completion"])
        same[0] += p
        if is_typed and literal is not None and prefix == form:  # "rheostat" is "Rheostat", as it was taught
            same[0], literal = same[0] + literal.p, None
    if literal is not None:
        shown.setdefault(prefix, [0.0, "typed"])[0] += literal.p
    best = sorted(shown.items(), key=lambda pair: -pair[1][0])
    if finished and k > 1 and (kept := next((pair for pair in best[k:] if pair[1][1] == "typed"), None)):
        best[k - 1] = kept  # what was typed always has a place
    best = best[:k]
    return [
        Suggestion(word, p, "user" if word in new else "model", len(prefix), kind, min(1.0, p / total), finished)
        for word, (p, kind) in best
    ]


def _may_become(word: str, typed: Typed, casing: Mapping[str, str], before: str) -> bool:
    shown = casing.get(word) or as_first_person(word)
    return stands_alone(before) and may_be_corrected(typed.prefix, shown, starts_sentence=typed.starts_sentence)


def _with_capitals(one: Meant, prefix: str, casing: Mapping[str, str], tokenizer: str, starts_sentence: bool) -> str:
    """A word with the capitals that were typed; of a corrected one, only a first capital or all capitals count."""
    if one.is_slip and prefix != prefix.lower():
        is_loud = len(prefix) > 1 and prefix == prefix.upper()
        word = present(one.word, casing, tokenizer=tokenizer, at_sentence_start=starts_sentence)
        shown = word.upper() if is_loud else word[:1].upper() + word[1:] if prefix[:1].isupper() else word
    else:
        given = "" if one.is_slip else prefix
        shown = present(one.word, casing, tokenizer=tokenizer, at_sentence_start=starts_sentence, prefix=given)
    return shown.replace("'", "’") if "’" in prefix else shown
