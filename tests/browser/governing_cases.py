"""Decisions of the Python governor, for the page's JavaScript: random situations and the traces' days."""

from __future__ import annotations

import random
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from rheostat.governor.body import read_body
from rheostat.governor.cost import CostPoint, CostTable
from rheostat.governor.decision import Decision, Situation, decide
from rheostat.governor.device import HEATS, Battery
from rheostat.governor.policy import Policy, Step, read_policy
from rheostat.governor.replay import SimulatedDevice
from rheostat.governor.trace import read_trace
from rheostat.keyboard.governing import decision_json
from rheostat.tables import to_json

TRACES = Path(__file__).parents[1] / "data" / "traces"
RUN = 40  # situations in a row
DEVICES = ("android-phone", "iphone", "linux-laptop", "macbook", "windows-laptop", "raspberry-pi")


def make_run(policy: Policy, table: CostTable | None, knob: float, situations: list[Situation]) -> dict[str, Any]:
    """A sequence of situations, and what Python decides in each."""
    decision, decisions = Decision(knob), []
    for situation in situations:
        decision = decide(policy, situation, decision, table)
        decisions.append(decision_json(decision))
    return {
        "policy": to_json(policy),
        "table": table and table.as_json(),
        "points": table and [[point.knob, point.latency_ms] for point in table.points],
        "knob": knob,
        "situations": [_situation_json(situation) for situation in situations],
        "decisions": decisions,
    }


def _situation_json(situation: Situation) -> dict[str, Any]:
    stored = {one.name: getattr(situation, one.name) for one in fields(situation) if one.name != "battery"}
    return {**stored, "level": situation.battery.level, "charging": situation.battery.charging}


def random_runs(situations: int, seed: int = 0) -> list[dict[str, Any]]:
    """Random policies, tables and situations."""
    chance = random.Random(seed)
    return [
        make_run(_policy(chance), _table(chance), round(chance.uniform(0.05, 1), 2), _situations(chance))
        for _ in range(-(-situations // RUN))
    ]


def _policy(chance: random.Random) -> Policy:
    lows = sorted({round(chance.uniform(0.02, 0.9), 3) for _ in range(chance.randrange(4))}, reverse=True)
    heats = [heat for heat in HEATS[1:] if chance.random() < 0.7]
    knobs = [sorted((round(chance.uniform(0.05, 1), 3) for _ in range(4)), reverse=True) for _ in range(2)]
    steps = [Step(below=below, knob=knob) for below, knob in zip(lows, knobs[0], strict=False)]
    steps += [Step(heat=heat, knob=knob) for heat, knob in zip(heats, knobs[1], strict=False)]
    steps += [Step(power_saver=True, knob=round(chance.uniform(0.05, 1), 3))] if chance.random() < 0.7 else []
    steps += [Step(foreground=False, knob=round(chance.uniform(0.05, 1), 3))] if chance.random() < 0.5 else []
    chance.shuffle(steps)
    steps.sort(key=lambda step: (-(step.below or 0), HEATS.index(step.heat or "none")))
    return Policy(
        when=tuple(steps),
        charging_knob=round(chance.uniform(0.4, 1), 3),
        hysteresis=chance.choice((0.0, 0.03, 0.05)),
        dwell_s=chance.choice((0.0, 5.0, 60.0)),
        smallest_knob=chance.choice((0.05, 0.3)),
        largest_knob=chance.choice((0.9, 1.0)),
        heat_recovery_s=chance.choice((0.0, 60.0, 600.0)),
        latency_ms=chance.choice((None, 0.125, 1.5, 40.0)),
        energy_mj=chance.choice((None, 0.7, 20.0)),
        latency_p95_ms=chance.choice((None, 2.5, 60.0)),
        latency_recovery_s=chance.choice((0.0, 60.0)),
    )


def _table(chance: random.Random) -> CostTable | None:
    if chance.random() < 0.3:
        return None
    knobs = sorted({round(chance.uniform(0.05, 1), 3) for _ in range(chance.randint(1, 6))})
    scale, metered = chance.choice((0.1, 1.0, 50.0)), chance.random() < 0.6
    costs = [scale * (0.2 + knob) * chance.uniform(0.8, 1.2) for knob in knobs]
    points = [CostPoint(knob, cost, 1.3 * cost if metered else None) for knob, cost in zip(knobs, costs, strict=True)]
    return CostTable(tuple(points), "random")


def _situations(chance: random.Random) -> list[Situation]:
    time_s, found = 0.0, []
    pace = chance.choice((3.0, 40.0, 300.0))
    level = chance.random()
    for _ in range(RUN):
        time_s += chance.uniform(0.1, pace)
        level = min(1.0, max(0.0, level + chance.uniform(-0.1, 0.1)))
        found.append(
            Situation(
                time_s,
                Battery(_maybe(chance, level), _maybe(chance, chance.random() < 0.2)),
                p95_ms=_maybe(chance, chance.uniform(0.1, 100)),
                latency_ms=_maybe(chance, chance.uniform(0.05, 60)),
                energy_mj=_maybe(chance, chance.uniform(0.05, 60)),
                power_saver=_maybe(chance, chance.random() < 0.3),
                heat=_maybe(chance, chance.choice(HEATS)),
                headroom=_maybe(chance, chance.uniform(0, 1.1)),
                headroom_forecast=_maybe(chance, chance.uniform(0, 1.1)),
                foreground=_maybe(chance, chance.random() < 0.7),
            )
        )
    return found


def _maybe(chance: random.Random, value: Any) -> Any:
    return None if chance.random() < 0.3 else value


def recorded_days() -> list[dict[str, Any]]:
    """Every trace under the default policy, and under one with a budget; queries always at full cost."""
    table = CostTable((CostPoint(0.2, 90.0, 120.0), CostPoint(1.0, 224.0, 296.0)), "days")
    budget = replace(read_policy(), latency_ms=150.0, energy_mj=200.0)
    runs = []
    for path in sorted(TRACES.glob("*.csv")):
        rows = read_trace(path).rows
        device = SimulatedDevice(read_body(path.stem if path.stem in DEVICES else DEVICES[0]), rows[0], 0.296)
        situations = []
        for row in rows:
            device.advance(row, 0.296 * row.queries)
            state = device.state(row)
            told = {one.name: getattr(state, one.name) for one in fields(state)}
            observed = 200.0 * row.busy if row.queries else None
            situations.append(Situation(row.time_s, latency_ms=observed, **told))
        runs += [make_run(policy, table, 1.0, situations) for policy in (read_policy(), budget)]
    return runs
