"""Results of a bench: what a query costs at each operating point, and on which machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from rheostat.measure.machine import Conditions
from rheostat.measure.meters import EnergyPerQuery
from rheostat.measure.results.shared import LatencyFigures, Origins, Provenance
from rheostat.runtime.engine import EngineName
from rheostat.tables import not_stored


@dataclass(frozen=True)
class BenchSubject:
    """What was measured, and how. trained: whether the model's weights are worth more than their time.

    threads: of the engine; the core runs on one. cpus: those that the program could use; None if the system does not
    say. pinned: whether it was kept on them. engine: what ran the queries; files from before it was recorded are of
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
    origins: Origins = field(default_factory=Origins)


@dataclass(frozen=True)
class ExecutedFlops:
    """Of a query: a lazy output layer leaves clusters closed."""

    mean: float
    worst: int


@dataclass(frozen=True, kw_only=True)
class BenchRow(LatencyFigures):
    """What a query costs at one point. label: of the position that was asked for.

    point: name of the operating point. ranking: that it was cut by, None of the whole model and of a stored point.
    resident_bytes: of a process that serves this point, model_bytes: what the model added to it; None if that was
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
    bytes_read: int
    resident_bytes: int | None
    model_bytes: int | None
    energy: EnergyPerQuery

    @property
    def flops_millions(self) -> float:
        return self.flops / 1e6

    @property
    def megabytes_read(self) -> float:
        return self.bytes_read / 1e6

    @property
    def megabytes_held(self) -> float | None:
        """By a process that serves this point."""
        return None if self.resident_bytes is None else self.resident_bytes / 1e6

    @property
    def energy_mj(self) -> float | None:
        """Whatever is known of it: measured, resolved or not, or an estimate."""
        return self.energy.energy_mj

    @property
    def measured_mj(self) -> float | None:
        """Energy that a meter has read and resolved: the only energy that decides anything."""
        return self.energy.energy_mj if self.energy.resolved and not self.energy.estimate else None

    @property
    def served_by(self) -> str:
        """What the point was cut by, in words."""
        if not self.criterion:
            return "whole model"
        return f"stored point {self.point}" if self.ranking is None else f"ranking {self.ranking}"


@dataclass(frozen=True)
class Fit:
    """How well a straight line through FLOPs predicts a cost; None for fewer than three points, or without a cost."""

    latency_r_squared: float | None
    energy_r_squared: float | None


@dataclass(frozen=True)
class MachineStates:
    """What the machine said about itself around the measurements. throttled: None if it does not tell."""

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
    """What was found about one model."""

    subject: BenchSubject
    fit: Fit
    rows: tuple[BenchRow, ...]

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError("has no rows")


@dataclass(frozen=True)
class ModelBench(BenchPart):
    """The same, with the file and the machine it comes from. is_beside: interleaved with another model's points."""

    path: Path
    provenance: Provenance
    machine: MachineStates
    is_beside: bool

    def label(self, row: BenchRow) -> str:
        """Of one of its rows, in a table with other models."""
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
    """One model at many points, and the models that were interleaved with it. interval: what the intervals are."""

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

    def by_model(self) -> list[ModelBench]:
        """The model that was asked for first."""
        parts = [BenchPart(self.subject, self.fit, self.rows), *self.beside]
        return [
            ModelBench(part.subject, part.fit, part.rows, self.path, self.provenance, self.machine, number > 0)
            for number, part in enumerate(parts)
        ]
