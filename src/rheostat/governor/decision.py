"""Applying a policy at one moment: a situation in, a knob position out.

Pure functions: no clock, no thread, no sensor, no predictor. A decision holds everything that the next one needs, so
the governor, a replayed day and the page's JavaScript (`keyboard/static/governing.js`) make the same decisions.

Why the knob does not flap:
* two turns are at least the policy's dwell apart;
* a battery step is entered below its level and left only above level + hysteresis; heat by headroom likewise;
* a charger, a power saver or a background app counts as gone only after a whole dwell, heat only after its recovery;
* a missed latency target lowers the knob by a notch. It is raised by a notch only if the latency expected there leaves
  a margin, and each raise that had to be undone doubles the wait for the next;
* a budget is left alone while the expected cost is near it. What is observed is smoothed, and a raise waits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from rheostat.errors import RheostatError
from rheostat.governor.cost import CostTable, Quantity, interpolate, largest_within
from rheostat.governor.device import HEATS, UNKNOWN_BATTERY, Battery, Heat, check_device
from rheostat.governor.policy import Policy, Step

MOST_DOUBLINGS = 5  # of the wait before the next raise
KNOB_UNIT = 1e4  # knobs are rounded to a ten-thousandth: 0.7, not 0.7000000000000001
BUDGET_UNIT = 100  # a budget chooses a whole percentage
# A budget's position stays while its expected cost is within these shares of the budget.
BUDGET_LOW, BUDGET_HIGH = 0.96, 1.02
SMOOTHING = 0.25  # weight of the latest observation: a single slow window does not turn the knob far
LARGEST_FACTOR = 8.0  # by which what is observed may correct the table, either way
TINY = 1e-9  # 0.29 · 100 is slightly less than 29


@dataclass(frozen=True)
class Situation:
    """One moment; every value but the time may be missing. From the device: as in `DeviceState`.

    time_s: of any clock that never goes backwards. p95_ms, latency_ms, energy_mj: the 95th percentile and the median of
    the time, and the mean energy, of recent queries at the current knob; None if too few or not metered.
    """

    time_s: float
    battery: Battery = UNKNOWN_BATTERY
    p95_ms: float | None = None
    latency_ms: float | None = None
    energy_mj: float | None = None
    power_saver: bool | None = None
    heat: Heat | None = None
    headroom: float | None = None
    headroom_forecast: float | None = None
    foreground: bool | None = None

    def __post_init__(self) -> None:
        check_device(self)


@dataclass(frozen=True)
class Ceiling:
    """The largest knob that a target allows, and how raising it has gone so far."""

    ceiling: float = 1.0
    changed_s: float = -math.inf
    raised: bool = False  # the last change was a raise that has not proved itself yet
    failures: int = 0  # raises in a row that were undone


@dataclass(frozen=True)
class Budget:
    """The largest knob that a budget allows. factor: how many times as much queries cost as the table says."""

    ceiling: float = 1.0
    changed_s: float = -math.inf
    factor: float = 1.0


@dataclass(frozen=True)
class Decision:
    """The knob, the reason, and what the next decision needs.

    step, headroom_step: how many of the policy's battery steps and headrooms apply. …_seen_s: when the charger, the
    power saver, the app in the background, and this or more heat was last seen.
    """

    knob: float
    reason: str = "start"
    turned_s: float = -math.inf
    charger_seen_s: float = -math.inf
    power_saver_seen_s: float = -math.inf
    background_seen_s: float = -math.inf
    light_seen_s: float = -math.inf
    moderate_seen_s: float = -math.inf
    severe_seen_s: float = -math.inf
    step: int = 0
    headroom_step: int = 0
    limit: Ceiling = field(default_factory=Ceiling)
    latency_budget: Budget = field(default_factory=Budget)
    energy_budget: Budget = field(default_factory=Budget)


def decide(policy: Policy, situation: Situation, previous: Decision, table: CostTable | None = None) -> Decision:
    """The decision for a situation, given the previous decision; the first one follows `Decision(knob)`.

    table: what queries cost on this device, for a policy with budgets; without one, budgets have no effect.
    """
    now = situation.time_s
    seen = _seen(policy, situation, previous)
    if now - previous.turned_s < policy.dwell_s:
        return seen
    seen = replace(
        seen,
        limit=_limit(policy, situation, previous, table),
        latency_budget=_budget(policy, situation, previous, table, "latency_ms", previous.latency_budget),
        energy_budget=_budget(policy, situation, previous, table, "energy_mj", previous.energy_budget),
    )
    knob, reason = _wanted(policy, situation, seen, table)
    return replace(seen, knob=knob, reason=reason, turned_s=previous.turned_s if knob == previous.knob else now)


# What the device reports


def _seen(policy: Policy, situation: Situation, previous: Decision) -> Decision:
    now = situation.time_s
    headroom_step = _headroom_step(policy, situation, previous.headroom_step)
    heat = max(0 if situation.heat is None else HEATS.index(situation.heat), headroom_step)
    return replace(
        previous,
        charger_seen_s=now if situation.battery.charging else previous.charger_seen_s,
        power_saver_seen_s=now if situation.power_saver else previous.power_saver_seen_s,
        background_seen_s=now if situation.foreground is False else previous.background_seen_s,
        light_seen_s=now if heat >= 1 else previous.light_seen_s,
        moderate_seen_s=now if heat >= 2 else previous.moderate_seen_s,
        severe_seen_s=now if heat >= 3 else previous.severe_seen_s,
        step=_step(
            [step.below or 0.0 for step in policy.levels], policy.hysteresis, situation.battery.level, previous.step
        ),
        headroom_step=headroom_step,
    )


def _step(levels: Sequence[float], hysteresis: float, level: float | None, step: int) -> int:
    """How many steps apply at this level if `step` of them applied before. An unknown level changes nothing.

    The policy may have had more steps before.
    """
    if level is None:
        return max(0, min(step, len(levels)))
    entered = sum(level < one for one in levels)
    not_left = sum(level < one + hysteresis for one in levels)
    return max(entered, min(step, not_left))


def _headroom_step(policy: Policy, situation: Situation, step: int) -> int:
    """How many headrooms are used up, now or by the forecast. Unknown: none, because heat comes and goes."""
    known = [value for value in (situation.headroom, situation.headroom_forecast) if value is not None]
    if not known:
        return 0
    entered = sum(max(known) >= one for one in policy.headrooms)
    not_left = sum(max(known) >= one - policy.hysteresis for one in policy.headrooms)
    return max(entered, min(step, not_left))


def _lasts(seen_s: float, now: float, wait_s: float) -> bool:
    # `==` means: seen right now, even if the wait is zero.
    return seen_s == now or now - seen_s < wait_s


# What follows from it


def _wanted(policy: Policy, situation: Situation, seen: Decision, table: CostTable | None) -> tuple[float, str]:
    """The lowest of all knobs that something asks for, and what asked for it."""
    now, asked = situation.time_s, [_battery_knob(policy, situation, seen)]
    asked += [(step.knob, reason) for step in policy.when if (reason := _reason(policy, step, seen, now))]
    asked += _ceilings(policy, seen, table)
    best, reason = policy.bounded(asked[0][0]), asked[0][1]
    for knob, why in asked[1:]:
        if policy.bounded(knob) < best:
            best, reason = policy.bounded(knob), why
    return best, reason


def _battery_knob(policy: Policy, situation: Situation, seen: Decision) -> tuple[float, str]:
    if _lasts(seen.charger_seen_s, situation.time_s, policy.dwell_s):
        return policy.charging_knob, "charging"
    if seen.step:
        held = policy.levels[seen.step - 1]
        return held.knob, f"battery below {percent(held.below or 0.0)}"
    known = situation.battery.level is not None
    return policy.largest_knob, "battery above all steps" if known else "nothing limits it"


def _reason(policy: Policy, step: Step, seen: Decision, now: float) -> str | None:
    """Why a step that does not depend on the battery applies; None if it does not."""
    if step.power_saver and _lasts(seen.power_saver_seen_s, now, policy.dwell_s):
        return "power saver"
    if step.foreground is False and _lasts(seen.background_seen_s, now, policy.dwell_s):
        return "app in the background"
    if step.heat is None:
        return None
    seen_s = (now, seen.light_seen_s, seen.moderate_seen_s, seen.severe_seen_s)[HEATS.index(step.heat)]
    return f"{step.heat} heat" if _lasts(seen_s, now, policy.heat_recovery_s) else None


def _ceilings(policy: Policy, seen: Decision, table: CostTable | None) -> Iterator[tuple[float, str]]:
    if policy.latency_p95_ms is not None:
        yield seen.limit.ceiling, f"p95 held at {policy.latency_p95_ms:g} ms"
    if policy.latency_ms is not None and table is not None:
        yield seen.latency_budget.ceiling, f"budget of {policy.latency_ms:g} ms"
    if policy.energy_mj is not None and table is not None and table.knows("energy_mj"):
        yield seen.energy_budget.ceiling, f"budget of {policy.energy_mj:g} mJ"


def percent(share: float) -> str:
    """A share in whole percent; the page's JavaScript rounds in the same way."""
    return f"{math.floor(100 * share + 0.5)}%"


