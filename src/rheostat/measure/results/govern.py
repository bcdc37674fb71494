"""Results of a replayed day: the governor compared with other behaviours, as totals and over time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rheostat.governor.battery import Battery
from rheostat.governor.policy import Policy
from rheostat.governor.replay import Comparison, FullCost, Moment, Replay, Totals
from rheostat.governor.trace import Row, Trace
from rheostat.measure.results.shared import OriginJson, Provenance
from rheostat.tables import not_stored


@dataclass(frozen=True)
class RecordedDay:
    """The trace, with one value per row. Queries of single rows are not kept, because no figure needs them."""

    name: str
    time_s: tuple[float, ...]
    level: tuple[float | None, ...]
    charging: tuple[bool | None, ...]


@dataclass(frozen=True)
class BehaviourSeries:
    """One value per row of the trace. latency_ms: None while prediction is off. energy_j: cumulative."""

    knob: tuple[float, ...]
    latency_ms: tuple[float | None, ...]
    energy_j: tuple[float, ...]


@dataclass(frozen=True)
class BehaviourResults:
    name: str
    totals: Totals
    series: BehaviourSeries


@dataclass(frozen=True)
class GovernResults:
    """model: whose points were counted. weights: how it was made. Both are None if costs follow the knob exactly."""

    kind: ClassVar[str] = "govern"

    provenance: Provenance
    model: str | None
    weights: OriginJson | None
    estimate: FullCost
    energy_saved: float
    policy: Policy
    trace: RecordedDay
    behaviours: tuple[BehaviourResults, ...]
    path: Path = not_stored(Path())  # noqa: RUF009

    @classmethod
    def of(cls, comparison: Comparison, model: str | None, weights: OriginJson | None) -> GovernResults:
        rows = comparison.trace.rows
        day = RecordedDay(
            comparison.trace.name,
            tuple(row.time_s for row in rows),
            tuple(row.battery.level for row in rows),
            tuple(row.battery.charging for row in rows),
        )
        behaviours = tuple(_behaviour(one) for one in comparison.replays)
        facts = (comparison.cost, comparison.energy_saved, comparison.policy, day, behaviours)
        return cls(Provenance.of_this_process(), model, weights, *facts)

    @property
    def comparison(self) -> Comparison:
        """The comparison that these results were made from."""
        readings = zip(self.trace.time_s, self.trace.level, self.trace.charging, strict=True)
        rows = tuple(Row(time_s, Battery(level, charging), 0) for time_s, level, charging in readings)
        replays = tuple(self._replay(one) for one in self.behaviours)
        return Comparison(Trace(self.trace.name, rows), self.policy, self.estimate, replays)

    def _replay(self, one: BehaviourResults) -> Replay:
        columns = (self.trace.time_s, one.series.knob, one.series.latency_ms, one.series.energy_j)
        return Replay(one.name, tuple(Moment(*values) for values in zip(*columns, strict=True)), one.totals)


def _behaviour(one: Replay) -> BehaviourResults:
    series = BehaviourSeries(
        tuple(moment.knob for moment in one.moments),
        tuple(moment.latency_ms for moment in one.moments),
        tuple(moment.energy_j for moment in one.moments),
    )
    return BehaviourResults(one.name, one.totals, series)
