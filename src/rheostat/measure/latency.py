"""Latency of queries, measured fairly: which queries, in which order, and statistics of their times.

A query is what an application asks for: `Predictor.suggest` with a text one word longer than the last. Knows nothing of
energy, memory or results files; `bench` puts them together.

Every point warms up. Then the points are interleaved, a few queries each, so that load and heat affect them all
equally. The first query of a turn is not counted, because the previous point has emptied the caches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rheostat.errors import CorpusError
from rheostat.measure.meters.energy import interleaved_order
from rheostat.measure.results import ExecutedFlops, LatencyFigures
from rheostat.measure.texts import Text, messages
from rheostat.model.operating_point import OperatingPoint
from rheostat.runtime.predictor import Predictor
from rheostat.text.tokenizers import tokenize
from rheostat.text.vocabulary import Vocabulary
from rheostat.words.writing import Suggestion

SUGGESTIONS = 3
TURN = 10  # queries at one point before the next point's turn
MOST_TURNS = 100
MOST_QUERIES = 10_000_000  # whose times are kept
RESAMPLES = 1000
CONFIDENCE = 0.95
PAUSE_S = 0.3  # between paced queries: about the time between two letters typed on a phone
OTHER_MEMORY_BYTES = 64 << 20  # more than the last cache of most processors
OPENINGS = 1000  # distinct words that messages begin with

Floats = NDArray[np.float64]
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class BenchPosition:
    """A knob position to measure: a share of the cost, or a stored point. criterion: None = the file's own choice."""

    knob: float | None = None
    point: str | None = None
    criterion: str | None = None

    @property
    def label(self) -> str:
        return self.point or f"{self.knob:g}"


class Suggests(Protocol):
    """What answers a query: a `Predictor`, or a baseline instead of one."""

    def suggest(self, text: str, k: int = 3) -> Sequence[Suggestion]: ...


class Queries:
    """Queries to one predictor. Every predictor gets the same texts, each one word longer than the last."""

    def __init__(self, label: str, predictor: Suggests, pieces: list[str], openings: list[str]) -> None:
        self.label, self._suggest = label, predictor.suggest
        self._texts = messages(pieces, openings)

    def type(self, queries: int) -> Floats:
        """The latencies of some queries, in milliseconds."""
        times = np.empty(queries)
        for number, text in enumerate(islice(self._texts, queries)):
            begin = time.perf_counter()
            self._suggest(text, SUGGESTIONS)
            times[number] = time.perf_counter() - begin
        return 1e3 * times


class Typist(Queries):
    """Queries at one operating point."""

    def __init__(self, predictor: Predictor, position: BenchPosition, pieces: list[str], openings: list[str]) -> None:
        self._predictor = predictor.at(position.knob, point=position.point, criterion=position.criterion)
        super().__init__(position.label, self._predictor, pieces, openings)
        self.position, self.shape = position, predictor.shape
        self.point: OperatingPoint = self._predictor.point

    def executed_flops(self, queries: int) -> ExecutedFlops:
        """FLOPs of some queries if a lazy output layer leaves clusters closed; otherwise all queries cost the same."""
        queries = queries if self._predictor.shape.softmax_splits else 1
        executed = [self._predictor.executed_flops(text, SUGGESTIONS) for text in islice(self._texts, queries)]
        return ExecutedFlops(float(np.mean(executed)), max(executed))


def open_points(predictor: Predictor, positions: Sequence[BenchPosition], text: Text) -> list[Typist]:
    """A typist for every distinct point: two positions can select the same point, which is measured once."""
    pieces, openings = text.pieces(), opening_words(predictor.vocabulary, text)
    if not pieces:
        raise CorpusError(f"the text {text.name} has no words that this model can read; give another text")
    typists: list[Typist] = []
    for position in dict.fromkeys(positions):
        typist = Typist(predictor, position, pieces, openings)
        if not any(typist.point is other.point for other in typists):
            typists.append(typist)
    return typists


def opening_words(vocabulary: Vocabulary, text: Text) -> list[str]:
    """Vocabulary words that the model reads as one word when typed."""
    words = (word for word in vocabulary.words if word[0].isalpha() and tokenize(word, text.tokenizer) == [word])
    return list(islice(words, OPENINGS)) or [piece for piece in dict.fromkeys(text.pieces()) if piece.strip()]


def measure_latencies(
    typists: Sequence[Queries], queries: int, warm_up: int, progress: Progress = lambda label, share: None
) -> list[list[Floats]]:
    """Milliseconds of every counted query, by point and turn. progress: label, share done."""
    for number, typist in enumerate(typists):
        progress(f"warming up {typist.label}", number / (6 * len(typists)))
        typist.type(max(1, warm_up))
    turns: list[list[Floats]] = [[] for _ in typists]
    sizes = list(turn_sizes(queries))
    for count, size in enumerate(sizes):
        progress("measuring milliseconds", 1 / 6 + 5 / 6 * count / len(sizes))
        for number in interleaved_order(len(typists), count):
            turns[number].append(typists[number].type(1 + size)[1:])
    return turns


def measure_paced(
    typists: Sequence[Queries],
    queries: int,
    progress: Progress = lambda label, share: None,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Floats]:
    """Milliseconds of queries that come one at a time, as a keyboard asks them: a pause, cold caches, one query.

    Points are interleaved query by query. During the pause the processor may slow down, as it does while someone types;
    the caches are filled with other memory just before the query.
    """
    other = np.zeros(OTHER_MEMORY_BYTES, np.uint8)
    times: list[list[float]] = [[] for _ in typists]
    for count in range(queries):
        progress("measuring paced queries", count / queries)
        for number in interleaved_order(len(typists), count):
            sleep(PAUSE_S)
            other += 1
            times[number].append(float(typists[number].type(1)[0]))
    return [np.array(one) for one in times]


def turn_sizes(queries: int) -> Iterator[int]:
    """The number of queries in each turn of a point: small and even, in at least two turns but not too many."""
    turns = min(MOST_TURNS, max(2, -(-queries // TURN)))
    for turn in range(turns):
        yield queries * (turn + 1) // turns - queries * turn // turns


def latency_figures(turns: Sequence[Floats]) -> LatencyFigures:
    """The statistics of one point's turns."""
    times = np.concatenate(turns)
    median, p95 = np.percentile(times, [50, 95])
    return LatencyFigures(
        latency_ms=float(median), interval_ms=median_interval(turns), p95_ms=float(p95), queries=len(times)
    )


def median_interval(turns: Sequence[Floats], level: float = CONFIDENCE, seed: int = 0) -> tuple[float, float]:
    """Percentile bootstrap of the median. Whole turns are drawn, because a slow query often has slow neighbours."""
    random = np.random.default_rng(seed)
    draws = random.integers(len(turns), size=(RESAMPLES, len(turns)))
    medians = [np.median(np.concatenate([turns[turn] for turn in draw])) for draw in draws]
    low, high = np.quantile(medians, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
