"""Several knob positions of one model, served at the same time because each client has its own knob.

Knows percentages of the cost, predictors and memory limits; `server` handles HTTP. A position is a whole percentage,
so there are at most a hundred; only the most recently used are kept.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from rheostat.errors import NotCopyable, OperatingPointError
from rheostat.keyboard.browser_model import smallest_percent
from rheostat.model.file import ModelFile, open_model
from rheostat.model.knob import has_plain_path, unmeasured_warning
from rheostat.model.precision import Precision, bytes_read
from rheostat.model.widths import check_knob
from rheostat.runtime.arguments import DEFAULT_LAYOUT
from rheostat.runtime.explaining import Taps
from rheostat.runtime.predictor import TIMED_QUERIES, Predictor
from rheostat.words.completion import Completion
from rheostat.words.hidden_words import HiddenWords
from rheostat.words.user_words import UserWords
from rheostat.words.writing import Suggestion

POSITIONS_BYTES = 256 << 20  # for all positions together
HISTORY_BYTES = 16 << 20  # for the states of texts, per position
SHARED_HISTORY_BYTES = 128 << 20  # for those of all positions together, if they are on the path of an ordered file
REMEMBERED = 4096  # texts per position that are known to have been read
MOMENT_MS = 10.0  # reading a text may block other clients this long
SHORT_MS = 2.0  # a query shorter than this may block other clients
LONG = 1000  # characters
ROUNDS, QUERIES = 7, 3  # of interleaved times: rounds over all positions, queries in a row
STALE_S = 10.0  # age at which the time of a query is measured again
ROUNDING = 1e-6  # 0.29 · 100 is slightly less than 29


class Touches(NamedTuple):
    """The layout, and where the finger came down for each letter of the last word, if that is known."""

    taps: Taps | None = None
    layout: str = DEFAULT_LAYOUT


PLAIN = Touches()


@dataclass(eq=False)
class Position:
    """A knob position that is ready to answer. query_ms: the time of one query, measured now and then."""

    percent: int
    predictor: Predictor
    flops: int  # of one query
    bytes_read: int  # by one query
    warning: str | None = None  # what is known, if this is below all that the model was trained or measured for
    query_ms: float = 0.0
    _measured_s: float = field(default=0.0, repr=False)
    # Hashes of the texts that were read, without their last word.
    _read: OrderedDict[int, None] = field(default_factory=OrderedDict, repr=False)

    def complete(self, text: str, k: int, touches: Touches = PLAIN) -> list[Suggestion]:
        """The best words for the text before the cursor."""
        return self.predictor.complete(text, k, taps=touches.taps, layout=touches.layout)

    def correct(self, text: str, k: int, touches: Touches = PLAIN) -> list[Suggestion]:
        """What the last word of a text may have been meant to be, now that it is finished."""
        return self.predictor.correct(text, k, taps=touches.taps, layout=touches.layout)

    @property
    def size_bytes(self) -> int:
        """The most memory it can take."""
        return self.predictor.weight_bytes + HISTORY_BYTES

    def is_quick(self, text: str) -> bool:
        """Whether answering directly is probably faster than using a thread.

        True if the whole text can be read in a moment, while the same word is being typed, and for one more word if a
        query is short. Another long text is never quick, because its state may have been dropped and it would have to
        be read again. A thread waits for its turn whenever it comes back from the core: among hundreds of clients that
        are answered directly, it would take seconds.
        """
        if (1 + text.count(" ") + text.count("\n")) * self.query_ms <= MOMENT_MS:
            return not self.is_stale or TIMED_QUERIES * self.query_ms <= MOMENT_MS
        if len(text) > LONG:
            return False
        stem = _stem(text)
        is_read = hash(stem) in self._read
        is_near = self.query_ms < SHORT_MS and hash(_stem(stem[:-1])) in self._read
        return (is_read or is_near) and not self.is_stale

    def remember(self, text: str) -> None:
        """Note that a text was read. Not thread-safe."""
        key = hash(_stem(text))
        self._read[key] = None
        self._read.move_to_end(key)
        if len(self._read) > REMEMBERED:
            self._read.popitem(last=False)

    @property
    def is_stale(self) -> bool:
        return time.monotonic() - self._measured_s > STALE_S

    def measure(self) -> None:
        self._measured_s = time.monotonic()
        self.query_ms = self.predictor.query_ms()


class Positions(NotCopyable):
    """The positions of one model file. Thread-safe; `ready` never waits, `open` may build a point."""

    def __init__(
        self,
        model: str | Path,
        *,
        precision: Precision = "int8",
        threads: int = 1,
        hidden_words: HiddenWords = None,
        user_words: UserWords | str | Path | None = None,
        slips: bool = True,
        limit_bytes: int = POSITIONS_BYTES,
    ) -> None:
        """threads: per query; one is best if several clients ask at the same time. slips: as for `load`."""
        self.file: ModelFile = open_model(model)
        self.precision: Precision = precision
        if isinstance(hidden_words, Iterable) and not isinstance(hidden_words, str):
            hidden_words = tuple(hidden_words)  # an iterator could be read only once
        self.hidden_words: HiddenWords = hidden_words
        # Positions are kept here, under one limit; the predictor itself keeps only its last point.
        self._on_path = has_plain_path(self.file) and not self.file.description.points
        self._predictor = Predictor(
            model,
            precision=precision,
            threads=threads,
            hidden_words=self.hidden_words,
            user_words=user_words,
            cache_bytes=1,
            history_bytes=SHARED_HISTORY_BYTES if self._on_path else HISTORY_BYTES,
            slips=slips,
        )
        self._kept: OrderedDict[int, Position] = OrderedDict()
        self._limit_bytes, self._lock, self._opening = limit_bytes, threading.Lock(), threading.Lock()
        self.smallest = smallest_percent(self.file)
        self.open(100)

    def percent_of(self, knob: float) -> int:
        """The position for a share of the cost, rounded down to a whole percentage."""
        check_knob(knob)
        percent = int(100 * knob + ROUNDING)
        if percent < self.smallest:
            raise OperatingPointError(f"the knob is {knob!s:.20}; expected a share from {self.smallest / 100:g} to 1")
        return percent

    def ready(self, percent: int) -> Position | None:
        """The position, if it is ready from an earlier visit."""
        with self._lock:
            if position := self._kept.get(percent):
                self._kept.move_to_end(percent)
            return position

    def open(self, percent: int) -> Position:
        """The position, ready to answer."""
        with self._opening:
            if position := self.ready(percent):
                return position
            predictor = self._predictor.at(percent / 100)
            point = predictor.point
            flops = point.cut_shape(self.file.shape).flops
            read = bytes_read(self.file.shape.flops * point.cost, self.precision)
            position = Position(percent, predictor, flops, read, unmeasured_warning(self.file, point))
            position.measure()
            with self._lock:
                self._kept[percent] = position
                while len(self._kept) > 1 and self._size_bytes() > self._limit_bytes:
                    self._kept.popitem(last=False)
            return position

    @property
    def opens_quickly(self) -> bool:
        """Whether opening a position builds nothing: it is only looked up on the path, and timed."""
        return self._on_path and TIMED_QUERIES * self.open(100).query_ms <= MOMENT_MS

    @property
    def completion(self) -> Completion:
        """Which words may be suggested."""
        return self._predictor.completion

    @property
    def user_words(self) -> UserWords:
        """The learned words; all clients share them."""
        return self._predictor.user_words

    def times_ms(self, percents: Iterable[int], rounds: int = ROUNDS) -> dict[int, float]:
        """Median time of a query at each position, interleaved, so that load affects all of them equally."""
        opened = [self.open(percent) for percent in sorted(set(percents))]
        seen: dict[int, list[float]] = {position.percent: [] for position in opened}
        for _ in range(rounds):
            for position in opened:
                seen[position.percent].append(position.predictor.query_ms(QUERIES))
        return {percent: statistics.median(times) for percent, times in seen.items()}

    def _size_bytes(self) -> int:
        """On the path, positions share the mapped weights and one history: any number of them fits."""
        return 0 if self._on_path else sum(position.size_bytes for position in self._kept.values())


def _stem(text: str) -> str:
    """A text without its last word."""
    return text[: max(text.rfind(" "), text.rfind("\n")) + 1]
