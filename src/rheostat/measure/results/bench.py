"""Results of a bench: the cost of a query at each operating point, and the machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from rheostat.measure.machine import Conditions
from rheostat.measure.meters import EnergyPerQuery
from rheostat.measure.results.shared import LatencyFigures, Origins, Provenance, check_flops, is_measured_model
from rheostat.model.file import ModelFile
from rheostat.model.flops import CostShare
from rheostat.model.knob import BITS, PATH
from rheostat.runtime.engine import EngineName
from rheostat.tables import not_stored, stored_if_set

FEWEST_TO_FIT = 3  # distinct points needed to fit a line
NORMAL_95 = 1.959964  # standard deviations that hold 95 % of a normal distribution


@dataclass(frozen=True)
class BenchSubject:
    """What was measured, and how. trained: False if the model's weights are only good for measuring time. weights:
    their digest; empty in files from before it was recorded.

    threads: of the engine. cpus: those that the program could use; None if the system does not
    say. pinned: whether it was pinned to them. engine: what ran the queries; files from before it was recorded are of
    ONNX Runtime, the only engine then.
    """

    model: str
    trained: bool
    corpus: str
    flops: int
    precision: str
    queries: int
    warm_up: int
    threads: int
    cpus: tuple[int, ...] | None
    pinned: bool
    meter: str
    engine: EngineName = "onnx"
    weights: str = stored_if_set("")
    origins: Origins = field(default_factory=Origins)

    def __post_init__(self) -> None:
        check_flops(self.flops)


@dataclass(frozen=True)
class ExecutedFlops:
    """FLOPs that a query really executes: a lazy output layer leaves clusters closed."""

    mean: float
    worst: int


@dataclass(frozen=True)
class PacedFigures:
    """Latency of queries that come one at a time, each after a pause and with cold caches, never back to back.

    interval_ms: 95 % of the median, by bootstrap over queries.
    """

    latency_ms: float  # median
    interval_ms: tuple[float, float]
    p95_ms: float
    queries: int
    pause_s: float


@dataclass(frozen=True, kw_only=True)
class BenchRow(LatencyFigures, CostShare):
    """The cost of a query at one point. label: of the position asked for.

    point: name of the operating point. ranking: what it was cut by; None for the whole model and for a stored point.
    resident_bytes: memory of a process that runs this point. model_bytes: what the model added to it. Both are None if
    not measured.
    """

    label: str
    knob: float | None
    point: str
    ranking: str | None
    criterion: str
    flops: int
    executed_flops: ExecutedFlops
    flops_fraction: float
    widths: tuple[int, ...]
    bounds: tuple[int, ...] | None = stored_if_set(None)  # filters and words that are read in 8 bits; None: all
    cost_fraction: float | None = stored_if_set(None)  # FLOPs weighted by bits; None: the same as flops_fraction
    bytes_read: int
    resident_bytes: int | None
    model_bytes: int | None
    energy: EnergyPerQuery
    paced: PacedFigures | None = stored_if_set(None)  # noqa: RUF009

    def __post_init__(self) -> None:
        if not (self.flops > 0 and self.flops_fraction > 0):
            raise ValueError(f"has {self.flops} FLOPs, {self.flops_fraction:g} of all; expected numbers above 0")

    @property
    def megabytes_read(self) -> float:
        return self.bytes_read / 1e6

    @property
    def megabytes_held(self) -> float | None:
        """Resident memory of a process that runs this point."""
        return None if self.resident_bytes is None else self.resident_bytes / 1e6

    @property
    def energy_mj(self) -> float | None:
        """The energy if known at all: measured (resolved or not) or estimated."""
        return self.energy.energy_mj

    @property
    def measured_mj(self) -> float | None:
        """Energy that a meter measured and resolved; only this energy counts in verdicts."""
        return self.energy.energy_mj if self.energy.resolved and not self.energy.estimate else None

    @property
    def served_by(self) -> str:
        """What the point was cut by, in words."""
        if not self.criterion:
            return "whole model"
        if self.criterion in (PATH, BITS):
            return "the path" if self.criterion == PATH else "the whole model in 4 bits"
        return f"stored point {self.point}" if self.ranking is None else f"ranking {self.ranking}"


@dataclass(frozen=True)
class Fit:
    """How well a straight line in executed FLOPs predicts each cost; None for fewer than three points, or if not
    measured. Older files hold the fit on static FLOPs, or with rows in 4 bits; readers compute it again (`fit_of`).
    """

    latency_r_squared: float | None
    energy_r_squared: float | None


def rows_to_fit(rows: Sequence[BenchRow]) -> list[BenchRow]:
    """Those with all weights in 8 bits. Fewer bits save time at the same FLOPs, so FLOPs say too little about them."""
    return [row for row in rows if row.bounds is None]


def fit_of(rows: Sequence[BenchRow]) -> Fit:
    """r² of latency with executed FLOPs, and of energy if a meter resolved every point; of rows in 8 bits."""
    rows = rows_to_fit(rows)
    flops = [row.executed_flops.mean for row in rows]
    energies = [row.measured_mj for row in rows if row.measured_mj is not None]
    measured = len(energies) == len(rows)
    return Fit(r_squared(flops, [row.latency_ms for row in rows]), r_squared(flops, energies) if measured else None)


def r_squared(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Pearson's r²; None for fewer than three distinct x, or if it is undefined."""
    if len(set(xs)) < FEWEST_TO_FIT or len(set(ys)) < 2:
        return None
    return float(np.corrcoef(xs, ys)[0, 1] ** 2)


