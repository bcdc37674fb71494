"""The interface of all meters, and its two kinds: counters of energy, and meters whose power is sampled by a thread.

A run is one recording. Its windows (idle, blocks of queries, idle) are marked during the recording, and their energy is
computed afterwards. So a counter is read only at the marks, a sampler samples all the time, and a trace written by
another computer is read at the end. Knows nothing of queries or devices.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import ClassVar

from rheostat.errors import MeterError
from rheostat.measure.meters.series import EnergySeries, PowerSeries, WindowEnergy


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

    def poll(self) -> None:
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
    """The count at every mark, which gives a window its exact energy, and whenever `poll` is called.

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

    def poll(self) -> None:
        if self._clock.now() >= self._times[-1] + self._pause_s:
            self.mark()

    def reading(self, begin: float, end: float) -> WindowEnergy:
        series = EnergySeries(self._times, self._energy_j, ignore_repeats=True)
        series.check_moves()
        return series.reading(begin, end)


class SamplerMeter(Meter):
    """A meter that reports watts."""

    waits_for_itself = False  # reading blocks until the meter has a new value, so no pause is needed
    stopping_s = 15.0  # the longest wait for a reading in progress when the run ends

    @property
    def ignore_repeats(self) -> bool:
        """Whether only changed values count, because the sensor is read more often than it updates."""
        return False

    @property
    def lag_s(self) -> float:
        """The age of a value when it arrives: half the time it averages over."""
        return 0.0

    @abstractmethod
    def opened(self) -> AbstractContextManager[Callable[[], float]]:
        """Yields a function that reads watts or raises a MeterError."""

    @contextmanager
    def recording(self) -> Iterator[Recording]:
        with self.opened() as read_power:
            recording = SampledRecording(read_power, self)
            recording.start()
            try:
                yield recording
            finally:
                recording.stop()


class SampledRecording(Recording):
    """Time stamps and watts, and the thread that collects them."""

    def __init__(self, read_power: Callable[[], float], meter: SamplerMeter) -> None:
        self._read_power, self._meter = read_power, meter
        self._pause_s = 0.0 if meter.waits_for_itself else meter.period_s
        self._ignore_repeats = meter.ignore_repeats  # read now: the sensor can disappear later
        self._times: list[float] = []
        self._watts: list[float] = []
        self._failure: Exception | None = None
        self._last_mark = float("-inf")
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._sample, name=f"meter {meter.name}", daemon=True)

    def start(self) -> None:
        self._take()  # before the first mark; a broken meter fails here
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        self._thread.join(self._meter.stopping_s)
        if self._thread.is_alive():  # a hanging driver must not block the run; the thread ends with the process
            self._failure = MeterError(f"a reading has not finished after {self._meter.stopping_s:g} s")

    def mark(self) -> float:
        self._check()
        self._last_mark = self._meter.clock.now()
        return self._last_mark

    def reading(self, begin: float, end: float) -> WindowEnergy:
        self._check()
        series = PowerSeries(self._times, self._watts, ignore_repeats=self._ignore_repeats)
        series.check_moves()
        return series.reading(begin, end)

    def _check(self) -> None:
        if self._failure is not None:
            raise MeterError(f"the meter {self._meter.name} stopped in the middle of the run: {self._failure}")

    def _sample(self) -> None:
        try:
            while not self._ending.wait(self._pause_s):
                self._take()
            while self._times[-1] < self._last_mark:  # cover the last window to its end
                self._take()
        except Exception as error:  # any error must reach the run instead of dying with the thread
            self._failure = error

    def _take(self) -> None:
        before = self._meter.clock.now()
        watts = self._read_power()
        after = self._meter.clock.now()
        self._times.append((after if self._meter.waits_for_itself else (before + after) / 2) - self._meter.lag_s)
        self._watts.append(watts)
