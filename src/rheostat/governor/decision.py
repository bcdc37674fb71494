"""Applying a policy at one moment: a situation in, a knob position out.

Pure functions: no clock, no thread, no battery, no predictor. A decision holds everything that the next one needs, so
the governor, a replayed day and a page in a browser make the same decisions.

Why the knob does not flap:
* two turns are at least the policy's dwell apart;
* a battery step is entered below its level and left only above level + hysteresis;
* a charger counts as unplugged only after a whole dwell, so a loose contact turns nothing;
* a missed latency target lowers the knob by a notch. It is raised by a notch only if the latency expected there (linear
  in FLOPs) leaves a margin, and each raise that had to be undone doubles the wait for the next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from rheostat.governor.battery import Battery
from rheostat.governor.policy import Policy

MOST_DOUBLINGS = 5  # of the wait before the next raise
DIGITS = 4  # after the point, of a knob: 0.7, not 0.7000000000000001


@dataclass(frozen=True)
class Situation:
    """time_s: of any clock that never goes backwards. p95_ms: of queries at the current knob; None if too few."""

    time_s: float
    battery: Battery
    p95_ms: float | None = None


@dataclass(frozen=True)
class LatencyLimit:
    """The largest knob that the latency target allows, and how raising it has gone so far."""

    ceiling: float = 1.0
    changed_s: float = -math.inf
    raised: bool = False  # the last change was a raise that has not proved itself yet
    failures: int = 0  # raises in a row that were undone


@dataclass(frozen=True)
class Decision:
    """The knob, the reason, and what the next decision needs. step: how many of the policy's steps apply."""

    knob: float
    reason: str = "start"
    turned_s: float = -math.inf
    charger_seen_s: float = -math.inf
    step: int = 0
    limit: LatencyLimit = field(default_factory=LatencyLimit)


def decide(policy: Policy, situation: Situation, previous: Decision) -> Decision:
    """The decision for a situation, given the previous decision; the first one follows `Decision(knob)`."""
    now, battery = situation.time_s, situation.battery
    seen = replace(
        previous,
        charger_seen_s=now if battery.charging else previous.charger_seen_s,
        step=_step(policy, battery.level, previous.step),
    )
    if now - previous.turned_s < policy.dwell_s:
        return seen
    seen = replace(seen, limit=_limit(policy, situation, previous))
    knob, reason = _wanted(policy, seen, now)
    return replace(seen, knob=knob, reason=reason, turned_s=previous.turned_s if knob == previous.knob else now)


def _step(policy: Policy, level: float | None, step: int) -> int:
    """How many steps apply at this level if `step` of them applied before. An unknown level changes nothing."""
    if level is None:
        return step
    entered = sum(level < one.below for one in policy.when)
    not_left = sum(level < one.below + policy.hysteresis for one in policy.when)
    return max(entered, min(step, not_left))


def _wanted(policy: Policy, seen: Decision, now: float) -> tuple[float, str]:
    knob, reason = _power_knob(policy, seen, now)
    if policy.latency_p95_ms is not None and seen.limit.ceiling < policy.bounded(knob):
        knob, reason = seen.limit.ceiling, f"p95 held at {policy.latency_p95_ms:g} ms"
    return policy.bounded(knob), reason


def _power_knob(policy: Policy, seen: Decision, now: float) -> tuple[float, str]:
    # `==` means: charging right now, even if the dwell is zero.
    if seen.charger_seen_s == now or now - seen.charger_seen_s < policy.dwell_s:
        return policy.charging_knob, "charging"
    if seen.step:
        held = policy.when[seen.step - 1]
        return held.knob, f"battery below {held.below:.0%}"
    return policy.largest_knob, "battery above all steps"


def _limit(policy: Policy, situation: Situation, previous: Decision) -> LatencyLimit:
    target, p95_ms = policy.latency_p95_ms, situation.p95_ms
    if target is None or p95_ms is None:
        return previous.limit
    if p95_ms > target:
        return _lowered(policy, situation.time_s, previous)
    return _raised(policy, situation.time_s, p95_ms, target * (1 - policy.latency_margin), previous)


def _lowered(policy: Policy, now: float, previous: Decision) -> LatencyLimit:
    limit = previous.limit
    ceiling = max(policy.smallest_knob, round(previous.knob - policy.latency_notch, DIGITS))
    if ceiling >= min(limit.ceiling, previous.knob):  # already as low as the policy goes
        return limit
    failures = min(MOST_DOUBLINGS, limit.failures + 1) if limit.raised else limit.failures
    return LatencyLimit(ceiling, now, raised=False, failures=failures)


def _raised(policy: Policy, now: float, p95_ms: float, comfortable_ms: float, previous: Decision) -> LatencyLimit:
    limit = previous.limit
    if now - limit.changed_s < policy.latency_recovery_s * 2**limit.failures:
        return limit
    if limit.raised:  # it held for the whole wait: slowness from now on has another cause
        limit = replace(limit, raised=False, failures=0)
    ceiling = min(1.0, round(limit.ceiling + policy.latency_notch, DIGITS))
    expected_ms = p95_ms * ceiling / previous.knob
    if ceiling == limit.ceiling or expected_ms > comfortable_ms:
        return limit
    return LatencyLimit(ceiling, now, raised=True, failures=limit.failures)
