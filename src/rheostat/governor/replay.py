"""Replaying a day: with the real governor, always at full knob, and with prediction off at a low battery.

Latency and energy are estimates: from a table of what queries cost at measured positions, or linear in FLOPs from one
query of the whole model, as the paper found. Each behaviour has its own body (`body`): its queries warm it
and drain its battery, so energy that the governor saves lengthens its day and cools it.
The level of a trace is that of a device that predicts at full cost. Once that battery is empty, the levels of the
others fall by the trace's power.
Knows time as a number; the caller provides the cost of a query.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, pairwise
from typing import Any, Protocol

from rheostat.governor.body import DEFAULT_DEVICE, FORECAST_S, Body, read_body
from rheostat.governor.cost import CostPoint, CostTable, check_cost
from rheostat.governor.device import HEATS, Battery, DeviceState, Heat
from rheostat.governor.governor import Governor
from rheostat.governor.policy import Policy
from rheostat.governor.trace import Row, Trace

SWITCH_OFF_LEVEL = 0.2
OFF = 0.0  # the knob position for no prediction

FlopsShare = Callable[[float], float]


@dataclass(frozen=True)
class FullCost:
    """The cost of one query of the whole model on an idle device, and where the figures come from.

    points: the cost at measured positions, the whole model's among them or above them; without any, it is linear in
    FLOPs.
    """

    latency_ms: float
    energy_mj: float
    latency_source: str
    energy_source: str
    points: tuple[CostPoint, ...] = ()

    def __post_init__(self) -> None:
        check_cost("the latency of the full model", self.latency_ms)
        check_cost("the energy of the full model", self.energy_mj)

    @property
    def table(self) -> CostTable:
        points = self.points or (CostPoint(1.0, self.latency_ms, self.energy_mj),)
        return CostTable(points, self.latency_source)

    @property
    def sources(self) -> str:
        """Where the figures come from, in short."""
        if self.latency_source == self.energy_source:
            return self.latency_source
        return f"{self.latency_source} and {self.energy_source.partition(',')[0]}"

    def describe(self) -> str:
        """A line to print with every figure that is based on this cost."""
        latency = f"{self.latency_ms:.3g} ms ({self.latency_source})"
        energy = f"{self.energy_mj:.3g} mJ ({self.energy_source}) for a query of the whole model"
        if not self.points:
            return f"ESTIMATE: linear in FLOPs from {latency} and {energy}"
        intercept = self.table.at(0, "latency_ms")
        positions = f"{len(self.points)} measured positions, {intercept:.3g} ms of it at any knob"
        return f"ESTIMATE: by {positions}, from {latency} and {energy}"


@dataclass(frozen=True)
class Moment:
    """The end of a row: the knob from then on (0 = off), the time of a query, and what has happened so far.

    level, temperature_c: of this behaviour's own device; None if the trace does not say. queries: served so far.
    """

    time_s: float
    knob: float
    latency_ms: float | None  # None while switched off
    energy_j: float
    level: float | None = None
    temperature_c: float | None = None
    queries: int = 0


@dataclass(frozen=True)
class Totals:
    """battery_share: the model's energy as a share of a full battery.

    light_s, moderate_s, severe_s: time in this heat or hotter; None if not known.
    longest_severe_s: from the first severe reading of the longest spell to the first one that is not.
    emptied_s: when the battery ran out.
    """

    queries_served: int
    queries_lost: int
    energy_j: float
    battery_share: float
    mean_knob: float | None  # over the queries served
    median_latency_ms: float | None  # over the queries served
    p95_latency_ms: float | None
    mean_energy_mj: float | None
    turns: int
    turns_per_hour: float
    light_s: float | None
    moderate_s: float | None
    severe_s: float | None
    longest_severe_s: float | None
    hottest_c: float | None
    final_level: float | None
    emptied_s: float | None


@dataclass(frozen=True)
class Replay:
    """A day under one behaviour."""

    name: str
    moments: tuple[Moment, ...]
    totals: Totals


@dataclass(frozen=True)
class Comparison:
    """The same day under every behaviour; the first is governed, the second always full. device: its body."""

    trace: Trace
    policy: Policy
    cost: FullCost
    replays: tuple[Replay, ...]
    device: str = DEFAULT_DEVICE

    @property
    def energy_saved(self) -> float:
        """The share of the energy of "always full" that the governor saved."""
        governed, full = (replay.totals.energy_j for replay in self.replays[:2])
        return 1 - governed / full if full else 0.0

    @property
    def battery_saved(self) -> float:
        """The same as a share of a full battery: the part that the user notices."""
        governed, full = (replay.totals.battery_share for replay in self.replays[:2])
        return full - governed

    def budgets(self) -> list[dict[str, Any]]:
        """What the policy's budgets asked for, and what the governed queries took."""
        totals = self.replays[0].totals
        pairs = (
            ("latency_ms", self.policy.latency_ms, totals.median_latency_ms),
            ("energy_mj", self.policy.energy_mj, totals.mean_energy_mj),
        )
        return [
            {"budget": name, "asked": asked, "got": got, "got_over_asked": got / asked}
            for name, asked, got in pairs
            if asked is not None and got is not None
        ]

    def summary(self) -> dict[str, Any]:
        """Totals and what they are estimated from, ready for JSON."""
        return {
            "trace": self.trace.name,
            "device": self.device,
            "estimate": asdict(self.cost),
            "energy_saved": self.energy_saved,
            "battery_saved": self.battery_saved,
            "budgets": self.budgets(),
            "behaviours": [{"name": replay.name, **asdict(replay.totals)} for replay in self.replays],
        }


