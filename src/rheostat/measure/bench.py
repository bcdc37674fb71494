"""The cost of a query at every operating point: milliseconds, FLOPs, bytes, memory, and millijoules with a meter.

Puts the parts of a run together: `latency` measures time, `meters` measure energy in a second run, `memory` measures
each point in a separate process, and `machine` reports the state of the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np

from rheostat.arguments import check_list, check_whole, checked
from rheostat.errors import RheostatError, visible
from rheostat.measure.latency import (
    CONFIDENCE,
    MOST_QUERIES,
    PAUSE_S,
    TURN,
    BenchPosition,
    Progress,
    Typist,
    latency_figures,
    measure_latencies,
    measure_paced,
    open_points,
)
from rheostat.measure.machine import pinned, read_conditions, usable_cpus, was_throttled
from rheostat.measure.meters import (
    EnergyPerQuery,
    EnergySource,
    Meter,
    Plan,
    Work,
    expected_seconds,
    find_meter,
    measure_energies,
)
from rheostat.measure.meters.energy import SHORTEST_BLOCK_S
from rheostat.measure.resident_memory import ResidentMemory, resident_memory
from rheostat.measure.results import (
    BenchPart,
    BenchResults,
    BenchRow,
    BenchSubject,
    ExecutedFlops,
    LatencyFigures,
    MachineStates,
    Origins,
    Provenance,
    check_results_target,
    engine_title,
    write_results,
)
from rheostat.measure.results.bench import PacedFigures, fit_of
from rheostat.measure.texts import MESSAGE, Text, messages, read_text
from rheostat.model.file import ModelFile, open_model
from rheostat.model.knob import BITS, choose, four_bits
from rheostat.model.operating_point import OperatingPoint
from rheostat.model.precision import Precision, bytes_read
from rheostat.model.shape import ModelShape
from rheostat.model.widths import check_knob
from rheostat.runtime.engine import EngineName, choose_engine
from rheostat.runtime.points import threads_of
from rheostat.runtime.predictor import Predictor
from rheostat.sysfs import SYSTEM_ROOT

KNOBS = (1.0, 0.8, 0.6, 0.4)
BUSY_LOAD = 0.5  # programs that ran on average in the last minute, before the bench starts
COUNTED_QUERIES = 100  # queries whose executed FLOPs are counted
SHORTEST_RUN_MS = 20.0  # of queries between two readings of an energy counter
EVERYTHING = 1 << 62  # room for all points at once, so that rebuilding a point is not measured


@dataclass(frozen=True)
class BenchConfig:
    """queries: timed queries per point. cpus: the CPUs to use; None = all. memory: whether to measure it too.

    engine: None = one that runs all models of the bench, the core if it can. threads: as for `load`.
    """

    queries: int = 350
    warm_up: int = 20
    precision: Precision = "int8"
    threads: int = 0
    cpus: Sequence[int] | None = None
    energy: Plan = field(default_factory=Plan)
    memory: bool = True
    engine: EngineName | None = None
    paced: int = 0  # queries per point that come one at a time, with cold caches; 0 = none

    def __post_init__(self) -> None:
        check_whole("queries", self.queries, 2, MOST_QUERIES)
        check_whole("warm_up", self.warm_up, 0, MOST_QUERIES)
        check_whole("paced", self.paced, 0, MOST_QUERIES)


@dataclass(frozen=True)
class BenchedModel:
    """A model to measure, and its points. trained: False if its weights are only good for measuring time."""

    path: Path
    shape: ModelShape
    trained: bool
    engine: EngineName
    typists: list[Typist]
    weights: str  # their digest
    origins: Origins


@dataclass(frozen=True)
class BenchedPoint:
    """All measurements of one point."""

    position: BenchPosition
    point: OperatingPoint
    latency: LatencyFigures
    energy: EnergyPerQuery
    memory: ResidentMemory | None
    executed_flops: ExecutedFlops
    paced: PacedFigures | None


@checked
def bench(
    model: str | Path,
    *,
    knobs: Sequence[float] = (),
    criteria: Sequence[str] = (),
    points: Sequence[str] = (),
    beside: Sequence[str | Path] = (),
    data: str | None = None,
    queries: int = 350,
    warm_up: int = 20,
    precision: Precision = "int8",
    threads: int = 0,
    cpus: Sequence[int] | None = None,
    meter: str | EnergySource = "auto",
    energy: Plan | None = None,
    memory: bool = True,
    engine: EngineName | None = None,
    paced: int = 0,
    out: str | Path | None = None,
    progress: Progress = lambda label, share: None,
    notice: Callable[[str], None] = lambda message: None,
    on_results: Callable[[BenchResults], None] = lambda results: None,
) -> BenchResults:
    """Measure the cost of a query on this machine, at some knob positions and stored points.

    Without knobs and points: 1, 0.8, 0.6 and 0.4, or the stored points of a model without a ranking. criteria: what to
    cut by at these positions, if not by the file's own choice: criteria of its rankings, "path", or "bits" for the
    whole model in 4 bits. beside: other models, measured whole in the same run, interleaved with these points. data: a
    folder with a test text, a text file, "chat" or "talk"; None for a text that comes with the package. queries: timed
    queries per point. threads: as for `load`. cpus: the CPUs to use; None for all. meter: a name, or an open meter.
    energy: how long to measure it. memory: whether to measure it too. engine: None for the core, or for ONNX Runtime if
    the core cannot run one of the models: all models of a bench run on the same engine. paced: how many queries per
    point also come one at a time, each after a pause and with cold caches, as a keyboard asks. out: the results file to
    write. progress: label, share done. notice: called with what the user should know before the run starts. on_results:
    called before anything is written, so that results are not lost if the file cannot be written.
    """
    config = BenchConfig(queries, warm_up, precision, threads, cpus, energy or Plan(), memory, engine, paced)
    target = None if out is None else check_results_target(out)
    source = find_meter(meter) if isinstance(meter, str) else meter
    with open_model(model) as file:
        text = read_text(data, file.tokenizer, words=config.queries + config.warm_up)
        for other in beside:
            _check_same_words(other, file)
        positions = bench_positions(file, knobs, points, criteria)
    config = replace(config, engine=bench_engine([model, *beside], precision, engine))
    messages = (
        _engine_notice([model, *beside], config),
        _energy_notice(source, config.energy, len(positions) + len(beside)),
        _threads_notice(config),
        busy_notice(read_conditions().load_average),
    )
    for message in filter(None, messages):
        notice(message)
    results = bench_positions_of(model, positions, text, config, source, progress, beside=beside)
    on_results(results)
    if target is not None:
        write_results(target, results)
    return results


def bench_positions(
    file: ModelFile, knobs: Sequence[float] = (), points: Sequence[str] = (), criteria: Sequence[str] = ()
) -> list[BenchPosition]:
    """The positions asked for, or the default ones of a model."""
    check_list("knobs", knobs)
    check_list("points", points)
    check_list("criteria", criteria)
    for knob in knobs:
        check_knob(knob)
    if not knobs and not points:
        ranked = file.description.default_ranking is not None
        knobs = KNOBS if ranked else KNOBS[:1]
        points = [] if ranked else [entry.name for entry in file.description.points]
    for name in points:
        file.point(name)  # raises before anything is measured
    cut_by: list[str | None] = [*criteria] if criteria else [None]
    shares = [
        BenchPosition(share, criterion=criterion)
        for criterion in cut_by
        for share in (knobs if criterion != BITS else [four_bits(file).cost])
    ]
    for position in shares:
        choose(file, position.knob or 1.0, criterion=position.criterion)
    return [*shares, *(BenchPosition(point=name) for name in points)]


def bench_positions_of(
    model: str | Path,
    positions: Sequence[BenchPosition],
    text: Text,
    config: BenchConfig,
    source: EnergySource,
    progress: Progress = lambda label, share: None,
    *,
    beside: Sequence[str | Path] = (),
    system_root: Path = SYSTEM_ROOT,
) -> BenchResults:
    """The same, with positions, text and meter already chosen."""
    progress("opening the model", 0.0)
    config = replace(config, engine=bench_engine([model, *beside], config.precision, config.engine))
    with pinned(config.cpus):
        before = read_conditions(system_root)
        models = [_open(model, positions, text, config)]
        models += [_open(path, [BenchPosition(1.0)], text, config) for path in beside]
        typists = [typist for one in models for typist in one.typists]
        turns = measure_latencies(
            typists, config.queries, config.warm_up, lambda label, share: progress(label, 0.6 * share)
        )
        latencies = [latency_figures(one) for one in turns]
        paced = _paced(typists, config.paced, progress)
        executed = [typist.executed_flops(min(config.queries, COUNTED_QUERIES)) for typist in typists]
        progress(f"measuring millijoules ({source.name})", 0.6)
        energies = _measure_energy(typists, latencies, executed, config, source)
        after = read_conditions(system_root)
        cpus = usable_cpus()
        memories = _measure_memory(models, text, config, progress)
    progress("done", 1.0)
    found = iter(zip(latencies, energies, memories, executed, paced, strict=True))
    parts = []
    for one in models:
        benched = [BenchedPoint(typist.position, typist.point, *next(found)) for typist in one.typists]
        parts.append(_part(one, benched, text, config, cpus, source.name))
    return BenchResults(
        provenance=Provenance.of_this_process(),
        machine=MachineStates(before, after, was_throttled(before, after)),
        interval=f"{CONFIDENCE:.0%} of the median, bootstrap over turns of about {TURN} queries",
        subject=parts[0].subject,
        fit=parts[0].fit,
        rows=parts[0].rows,
        beside=tuple(parts[1:]),
    )


def bench_engine(models: Sequence[str | Path], precision: Precision, wanted: EngineName | None = None) -> EngineName:
    """One engine for all models of a bench, since times on two engines cannot be compared."""
    chosen: list[EngineName] = []
    for path in models:
        with open_model(path) as file:
            chosen.append(choose_engine(file.shape, precision, wanted))
    return "core" if set(chosen) == {"core"} else "onnx"


def _engine_notice(models: Sequence[str | Path], config: BenchConfig) -> str | None:
    """A notice that names the models that decided the engine."""
    if config.engine == "core":
        return None
    needing = [Path(path).name for path in models if bench_engine([path], config.precision) == "onnx"]
    if not needing or len(needing) == len(models):
        return None
    return f"all models run on {engine_title('onnx')}, because the core does not run {', '.join(needing)}"


def _threads_notice(config: BenchConfig) -> str | None:
    """A notice if there are more threads than pinned CPUs."""
    if config.cpus is None or config.threads <= len(config.cpus):
        return None
    return (
        f"{config.threads} threads on {len(config.cpus)} pinned CPUs wait for each other; use "
        f"{len(config.cpus)} or pin more CPUs"
    )


def busy_notice(load_average: float | None) -> str | None:
    """A notice if other programs would disturb the measurement."""
    if load_average is None or load_average < BUSY_LOAD:
        return None
    return f"the machine is busy (load average {load_average:.1f}): times will be too long; stop other programs first"


def _check_same_words(other: str | Path, file: ModelFile) -> None:
    """Both models get the same texts, so they must split them into the same words."""
    with open_model(other) as second:
        if second.tokenizer != file.tokenizer:
            raise RheostatError(
                f"{other} reads text as {second.tokenizer!r}, {file.path} as {file.tokenizer!r}; "
                "expected the same tokenizer: measure it in a separate run"
            )


def _energy_notice(source: EnergySource, plan: Plan, points: int) -> str | None:
    """A notice if the meter is too slow, or makes the run long."""
    if not isinstance(source, Meter):
        return None
    needed_s = round(plan.needed_s(source.period_s), 2)
    meter = f"the meter {source.name} has a new reading every {source.period_s:.3g} s"
    asked = {"block seconds": plan.block_seconds, "idle seconds": plan.idle_seconds}
    short = [f"{option} {seconds:g}" for option, seconds in asked.items() if seconds is not None and seconds < needed_s]
    if short:
        return (
            f"energy will not be resolved: {' and '.join(short)}, but {meter}; "
            f"use at least {needed_s:g} s, or leave the option out"
        )
    if needed_s > SHORTEST_BLOCK_S:
        return f"energy takes about {expected_seconds(source, points, plan) / 60:.0f} min: {meter}"
    return None


def _open(path: str | Path, positions: Sequence[BenchPosition], text: Text, config: BenchConfig) -> BenchedModel:
    predictor = Predictor(
        path, precision=config.precision, threads=config.threads, cache_bytes=EVERYTHING, engine=config.engine
    )
    typists = open_points(predictor, positions, text)
    with open_model(path) as file:
        stored = {entry.name for entry in file.description.points}
        served = [typist.point for typist in typists]
        rankings = [point.ranking for point in served if point.ranking]
        points = [point.name for point in served if not point.ranking and point.name in stored]
        origins = Origins.of(file, rankings, points)
        trained = file.description.trained
        weights = file.weights_digest()
        return BenchedModel(file.path, predictor.shape, trained, predictor.engine, typists, weights, origins)


def _measure_energy(
    typists: Sequence[Typist],
    latencies: Sequence[LatencyFigures],
    executed: Sequence[ExecutedFlops],
    config: BenchConfig,
    source: EnergySource,
) -> list[EnergyPerQuery]:
    def work(typist: Typist, latency: LatencyFigures, flops: float) -> Work:
        queries = max(1, round(SHORTEST_RUN_MS / max(latency.latency_ms, 1e-3)))

        def run() -> int:
            return len(typist.type(queries))

        return Work(run, flops, bytes_read(flops, config.precision))

    points = zip(typists, latencies, executed, strict=True)
    works = [work(typist, latency, flops.mean) for typist, latency, flops in points]
    return measure_energies(source, works, config.energy)


def _paced(typists: Sequence[Typist], queries: int, progress: Progress) -> list[PacedFigures | None]:
    if not queries:
        return [None for _ in typists]
    figures: list[PacedFigures | None] = []
    for times in measure_paced(typists, queries, lambda label, share: progress(label, 0.6)):
        found = latency_figures([np.array([one]) for one in times])  # queries are independent: each is a turn
        figures.append(PacedFigures(found.latency_ms, found.interval_ms, found.p95_ms, found.queries, PAUSE_S))
    return figures


def _measure_memory(
    models: Sequence[BenchedModel], text: Text, config: BenchConfig, progress: Progress
) -> list[ResidentMemory | None]:
    pairs = [(one, typist) for one in models for typist in one.typists]
    if not config.memory:
        return [None for _ in pairs]
    pieces = text.pieces()
    texts = list(islice(messages(pieces, pieces[:1]), min(MESSAGE, TURN)))
    memories = []
    for number, (one, typist) in enumerate(pairs):
        progress(f"measuring the memory of {typist.label}", 0.8 + 0.2 * number / len(pairs))
        knob, point = typist.position.knob, typist.position.point
        memories.append(resident_memory(one.path, knob, point, config.precision, config.threads, texts, one.engine))
    return memories


def _part(
    one: BenchedModel,
    benched: Sequence[BenchedPoint],
    text: Text,
    config: BenchConfig,
    cpus: Sequence[int] | None,
    meter: str,
) -> BenchPart:
    """The part of a results file about one model."""
    rows = tuple(_row(point, one.shape, config.precision) for point in benched)
    subject = BenchSubject(
        model=visible(one.path.name),
        trained=one.trained,
        corpus=text.name,
        flops=one.shape.flops,
        precision=config.precision,
        queries=config.queries,
        warm_up=config.warm_up,
        threads=threads_of(one.shape, config.precision, one.engine, config.threads),
        cpus=None if cpus is None else tuple(cpus),
        pinned=config.cpus is not None,
        meter=meter,
        engine=one.engine,
        weights=one.weights,
        origins=one.origins,
    )
    return BenchPart(subject, fit_of(rows), rows)


def _row(one: BenchedPoint, shape: ModelShape, precision: Precision) -> BenchRow:
    point = one.point
    return BenchRow(
        label=one.position.label,
        knob=one.position.knob,
        point=point.name,
        ranking=point.ranking,
        criterion=point.criterion,
        flops=point.cut_shape(shape).flops,
        executed_flops=one.executed_flops,
        flops_fraction=point.flops_fraction,
        widths=point.widths,
        bounds=point.bounds,
        cost_fraction=point.cost_fraction,
        bytes_read=bytes_read(one.executed_flops.mean * point.cost / point.flops_fraction, precision),
        resident_bytes=one.memory.resident_bytes if one.memory else None,
        model_bytes=one.memory.model_bytes if one.memory else None,
        energy=one.energy,
        paced=one.paced,
        **asdict(one.latency),
    )
