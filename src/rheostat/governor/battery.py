"""Reading the battery: how full it is, and whether it is on the charger.

Knows how to ask the operating system; the policy decides what a level means for the knob.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rheostat.errors import RheostatError


@dataclass(frozen=True)
class Battery:
    """One reading. level: 0 to 1, None if unknown. charging: whether it is on the charger, None if unknown."""

    level: float | None
    charging: bool | None

    def __post_init__(self) -> None:
        level: object = self.level  # callers may not check their types
        if level is not None and not (isinstance(level, int | float) and 0 <= level <= 1):
            raise RheostatError(f"the battery level is {level!r:.40}; expected a share from 0 to 1: 85 % is 0.85")


ReadBattery = Callable[[], Battery]

PLUGGED_IN = Battery(level=None, charging=True)


def psutil_battery() -> Battery:
    """Read this machine's battery. A machine without one counts as plugged in."""
    import psutil  # here, because an app that reads the battery itself never needs it

    # psutil lacks the function on systems without such sensors.
    read = getattr(psutil, "sensors_battery", None)
    try:
        reading = read() if read else None
    except FileNotFoundError:  # in a container without power supplies, psutil (7.2) lists a missing folder
        reading = None
    if reading is None:
        return PLUGGED_IN
    # Worn batteries report a little over 100 %.
    return Battery(level=min(1.0, max(0.0, reading.percent / 100)), charging=reading.power_plugged)
