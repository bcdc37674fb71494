"""`rheostat govern`: replay a recorded day through the governor, and without it for comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from rheostat.cli.console import JSON_HELP, POLICY_HELP, print_json, print_line, results
from rheostat.governor.body import DEFAULT_DEVICE
from rheostat.governor.policy import DEFAULT
from rheostat.governor.replay import Comparison


def govern(
    trace: Annotated[
        Path, typer.Option(help="A day: CSV with time_s,level,charging,queries and more columns (docs/governor.md).")
    ],
    policy: Annotated[str, typer.Option(help=POLICY_HELP)] = DEFAULT,
    model: Annotated[
        Path | None,
        typer.Option(help="Count what the points of this model really cost."),
    ] = None,
    bench: Annotated[
        Path | None,
        typer.Option(help="What queries of that model cost on your device: the file that `rheostat bench -o` wrote."),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            help="Whose battery and heat: android-phone, iphone, linux-laptop, macbook, windows-laptop, raspberry-pi."
        ),
    ] = DEFAULT_DEVICE,
    latency_ms: Annotated[
        float | None, typer.Option(help="Time of a query of the whole model on your device, if you give no --bench.")
    ] = None,
    energy_mj: Annotated[
        float | None, typer.Option(help="Energy of a query of the whole model on your device; estimated by default.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="The folder for govern.json, govern.png and govern.svg.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Replay a day through the governor: battery, heat, budgets.

    The same day is replayed with the knob always at full, and with prediction off at 20 % battery. Latency and energy
    are estimates: by the positions of --bench, or linear in FLOPs from one query of the whole model. Without a model
    and a bench, that is the paper's own model on its Raspberry Pi 3. The temperature
    is modelled, not measured.

    Example: rheostat govern --trace tests/data/traces/linux-laptop.csv --device linux-laptop -o report
    """
    from rheostat.report.govern import replay_day

    day = replay_day(
        trace,
        policy=policy,
        model=model,
        bench=bench,
        device=device,
        latency_ms=latency_ms,
        energy_mj=energy_mj,
        out=out,
    )
    if json:
        print_json({**day.comparison.summary(), "files": [str(path) for path in day.files]})
        return
    results.print(_table(day.comparison))
    for one in day.comparison.budgets():
        print_line(
            f"budget {one['budget']}: {one['asked']:g} asked, {one['got']:.4g} got ({one['got_over_asked']:.1%})"
        )
    print_line(day.comparison.cost.describe())
    for path in day.files:
        print_line(path)


def _table(comparison: Comparison) -> Table:
    from rheostat.report.govern import HEADINGS, battery_percent, figures

    saved = (
        f"the governor spends {comparison.energy_saved:.0%} less energy than always full, "
        f"{battery_percent(comparison.battery_saved)} of a battery (ESTIMATE)"
    )
    # Text: a file name is not markup
    day = f"{comparison.trace.name!r} ({comparison.device}, costs: {comparison.cost.sources})"
    table = Table(title=Text(f"{day}: {saved}"))
    table.add_column("")
    for replay in comparison.replays:
        table.add_column(replay.name, justify="right")
    for heading, *cells in zip(HEADINGS, *(figures(replay.totals) for replay in comparison.replays), strict=True):
        table.add_row(heading, *cells)
    return table