class Behaviour(Protocol):
    """Something that sets the knob during a day."""

    name: str

    @property
    def knob(self) -> float: ...

    def see(self, time_s: float, state: DeviceState) -> None:
        """Read the device at the end of a row."""

    def serve(self, row: Row, latency_ms: float, energy_mj: float) -> None:
        """Note what each of the row's queries cost."""


def compare(
    trace: Trace,
    policy: Policy,
    cost: FullCost,
    share: FlopsShare = lambda knob: knob,
    device: str = DEFAULT_DEVICE,
) -> Comparison:
    """Replay a day under the governor, always full, and switched off when low.

    share: the share of FLOPs that the model really spends at a knob position; by default the position itself. device:
    whose battery and heat, a name in `devices.toml`.
    """
    behaviours, body = (Governed(policy, cost.table), AlwaysFull(), SwitchOff()), read_body(device)
    replays = tuple(replay(trace, one, cost, share, body) for one in behaviours)
    return Comparison(trace, policy, cost, replays, device)


def replay(
    trace: Trace, behaviour: Behaviour, cost: FullCost, share: FlopsShare = lambda knob: knob, body: Body | None = None
) -> Replay:
    """Run one behaviour through a day. The queries of a row are served before its reading is seen."""
    table, device = cost.table, SimulatedDevice(body or read_body(), trace.rows[0], cost.energy_mj / 1000)
    behaviour.see(trace.rows[0].time_s, device.state(trace.rows[0]))
    moments: list[Moment] = []
    served: list[Served] = []
    answered, lost, energy_j = 0, 0, 0.0
    for row in trace.rows:
        spent = share(behaviour.knob) if behaviour.knob else OFF
        spent_j = 0.0
        if not spent or device.is_empty:
            lost += row.queries
        elif row.queries:
            latency_ms, energy_mj = table.at(spent, "latency_ms") * row.busy, table.at(spent, "energy_mj")
            spent_j = row.queries * energy_mj / 1000
            answered += row.queries
            served.append(Served(row.queries, behaviour.knob, latency_ms, energy_mj))
            behaviour.serve(row, latency_ms, energy_mj)
        energy_j += spent_j
        device.advance(row, spent_j)
        behaviour.see(row.time_s, device.state(row))
        is_on = behaviour.knob and not device.is_empty
        expected_ms = table.at(share(behaviour.knob), "latency_ms") * row.busy if is_on else None
        moments.append(
            Moment(row.time_s, behaviour.knob, expected_ms, energy_j, device.level, device.temperature_c, answered)
        )
    return Replay(behaviour.name, tuple(moments), _totals(trace, served, lost, energy_j, moments, device))


