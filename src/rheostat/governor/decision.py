"""What a policy says at a moment: situation in, position of the knob out.

Pure: no clock, no thread, no battery, no predictor. A decision holds all that the next one has to remember, so that
the governor, a replayed day and a page in a browser decide alike.

Why it does not flap:
* two turns are never closer than the policy's dwell;
* a battery step is entered below its level and left only above level + hysteresis;
* a charger counts as gone only when it has been gone for a dwell, so that a loose contact turns nothing;
* a latency target that is missed lowers the knob by a notch; it is raised by a notch only where the latency expected
  there (linear in FLOPs) leaves a margin, and each raise that had to be taken back doubles the wait for the next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from rheostat.governor.battery import Battery
from rheostat.governor.policy import Policy

MOST_DOUBLINGS = 5  # of the wait before a raise
DIGITS = 4  # of a knob that was reached in notches: 0.7, not 0.7000000000000001


@dataclass(frozen=True)
class Situation:
    """time_s: of any clock that never goes back. p95_ms: of queries at the present knob; None if too few."""

    time_s: float
    battery: Battery
    p95_ms: float | None = None


@dataclass(frozen=True)
class LatencyLimit:
    """The largest knob that the latency target allows, and how raising it went so far."""

    ceiling: float = 1.0
    changed_s: float = -math.inf
    raised: bool = False  # the last change went up, and has not yet held
    failures: int = 0  # raises in a row that were taken back


@dataclass(frozen=True)
class Decision:
    """The knob, why, and what the next decision must know. step: how many of the policy's steps hold."""

    knob: float
    reason: str = "start"
    turned_s: float = -math.inf
    charger_seen_s: float = -math.inf
    step: int = 0
    limit: LatencyLimit = field(default_factory=LatencyLimit)


def decide(policy: Policy, situation: Situation, previous: Decision) -> Decision:
    """The decision for a situation after the previous one; the first comes after `Decision(knob)`."""
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
    """How many steps hold at this level, after `step` of them held. An unknown level changes nothing."""
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
    # `==` is the charger at this very moment, also where the dwell is zero.
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
    if ceiling >= min(limit.ceiling, previous.knob):  # as low as the policy goes
        return limit
    failures = min(MOST_DOUBLINGS, limit.failures + 1) if limit.raised else limit.failures
    return LatencyLimit(ceiling, now, raised=False, failures=failures)


def _raised(policy: Policy, now: float, p95_ms: float, comfortable_ms: float, previous: Decision) -> LatencyLimit:
    limit = previous.limit
    if now - limit.changed_s < policy.latency_recovery_s * 2**limit.failures:
        return limit
    if limit.raised:  # It held for as long as it was waited for: a slow time from now on is another one.
        limit = replace(limit, raised=False, failures=0)
    ceiling = min(1.0, round(limit.ceiling + policy.latency_notch, DIGITS))
    expected_ms = p95_ms * ceiling / previous.knob
    if ceiling == limit.ceiling or expected_ms > comfortable_ms:
        return limit
    return LatencyLimit(ceiling, now, raised=True, failures=limit.failures)
