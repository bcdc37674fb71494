"""`rheostat bench`: what a query costs on this machine, at several operating points."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from rheostat.cli.console import (
    BUNDLED,
    ENGINE_HELP,
    JSON_HELP,
    MODEL_HELP,
    PRECISION_HELP,
    RESULTS_OUT_HELP,
    TEST_DATA_HELP,
    THREADS_HELP,
    labelled_share,
    messages,
    print_json,
    print_line,
    results,
    shown_even_if_not_written,
)
from rheostat.measure.meters import EnergySource, MeterOptions, NoMeter, Plan, explain, find_meter
from rheostat.model.knob import PATH
from rheostat.model.precision import Precision
from rheostat.runtime.engine import EngineName

if TYPE_CHECKING:
    from rheostat.measure.results import BenchResults, BenchRow, BenchSubject, Fit

LIST = "list"
HEADINGS = ("cost", "FLOPs", "MB\nread", "ms/query\nmedian", "95 %\ninterval", "p95", "MB\nheld")


def bench(
    model: Annotated[Path, typer.Argument(help=MODEL_HELP)] = BUNDLED,
    knob: Annotated[list[float] | None, typer.Option(help="A share of the cost. May be repeated.")] = None,
    criterion: Annotated[
        list[str] | None,
        typer.Option(
            help="Cut by this criterion: that of a ranking, 'path', or 'bits' (the whole model in 4 bits). By default "
            "the file decides. May be repeated."
        ),
    ] = None,
    point: Annotated[list[str] | None, typer.Option(help="The name of a stored point. May be repeated.")] = None,
    beside: Annotated[
        list[Path] | None,
        typer.Option(help="Another model file, measured whole in the same run. May be repeated."),
    ] = None,
    queries: Annotated[int, typer.Option(min=2, help="Number of timed queries per point.")] = 350,
    warm_up: Annotated[int, typer.Option(min=0, help="Number of warm-up queries per point.")] = 20,
    paced: Annotated[
        int, typer.Option(min=0, help="Also time this many queries per point one at a time, 300 ms apart, caches cold.")
    ] = 0,
    meter: Annotated[str, typer.Option(help="A meter, 'auto' or 'none'. 'list' shows all of them.")] = "auto",
    idle_seconds: Annotated[
        float | None,
        typer.Option(
            min=0.01, help="Seconds per idle block, one per round; by default 2, or more if the meter is slow."
        ),
    ] = None,
    block_seconds: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            help="Seconds per block, ten blocks per point; by default 2, or more if the meter is slow.",
        ),
    ] = None,
    meter_offset: Annotated[float, typer.Option(help="How many seconds a trace's clock is ahead of this one.")] = 0.0,
    meter_wait: Annotated[
        float, typer.Option(min=0, help="How many seconds to wait for the end of a trace after the run.")
    ] = 10.0,
    data: Annotated[str | None, typer.Option(help=TEST_DATA_HELP)] = None,
    precision: Annotated[Precision, typer.Option(help=PRECISION_HELP)] = "int8",
    engine: Annotated[EngineName | None, typer.Option(help=ENGINE_HELP)] = None,
    threads: Annotated[int, typer.Option(min=0, help=THREADS_HELP)] = 0,
    pin: Annotated[str | None, typer.Option(metavar="CPU,CPU", help="Run on these CPUs only (Linux).")] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help=RESULTS_OUT_HELP)] = None,
    json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Measure time, memory and energy per query.

    A query reads one more word of a text and suggests three. Points, and models named with --beside, are interleaved,
    so load affects them all equally. Without --knob and --point, a model with a ranking is measured at 1, 0.8, 0.6 and
    0.4; any other model whole and at its stored points.

    All models run on the same engine: on ONNX Runtime if one of them is an LSTM, which the core does not run.

    Example: rheostat bench model.safetensors --knob 1 --knob 0.6 --data DIR --meter auto -o results/bench.json
    """
    options = MeterOptions(trace_offset_s=meter_offset, trace_patience_s=meter_wait)
    if meter == LIST:
        _list_meters(options, json)
        return
    from rheostat.measure.bench import bench as run
    from rheostat.measure.machine import parse_cpus
    from rheostat.measure.results import results_json

    source = find_meter(meter, options)

    def show(found: BenchResults) -> None:
        print_json(results_json(found)) if json else _show(found, source)

    with shown_even_if_not_written(show) as keep, labelled_share() as progress:
        run(
            model,
            knobs=knob or (),
            criteria=criterion or (),
            points=point or (),
            beside=beside or (),
            data=data,
            queries=queries,
            warm_up=warm_up,
            paced=paced,
            precision=precision,
            threads=threads,
            cpus=None if pin is None else parse_cpus(pin),
            meter=source,
            energy=Plan(idle_seconds=idle_seconds, block_seconds=block_seconds),
            engine=engine,
            out=out,
            progress=progress,
            notice=_say,
            on_results=keep,
        )
    if out is not None and not json:
        print_line(out)


