"""Results files: writing them, and the only place that reads and tells them apart.

A results file is a JSON object whose `kind` says what measured it: `sweep` (quality at many points), `bench` (cost of a
query), `ngram` (the baseline without a network) or `govern` (a replayed day). Files named `benchmark-….json` hold
figures without a common form. Knows the files' fields and types; what follows from the numbers is for `evidence`,
`claims` and `figures` to say.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from rheostat.durable import replacing
from rheostat.errors import RheostatError
from rheostat.governor.battery import Battery
from rheostat.governor.policy import Policy, Step
from rheostat.governor.replay import Comparison, FullCost, Moment, Replay, Totals
from rheostat.governor.trace import Row as TraceRow
from rheostat.governor.trace import Trace
from rheostat.measure.typing_simulator import KeystrokeCount
from rheostat.model.operating_point import FULL

JsonObject: TypeAlias = dict[str, Any]
EXACT = "fp32"
BENCHMARK_PREFIX = "benchmark-"


def write_results(path: Path, contents: Mapping[str, Any]) -> None:
    """Replace a file as a whole, so that a kill leaves the old one or the new one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write((json.dumps(contents, indent=1, ensure_ascii=False) + "\n").encode())
    except OSError as error:
        raise RheostatError(f"cannot write {path}: {error.strerror}; what it held is intact") from None


# ------------------------------------------------------------------------------------------------- what files hold


@dataclass(frozen=True)
class Point:
    """Measurements at one place of the curve; more than one where a criterion has several rankings (seeds)."""

    criterion: str
    knob: float
    allocation: str
    rows: tuple[JsonObject, ...]

    def values(self, split: str, figure: str) -> list[float]:
        return [row[figure] for row in self.rows if row["split"] == split]

    def mean(self, split: str, figure: str) -> float | None:
        """Over seeds; None where the split was not measured."""
        values = self.values(split, figure)
        return statistics.fmean(values) if values else None

    def test_perplexity(self) -> float:
        """Mean over seeds."""
        return statistics.fmean(self.values("test", "perplexity"))

    @property
    def keystrokes_saved_share(self) -> float | None:
        """Of typing the test text, mean over seeds; None where it was not typed."""
        shares = [row["keystrokes"]["keystrokes_saved_share"] for row in self.rows if "keystrokes" in row]
        return statistics.fmean(shares) if shares else None

    def keystrokes_saved_per_joule(self, query_mj: float) -> float | None:
        """Of typing the test text, where a query costs this; mean over seeds, None where it was not typed."""
        counts = [_keystroke_count(row["keystrokes"]) for row in self.rows if "keystrokes" in row]
        return statistics.fmean(count.saved_per_joule(query_mj) for count in counts) if counts else None

    @property
    def label(self) -> str:
        return str(self.rows[0]["label"])

    @property
    def flops_fraction(self) -> float:
        return statistics.fmean(row["flops_fraction"] for row in self.rows)

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(self.rows[0]["widths"])

    @property
    def update_rank(self) -> int:
        return int(self.rows[0].get("update_rank") or 0)

    @property
    def update_bytes(self) -> int:
        return int(self.rows[0].get("update_bytes") or 0)


def _keystroke_count(found: JsonObject) -> KeystrokeCount:
    return KeystrokeCount(found["keystrokes_typed"], found["keystrokes_needed"], found["words"], found["taken"])


@dataclass(frozen=True)
class SweepResults:
    """One results file of a sweep."""

    path: Path
    subject: JsonObject
    provenance: JsonObject
    points: tuple[Point, ...]

    def curve(self, criterion: str) -> list[Point]:
        """Uniform points of a criterion, whole model first."""
        chosen = [p for p in self.points if p.allocation == "uniform" and p.criterion in (criterion, "")]
        return sorted(chosen, key=lambda point: -point.knob)

    def test_figures(self, criterion: str) -> list[JsonObject]:
        """What the test text says of each point of a curve, whole model first."""
        figures = []
        for point in self.curve(criterion):
            if point.values("test", "perplexity"):
                quality = {"perplexity": point.test_perplexity(), "recall_at_3": point.mean("test", "recall_at_3")}
                saved = {"keystrokes_saved_share": point.keystrokes_saved_share}
                figures.append({"flops_fraction": point.flops_fraction, **quality, **saved})
        return figures

    @property
    def precision(self) -> str:
        """Files of the exact precision do not name it."""
        return str(self.subject.get("precision", EXACT))

    @property
    def criteria(self) -> list[str]:
        return sorted({point.criterion for point in self.points} - {""})


