"""What a battery says of itself: how full it is, and whether it is being charged.

Knows how to ask the operating system. What a level means for the knob is the policy's business.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rheostat.errors import RheostatError


@dataclass(frozen=True)
class Battery:
    """A reading. level: 0–1, None if unknown; charging: on the charger or not, None if unknown."""

    level: float | None
    charging: bool | None

    def __post_init__(self) -> None:
        if self.level is not None and not 0 <= self.level <= 1:
            raise RheostatError(
                f"a battery level of {self.level} was read; expected a share from 0 to 1: give 85 % as 0.85"
            )


ReadBattery = Callable[[], Battery]

PLUGGED_IN = Battery(level=None, charging=True)


def psutil_battery() -> Battery:
    """This machine's battery. A machine without one runs on the mains, which is the same as being plugged in."""
    import psutil  # imported here: an app with its own battery reading never needs it

    # psutil leaves the function out where the system has no such sensors at all.
    read = getattr(psutil, "sensors_battery", None)
    try:
        reading = read() if read else None
    except FileNotFoundError:  # a container's /sys may have no power supplies at all; psutil (7.2) lists them unchecked
        reading = None
    if reading is None:
        return PLUGGED_IN
    # Worn batteries report a little over 100 %.
    return Battery(level=min(1.0, max(0.0, reading.percent / 100)), charging=reading.power_plugged)