# The latency target: 95 % of the queries within it


def _limit(policy: Policy, situation: Situation, previous: Decision, table: CostTable | None) -> Ceiling:
    target, p95_ms = policy.latency_p95_ms, situation.p95_ms
    if target is None or p95_ms is None:
        return previous.limit
    if p95_ms > target:
        return _lowered(policy, situation.time_s, previous)
    return _raised(policy, situation.time_s, p95_ms, previous, table)


def _lowered(policy: Policy, now: float, previous: Decision) -> Ceiling:
    limit = previous.limit
    ceiling = max(policy.smallest_knob, _rounded(previous.knob - policy.latency_notch))
    if ceiling >= min(limit.ceiling, previous.knob):  # already as low as the policy goes
        return limit
    return Ceiling(ceiling, now, raised=False, failures=_failures(limit))


def _raised(policy: Policy, now: float, p95_ms: float, previous: Decision, table: CostTable | None) -> Ceiling:
    limit = previous.limit
    if now - limit.changed_s < _wait_s(policy, limit):
        return limit
    if limit.raised:  # it held for the whole wait: slowness from now on has another cause
        limit = replace(limit, raised=False, failures=0)
    ceiling = min(1.0, _rounded(limit.ceiling + policy.latency_notch))
    if table is None:
        expected_ms = p95_ms * ceiling / previous.knob
    else:
        line = table.line("latency_ms")
        expected_ms = p95_ms * interpolate(line, ceiling) / interpolate(line, previous.knob)
    if ceiling == limit.ceiling or expected_ms > (policy.latency_p95_ms or 0.0) * (1 - policy.latency_margin):
        return limit
    return Ceiling(ceiling, now, raised=True, failures=limit.failures)


