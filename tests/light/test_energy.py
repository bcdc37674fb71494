"""Energy per query: windows, subtracted idle, intervals, and what is reported when a meter fails."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from rheostat.measure.meters import (
    EnergyPerQuery,
    Estimate,
    MeterError,
    NoMeter,
    Plan,
    Work,
    measure_energies,
    measure_energy,
)
from rheostat.measure.meters.energy import confidence_interval, expected_seconds, quantile
from rheostat.measure.meters.meter import Clock, CounterMeter, Meter, Recording
from rheostat.measure.meters.power_trace import TraceMeter, read_trace
from rheostat.measure.meters.series import EnergySeries, PowerSeries, WindowEnergy

POWER = Path(__file__).parents[1] / "data" / "power"
# 2 W for 10.3 s, 5 W until 25.8 s, then 2.4 W, up and down by 0.01; ten readings per second, starting a second earlier
STEPS = POWER / "steps.csv"
STEPS_ENERGY = POWER / "steps-energy.csv"  # the same as counted energy, with ISO time stamps of another time zone
STEPS_BEGIN = 1_700_000_000.0
PLAN = Plan(idle_seconds=2.0, blocks=5, block_seconds=2.0, minimum_samples=10)


class Time:
    """A clock that moves only when something happens, and the power of a device over that time."""

    def __init__(self, now: float = STEPS_BEGIN, idle_w: float = 2.0) -> None:
        self.moment, self.idle_w, self.energy_j = now, idle_w, 0.0
        self.passed = [(now, 0.0)]  # moments and the energy up to them
        self.clock = Clock(lambda: self.moment, self.sleep)

    def sleep(self, seconds: float) -> None:
        self._pass(seconds, self.idle_w)

    def work(self, seconds: float = 0.5, queries: int = 10, watts: float = 5.0) -> Work:
        def run() -> int:
            self._pass(seconds, watts)
            return queries

        return Work(run)

    def _pass(self, seconds: float, watts: float) -> None:
        self.moment += seconds
        self.energy_j += watts * seconds
        self.passed.append((self.moment, self.energy_j))


class ExactCounter(CounterMeter):
    """Counts the device's energy exactly, but updates the count only once per period."""

    name = "exact"
    covers = "everything"
    period_s = 0.001

    def __init__(self, time: Time, dies_after: int | None = None, moves_every_s: float | None = None) -> None:
        """moves_every_s: how often the count is updated, if not once per period."""
        self._time, self.clock, self._left = time, time.clock, dies_after
        self._moves_every_s = moves_every_s

    def available(self) -> str | None:
        return None

    @contextmanager
    def opened(self) -> Iterator[object]:  # type: ignore[override]
        yield self._read

    def _read(self) -> float:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise MeterError("the counter file is gone")
        period_s = self._moves_every_s or self.period_s
        moved = math.floor(self._time.moment / period_s + 1e-6) * period_s
        return float(np.interp(moved, *zip(*self._time.passed, strict=True)))


class LaggingSampler(Meter):
    """The mean power of the last second, once per second, of a device that was busy until the run.

    stamped_s: how much earlier the time stamp of a reading is. shown_s: how often it is read again until the next one.
    """

    name = "lagging"
    covers = "everything"
    period_s = 1.0

    def __init__(self, time: Time, stamped_s: float = 0.0, shown_s: float = 1.0) -> None:
        self._time, self.clock, self._stamped_s, self._shown_s = time, time.clock, stamped_s, shown_s

    def available(self) -> str | None:
        return None

    @contextmanager
    def recording(self) -> Iterator[Recording]:
        busy = self._time.work(seconds=5.3, watts=10.0)
        busy.run()
        yield LaggingRecording(self)
        busy.run()

    def series(self) -> PowerSeries:
        (first, _), (last, _) = self._time.passed[0], self._time.passed[-1]
        times = np.arange(first + 2, last, self._shown_s)
        came = np.floor(times + 1e-6)
        after, before = (np.interp(moment, *zip(*self._time.passed, strict=True)) for moment in (came, came - 1))
        return PowerSeries(times - self._stamped_s, after - before)


class LaggingRecording(Recording):
    def __init__(self, meter: LaggingSampler) -> None:
        self._meter = meter

    def mark(self) -> float:
        return self._meter.clock.now()

    def reading(self, begin: float, end: float) -> WindowEnergy:
        return self._meter.series().reading(begin, end)


def trace_of(path: Path, time: Time, **options: float) -> TraceMeter:
    return TraceMeter(path, clock=time.clock, patience_s=1.0, **options)


# Windows of a series


