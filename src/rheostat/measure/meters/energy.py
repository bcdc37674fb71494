"""Energy per query: blocks of queries with idle blocks among them; the idle power of the same round is subtracted.

Knows how a run is laid out and what can be concluded from it; knows nothing of devices or models. A figure that the
meter could not resolve is marked as such, and a missing one is None, never zero.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rheostat.errors import MeterError
from rheostat.measure.meters.choice import EnergySource, Estimate, NoMeter
from rheostat.measure.meters.meter import Meter, Recording
from rheostat.measure.meters.series import WindowEnergy

SHORTEST_BLOCK_S = 2.0  # by default, of work and of idle
IDLE_LOOKS = 40  # readings of a counter during an idle window
GUARDS_BEFORE = 2  # a reading can be the mean of one period and be shown during the next
GUARDS_AFTER = 1  # the power at the end of a window is interpolated towards the next reading


@dataclass(frozen=True)
class Work:
    """Something to measure. run: performs some queries and returns their number; called until a block is full.

    Counters are read between runs, so a run should take at most a tenth of a block.
    """

    run: Callable[[], int]
    flops: float | None = None  # per query; only an estimate needs them
    bytes_read: float | None = None


@dataclass(frozen=True)
class Plan:
    """The duration of a run. Seconds that are None are chosen to suit the meter."""

    idle_seconds: float | None = None  # of each idle block; one per round, at a rotating place among the blocks
    blocks: int = 10  # per work; their spread gives the interval
    block_seconds: float | None = None
    minimum_samples: int = 10  # meter readings needed in every block and while idle

    def __post_init__(self) -> None:
        if self.blocks < 2:
            raise ValueError(f"{self.blocks} blocks; an interval needs at least two")

    def needed_s(self, period_s: float) -> float:
        """The shortest window that is sure to hold the readings needed, whenever it starts."""
        return (self.minimum_samples + 1) * period_s

    def idle_s(self, period_s: float) -> float:
        return self.idle_seconds or max(SHORTEST_BLOCK_S, self.needed_s(period_s))

    def block_s(self, period_s: float) -> float:
        return self.block_seconds or max(SHORTEST_BLOCK_S, self.needed_s(period_s))


@dataclass(frozen=True)
class EnergyPerQuery:
    """The energy of one query above idle, according to one meter."""

    meter: str
    covers: str
    energy_mj: float | None  # None: not measured
    interval_mj: tuple[float, float] | None = None  # of the differences between a block and the idle block of its round
    gross_mj: float | None = None  # before idle power is subtracted
    idle_power_w: float | None = None  # mean of the idle blocks
    idle_drift_w: float | None = None  # last idle block minus the first
    idle_uncertainty_mj: float | None = None  # half of the interval that idle power alone would give
    queries: int = 0
    seconds: float = 0.0
    blocks: int = 0
    samples_per_block: int | None = None  # the fewest
    sampling_hz: float | None = None
    estimate: bool = False
    resolved: bool = False
    reason: str | None = None  # why it is not measured, or not resolved

    def __str__(self) -> str:
        if self.energy_mj is None:
            return "not measured"
        if self.estimate:
            return f"{self.energy_mj:.3g} mJ (estimate)"
        low, high = self.interval_mj or (self.energy_mj, self.energy_mj)
        return f"{self.energy_mj:.3g} ± {(high - low) / 2:.3g} mJ" + ("" if self.resolved else " (not resolved)")

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Window:
    """The part of a recording between two marks, and the number of queries in it."""

    begin: float
    end: float
    queries: int = 0


@dataclass(frozen=True)
class Windows:
    """All windows of a run, one of each per round. works: the blocks of each work."""

    idle: list[Window] = field(default_factory=list)
    works: list[list[Window]] = field(default_factory=list)


DEFAULT_PLAN = Plan()


def measure_energy(source: EnergySource, work: Work, plan: Plan = DEFAULT_PLAN) -> EnergyPerQuery:
    return measure_energies(source, [work], plan)[0]


def measure_energies(source: EnergySource, works: Sequence[Work], plan: Plan = DEFAULT_PLAN) -> list[EnergyPerQuery]:
    """Measure several works with shared idle windows. Blocks are interleaved, so heat and load affect all equally.

    If the meter stops in the middle, the results are "not measured", with the reason.
    """
    if isinstance(source, NoMeter):
        return [EnergyPerQuery(source.name, "", None, reason=source.reason) for _ in works]
    if isinstance(source, Estimate):
        return [estimate(source, work) for work in works]
    try:
        with source.recording() as recording:
            windows = run(source, recording, works, plan)
        return [energy_per_query(source, recording, windows, blocks, plan) for blocks in windows.works]
    except MeterError as error:
        return [EnergyPerQuery(source.name, "", None, reason=str(error)) for _ in works]


def expected_seconds(meter: Meter, works: int, plan: Plan) -> float:
    """Roughly how long a run takes."""
    period_s, guards = meter.period_s, GUARDS_BEFORE + GUARDS_AFTER
    idle_s = plan.idle_s(period_s) + guards * period_s
    return plan.blocks * (idle_s + works * (plan.block_s(period_s) + guards * meter.guard_s))


def estimate(source: Estimate, work: Work) -> EnergyPerQuery:
    if work.flops is None or work.bytes_read is None:
        return EnergyPerQuery(source.name, source.covers, None, estimate=True, reason="FLOPs or bytes are not known")
    energy_mj = 1e3 * source.energy_j(work.flops, work.bytes_read)
    return EnergyPerQuery(
        source.name, source.covers, energy_mj, estimate=True, reason="computed from FLOPs and bytes, not measured"
    )


def run(meter: Meter, recording: Recording, works: Sequence[Work], plan: Plan) -> Windows:
    """Run the interleaved blocks, with an idle block among them in every round."""
    period_s, guard_s = meter.period_s, meter.guard_s  # read now: the sensor can disappear later
    idle_s, block_s = plan.idle_s(period_s), plan.block_s(period_s)
    for work in works:
        work.run()  # warm-up, so that the first block is like the others
    idle: list[Window] = []
    blocks: list[list[Window]] = [[] for _ in works]
    for turn in range(plan.blocks):
        for number in interleaved_order(1 + len(works), turn):
            if number == 0:
                idle.append(_idle(meter, recording, idle_s, period_s))
            else:
                blocks[number - 1].append(_block(meter, recording, works[number - 1], block_s, guard_s))
    return Windows(idle, blocks)


def _idle(meter: Meter, recording: Recording, seconds: float, guard_s: float) -> Window:
    meter.clock.sleep(GUARDS_BEFORE * guard_s)
    begin = recording.mark()
    for _ in range(IDLE_LOOKS):
        meter.clock.sleep(seconds / IDLE_LOOKS)
        recording.poll()
    window = Window(begin, recording.mark())
    meter.clock.sleep(GUARDS_AFTER * guard_s)
    return window


def _block(meter: Meter, recording: Recording, work: Work, seconds: float, guard_s: float) -> Window:
    """Run a block. The work also runs before and after the window, during the guards."""
    _work_on(meter, work, GUARDS_BEFORE * guard_s)
    begin, deadline = recording.mark(), meter.clock.now() + seconds
    queries = work.run()
    while meter.clock.now() < deadline:
        recording.poll()
        queries += work.run()
    assert queries > 0, "work says how many queries it performed"
    window = Window(begin, recording.mark(), queries)
    _work_on(meter, work, GUARDS_AFTER * guard_s)
    return window


def _work_on(meter: Meter, work: Work, seconds: float) -> None:
    deadline = meter.clock.now() + seconds
    while meter.clock.now() < deadline:
        work.run()


def energy_per_query(
    meter: Meter, recording: Recording, windows: Windows, blocks: Sequence[Window], plan: Plan
) -> EnergyPerQuery:
    """The energy of one work, from the recording."""
    idle = [recording.reading(window.begin, window.end) for window in windows.idle]
    readings = [recording.reading(block.begin, block.end) for block in blocks]
    idle_powers_w = [reading.power_w for reading in idle]
    drift_w = idle_powers_w[-1] - idle_powers_w[0]
    queries, seconds = sum(block.queries for block in blocks), sum(reading.duration_s for reading in readings)
    net_mj = [
        1e3 * (reading.energy_j - idle_w * reading.duration_s) / block.queries
        for reading, block, idle_w in zip(readings, blocks, idle_powers_w, strict=True)
    ]
    # Paired: what changes idle power from round to round shows in the spread of the differences.
    interval_mj = confidence_interval(net_mj)
    low_w, high_w = confidence_interval(idle_powers_w)
    idle_uncertainty_mj = 1e3 * (high_w - low_w) / 2 * seconds / queries
    reasons = shortcomings(idle, readings, interval_mj, plan)
    return EnergyPerQuery(
        meter=meter.name,
        covers=meter.covers,
        energy_mj=statistics.fmean(net_mj),
        interval_mj=interval_mj,
        gross_mj=1e3 * sum(reading.energy_j for reading in readings) / queries,
        idle_power_w=statistics.fmean(idle_powers_w),
        idle_drift_w=drift_w,
        idle_uncertainty_mj=idle_uncertainty_mj,
        queries=queries,
        seconds=seconds,
        blocks=len(blocks),
        samples_per_block=min(reading.samples for reading in readings),
        sampling_hz=sum(reading.samples for reading in readings) / seconds,
        resolved=not reasons,
        reason="; ".join(reasons) or None,
    )


def shortcomings(
    idle: Sequence[WindowEnergy], blocks: Sequence[WindowEnergy], interval_mj: tuple[float, float], plan: Plan
) -> list[str]:
    """The reasons why a figure is not reliable; empty if it is."""
    reasons, readings = [], [*idle, *blocks]
    fewest = min(readings, key=lambda reading: reading.samples)
    if fewest.samples < plan.minimum_samples:
        reasons.append(
            f"{fewest.samples} readings in a window of {fewest.duration_s:.3g} s, {plan.minimum_samples} are needed: "
            "the meter is slow, use longer blocks and idle times"
        )
    # Even with many readings, half of a window can be without one.
    gappy = max(readings, key=lambda reading: reading.largest_gap_s / reading.duration_s)
    if fewest.samples >= plan.minimum_samples and gappy.largest_gap_s > 2 * gappy.duration_s / plan.minimum_samples:
        reasons.append(f"no reading for {gappy.largest_gap_s:.3g} s in a window of {gappy.duration_s:.3g} s")
    if interval_mj[0] <= 0:
        reasons.append(
            f"the interval {interval_mj[0]:.3g} … {interval_mj[1]:.3g} mJ is not above zero: "
            f"the work cannot be told from idle, {idle[0].power_w:.3g} W in the first block "
            f"and {idle[-1].power_w:.3g} W in the last"
        )
    return reasons


def interleaved_order(count: int, turn: int) -> list[int]:
    """0 … count - 1, rotated by one each round, so that no point always follows the largest one."""
    return [(turn + number) % count for number in range(count)]


LEVEL = 0.95  # of every interval: the probability that it contains the mean


def confidence_interval(values: Sequence[float]) -> tuple[float, float]:
    """The confidence interval of the mean of at least two independent values."""
    mean = statistics.fmean(values)
    error = statistics.stdev(values) / math.sqrt(len(values))
    reach = quantile((1 + LEVEL) / 2, len(values) - 1) * error
    return mean - reach, mean + reach


def quantile(probability: float, degrees: int) -> float:
    """The quantile of the t distribution with these degrees of freedom, for a probability above one half."""
    low, high = 0.0, 1.0
    while central(high, degrees) < 2 * probability - 1:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if central(middle, degrees) < 2 * probability - 1 else (low, middle)
    return (low + high) / 2


def central(t: float, degrees: int) -> float:
    """P(|T| < t), by the finite sums of Abramowitz and Stegun 26.7.3 and 26.7.4."""
    theta = math.atan(t / math.sqrt(degrees))
    cosine, odd = math.cos(theta), degrees % 2
    term, total = (cosine if odd else 1.0), 0.0
    for step in range(2 + odd, degrees + 1, 2):
        total += term
        term *= cosine**2 * (step - 1) / step
    if odd:
        return 2 / math.pi * (theta + math.sin(theta) * total)
    return math.sin(theta) * total
