"""The interface of all meters, which read watts or joules, and what meters that count energy themselves share.

A run is one recording. Its windows (idle, blocks of queries, idle) are marked during the recording, and their energy is
computed afterwards. So a counter is read only at the marks, a sampler samples all the time, and a trace written by
another computer is read at the end. Knows nothing of queries or devices.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rheostat.measure.meters.series import EnergySeries, WindowEnergy

if TYPE_CHECKING:
    from rheostat.measure.meters.series import WindowEnergy


@dataclass(frozen=True)
class Clock:
    """A clock that can also sleep; tests use their own."""

    now: Callable[[], float]
    sleep: Callable[[float], None]


MONOTONIC = Clock(time.monotonic, time.sleep)


class Recording(ABC):
    """Everything that a meter reads during a run."""

    @abstractmethod
    def mark(self) -> float:
        """The current time, as the start or end of a window; raises if the meter has failed."""

    def look(self) -> None:
        """Called between queries and while idle, so that meters without their own thread can read."""
        return

    @abstractmethod
    def reading(self, begin: float, end: float) -> WindowEnergy:
        """The energy between two marks, after the recording has ended."""


class Meter(ABC):
    """Something that reads energy."""

    name: ClassVar[str]
    clock: Clock = MONOTONIC

    @property
    @abstractmethod
    def period_s(self) -> float:
        """The approximate time between two readings."""

    @property
    def guard_s(self) -> float:
        """How far readings of one window can reach into the next; zero for counters, which are read at the marks."""
        return self.period_s

    @property
    @abstractmethod
    def covers(self) -> str:
        """What the energy covers, such as "package-0, dram" or "the whole device"."""

    @abstractmethod
    def available(self) -> str | None:
        """None if it can be used; otherwise the reason, in one line."""

    @abstractmethod
    def recording(self) -> AbstractContextManager[Recording]:
        """Record from now until the end of the block."""


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
