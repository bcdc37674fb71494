"""Several positions of the knob served at the same time from one model, for clients that each have their own.

Knows percent of the FLOPs, predictors and bounds; HTTP is the server's business. A position is a whole percent, so that
a knob that is dragged visits at most a hundred of them, and only the last ones used are kept.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path

from rheostat.errors import OperatingPointError
from rheostat.model.file import ModelFile, open_model
from rheostat.model.knob import can_serve
from rheostat.runtime.onnx.quantization import Precision, bytes_read
from rheostat.runtime.predictor import Predictor
from rheostat.words.hidden_words import HiddenWords
from rheostat.words.writing import Suggestion

POSITIONS_BYTES = 256 << 20  # of all positions that are kept
HISTORY_BYTES = 16 << 20  # states of texts, at each of them
SMALLEST_PERCENT = 5  # below this no model is worth asking
REMEMBERED = 4096  # texts of which it is known, at each of them, that they were read
SHORT_MS = 2.0  # a query that holds up the others for no longer than this
LONG = 1000  # characters
STALE_S = 10.0  # after which the time of a query is measured again
ROUNDING = 1e-6  # 0.29 · 100 is a little less than 29


@dataclass(eq=False)
class Position:
    """A knob position that can answer. query_ms: of one query here, measured now and then."""

    percent: int
    predictor: Predictor
    flops: int  # of one query
    bytes_read: int  # by one query
    query_ms: float = 0.0
    _measured_s: float = field(default=0.0, repr=False)
    _read: OrderedDict[int, None] = field(default_factory=OrderedDict, repr=False)  # hashes of beginnings of texts

    def complete(self, text: str, k: int) -> list[Suggestion]:
        """The best words for a text as it stands before the cursor."""
        return self.predictor.complete(text, k)

    @property
    def size_bytes(self) -> int:
        """What it may come to hold."""
        return self.predictor.weight_bytes + HISTORY_BYTES

    def is_quick(self, text: str) -> bool:
        """Whether an answer is given sooner than a thread could be asked for it, as far as can be told.

        It is while the same word is being typed, and for one more word where a query is short. A state may have been
        dropped meanwhile, and the text must be read anew: so a long one is never said to be quick.
        """
        if len(text) > LONG:
            return False
        stem = _stem(text)
        is_read = hash(stem) in self._read
        is_near = self.query_ms < SHORT_MS and hash(_stem(stem[:-1])) in self._read
        return (is_read or is_near) and not self.is_stale

    def remember(self, text: str) -> None:
        """That a text was read. Not for several threads at once."""
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


class Positions:
    """The positions of one model file. Safe from several threads; `ready` never waits, `open` may build a point."""

    def __init__(
        self,
        model: str | Path,
        *,
        precision: Precision = "int8",
        threads: int = 1,
        hidden_words: HiddenWords = None,
        limit_bytes: int = POSITIONS_BYTES,
    ) -> None:
        """threads: for one query; one is best where several clients ask at once."""
        self.file: ModelFile = open_model(model)
        self.precision: Precision = precision
        if hidden_words is not None and not isinstance(hidden_words, Path | str):
            hidden_words = tuple(hidden_words)  # they are read more than once
        self.hidden_words: HiddenWords = hidden_words
        # Positions are kept here, so that their number has one bound; the predictor keeps no more than its last.
        self._predictor = Predictor(
            model,
            precision=precision,
            threads=threads,
            hidden_words=self.hidden_words,
            cache_bytes=1,
            history_bytes=HISTORY_BYTES,
        )
        self._kept: OrderedDict[int, Position] = OrderedDict()
        self._limit_bytes, self._lock, self._opening = limit_bytes, threading.Lock(), threading.Lock()
        self.smallest = _smallest_percent(self.file)
        self.open(100)

    def percent_of(self, knob: float) -> int:
        """The position for a share of the FLOPs: the whole percent below it."""
        percent = int(100 * knob + ROUNDING) if 0 < knob <= 1 else 0
        if not self.smallest <= percent <= 100:
            raise OperatingPointError(
                f"a knob at {knob!s:.20} was asked for; this model can be turned from {self.smallest / 100:g} to 1"
            )
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
            flops = predictor.point.cut_shape(self.file.shape).flops
            position = Position(percent, predictor, flops, bytes_read(flops, self.precision))
            position.measure()
            with self._lock:
                self._kept[percent] = position
                while len(self._kept) > 1 and self._size_bytes() > self._limit_bytes:
                    self._kept.popitem(last=False)
            return position

    def _size_bytes(self) -> int:
        return sum(position.size_bytes for position in self._kept.values())


def _stem(text: str) -> str:
    """A text without its last word."""
    return text[: max(text.rfind(" "), text.rfind("\n")) + 1]


def _smallest_percent(file: ModelFile) -> int:
    """The lowest position that the file can serve; every higher one can be served too."""
    low, high = SMALLEST_PERCENT, 100
    while low < high:
        middle = (low + high) // 2
        if can_serve(file, middle / 100):
            high = middle
        else:
            low = middle + 1
    return high
