"""An n-gram model with modified Kneser–Ney smoothing: the baseline that needs no network.

Knows ids and log-probabilities; text, words and timing are handled by `ngram_baseline`.

Estimated as in Chen and Goodman (1998), interpolated, with three discounts per order, down to the uniform distribution:

    p(w | h) = (c(hw) - D(c(hw))) / c(h·) + γ(h) p(w | h')      h' is h without its first word

At the highest order, c is the count of an n-gram; at lower orders, the number of distinct words before it. Nothing is
pruned. The text is one stream (`metrics`), `<eos>` and `<unk>` are ordinary words, and n-grams cross line ends. The
stream is closed into a ring, so that its first words have a context too.

Stored as a tree: each n-gram has a list of the words that followed it, most probable first. So the best k words are
found without searching the vocabulary: interpolation only adds probability, so a word seen after a longer context is
never less probable than backing off would make it. Hence only the first k words of each list can be among the k best.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rheostat.durable import replacing
from rheostat.errors import CorpusError, RheostatError

Ids: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float32]
Mask: TypeAlias = NDArray[np.bool_]

FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)  # for texts with too few n-grams to estimate them
HEAD = 16  # words of a list to try first: usually few of the best words are not allowed
NO_PROBABILITY = -99.0  # log 0 in the ARPA format


class Level(NamedTuple):
    """All n-grams of one length, grouped by context, most probable first.

    first: where the words of each context start, plus the end; contexts are the n-grams of the previous level.
    log_backoffs: of each n-gram as a context; empty at the highest order. Natural logarithms.
    """

    first: NDArray[np.uint32]
    words: NDArray[np.unsignedinteger[Any]]
    log_probabilities: Floats
    log_backoffs: Floats

    @property
    def size_bytes(self) -> int:
        return sum(array.nbytes for array in self)


class BestWords(NamedTuple):
    """Words, most probable first."""

    ids: Ids
    probabilities: NDArray[np.float64]


@dataclass(frozen=True)
class NGramModel:
    """log p of the next word after the last `order - 1` ids."""

    levels: tuple[Level, ...]

    @property
    def order(self) -> int:
        return len(self.levels)

    @property
    def vocabulary_size(self) -> int:
        return len(self.levels[0].words)

    @property
    def counts(self) -> list[int]:
        """The number of n-grams of each length."""
        return [len(level.words) for level in self.levels]

    @property
    def size_bytes(self) -> int:
        """The size of the tables as stored in a file."""
        return sum(level.size_bytes for level in self.levels)

    def log_probabilities(self, context: Sequence[int]) -> Floats:
        """log p of every word [V] after a context; only the last `order - 1` words of the context count."""
        scores = np.empty(self.vocabulary_size, np.float32)
        for seen in self._seen(context):  # the shortest context first, so that longer ones overwrite it
            scores[seen.words] = seen.values + np.float32(seen.backoff)
        return scores

    def best(self, context: Sequence[int], k: int, allowed: Mask) -> BestWords:
        """The exact k most probable allowed words; ties go to the smaller id."""
        scores: dict[int, float] = {}
        for seen in self._seen(context):
            words, values = _head(seen, k, allowed)
            scores.update(zip(words.tolist(), (values + np.float32(seen.backoff)).tolist(), strict=True))
        found = sorted((-score, word) for word, score in scores.items())[:k]
        return BestWords(np.array([word for _, word in found], np.int64), np.exp([-score for score, _ in found]))

    def rank(self, context: Sequence[int], word: int, most: int) -> tuple[float, int]:
        """log p of a word after a context, and how many words are more probable, counted up to `most`.

        The first words of each list are enough (see `best`): a word beyond them is no more probable than they are.
        """
        own, scores = -np.inf, dict[int, np.float32]()
        for length, seen in enumerate(self._seen(context)):
            backoff = np.float32(seen.backoff)
            scores.update(zip(seen.words[:most].tolist(), seen.values[:most] + backoff, strict=True))
            places = self._places[word : word + 1] if length == 0 else (seen.words == word).nonzero()[0]
            own = seen.values[places[0]] + backoff if len(places) else own
        return float(own), min(most, sum(bool(score > own) for score in scores.values()))

    def read(self, context: Sequence[int], ids: NDArray[np.integer]) -> tuple[Floats, list[int]]:
        """log p of every word after each of these ids [T, V], and the context after them."""
        stream, length = [*context, *ids.tolist()], self.order - 1
        ends = range(len(context) + 1, len(stream) + 1)
        scores = [self.log_probabilities(stream[max(0, end - length) : end]) for end in ends]
        return np.stack(scores), stream[max(0, len(stream) - length) :]

    def _seen(self, context: Sequence[int]) -> list[_Seen]:
        """What followed each suffix of the context that occurs in the text, shortest first."""
        found, backoff = [], 0.0
        for length, node in reversed(list(enumerate(self._contexts(context)))):
            level = self.levels[length]
            start, end = level.first[node], level.first[node + 1]
            found.append(_Seen(level.words[start:end], level.log_probabilities[start:end], backoff))
            if length:
                backoff += float(self.levels[length - 1].log_backoffs[node])
        return found[::-1]

    def _contexts(self, context: Sequence[int]) -> Iterator[int]:
        """The n-gram of each suffix of the context, from the empty one to the longest that occurs in the text."""
        yield 0
        for length in range(1, min(self.order - 1, len(context)) + 1):
            node = 0
            for depth, (level, word) in enumerate(zip(self.levels, context[-length:], strict=False)):
                start, end = level.first[node], level.first[node + 1]
                places = self._places[word : word + 1] if depth == 0 else (level.words[start:end] == word).nonzero()[0]
                if not len(places):
                    return  # longer ones were not seen either
                node = int(start) + int(places[0])
            yield node

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        """Where each word stands among the single words, which are sorted: the one list that is long."""
        places = np.empty(self.vocabulary_size, np.int64)
        places[self.levels[0].words] = np.arange(self.vocabulary_size)
        return places


class _Seen(NamedTuple):
    """Words that followed a context, most probable first, with log p, and what to add after the full context."""

    words: NDArray[Any]
    values: Floats
    backoff: float


def _head(seen: _Seen, k: int, allowed: Mask) -> tuple[NDArray[Any], Floats]:
    """The first k allowed words."""
    size = HEAD
    while True:
        places = allowed[seen.words[:size]].nonzero()[0][:k]
        if len(places) == k or size >= len(seen.words):
            return seen.words[places], seen.values[places]
        size *= 8


# ------------------------------------------------------------------------------------------------------ estimation


def estimate(ids: NDArray[np.integer], vocabulary_size: int, order: int = 5) -> NGramModel:
    """The model of a stream of ids. Every word in the vocabulary gets a probability, seen or not."""
    if order < 1:
        raise RheostatError(f"the n-gram order is {order}; expected 1 or more, usually 5")
    if len(ids) < order:
        raise CorpusError(f"a training text of {len(ids)} tokens has no {order}-gram: give more text, or a lower order")
    grams = list(count_grams(np.asarray(ids, np.int64), vocabulary_size, order))
    probabilities = np.full(1, 1 / vocabulary_size)
    levels: list[Level] = []
    rank: Ids = np.zeros(1, np.int64)  # the place of each n-gram of the previous level once sorted
    for number, gram in enumerate(grams):
        is_last = number + 1 == order
        # Below the highest order, an n-gram's count is the number of distinct words before it.
        counts = gram.counts if is_last else np.bincount(grams[number + 1].suffix, minlength=len(gram.words))
        probabilities, backoffs = _smooth(gram, counts, probabilities)
        if levels:
            in_order = np.empty_like(backoffs)
            in_order[rank] = backoffs
            levels[-1] = levels[-1]._replace(log_backoffs=np.log(in_order).astype(np.float32))
        level, rank = _level(gram, probabilities, rank, vocabulary_size)
        levels.append(level)
    return NGramModel(tuple(levels))


class Grams(NamedTuple):
    """The distinct n-grams of one length, sorted by context and word.

    parent, suffix: the n-gram without its last or first word, among the n-grams one word shorter.
    """

    parent: Ids
    words: Ids
    suffix: Ids
    counts: Ids


def count_grams(ids: Ids, vocabulary_size: int, order: int) -> Iterator[Grams]:
    """The n-grams of a stream, from single words to `order` words."""
    everything = np.arange(vocabulary_size)
    yield Grams(0 * everything, everything, 0 * everything, np.bincount(ids, minlength=vocabulary_size))
    shorter = ids  # the n-gram that ends at each position of the ring
    for _ in range(1, order):
        keys = np.roll(shorter, 1) * vocabulary_size + ids
        keys, places, longer, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        yield Grams(keys // vocabulary_size, keys % vocabulary_size, shorter[places], counts)
        shorter = longer.reshape(-1)


def _smooth(gram: Grams, counts: Ids, shorter: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """p of every n-gram, and γ of every context. shorter: p of the n-grams without their first word."""
    kinds = np.minimum(counts, 3)
    taken = np.array([0.0, *discounts(counts)])[kinds]
    contexts = len(shorter)
    totals = np.bincount(gram.parent, weights=counts, minlength=contexts)
    seen = np.maximum(totals, 1)
    # A vocabulary word that is not in the text was never a context: backing off from it costs nothing.
    backoffs = np.where(totals > 0, np.bincount(gram.parent, weights=taken, minlength=contexts) / seen, 1.0)
    return (counts - taken) / seen[gram.parent] + backoffs[gram.parent] * shorter[gram.suffix], backoffs


def discounts(counts: Ids) -> tuple[float, ...]:
    """The discounts D for n-grams that occur once, twice, and more often, from the number of each."""
    n1, n2, n3, n4 = (int(np.count_nonzero(counts == times)) for times in range(1, 5))
    if not (n1 and n2 and n3):
        return FALLBACK_DISCOUNTS
    y = n1 / (n1 + 2 * n2)
    found = 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3
    usable = all(0 < discount <= times for times, discount in enumerate(found, 1))
    return found if usable else FALLBACK_DISCOUNTS


def _level(gram: Grams, probabilities: NDArray[np.float64], rank: Ids, vocabulary_size: int) -> tuple[Level, Ids]:
    """The n-grams of one length by context, best first; and the new place of each."""
    parent = rank[gram.parent]
    order = np.lexsort((gram.words, -probabilities, parent))
    moved = np.empty_like(order)
    moved[order] = np.arange(len(order))
    first = np.searchsorted(parent[order], np.arange(len(rank) + 1)).astype(np.uint32)
    words = gram.words[order].astype(np.min_scalar_type(vocabulary_size - 1))
    return Level(first, words, np.log(probabilities[order]).astype(np.float32), np.empty(0, np.float32)), moved


# ------------------------------------------------------------------------------------------------------ other tools


def write_arpa(model: NGramModel, words: Sequence[str], path: Path) -> None:
    """Write the model in the ARPA format, which other tools can read."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.writelines(line.encode() for line in _arpa_lines(model, words))
    except OSError as error:
        raise RheostatError(f"cannot write {path}: {error.strerror}; expected a file that can be written") from None


def _arpa_lines(model: NGramModel, words: Sequence[str]) -> Iterator[str]:
    marks = [
        word for word in ("<s>", "</s>") if word not in words
    ]  # sentence marks: some tools require them, and they never occur
    yield "\\data\\\n"
    for number, count in enumerate(model.counts, 1):
        yield f"ngram {number}={count + (len(marks) if number == 1 else 0)}\n"
    texts = [""]
    for number, level in enumerate(model.levels, 1):
        yield f"\n\\{number}-grams:\n"
        if number == 1:
            yield from (f"{NO_PROBABILITY}\t{mark}\n" for mark in marks)
        parents = np.searchsorted(level.first[1:], np.arange(len(level.words)), side="right")
        pairs = zip(parents.tolist(), level.words.tolist(), strict=True)
        texts = [f"{texts[parent]} {words[word]}" for parent, word in pairs]
        logs = (level.log_probabilities / np.log(10)).tolist()
        backoffs = [f"\t{value:.7g}" for value in (level.log_backoffs / np.log(10)).tolist()] or [""] * len(texts)
        for log, text, backoff in zip(logs, texts, backoffs, strict=True):
            yield f"{log:.7g}\t{text[1:]}{backoff}\n"
    yield "\n\\end\\\n"
