"""Reading a text at one operating point: only what is new since an earlier text is computed.

A text that begins like that of the last query is read from where that one was read to. Any other text is looked up in
the history of the point, so the longest known beginning is not read again.
Knows texts, states and their history; what may follow a text is handled by `suggesting`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rheostat.runtime.engine import Reading
from rheostat.runtime.history import KnownPrefix, Node
from rheostat.runtime.points import Place, Serving
from rheostat.text.vocabulary import Vocabulary
from rheostat.words.completion import BestWords
from rheostat.words.passage import Growth, context_words, read_on, read_words

REMEMBERED = 8  # last words of a text read in one pass whose states are kept, so deleting them costs nothing


class Reader:
    """Reads texts for one model, at any of its points. It never changes.

    context: how many words back a text is read.
    """

    def __init__(self, vocabulary: Vocabulary, tokenizer: str, context: int) -> None:
        self._vocabulary, self._tokenizer, self._context = vocabulary, tokenizer, context

    def words(self, text: str) -> list[str]:
        """The words of a text that the model reads."""
        return context_words(text, self._tokenizer, self._context)

    def words_before(self, text: str, end: int, letter: str) -> list[str]:
        """The words before `end`. letter: the one after them (see `passage.read_words`)."""
        return read_words(text, end, letter, self._tokenizer, self._context)

    def read(
        self, serving: Serving, text: str, end: int, letter: str, k: int, mask: NDArray[np.bool_] | None
    ) -> tuple[Reading, BestWords | None]:
        """What is known after the words before `end`; with a mask, the k best words too if they were found on the way.

        A text that begins like that of the last query is read from where that one was read to.
        """
        place, history, vocabulary = serving.place, serving.history, self._vocabulary
        growth = read_on(place.passage if place else None, text, end, letter, self._tokenizer, self._context)
        after = place.node if place and growth.follows else None
        ids = vocabulary.encode(growth.words) if after or growth.words else [vocabulary.end_id]
        found = history.longest(ids, after)
        if after is not None and found.state is None:  # its states were dropped
            serving.place = None
            return self.read(serving, text, end, letter, k, mask)
        best, reading, node = None, found.state, found.node
        if reading is None or found.length < len(ids):
            reading, node, best = _read_ids(serving, ids, found, after, k, mask)
        if not (growth.follows and growth.passage is (place and place.passage)):
            serving.place = _place(growth, node, len(ids))
        return reading, best

    def read_words(self, serving: Serving, words: Sequence[str]) -> Reading:
        """What is known after these words of the model."""
        ids = self._vocabulary.encode(words) or [self._vocabulary.end_id]
        found = serving.history.longest(ids)
        if found.state is not None and found.length == len(ids):
            return found.state
        reading, _, _ = _read_ids(serving, ids, found, None, 0, None)
        return reading


def _place(growth: Growth, node: Node[Reading] | None, length: int) -> Place | None:
    """Where to read on. node: of all `length` words."""
    for _ in range(length - growth.passed):
        node = node and node.before
    return Place(growth.passage, node) if growth.passage and node else None


def _read_ids(
    serving: Serving,
    ids: list[int],
    found: KnownPrefix[Reading],
    after: Node[Reading] | None,
    k: int,
    mask: NDArray[np.bool_] | None,
) -> tuple[Reading, Node[Reading] | None, BestWords | None]:
    """Read the new part of a text: its last words one by one, to remember their states, and the rest in one pass.

    Gives the reading, its node if it was kept, and with a mask the k best words.
    """
    engine, history = serving.engine, serving.history
    known, reading, node = found
    state = engine.start() if reading is None else engine.after(reading)
    stepped = max(known, len(ids) - REMEMBERED)
    if stepped > known:
        state, node = engine.replay(state, ids[known:stepped]), None
    best = None
    for place in range(stepped, len(ids)):
        if mask is not None and place == len(ids) - 1:
            reading, best = engine.query(state, ids[place], k, mask)
        else:
            reading = engine.read(state, ids[place])
        state = engine.after(reading)
        size = reading.size_bytes
        if node is not None:
            node = history.put([ids[place]], reading, size, node)
        else:
            node = history.put(ids[: place + 1], reading, size, after)
    assert reading is not None  # there was something new
    return reading, node, best
