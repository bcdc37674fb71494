"""A user's memory beside a model: its share of the probabilities, and what of a text was meant.

Knows readings, texts and the memory; `words.memory` owns the counts and the file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from rheostat.arguments import check_text
from rheostat.runtime.engine import Engine, Reading
from rheostat.text.vocabulary import Vocabulary
from rheostat.words.memory import NEW_WORD_COUNT, Memory
from rheostat.words.passage import context_words
from rheostat.words.writing import Suggestion, matching_form

SETTLED = 2  # words written after a word until it counts as meant
MOST_AT_ONCE = 2  # new words in one change that may have been typed: a correction can make two words of one
PIECES_BEFORE = 8  # pieces between spaces; enough for the two words before one, even if some pieces are only signs
CLOSING_SIGNS = '.,;:!?…)]"”'  # after a word, and not part of it; after an apostrophe, a letter may be missing
LEARN_AT = 0.998  # the confidence that a word is what was meant, from which on a correct word is learned at once
LEARN_AGAIN_AT = 0.99  # the same for any word that was written before
CORRECTED_AFTER = 2  # pieces before a corrected one, by which it is recognised when it is learned
MOST_CORRECTED = 1000  # pieces that are remembered as corrected


class WordPlaces:
    """Which words of a memory a model knows. A memory gains words one by one, so this is remembered."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._index: Mapping[str, int] = vocabulary.index
        self._last: tuple[Sequence[str], NDArray[np.int64]] = (
            (),
            np.zeros(0, np.int64),
        )  # one value, for threads

    def ids(self, words: Sequence[str], count: int) -> NDArray[np.int64]:
        """The ids of the first words of this list; -1 for one that the model does not know."""
        last, ids = self._last
        if words is not last:
            ids = ids[:0]
        if len(ids) < count:
            new = np.array([self.id(word) for word in words[len(ids) : count]], np.int64)
            ids = np.concatenate([ids, new])
            self._last = words, ids
        return ids[:count]

    def id(self, word: str) -> int:
        return self._index.get(word, -1)


class Mixed:
    """log p of every word after one text, with the memory's share; and the words that only the memory knows."""

    def __init__(
        self, engine: Engine, reading: Reading, places: WordPlaces, memory: Memory, words: Sequence[str]
    ) -> None:
        self.reading, self.version = reading, memory.version
        self._words = list(words[-2:])
        share = self._share = memory.share(self._words)
        scores = engine.log_probabilities(reading).astype(np.float32) + np.float32(math.log(share.of_model))
        ids, added = places.ids(share.words, len(share.counts)), np.zeros(len(scores))
        known = (ids >= 0) & (share.counts > 0.0)
        added[ids[known]] = share.per_count * share.counts[known]
        often = np.flatnonzero((ids < 0) & (share.counts >= NEW_WORD_COUNT)).tolist()
        own = (share.per_count * share.counts[often]).tolist()
        new = dict(zip((share.words[place] for place in often), own, strict=True))
        for word, p in share.longer.items():
            if (place := places.id(word)) >= 0:
                added[place] += p
            elif word in new:
                new[word] += p
        changed = np.flatnonzero(added)
        scores[changed] = np.logaddexp(scores[changed], np.log(added[changed]))
        self.scores: NDArray[np.float32] = scores
        self.new: dict[str, float] = new

    def is_for(self, reading: Reading, words: Sequence[str], version: int) -> bool:
        """Whether this is the mixture for a text, and nothing was learned since."""
        return self.reading is reading and self.version == version and self._words == list(words[-2:])

    def probability_of_new(self, word: str) -> float:
        """The memory's share for a word that does not count as one of the model's, once it was written often enough."""
        share = self._share
        count = share.single.get(word, 0.0)
        return share.per_count * count + share.longer.get(word, 0.0) if count >= NEW_WORD_COUNT else 0.0

    def suggestions(self, prefix: str, k: int) -> list[Suggestion]:
        """The words that only the memory knows."""
        form = matching_form(prefix)
        found = nlargest(k, (item for item in self.new.items() if item[0].startswith(form)), key=itemgetter(1))
        return [Suggestion(word, p, "user", len(prefix)) for word, p in found]


Confirm = Callable[[str], float]  # the confidence that the last word of a text is what was meant
IsCorrect = Callable[[str], bool]  # whether a word is correct, as far as that is known


class Corrections:
    """Words that were corrected automatically, which nobody typed: they are as sure as the correction was.

    A wrong correction that nobody noticed would otherwise count as typed right. Kept in memory only.
    """

    def __init__(self) -> None:
        self._sure: dict[tuple[str, ...], float] = {}  # the pieces before and the corrected one: confidence

    def note(self, text: str, best: Suggestion) -> None:
        """The last word of this text is replaced by a suggestion; if it becomes two, both were corrected."""
        pieces = best.insert_into(text).split()
        for length in range(len(pieces), len(pieces) - len(best.word.split()), -1):
            self._sure[_corrected(pieces[:length])] = best.confidence
        while len(self._sure) > MOST_CORRECTED:
            del self._sure[next(iter(self._sure))]

    def limit(self, text: str, sure: float) -> float:
        """How sure it is that the last word of a text was meant. sure: the same if it was typed as it is."""
        return min(sure, self._sure.get(_corrected(text.split()), 1.0))


