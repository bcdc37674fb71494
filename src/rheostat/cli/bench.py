"""`rheostat bench`: what a query costs on this machine, at many positions of the knob."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from rheostat.benchmark.meters import (
    EnergyPerQuery,
    EnergySource,
    Meter,
    MeterOptions,
    NoMeter,
    Plan,
    expected_seconds,
    explain,
    find_meter,
)
from rheostat.benchmark.meters.energy import SHORTEST_BLOCK_S
from rheostat.cli.console import BUNDLED, MODEL_HELP, labelled_share, messages, print_json, results
from rheostat.errors import RheostatError
from rheostat.model_file import ModelFile, open_model
from rheostat.runtime.quantization import Precision

LIST = "list"
KNOBS = (1.0, 0.8, 0.6, 0.4)
HEADINGS = ("share", "MFLOPs", "MB\nread", "ms/query\nmedian", "95 %\ninterval", "p95", "MB\nheld", "mJ/query")


def bench(
    model: Annotated[Path, typer.Argument(help=MODEL_HELP)] = BUNDLED,
    knob: Annotated[list[float] | None, typer.Option(help="Share of the FLOPs; repeat it.")] = None,
    point: Annotated[list[str] | None, typer.Option(help="A stored point's name; repeat it.")] = None,
    beside: Annotated[
        list[Path] | None, typer.Option(help="Another model file, measured whole in the same turns; repeat it.")
    ] = None,
    queries: Annotated[int, typer.Option(min=2, help="Counted queries at every point.")] = 350,
    warm_up: Annotated[int, typer.Option(min=0, help="Queries at every point before anything counts.")] = 20,
    meter: Annotated[str, typer.Option(help="A meter, 'auto' or 'none'; 'list' explains all of them.")] = "auto",
    idle_seconds: Annotated[
        float | None,
        typer.Option(min=0.01, help="Of idling before and after, for energy; 10, or what the meter needs."),
    ] = None,
    block_seconds: Annotated[
        float | None,
        typer.Option(min=0.01, help="Of each of the ten blocks a point, for energy; 2, or what the meter needs."),
    ] = None,
    meter_offset: Annotated[float, typer.Option(help="Seconds that a trace's clock is ahead of this one.")] = 0.0,
    meter_wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait after the run for a trace to reach its end.")
    ] = 10.0,
    data: Annotated[
        str | None,
        typer.Option(help="A folder with a test text, a text file, 'chat' or 'talk'; a bundled text without it."),
    ] = None,
    precision: Annotated[Precision, typer.Option(help="int8, fp32 or int4.")] = "int8",
    threads: Annotated[int, typer.Option(min=0, help="Processor threads; 0: one a physical core.")] = 0,
    pin: Annotated[str | None, typer.Option(metavar="CPU,CPU", help="Stay on these CPUs (Linux).")] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The results file to write.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Measure ms, mJ, FLOPs, bytes and memory of a query on this machine, at many positions of the knob.

    A query reads one more word of a text and suggests three. Points take turns, so that a warm or busy machine treats
    all alike. Without --knob and --point: 1, 0.8, 0.6 and 0.4, or the stored points of a model without a ranking.

    Models given as --beside take turns with them, so that their times can be compared.

    Example: rheostat bench model.safetensors --knob 1 --knob 0.6 --data DIR --meter auto -o results/bench.json
    """
    options = MeterOptions(trace_offset_s=meter_offset, trace_patience_s=meter_wait)
    if meter == LIST:
        _list_meters(options, json)
        return
    from rheostat.benchmark.latency import BenchConfig, Position
    from rheostat.benchmark.latency import bench as run
    from rheostat.benchmark.machine import parse_cpus
    from rheostat.benchmark.results import write_results
    from rheostat.benchmark.texts import read_text

    source = find_meter(meter, options)
    with open_model(model) as file:
        text = read_text(data, file.tokenizer, words=queries + warm_up)
        for other in beside or ():
            _check_words(other, file)
        positions = [Position(*wish) for wish in _positions(file, knob or (), point or ())]
    config = BenchConfig(
        queries=queries,
        warm_up=warm_up,
        precision=precision,
        threads=threads,
        cpus=None if pin is None else parse_cpus(pin),
        energy=Plan(idle_seconds=idle_seconds, block_seconds=block_seconds),
    )
    _forewarn(source, config.energy, len(positions) + len(beside or ()))
    with labelled_share() as progress:
        contents = run(model, positions, text, config, source, progress, beside=beside or ())
    if json:
        print_json(contents)
    else:
        _show(contents, source)
    if out is not None:  # last: what was measured is not lost with a file that cannot be written
        write_results(out, contents)
        if not json:
            print(out)


def _positions(
    file: ModelFile, knobs: list[float] | tuple[float, ...], points: list[str] | tuple[str, ...]
) -> list[tuple[float | None, str | None]]:
    """(knob, point) of what was asked for, or of what a model has to show."""
    if not knobs and not points:
        ranked = file.description.default_ranking is not None
        knobs = KNOBS if ranked else KNOBS[:1]
        points = [] if ranked else [entry.name for entry in file.description.points]
    for name in points:
        file.point(name)  # complains before anything is measured
    return [*((share, None) for share in knobs), *((None, name) for name in points)]