def _list_meters(options: MeterOptions, json: bool) -> None:
    meters = explain(options)
    if json:
        print_json([{"meter": name, "available": reason is None, "reason": reason} for name, reason in meters])
        return
    table = Table("meter", "on this machine")
    for name, reason in meters:
        table.add_row(Text(name), Text(reason or "available"))
    results.print(table)


def _show(found: BenchResults, source: EnergySource) -> None:
    from rheostat.measure.results import engine_title
    from rheostat.report.document import unique_labels

    models, subject = found.by_model(), found.subject
    runs = f"{subject.precision} on {engine_title(subject.engine)}, {_threads(subject)}"
    title = f"{subject.model}, {runs}, text: {subject.corpus}"
    table = Table(title=Text(title), box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("point", overflow="fold")
    for heading in HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    rows = [(one.label(row), row) for one in models for row in one.rows]
    words = (word for _, row in rows for word in str(row.energy).split())
    table.add_column("mJ/query", justify="right", min_width=max(map(len, words)))
    labels = unique_labels([label for label, _ in rows], [row.criterion or row.served_by for _, row in rows])
    for label, (short, row) in zip(labels, rows, strict=True):
        table.add_row(*_cells(label, row, says_by_what=label != short))
    results.print(table)
    for line in (*_paced_lines(found), *_fit_lines(found.fit), _machine_line(found)):
        print_line(line)
    if isinstance(source, NoMeter):
        _say(f"energy is not measured: {source.reason}")
        return
    reasons = (row.energy.reason for one in models for row in one.rows)
    for reason in dict.fromkeys(filter(None, reasons)):
        _say(f"energy: {reason}")


def _say(message: str) -> None:
    messages.print(message, markup=False, highlight=False, soft_wrap=True)


def _cells(label: str, row: BenchRow, says_by_what: bool) -> list[str]:
    low, high = row.interval_ms
    by = "the path" if row.criterion == PATH else row.ranking
    return [
        label if by is None or says_by_what else f"{label} by {by}",
        f"{row.cost:.1%}",
        f"{row.flops_fraction:.1%}",
        aligned(row.megabytes_read),
        aligned(row.latency_ms),
        f"{aligned(low)}–{aligned(high)}",
        aligned(row.p95_ms),
        "–" if row.megabytes_held is None else f"{row.megabytes_held:.0f}",
        str(row.energy),
    ]


def aligned(value: float) -> str:
    """A number for a column: three significant digits, all digits before the point, and at most four after it."""
    return f"{value:.{min(4, max(0, 2 - math.floor(math.log10(value))))}f}" if value > 0 else f"{value:.2f}"


def _threads(subject: BenchSubject) -> str:
    threads = f"{subject.threads} thread{'s' if subject.threads != 1 else ''}"
    return f"{threads} on CPU {', '.join(map(str, subject.cpus or ()))}" if subject.pinned else threads


def _paced_lines(found: BenchResults) -> list[str]:
    return [
        f"{row.label}: {aligned(one.latency_ms)} ms per query after a pause of {one.pause_s:g} s, caches cold"
        for row in found.rows
        if (one := row.paced)
    ]


def _fit_lines(fit: Fit) -> list[str]:
    found = {"latency": fit.latency_r_squared, "energy": fit.energy_r_squared}
    return [f"r² of {name} with executed FLOPs: {value:.3f}" for name, value in found.items() if value is not None]


def _machine_line(found: BenchResults) -> str:
    machine, after = found.provenance.machine, found.machine.after
    facts = [machine.processor, f"{machine.cores} CPUs"]
    if after.governors:
        facts.append(f"governor {', '.join(after.governors)}")
    if found.machine.hottest_c is not None:
        facts.append(f"{found.machine.hottest_c:.0f} °C")
    if found.machine.throttled is not None:
        facts.append("the clock was held down" if found.machine.throttled else "not throttled")
    if after.load_average is not None:
        facts.append(f"load {after.load_average:.1f}")
    return "; ".join(facts)
