"""RAPL: the energy counters of Intel and AMD processors, as Linux shows them under /sys/class/powercap.

Counts packages and memory. Leaves out `psys` (the whole platform, which includes the packages) and the parts of a
package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rheostat.errors import MeterError
from rheostat.measure.meters.meter import CounterMeter
from rheostat.sysfs import SYSTEM_ROOT, in_order, read_integer, read_word


class RaplMeter(CounterMeter):
    name = "rapl"
    period_s = 0.001

    def __init__(self, system_root: Path = SYSTEM_ROOT) -> None:
        self._folder = system_root / "class" / "powercap"

    @property
    def covers(self) -> str:
        return ", ".join(read_word(zone / "name") for zone in self._zones())

    def available(self) -> str | None:
        zones = self._zones()
        if not zones:
            return f"no intel-rapl package under {self._folder}: not an x86 Linux machine, or a virtual one"
        try:
            for zone in zones:
                Counter(zone).read_j()
        except MeterError as error:
            return str(error)
        return None

    @contextmanager
    def opened(self) -> Iterator[Callable[[], float]]:
        counters = [Counter(zone) for zone in self._zones()]
        yield lambda: sum(counter.read_j() for counter in counters)

    def _zones(self) -> list[Path]:
        zones = in_order(list(self._folder.glob("intel-rapl:*")))
        return [zone for zone in zones if read_word(zone / "name").startswith(("package", "dram"))]


class Counter:
    """The counter of one zone, which wraps around to zero at the end of its range."""

    def __init__(self, zone: Path) -> None:
        self._path = zone / "energy_uj"
        self._range_uj = read_integer(zone / "max_energy_range_uj")
        self._last_uj = read_integer(self._path)
        self._total_uj = 0

    def read_j(self) -> float:
        """Joules since this object was created; correct if read at least once per wrap-around."""
        now_uj = read_integer(self._path)
        step_uj = now_uj - self._last_uj
        self._total_uj += step_uj if step_uj >= 0 else step_uj + self._range_uj
        self._last_uj = now_uj
        return self._total_uj / 1e6
