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
from rheostat.governor.battery import Battery
from rheostat.governor.decision import Decision, Situation, decide
from rheostat.governor.policy import Policy
from rheostat.tables import from_json

Json = dict[str, Any]


def govern(policy: Policy, smallest_knob: float, time_s: float, asked: Mapping[str, Any]) -> Json:
    """The knob for a battery reading, the reason, and what the next request has to send as `previous`.

    time_s: of the server's clock, unless the client sends its own time, which must never go backwards.
    smallest_knob: the lowest position that the model can serve, whatever the policy says.
    """
    time_s = _number(asked, "time_s", time_s)
    battery = Battery(_number(asked, "level", None), _charging(asked))
    decision = decide(policy, Situation(time_s, battery), _previous(asked.get("previous")))
    return {
        "knob": max(decision.knob, smallest_knob),
        "reason": decision.reason,
        "previous": _without_infinities(asdict(decision)),
    }


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
    value = asked.get(name, default)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not abs(value) <= sys.float_info.max:  # false for NaN; a whole number may be larger
        raise RheostatError(f"{name} is {value!r:.40}; expected a number")
    return float(value)


def _charging(asked: Mapping[str, Any]) -> bool | None:
    value = asked.get("charging")
    if value is not None and not isinstance(value, bool):
        raise RheostatError(f"charging is {value!r:.40}; expected true, false or null")
    return value
