"""A recorded day under the governor, compared with "always full" and "off at 20 %": replayed, written and drawn.

Knows where the cost of a query comes from; `governor.replay` does the replay.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rheostat.arguments import checked
from rheostat.errors import RheostatError
from rheostat.governor.policy import DEFAULT, read_policy
from rheostat.governor.replay import Comparison, FullCost, compare
from rheostat.governor.trace import read_trace
from rheostat.measure.results import GovernResults, write_results
from rheostat.measure.results.shared import origin_json
from rheostat.model import knob as knob_positions
from rheostat.model.file import ModelFile, open_model
from rheostat.report.figures.day import draw_replay
from rheostat.report.published import load_published


@dataclass(frozen=True)
class ReplayedDay:
    """results: as in a results file. files: the files written."""

    results: GovernResults
    comparison: Comparison
    files: tuple[Path, ...]


@checked
def replay_day(
    trace: str | Path,
    *,
    policy: str = DEFAULT,
    model: str | Path | None = None,
    latency_ms: float | None = None,
    energy_mj: float | None = None,
    out: str | Path | None = None,
) -> ReplayedDay:
    """Replay a recorded day through the governor, and compare it with "always full" and "off at 20 %".

    policy: a .toml file, or the name of a policy that comes with the package. model: count the FLOPs that its points
    really cost. latency_ms, energy_mj: of a query of the whole model on your device; by default the paper's. out: the
    folder for govern.json, govern.png and govern.svg.
    """
    day, rules, cost = read_trace(Path(trace)), read_policy(policy), full_cost(latency_ms, energy_mj)
    with _opened(model) as file:
        comparison = compare(day, rules, cost, _flops_share(file))
        name, weights = (file.path.name, origin_json(file.description.origin)) if file else (None, None)
    results = GovernResults.of(comparison, name, weights)
    return ReplayedDay(results, comparison, () if out is None else _write(results, comparison, Path(out)))


def full_cost(latency_ms: float | None = None, energy_mj: float | None = None) -> FullCost:
    """The cost of a query of the whole model: as given, else the paper's."""
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


@contextmanager
def _opened(model: str | Path | None) -> Iterator[ModelFile | None]:
    if model is None:
        yield None
        return
    with open_model(model) as file:
        yield file


def _flops_share(file: ModelFile | None) -> Callable[[float], float]:
    """What a knob position really costs: a model's points are never above it, and often a little below."""
    if file is None:
        return lambda knob: knob
    return functools.cache(lambda knob: knob_positions.choose(file, knob).flops_fraction)


def _write(results: GovernResults, comparison: Comparison, out: Path) -> tuple[Path, ...]:
    data, picture = out / "govern.json", out / "govern.png"
    write_results(data, results)
    try:
        draw_replay(comparison, picture)
        draw_replay(comparison, picture.with_suffix(".svg"))
    except OSError as error:
        raise RheostatError(f"cannot write to {out}: {error.strerror}; expected a writable folder") from None
    return data, picture, picture.with_suffix(".svg")