class SimulatedDevice:
    """One behaviour's device through a day: its battery level, its temperature, and the time it spent in each heat."""

    def __init__(self, body: Body, first: Row, full_j: float) -> None:
        """full_j: the energy of one query of the whole model, which the recorded level includes."""
        self.body, self._full_j = body, full_j
        self.level, self.temperature_c = first.battery.level, None
        self.emptied_s: float | None = None
        self.hottest_c: float | None = None
        if first.power_w is not None:
            self.temperature_c = self.hottest_c = body.settled_c(first.power_w, first.ambient_c)
        self.above_s = dict.fromkeys(HEATS[1:], 0.0)
        self.knows_heat = first.power_w is not None or first.heat is not None
        self.longest_severe_s = 0.0
        self._severe_since: float | None = None
        self._heat = self._heat_of(first)
        self._rising_k_s, self._time_s, self._saved_j = 0.0, first.time_s, 0.0
        self._recorded = first.battery.level  # the trace's level

    @property
    def is_empty(self) -> bool:
        return self.emptied_s is not None and self.level == 0

    def advance(self, row: Row, spent_j: float) -> None:
        """Advance by one row, in which the model's queries took this energy."""
        seconds = row.time_s - self._time_s
        self._drain(row, spent_j, seconds)
        if row.power_w is not None and self.temperature_c is not None and seconds:
            power_w = 0.0 if self.is_empty else row.power_w + spent_j / seconds
            before = self.temperature_c
            self.temperature_c = self.body.after(before, power_w, row.ambient_c, seconds)
            self.hottest_c = max(self.hottest_c or before, self.temperature_c)
            self._rising_k_s = (self.temperature_c - before) / seconds
        self._time_s = row.time_s
        self._count_heat(self._heat_of(row), seconds)

    def state(self, row: Row) -> DeviceState:
        """What the device reports to an app at the end of a row."""
        told = self.temperature_c is None or self.body.thermometer == "state"
        headroom = forecast = None
        if self.temperature_c is not None and self.body.thermometer == "headroom":
            headroom = self.body.headroom(self.temperature_c)
            forecast = self.body.headroom(self.temperature_c + FORECAST_S * self._rising_k_s)
        return DeviceState(
            Battery(self.level, row.battery.charging),
            row.power_saver,
            self._heat if told else None,
            headroom,
            forecast,
            row.foreground,
        )

    def _drain(self, row: Row, spent_j: float, seconds: float) -> None:
        recorded = row.battery.level
        if recorded is None:
            return
        capacity_j = self.body.battery_j
        was_on, self._recorded = self._recorded is None or self._recorded > 0, recorded
        if was_on:
            self._saved_j += row.queries * self._full_j - spent_j
        else:  # the recorded device was off and drew nothing, this one may still be on
            self._saved_j -= (row.power_w or 0.0) * seconds + spent_j
        # A full battery takes no more, an empty one gives no more.
        self._saved_j = max(-recorded * capacity_j, min(self._saved_j, (1 - recorded) * capacity_j))
        self.level = min(1.0, max(0.0, recorded + self._saved_j / capacity_j))
        if self.level == 0 and not row.battery.charging:
            self.emptied_s = row.time_s if self.emptied_s is None else self.emptied_s

    def _heat_of(self, row: Row) -> Heat | None:
        return row.heat if self.temperature_c is None else self.body.heat(self.temperature_c)

    def _count_heat(self, heat: Heat | None, seconds: float) -> None:
        """Count the time that just passed in the heat that was read at its beginning."""
        for state in HEATS[1:]:
            if self._heat is not None and HEATS.index(self._heat) >= HEATS.index(state):
                self.above_s[state] += seconds
        if self._heat == "severe":
            since = self._time_s - seconds if self._severe_since is None else self._severe_since
            self._severe_since = since
            self.longest_severe_s = max(self.longest_severe_s, self._time_s - since)
        else:
            self._severe_since = None
        self._heat = heat


