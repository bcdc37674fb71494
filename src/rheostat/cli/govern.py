"""`rheostat govern`: replay a recorded day through the governor, and without it for comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from rheostat.cli.console import JSON_HELP, POLICY_HELP, print_json, results
from rheostat.governor.policy import DEFAULT
from rheostat.governor.replay import Comparison, Replay


def govern(
    trace: Annotated[Path, typer.Option(help="A recorded day: CSV with time_s,level,charging,queries[,busy].")],
    policy: Annotated[str, typer.Option(help=POLICY_HELP)] = DEFAULT,
    model: Annotated[
        Path | None,
        typer.Option(help="Count the FLOPs that the points of this model really spend."),
    ] = None,
    latency_ms: Annotated[
        float | None, typer.Option(help="Time of a query of the whole model on your device; the paper's by default.")
    ] = None,
    energy_mj: Annotated[
        float | None, typer.Option(help="Energy of a query of the whole model on your device; the paper's by default.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="The folder for govern.json, govern.png and govern.svg.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Replay a recorded day through the battery governor.

    The same day is replayed with the knob always at full, and with prediction off at 20 % battery. Latency and energy
    are estimates: linear in FLOPs, scaled from one query of the whole model. By default that query costs what the paper
    measured on a Raspberry Pi 3.

    Example: rheostat govern --trace day.csv --policy default -o report
    """
    from rheostat.report.govern import replay_day

    day = replay_day(trace, policy=policy, model=model, latency_ms=latency_ms, energy_mj=energy_mj, out=out)
    if json:
        print_json({**day.comparison.summary(), "files": [str(path) for path in day.files]})
        return
    results.print(_table(day.comparison))
    print(day.comparison.cost.describe())
    for path in day.files:
        print(path)


def _table(comparison: Comparison) -> Table:
    saved = f"the governor spends {comparison.energy_saved:.0%} less energy than always full (ESTIMATE)"
    table = Table(title=Text(f"{comparison.trace.name!r}: {saved}"))  # Text: a file name is not markup
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
