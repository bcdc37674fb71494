"""What a device says about itself: battery, charger, power saver, heat, and whether the app is in the foreground.

Every value may be missing. Knows which values make sense; `readers` asks the operating system, and the policy decides
what a value means for the knob.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from rheostat.errors import RheostatError

Heat: TypeAlias = Literal["none", "light", "moderate", "severe"]
HEATS: tuple[Heat, ...] = get_args(Heat)  # from cool to hot


def _check_flag(name: str, flag: object) -> None:
    if flag is not None and not isinstance(flag, bool):
        raise RheostatError(f"{name} is {flag!r:.40}; expected True, False or None")


@dataclass(frozen=True)
class Battery:
    """One reading. level: 0 to 1, None if unknown. charging: whether it is on the charger, None if unknown."""

    level: float | None
    charging: bool | None

    def __post_init__(self) -> None:
        level: object = self.level  # callers may not check their types
        if level is not None and (isinstance(level, bool) or not (isinstance(level, int | float) and 0 <= level <= 1)):
            raise RheostatError(f"the battery level is {level!r:.40}; expected a share from 0 to 1: 85 % is 0.85")
        _check_flag("charging", self.charging)


PLUGGED_IN = Battery(level=None, charging=True)
UNKNOWN_BATTERY = Battery(level=None, charging=None)


@dataclass(frozen=True)
class DeviceState:
    """One reading of everything a device may report; None: not known.

    heat: the thermal state. headroom: how much of the way to severe throttling is used up, 1 = there (as Android's
    getThermalHeadroom(0)). headroom_forecast: the same, expected some seconds from now.
    """

    battery: Battery = UNKNOWN_BATTERY
    power_saver: bool | None = None
    heat: Heat | None = None
    headroom: float | None = None
    headroom_forecast: float | None = None
    foreground: bool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.battery, Battery):
            raise RheostatError(f"the battery is {self.battery!r:.40}; expected a Battery")
        check_device(self)


def check_device(state: Any) -> None:
    """Refuse values that no device reports; state: anything with these fields."""
    for name in ("power_saver", "foreground"):
        _check_flag(name, getattr(state, name))
    if state.heat is not None and state.heat not in HEATS:
        raise RheostatError(f"heat is {state.heat!r:.40}; expected one of {', '.join(HEATS)}, or None")
    for name in ("headroom", "headroom_forecast"):
        value = getattr(state, name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise RheostatError(
                f"{name} is {value!r:.40}; expected 0 or more, 1 where severe throttling begins, or None"
            )


ReadBattery = Callable[[], Battery]
ReadDevice = Callable[[], DeviceState]
