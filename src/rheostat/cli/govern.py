"""`rheostat govern`: a recorded day under the governor, beside always full and switching off."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from rheostat.bundled import model_path
from rheostat.cli.console import print_json, results
from rheostat.errors import RheostatError
from rheostat.governor.policy import DEFAULT, read_policy
from rheostat.governor.replay import Comparison, FullCost, Replay, compare
from rheostat.governor.trace import read_trace
from rheostat.measure.results import write_results
from rheostat.model import knob as knob_positions
from rheostat.model.file import open_model
from rheostat.provenance import provenance
from rheostat.report.figures.day import draw_replay
from rheostat.report.published import load_published


def govern(
    trace: Annotated[Path, typer.Option(help="A recorded day: CSV with time_s,level,charging,queries[,busy].")],
    policy: Annotated[str, typer.Option(help="A policy's .toml file, or the name of one that is shipped.")] = DEFAULT,
    model: Annotated[
        Path | None,
        typer.Option(help="A model, by file or bundled name: count the FLOPs that its points really spend."),
    ] = None,
    latency_ms: Annotated[
        float | None, typer.Option(help="Time of a query at full knob on your device; the paper's unless given.")
    ] = None,
    energy_mj: Annotated[
        float | None, typer.Option(help="Energy of a query at full knob on your device; the paper's unless given.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="The folder for govern.json, govern.png and govern.svg.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the totals as JSON.")] = False,
) -> None:
    """Replay a recorded day through the governor, beside "always full" and "off at 20 %".

    Latency and energy are estimates: linear in FLOPs from the full model's, which are the paper's (Raspberry Pi 3)
    unless you give your own.

    Example: rheostat govern --trace day.csv --policy default -o report
    """
    day, rules, cost = read_trace(trace), read_policy(policy), _full_cost(latency_ms, energy_mj)
    with _flops_share(model) as share:
        comparison = compare(day, rules, cost, share)
    written = [] if out is None else _write(comparison, out, model)
    if json:
        print_json({**comparison.summary(), "files": [str(path) for path in written]})
    else:
        results.print(_table(comparison))
        print(cost.describe())
        for path in written:
            print(path)


def _full_cost(latency_ms: float | None, energy_mj: float | None) -> FullCost:
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
def _flops_share(model: Path | None) -> Iterator[Callable[[float], float]]:
    """What a knob position really spends: a model's points are never above it, and often a little below."""
    if model is None:
        yield lambda knob: knob
        return
    with open_model(model) as file:
        yield functools.cache(lambda knob: knob_positions.choose(file, knob).flops_fraction)


def _write(comparison: Comparison, out: Path, model: Path | None) -> list[Path]:
    data, picture = out / "govern.json", out / "govern.png"
    contents = {
        "kind": "govern",
        "model": model_path(model).name if model else None,
        **comparison.as_json(),
        "provenance": provenance(),
    }
    write_results(data, contents)
    try:
        draw_replay(comparison, picture)
        draw_replay(comparison, picture.with_suffix(".svg"))
    except OSError as error:
        raise RheostatError(f"cannot write to {out}: {error.strerror}; expected a folder that can be written") from None
    return [data, picture, picture.with_suffix(".svg")]


def _table(comparison: Comparison) -> Table:
    saved = f"the governor spends {comparison.energy_saved:.0%} less energy than always full (ESTIMATE)"
    table = Table(title=Text(f"{comparison.trace.name!r}: {saved}"))  # a file's name is no markup
    table.add_column("behaviour")
    for heading in ("served", "lost", "energy, J\nESTIMATE", "p95, ms\nESTIMATE", "mean knob", "turns"):
        table.add_column(heading, justify="right")
    for replay in comparison.replays:
        table.add_row(*_cells(replay))
    return table


def _cells(replay: Replay) -> list[str]:
    totals = replay.totals
    return [
        replay.name,
        f"{totals.queries_served:,}",
        f"{totals.queries_lost:,}",
        f"{totals.energy_j:,.1f}",
        "" if totals.p95_latency_ms is None else f"{totals.p95_latency_ms:,.1f}",
        "" if totals.mean_knob is None else f"{totals.mean_knob:.1%}",
        f"{totals.turns}",
    ]