def test_power_is_integrated_over_exactly_the_window() -> None:
    series = PowerSeries([0, 1, 2, 3], [0, 2, 2, 6])
    assert series.reading(1, 2).energy_j == pytest.approx(2)
    assert series.reading(0.5, 2.5).energy_j == pytest.approx((1 + 2) / 2 * 0.5 + 2 + (2 + 4) / 2 * 0.5)


def test_a_window_between_two_readings_is_interpolated() -> None:
    reading = PowerSeries([0, 10], [0, 10]).reading(4, 6)
    assert (reading.energy_j, reading.samples, reading.largest_gap_s) == (pytest.approx(10), 0, 2)


def test_nothing_is_extrapolated() -> None:
    with pytest.raises(MeterError, match=r"begin 0.500 s late and end 1.000 s early"):
        PowerSeries([1, 2], [1, 1]).reading(0.5, 3)


def test_counted_energy_is_the_difference_of_two_counts() -> None:
    assert EnergySeries([0, 1, 2], [100, 103, 109]).reading(0.5, 2).energy_j == pytest.approx(7.5)


def test_a_repeated_value_is_not_a_reading_if_only_changes_count() -> None:
    series = PowerSeries(range(7), [1, 1, 1, 2, 2, 1, 1], ignore_repeats=True)
    reading = series.reading(0, 6)
    assert (reading.samples, reading.largest_gap_s) == (2, 3)


def test_a_gap_in_the_readings_is_reported() -> None:
    assert PowerSeries([0, 1, 2, 8, 9], [1] * 5).reading(0.5, 9).largest_gap_s == 6


# Intervals


@pytest.mark.parametrize(("degrees", "expected"), [(1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262), (60, 2.000)])
def test_quantiles_of_student_are_the_tabulated_ones(degrees: int, expected: float) -> None:
    assert quantile(0.975, degrees) == pytest.approx(expected, abs=5e-4)


def test_the_interval_of_three_values() -> None:
    low, high = confidence_interval([1.0, 2.0, 3.0])
    assert (low + high) / 2 == pytest.approx(2) and (high - low) / 2 == pytest.approx(4.3027 / 3**0.5, rel=1e-4)


# A recorded trace


@pytest.mark.parametrize("path", [STEPS, STEPS_ENERGY], ids=["power", "energy"])
def test_a_recorded_trace_gives_its_known_energy(path: Path) -> None:
    time = Time()
    result = measure_energy(trace_of(path, time), time.work(), PLAN)
    # idle 2.0 to 2.4 W, 2.2 W on average; work 5 W; 20 queries per second
    assert result.resolved, result.reason
    assert result.energy_mj == pytest.approx(1e3 * (5 - 2.2) / 20, rel=1e-3)
    assert result.gross_mj == pytest.approx(1e3 * 5 / 20, rel=1e-3)
    assert (result.idle_power_w, result.idle_drift_w) == (pytest.approx(2.2, rel=1e-3), pytest.approx(0.4, rel=1e-2))
    # Student's t for five idle blocks, with a standard deviation of 0.158 W
    assert result.idle_uncertainty_mj == pytest.approx(1e3 * 2.776 * 0.1581 / 5**0.5 / 20, rel=1e-2)
    assert (result.queries, result.blocks, result.meter) == (200, 5, "trace")
    assert result.seconds == pytest.approx(10)


def test_a_trace_is_aligned_by_the_offset_of_its_clock() -> None:
    time = Time(STEPS_BEGIN - 7200)
    result = measure_energy(trace_of(STEPS, time, offset_s=7200.0), time.work(), PLAN)
    assert result.energy_mj == pytest.approx(140, rel=1e-3)


def test_a_trace_that_does_not_cover_the_run_says_both_times() -> None:
    time = Time(STEPS_BEGIN + 5)
    result = measure_energy(trace_of(STEPS, time), time.work(), PLAN)
    assert result.energy_mj is None and result.reason is not None
    assert "2023-11-14T22:13:50.900+00:00, but the run was from 2023-11-14T22:13:25" in result.reason


def test_a_trace_that_is_still_written_is_waited_for(tmp_path: Path) -> None:
    lines = STEPS.read_text().splitlines(keepends=True)
    growing = tmp_path / "growing.csv"
    growing.write_text("".join(lines[:100]) + "17000000")  # the line being written does not count
    time = Time()

    def sleep(seconds: float) -> None:
        time.sleep(seconds)
        if time.moment > STEPS_BEGIN + 27:
            growing.write_text("".join(lines))

    meter = TraceMeter(growing, patience_s=5.0, clock=Clock(time.clock.now, sleep))
    assert measure_energy(meter, time.work(), PLAN).energy_mj == pytest.approx(140, rel=1e-3)