@dataclass(frozen=True)
class Served:
    """A group of queries with the same cost."""

    queries: int
    knob: float
    latency_ms: float
    energy_mj: float


def _totals(
    trace: Trace,
    served: Sequence[Served],
    lost: int,
    energy_j: float,
    moments: Sequence[Moment],
    device: SimulatedDevice,
) -> Totals:
    queries = sum(group.queries for group in served)
    turns = count_turns(m.knob for m in moments)
    above: dict[Heat, float | None] = dict.fromkeys(HEATS[1:])
    if device.knows_heat:
        above.update(device.above_s)
    return Totals(
        queries_served=queries,
        queries_lost=lost,
        energy_j=energy_j,
        battery_share=energy_j / device.body.battery_j,
        mean_knob=sum(group.queries * group.knob for group in served) / queries if queries else None,
        median_latency_ms=_latency_ms(served, 0.5 * queries),
        p95_latency_ms=_latency_ms(served, 0.95 * queries),
        mean_energy_mj=sum(group.queries * group.energy_mj for group in served) / queries if queries else None,
        turns=turns,
        turns_per_hour=turns / trace.hours if trace.hours else float(turns),
        light_s=above["light"],
        moderate_s=above["moderate"],
        severe_s=above["severe"],
        longest_severe_s=device.longest_severe_s if device.knows_heat else None,
        hottest_c=device.hottest_c,
        final_level=device.level,
        emptied_s=device.emptied_s,
    )


def _latency_ms(served: Sequence[Served], within: float) -> float | None:
    """The time that this many of the queries did not exceed."""
    passed = 0
    for group in sorted(served, key=lambda group: group.latency_ms):
        passed += group.queries
        if passed >= within:
            return group.latency_ms
    return None


def count_turns(knobs: Iterable[float]) -> int:
    """How often the knob changes; it starts at full."""
    return sum(knob != before for before, knob in pairwise(chain([1.0], knobs)))


class Governed:
    """The real governor, with a device and a clock that come from the trace."""

    name = "governed"

    def __init__(self, policy: Policy, table: CostTable) -> None:
        self._time_s, self._reading = -math.inf, DeviceState()
        self._window = policy.latency_window
        self._predictor = _Knob()
        # Only a budget needs the table; the target for the slowest queries is held by what is observed.
        self._governor = Governor(
            self._predictor,
            policy,
            table=table if policy.has_budget else None,
            device=lambda: self._reading,
            clock=lambda: self._time_s,
        )

    @property
    def knob(self) -> float:
        return self._predictor.knob

    def see(self, time_s: float, state: DeviceState) -> None:
        self._time_s, self._reading = time_s, state
        self._governor.update()

    def serve(self, row: Row, latency_ms: float, energy_mj: float) -> None:
        self._time_s = row.time_s
        for _ in range(min(row.queries, self._window)):  # the window holds no more
            self._governor.observe(latency_ms, energy_mj)


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

    def see(self, time_s: float, state: DeviceState) -> None:
        pass

    def serve(self, row: Row, latency_ms: float, energy_mj: float) -> None:
        pass


class SwitchOff:
    """What a battery saver does: prediction is off at this level and below, unless on the charger."""

    name = f"off at {SWITCH_OFF_LEVEL:.0%}"

    def __init__(self) -> None:
        self.knob = 1.0

    def see(self, time_s: float, state: DeviceState) -> None:
        level, charging = state.battery.level, state.battery.charging
        self.knob = OFF if level is not None and level <= SWITCH_OFF_LEVEL and not charging else 1.0

    def serve(self, row: Row, latency_ms: float, energy_mj: float) -> None:
        pass
