"""A day under the governor, compared with "always full" and "off at 20 %": replayed, written and drawn.

Knows where the cost of a query comes from and which figures are shown; `governor.replay` does the replay.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rheostat.arguments import checked
from rheostat.errors import RheostatError, visible
from rheostat.governor.body import DEFAULT_DEVICE
from rheostat.governor.cost import CostPoint, read_costs
from rheostat.governor.policy import DEFAULT, read_policy
from rheostat.governor.replay import Comparison, FullCost, Totals, compare
from rheostat.governor.trace import read_trace
from rheostat.measure.meters.choice import Estimate
from rheostat.measure.results import (
    BenchResults,
    GovernResults,
    check_results_target,
    read_bench_of,
    read_results,
    write_results,
)
from rheostat.measure.results.shared import origin_json
from rheostat.model import knob as knob_positions
from rheostat.model.file import ModelFile, open_model
from rheostat.model.precision import Precision, bytes_read
from rheostat.report.figures.day import draw_replay
from rheostat.report.published import load_published

RESULTS = "govern.json"
PRECISION: Precision = "int8"  # as queries run on a device


@dataclass(frozen=True)
class ReplayedDay:
    """results: as in a results file. files: the files written."""

    results: GovernResults
    comparison: Comparison
    files: tuple[Path, ...]


HEADINGS = (
    "served",
    "lost",
    "energy, J (ESTIMATE)",
    "share of the battery (ESTIMATE)",
    "p95, ms (ESTIMATE)",
    "mean knob",
    "turns per hour",
    "minutes in light heat or more · moderate · severe",
    "left in the battery",
)


def figures(totals: Totals) -> tuple[str, ...]:
    """The totals of one behaviour under HEADINGS."""
    heats = (totals.light_s, totals.moderate_s, totals.severe_s)
    return (
        f"{totals.queries_served:,}",
        f"{totals.queries_lost:,}",
        f"{totals.energy_j:,.1f}",
        battery_percent(totals.battery_share),
        "" if totals.p95_latency_ms is None else f"{totals.p95_latency_ms:,.3g}",
        "" if totals.mean_knob is None else f"{totals.mean_knob:.1%}",
        f"{totals.turns_per_hour:.2g}",
        " · ".join("" if seconds is None else f"{seconds / 60:.3g}" for seconds in heats).strip(" ·"),
        _left(totals),
    )


def battery_percent(share: float) -> str:
    """A share of a battery with two digits, however small: a query of a small model takes very little of it."""
    return f"{100 * share:.2g}%"


def _left(totals: Totals) -> str:
    if totals.emptied_s is not None:
        return f"empty after {totals.emptied_s / 3600:.3g} h"
    return "" if totals.final_level is None else f"{totals.final_level:.1%}"


@checked
def replay_day(
    trace: str | Path,
    *,
    policy: str = DEFAULT,
    model: str | Path | None = None,
    bench: str | Path | None = None,
    device: str = DEFAULT_DEVICE,
    latency_ms: float | None = None,
    energy_mj: float | None = None,
    out: str | Path | None = None,
) -> ReplayedDay:
    """Replay a day through the governor, and compare it with "always full" and "off at 20 %".

    policy: a .toml file, or the name of a policy that comes with the package. model: count what its points really
    cost. bench: what queries cost on your device at several positions, as `rheostat bench -o` wrote it. device:
    whose battery and heat. latency_ms, energy_mj: of a query of the whole model on your device, instead of a bench; the
    energy is estimated without one. Without model, bench and figures, the day is that of the paper's own model on its
    board. out: the folder for govern.json, govern.png and govern.svg.
    """
    if out is not None:
        check_results_target(Path(out) / RESULTS)
    day, rules = read_trace(Path(trace)), read_policy(policy)
    with _opened(model) as file:
        cost = full_cost(latency_ms, energy_mj, bench, file, model)
        comparison = compare(day, rules, cost, _cost_share(file), device)
        name, weights = (visible(file.path.name), origin_json(file.description.origin)) if file else (None, None)
    results = GovernResults.of(comparison, name, weights)
    # The picture shows the moments that the results file keeps, as the report's does.
    return ReplayedDay(results, comparison, () if out is None else _write(results, results.comparison, Path(out)))


def full_cost(
    latency_ms: float | None = None,
    energy_mj: float | None = None,
    bench: str | Path | None = None,
    file: ModelFile | None = None,
    named: str | Path | None = None,
) -> FullCost:
    """The cost of a query of the whole model: as given, else as a bench measured it on the device.

    named: what the user calls that file, for a message that can be copied.

    With a bench, the cost at other positions comes from it too. Energy that was not measured is the estimate of
    `rheostat bench --meter estimate`, which the keyboard page shows too. The paper's figures are those of its own
    model and board, so they are used only for a day without a model and without a bench.
    """
    if bench is not None:
        if latency_ms is not None:
            raise RheostatError("both a latency and a bench say how long a query takes; give one of them")
        return _benched_cost(Path(bench), energy_mj, file)
    if file is not None:
        return _given_cost(file, named or file.path, latency_ms, energy_mj)
    published = load_published()
    full, board = published.table("ptb").full, published.setup.measurement.board
    assert full.latency_ms is not None and full.energy_mj is not None
    theirs = f"the paper's, {board}"
    return FullCost(
        latency_ms=full.latency_ms if latency_ms is None else latency_ms,
        energy_mj=full.energy_mj if energy_mj is None else energy_mj,
        latency_source=theirs if latency_ms is None else "given",
        energy_source=theirs if energy_mj is None else "given",
    )


def _given_cost(file: ModelFile, named: str | Path, latency_ms: float | None, energy_mj: float | None) -> FullCost:
    """The cost of a model that was not measured here: its time must be given, its energy may be estimated."""
    if latency_ms is None:
        raise RheostatError(
            f"how long a query of {named} takes on your device is not known; expected a bench of it, which "
            f"`rheostat bench {named} -o FILE` writes, or a latency in ms"
        )
    estimate = Estimate()
    own = 1e3 * estimate.energy_j(file.shape.flops, bytes_read(file.shape.flops, PRECISION))
    source = f"estimate, {estimate.covers}" if energy_mj is None else "given"
    return FullCost(latency_ms, own if energy_mj is None else energy_mj, "given", source)


def _benched_cost(path: Path, energy_mj: float | None, file: ModelFile | None) -> FullCost:
    """The cost as a bench has it; an error if it is of another model than this file."""
    table = read_costs(path)
    if file is not None:
        read_bench_of(file, path)
    full_ms = table.at(1, "latency_ms")
    if energy_mj is not None:
        watts = energy_mj / full_ms
        points = tuple(CostPoint(one.knob, one.latency_ms, watts * one.latency_ms) for one in table.points)
        return FullCost(full_ms, energy_mj, table.source, "given", points)
    if table.knows("energy_mj"):
        return FullCost(full_ms, table.at(1, "energy_mj"), table.source, table.source, table.points)
    estimate, results = Estimate(), read_results(path)
    if not isinstance(results, BenchResults):
        raise RheostatError(f"{path} is not a bench; expected a file that `rheostat bench -o` wrote")
    by_knob = {row.cost: 1e3 * estimate.energy_j(row.executed_flops.mean, row.bytes_read) for row in results.rows}
    priced = replace(table, points=tuple(replace(one, energy_mj=by_knob[one.knob]) for one in table.points))
    source = f"estimate, {estimate.covers}"
    return FullCost(full_ms, priced.at(1, "energy_mj"), table.source, source, priced.points)


@contextmanager
def _opened(model: str | Path | None) -> Iterator[ModelFile | None]:
    if model is None:
        yield None
        return
    with open_model(model) as file:
        yield file


def _cost_share(file: ModelFile | None) -> Callable[[float], float]:
    """What a knob position really costs: a model's points are never above it, and often a little below."""
    if file is None:
        return lambda knob: knob
    return functools.cache(lambda knob: knob_positions.choose(file, knob).cost)


def _write(results: GovernResults, comparison: Comparison, out: Path) -> tuple[Path, ...]:
    data, picture = out / RESULTS, out / "govern.png"
    write_results(data, results)
    try:
        draw_replay(comparison, picture)
        draw_replay(comparison, picture.with_suffix(".svg"))
    except OSError as error:
        raise RheostatError(f"cannot write to {out}: {error.strerror}; expected a writable folder") from None
    return data, picture, picture.with_suffix(".svg")