@dataclass(frozen=True)
class BenchRow:
    """What a query costs at one point.

    energy_mj: None if not measured; estimate: it was not measured but computed; resolved: the meter could tell it.
    resident_bytes: of a process that serves this point; None where it was not weighed.
    """

    label: str
    criterion: str
    flops: int
    flops_fraction: float
    widths: tuple[int, ...]
    bytes_read: int
    latency_ms: float
    interval_ms: tuple[float, float]
    p95_ms: float
    energy_mj: float | None
    interval_mj: tuple[float, float] | None
    estimate: bool
    resolved: bool
    resident_bytes: int | None = None

    @property
    def measured_mj(self) -> float | None:
        """Energy that a meter has read and resolved: the only energy that decides anything."""
        return self.energy_mj if self.resolved and not self.estimate else None


@dataclass(frozen=True)
class MachineState:
    """What a machine said of itself around a bench; None or empty where it told nothing.

    load_average: processes that wanted a CPU, before and after. governors: what decides on the clock of the CPUs.
    """

    load_average: tuple[float, float] | None = None
    governors: tuple[str, ...] = ()
    throttled: bool | None = None


@dataclass(frozen=True)
class BenchResults:
    """What a bench found of one model. latency_r_squared, energy_r_squared: with FLOPs, as the bench found them.

    A file holds one model at many points, and those that were measured beside it.
    """

    path: Path
    subject: JsonObject
    provenance: JsonObject
    rows: tuple[BenchRow, ...]
    latency_r_squared: float | None
    energy_r_squared: float | None
    is_beside: bool = False
    machine: MachineState = MachineState()

    @property
    def trained(self) -> bool:
        return bool(self.subject.get("trained", True))

    @property
    def has_measured_energy(self) -> bool:
        return any(row.measured_mj is not None for row in self.rows)


@dataclass(frozen=True)
class NGramResults:
    """One results file of an n-gram baseline. kenlm_perplexity: of the test text, where kenlm was asked."""

    path: Path
    subject: JsonObject
    provenance: JsonObject
    valid_perplexity: float
    test_perplexity: float
    recall_at_3: float
    latency_ms: float
    keystrokes_saved_share: float
    kenlm_perplexity: float | None

    @property
    def name(self) -> str:
        return f"{self.subject['model']}, {self.subject['smoothing']}"


@dataclass(frozen=True)
class Day:
    """A replayed day of the governor."""

    path: Path
    provenance: JsonObject
    comparison: Comparison


@dataclass(frozen=True)
class Figures:
    """Numbers of a file without a common form, by their place in it."""

    path: Path
    provenance: JsonObject
    values: dict[str, float]


@dataclass(frozen=True)
class Skipped:
    path: Path
    reason: str


@dataclass(frozen=True)
class Collection:
    """All that some results files hold, in the order they were given."""

    sweeps: tuple[SweepResults, ...] = ()
    benches: tuple[BenchResults, ...] = ()
    ngrams: tuple[NGramResults, ...] = ()
    days: tuple[Day, ...] = ()
    figures: tuple[Figures, ...] = ()
    skipped: tuple[Skipped, ...] = ()


# -------------------------------------------------------------------------------------------------------- reading


