"""The battery as a meter: what a laptop or a phone draws from it, under /sys/class/power_supply.

This is the power of the device only while the battery discharges, not with a charger plugged in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rheostat.errors import MeterError
from rheostat.measure.meters.meter import SamplerMeter
from rheostat.sysfs import SYSTEM_ROOT, own_batteries, read_integer, read_word


class BatteryMeter(SamplerMeter):
    name = "battery"
    ignore_repeats = True  # gauges update every one to thirty seconds and do not say when
    period_s = 0.5

    def __init__(self, system_root: Path = SYSTEM_ROOT) -> None:
        self._system_root, self._folder = system_root, system_root / "class" / "power_supply"

    @property
    def covers(self) -> str:
        return f"the whole device, from {' + '.join(battery.name for battery in self._batteries())}"

    def available(self) -> str | None:
        if not self._batteries():
            return f"no battery under {self._folder}"
        try:
            self._read_w()
        except MeterError as error:
            return str(error)
        return None

    @contextmanager
    def opened(self) -> Iterator[Callable[[], float]]:
        yield self._read_w

    def _read_w(self) -> float:
        batteries = self._batteries()
        states = {battery.name: read_word(battery / "status") for battery in batteries}
        charging = "Charging" in states.values()
        if charging or "Discharging" not in states.values():
            found = ", ".join(f"{name} is {state or 'silent'}" for name, state in states.items())
            raise MeterError(f"{found}: only a discharging battery shows what the device draws; unplug the charger")
        return sum(_power_w(battery) for battery in batteries)

    def _batteries(self) -> list[Path]:
        return own_batteries(self._system_root)


def _power_w(battery: Path) -> float:
    """The power drawn. Its sign differs between drivers, so it is ignored; the caller has checked the status."""
    if (battery / "power_now").exists():
        return abs(read_integer(battery / "power_now")) / 1e6
    if not (battery / "current_now").exists():
        raise MeterError(f"{battery.name} has neither power_now nor current_now: it does not report its power")
    return abs(read_integer(battery / "current_now")) * read_integer(battery / "voltage_now") / 1e12
