"""Replaying a recorded day: with the real governor, always at full knob, and with prediction off at a low battery.

Latency and energy are estimates: linear in FLOPs, as the paper found, and scaled from one query of the whole model. All
three see the recorded battery level, so saved energy does not make the battery last longer here.
Knows time as a number; the caller provides the cost of the whole model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, pairwise
from typing import Any, Protocol

from rheostat.errors import RheostatError
from rheostat.governor.battery import PLUGGED_IN, Battery
from rheostat.governor.governor import Governor
from rheostat.governor.policy import Policy
from rheostat.governor.trace import Row, Trace

SWITCH_OFF_LEVEL = 0.2
OFF = 0.0  # a knob that serves nothing

FlopsShare = Callable[[float], float]


@dataclass(frozen=True)
class FullCost:
    """The cost of one query of the whole model on an idle device, and where the figures come from."""

    latency_ms: float
    energy_mj: float
    latency_source: str
    energy_source: str

    def __post_init__(self) -> None:
        for name, value in (("latency", self.latency_ms), ("energy", self.energy_mj)):
            if not 0 < value < math.inf:
                raise RheostatError(f"the {name} of the full model is {value}; expected a number above 0")

    def describe(self) -> str:
        """A line to print with every figure that is based on this cost."""
        return (
            f"ESTIMATE: linear in FLOPs from {self.latency_ms:g} ms ({self.latency_source}) and "
            f"{self.energy_mj:g} mJ ({self.energy_source}) for a query of the whole model"
        )


@dataclass(frozen=True)
class Moment:
    """The end of a row: the knob from then on (0 = off), the time of a query, and the energy used so far."""

    time_s: float
    knob: float
    latency_ms: float | None  # None while switched off
    energy_j: float


@dataclass(frozen=True)
class Totals:
    queries_served: int
    queries_lost: int
    energy_j: float
    mean_knob: float | None  # over the queries served
    p95_latency_ms: float | None  # over the queries served
    turns: int


@dataclass(frozen=True)
class Replay:
    """A day under one behaviour."""

    name: str
    moments: tuple[Moment, ...]
    totals: Totals


@dataclass(frozen=True)
class Comparison:
    """The same day under every behaviour; the first is governed, the second always full."""

    trace: Trace
    policy: Policy
    cost: FullCost
    replays: tuple[Replay, ...]

    @property
    def energy_saved(self) -> float:
        """The share of the energy of "always full" that the governor saved."""
        governed, full = (replay.totals.energy_j for replay in self.replays[:2])
        return 1 - governed / full if full else 0.0

    def summary(self) -> dict[str, Any]:
        """Totals and what they are estimated from, ready for JSON."""
        return {
            "trace": self.trace.name,
            "estimate": asdict(self.cost),
            "energy_saved": self.energy_saved,
            "behaviours": [{"name": replay.name, **asdict(replay.totals)} for replay in self.replays],
        }


class Behaviour(Protocol):
    """Something that sets the knob during a day."""

    name: str

    @property
    def knob(self) -> float: ...

    def see(self, row: Row) -> None:
        """Read the battery at the end of this row."""

    def serve(self, row: Row, latency_ms: float) -> None:
        """Note that each of the row's queries took this long."""


def compare(trace: Trace, policy: Policy, cost: FullCost, share: FlopsShare = lambda knob: knob) -> Comparison:
    """Replay a day under the governor, always full, and switched off when low.

    share: the share of FLOPs that the model really spends at a knob position; by default the position itself.
    """
    behaviours = (Governed(policy), AlwaysFull(), SwitchOff())
    return Comparison(trace, policy, cost, tuple(replay(trace, one, cost, share) for one in behaviours))


def replay(trace: Trace, behaviour: Behaviour, cost: FullCost, share: FlopsShare = lambda knob: knob) -> Replay:
    """Run one behaviour through a day. The queries of a row are served before its battery reading is seen."""
    behaviour.see(trace.rows[0])
    moments: list[Moment] = []
    served: list[Served] = []
    lost, energy_j = 0, 0.0
    for row in trace.rows:
        if behaviour.knob == OFF:
            lost += row.queries
        elif row.queries:
            spent = share(behaviour.knob)
            latency_ms = cost.latency_ms * spent * row.busy
            energy_j += row.queries * cost.energy_mj * spent / 1000
            served.append(Served(row.queries, behaviour.knob, latency_ms))
            behaviour.serve(row, latency_ms)
        behaviour.see(row)
        expected_ms = cost.latency_ms * share(behaviour.knob) * row.busy if behaviour.knob else None
        moments.append(Moment(row.time_s, behaviour.knob, expected_ms, energy_j))
    return Replay(behaviour.name, tuple(moments), _totals(served, lost, energy_j, moments))


@dataclass(frozen=True)
class Served:
    """A group of queries with the same cost."""

    queries: int
    knob: float
    latency_ms: float


def _totals(served: Sequence[Served], lost: int, energy_j: float, moments: Sequence[Moment]) -> Totals:
    queries = sum(group.queries for group in served)
    mean_knob = sum(group.queries * group.knob for group in served) / queries if queries else None
    return Totals(queries, lost, energy_j, mean_knob, _p95_ms(served, queries), count_turns(m.knob for m in moments))


def _p95_ms(served: Sequence[Served], queries: int) -> float | None:
    passed = 0
    for group in sorted(served, key=lambda group: group.latency_ms):
        passed += group.queries
        if passed >= 0.95 * queries:
            return group.latency_ms
    return None


def count_turns(knobs: Iterable[float]) -> int:
    """How often the knob changes; it starts at full."""
    return sum(knob != before for before, knob in pairwise(chain([1.0], knobs)))


class Governed:
    """The real governor, with a battery and a clock that come from the trace."""

    name = "governed"

    def __init__(self, policy: Policy) -> None:
        self._time_s, self._reading = 0.0, PLUGGED_IN
        self._window = policy.latency_window
        self._predictor = _Knob()
        self._governor = Governor(self._predictor, policy, battery=self._battery, clock=lambda: self._time_s)

    @property
    def knob(self) -> float:
        return self._predictor.knob

    def see(self, row: Row) -> None:
        self._time_s, self._reading = row.time_s, row.battery
        self._governor.update()

    def serve(self, row: Row, latency_ms: float) -> None:
        self._time_s = row.time_s
        for _ in range(min(row.queries, self._window)):  # the window holds no more
            self._governor.observe(latency_ms)

    def _battery(self) -> Battery:
        return self._reading


class _Knob:
    """A stand-in for a predictor that only remembers its knob."""

    def __init__(self) -> None:
        self.knob = 1.0

    def turn(self, knob: float, *, wait: bool) -> None:
        self.knob = knob


class AlwaysFull:
    """A keyboard without a knob."""

    name = "always full"
    knob = 1.0

    def see(self, row: Row) -> None:
        pass

    def serve(self, row: Row, latency_ms: float) -> None:
        pass


class SwitchOff:
    """What a battery saver does: prediction is off at this level and below, unless on the charger."""

    name = f"off at {SWITCH_OFF_LEVEL:.0%}"

    def __init__(self) -> None:
        self.knob = 1.0

    def see(self, row: Row) -> None:
        level, charging = row.battery.level, row.battery.charging
        self.knob = OFF if level is not None and level <= SWITCH_OFF_LEVEL and not charging else 1.0

    def serve(self, row: Row, latency_ms: float) -> None:
        pass
