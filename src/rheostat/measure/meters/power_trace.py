"""A power trace that another meter records: a CSV file, aligned with the run by its time stamps.

Columns: `time` (Unix seconds, or ISO 8601 with its offset from UTC) and either `power_w` or `energy_j` (counted from
any moment, never decreasing); further columns are ignored. The file can still grow during the run. The recorder can
read more often than the meter updates, so only changed values count as readings.
"""

from __future__ import annotations

import csv
import datetime
import io
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from rheostat.errors import MeterError, shorten, show
from rheostat.inputs import read_input_text
from rheostat.measure.meters.meter import Clock, Meter, Recording
from rheostat.measure.meters.series import EnergySeries, PowerSeries, Series, WindowEnergy

PATIENCE_S = 10.0
LONGEST_PAUSE_S = 1.0  # between two looks at a file while waiting for it
LARGEST = 1e11  # in any column; as a time, in the year 5138
SERIES: dict[str, type[Series]] = {"power_w": PowerSeries, "energy_j": EnergySeries}


def wall_clock() -> Clock:
    """Unix time that advances evenly, even if the system's clock is set during the run."""
    begin = time.time() - time.monotonic()
    return Clock(lambda: begin + time.monotonic(), time.sleep)


class TraceMeter(Meter):
    """offset_s: how far the recorder's clock is ahead of this machine's.

    patience_s: how long to wait after the run until the file covers all of it.
    """

    name = "trace"

    def __init__(
        self, path: Path, *, offset_s: float = 0.0, patience_s: float = PATIENCE_S, clock: Clock | None = None
    ) -> None:
        self.path, self.offset_s, self.patience_s = path, offset_s, patience_s
        self.clock = clock or wall_clock()

    @property
    def covers(self) -> str:
        return f"what the recorder of {self.path.name} measured"

    @property
    def period_s(self) -> float:
        series = read_trace(self.path)
        times = series.fresh_times if len(series.fresh_times) > 1 else series.times
        return float(np.median(np.diff(times)))

    def available(self) -> str | None:
        try:
            read_trace(self.path)
        except MeterError as error:
            return str(error)
        return None

    @contextmanager
    def recording(self) -> Iterator[Recording]:
        recording = TraceRecording(self)
        yield recording
        recording.finish()


class TraceRecording(Recording):
    def __init__(self, meter: TraceMeter) -> None:
        self._meter = meter
        self._series: Series | None = None
        self._first_mark, self._last_mark = math.inf, -math.inf

    def mark(self) -> float:
        moment = self._meter.clock.now() + self._meter.offset_s
        self._first_mark, self._last_mark = min(self._first_mark, moment), moment
        return moment

    def finish(self) -> None:
        """Wait until the file covers all marks, then read it."""
        deadline = self._meter.clock.now() + self._meter.patience_s
        while self._meter.clock.now() < deadline and not self._is_covered():
            self._meter.clock.sleep(min(self._meter.patience_s / 20, LONGEST_PAUSE_S))
        self._series = read_trace(self._meter.path)

    def _is_covered(self) -> bool:
        try:
            return bool(read_trace(self._meter.path).times[-1] >= self._last_mark)
        except MeterError:  # a file that is being copied is empty at first
            return False

    def reading(self, begin: float, end: float) -> WindowEnergy:
        assert self._series is not None, "a window is read after the recording"
        first, last = self._series.times[[0, -1]]
        if first > self._first_mark or last < self._last_mark:
            raise MeterError(
                f"{self._meter.path} runs from {_utc(first)} to {_utc(last)}, but the run was from "
                f"{_utc(self._first_mark)} to {_utc(self._last_mark)}; record all of it, "
                "check both clocks, and wait longer for a file that arrives late"
            )
        self._series.check_moves()
        return self._series.reading(begin, end)


def read_trace(path: Path) -> Series:
    try:
        text = read_input_text(path, "power trace")
    except (OSError, UnicodeDecodeError) as error:
        raise MeterError(f"the trace {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        column, times, values = _parse(path, text)
    except csv.Error as error:
        raise MeterError(f"{path} is not CSV ({error}); expected time, power_w or energy_j") from None
    _check_order(path, times, values, column)
    return SERIES[column](times, values, ignore_repeats=True)


def _parse(path: Path, text: str) -> tuple[str, list[float], list[float]]:
    """The column with values, times and values."""
    # A last line without a line end is still being written.
    rows = csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1]), skipinitialspace=True)
    columns = rows.fieldnames or []
    column = next((name for name in SERIES if name in columns), None)
    if column is None or "time" not in columns:
        found = shorten(", ".join(columns), 200) or "(none)"
        raise MeterError(f"{path} has the columns {found}; expected time, power_w or energy_j")
    times, values = [], []
    for row in rows:
        times.append(_number(path, rows.line_num, "time", row["time"]))
        values.append(_number(path, rows.line_num, column, row[column]))
    return column, times, values


def _check_order(path: Path, times: list[float], values: list[float], column: str) -> None:
    if len(times) < 2:
        raise MeterError(f"{path} has {len(times)} readings; expected at least two")
    if not np.all(np.diff(times) > 0):
        line = int(np.argmin(np.diff(times) > 0)) + 3
        raise MeterError(f"{path}, line {line}: the time is not later than the one before; sort the trace")
    if column == "energy_j" and not np.all(np.diff(values) >= 0):
        line = int(np.argmin(np.diff(values) >= 0)) + 3
        raise MeterError(f"{path}, line {line}: the energy is less than before; expected a count that never decreases")


def _number(path: Path, line: int, column: str, text: str | None) -> float:
    try:
        value = _seconds(text or "") if column == "time" else float(text or "")
    except ValueError as error:
        why = shorten(str(error), 100)
        raise MeterError(f"{path}, line {line}: {column} is {show(text)} ({why})") from None
    if not math.isfinite(value):
        raise MeterError(f"{path}, line {line}: {column} is {show(text)}; expected a finite number")
    least = 0 if column == "time" else -LARGEST
    if not least <= value <= LARGEST:
        raise MeterError(f"{path}, line {line}: {column} is {value:g}; expected a number from {least:g} to {LARGEST:g}")
    return value


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        moment = datetime.datetime.fromisoformat(text.strip())
    if moment.tzinfo is None:
        raise ValueError("it needs an offset from UTC, as in 2026-01-31T12:00:00+00:00")
    return moment.timestamp()


def _utc(moment: float) -> str:
    return datetime.datetime.fromtimestamp(moment, datetime.UTC).isoformat(timespec="milliseconds")
