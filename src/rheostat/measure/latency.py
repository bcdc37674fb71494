"""What a query costs at every operating point: milliseconds, FLOPs, bytes, memory, and millijoules where a meter is.

A query is what an application asks: `Predictor.suggest` for a text that is one word longer than the one before. Knows
how a run is laid out and what its times say; watts are the business of `meters`, the machine's state of `machine`.

Layout. Every point warms up. Then the points take turns, a few queries each, until each has had its share: a machine
that grows warm or busy does so for all of them. The first query of a turn is not counted, as the point before has
emptied the caches. Energy, if there is a meter, is measured in a second run (`meters.energy`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rheostat.errors import CorpusError, RheostatError
from rheostat.measure.machine import pinned, read_conditions, usable_cpus, was_throttled
from rheostat.measure.memory import ResidentMemory, resident_memory
from rheostat.measure.meters import EnergyPerQuery, EnergySource, Plan, Work, measure_energies
from rheostat.measure.sysfs import SYSTEM_ROOT
from rheostat.measure.texts import MESSAGE, Text, messages
from rheostat.measure.turns import rotated
from rheostat.model.file import open_model
from rheostat.model.operating_point import OperatingPoint
from rheostat.model.shape import ModelShape
from rheostat.provenance import provenance
from rheostat.runtime.onnx.quantization import Precision, bytes_read
from rheostat.runtime.onnx.session import physical_cores
from rheostat.runtime.predictor import Predictor
from rheostat.text.tokenizers import tokenize
from rheostat.text.vocabulary import Vocabulary
from rheostat.words.writing import Suggestion

SUGGESTIONS = 3
COUNTED_QUERIES = 100  # whose executed FLOPs are counted
TURN = 10  # queries of a point before it is the next one's turn
MOST_TURNS = 100
RESAMPLES = 1000
CONFIDENCE = 0.95
SHORTEST_RUN_MS = 20.0  # of queries between two looks at an energy counter
OPENINGS = 1000  # different words that messages begin with
EVERYTHING = 1 << 62  # room for all points at once: building one again would be measured too

Floats = NDArray[np.float64]
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Position:
    """Where the knob is to stand: a share of the FLOPs, or a stored point."""

    knob: float | None = None
    point: str | None = None

    @property
    def label(self) -> str:
        return self.point or f"{self.knob:g}"


WHOLE = (Position(1.0),)


@dataclass(frozen=True)
class BenchConfig:
    """queries: counted ones at every point. cpus: to stay on; None for all. memory: whether to weigh each point too."""

    queries: int = 350
    warm_up: int = 20
    precision: Precision = "int8"
    threads: int = 0
    cpus: Sequence[int] | None = None
    energy: Plan = field(default_factory=Plan)
    memory: bool = True

    def __post_init__(self) -> None:
        if self.queries < 2:
            raise RheostatError(f"{self.queries} queries were asked for; expected at least 2, better hundreds")


@dataclass(frozen=True)
class Latency:
    """Of one point. interval_ms: of the median, bootstrap over turns, since the queries of one turn are alike."""

    latency_ms: float  # median
    interval_ms: tuple[float, float]
    p95_ms: float
    queries: int

    @classmethod
    def of(cls, turns: Sequence[Floats]) -> Latency:
        times = np.concatenate(turns)
        median, p95 = np.percentile(times, [50, 95])
        return cls(float(median), median_interval(turns), float(p95), len(times))


class Suggests(Protocol):
    """What answers a query: a `Predictor`, or a baseline in its place."""

    def suggest(self, text: str, k: int = 3) -> Sequence[Suggestion]: ...


class Queries:
    """Queries of one predictor: the same texts for each of several, each one word longer than the one before."""

    def __init__(self, label: str, predictor: Suggests, pieces: list[str], openings: list[str]) -> None:
        self.label, self._suggest = label, predictor.suggest
        self._texts = messages(pieces, openings)

    def take_turn(self) -> None:
        """Get ready, after others have had their turn."""

    def type(self, queries: int) -> Floats:
        """Milliseconds of some queries."""
        times = np.empty(queries)
        for number, text in enumerate(islice(self._texts, queries)):
            begin = time.perf_counter()
            self._suggest(text, SUGGESTIONS)
            times[number] = time.perf_counter() - begin
        return 1e3 * times


class Typist(Queries):
    """Queries at one operating point."""

    def __init__(self, predictor: Predictor, position: Position, pieces: list[str], openings: list[str]) -> None:
        super().__init__(position.label, predictor, pieces, openings)
        self.position, self._predictor, self.shape = position, predictor, predictor.shape
        self.take_turn()
        self.point: OperatingPoint = predictor.point

    def take_turn(self) -> None:
        self._predictor.turn(self.position.knob, point=self.position.point)

    def executed_flops(self, queries: int) -> dict[str, float]:
        """What some queries execute, where a lazy output layer leaves clusters closed; else all execute the same."""
        self.take_turn()
        queries = queries if self._predictor.shape.softmax_splits else 1
        executed = [self._predictor.executed_flops(text, SUGGESTIONS) for text in islice(self._texts, queries)]
        return {"mean": float(np.mean(executed)), "worst": max(executed)}


@dataclass(frozen=True)
class Opened:
    """A model that is measured, and its points. trained: whether its weights are worth more than their time."""

    path: Path
    shape: ModelShape
    trained: bool
    typists: list[Typist]


@dataclass(frozen=True)
class Measured:
    """All that was found out about one point."""

    position: Position
    point: OperatingPoint
    latency: Latency
    energy: EnergyPerQuery
    memory: ResidentMemory | None
    executed_flops: dict[str, float]


def bench(
    model: Path,
    positions: Sequence[Position],
    text: Text,
    config: BenchConfig,
    source: EnergySource,
    progress: Progress = lambda label, share: None,
    *,
    beside: Sequence[Path] = (),
    system_root: Path = SYSTEM_ROOT,
) -> dict[str, Any]:
    """Measure a model at some positions of the knob; the contents of a results file. progress: label, share done.

    beside: other models, whole, that take turns with its points.
    """
    progress("opening the model", 0.0)
    with pinned(config.cpus):
        before = read_conditions(system_root)
        models = [open_to_measure(model, positions, text, config)]
        models += [open_to_measure(path, WHOLE, text, config) for path in beside]
        typists = [typist for one in models for typist in one.typists]
        latencies = [Latency.of(turns) for turns in measure_latencies(typists, config, progress)]
        executed = [typist.executed_flops(min(config.queries, COUNTED_QUERIES)) for typist in typists]
        energies = _measure_energy(typists, latencies, executed, config, source, progress)
        after = read_conditions(system_root)
        threads, cpus = config.threads or physical_cores(), usable_cpus()
        memories = _weigh(models, text, config, progress)
    progress("done", 1.0)
    found = zip(latencies, energies, memories, executed, strict=True)
    measured = iter([Measured(t.position, t.point, *rest) for t, rest in zip(typists, found, strict=True)])
    conditions = {
        "precision": config.precision,
        "queries": config.queries,
        "warm_up": config.warm_up,
        "threads": threads,
        "cpus": cpus,
        "pinned": config.cpus is not None,
        "meter": source.name,
    }
    parts = [_part(one, list(islice(measured, len(one.typists))), text, conditions) for one in models]
    machine = {"before": before.as_json(), "after": after.as_json(), "throttled": was_throttled(before, after)}
    return {
        "kind": "bench",
        "provenance": provenance(),
        "machine": machine,
        "interval": f"{CONFIDENCE:.0%} of the median, bootstrap over turns of about {TURN} queries",
        **parts[0],
        "beside": parts[1:],
    }


def open_to_measure(path: Path, positions: Sequence[Position], text: Text, config: BenchConfig) -> Opened:
    with open_model(path) as file:
        path, trained = file.path, file.description.trained
    predictor = Predictor(path, precision=config.precision, threads=config.threads, cache_bytes=EVERYTHING)
    return Opened(path, predictor.shape, trained, open_points(predictor, positions, text))


def open_points(predictor: Predictor, positions: Sequence[Position], text: Text) -> list[Typist]:
    """A typist for every different point: two positions may mean the same one, which is measured once."""
    pieces, openings = text.pieces(), opening_words(predictor.vocabulary, text)
    if not pieces:
        raise CorpusError(f"the text {text.name} has no words for this model; expected text: give another --data")
    typists: list[Typist] = []
    for position in dict.fromkeys(positions):
        typist = Typist(predictor, position, pieces, openings)
        if not any(typist.point is other.point for other in typists):
            typists.append(typist)
    return typists


def opening_words(vocabulary: Vocabulary, text: Text) -> list[str]:
    """Words of the model that are read as one word, as they stand."""
    words = (word for word in vocabulary.words if word[0].isalpha() and tokenize(word, text.tokenizer) == [word])
    return list(islice(words, OPENINGS)) or [piece for piece in dict.fromkeys(text.pieces()) if piece.strip()]


def measure_latencies(typists: Sequence[Queries], config: BenchConfig, progress: Progress) -> list[list[Floats]]:
    """Milliseconds of every counted query, turn by turn, of every point."""
    for number, typist in enumerate(typists):
        progress(f"warming up {typist.label}", 0.1 * number / len(typists))
        typist.take_turn()
        typist.type(max(1, config.warm_up))
    turns: list[list[Floats]] = [[] for _ in typists]
    sizes = list(turn_sizes(config.queries))
    for count, size in enumerate(sizes):
        progress("measuring milliseconds", 0.1 + 0.5 * count / len(sizes))
        for number in rotated(len(typists), count):
            typists[number].take_turn()
            turns[number].append(typists[number].type(1 + size)[1:])
    return turns


def turn_sizes(queries: int) -> Iterator[int]:
    """How many queries the turns of a point have: small and even, at least two turns, not too many."""
    turns = min(MOST_TURNS, max(2, -(-queries // TURN)))
    for turn in range(turns):
        yield queries * (turn + 1) // turns - queries * turn // turns


def median_interval(turns: Sequence[Floats], level: float = CONFIDENCE, seed: int = 0) -> tuple[float, float]:
    """Percentile bootstrap of the median. Whole turns are drawn: what slows one query slows its neighbours too."""
    random = np.random.default_rng(seed)
    draws = random.integers(len(turns), size=(RESAMPLES, len(turns)))
    medians = [np.median(np.concatenate([turns[turn] for turn in draw])) for draw in draws]
    low, high = np.quantile(medians, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def r_squared(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Pearson's, of three or more different x; None where it has no meaning."""
    if len(set(xs)) < 3 or len(set(ys)) < 2:
        return None
    return float(np.corrcoef(xs, ys)[0, 1] ** 2)


