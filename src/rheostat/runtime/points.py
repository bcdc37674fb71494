"""The operating points of one model file, made ready to serve when they are asked for, and kept while there is room.

Knows the file, the knob and bytes; texts and words are the predictor's business. Points are cut from one copy of the
weights in the runtime's precision. It is kept from the second time on that it is needed, so that a new point takes a
selection and a session, not a walk over the file; and a device that never turns the knob holds its one point only.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from rheostat.model import knob as knob_positions
from rheostat.model.cut import cut
from rheostat.model.file import ModelFile, open_model
from rheostat.model.operating_point import OperatingPoint
from rheostat.runtime.history import History
from rheostat.runtime.onnx.quantization import Precision, Weights, prepare
from rheostat.runtime.onnx.session import Engine, Reading

DEFAULT_CACHE_BYTES = 256 << 20
MOST_POSITIONS = 256  # of the knob that are remembered, however little the points behind them take

Position: TypeAlias = tuple[float | None, str | None]  # a knob's share, or a stored point's name


@dataclass(frozen=True, eq=False)
class Serving:
    """A point that can answer: its engine, and what it has read. States of one point are of no use to another."""

    point: OperatingPoint
    engine: Engine
    history: History[Reading]

    @property
    def size_bytes(self) -> int:
        """What it may come to hold."""
        return self.engine.session_bytes + self.history.limit_bytes


class _Source:
    """The weights that points are cut from: those of the file in the runtime's precision.

    Nobody keeps them at first. They are kept when they are needed again, by another point or by another session of the
    same one: there will be more of these.
    """

    def __init__(self, file: ModelFile, precision: Precision) -> None:
        self._file, self._precision = file, precision
        self._kept: Weights | None = None
        self._were_needed = False
        self._lock = threading.Lock()

    def weights_of(self, point: OperatingPoint) -> Weights:
        """The weights of the cut model."""
        return cut(self._whole(), self._file.shape, point)[0]

    def _whole(self) -> Weights:
        with self._lock:
            if self._kept is not None:
                return self._kept
            weights = prepare(self._file.stored_weights(), self._precision)
            # Biases are copied: a view of one would keep all that was read of the file in memory.
            weights = {name: array.copy() if array.ndim == 1 else array for name, array in weights.items()}
            self._file.release()
            if self._were_needed:
                self._kept = weights
            self._were_needed = True
            return weights


class Points:
    """Points of a model file by position of the knob; the last ones used are kept. Safe from several threads."""

    def __init__(
        self, path: str | Path, precision: Precision, threads: int, cache_bytes: int, history_bytes: int
    ) -> None:
        self.file: ModelFile = open_model(path)
        self._source = _Source(self.file, precision)
        self._precision, self._threads = precision, threads
        self._cache_bytes, self._history_bytes = cache_bytes, history_bytes
        self._kept: OrderedDict[Position, Serving] = OrderedDict()
        self._lock = threading.Lock()  # of what is kept
        self._building = threading.Lock()  # one at a time: two would want all cores and all memory at once

    def choose(self, knob: float | None, name: str | None) -> OperatingPoint:
        return knob_positions.choose(self.file, 1.0 if knob is None else knob, point=name)

    def visited(self, knob: float | None, name: str | None) -> Serving | None:
        """The point, if it is still ready from an earlier visit."""
        with self._lock:
            if serving := self._kept.get((knob, name)):
                self._kept.move_to_end((knob, name))
                self._make_room()  # it may have grown since: sessions are opened when they are first needed
            return serving

    def serve(self, knob: float | None, name: str | None) -> Serving:
        """The point, ready to answer."""
        with self._building:
            if serving := self.visited(knob, name):
                return serving
            point = self.choose(knob, name)
            serving = self._same(point) or self._build(point)
            self._keep((knob, name), serving)
            return serving

    @property
    def size_bytes(self) -> int:
        """What the kept points may come to hold."""
        with self._lock:
            return self._size_bytes()

    def _same(self, point: OperatingPoint) -> Serving | None:
        """A kept point that is this one under another position of the knob."""
        with self._lock:
            return next((kept for kept in self._kept.values() if _equal(kept.point, point)), None)

    def _build(self, point: OperatingPoint) -> Serving:
        shape = point.cut_shape(self.file.shape)
        engine = Engine(partial(self._source.weights_of, point), shape, self._precision, self._threads)
        return Serving(point, engine, History(self._history_bytes))

    def _keep(self, position: Position, serving: Serving) -> None:
        """The one in use always stays, whatever it takes."""
        with self._lock:
            self._kept[position] = serving
            self._kept.move_to_end(position)
            self._make_room()

    def _make_room(self) -> None:
        while len(self._kept) > 1 and (len(self._kept) > MOST_POSITIONS or self._size_bytes() > self._cache_bytes):
            self._kept.popitem(last=False)

    def _size_bytes(self) -> int:
        return sum(serving.size_bytes for serving in {id(kept): kept for kept in self._kept.values()}.values())


def _equal(one: OperatingPoint, other: OperatingPoint) -> bool:
    """Whether two points are the same model: of one ranking, with equal widths; or the same stored one."""
    extras = [(point.gates is not None, point.updates is not None) for point in (one, other)]
    if extras[0] != extras[1]:
        return False
    if any(extras[0]):
        return one.name == other.name
    return one.widths == other.widths and all((a == b).all() for a, b in zip(one.keep, other.keep, strict=True))
