"""The operating points of one model file, built when first requested and kept while there is room.

Knows the file, the knob and bytes; texts and words are handled by `predictor`.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from rheostat.model import knob as knob_positions
from rheostat.model.file import ModelFile, open_model
from rheostat.model.operating_point import OperatingPoint
from rheostat.runtime.arguments import thread_count
from rheostat.runtime.engine import CoreWeights, Engine, EngineName, Reading, choose_engine
from rheostat.runtime.history import History
from rheostat.runtime.precision import Precision, check_precision

DEFAULT_CACHE_BYTES = 256 << 20
MOST_POSITIONS = 256  # knob positions to remember, however small their points are

Position: TypeAlias = tuple[float | None, str | None]  # the knob's share, or a stored point's name


def engines_of(
    file: ModelFile, precision: Precision, threads: int, engine: EngineName | None = None, *, serves: bool = True
) -> Callable[[OperatingPoint], Engine]:
    """What makes the engine of a point. Without a name: the core, or ONNX Runtime for what the core does not run.

    threads: of ONNX Runtime; the core runs on one. serves: the points answer queries, so what they need is made
    ready; otherwise they are only evaluated, one after another.
    """
    check_precision(precision)
    thread_count(threads)
    if choose_engine(file.shape, precision, engine) == "core":
        return CoreWeights(file, precision).engine
    from rheostat.runtime.onnx.engine import OnnxEngine  # here, since the core does without it
    from rheostat.runtime.onnx.weights import RuntimeWeights

    weights = RuntimeWeights(file, precision, keep=not serves)
    return lambda point: OnnxEngine(weights, point, file.shape, precision, threads, ready=serves)


@dataclass(frozen=True, eq=False)
class Serving:
    """A point that is ready to answer: its engine and the texts it has read. Points cannot share states."""

    point: OperatingPoint
    engine: Engine
    history: History[Reading]

    @property
    def size_bytes(self) -> int:
        """The most memory it may take."""
        return self.engine.held_bytes + self.history.limit_bytes


class Points:
    """Points of a model file by knob position; the most recently used are kept. Safe to use from several threads."""

    def __init__(
        self,
        path: str | Path,
        precision: Precision,
        threads: int,
        cache_bytes: int,
        history_bytes: int,
        engine: EngineName | None = None,
    ) -> None:
        self.file: ModelFile = open_model(path)
        self._engines = engines_of(self.file, precision, threads, engine)
        self.engine: EngineName = choose_engine(self.file.shape, precision, engine)
        self._cache_bytes, self._history_bytes = cache_bytes, history_bytes
        self._kept: OrderedDict[Position, Serving] = OrderedDict()
        self._lock = threading.Lock()  # guards _kept
        self._building = threading.Lock()  # one build at a time: two would compete for all cores and all memory

    def choose(self, knob: float | None, name: str | None) -> OperatingPoint:
        """The point for a position; raises OperatingPointError if the file cannot serve it."""
        return knob_positions.choose(self.file, 1.0 if knob is None else knob, point=name)

    def visited(self, knob: float | None, name: str | None) -> Serving | None:
        """The point, if it is still ready from an earlier visit."""
        with self._lock:
            if serving := self._kept.get((knob, name)):
                self._kept.move_to_end((knob, name))
                self._make_room()  # it may have grown since: sessions are opened when first needed
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

    def close(self) -> None:
        """Drop all points and close the file."""
        with self._building, self._lock:
            self._kept.clear()
            self.file.close()

    @property
    def size_bytes(self) -> int:
        """The most memory that the kept points can take."""
        with self._lock:
            return self._size_bytes()

    def _same(self, point: OperatingPoint) -> Serving | None:
        """A kept point that is the same model at another knob position."""
        with self._lock:
            return next((kept for kept in self._kept.values() if _equal(kept.point, point)), None)

    def _build(self, point: OperatingPoint) -> Serving:
        return Serving(point, self._engines(point), History(self._history_bytes))

    def _keep(self, position: Position, serving: Serving) -> None:
        """Keep a point; the one in use always stays, whatever its size."""
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
    """Whether two points are the same model: cut by one ranking to equal widths, or the same stored point."""
    extras = [(point.gates is not None, point.updates is not None) for point in (one, other)]
    if extras[0] != extras[1] or (one.reconstruction is None) != (other.reconstruction is None):
        return False
    if any(extras[0]):
        return one.name == other.name
    return (one.widths, one.bounds) == (other.widths, other.bounds) and all(
        (a == b).all() for a, b in zip(one.keep, other.keep, strict=True)
    )
