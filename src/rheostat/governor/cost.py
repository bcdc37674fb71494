"""What a query costs at each knob position of one device: the table that `rheostat bench -o table.json` writes.

Between two measured positions the cost is a straight line; below the smallest one, a line to the intercept of the
least-squares fit over all of them: the part of a query that does not shrink with the knob. Above the largest one it
grows in proportion to the fitted line.
Knows numbers and the bench's file. `decision` looks for the position that keeps a budget, `replay` adds up a day.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from rheostat.errors import RheostatError, show
from rheostat.inputs import read_input_text
from rheostat.tables import from_json

Quantity = Literal["latency_ms", "energy_mj"]
QUANTITIES: tuple[Quantity, ...] = ("latency_ms", "energy_mj")
LARGEST_COST = 1e12  # milliseconds or millijoules of a query; the sums of a day stay finite
EXPECTED = "a table that `rheostat bench MODEL --knob 1 --knob 0.5 -o table.json` wrote"


@dataclass(frozen=True)
class CostPoint:
    """One measured position. knob: the share of the cost that its point spends. energy_mj: None if not known."""

    knob: float
    latency_ms: float
    energy_mj: float | None = None

    def __post_init__(self) -> None:
        check_cost("knob", self.knob)
        check_cost("latency_ms", self.latency_ms)
        if self.energy_mj is not None:
            check_cost("energy_mj", self.energy_mj)
        if self.knob > 1:
            raise RheostatError(f"knob is {self.knob}; expected a share of the cost in (0, 1]")


def check_cost(name: str, value: object) -> None:
    """Raise RheostatError unless this is a cost that a query can have."""
    # Callers may not check their types.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LARGEST_COST:
        raise RheostatError(f"{name} is {show(value)}; expected a number above 0, at most {LARGEST_COST:g}")


@dataclass(frozen=True)
class CostTable:
    """The cost of a query by knob position, from small positions to large. source: where the figures come from."""

    points: tuple[CostPoint, ...]
    source: str = "given"

    def __post_init__(self) -> None:
        knobs = [point.knob for point in self.points]
        if not knobs or knobs != sorted(set(knobs)):
            raise RheostatError(f"a table of costs has the positions {knobs!s:.80}; expected one or more, rising")

    @classmethod
    def proportional(cls, latency_ms: float, energy_mj: float | None, source: str) -> CostTable:
        """A table from one query of the whole model: half the knob costs half as much."""
        return cls((CostPoint(1.0, latency_ms, energy_mj),), source)

    def knows(self, quantity: Quantity) -> bool:
        return quantity == "latency_ms" or all(point.energy_mj is not None for point in self.points)

    def at(self, knob: float, quantity: Quantity) -> float:
        """What a query costs at a knob position."""
        return interpolate(self.line(quantity), knob)

    def line(self, quantity: Quantity) -> tuple[tuple[float, float], ...]:
        """Corners of the cost over the knob, from knob 0 to knob 1. It never falls: noise in a table is smoothed."""
        measured = [(point.knob, getattr(point, quantity)) for point in self.points]
        if any(cost is None for _, cost in measured):
            raise RheostatError(f"the table from {self.source} has no {quantity}; expected {EXPECTED} with a meter")
        intercept, slope = fit(measured)
        costs = _rising([cost for _, cost in measured])
        corners = [(0.0, min(max(0.0, intercept), costs[0]))]
        corners += [(knob, cost) for (knob, _), cost in zip(measured, costs, strict=True)]
        if measured[-1][0] < 1:
            corners.append((1.0, costs[-1] + max(0.0, slope) * (1 - measured[-1][0])))
        return tuple(corners)

    def as_json(self) -> dict[str, Any]:
        """The corners of every known cost, for the page."""
        return {
            quantity: [list(corner) for corner in self.line(quantity)]
            for quantity in QUANTITIES
            if self.knows(quantity)
        }


def interpolate(line: Sequence[tuple[float, float]], knob: float) -> float:
    """The height of a line of corners at a knob position from 0 to 1."""
    for (left, low), (right, high) in pairwise(line):
        if knob <= right:
            return low + (high - low) * (knob - left) / (right - left)
    return line[-1][1]


def largest_within(line: Sequence[tuple[float, float]], cost: float) -> float:
    """The largest knob position from 0 to 1 at which the line is not above this cost; 0 if it is nowhere."""
    if cost >= line[-1][1]:
        return 1.0
    found = 0.0
    for (left, low), (right, high) in pairwise(line):
        if cost >= high:
            found = right
        elif cost >= low:
            return left + (right - left) * (cost - low) / (high - low)
        else:
            return found
    return found


def fit(measured: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Intercept and slope of the least-squares line; through the origin if there is only one position."""
    if len(measured) == 1:
        ((knob, cost),) = measured
        return 0.0, cost / knob
    mean_knob = sum(knob for knob, _ in measured) / len(measured)
    mean_cost = sum(cost for _, cost in measured) / len(measured)
    spread = sum((knob - mean_knob) ** 2 for knob, _ in measured)
    slope = sum((knob - mean_knob) * (cost - mean_cost) for knob, cost in measured) / spread
    return mean_cost - slope * mean_knob, slope


