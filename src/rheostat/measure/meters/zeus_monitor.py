"""Everything that the library zeus can read: Apple silicon, Jetson, processors with RAPL, NVIDIA and AMD cards.

Knows zeus's windows, and which of their figures can be added up without counting anything twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rheostat.errors import MeterError, MissingExtraError
from rheostat.measure.meters.meter import CounterMeter

PROCESSOR = ("soc", "cpu")  # where queries run; graphics cards count only if asked for
EVERYTHING = ("soc", "cpu", "gpu")
# Apple's other figures are parts of these.
SOC_PARTS = ("cpu_total_mj", "dram_mj", "gpu_mj", "gpu_sram_mj", "ane_mj", "cpu_energy_mj", "gpu_energy_mj")
WINDOW = "rheostat"


def zeus_monitor() -> Any:
    try:
        from zeus.monitor import ZeusMonitor
    except ImportError as error:
        raise MissingExtraError("energy", "The meter zeus", error) from None
    return ZeusMonitor()


class ZeusMeter(CounterMeter):
    """make_monitor: returns an object with the interface of ZeusMonitor."""

    name = "zeus"
    period_s = 0.1  # of the slowest thing it reads

    def __init__(self, parts: Collection[str] = EVERYTHING, *, make_monitor: Callable[[], Any] = zeus_monitor) -> None:
        self._parts, self._make_monitor = parts, make_monitor
        self._monitor: Any = None

    @property
    def covers(self) -> str:
        names = {"soc": "system on chip", "cpu": "processor", "gpu": "graphics card"}
        return ", ".join(names[part] for part in self._present())

    def available(self) -> str | None:
        try:
            present = self._present()
        except MissingExtraError as error:
            return str(error)
        except Exception as error:  # drivers can raise anything
            return f"zeus does not start on this machine: {_one_line(error)}"
        wanted = " nor ".join(self._parts)
        return None if present else f"zeus finds nothing it can read here (neither {wanted})"

    @contextmanager
    def opened(self) -> Iterator[Callable[[], float]]:
        self._start()
        total_j = 0.0

        def read_energy() -> float:
            """End the window that started at the last reading and start the next."""
            nonlocal total_j
            total_j += self._energy_j(self._end_window())
            self._begin_window()
            return total_j

        self._begin_window()
        try:
            yield read_energy
        finally:
            with suppress(MeterError):
                self._end_window()

    def _begin_window(self) -> None:
        self._ask(lambda: self._monitor.begin_window(WINDOW, sync_execution=False, restart=True))

    def _end_window(self) -> Any:
        return self._ask(lambda: self._monitor.end_window(WINDOW, sync_execution=False))

    def _ask(self, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except Exception as error:  # drivers can raise anything
            raise MeterError(f"zeus failed: {_one_line(error)}") from None

    def _start(self) -> None:
        if self._monitor is None:
            self._monitor = self._make_monitor()

    def _present(self) -> list[str]:
        self._start()
        found = {
            "soc": self._monitor.soc_is_present,
            "cpu": self._monitor.cpu_indices,
            "gpu": self._monitor.gpu_indices,
        }
        return [part for part in self._parts if found[part]]

    def _energy_j(self, measurement: Any) -> float:
        energies: list[float] = []
        if "soc" in self._parts and measurement.soc_energy is not None:
            energies += _soc_energies_j(measurement.soc_energy)
        if "cpu" in self._parts:
            energies += [*(measurement.cpu_energy or {}).values(), *(measurement.dram_energy or {}).values()]
        if "gpu" in self._parts:
            energies += measurement.gpu_energy.values()
        if not energies:
            raise MeterError(f"zeus gave no energy for {' or '.join(self._parts)}: {measurement}")
        return sum(energies)


def _soc_energies_j(measurement: Any) -> list[float]:
    total_mj = getattr(measurement, "total_energy_mj", None)  # Jetson's own sum
    if total_mj is not None:
        return [total_mj / 1e3]
    parts = (getattr(measurement, name, None) for name in SOC_PARTS)
    return [part_mj / 1e3 for part_mj in parts if part_mj is not None]


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