def polled(path: Path, rows_a_second: int) -> Path:
    """The file of a logger that polls more often than the plug has a new value, which is once per second."""
    rows = range(-5 * rows_a_second, 60 * rows_a_second)
    second = [row // rows_a_second for row in rows]
    watts = [(5.0 if 10 <= at < 26 else 2.0) + 0.1 * (at % 2) for at in second]
    lines = [f"{STEPS_BEGIN + row / rows_a_second},{power}\n" for row, power in zip(rows, watts, strict=True)]
    path.write_text("time,power_w\n" + "".join(lines))
    return path


def test_a_trace_that_repeats_a_reading_has_no_more_of_them(tmp_path: Path) -> None:
    time = Time()
    meter = trace_of(polled(tmp_path / "polled.csv", 10), time)
    assert meter.period_s == pytest.approx(1)
    result = measure_energy(meter, time.work(), PLAN)
    assert not result.resolved and result.samples_per_block == 2
    assert "2 readings in a window of 2 s, 10 are needed" in (result.reason or "")


def test_the_period_of_a_trace_without_changes_is_that_of_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "still.csv"
    path.write_text("time,power_w\n1,2\n1.5,2\n2,2\n")
    assert TraceMeter(path).period_s == 0.5


def test_a_trace_that_is_copied_over_after_the_run_is_waited_for(tmp_path: Path) -> None:
    lines = STEPS.read_text().splitlines(keepends=True)
    copied, time = tmp_path / "copied.csv", Time()
    copied.write_text("".join(lines[:10]))

    def sleep(seconds: float) -> None:
        time.sleep(seconds)
        since = time.moment - STEPS_BEGIN
        copied.write_text("".join(lines[:10] if since < 200 else [] if since < 300 else lines))

    meter = TraceMeter(copied, patience_s=600.0, clock=Clock(time.clock.now, sleep))
    assert measure_energy(meter, time.work(), PLAN).energy_mj == pytest.approx(140, rel=1e-3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"columns \(none\); expected time, power_w or energy_j"),
        ("when,power_w\n1,2\n", "columns when, power_w"),
        ("time,power_w\n1,2\n", "has 1 readings"),
        ("time,power_w\n1,2\n1,2\n", "line 3: the time is not later"),
        ("time,power_w\n1,2\n2,nan\n", "line 3: power_w is 'nan'; expected a finite number"),
        ("time,power_w\n1,2\n2\n", "line 3: power_w is None"),
        ("time,energy_j\n1,2\n2,1\n", "line 3: the energy is less than before"),
        ("time,power_w\n2026-01-31T12:00:00,2\n", "needs an offset from UTC"),
        ("time,power_w\nyesterday,2\n", "line 2: time is 'yesterday'"),
        ("time,power_w\n1,2\n1e300,2\n", r"line 3: time is 1e\+300; expected a number from 0 to 1e\+11"),
        ("time,power_w\n-1,2\n", "line 2: time is -1; expected a number from 0"),
        ("[" * 100_000 + "\n", "has the columns"),
        ("[" * 200_000 + "\n", "is not CSV"),
        (f"time,power_w\n1,2\n{'x' * 90_000},3\n", "line 3: time is 'x"),
        (f"time,power_w\n1,2\n2,{'x' * 90_000}\n", "line 3: power_w is 'x"),
    ],
)
def test_a_broken_trace_says_what_is_wrong(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(MeterError, match=message) as error:
        read_trace(path)
    assert len(str(error.value)) < 600
    assert TraceMeter(path).available() is not None


def test_a_missing_trace_is_a_reason(tmp_path: Path) -> None:
    assert "No such file" in (TraceMeter(tmp_path / "none.csv").available() or "")


# The plan of a run


def test_idle_power_is_subtracted() -> None:
    time = Time(idle_w=3.0)
    result = measure_energy(ExactCounter(time), time.work(watts=3.5), PLAN)
    # Idle blocks stand among the work, so a counter's last step before one reaches into it.
    assert result.energy_mj == pytest.approx(25, rel=1e-3) and result.gross_mj == pytest.approx(175, rel=1e-3)
    assert result.interval_mj == (pytest.approx(25, rel=1e-2), pytest.approx(25, rel=1e-2))
    assert str(result) == "25 ± 0 mJ" or str(result).startswith("25 ± ")


def wandering(idle_w: Sequence[float], above_w: float, follows: bool) -> EnergyPerQuery:
    """A device whose idle power differs in every round. follows: the power of the work moves with it."""
    time, turn = Time(idle_w=idle_w[0]), 0

    def run() -> int:
        nonlocal turn
        time.idle_w = idle_w[min(turn // 41, len(idle_w) - 1)]  # about as many runs in a block of two seconds
        turn += 1
        return time.work(seconds=0.05, queries=1, watts=above_w + (time.idle_w if follows else idle_w[0])).run()

    return measure_energy(ExactCounter(time), Work(run), PLAN)


def test_what_moves_idle_and_work_alike_cancels() -> None:
    steady = wandering([2.0] * 5, above_w=4.0, follows=True)
    moving = wandering([2.0, 2.5, 3.0, 3.5, 4.0], above_w=4.0, follows=True)
    assert steady.energy_mj == pytest.approx(200, rel=1e-2) and moving.energy_mj == pytest.approx(200, rel=0.15)
    assert moving.resolved and (moving.idle_drift_w or 0) > 1


def test_work_below_the_wandering_of_idle_is_not_resolved() -> None:
    result = wandering([2.0, 8.0, 3.0, 9.0, 2.0], above_w=1.0, follows=False)
    assert result.interval_mj is not None and result.interval_mj[0] < 0 < result.interval_mj[1]
    assert not result.resolved and "not above zero" in (result.reason or "")
    assert str(result).endswith("(not resolved)")


def test_several_loads_are_interleaved_and_share_idle() -> None:
    time, order = Time(), []

    def noted(name: str, watts: float) -> Work:
        run = time.work(seconds=2.0, watts=watts).run

        def note() -> int:
            order.append(name)
            return run()

        return Work(note)

    results = measure_energies(ExactCounter(time), [noted("a", 5.0), noted("b", 4.0)], PLAN)
    # The first round is warm-up. Idle rotates too: it comes first, last, second, first, last.
    assert order == ["a", "b"] + ["a", "b"] * 2 + ["b", "a"] + ["a", "b"] * 2
    assert [result.energy_mj for result in results] == [pytest.approx(600, rel=0.01), pytest.approx(400, rel=0.01)]


@pytest.mark.parametrize(("stamped_s", "shown_s"), [(0.0, 1.0), (0.5, 1.0), (0.0, 0.1)], ids=["late", "early", "shown"])
def test_a_slow_meter_does_not_mix_two_loads(stamped_s: float, shown_s: float) -> None:
    time = Time(now=0.0, idle_w=2.0)
    works = [time.work(seconds=0.37, queries=1, watts=watts) for watts in (10.0, 3.0, 6.0)]
    results = measure_energies(LaggingSampler(time, stamped_s, shown_s), works, Plan())
    net_w = [(result.energy_mj or 0.0) / 370 for result in results]
    assert net_w == pytest.approx([8, 1, 4], rel=0.01)
    assert all(result.resolved for result in results) and results[0].idle_power_w == pytest.approx(2, rel=0.01)


def test_a_counter_needs_no_guard_between_blocks() -> None:
    time = Time()
    works = [time.work(seconds=2.0, watts=watts) for watts in (10.0, 3.0)]
    results = measure_energies(ExactCounter(time), works, PLAN)
    assert [result.energy_mj for result in results] == pytest.approx([1600, 200], rel=0.01)
    worked = sum(result.seconds for result in results)
    # five idle blocks, the work, and the warm-up
    assert time.moment - STEPS_BEGIN == pytest.approx(5 * 2 + worked + 2 * 2.0, abs=0.1)


def test_the_interval_comes_from_the_spread_of_the_blocks() -> None:
    time, watts = Time(), iter([9.0, 4.0, 5.0, 6.0])

    def run() -> int:
        return time.work(seconds=2.0, queries=10, watts=next(watts)).run()

    result = measure_energy(ExactCounter(time), Work(run), Plan(10.0, blocks=3, block_seconds=2.0))
    assert result.interval_mj == pytest.approx(confidence_interval([400.0, 600.0, 800.0]))


def test_a_slow_meter_makes_the_run_last_longer() -> None:
    time = Time()
    meter = ExactCounter(time)
    meter.period_s = 1.0
    result = measure_energy(meter, time.work(), Plan(blocks=5))
    assert result.resolved and result.samples_per_block == 11 and result.seconds == pytest.approx(55)


@pytest.mark.parametrize("points", [1, 12])
def test_by_default_a_slow_meter_gets_enough_time_for_any_number_of_points(points: int) -> None:
    time = Time(now=0.0)
    works = [time.work(seconds=0.37, queries=1) for _ in range(points)]
    meter = LaggingSampler(time)
    results = measure_energies(meter, works, Plan())
    assert all(result.resolved and (result.samples_per_block or 0) >= 10 for result in results)
    assert time.moment == pytest.approx(expected_seconds(meter, points, Plan()), rel=0.1)


def test_blocks_set_too_short_are_not_resolved() -> None:
    time = Time()
    meter = ExactCounter(time)
    meter.period_s = 1.0
    result = measure_energy(meter, time.work(), Plan(20.0, blocks=5, block_seconds=4.0))
    assert result.energy_mj == pytest.approx(150, rel=0.1) and not result.resolved
    assert "4 readings in a window of 4 s, 10 are needed" in (result.reason or "")
    assert str(result).endswith("(not resolved)")


def test_blocks_last_as_long_as_set_for_any_number_of_points() -> None:
    time = Time()
    plan = Plan(20.0, blocks=2, block_seconds=60.0)
    results = measure_energies(ExactCounter(time), [time.work(seconds=1.0) for _ in range(3)], plan)
    assert [result.seconds for result in results] == [pytest.approx(120)] * 3


def test_a_counter_that_changes_too_rarely_is_not_resolved() -> None:
    time = Time()
    slow = ExactCounter(time, moves_every_s=1.0)
    result = measure_energy(slow, time.work(seconds=0.05), PLAN)
    assert not result.resolved and "readings in a window of" in (result.reason or "")


def test_a_counter_that_never_changes_is_not_measured_rather_than_zero() -> None:
    class Stuck(ExactCounter):
        def _read(self) -> float:
            return 12.5

    time = Time()
    result = measure_energy(Stuck(time), time.work(), PLAN)
    assert (result.energy_mj, str(result)) == (None, "not measured")
    assert "all the same (12.5): the meter answers, but its value does not change" in (result.reason or "")


def test_a_trace_of_constant_power_is_not_measured(tmp_path: Path) -> None:
    path = tmp_path / "flat.csv"
    path.write_text("time,power_w\n" + "".join(f"{STEPS_BEGIN - 1 + i},0\n" for i in range(120)))
    time = Time()
    result = measure_energy(trace_of(path, time), time.work(), PLAN)
    assert result.energy_mj is None and "does not change" in (result.reason or "")


def test_work_that_does_not_stand_out_from_idle_is_not_resolved() -> None:
    time = Time()
    result = measure_energy(ExactCounter(time), time.work(watts=2.0), PLAN)
    assert not result.resolved and "cannot be told from idle" in (result.reason or "")


def test_readings_with_a_long_gap_are_not_resolved(tmp_path: Path) -> None:
    lines = STEPS.read_text().splitlines(keepends=True)
    path = tmp_path / "gap.csv"
    path.write_text("".join(lines[:131] + lines[139:]))  # most of a second of the first block is missing
    time = Time()
    result = measure_energy(trace_of(path, time), time.work(), PLAN)
    assert not result.resolved and "no reading for 0.9 s in a window of 2 s" in (result.reason or "")


def test_a_meter_that_dies_is_not_measured_rather_than_zero() -> None:
    time = Time()
    result = measure_energy(ExactCounter(time, dies_after=5), time.work(), PLAN)
    assert result.energy_mj is None and "the counter file is gone" in (result.reason or "")
    assert (str(result), result.as_json()["energy_mj"]) == ("not measured", None)


def test_an_error_in_the_measured_work_is_raised() -> None:
    def run() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        measure_energy(ExactCounter(Time()), Work(run), PLAN)


def test_a_plan_with_one_block_has_no_interval() -> None:
    with pytest.raises(ValueError, match="at least two"):
        Plan(blocks=1)


# No meter, and the estimate


def test_without_a_meter_nothing_runs_and_nothing_is_measured() -> None:
    result = measure_energy(NoMeter((("rapl", "no package"),)), Work(lambda: 1 // 0))
    assert result.energy_mj is None and (str(result), result.reason) == ("not measured", "rapl: no package")


def test_an_estimate_is_the_documented_sum_and_is_labelled() -> None:
    work = Work(lambda: 1 // 0, flops=48e6, bytes_read=24e6)
    result = measure_energy(Estimate(joules_per_flop=1e-12, joules_per_byte=100e-12), work)
    assert result.energy_mj == pytest.approx(0.048 + 2.4)
    assert result.estimate and not result.resolved and "not measured" in (result.reason or "")
    assert str(result) == "2.45 mJ (estimate)" and "1 pJ per FLOP and 100 pJ per byte" in result.covers


def test_an_estimate_without_flops_is_missing() -> None:
    assert measure_energy(Estimate(), Work(lambda: 1)).energy_mj is None
