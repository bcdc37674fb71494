"""The governor's decisions as JSON. The page keeps the previous decision and sends it with each request.

Knows how a decision is written as JSON; `rheostat.governor.decision` decides.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rheostat.errors import RheostatError
from rheostat.governor.decision import Decision, Situation, decide
from rheostat.governor.device import Battery
from rheostat.governor.policy import Policy
from rheostat.tables import from_json

Json = dict[str, Any]


def govern(policy: Policy, smallest_knob: float, time_s: float, asked: Mapping[str, Any]) -> Json:
    """The knob for a reading of the device, the reason, and what the next request has to send as `previous`.

    time_s: of the server's clock, unless the client sends its own time, which must never go backwards.
    smallest_knob: the lowest position that the model can serve, whatever the policy says.
    """
    time_s = _number(asked, "time_s", time_s)
    situation = Situation(
        time_s,
        Battery(_number(asked, "level", None), _truth(asked, "charging")),
        power_saver=_truth(asked, "power_saver"),
        heat=asked.get("heat"),
        headroom=_number(asked, "headroom", None),
        headroom_forecast=_number(asked, "headroom_forecast", None),
        foreground=_truth(asked, "foreground"),
    )
    decision = decide(policy, situation, _previous(asked.get("previous")))
    return {
        "knob": max(decision.knob, smallest_knob),
        "reason": decision.reason,
        "previous": decision_json(decision),
    }


def decision_json(decision: Decision) -> Json:
    """A decision as JSON: what the next one needs."""
    return _without_infinities(asdict(decision))


def _previous(stored: Any) -> Decision:
    if stored is None:
        return Decision(1.0)
    return from_json(Decision, stored, "previous")


def _without_infinities(stored: Json) -> Json:
    """JSON has no infinity: a time that never happened becomes null."""
    return {
        key: _without_infinities(value)
        if isinstance(value, dict)
        else None
        if isinstance(value, float) and math.isinf(value)
        else value
        for key, value in stored.items()
    }


def _number(asked: Mapping[str, Any], name: str, default: Any) -> Any:
    value = asked.get(name)
    if value is None:
        return default
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not abs(value) <= sys.float_info.max:  # false for NaN; a whole number may be larger
        raise RheostatError(f"{name} is {value!r:.40}; expected a number")
    return float(value)


def _truth(asked: Mapping[str, Any], name: str) -> bool | None:
    value = asked.get(name)
    if value is not None and not isinstance(value, bool):
        raise RheostatError(f"{name} is {value!r:.40}; expected true, false or null")
    return value