def _corrected(pieces: Sequence[str]) -> tuple[str, ...]:
    return tuple(pieces[-1 - CORRECTED_AFTER :])


@dataclass
class _Piece:
    """What stands between spaces, and what the memory knows of it.

    words: those that are worth learning; None if it is a slip or was pasted. before: the words that it was learned
    after; None if it was not learned.
    """

    text: str
    decided: bool = False
    accepted: bool = False
    words: list[str] | None = None
    before: list[str] | None = None


class Watch:
    """One text field: shows the memory what was meant in it. Made by `Predictor.watch`.

    `see` gets the text before the cursor whenever it changes. A word is learned once two more words were begun after
    it, or at once if it was accepted from the suggestions. A word that is changed or deleted afterwards is taken back.
    Words that look like slips are not learned; what could be one is learned when it is written again. More than two
    new words at once were pasted, and are not learned. `end` says that the text was sent: what was written was meant.
    """

    def __init__(
        self, memory: Memory | None, tokenizer: str, confirm: Confirm, is_correct: IsCorrect, private: bool
    ) -> None:
        self._memory = None if private else memory
        self._tokenizer, self._confirm, self._is_correct = tokenizer, confirm, is_correct
        self._pieces: list[_Piece] = []
        self._written: set[str] = set()  # in this field: moved or brought back, it is not pasted

    def see(self, text: str, *, accepted: bool = False) -> None:
        """The text before the cursor now. accepted: its last word was taken from the suggestions."""
        check_text("the text", text)
        if self._memory is None:
            return
        pieces = text.split()
        ends_open = bool(text) and not text[-1].isspace()
        whole = len(pieces) - (1 if ends_open and not accepted else 0)
        changed = self._follow(pieces)
        new = pieces[changed.start : changed.stop]
        if sum(piece not in self._written for piece in new) > MOST_AT_ONCE:
            for piece in self._pieces[changed.start : changed.stop - accepted]:
                piece.decided = True
        if accepted and pieces:
            self._pieces[(changed.stop if new else len(pieces)) - 1].accepted = True
        just_ended = max(0, changed.start - 1)
        self._written |= {piece.text for piece in self._pieces[just_ended:whole] if not piece.decided}
        settled = len(pieces) - SETTLED
        self._learn(changed.start, lambda place: place < whole and (place < settled or self._pieces[place].accepted))

    def end(self, text: str) -> list[list[str]]:
        """The text was sent as it is. Returns what was learned of each piece between spaces."""
        check_text("the text", text)
        if self._memory is not None:
            self._learn(self._follow(text.split()).start, lambda place: True)
        learned, self._pieces, self._written = self._pieces, [], set()
        return [piece.words or [] for piece in learned]

    def _follow(self, pieces: list[str]) -> range:
        """Take over the pieces of the text as it is now, and take back those that are gone. Returns the new ones."""
        assert self._memory is not None
        known = [piece.text for piece in self._pieces]
        shorter = min(len(pieces), len(known))
        same = next((at for at in range(shorter) if pieces[at] != known[at]), shorter)
        most = shorter - same
        after = next((at for at in range(most) if pieces[-1 - at] != known[-1 - at]), most)
        for piece in self._pieces[same : len(known) - after]:
            if piece.words and piece.before is not None:
                self._memory.unlearn(piece.words, piece.before)
        new = range(same, len(pieces) - after)
        self._pieces[same : len(known) - after] = [_Piece(pieces[place]) for place in new]
        return new

    def _learn(self, changed: int, is_ready: Callable[[int], bool]) -> None:
        """Decide what is ready, and count it with the words before it. changed: the first place with another text."""
        assert self._memory is not None
        for place, piece in enumerate(self._pieces):
            if not piece.decided and is_ready(place):
                piece.words, piece.decided = self._meant(place), True
                changed = min(changed, place)
            if not piece.words or place < changed:
                continue
            before = self._before(place)
            if before != piece.before:  # those before it were decided later, or changed
                if piece.before is not None:
                    self._memory.unlearn(piece.words, piece.before)
                self._memory.learn(piece.words, before)
                piece.before = before

    def _before(self, place: int) -> list[str]:
        """The two words before a piece, as the model reads them; none that was not learned, and none before that."""
        first = place
        while first > max(0, place - PIECES_BEFORE) and self._pieces[first - 1].words is not None:
            first -= 1
        text = " ".join(piece.text for piece in self._pieces[first:place])
        return context_words(text, self._tokenizer)[1 if first else 0 :][-2:]  # without the `<eos>` of a text's start

    def _meant(self, place: int) -> list[str] | None:
        """The words of a piece that are worth learning; None if it looks like a slip."""
        assert self._memory is not None
        piece = self._pieces[place]
        words = [word for word in context_words(piece.text, self._tokenizer)[1:] if any(map(str.isalpha, word))]
        if piece.accepted or not words:
            return words
        stripped = piece.text.rstrip(CLOSING_SIGNS)
        sure = self._confirm(" ".join([*(before.text for before in self._pieces[:place]), stripped]))
        is_name = piece.text[0].isupper() and len(words) == 1  # nobody types a capital by accident
        is_meant = sure >= LEARN_AT and (is_name or all(map(self._is_correct, words)))
        return words if is_meant or (sure >= LEARN_AGAIN_AT and self._memory.was_seen(words)) else None
