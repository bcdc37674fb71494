"""The power management chip of the Raspberry Pi 5, read rail by rail with the command `vcgencmd pmic_read_adc`."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rheostat.errors import MeterError
from rheostat.measure.meters.meter import SamplerMeter

COMMAND = ("vcgencmd", "pmic_read_adc")
# "  VDD_CORE_A current(7)=0.75012000A", "  VDD_CORE_V volt(15)=0.72178200V"
RAIL = re.compile(r"^\s*(\w+)_([AV])\s+\w+\(\d+\)=([0-9.]+)[AV]\s*$", re.MULTILINE)


class PmicMeter(SamplerMeter):
    name = "pmic"
    covers = "the rails of the power management chip, without what USB and the 5 V pins feed"
    period_s = 0.2  # every reading starts a process, so reading more often would add load

    def available(self) -> str | None:
        if shutil.which(COMMAND[0]) is None:
            return f"there is no command {COMMAND[0]}: not a Raspberry Pi"
        try:
            read_power()
        except MeterError as error:
            return str(error)
        return None

    @contextmanager
    def opened(self) -> Iterator[Callable[[], float]]:
        yield read_power


def read_power() -> float:
    """Watts of all rails together."""
    try:
        answer = subprocess.run(COMMAND, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MeterError(f"{' '.join(COMMAND)} does not run: {error}") from None
    rails = parse_rails(answer.stdout)
    if answer.returncode or not rails:
        said = " ".join((answer.stdout + answer.stderr).split())[:80] or "nothing"
        raise MeterError(f"{' '.join(COMMAND)} gives no rails (it said {said!r}); only a Raspberry Pi 5 measures them")
    return sum(rails.values())


def parse_rails(text: str) -> dict[str, float]:
    """Watts of every rail with a current and a voltage; the input and the clock's battery only have a voltage."""
    values = {(rail, unit): float(value) for rail, unit, value in RAIL.findall(text)}
    names = dict.fromkeys(rail for rail, unit in values if unit == "A")
    return {rail: values[rail, "A"] * values[rail, "V"] for rail in names if (rail, "V") in values}
