"""The body of a device in a replayed day: how warm it gets, and how long its battery lasts.

Heat follows the simplest defensible model, one warm body in air (Newton's law of cooling):

    C dT/dt = P - (T - T_air) / R        T settles at T_air + R · P, with the time constant R · C

C: heat capacity, J/K. R: thermal resistance to the air, K/W. P: everything that the device draws, the model's queries
included. One body has one temperature: a chip that is hotter than its case for seconds is not modelled, nor is the
heat of charging.
Knows physics and the typical figures in `devices.toml`; `replay` gives each behaviour such a body.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

from rheostat.errors import RheostatError
from rheostat.governor.device import HEATS, Heat
from rheostat.tables import fill, parse_toml, suggestion

DEFAULT_DEVICE = "android-phone"
HEADROOM_SPAN_K = 30.0  # Android's headroom rises from 0 to 1 over the 30 K below severe throttling
FORECAST_S = 10.0


@dataclass(frozen=True)
class Body:
    """Temperatures in °C. thermometer: what an app is told about heat: a state, a headroom, or nothing."""

    battery_wh: float
    heat_capacity_j_k: float
    resistance_k_w: float
    light_c: float
    moderate_c: float
    severe_c: float
    thermometer: Literal["state", "headroom", "none"] = "state"

    def __post_init__(self) -> None:
        for name in ("battery_wh", "heat_capacity_j_k", "resistance_k_w"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}; expected a number above 0")
        if not self.light_c < self.moderate_c < self.severe_c:
            raise ValueError("light_c, moderate_c and severe_c do not rise")

    @property
    def battery_j(self) -> float:
        return 3600 * self.battery_wh

    def settled_c(self, power_w: float, ambient_c: float) -> float:
        """The temperature that it approaches at a constant power."""
        return ambient_c + self.resistance_k_w * power_w

    def after(self, temperature_c: float, power_w: float, ambient_c: float, seconds: float) -> float:
        """Its temperature after some seconds of a constant power: the exact solution, whatever the step."""
        settled = self.settled_c(power_w, ambient_c)
        return settled + (temperature_c - settled) * math.exp(-seconds / (self.resistance_k_w * self.heat_capacity_j_k))

    def heat(self, temperature_c: float) -> Heat:
        return HEATS[sum(temperature_c >= begin for begin in (self.light_c, self.moderate_c, self.severe_c))]

    def headroom(self, temperature_c: float) -> float:
        """As Android defines it: 1 where severe throttling begins."""
        return max(0.0, 1 - (self.severe_c - temperature_c) / HEADROOM_SPAN_K)


def read_body(name: str = DEFAULT_DEVICE) -> Body:
    """The body of a device in `devices.toml`."""
    known = _bodies()
    if name not in known:
        raise RheostatError(f"there is no device '{name!s:.80}'{suggestion(name, known)}; expected {', '.join(known)}")
    return known[name]


@cache
def _bodies() -> dict[str, Body]:
    text = (resources.files("rheostat.governor") / "devices.toml").read_text(encoding="utf-8")
    return {name: fill(Body, table, name) for name, table in parse_toml(text).items()}
