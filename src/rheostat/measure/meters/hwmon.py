"""Power sensors of the board, as Linux shows them under /sys/class/hwmon: INA2xx chips, server power meters, …

Only the maker of the board knows which sensor is the right one, since one rail can be part of another. So a single
sensor is used automatically; with several, the user has to name one or more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rheostat.errors import MeterError
from rheostat.measure.meters.meter import SamplerMeter
from rheostat.sysfs import SYSTEM_ROOT, in_order, read_integer, read_word

GRAPHICS = ("amdgpu", "nouveau", "radeon", "i915", "xe")  # graphics cards run no queries: used only by name
FASTEST_S = 0.02


@dataclass(frozen=True)
class Sensor:
    """A power sensor. name: chip and label, such as "ina226/VDD_IN", or "ina226/power1" without a label. If two sensors
    would have the same name, device and input are used instead, such as "hwmon3/power1".
    """

    name: str
    chip: str
    path: Path

    @property
    def numbered(self) -> Sensor:
        return replace(self, name=f"{self.path.parent.name}/{self.path.name.partition('_')[0]}")

    def read_w(self) -> float:
        return read_integer(self.path) / 1e6

    @property
    def stated_period_s(self) -> float:
        """How often the chip updates its value, in seconds; zero if it does not say."""
        stem = self.path.name.rpartition("_")[0]
        stated = [self.path.with_name("update_interval")]
        if self.path.name.endswith("_average"):
            stated.append(self.path.with_name(f"{stem}_average_interval"))
        return max(_milliseconds(path) / 1e3 for path in stated)


class HwmonMeter(SamplerMeter):
    """names: the sensors whose power is added up; empty = the only sensor."""

    name = "hwmon"

    def __init__(self, names: Sequence[str] = (), system_root: Path = SYSTEM_ROOT) -> None:
        self._names, self._folder = names, system_root / "class" / "hwmon"

    @property
    def period_s(self) -> float:
        return max([FASTEST_S, *(sensor.stated_period_s for sensor in self._chosen())])

    @property
    def ignore_repeats(self) -> bool:
        """True unless every chip says how often it updates: many do so only once a second."""
        return not all(sensor.stated_period_s for sensor in self._chosen())

    @property
    def covers(self) -> str:
        return " + ".join(sensor.name for sensor in self._chosen())

    def available(self) -> str | None:
        try:
            for sensor in self._chosen():
                sensor.read_w()
        except MeterError as error:
            return str(error)
        return None

    @contextmanager
    def opened(self) -> Iterator[Callable[[], float]]:
        sensors = self._chosen()
        yield lambda: sum(sensor.read_w() for sensor in sensors)

    def _chosen(self) -> list[Sensor]:
        sensors = find_sensors(self._folder)
        if not sensors:
            raise MeterError(f"no power sensor (power*_input or power*_average) under {self._folder}")
        if doubled := sorted({name for name in self._names if self._names.count(name) > 1}):
            raise MeterError(f"{doubled[0]} is named twice; expected every sensor once, or its power would count twice")
        if self._names:
            return [_named(name, sensors) for name in self._names]
        board = [sensor for sensor in sensors if sensor.chip not in GRAPHICS]
        if len(board) != 1:
            raise MeterError(f"{_several(board)}; name what to add up, as in hwmon:{_list(sensors, '+')}")
        return board


def find_sensors(folder: Path) -> list[Sensor]:
    """Every power sensor except those of batteries, which the meter "battery" reads."""
    sensors: list[Sensor] = []
    for device in in_order(list(folder.glob("hwmon*"))):
        if not (device / "device" / "type").exists():
            sensors += _sensors_of(device)
    names = Counter(sensor.name for sensor in sensors)
    return [sensor if names[sensor.name] == 1 else sensor.numbered for sensor in sensors]


def _sensors_of(device: Path) -> list[Sensor]:
    chip = read_word(device / "name") or device.name
    inputs = {path.name.partition("_")[0]: path for path in device.glob("power*_average")}
    inputs |= {path.name.partition("_")[0]: path for path in device.glob("power*_input")}  # preferred to the average
    labels = {stem: read_word(device / f"{stem}_label") or stem for stem in inputs}
    paths = in_order(list(inputs.values()))
    return [Sensor(f"{chip}/{labels[path.name.partition('_')[0]]}", chip, path) for path in paths]


def _named(name: str, sensors: Sequence[Sensor]) -> Sensor:
    for sensor in sensors:
        if sensor.name == name:
            return sensor
    raise MeterError(f"no power sensor is called {name!r}; expected one of {_list(sensors, ', ')}")


def _several(board: Sequence[Sensor]) -> str:
    return f"{len(board)} power sensors, and one can be part of another" if board else "only a graphics card's sensor"


def _list(sensors: Sequence[Sensor], separator: str) -> str:
    return separator.join(sensor.name for sensor in sensors)


def _milliseconds(path: Path) -> float:
    text = read_word(path)
    return float(text) if text.isdigit() else 0.0
