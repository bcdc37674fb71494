"""Results of a replayed day: the governor compared with other behaviours, as totals and over time.

The series are thinned to a few hundred moments and five digits, which is what a picture shows; the totals are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from rheostat.governor.body import Body, read_body
from rheostat.governor.device import Battery
from rheostat.governor.policy import Policy
from rheostat.governor.replay import Comparison, FullCost, Moment, Replay, Totals
from rheostat.governor.trace import Row, Trace
from rheostat.measure.results.shared import OriginJson, Provenance
from rheostat.tables import not_stored

MOST_MOMENTS = 240
DIGITS = 5


@dataclass(frozen=True)
class ReplayedTrace:
    """The trace at the moments of the series. note: where it comes from. hours: of the whole trace."""

    name: str
    note: str
    hours: float
    time_s: tuple[float, ...]
    level: tuple[float | None, ...]
    charging: tuple[bool | None, ...]

    @property
    def columns(self) -> tuple[tuple[object, ...], ...]:
        return self.level, self.charging


@dataclass(frozen=True)
class BehaviourSeries:
    """One value per moment. latency_ms: None while prediction is off. energy_j, queries: so far."""

    knob: tuple[float, ...]
    latency_ms: tuple[float | None, ...]
    energy_j: tuple[float, ...]
    level: tuple[float | None, ...]
    temperature_c: tuple[float | None, ...]
    queries: tuple[int, ...]

    @property
    def columns(self) -> tuple[tuple[Any, ...], ...]:
        """In the order of a moment's fields."""
        return self.knob, self.latency_ms, self.energy_j, self.level, self.temperature_c, self.queries


@dataclass(frozen=True)
class BehaviourResults:
    name: str
    totals: Totals
    series: BehaviourSeries


@dataclass(frozen=True)
class BudgetOutcome:
    """budget: latency_ms (of the median query) or energy_mj (of the mean one)."""

    budget: str
    asked: float
    got: float
    got_over_asked: float


@dataclass(frozen=True)
class GovernResults:
    """model: whose points were counted. weights: how it was made. Both are None if costs follow the knob exactly."""

    kind: ClassVar[str] = "govern"

    provenance: Provenance
    model: str | None
    weights: OriginJson | None
    device: str
    body: Body
    estimate: FullCost
    energy_saved: float
    policy: Policy
    trace: ReplayedTrace
    behaviours: tuple[BehaviourResults, ...]
    budgets: tuple[BudgetOutcome, ...] = ()
    path: Path = not_stored(Path())  # noqa: RUF009

    def __post_init__(self) -> None:
        moments = len(self.trace.time_s)
        columns = (*self.trace.columns, *(column for one in self.behaviours for column in one.series.columns))
        if any(len(column) != moments for column in columns):
            raise ValueError(f"its series differ in length; expected {moments} moments in each, as in its trace")

    @classmethod
    def of(cls, comparison: Comparison, model: str | None, weights: OriginJson | None) -> GovernResults:
        kept = thinned(len(comparison.trace.rows))
        rows = [comparison.trace.rows[index] for index in kept]
        day = ReplayedTrace(
            comparison.trace.name,
            comparison.trace.note,
            comparison.trace.hours,
            tuple(row.time_s for row in rows),
            tuple(row.battery.level for row in rows),
            tuple(row.battery.charging for row in rows),
        )
        return cls(
            Provenance.of_this_process(),
            model,
            weights,
            comparison.device,
            read_body(comparison.device),
            comparison.cost,
            comparison.energy_saved,
            comparison.policy,
            day,
            tuple(_behaviour(one, kept) for one in comparison.replays),
            tuple(BudgetOutcome(**one) for one in comparison.budgets()),
        )

    @property
    def comparison(self) -> Comparison:
        """The comparison that these results were made from, at the moments that were kept."""
        readings = zip(self.trace.time_s, self.trace.level, self.trace.charging, strict=True)
        rows = tuple(Row(time_s, Battery(level, charging), 0) for time_s, level, charging in readings)
        replays = tuple(self._replay(one) for one in self.behaviours)
        return Comparison(
            Trace(self.trace.name, rows, self.trace.note), self.policy, self.estimate, replays, self.device
        )

    def _replay(self, one: BehaviourResults) -> Replay:
        moments = zip(self.trace.time_s, *one.series.columns, strict=True)
        return Replay(one.name, tuple(Moment(*values) for values in moments), one.totals)


def thinned(moments: int) -> list[int]:
    """Which moments are kept: all, or evenly spaced ones with the first and the last."""
    if moments <= MOST_MOMENTS:
        return list(range(moments))
    return [round(place * (moments - 1) / (MOST_MOMENTS - 1)) for place in range(MOST_MOMENTS)]


def _behaviour(one: Replay, kept: Sequence[int]) -> BehaviourResults:
    moments = [one.moments[index] for index in kept]
    series = BehaviourSeries(
        tuple(moment.knob for moment in moments),
        tuple(_short(moment.latency_ms) for moment in moments),
        tuple(_short(moment.energy_j) or 0.0 for moment in moments),
        tuple(_short(moment.level) for moment in moments),
        tuple(_short(moment.temperature_c) for moment in moments),
        tuple(moment.queries for moment in moments),
    )
    return BehaviourResults(one.name, one.totals, series)


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")
