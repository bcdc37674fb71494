"""The operating points of one model file, built when first requested and kept while there is room.

Knows the file, the knob and bytes; texts are handled by `reading`, words by `suggesting`.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

from rheostat.errors import NotCopyable, RheostatError
from rheostat.model import knob as knob_positions
from rheostat.model.file import ModelFile, open_model
from rheostat.model.operating_point import OperatingPoint, full_point
from rheostat.model.path import PathPosition
from rheostat.model.precision import Precision, bytes_read, check_precision
from rheostat.model.shape import ModelShape
from rheostat.runtime.arguments import core_thread_count, thread_count
from rheostat.runtime.engine import (
    Cache,
    CachedEngine,
    CoreWeights,
    Engine,
    EngineName,
    Reading,
    choose_engine,
    reads_mapped,
)
from rheostat.runtime.history import History, HistoryPart, Node
from rheostat.words.passage import Passage

DEFAULT_CACHE_BYTES = 256 << 20
MOST_POSITIONS = 256  # knob positions to remember, however small their points are

LOOK_SECONDS = 0.05  # between two looks at the times of the mapped file

# The knob's share, or a stored point's name; and the criterion to cut by, None for the file's own choice.
Position: TypeAlias = tuple[float | None, str | None, str | None]


class Engines(NamedTuple):
    """What makes engines: of a point, and of a position of the file's path by its widths alone. The second gives None
    where only a point will do.
    """

    of_point: Callable[[OperatingPoint], Engine]
    on_path: Callable[[PathPosition], Engine | None]


def threads_of(shape: ModelShape, precision: Precision, engine: EngineName, threads: int) -> int:
    """How many threads an engine runs a model on; 0 = as many as are useful. One count serves all points of a model."""
    if engine == "onnx":
        return thread_count(threads)
    return core_thread_count(threads, bytes_read(shape.flops, precision))


def engines_of(
    file: ModelFile,
    precision: Precision,
    threads: int,
    engine: EngineName | None = None,
    *,
    serves: bool = True,
    counts: bool = True,
    cache: Cache | None = None,
) -> Engines:
    """What makes the engines of points. Without a name: the core, or ONNX Runtime for what the core does not run.

    threads: 0 = as many as are useful. counts: whether the core uses those of the file. serves: the points
    answer queries, so what they need is made ready; otherwise they are only evaluated, one after another.
    """
    check_precision(precision)
    chosen = choose_engine(file.shape, precision, engine)
    threads = threads_of(file.shape, precision, chosen, threads)
    if chosen == "core":
        core = CoreWeights(file, precision, counts, threads)
        if cache is None:
            return Engines(core.engine, core.engine_on_path)
        return Engines(lambda point: CachedEngine(core.engine(point), cache), partial(_cached_on_path, core, cache))
    if cache is not None:
        raise RheostatError("ONNX Runtime has no cache; expected the core: leave the cache out, or choose it")
    from rheostat.runtime.onnx.engine import OnnxEngine  # here, since the core does without it
    from rheostat.runtime.onnx.weights import RuntimeWeights

    weights = RuntimeWeights(file, precision, keep=not serves)
    return Engines(
        lambda point: OnnxEngine(weights, point, file.shape, precision, threads, ready=serves), lambda position: None
    )


def _cached_on_path(core: CoreWeights, cache: Cache, position: PathPosition) -> CachedEngine | None:
    engine = core.engine_on_path(position)
    return None if engine is None else CachedEngine(engine, cache)


class Place(NamedTuple):
    """Where the text of the last query was read to, and the node of its words up to there."""

    passage: Passage
    node: Node[Reading]


class Serving(NotCopyable):
    """A point that answers: its engine and the texts it has read, made by the first query. Points cannot share
    states, but several may share the memory for them.

    history: a part of a shared one; by default one of its own, of `history_bytes`. place: of the last text; replaced as
    a whole, so that another thread sees the old or the new one.
    """

    __slots__ = ("_engine", "_history", "_history_bytes", "_make_engine", "_make_point", "_point", "cost", "place")

    def __init__(
        self,
        cost: float,
        make_point: Callable[[], OperatingPoint],
        make_engine: Callable[[], Engine],
        history_bytes: int,
        history: HistoryPart[Reading] | None = None,
    ) -> None:
        self.cost, self._make_point, self._make_engine = cost, make_point, make_engine
        self._point: OperatingPoint | None = None
        self._engine: Engine | None = None
        self._history: History[Reading] | HistoryPart[Reading] | None = history
        self._history_bytes = history_bytes if history is None else 0
        self.place: Place | None = None

    @property
    def point(self) -> OperatingPoint:
        if self._point is None:
            self._point = self._make_point()  # if two threads do this, both make the same
        return self._point

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            self._engine = self._make_engine()
        return self._engine

    @property
    def history(self) -> History[Reading] | HistoryPart[Reading]:
        if (history := self._history) is None:
            history = self._history = History(self._history_bytes)  # if two threads do this, one starts over
        return history

    @property
    def size_bytes(self) -> int:
        """The most memory it may take."""
        return (self._engine.held_bytes if self._engine else 0) + self._history_bytes


class Points(NotCopyable):
    """Points of a model file by knob position; the most recently used are kept. Safe to use from several threads.

    A position on the path of an ordered file is only looked up: nothing is built for it, and all of them share one
    memory for the states of texts.
    """

    def __init__(
        self,
        path: str | Path,
        precision: Precision,
        threads: int,
        cache_bytes: int,
        history_bytes: int,
        engine: EngineName | None = None,
        counts: bool = True,
        cache: Cache | None = None,
        verify: bool = True,
    ) -> None:
        self.file: ModelFile = open_model(path, verify=verify)
        self._engines = engines_of(self.file, precision, threads, engine, counts=counts, cache=cache)
        self.engine: EngineName = choose_engine(self.file.shape, precision, engine)
        self.settings = self.file.identity, precision, self.engine, threads  # what latencies depend on
        self._cache_bytes, self._history_bytes = cache_bytes, history_bytes
        self._kept: OrderedDict[Position, Serving] = OrderedDict()
        self._on_path: dict[int, Serving] = {}  # at most as many as the path has
        self._states_on_path: History[Reading] = History(history_bytes)
        plain = knob_positions.has_plain_path(self.file) and not self.file.description.points
        has_path = self.engine == "core" and plain
        self._costs = self.file.path_costs if has_path else []
        # The core reads an ordered file where it is mapped, so the file must stay as it is. Others are read once.
        is_mapped = reads_mapped(self.file, precision, self.engine)
        self._has_its_size = self.file.watch_size() if is_mapped else None
        self._looked = 0.0
        self._lock = threading.Lock()  # guards _kept and _on_path
        self._building = threading.Lock()  # one build at a time: two would compete for all cores and all memory

    def choose(self, knob: float | None, name: str | None, criterion: str | None = None) -> OperatingPoint:
        """The point for a position; raises OperatingPointError if the file cannot serve it."""
        return knob_positions.choose(self.file, 1.0 if knob is None else knob, criterion=criterion, point=name)

    def visited(self, knob: float | None, name: str | None, criterion: str | None = None) -> Serving | None:
        """The point, if there is nothing to build for it: it is on the path, or still ready from an earlier visit."""
        by_knob = name is None and criterion is None
        if by_knob and self._costs and (serving := self._look_up(1.0 if knob is None else knob)) is not None:
            return serving
        with self._lock:
            if serving := self._kept.get((knob, name, criterion)):
                self._kept.move_to_end((knob, name, criterion))
                self._make_room()  # it may have grown since: sessions are opened when first needed
            return serving

    def _look_up(self, knob: float) -> Serving | None:
        """The largest position of the path that costs no more; None below the path's end."""
        fitting = bisect_right(self._costs, knob + knob_positions.ROUNDING)
        if not fitting:
            return None
        with self._lock:
            if (serving := self._on_path.get(fitting)) is not None:
                return serving
            place, texts = len(self._costs) - fitting, self._states_on_path.part(fitting)
            point, engine = partial(self._point_on_path, place, knob), partial(self._engine_on_path, place, knob)
            serving = Serving(self._costs[fitting - 1], point, engine, self._history_bytes, texts)
            self._on_path[fitting] = serving
            return serving

    def _point_on_path(self, place: int, knob: float) -> OperatingPoint:
        return knob_positions.point_on_path(self.file, place, knob) if place else full_point(self.file.shape)

    def _engine_on_path(self, place: int, knob: float) -> Engine:
        on_path = self._engines.on_path(self.file.knob_path()[place])
        return on_path or self._engines.of_point(self._point_on_path(place, knob))

    def serve(self, knob: float | None, name: str | None, criterion: str | None = None) -> Serving:
        """The point, ready to answer."""
        with self._building:
            if serving := self.visited(knob, name, criterion):
                return serving
            point = self.choose(knob, name, criterion)
            serving = self._same(point) or self._build(point)
            self._keep((knob, name, criterion), serving)
            return serving

    def check_file(self) -> None:
        """Raise ModelFileError if the mapped file was changed or cut short.

        Looks at its size every time, because reading beyond its end would end the program, and at the rest at most
        every LOOK_SECONDS.
        """
        has_its_size, now = self._has_its_size, time.monotonic()
        if has_its_size is not None and (not has_its_size() or now - self._looked > LOOK_SECONDS):
            self.file.check_unchanged()
            self._looked = now

    def close(self) -> None:
        """Drop all points and close the file."""
        with self._building, self._lock:
            self._kept.clear()
            self._on_path.clear()
            self._has_its_size = None  # it keeps a part of the file mapped
            self._engines = Engines(_closed_engine, _closed_engine)  # the weights go, and the core's threads with them
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
        engine = self._engines.of_point(point)
        serving = Serving(point.cost, lambda: point, lambda: engine, self._history_bytes)
        assert serving.engine is engine  # made now, and not by the first query
        return serving

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
        kept = (*self._kept.values(), *self._on_path.values())
        shared = self._history_bytes if self._on_path else 0
        return shared + sum(serving.size_bytes for serving in {id(each): each for each in kept}.values())


def _closed_engine(wanted: OperatingPoint | PathPosition) -> Engine:
    raise RheostatError("the model was closed before this position was made ready; expected an open one: load it again")


def _equal(one: OperatingPoint, other: OperatingPoint) -> bool:
    """Whether two points are the same model: cut by one ranking to equal widths, or the same stored point."""
    extras = [(point.gates is not None, (point.updates or point.biases) is not None) for point in (one, other)]
    if extras[0] != extras[1] or (one.reconstruction is None) != (other.reconstruction is None):
        return False
    if any(extras[0]):
        return one.name == other.name
    return (one.widths, one.bounds) == (other.widths, other.bounds) and all(
        (a == b).all() for a, b in zip(one.keep, other.keep, strict=True)
    )