def _wait_s(policy: Policy, limit: Ceiling) -> float:
    return policy.latency_recovery_s * 2.0**limit.failures


def _failures(limit: Ceiling) -> int:
    return min(MOST_DOUBLINGS, limit.failures + 1) if limit.raised else limit.failures


def _rounded(knob: float) -> float:
    return math.floor(knob * KNOB_UNIT + 0.5) / KNOB_UNIT


# Budgets: the largest position that keeps them


def _budget(
    policy: Policy,
    situation: Situation,
    previous: Decision,
    table: CostTable | None,
    quantity: Quantity,
    budget: Budget,
) -> Budget:
    asked: float | None = getattr(policy, quantity)
    observed: float | None = getattr(situation, quantity)
    if asked is None or table is None or not table.knows(quantity):
        return budget
    line = table.line(quantity)
    if observed is not None:
        ratio = min(LARGEST_FACTOR, max(1 / LARGEST_FACTOR, observed / interpolate(line, previous.knob)))
        budget = replace(budget, factor=budget.factor + SMOOTHING * (ratio - budget.factor))
    now, affordable = situation.time_s, asked / budget.factor
    expected = interpolate(line, budget.ceiling)
    ceiling = max(1, math.floor(BUDGET_UNIT * largest_within(line, affordable) + TINY)) / BUDGET_UNIT
    if expected > BUDGET_HIGH * affordable and ceiling < budget.ceiling:
        return Budget(ceiling, now, budget.factor)
    waited = now - budget.changed_s >= policy.latency_recovery_s
    if waited and expected < BUDGET_LOW * affordable and ceiling > budget.ceiling:
        return Budget(ceiling, now, budget.factor)
    return budget


def check_budget(policy: Policy, table: CostTable | None) -> None:
    """Raise a RheostatError if a policy has a budget for something that the table does not have."""
    for quantity, unit in (("latency_ms", "time"), ("energy_mj", "energy")):
        if getattr(policy, quantity) is None:
            continue
        if table is None or not table.knows(quantity):  # type: ignore[arg-type]
            found = "no table was given" if table is None else f"the table from {table.source} has no {unit}"
            raise RheostatError(
                f"the policy has a budget, {quantity}, but {found}; measure this device with "
                "`rheostat bench MODEL -o table.json` and give Governor(table=…) or --bench"
            )