def _measure_energy(
    typists: Sequence[Typist],
    latencies: Sequence[Latency],
    executed: Sequence[dict[str, float]],
    config: BenchConfig,
    source: EnergySource,
    progress: Progress,
) -> list[EnergyPerQuery]:
    progress(f"measuring millijoules ({source.name})", 0.6)

    def work(typist: Typist, latency: Latency, flops: float) -> Work:
        queries = max(1, round(SHORTEST_RUN_MS / max(latency.latency_ms, 1e-3)))

        def run() -> int:
            typist.take_turn()
            return len(typist.type(queries))

        return Work(run, flops, bytes_read(flops, config.precision))

    points = zip(typists, latencies, executed, strict=True)
    works = [work(typist, latency, flops["mean"]) for typist, latency, flops in points]
    return measure_energies(source, works, config.energy)


def _weigh(
    models: Sequence[Opened], text: Text, config: BenchConfig, progress: Progress
) -> list[ResidentMemory | None]:
    pairs = [(one.path, typist) for one in models for typist in one.typists]
    if not config.memory:
        return [None for _ in pairs]
    pieces = text.pieces()
    texts = list(islice(messages(pieces, pieces[:1]), min(MESSAGE, TURN)))
    memories = []
    for number, (path, typist) in enumerate(pairs):
        progress(f"weighing {typist.label}", 0.8 + 0.2 * number / len(pairs))
        knob, point = typist.position.knob, typist.position.point
        memories.append(resident_memory(path, knob, point, config.precision, config.threads, texts))
    return memories


