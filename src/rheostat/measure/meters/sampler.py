"""Meters that report the current power: sampled by a thread during the whole recording."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from rheostat.errors import MeterError
from rheostat.measure.meters.meter import Meter, Recording
from rheostat.measure.meters.series import PowerSeries, WindowEnergy


class SamplerMeter(Meter):
    """A meter that reports watts."""

    waits_for_itself = False  # reading blocks until the meter has a new value, so no pause is needed
    stopping_s = 15.0  # the longest wait for a reading in progress when the run ends

    @property
    def only_changes_count(self) -> bool:
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
        self._only_changes_count = meter.only_changes_count  # read now: the sensor can disappear later
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
        series = PowerSeries(self._times, self._watts, only_changes_count=self._only_changes_count)
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