def _rising(costs: Sequence[float]) -> list[float]:
    """The nearest series that never falls: neighbours in the wrong order share their mean (isotonic regression)."""
    pools: list[tuple[float, int]] = []
    for cost in costs:
        pools.append((cost, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (low, few), (high, more) = pools.pop(), pools.pop()
            pools.append(((low * few + high * more) / (few + more), few + more))
    return [mean for mean, size in pools for _ in range(size)]


@dataclass(frozen=True)
class _Energy:
    energy_mj: float | None = None


@dataclass(frozen=True)
class _Row:
    flops_fraction: float
    latency_ms: float
    energy: _Energy = _Energy()
    label: str = ""
    cost_fraction: float | None = None  # FLOPs weighted by bits, if that differs

    @property
    def knob(self) -> float:
        return self.flops_fraction if self.cost_fraction is None else self.cost_fraction


@dataclass(frozen=True)
class _Bench:
    kind: Literal["bench"]
    rows: tuple[_Row, ...]


def read_costs(path: str | Path) -> CostTable:
    """The table in a bench's results file. Its energy counts only if every position has one."""
    bench = _read(Path(path))
    known = all(row.energy.energy_mj is not None and row.energy.energy_mj > 0 for row in bench.rows)
    # Two stored points can cost the same share; the cheaper one is what a budget would take.
    rows = sorted(bench.rows, key=lambda row: (row.knob, row.latency_ms))
    points = {
        row.knob: CostPoint(row.knob, row.latency_ms, row.energy.energy_mj if known else None) for row in reversed(rows)
    }
    return CostTable(tuple(points[knob] for knob in sorted(points)), Path(path).name)


def _read(path: Path) -> _Bench:
    try:
        contents = json.loads(read_input_text(path, "results file"))
    except OSError as error:
        raise RheostatError(f"cannot read {path}: {error.strerror}; expected {EXPECTED}") from None
    except (ValueError, RecursionError) as error:
        raise RheostatError(f"{path} is not JSON ({error}); expected {EXPECTED}") from None
    if not isinstance(contents, Mapping) or contents.get("kind") != "bench":
        kind = contents.get("kind") if isinstance(contents, Mapping) else None
        raise RheostatError(f"{path} has the kind {kind!r:.40}; expected {EXPECTED}")
    try:
        bench = from_json(_Bench, contents, "bench", ignore_unknown=True)
        if not bench.rows:
            raise RheostatError("it has no rows")
        for row in bench.rows:
            CostPoint(row.knob, row.latency_ms)
    except RheostatError as error:
        raise RheostatError(f"{path}: {error}; expected {EXPECTED}") from None
    return bench