def _part(one: Opened, measured: Sequence[Measured], text: Text, conditions: Mapping[str, Any]) -> dict[str, Any]:
    """What a results file says of one model."""
    rows = [_row(point, one.shape, conditions["precision"]) for point in measured]
    model = {"model": one.path.name, "trained": one.trained, "corpus": text.name, "flops": one.shape.flops}
    return {"subject": {**model, **conditions}, "fit": _fit(rows), "rows": rows}


def _row(one: Measured, shape: ModelShape, precision: Precision) -> dict[str, Any]:
    point, flops = one.point, one.point.cut_shape(shape).flops
    return {
        "label": one.position.label,
        "knob": one.position.knob,
        "point": point.name,
        "criterion": point.criterion,
        "flops": flops,
        "executed_flops": one.executed_flops,
        "flops_fraction": point.flops_fraction,
        "widths": list(point.widths),
        "bytes_read": bytes_read(one.executed_flops["mean"], precision),
        **asdict(one.latency),
        "resident_bytes": one.memory and one.memory.resident_bytes,
        "model_bytes": one.memory and one.memory.model_bytes,
        "energy_mj": one.energy.energy_mj,
        "energy": one.energy.as_json(),
    }


def _fit(rows: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """How well a straight line through FLOPs tells latency, and energy where a meter has resolved every point."""
    flops = [float(row["flops"]) for row in rows]
    measured = all(row["energy"]["resolved"] and not row["energy"]["estimate"] for row in rows)
    return {
        "latency_r_squared": r_squared(flops, [row["latency_ms"] for row in rows]),
        "energy_r_squared": r_squared(flops, [row["energy_mj"] for row in rows]) if measured else None,
    }
