"""Which words explain what was typed: the core's word tree on the words that a model may suggest, for any engine.

Knows engines, readings and keys; `words.slips` owns the prices, `core.word_tree` the search, `suggesting` the text.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Container, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rheostat.arguments import is_number, shown
from rheostat.core.word_tree import MAX_EXPLAINED, MAX_TYPED, Channel, Explained, TypedWord, WordTree
from rheostat.errors import NotCopyable, RheostatError
from rheostat.runtime.engine import CoreEngine, CoreReading, Engine, Reading
from rheostat.runtime.remembering import Mixed
from rheostat.text.vocabulary import Vocabulary
from rheostat.words.completion import Completion
from rheostat.words.slips import PRICES, Halves, Meant, Prices, compose_meant, find_halves, find_key_layout
from rheostat.words.writing import matching_form

RIVALS = 16  # words that a finished word is compared with at least, so that its confidence means something
SHORTEST_PAIR = 4  # letters of two words that were typed as one
BEST_PAIR = math.exp(-min(PRICES.missed_space, PRICES.space_as_letter))  # no pair is more probable
PAIRS = 4  # pairs of words that are tried; each costs a query
FIRSTS = 2  # words that the first half of a finished pair may be
REACH = 2.0  # keys: a tap that is this far from the key of its letter does not count
FARTHEST = 100.0  # keys: positions beyond this are not in keys

Taps = Sequence[tuple[float, float] | None]  # where the finger came down for each letter; None where that is not known


After = Callable[[str], TypedWord | None]  # the word that is being typed after one more word of the text


class Keys(NamedTuple):
    """The keyboard that was typed on. taps: where the finger came down for each letter, if that is known."""

    layout: str
    channel: Channel
    taps: NDArray[np.float32] | None


class Explainer(NotCopyable):
    """The words that explain what was typed after a text. Safe to use from several threads."""

    compose = staticmethod(compose_meant)  # importing it for every letter would take a microsecond

    def __init__(self, completion: Completion, vocabulary: Vocabulary, known: Container[str] = ()) -> None:
        """known: the known words of the model file."""
        self._completion, self._vocabulary, self._known = completion, vocabulary, known
        self._lock = threading.Lock()
        self._tree: WordTree | None = None

    def tree(self) -> WordTree | None:
        """All words that may be suggested; None if there are none. Made when it is first needed."""
        with self._lock:
            if self._tree is None:
                forms, ids = self._completion.whole_words()
                if not len(forms):
                    return None
                self._tree = WordTree(forms, ids, len(self._vocabulary))
            return self._tree

    def begin(self, engine: Engine, reading: Reading, mixed: Mixed | None = None) -> TypedWord | None:
        """The word that is being typed after a text. mixed: its probabilities, if a memory has a share in them."""
        tree = self._tree or self.tree()
        if tree is None:
            return None
        if mixed is not None:
            return tree.typed(mixed, lambda: mixed.scores)
        if isinstance(reading, CoreReading) and isinstance(engine, CoreEngine):
            return tree.typed(reading, (engine.model, engine.answer(reading)))
        return tree.typed(reading, lambda: engine.log_probabilities(reading))

    def keys(self, layout: str, taps: Taps | None, letters: str) -> Keys:
        """The keys that these letters were typed on; raises RheostatError for others."""
        return Keys(layout, find_channel(layout), None if taps is None else check_taps(taps, letters, layout))

    def can_explain(self, letters: str) -> bool:
        """Whether slips are looked for in these letters."""
        form = matching_form(letters)
        return len(form) > 0 and len(form.encode()) <= MAX_TYPED and any(map(str.isalpha, form))

    def explain(
        self, word: TypedWord, form: str, wanted: int, keys: Keys, after: After, finished: bool, mixed: Mixed | None
    ) -> tuple[list[Meant], Meant | None]:
        """The words that best explain the form of what was typed; and what was typed, if it is not among them.

        mixed: the probabilities with a memory's share, if there is one.
        """
        wanted = min(MAX_EXPLAINED, max(wanted, RIVALS if finished else 0))
        best = word.best(keys.channel, form, wanted, whole=finished, taps=keys.taps)
        names = self._vocabulary.words
        slipped = PRICES.real_word if finished and self._place(form) is not None else 0.0
        has_taps = keys.taps is not None
        found = []
        for place, log_probability, cost in best:
            # A tap nearer to another key makes that key's letter free, but it is not what was typed.
            is_slip = cost > 0.0 or (has_taps and not matching_form(names[place]).startswith(form))
            price = cost + slipped if is_slip else 0.0
            found.append(Meant(names[place], math.exp(log_probability - price), is_slip))
        literal = self._literal(word, form, found, mixed)
        top = max(found[0].p if found else 0.0, literal.p if literal else 0.0)
        if len(form) >= SHORTEST_PAIR and top < BEST_PAIR:
            found += self._pairs(self._likely_pairs(word, form, top, keys, finished), keys, after, finished)
        return found, literal

    def _literal(self, word: TypedWord, form: str, found: list[Meant], mixed: Mixed | None) -> Meant | None:
        """What was typed, unless it is among the words already: a hidden word, or one that the model does not know."""
        for one in found:
            if not one.is_slip and matching_form(one.word) == form:
                return None
        place = self._place(form)
        if place is not None:
            return Meant(form, math.exp(word.log_probability(place)), False)
        unknown = word.log_probability(self._vocabulary.unknown_id)
        index = self._vocabulary.index
        price = PRICES.of_new_word(form, index, () if form in index else self._known)  # no misspelling is known
        remembered = mixed.probability_of_new(form) if mixed else 0.0
        return Meant(form, math.exp(unknown - price) + remembered, False)

    def _place(self, form: str) -> int | None:
        """The id of a word that the model knows; None for a misspelling, which counts as unknown."""
        place = self._vocabulary.index.get(form)
        return None if place in self._completion.misspelt else place

    def _likely_pairs(
        self, word: TypedWord, form: str, top: float, keys: Keys, finished: bool
    ) -> list[tuple[float, Halves]]:
        """Pairs of words without the space between them that could be better than every single word; with a bound."""
        names = self._vocabulary.words
        likely: list[tuple[float, Halves]] = []
        for halves in find_halves(form, find_key_layout(keys.layout)):
            firsts = self._slipped_firsts(word, halves, keys) if finished else self._firsts(word, halves)
            for place, log_probability, cost in firsts:
                bound = log_probability - cost - halves.price
                if math.exp(bound) > top:
                    likely.append((bound, halves._replace(first=names[place])))
        return sorted(likely, key=lambda pair: -pair[0])[:PAIRS]

    def _slipped_firsts(self, word: TypedWord, halves: Halves, keys: Keys) -> list[Explained]:
        """The words that the first half of a finished pair may be. This takes too long for every letter."""
        taps = None if keys.taps is None else keys.taps[: len(halves.first)]
        return word.best(keys.channel, halves.first, FIRSTS, whole=True, taps=taps)

    def _firsts(self, word: TypedWord, halves: Halves) -> Iterator[Explained]:
        """The first half as it was typed, or without its apostrophe."""
        place, apostrophe = self._vocabulary.index.get(halves.first), self._with_apostrophe.get(halves.first)
        if place is not None and self._completion.allowed_mask()[place]:
            yield Explained(place, word.log_probability(place), 0.0)
        if apostrophe is not None:
            yield Explained(apostrophe, word.log_probability(apostrophe), PRICES.missed_apostrophe)

    @cached_property
    def _with_apostrophe(self) -> dict[str, int]:
        """The words with an apostrophe, by their letters without it: "dont" is "don't"."""
        forms, ids = self._completion.whole_words()
        return {form.replace("'", ""): int(place) for form, place in zip(forms, ids, strict=True) if "'" in form}

    def _pairs(self, likely: list[tuple[float, Halves]], keys: Keys, after: After, finished: bool) -> list[Meant]:
        """The best of these pairs, if any."""
        best: Meant | None = None
        for bound, halves in likely:
            second = after(halves.first)
            taps = None if keys.taps is None else keys.taps[-len(halves.second) :]
            for one in second.best(keys.channel, halves.second, 1, whole=finished, taps=taps) if second else ():
                p = math.exp(bound + one.log_probability - one.cost)
                if best is None or p > best.p:
                    best = Meant(f"{halves.first} {self._vocabulary.words[one.word]}", p, True)
        return [best] if best else []


def find_channel(layout: str, prices: Prices = PRICES) -> Channel:
    """The keys of a layout with the prices of slips."""
    return _make_channel(find_key_layout(layout).name, prices)  # an unknown layout is refused before the cache is asked


@lru_cache(16)
def _make_channel(layout: str, prices: Prices) -> Channel:
    return Channel(find_key_layout(layout).keys, prices.of_letters())


def check_taps(taps: Any, letters: str, layout: str) -> NDArray[np.float32] | None:
    """Taps as the core reads them, [letters, 2]; None if there are none.

    One that is far from the key of its letter says nothing: most likely, the layout is another one.
    """
    if taps is None:
        return None
    expected = f"expected one (x, y) or None per letter of the word being typed, {len(letters)} in all"
    if isinstance(taps, str | bytes) or not hasattr(taps, "__len__"):
        raise RheostatError(f"taps is {shown(taps)}; {expected}")
    if len(taps) != len(letters):
        raise RheostatError(f"there are {len(taps)} taps for {letters!r:.40}; {expected}")
    centre_of = find_key_layout(layout).centre
    places = np.full((len(letters), 2), np.nan, np.float32)
    for number, tap in enumerate(taps):
        if tap is None:
            continue
        if isinstance(tap, str) or not hasattr(tap, "__len__") or len(tap) != 2 or not all(map(is_number, tap)):
            raise RheostatError(f"tap {number + 1} is {shown(tap)}; {expected}")
        if max(map(abs, tap)) > FARTHEST:
            raise RheostatError(f"tap {number + 1} is {shown(tap)}; expected x in key widths and y in key heights")
        centre = centre_of(matching_form(letters[number]))
        if centre and math.dist(centre, tap) < REACH:
            places[number] = tap
    return places if _has_keys(letters) else None


def _has_keys(letters: str) -> bool:
    """Whether the core takes each of these as one letter: ASCII, and from "ß" to "ÿ"."""
    form = matching_form(letters)
    is_one = all(letter < "\x80" or "\xdf" <= letter <= "\xff" for letter in form)
    return is_one and len(form) == len(letters) and all(letter <= "\xff" for letter in letters)
