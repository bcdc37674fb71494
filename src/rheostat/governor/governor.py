"""The governor: reads the device and the clock, asks the policy, and turns the knob of a predictor.

    governor = Governor(predictor)
    with governor.run_in_background():
        ...

Knows clocks, threads and locks. `decision` decides what to do in a situation, `cost` what a knob position costs.
"""

from __future__ import annotations

import math
import statistics
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Protocol

from rheostat.arguments import checked, is_number, shown
from rheostat.errors import NotCopyable, OperatingPointError, RheostatError, RheostatWarning, show
from rheostat.governor.cost import LARGEST_COST, CostTable, read_costs
from rheostat.governor.decision import Decision, Situation, check_budget, decide
from rheostat.governor.device import DeviceState, ReadBattery, ReadDevice
from rheostat.governor.policy import DEFAULT, Policy, read_policy
from rheostat.governor.readers import read_device

STALE_S = 300.0  # an older latency says nothing about how busy the device is now
READ_S = 1.0  # between two readings of the device: Android returns NaN if its headroom is read more often


class HasKnob(Protocol):
    """Anything that can be governed: a `Predictor`, or another object with a knob that can be turned."""

    @property
    def knob(self) -> float: ...

    def turn(self, knob: float, *, wait: bool) -> object: ...


class Governor(NotCopyable):
    """Keeps the knob of a predictor where the policy wants it. Safe to use from several threads."""

    @checked
    def __init__(
        self,
        predictor: HasKnob,
        policy: Policy | str | Path = DEFAULT,
        *,
        table: CostTable | str | Path | None = None,
        device: ReadDevice | None = None,
        battery: ReadBattery | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """policy: a policy, the path of its file, or its name. clock: seconds that never go backwards.

        table: what queries cost on this device, or the file that `rheostat bench -o` wrote; needed for budgets. device:
        reads everything that the device reports, by default this machine. battery: reads only the battery, instead.
        """
        if device is not None and battery is not None:
            raise RheostatError("both device= and battery= were given; expected one: a device's reading has a battery")
        self.policy = policy if isinstance(policy, Policy) else read_policy(policy)
        self.table = read_costs(table) if isinstance(table, str | Path) else table
        check_budget(self.policy, self.table)
        self._predictor, self._clock = predictor, clock
        self._device = device or (read_device if battery is None else partial(_only_battery, battery))
        self._decision = Decision(predictor.knob)
        self._latencies = LatencyWindow(self.policy.latency_window)
        self._energies = LatencyWindow(self.policy.latency_window)
        self._reading: tuple[float, DeviceState] | None = None
        self._updating = threading.Lock()

    @property
    def decision(self) -> Decision:
        """The last decision: the knob position, and the reason for it."""
        return self._decision

    def update(self, *, wait: bool = False) -> Decision:
        """Read the device, decide, and turn the knob if it should change. wait: as in `Predictor.turn`."""
        with self._updating:
            decision = decide(self.policy, self._situation(self._clock()), self._decision, self.table)
            if decision.knob != self._decision.knob:
                self._turn(decision.knob, wait)
                self._latencies.clear()  # they were observed at the old position
                self._energies.clear()
            self._decision = decision
        return decision

    def _turn(self, knob: float, wait: bool) -> None:
        """Turn the knob; as far down as the model goes, if the policy asks for less."""
        try:
            self._predictor.turn(knob, wait=wait)
        except OperatingPointError as error:
            if error.smallest is None:
                raise
            self._predictor.turn(error.smallest, wait=wait)

    def _situation(self, now: float) -> Situation:
        if self._reading is None or not 0 <= now - self._reading[0] < READ_S:
            self._reading = now, self._device()
        state = self._reading[1]
        return Situation(
            now,
            p95_ms=self._latencies.p95_ms(now),
            latency_ms=self._latencies.median(now),
            energy_mj=self._energies.mean(now),
            **{one.name: getattr(state, one.name) for one in fields(state)},
        )

    def observe(self, latency_ms: float, energy_mj: float | None = None) -> None:
        """Report how long a query took, and its energy if a meter knows it; the next update takes them into account."""
        _check_observed("a latency", latency_ms, "milliseconds")
        now = self._clock()
        if energy_mj is not None:
            _check_observed("an energy", energy_mj, "millijoules")
            self._energies.add(now, energy_mj)
        self._latencies.add(now, latency_ms)

    def run_in_background(self, interval_s: float = 10.0) -> Background:
        """Update in a thread, now and every `interval_s` seconds, until the block ends or `stop()` is called."""
        return Background(partial(self.update, wait=True), interval_s)


def _only_battery(read: ReadBattery) -> DeviceState:
    return DeviceState(read())


def _check_observed(what: str, value: object, unit: str) -> None:
    # Callers may not check their types.
    if isinstance(value, bool) or not (isinstance(value, int | float) and 0 <= value <= LARGEST_COST):
        raise RheostatError(
            f"{what} of {show(value)} was reported; expected {unit}, 0 or more, at most {LARGEST_COST:g}"
        )


class LatencyWindow:
    """The last `size` costs of queries, and their statistics once there are that many."""

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
        fresh = self._fresh(now_s)
        return percentile_95(fresh) if fresh else None

    def median(self, now_s: float) -> float | None:
        fresh = self._fresh(now_s)
        return statistics.median(fresh) if fresh else None

    def mean(self, now_s: float) -> float | None:
        fresh = self._fresh(now_s)
        return statistics.fmean(fresh) if fresh else None

    def _fresh(self, now_s: float) -> list[float]:
        """A full window of recent values; empty if there are too few."""
        with self._lock:
            fresh = [value for time_s, value in self._entries if now_s - time_s <= STALE_S]
        return fresh if len(fresh) == self._size else []


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
        if not (is_number(interval_s) and 0 < interval_s <= threading.TIMEOUT_MAX):
            raise RheostatError(f"the interval is {shown(interval_s)}; expected seconds above 0")
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