def _check_words(other: Path, file: ModelFile) -> None:
    """Both get the same texts, so a word must be one word to both."""
    with open_model(other) as second:
        if second.tokenizer != file.tokenizer:
            raise RheostatError(
                f"{other} reads text as {second.tokenizer!r}, {file.path} as {file.tokenizer!r}; "
                "expected models of the same words: measure it in a run of its own"
            )


def _list_meters(options: MeterOptions, json: bool) -> None:
    meters = explain(options)
    if json:
        print_json([{"meter": name, "available": reason is None, "reason": reason} for name, reason in meters])
        return
    table = Table("meter", "on this machine")
    for name, reason in meters:
        table.add_row(Text(name), Text(reason or "available"))
    results.print(table)


def _forewarn(source: EnergySource, plan: Plan, points: int) -> None:
    """What a slow meter means for the run, before it begins."""
    if not isinstance(source, Meter):
        return
    needed_s = round(plan.needed_s(source.period_s), 2)
    meter = f"the meter {source.name} has a new reading every {source.period_s:.3g} s"
    asked = {"--block-seconds": plan.block_seconds, "--idle-seconds": plan.idle_seconds}
    short = [f"{option} {seconds:g}" for option, seconds in asked.items() if seconds is not None and seconds < needed_s]
    if short:
        _say(
            f"energy will not be resolved: {' and '.join(short)}, but {meter}; "
            f"expected at least {needed_s:g} s, or the option left out"
        )
    elif needed_s > SHORTEST_BLOCK_S:
        _say(f"energy takes about {expected_seconds(source, points, plan) / 60:.0f} min: {meter}")


def _show(contents: dict[str, Any], source: EnergySource) -> None:
    subject, machine = contents["subject"], contents["machine"]
    title = f"{subject['model']}, {subject['precision']}, {_threads(subject)}, text: {subject['corpus']}"
    table = Table(title=Text(title), box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("point", overflow="fold")
    for heading in HEADINGS:
        table.add_column(heading, justify="right", overflow="fold")
    for row in contents["rows"]:
        table.add_row(*_cells(row))
    for other in contents["beside"]:
        mark = "" if other["subject"]["trained"] else " (not trained)"
        for row in other["rows"]:
            table.add_row(*_cells({**row, "label": Path(other["subject"]["model"]).stem + mark}))
    results.print(table)
    for line in (*_fit_lines(contents["fit"]), *_machine_lines(contents["provenance"]["machine"], machine)):
        print(line)
    if isinstance(source, NoMeter):
        _say(f"energy is not measured: {source.reason}")
    rows = [row for part in (contents, *contents["beside"]) for row in part["rows"]]
    for reason in dict.fromkeys(row["energy"]["reason"] for row in rows if row["energy"]["reason"]):
        if not isinstance(source, NoMeter):
            _say(f"energy: {reason}")


def _say(message: str) -> None:
    messages.print(message, markup=False, highlight=False, soft_wrap=True)


def _cells(row: dict[str, Any]) -> list[str]:
    low, high = row["interval_ms"]
    resident = row["resident_bytes"]
    return [
        row["label"],
        f"{row['flops_fraction']:.1%}",
        show_figures(row["flops"] / 1e6),
        show_figures(row["bytes_read"] / 1e6),
        show_figures(row["latency_ms"]),
        f"{show_figures(low)}–{show_figures(high)}",
        show_figures(row["p95_ms"]),
        "–" if resident is None else f"{resident / 1e6:.0f}",
        str(EnergyPerQuery(**row["energy"])),
    ]


def show_figures(value: float) -> str:
    """Three figures, and all of those before the point."""
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}" if value > 0 else f"{value:.2f}"


def _threads(subject: dict[str, Any]) -> str:
    threads = f"{subject['threads']} thread{'s' if subject['threads'] != 1 else ''}"
    return f"{threads} on CPU {', '.join(map(str, subject['cpus']))}" if subject["pinned"] else threads


def _fit_lines(fit: dict[str, float | None]) -> list[str]:
    names = {"latency_r_squared": "latency", "energy_r_squared": "energy"}
    return [f"r² of {names[key]} with FLOPs: {value:.3f}" for key, value in fit.items() if value is not None]


def _machine_lines(machine: dict[str, Any], state: dict[str, Any]) -> list[str]:
    after = state["after"]
    facts = [machine["processor"], f"{machine['cores']} CPUs"]
    if after["governors"]:
        facts.append(f"governor {', '.join(after['governors'])}")
    if after["temperatures_c"]:
        facts.append(f"{max(after['temperatures_c'].values()):.0f} °C")
    if state["throttled"] is not None:
        facts.append("the clock was held down" if state["throttled"] else "not throttled")
    if after["load_average"] is not None:
        facts.append(f"load {after['load_average']:.1f}")
    return ["; ".join(facts)]
