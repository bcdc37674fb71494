"""Which words explain what was typed: the core's word tree on the words that a model may suggest, for any engine.

Knows engines, readings and keys; `words.slips` owns the prices, `core.word_tree` the search.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rheostat.arguments import is_number, shown
from rheostat.core.word_tree import MAX_TYPED, Channel, TypedWord, WordTree
from rheostat.errors import RheostatError
from rheostat.runtime.engine import CoreEngine, CoreReading, Engine, Reading
from rheostat.runtime.remembering import Mixed
from rheostat.words.completion import Completion
from rheostat.words.slips import PRICES, Prices, find_key_layout

Taps = Sequence[tuple[float, float] | None]  # where the finger came down for each letter; None where that is not known


class Explainer:
    """The words that explain what was typed after a text. Safe to use from several threads."""

    def __init__(self, completion: Completion, vocabulary_size: int) -> None:
        self._completion, self._size = completion, vocabulary_size
        self._lock = threading.Lock()
        self._tree: WordTree | None = None

    def tree(self) -> WordTree | None:
        """All words that may be suggested; None if there are none. Made when it is first needed."""
        with self._lock:
            if self._tree is None:
                forms, ids = self._completion.whole_words()
                if not len(forms):
                    return None
                self._tree = WordTree(forms, ids, self._size)
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


@lru_cache(16)
def find_channel(layout: str, prices: Prices = PRICES) -> Channel:
    """The keys of a layout with the prices of slips."""
    return Channel(find_key_layout(layout).keys, prices.of_letters())


def can_explain(form: str) -> bool:
    """Whether slips are looked for in these letters."""
    return len(form) > 0 and len(form.encode()) <= MAX_TYPED and any(map(str.isalpha, form))


def check_taps(taps: Any, letters: str) -> NDArray[np.float32] | None:
    """Taps as the core reads them, [letters, 2]; None if there are none."""
    if taps is None:
        return None
    expected = f"expected one (x, y) or None per letter of the word being typed, {len(letters)} in all"
    if isinstance(taps, str | bytes) or not hasattr(taps, "__len__"):
        raise RheostatError(f"taps is {shown(taps)}; {expected}")
    if len(taps) != len(letters):
        raise RheostatError(f"there are {len(taps)} taps for {letters!r:.40}; {expected}")
    places = np.full((len(letters), 2), np.nan, np.float32)
    for number, tap in enumerate(taps):
        if tap is None:
            continue
        if isinstance(tap, str) or not hasattr(tap, "__len__") or len(tap) != 2 or not all(map(is_number, tap)):
            raise RheostatError(f"tap {number + 1} is {shown(tap)}; {expected}")
        places[number] = tap
    return places if all(ord(letter) <= 0xFF for letter in letters) else None