def r_squared_interval(found: float, points: int) -> tuple[float, float]:
    """The 95 % interval of an r² over this many points, by Fisher's transformation; (0, 1) for fewer than four."""
    if points <= FEWEST_TO_FIT:
        return 0.0, 1.0
    z, width = math.atanh(min(math.sqrt(found), 1 - 1e-12)), NORMAL_95 / math.sqrt(points - 3)
    return math.tanh(max(0.0, z - width)) ** 2, math.tanh(z + width) ** 2


@dataclass(frozen=True)
class MachineStates:
    """The state of the machine before and after the measurements. throttled: None if not reported."""

    before: Conditions
    after: Conditions
    throttled: bool | None

    @property
    def hottest_c(self) -> float | None:
        """The hottest sensor after the measurements."""
        return max(self.after.temperatures_c.values(), default=None)

    @property
    def load_averages(self) -> tuple[float, float] | None:
        before, after = self.before.load_average, self.after.load_average
        return None if before is None or after is None else (before, after)


@dataclass(frozen=True)
class BenchPart:
    """The results for one model."""

    subject: BenchSubject
    fit: Fit
    rows: tuple[BenchRow, ...]

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError("has no rows")


@dataclass(frozen=True)
class ModelBench(BenchPart):
    """The same, with its file and machine. is_beside: interleaved with another model's points."""

    path: Path
    provenance: Provenance
    machine: MachineStates
    is_beside: bool

    def label(self, row: BenchRow) -> str:
        """The label of one of its rows, in a table with other models."""
        if not self.is_beside:
            return row.label
        return Path(self.subject.model).stem + ("" if self.subject.trained else " (not trained)")

    @property
    def has_measured_energy(self) -> bool:
        return any(row.measured_mj is not None for row in self.rows)

    @property
    def has_estimated_energy(self) -> bool:
        return any(row.energy.estimate for row in self.rows)


@dataclass(frozen=True)
class BenchResults:
    """One model at many points, and the models interleaved with it. interval: a description of the intervals."""

    kind: ClassVar[str] = "bench"

    provenance: Provenance
    machine: MachineStates
    interval: str
    subject: BenchSubject
    fit: Fit
    rows: tuple[BenchRow, ...]
    beside: tuple[BenchPart, ...] = ()
    path: Path = not_stored(Path())  # noqa: RUF009

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError("has no rows")

    def is_of(self, file: ModelFile) -> bool:
        """Whether this model was measured, and not only beside another one."""
        whole = (row.widths for row in self.rows if row.flops_fraction == 1)
        return is_measured_model(file, self.subject.weights, self.subject.flops, whole)

    def by_model(self) -> list[ModelBench]:
        """One bench per model: the main model first, then those beside it."""
        parts = [BenchPart(self.subject, self.fit, self.rows), *self.beside]
        return [
            ModelBench(part.subject, fit_of(part.rows), part.rows, self.path, self.provenance, self.machine, number > 0)
            for number, part in enumerate(parts)
        ]
