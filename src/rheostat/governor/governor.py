"""The governor: reads the battery and the clock, asks the policy, and turns the knob of a predictor.

    governor = Governor(predictor)
    with governor.run_in_background():
        ...

Knows clocks, threads and locks. `decision` decides what to do at a battery level. Does not know what a knob position
costs, except for reported latencies.
"""

from __future__ import annotations

import math
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Protocol

from rheostat.errors import RheostatError, RheostatWarning
from rheostat.governor.battery import ReadBattery, psutil_battery
from rheostat.governor.decision import Decision, Situation, decide
from rheostat.governor.policy import DEFAULT, Policy, read_policy

STALE_S = 300.0  # an older latency says nothing about how busy the device is now


class HasKnob(Protocol):
    """Anything that can be governed: a `Predictor`, or another object with a knob that can be turned."""

    @property
    def knob(self) -> float: ...

    def turn(self, knob: float, *, wait: bool) -> object: ...


class Governor:
    """Keeps the knob of a predictor where the policy wants it. Safe to use from several threads."""

    def __init__(
        self,
        predictor: HasKnob,
        policy: Policy | str | Path = DEFAULT,
        *,
        battery: ReadBattery = psutil_battery,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """policy: a policy, the path of its file, or its name. clock: seconds that never go backwards."""
        self.policy = policy if isinstance(policy, Policy) else read_policy(policy)
        self._predictor, self._battery, self._clock = predictor, battery, clock
        self._decision = Decision(predictor.knob)
        self._latencies = LatencyWindow(self.policy.latency_window)
        self._updating = threading.Lock()

    @property
    def decision(self) -> Decision:
        """The last decision: the knob position, and the reason for it."""
        return self._decision

    def update(self, *, wait: bool = False) -> Decision:
        """Read the battery, decide, and turn the knob if it should change. wait: as in `Predictor.turn`."""
        with self._updating:
            battery, now = self._battery(), self._clock()
            decision = decide(self.policy, Situation(now, battery, self._latencies.p95_ms(now)), self._decision)
            if decision.knob != self._decision.knob:
                self._predictor.turn(decision.knob, wait=wait)
                self._latencies.clear()  # they were observed at the old position
            self._decision = decision
        return decision

    def observe(self, latency_ms: float) -> None:
        """Report how long a query took; the next update takes it into account."""
        given: object = latency_ms  # callers may not check their types
        if not (isinstance(given, int | float) and 0 <= given < math.inf):
            raise RheostatError(f"a latency of {given!r:.40} was reported; expected milliseconds, 0 or more")
        self._latencies.add(self._clock(), latency_ms)

    def run_in_background(self, interval_s: float = 10.0) -> Background:
        """Update in a thread, now and every `interval_s` seconds, until the block ends or `stop()` is called."""
        return Background(partial(self.update, wait=True), interval_s)


class LatencyWindow:
    """The last `size` latencies, and their 95th percentile once there are that many."""

    def __init__(self, size: int) -> None:
        self._entries: deque[tuple[float, float]] = deque(maxlen=size)
        self._size, self._lock = size, threading.Lock()

    def add(self, time_s: float, latency_ms: float) -> None:
        with self._lock:
            self._entries.append((time_s, latency_ms))

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()

    def p95_ms(self, now_s: float) -> float | None:
        with self._lock:
            fresh = [latency_ms for time_s, latency_ms in self._entries if now_s - time_s <= STALE_S]
        return percentile_95(fresh) if len(fresh) == self._size else None


def percentile_95(values: Sequence[float]) -> float:
    """The smallest value that at least 95 % of the values do not exceed."""
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]


class Background:
    """A thread that calls `update` at an interval. As a context manager, it ends with the block.

    If the battery cannot be read or the knob cannot be turned, it tries again at the next interval. `error` holds the
    last such error; the first one is also issued as a warning.
    """

    def __init__(self, update: Callable[[], object], interval_s: float) -> None:
        # The operating system cannot wait longer than this.
        if not 0 < interval_s <= threading.TIMEOUT_MAX:
            raise RheostatError(f"the interval is {interval_s} s; expected seconds above 0")
        self.error: Exception | None = None
        self._update, self._interval_s = update, interval_s
        self._stopping = threading.Event()
        # A daemon thread, so an app that forgets to stop it can still exit.
        self._thread = threading.Thread(target=self._run, name="rheostat-governor", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait for it to end. A second call does nothing."""
        self._stopping.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def __enter__(self) -> Background:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        while True:
            try:
                self._update()
            except Exception as error:
                self._report(error)
            if self._stopping.wait(self._interval_s):
                return

    def _report(self, error: Exception) -> None:
        first, self.error = self.error is None, error
        if first:
            warnings.warn(f"the governor could not update ({error}); it keeps trying", RheostatWarning, stacklevel=1)
