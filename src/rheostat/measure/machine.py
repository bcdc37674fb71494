"""The machine during a measurement: its clock, temperature and load, and pinning to CPUs.

Knows the kernel's files; knows nothing of what is measured. What a system does not report is None or empty, never
guessed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rheostat.errors import RheostatError
from rheostat.sysfs import SYSTEM_ROOT, find_integer, find_integers, read_word

RASPBERRY_PI = Path("devices/platform/soc/soc:firmware/get_throttled")
# Bits of that file for the current state: under-voltage, frequency capped, throttled, soft temperature limit.
RASPBERRY_PI_NOW = 0b1111


@dataclass(frozen=True)
class Conditions:
    """The state of a machine at one moment.

    governors: the CPU frequency governors, such as "performance". frequencies_mhz: slowest and fastest CPU.
    temperatures_c: by sensor. throttle_events: since the machine was started, over all CPUs.
    slowed_down: whether heat or low voltage is slowing the clock at this moment.
    """

    governors: tuple[str, ...]
    frequencies_mhz: tuple[float, float] | None
    temperatures_c: dict[str, float]
    throttle_events: int | None
    slowed_down: bool | None
    load_average: float | None  # processes that wanted a CPU, over the last minute


def read_conditions(system_root: Path = SYSTEM_ROOT) -> Conditions:
    cpus = system_root / "devices" / "system" / "cpu"
    frequencies = find_integers(cpus.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))
    return Conditions(
        governors=tuple(sorted({read_word(path) for path in cpus.glob("cpu[0-9]*/cpufreq/scaling_governor")} - {""})),
        frequencies_mhz=(min(frequencies) / 1e3, max(frequencies) / 1e3) if frequencies else None,
        temperatures_c=_temperatures(system_root),
        throttle_events=_throttle_events(cpus),
        slowed_down=_slowed_down(system_root),
        load_average=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    )


def was_throttled(before: Conditions, after: Conditions) -> bool | None:
    """Whether the clock was slowed down between two moments; None if the machine does not report it."""
    signs = [before.slowed_down, after.slowed_down]
    if before.throttle_events is not None and after.throttle_events is not None:
        signs.append(after.throttle_events > before.throttle_events)
    told = [sign for sign in signs if sign is not None]
    return any(told) if told else None


@contextmanager
def pinned(cpus: Sequence[int] | None) -> Iterator[None]:
    """Within the block, use only these CPUs, also for threads started in it. None: no restriction."""
    if cpus is None:
        yield
        return
    if not hasattr(os, "sched_setaffinity"):
        raise RheostatError("this system cannot pin a program to CPUs (Linux can): pin it to none")
    allowed = os.sched_getaffinity(0)
    if not cpus:
        raise RheostatError(f"no CPU is named to pin to; this program can use {_list(allowed)}: choose from these")
    if missing := set(cpus) - allowed:
        raise RheostatError(
            f"the CPUs to pin to include {_list(missing)}; this program can use {_list(allowed)}: choose from these"
        )
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def usable_cpus() -> list[int] | None:
    """The CPUs that this program can use; None if the system does not say."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def parse_cpus(text: str) -> list[int]:
    """ "0,2" as [0, 2]."""
    try:
        cpus = sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise RheostatError(f"the CPUs to pin to are {text!r}; expected their numbers, as in 0,1") from None
    return cpus


def _temperatures(system_root: Path) -> dict[str, float]:
    """Thermal zones, or the processor's own sensors if there are no zones."""
    zones = sorted((system_root / "class" / "thermal").glob("thermal_zone*"))
    found = {f"{read_word(zone / 'type') or 'zone'}/{zone.name}": find_integer(zone / "temp") for zone in zones}
    if not found:
        inputs = sorted((system_root / "class" / "hwmon").glob("hwmon*/temp*_input"))
        found = {
            f"{read_word(path.with_name('name'))}/{path.name.partition('_')[0]}": find_integer(path) for path in inputs
        }
    return {name: value / 1e3 for name, value in found.items() if value is not None}


def _throttle_events(cpus: Path) -> int | None:
    counts = find_integers(cpus.glob("cpu[0-9]*/thermal_throttle/core_throttle_count"))
    return sum(counts) if counts else None


def _slowed_down(system_root: Path) -> bool | None:
    """From the Raspberry Pi's firmware, or from the kernel's active cooling devices."""
    try:
        return bool(int(read_word(system_root / RASPBERRY_PI), 16) & RASPBERRY_PI_NOW)
    except ValueError:
        pass
    coolers = (system_root / "class" / "thermal").glob("cooling_device*")
    states = find_integers(cooler / "cur_state" for cooler in coolers if _limits_the_clock(read_word(cooler / "type")))
    return any(state > 0 for state in states) if states else None


def _limits_the_clock(cooler: str) -> bool:
    return cooler.lower().startswith(("cpufreq", "processor", "intel_powerclamp"))


def _list(cpus: set[int]) -> str:
    return ", ".join(map(str, sorted(cpus)))