def read_all(paths: Sequence[Path]) -> Collection:
    """Every file by its kind. One of another kind is skipped and named; one that cannot be read is an error."""
    found: list[object] = [one for path in dict.fromkeys(paths) for one in _read(path)]
    return Collection(
        tuple(one for one in found if isinstance(one, SweepResults)),
        tuple(one for one in found if isinstance(one, BenchResults)),
        tuple(one for one in found if isinstance(one, NGramResults)),
        tuple(one for one in found if isinstance(one, Day)),
        tuple(one for one in found if isinstance(one, Figures)),
        tuple(one for one in found if isinstance(one, Skipped)),
    )


def read_sweep(path: Path) -> SweepResults:
    """A results file of a sweep; rows of one criterion at one knob are put together."""
    found = _read(path)[0]
    if not isinstance(found, SweepResults):
        raise RheostatError(f"{path} is not a results file of a sweep; expected one that `rheostat sweep` wrote")
    return found


def _read(path: Path) -> Sequence[SweepResults | BenchResults | NGramResults | Day | Figures | Skipped]:
    contents = _contents(path)
    kind = contents.get("kind") if isinstance(contents, dict) else None
    try:
        match kind:
            case "sweep":
                return [_sweep(path, contents)]
            case "bench":
                return [_bench(path, contents, part) for part in (contents, *contents.get("beside", ()))]
            case "ngram":
                return [_ngram(path, contents)]
            case "govern":
                return [_day(path, contents)]
        if path.name.startswith(BENCHMARK_PREFIX) and isinstance(contents, dict):
            return [Figures(path, _provenance(contents), _numbers(contents))]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RheostatError) as error:
        what = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise RheostatError(
            f"{path} ({kind or 'a benchmark'}): {what}; expected a results file as the program writes it: measure again"
        ) from None
    reason = "it has no kind" if kind is None else f"its kind {kind!r} is not one that is reported"
    return [Skipped(path, reason)]


