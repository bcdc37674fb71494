"""Asking the operating system: Linux (sysfs, psutil), macOS (`pmset`) and Windows (the system's power status).

Each reader is a small function that asks, and a pure one that parses the answer. Only Linux is run in the tests; the
parser of macOS is tested on what Macs printed in public logs, that of Windows on
answers in the documented form. What cannot be read is missing, never guessed.
Knows commands, files and formats; `device` says which values exist, the policy what they mean.
"""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from rheostat.governor.device import HEATS, PLUGGED_IN, UNKNOWN_BATTERY, Battery, DeviceState, Heat
from rheostat.sysfs import SYSTEM_ROOT, find_integer, in_order, own_batteries, read_word

TIMEOUT_S = 5.0
LOW_POWER_PROFILE = "low-power"
LIGHT_K = 10.0  # below the temperature at which the kernel begins to slow down
CRITICAL_K = 5.0  # below the temperature at which the machine switches itself off
SENSIBLE_C = (30.0, 150.0)  # firmware also reports trip points such as 0 or 210 °C
SPEED_LIMITS: tuple[tuple[int, Heat], ...] = (
    (100, "none"),
    (80, "light"),
    (50, "moderate"),
)  # macOS, % of the clock; below them all: severe
POWER_STATUS = struct.Struct("<BBBBII")  # Windows' SYSTEM_POWER_STATUS
NO_BATTERY, UNKNOWN_STATUS = 128, 255  # flags in it


def read_device() -> DeviceState:
    """What this machine reports. Whether the app is in the foreground is not asked: the app knows."""
    readers = {"linux": read_linux, "darwin": read_macos, "win32": read_windows}
    read = readers.get(sys.platform)
    return read() if read else DeviceState(battery=psutil_battery())


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


# ------------------------------------------------------------------------------------------------------ Linux


def read_linux(system_root: Path = SYSTEM_ROOT) -> DeviceState:
    return DeviceState(
        battery=_linux_battery(system_root),
        power_saver=linux_power_saver(system_root),
        heat=linux_heat(system_root),
    )


def _linux_battery(system_root: Path) -> Battery:
    """psutil's battery, unless that may be a mouse's: psutil takes the first folder, whatever device it powers."""
    own = own_batteries(system_root)
    others = [one for one in (system_root / "class" / "power_supply").glob("*") if one not in own]
    if not any(read_word(one / "type") == "Battery" for one in others):
        return psutil_battery()
    if not own:
        return PLUGGED_IN
    levels = [level for one in own if (level := find_integer(one / "capacity")) is not None]
    states = [read_word(one / "status") for one in own]
    charging = None if not any(states) else "Discharging" not in states
    return Battery(min(1.0, max(0.0, sum(levels) / len(levels) / 100)) if levels else None, charging)


def linux_power_saver(system_root: Path = SYSTEM_ROOT) -> bool | None:
    """The platform profile, which desktops set through their power mode; None on machines without one."""
    profile = read_word(system_root / "firmware" / "acpi" / "platform_profile")
    return profile == LOW_POWER_PROFILE if profile else None


def linux_heat(system_root: Path = SYSTEM_ROOT) -> Heat | None:
    """The hottest thermal zone, against its own trip points; None if no zone has both a temperature and trip points."""
    zones = in_order((system_root / "class" / "thermal").glob("thermal_zone*"))
    states = [state for zone in zones if (state := _zone_heat(zone)) is not None]
    return max(states, key=HEATS.index, default=None)


def _zone_heat(zone: Path) -> Heat | None:
    temperature = find_integer(zone / "temp")
    trips = dict(_trip_points(zone))
    if temperature is None or not trips or read_word(zone / "mode") == "disabled":
        return None
    celsius = temperature / 1000
    severe = min(
        (trips[kind] - margin for kind, margin in (("hot", 0.0), ("critical", CRITICAL_K)) if kind in trips),
        default=None,
    )
    if severe is not None and celsius >= severe:
        return "severe"
    if "passive" not in trips:
        return "none"
    return "moderate" if celsius >= trips["passive"] else "light" if celsius >= trips["passive"] - LIGHT_K else "none"


def _trip_points(zone: Path) -> Iterator[tuple[str, float]]:
    """The lowest sensible temperature of each kind of trip point, in °C."""
    lowest: dict[str, float] = {}
    for path in zone.glob("trip_point_*_temp"):
        kind, value = read_word(path.with_name(path.name.replace("_temp", "_type"))), find_integer(path)
        if (
            kind in ("passive", "hot", "critical")
            and value is not None
            and SENSIBLE_C[0] <= value / 1000 <= SENSIBLE_C[1]
        ):
            lowest[kind] = min(value / 1000, lowest.get(kind, SENSIBLE_C[1]))
    yield from lowest.items()


# ------------------------------------------------------------------------------------------------------ macOS


def read_macos() -> DeviceState:
    return DeviceState(
        battery=parse_pmset_battery(_run("pmset", "-g", "batt")),
        power_saver=parse_pmset_power_saver(_run("pmset", "-g")),
        heat=parse_pmset_heat(_run("pmset", "-g", "therm")),
    )


def parse_pmset_battery(answer: str) -> Battery:
    """`pmset -g batt`. Only the internal battery counts: a mouse is listed too, by its own name."""
    source = re.search(r"drawing from '(AC|Battery|UPS) Power'", answer)
    internal = re.search(r"-InternalBattery-\d+[^\n]*?(\d{1,3})%", answer)
    if internal is None:
        return PLUGGED_IN if source and source[1] == "AC" else UNKNOWN_BATTERY
    return Battery(min(1.0, int(internal[1]) / 100), None if source is None else source[1] == "AC")


def parse_pmset_power_saver(answer: str) -> bool | None:
    """`pmset -g`: its settings in use. Newer systems say powermode, 1 for low power; older ones lowpowermode."""
    found = re.search(r"^\s*(?:lowpowermode|powermode)\s+(\d+)", answer, re.MULTILINE)
    return None if found is None else found[1] == "1"


def parse_pmset_heat(answer: str) -> Heat | None:
    """`pmset -g therm`: how far the clock is held down because of heat."""
    found = re.search(r"CPU_Speed_Limit\s*=\s*(\d+)", answer)
    if found is None:
        return "none" if "No thermal warning level has been recorded" in answer else None
    limit = int(found[1])
    return next((heat for least, heat in SPEED_LIMITS if limit >= least), "severe")


def _run(*command: str) -> str:
    """What a command prints; empty if it cannot be run."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


# ---------------------------------------------------------------------------------------------------- Windows


def read_windows() -> DeviceState:
    import ctypes

    status = ctypes.create_string_buffer(POWER_STATUS.size)
    answered = ctypes.windll.kernel32.GetSystemPowerStatus(status)  # type: ignore[attr-defined,unused-ignore]
    return parse_power_status(status.raw) if answered else DeviceState()


def parse_power_status(status: bytes) -> DeviceState:
    """Windows' SYSTEM_POWER_STATUS: 12 bytes. Windows has no call that reports heat to an app."""
    line, flags, percent, saver, _, _ = POWER_STATUS.unpack(status)
    charging = {0: False, 1: True}.get(line)
    if flags != UNKNOWN_STATUS and flags & NO_BATTERY:
        return DeviceState(PLUGGED_IN, power_saver=saver == 1)
    return DeviceState(Battery(percent / 100 if percent <= 100 else None, charging), power_saver=saver == 1)
