"""A user's memory beside a model: its share of the probabilities, and what of a text was meant.

Knows readings, texts and the memory; `words.memory` owns the counts and the file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rheostat.arguments import check_text
from rheostat.runtime.engine import Engine, Reading
from rheostat.text.vocabulary import Vocabulary
from rheostat.words.memory import NEW_WORD_COUNT, Memory
from rheostat.words.passage import context_words
from rheostat.words.writing import Suggestion, matching_form

SETTLED = 2  # words written after a word until it counts as meant
CLOSING_SIGNS = '.,;:!?…)"”'  # after a word, and not part of it; after an apostrophe, a letter may be missing
LEARN_AT = 0.998  # the confidence that a word is what was meant, from which on a correct word is learned at once
LEARN_AGAIN_AT = 0.99  # the same for any word that was written before


class Mixed:
    """log p of every word after one text, with the memory's share; and the words that only the memory knows."""

    def __init__(
        self, engine: Engine, reading: Reading, vocabulary: Vocabulary, memory: Memory, words: Sequence[str]
    ) -> None:
        self.reading, self.version = reading, memory.version
        self._words = list(words[-2:])
        share = memory.share(self._words)
        scores = engine.log_probabilities(reading).astype(np.float32) + np.float32(math.log(share.of_model))
        places = [vocabulary.index.get(word, -1) for word in share.extra]
        ids, extra = np.array(places, np.int64), np.fromiter(share.extra.values(), np.float64, len(places))
        known = ids >= 0
        scores[ids[known]] = np.logaddexp(scores[ids[known]], np.log(extra[known]))
        self.new: dict[str, float] = {
            word: p
            for (word, p), place in zip(share.extra.items(), places, strict=True)
            if place < 0 and memory.count(word) >= NEW_WORD_COUNT
        }
        self.scores: NDArray[np.float32] = scores

    def is_for(self, reading: Reading, words: Sequence[str], version: int) -> bool:
        """Whether this is the mixture for a text, and nothing was learned since."""
        return self.reading is reading and self.version == version and self._words == list(words[-2:])

    def suggestions(self, prefix: str, k: int) -> list[Suggestion]:
        """The words that only the memory knows."""
        form = matching_form(prefix)
        found = sorted((item for item in self.new.items() if item[0].startswith(form)), key=lambda item: -item[1])
        return [Suggestion(word, p, "user", len(prefix)) for word, p in found[:k]]


Confirm = Callable[[str], float]  # the confidence that the last word of a text is what was meant
IsCorrect = Callable[[str], bool]  # whether a word is correct, as far as that is known


class Watch:
    """One text field: shows the memory what was meant in it. Made by `Predictor.watch`.

    `see` gets the text before the cursor whenever it changes. A word is learned once two more words were begun after
    it, or at once if it was accepted from the suggestions. A word that is changed or deleted afterwards is taken back.
    Words that look like slips are not learned; what could be one is learned when it is written again. `end` says that
    the text was sent: what stands in it was meant.
    """

    def __init__(
        self, memory: Memory | None, tokenizer: str, confirm: Confirm, is_correct: IsCorrect, private: bool
    ) -> None:
        self._memory = None if private else memory
        self._tokenizer, self._confirm, self._is_correct = tokenizer, confirm, is_correct
        # Pieces of the text in order, and the words that were learned of each; None if it looked like a slip.
        self._learned: list[tuple[str, list[str] | None]] = []
        self._accepted: set[int] = set()

    def see(self, text: str, *, accepted: bool = False) -> None:
        """The text before the cursor now. accepted: its last word was taken from the suggestions."""
        check_text("the text", text)
        if self._memory is None:
            return
        pieces = text.split()
        ends_open = bool(text) and not text[-1].isspace()
        whole = len(pieces) - (1 if ends_open and not accepted else 0)
        if accepted and pieces:
            self._accepted.add(len(pieces) - 1)
        self._take_back(pieces)
        settled = len(pieces) - SETTLED
        self._learn(pieces, [place for place in range(whole) if place < settled or place in self._accepted])

    def end(self, text: str) -> list[list[str]]:
        """The text was sent as it is. Returns what was learned of each piece between spaces."""
        check_text("the text", text)
        if self._memory is not None:
            pieces = text.split()
            self._take_back(pieces)
            self._learn(pieces, list(range(len(pieces))))
        learned, self._learned, self._accepted = self._learned, [], set()
        return [words or [] for _, words in learned]

    def _take_back(self, pieces: list[str]) -> None:
        """Unlearn pieces that were changed or deleted, last first."""
        assert self._memory is not None
        same = 0
        while same < min(len(pieces), len(self._learned)) and self._learned[same][0] == pieces[same]:
            same += 1
        for place in range(len(self._learned) - 1, same - 1, -1):
            _, words = self._learned.pop()
            if words:
                self._memory.unlearn(words, self._before(place))
            self._accepted.discard(place)

    def _before(self, place: int) -> list[str]:
        """The two words before a piece, as the model reads them; none that was not learned, and none before that."""
        first = max((after for after, (_, words) in enumerate(self._learned[:place], 1) if words is None), default=0)
        text = " ".join(piece for piece, _ in self._learned[first:place])
        return context_words(text, self._tokenizer)[1 if first else 0 :][-2:]  # without the `<eos>` of a text's start

    def _learn(self, pieces: list[str], ready: list[int]) -> None:
        """Learn pieces in order, up to the first that is not ready."""
        assert self._memory is not None
        for place in range(len(self._learned), len(pieces)):
            if place not in ready:
                break
            words = self._meant(pieces, place)
            if words:
                self._memory.learn(words, self._before(place))
            self._learned.append((pieces[place], words))

    def _meant(self, pieces: list[str], place: int) -> list[str] | None:
        """The words of a piece that are worth learning; None if it looks like a slip."""
        assert self._memory is not None
        words = [word for word in context_words(pieces[place], self._tokenizer)[1:] if any(map(str.isalpha, word))]
        if place in self._accepted or not words:
            return words
        stripped = pieces[place].rstrip(CLOSING_SIGNS)
        sure = self._confirm(" ".join([*pieces[:place], stripped]))
        is_name = pieces[place][0].isupper() and len(words) == 1  # nobody types a capital by accident
        is_meant = sure >= LEARN_AT and (is_name or all(map(self._is_correct, words)))
        return words if is_meant or (sure >= LEARN_AGAIN_AT and self._memory.was_seen(words)) else None