def _contents(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RheostatError(f"cannot read {path}: {error.strerror}; expected a results file") from None
    except ValueError as error:
        raise RheostatError(f"{path} is not JSON ({error}); expected a results file of the program") from None


def _sweep(path: Path, contents: JsonObject) -> SweepResults:
    groups: dict[tuple[str, float, str], list[JsonObject]] = {}
    for row in contents["rows"]:
        label = "" if row["allocation"] == "uniform" else row["label"]
        key = (row["criterion"] if row["label"] != FULL else "", row["knob"], row["allocation"] + label)
        _check_numbers(row, "flops_fraction", "perplexity", "recall_at_3")
        groups.setdefault(key, []).append({"widths": [], **row})
    points = tuple(Point(key[0], key[1], group[0]["allocation"], tuple(group)) for key, group in groups.items())
    subject = dict(contents["subject"])
    _check_subject(subject)
    return SweepResults(path, subject, _provenance(contents), points)


def _bench(path: Path, contents: JsonObject, part: JsonObject) -> BenchResults:
    """part: of one model; the machine is the same for all."""
    subject, fit = dict(part["subject"]), part["fit"]
    _check_subject(subject)
    rows = tuple(_bench_row(row) for row in part["rows"])
    if not rows:
        raise ValueError("has no rows")
    fits = (fit["latency_r_squared"], fit["energy_r_squared"])
    machine = _machine_state(contents.get("machine", {}))
    return BenchResults(path, subject, _provenance(contents), rows, *fits, part is not contents, machine)


def _machine_state(machine: JsonObject) -> MachineState:
    before, after = machine.get("before", {}), machine.get("after", {})
    loads = [moment.get("load_average") for moment in (before, after)]
    return MachineState(
        load_average=None if None in loads else (loads[0], loads[1]),
        governors=tuple(after.get("governors", ())),
        throttled=machine.get("throttled"),
    )


def _bench_row(row: JsonObject) -> BenchRow:
    energy = row["energy"]
    _check_numbers(row, "flops", "flops_fraction", "latency_ms", "p95_ms", "bytes_read")
    interval = energy.get("interval_mj")
    return BenchRow(
        label=str(row["label"]),
        criterion=str(row["criterion"]),
        flops=row["flops"],
        flops_fraction=row["flops_fraction"],
        widths=tuple(row["widths"]),
        bytes_read=row["bytes_read"],
        latency_ms=row["latency_ms"],
        interval_ms=(row["interval_ms"][0], row["interval_ms"][1]),
        p95_ms=row["p95_ms"],
        energy_mj=row["energy_mj"],
        interval_mj=(interval[0], interval[1]) if interval else None,
        estimate=bool(energy["estimate"]),
        resolved=bool(energy["resolved"]),
        resident_bytes=row.get("resident_bytes"),
    )


def _ngram(path: Path, contents: JsonObject) -> NGramResults:
    subject, kenlm = dict(contents["subject"]), contents.get("kenlm_perplexity")
    for name in ("model", "smoothing", "corpus"):
        if not isinstance(subject[name], str):
            raise ValueError(f"its subject's {name} is {subject[name]!r}")
    _check_numbers(subject, "size_bytes", "order")
    rows = {row["split"]: row for row in contents["rows"]}
    for row in rows.values():
        _check_numbers(row, "perplexity", "recall_at_3")
    _check_numbers(contents["latency"], "latency_ms")
    _check_numbers(contents["keystrokes"], "keystrokes_saved_share")
    return NGramResults(
        path=path,
        subject=subject,
        provenance=_provenance(contents),
        valid_perplexity=rows["valid"]["perplexity"],
        test_perplexity=rows["test"]["perplexity"],
        recall_at_3=rows["test"]["recall_at_3"],
        latency_ms=contents["latency"]["latency_ms"],
        keystrokes_saved_share=contents["keystrokes"]["keystrokes_saved_share"],
        kenlm_perplexity=kenlm,
    )


def _day(path: Path, contents: JsonObject) -> Day:
    """The comparison as it was replayed; queries of single rows are not in the file, and no figure needs them."""
    series = contents["series"]
    readings = zip(series["time_s"], series["level"], series["charging"], strict=True)
    trace = Trace(contents["trace"], tuple(TraceRow(time, Battery(level, on), 0) for time, level, on in readings))
    policy = {**contents["policy"], "when": tuple(Step(**step) for step in contents["policy"]["when"])}
    replays = tuple(_replay(totals, series) for totals in contents["behaviours"])
    comparison = Comparison(trace, Policy(**policy), FullCost(**contents["estimate"]), replays)
    return Day(path, _provenance(contents), comparison)


def _replay(behaviour: JsonObject, series: JsonObject) -> Replay:
    name, own = behaviour["name"], series[behaviour["name"]]
    columns = zip(series["time_s"], own["knob"], own["latency_ms"], own["energy_j"], strict=True)
    totals = Totals(**{key: value for key, value in behaviour.items() if key != "name"})
    return Replay(name, tuple(Moment(*values) for values in columns), totals)


def _numbers(value: Any, place: str = "") -> dict[str, float]:
    """Every number below, by its place: `sizes.0.tokens`; where it comes from is not one of them."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {place: value}
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found: dict[str, float] = {}
    for key, item in items:
        if key != "provenance":
            found |= _numbers(item, f"{place}.{key}" if place else str(key))
    return found


def _provenance(contents: JsonObject) -> JsonObject:
    """Where it comes from, with all that a report says of it."""
    origin = dict(contents["provenance"])
    for part, names in ((origin, ("command", "commit", "date")), (origin["machine"], ("processor", "cores"))):
        if missing := [name for name in names if name not in part]:
            raise KeyError(f"provenance: {missing[0]}")
    return origin


def _check_subject(subject: JsonObject) -> None:
    for name, kind in (("model", str), ("corpus", str), ("flops", int)):
        if not isinstance(subject[name], kind):
            raise ValueError(f"its subject's {name} is {subject[name]!r}")


def _check_numbers(row: JsonObject, *names: str) -> None:
    for name in names:
        if not isinstance(row[name], int | float) or isinstance(row[name], bool) or not math.isfinite(row[name]):
            raise ValueError(f"a row's {name} is {row[name]!r}")
