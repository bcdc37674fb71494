"""Meters that count energy themselves. Read at the marks, and occasionally in between to see how often they update."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from rheostat.measure.meters.meter import Clock, Meter, Recording
from rheostat.measure.meters.series import EnergySeries, WindowEnergy

SHORTEST_PAUSE_S = 0.02  # between two readings, since reading a counter takes energy too


class CounterMeter(Meter):
    """A meter that reports the energy used so far. period_s: how often its count is updated."""

    guard_s = 0.0

    @abstractmethod
    def opened(self) -> AbstractContextManager[Callable[[], float]]:
        """Yields a function that returns joules since some fixed moment; they never decrease."""

    @contextmanager
    def recording(self) -> Iterator[Recording]:
        with self.opened() as read_energy:
            yield CounterRecording(read_energy, self.period_s, self.clock)


class CounterRecording(Recording):
    """The count at every mark, which gives a window its exact energy, and whenever `look` is called.

    Only a changed count is a reading: how often it changes is observed, not taken from a data sheet.
    """

    def __init__(self, read_energy: Callable[[], float], period_s: float, clock: Clock) -> None:
        self._read_energy, self._clock = read_energy, clock
        self._pause_s = max(
            period_s / 2, SHORTEST_PAUSE_S
        )  # half: reading at the counter's own rate would miss updates
        self._times: list[float] = []
        self._energy_j: list[float] = []

    def mark(self) -> float:
        before = self._clock.now()
        energy_j = self._read_energy()
        moment = (before + self._clock.now()) / 2
        self._times.append(moment)
        self._energy_j.append(energy_j)
        return moment

    def look(self) -> None:
        if self._clock.now() >= self._times[-1] + self._pause_s:
            self.mark()

    def reading(self, begin: float, end: float) -> WindowEnergy:
        series = EnergySeries(self._times, self._energy_j, only_changes_count=True)
        series.check_moves()
        return series.reading(begin, end)
