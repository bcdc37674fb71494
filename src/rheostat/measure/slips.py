"""Typing with slips, simulated: keystrokes saved, words right after automatic correction, and the time it costs.

Knows fingers, keys and words; `keystrokes` defines what counts as a keystroke. Everything random has a seed.
Slips are drawn from rates and spreads that are stated here, not from people: the figures compare settings, and say
little about any one typist.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from rheostat.measure.keystrokes import KeystrokeCount, as_plain, last_word, signs_and_word
from rheostat.measure.texts import LINE_END
from rheostat.words.slips import KeyLayout
from rheostat.words.writing import Suggestion

SLIPPED_LETTER = 1  # the second letter
SEED = 1
TIMED_UNITS = 60
LEAST_LETTERS = 4  # of a word that is typed wrong
TAP_SPREAD = 0.2525  # keys: puts 6.9 % of the taps on another key of QWERTY (a test counts them)
SlipKind = Literal["neighbour", "missed", "doubled", "swapped", "extra", "apostrophe", "space"]
# How often each kind happens, in 1,000 words that it can happen to; for the typist that makes all kinds of slips.
RATES: dict[SlipKind, int] = {
    "neighbour": 40,
    "missed": 15,
    "doubled": 5,
    "swapped": 10,
    "extra": 10,
    "apostrophe": 200,
    "space": 10,
}


class Corrects(Protocol):
    """What a keyboard with slips needs: a `Predictor`."""

    def complete(self, text: str, k: int = 3) -> Sequence[Suggestion]: ...

    def correct(self, text: str, k: int = 3, *, taps: Any = None) -> Sequence[Suggestion]: ...


# --- fingers -----------------------------------------------------------------------------------------------


def slip_to_neighbour(word: str, layout: KeyLayout, chance: random.Random) -> str:
    """The word with a neighbouring key hit for its second letter; short words, and those with other signs, stay."""
    near = layout.neighbours(word[SLIPPED_LETTER].lower()) if len(word) >= LEAST_LETTERS else []
    if not near or not word.replace("'", "").replace("’", "").isalpha():
        return word
    return word[:SLIPPED_LETTER] + chance.choice(near) + word[SLIPPED_LETTER + 1 :]


def slip_at_random(word: str, layout: KeyLayout, chance: random.Random) -> tuple[str, SlipKind | None]:
    """A word with at most one slip of any kind but a missed space, at the rates above."""
    for kind, rate in RATES.items():
        if chance.randrange(1000) < rate and (slipped := _slip(word, kind, layout, chance)) not in (None, word):
            assert slipped is not None
            return slipped, kind
    return word, None


def _slip(word: str, kind: SlipKind, layout: KeyLayout, chance: random.Random) -> str | None:
    letters = [place for place, letter in enumerate(word) if layout.centre(letter.lower())]
    if kind == "apostrophe":
        return word.replace("'", "").replace("’", "")
    if len(letters) < 2 or kind == "space":
        return None
    place = chance.choice(letters)
    if kind == "neighbour":
        return word[:place] + chance.choice(layout.neighbours(word[place].lower())) + word[place + 1 :]
    if kind == "missed":
        return word[:place] + word[place + 1 :]
    if kind == "doubled":
        return word[: place + 1] + word[place] + word[place + 1 :]
    if kind == "extra":
        return word[:place] + chance.choice(layout.keys)[0] + word[place:]
    return word[:place] + word[place + 1 : place + 2] + word[place] + word[place + 2 :]


def tap_word(
    word: str, layout: KeyLayout, spread: float, chance: random.Random
) -> tuple[str, list[tuple[float, float] | None]]:
    """A word by taps around the centre of each key: the letters that were hit, and where. Other signs never slip."""
    hit, taps = "", list[tuple[float, float] | None]()
    for letter in word:
        centre = layout.centre(letter.lower())
        if centre is None:
            hit, taps = hit + letter, [*taps, None]
            continue
        place = chance.gauss(centre[0], spread), chance.gauss(centre[1], spread)
        key = layout.nearest(*place)
        hit, taps = hit + (key.upper() if letter.isupper() else key), [*taps, place]
    return hit, taps


# --- keystrokes --------------------------------------------------------------------------------------------


def savings_with_slips(
    predictor: Corrects,
    words: Iterable[str],
    slots: int,
    slip: Callable[[str], str],
) -> KeystrokeCount:
    """Keystrokes saved by a typist who makes slips and does not notice them.

    words: the text between spaces, with its punctuation; LINE_END for a line end. slip: what is typed for a word.
    As in `keystrokes.simulate`, the wanted word is taken as soon as it is offered, and a word that is never
    offered takes all of its keys. The text before it is always what was meant.
    """
    text, typed, needed, count, taken = "", 0, 0, 0, 0
    for word in words:
        if word == LINE_END:
            text, typed, needed = text.rstrip(" ") + LINE_END, typed + 1, needed + 1
            continue
        before, wanted, after = signs_and_word(word)
        keys = slip(wanted)
        letters = _letters_until_offered(predictor, text + before, wanted, keys, slots)
        typed += len(before) + letters + len(after) + 1
        needed += len(word) + 1
        count, taken = count + 1, taken + (letters < len(keys))
        text += word + " "
    return KeystrokeCount(typed, needed, count, taken)


def _letters_until_offered(predictor: Corrects, text: str, wanted: str, keys: str, slots: int) -> int:
    goal = as_plain(wanted)
    for letters in range(len(keys)):
        typed = text + keys[:letters]
        for suggestion in predictor.complete(typed, slots):
            if as_plain(last_word(suggestion.insert_into(typed))) == goal:
                return letters
    return len(keys)


# --- automatic correction ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class CorrectionCount:
    """The outcome of automatic correction. slipped: typed wrong; right: as they were meant after automatic correction.

    changed: typed right, and changed by the keyboard anyway; changes: which ones, and what to.
    """

    words: int = 0
    slipped: int = 0
    right: int = 0
    changed: int = 0
    changes: tuple[tuple[str, str], ...] = ()

    @property
    def right_share(self) -> float:
        return self.right / self.words if self.words else 0.0

    @property
    def changed_share(self) -> float:
        """Of the words that were typed right."""
        return self.changed / (self.words - self.slipped) if self.words > self.slipped else 0.0


Hit = Callable[[str], tuple[str, Any]]  # what is typed for a word, and its taps or None


def count_corrections(predictor: Corrects, words: Iterable[str], hit: Hit) -> CorrectionCount:
    """Type words one after another; the keyboard corrects a finished word automatically if it is sure enough.

    The text before a word is what stands on the screen, mistakes included. Pieces without a letter are left out.
    """
    text, count, slipped, right = "", 0, 0, 0
    changes: list[tuple[str, str]] = []
    for word in words:
        if word == LINE_END:
            text = text.rstrip(" ") + LINE_END
            continue
        before, wanted, after = signs_and_word(word)
        if not wanted:
            text += word + " "
            continue
        keys, taps = hit(wanted)
        typed = text + before + keys
        shown = keys
        if best := first_correction(predictor, typed, keys, taps):
            shown = best.insert_into(typed)[len(text + before) :]
        is_right, was_right = as_plain(shown) == as_plain(wanted), as_plain(keys) == as_plain(wanted)
        count, slipped, right = count + 1, slipped + (not was_right), right + is_right
        if was_right and not is_right:
            changes.append((keys, shown))
        text += before + shown + after + " "
    return CorrectionCount(count, slipped, right, len(changes), tuple(changes))


def first_correction(predictor: Corrects, typed: str, keys: str, taps: Any) -> Suggestion | None:
    """The correction that the keyboard makes automatically, if any."""
    if taps is not None:  # of "role-playing", only the letters after the dash are the word being typed
        taps = taps[len(taps) - _typed_length(keys) :]
    best = predictor.correct(typed, 1, taps=taps)
    return best[0] if best and best[0].advice == "correct" else None


def _typed_length(keys: str) -> int:
    length = 0
    for letter in reversed(keys):
        if not (letter.isalnum() or letter in "'’"):
            break
        length += 1
    return length


# --- time --------------------------------------------------------------------------------------------------


def time_ratios(more: Corrects, without: Corrects, texts: Sequence[str], rounds: int = 3) -> dict[str, float]:
    """Ratios of the p50 and p95 times of `complete`: a predictor that does more, over one without that.

    Interleaved. Each text counts with its fastest time of all rounds.
    """
    fastest = np.full((2, len(texts)), np.inf)
    for _ in range(rounds):
        for number, text in enumerate(texts):
            for which, predictor in enumerate((more, without)):
                start = time.perf_counter()
                predictor.complete(text, 3)
                fastest[which, number] = min(fastest[which, number], time.perf_counter() - start)
    found = 1e3 * np.percentile(fastest, [50, 95], axis=1)
    return {
        "queries": len(texts),
        "with_p50_ms": float(found[0, 0]),
        "without_p50_ms": float(found[0, 1]),
        "with_p95_ms": float(found[1, 0]),
        "without_p95_ms": float(found[1, 1]),
        "p50_ratio": float(found[0, 0] / found[0, 1]),
        "p95_ratio": float(found[1, 0] / found[1, 1]),
    }


# --- all of it ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SlipFigures:
    """All figures of one predictor on one text; see `results.SlipRow`."""

    clean: KeystrokeCount
    slipped: KeystrokeCount
    as_typed: KeystrokeCount
    taps: CorrectionCount
    untouched: CorrectionCount
    ratios: dict[str, float]


def measure_slips(
    predictor: Corrects, without: Corrects, units: Sequence[Sequence[str]], slots: int, layout: KeyLayout
) -> SlipFigures:
    """Type every unit (a line of plain words) alone, with slips. without: the same model with `slips=False`."""

    def save(of: Corrects, slip: Callable[[str], str]) -> KeystrokeCount:
        counts = [savings_with_slips(of, unit, slots, slip) for unit in units]
        return KeystrokeCount(
            *(sum(getattr(one, name) for one in counts) for name in ("typed", "needed", "words", "taken"))
        )

    def correct(hit: Hit) -> CorrectionCount:
        counts = [count_corrections(predictor, unit, hit) for unit in units]
        changes = tuple(change for one in counts for change in one.changes)
        sums = {name: sum(getattr(one, name) for one in counts) for name in ("words", "slipped", "right", "changed")}
        return CorrectionCount(**sums, changes=changes)

    def slipping() -> Callable[[str], str]:
        chance = random.Random(SEED)
        return lambda word: slip_to_neighbour(word, layout, chance)

    fingers = random.Random(SEED)
    return SlipFigures(
        clean=save(predictor, lambda word: word),
        slipped=save(predictor, slipping()),
        as_typed=save(without, slipping()),
        taps=correct(lambda word: tap_word(word, layout, TAP_SPREAD, fingers)),
        untouched=correct(lambda word: (word, None)),
        ratios=time_ratios(predictor, without, texts_while_typing(units)),
    )


def texts_while_typing(units: Sequence[Sequence[str]]) -> list[str]:
    """Every text that is asked about while the first units are typed, letter by letter."""
    lines = (" ".join(unit) + " " for unit in units[:TIMED_UNITS])
    return [line[:end] for line in lines for end in range(len(line))]
