"""Reading energy: one small interface, the meters behind it, and the energy per query that a meter finds.

series         readings over time, and the energy of a window of them
meter          the interface; counter and sampler are its two kinds
rapl  zeus_monitor  hwmon  power_supply  pmic  watts_up  power_trace     the meters
choice         a meter by its name, or the first one available; the estimate, which is computed and not measured
energy         idle, blocks, idle → millijoules per query
"""

from rheostat.errors import MeterError
from rheostat.measure.meters.choice import EnergySource, Estimate, MeterOptions, NoMeter, explain, find_meter
from rheostat.measure.meters.energy import (
    EnergyPerQuery,
    Plan,
    Work,
    expected_seconds,
    measure_energies,
    measure_energy,
)
from rheostat.measure.meters.meter import Meter

__all__ = [
    "EnergyPerQuery",
    "EnergySource",
    "Estimate",
    "Meter",
    "MeterError",
    "MeterOptions",
    "NoMeter",
    "Plan",
    "Work",
    "expected_seconds",
    "explain",
    "find_meter",
    "measure_energies",
    "measure_energy",
]
