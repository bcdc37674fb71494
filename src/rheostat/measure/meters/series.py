"""Readings over time, and the energy in a window.

Knows numbers with time stamps; knows nothing of the meter. All times are seconds of the same clock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rheostat.errors import MeterError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class WindowEnergy:
    """The energy of one window, and how well the meter covered it."""

    energy_j: float
    duration_s: float
    samples: int  # readings within the window
    largest_gap_s: float  # the longest part of the window without a reading

    @property
    def power_w(self) -> float:
        return self.energy_j / self.duration_s


class Series(ABC):
    """Values at increasing times. ignore_repeats: a value equal to the one before is not a new reading."""

    def __init__(self, times: Sequence[float], values: Sequence[float], *, ignore_repeats: bool = False) -> None:
        self.times: Floats = np.asarray(times, dtype=np.float64)
        self.values: Floats = np.asarray(values, dtype=np.float64)
        fresh = np.ones(len(self.times), dtype=bool)
        if ignore_repeats:
            fresh[1:] = np.diff(self.values) != 0
        self.fresh_times: Floats = self.times[fresh]

    def check_moves(self) -> None:
        """Raise if all values are the same: such a meter measures nothing."""
        if len(self.values) > 1 and bool(np.all(self.values == self.values[0])):
            over = f"{len(self.values)} readings in {self.times[-1] - self.times[0]:.3g} s"
            raise MeterError(
                f"{over} are all the same ({self.values[0]:g}): the meter answers, but its value does not change"
            )

    def reading(self, begin: float, end: float) -> WindowEnergy:
        """The energy from `begin` to `end`, which must lie within the series: nothing is extrapolated."""
        if not self.covers(begin, end):
            raise MeterError(f"the readings do not cover the window: {self._coverage(begin, end)}")
        seen = self.fresh_times[(self.fresh_times > begin) & (self.fresh_times <= end)]
        gaps = np.diff(np.concatenate(([begin], seen, [end])))
        return WindowEnergy(self._energy_j(begin, end), end - begin, len(seen), float(gaps.max()))

    def covers(self, begin: float, end: float) -> bool:
        return len(self.times) > 1 and bool(self.times[0] <= begin < end <= self.times[-1])

    def _coverage(self, begin: float, end: float) -> str:
        if len(self.times) < 2:
            return f"there are {len(self.times)}"
        early, late = max(0.0, self.times[0] - begin), max(0.0, end - self.times[-1])
        return f"they begin {early:.3f} s late and end {late:.3f} s early"

    @abstractmethod
    def _energy_j(self, begin: float, end: float) -> float: ...


class PowerSeries(Series):
    """Watts. The energy is integrated by the trapezoid rule over exactly the window, interpolated at its ends."""

    def _energy_j(self, begin: float, end: float) -> float:
        inside = self.times[(self.times > begin) & (self.times < end)]
        times = np.concatenate(([begin], inside, [end]))
        power = np.interp(times, self.times, self.values)
        return float(np.dot((power[1:] + power[:-1]) / 2, np.diff(times)))


class EnergySeries(Series):
    """Joules since some moment; they never decrease."""

    def _energy_j(self, begin: float, end: float) -> float:
        first, last = np.interp([begin, end], self.times, self.values)
        return float(last - first)
