"""Choosing a meter: by name, or the first one available on this machine. An estimate is chosen like a meter."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rheostat.errors import MeterError
from rheostat.measure.meters.hwmon import HwmonMeter
from rheostat.measure.meters.meter import Meter
from rheostat.measure.meters.pmic import PmicMeter
from rheostat.measure.meters.power_supply import BatteryMeter
from rheostat.measure.meters.power_trace import PATIENCE_S, TraceMeter
from rheostat.measure.meters.rapl import RaplMeter
from rheostat.measure.meters.watts_up import WattsUpMeter
from rheostat.measure.meters.zeus_monitor import PROCESSOR, ZeusMeter
from rheostat.sysfs import SYSTEM_ROOT

WITHOUT_ARGUMENT = ("auto", "none", "estimate", "rapl", "zeus", "pmic", "battery")
BY_NAME_ONLY = "only when asked for by name"
# Horowitz, "Computing's energy problem", ISSCC 2014, 45 nm: float32 multiply 3.7 pJ, add 0.9 pJ; the mean of both.
JOULES_PER_FLOP = 2.3e-12
# Han et al., "Learning both weights and connections", 2015, table 1 (same technology): 640 pJ for 32 bits of DRAM.
JOULES_PER_BYTE = 160e-12


@dataclass(frozen=True)
class NoMeter:
    """Energy is not measured. reasons: (meter, why it is not available)."""

    reasons: tuple[tuple[str, str], ...] = ()

    name = "none"

    @property
    def reason(self) -> str:
        return "; ".join(f"{name}: {reason}" for name, reason in self.reasons) or "no meter was asked for"


@dataclass(frozen=True)
class Estimate:
    """Energy computed instead of measured: a constant per FLOP and a constant per byte read.

    Used only when asked for by name. It leaves out all other energy that a processor uses, so treat it as a lower bound
    and as a way to compare operating points.
    """

    joules_per_flop: float = JOULES_PER_FLOP
    joules_per_byte: float = JOULES_PER_BYTE

    name = "estimate"

    @property
    def covers(self) -> str:
        return f"{self.joules_per_flop * 1e12:g} pJ per FLOP and {self.joules_per_byte * 1e12:g} pJ per byte, computed"

    def energy_j(self, flops: float, bytes_read: float) -> float:
        return flops * self.joules_per_flop + bytes_read * self.joules_per_byte


EnergySource = Meter | Estimate | NoMeter


@dataclass(frozen=True)
class MeterOptions:
    """Settings of some meters."""

    system_root: Path = SYSTEM_ROOT
    trace_offset_s: float = 0.0  # how far the clock of a trace's recorder is ahead of this machine's
    trace_patience_s: float = PATIENCE_S  # how long to wait after the run until a trace covers all of it
    joules_per_flop: float = JOULES_PER_FLOP
    joules_per_byte: float = JOULES_PER_BYTE


DEFAULTS = MeterOptions()


def find_meter(name: str = "auto", options: MeterOptions = DEFAULTS) -> EnergySource:
    """The meter with this name, or an error that says why it is unavailable. auto: the first available, or NoMeter."""
    kind, _, argument = name.partition(":")
    if argument and kind in WITHOUT_ARGUMENT:
        raise MeterError(f"the meter {kind} takes no argument, but ':{argument}' was given; expected {kind} alone")
    if kind == "none":
        return NoMeter()
    if kind == "auto":
        return _first_available(options)
    if kind == "estimate":
        return Estimate(options.joules_per_flop, options.joules_per_byte)
    meter = _make(kind, argument, options)
    reason = meter.available()
    if reason is not None:
        raise MeterError(f"the meter {name} is not available: {reason}")
    return meter


def explain(options: MeterOptions = DEFAULTS) -> list[tuple[str, str | None]]:
    """Every meter with why it is unavailable (None if available): first those that `auto` tries, in order."""
    tried = [(name, make().available()) for name, make in automatic_meters(options).items()]
    return [
        *tried,
        ("watts-up[:PORT]", WattsUpMeter().available()),
        ("trace:FILE", f"{BY_NAME_ONLY}: a CSV file that another meter writes"),
        ("estimate", f"{BY_NAME_ONLY}: computed from FLOPs and bytes, not measured"),
    ]


def automatic_meters(options: MeterOptions) -> Mapping[str, Callable[[], Meter]]:
    """The meters that `auto` tries: closest to the processor first, slowest last. None writes to serial ports."""
    return {
        "rapl": lambda: RaplMeter(options.system_root),
        "zeus": lambda: ZeusMeter(PROCESSOR),
        "hwmon": lambda: HwmonMeter((), options.system_root),
        "pmic": PmicMeter,
        "battery": lambda: BatteryMeter(options.system_root),
    }


def _first_available(options: MeterOptions) -> Meter | NoMeter:
    reasons = []
    for name, make in automatic_meters(options).items():
        meter = make()
        reason = meter.available()
        if reason is None:
            return meter
        reasons.append((name, reason))
    return NoMeter(tuple(reasons))


def _make(kind: str, argument: str, options: MeterOptions) -> Meter:
    named: dict[str, Callable[[], Meter]] = {
        **automatic_meters(options),
        "zeus": ZeusMeter,
        "hwmon": lambda: HwmonMeter(argument.split("+") if argument else (), options.system_root),
        "watts-up": lambda: WattsUpMeter(argument or None),
        "trace": lambda: TraceMeter(
            _trace_path(argument), offset_s=options.trace_offset_s, patience_s=options.trace_patience_s
        ),
    }
    if kind not in named:
        names = ["auto", "none", *named, "estimate"]
        near = difflib.get_close_matches(kind, names, 1)
        hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(names)}"
        raise MeterError(f"there is no meter {kind!r}; {hint}")
    return named[kind]()


def _trace_path(argument: str) -> Path:
    if not argument:
        raise MeterError("the meter trace needs a file: trace:FILE")
    return Path(argument)
