"""`rheostat demo`: turn the knob down step by step and show what each position costs."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rheostat.cli.bench import aligned
from rheostat.cli.console import (
    BUNDLED,
    JSON_HELP,
    MODEL_HELP,
    TEST_DATA_HELP,
    labelled_share,
    messages,
    print_json,
    print_line,
    results,
)
from rheostat.errors import MissingExtraError

if TYPE_CHECKING:
    from rheostat.report.demo import Demo, DemoStep

NEXT = {
    'rheostat suggest "Would you like"{option} --knob 0.4': "suggest the next word at any knob position",
    "rheostat suggest{option}": "type here and see suggestions live",
    "rheostat keyboard{model} --open": "open a web page with a keyboard and the knob",
    "rheostat bench{model} --knob 1 --knob 0.4": "measure the cost of a query more carefully",
}
NOT_YET = "…"

Refresh = Callable[[str, float], None]


def demo(
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder for results, figures and the report.")] = Path(
        "rheostat-demo"
    ),
    model: Annotated[Path, typer.Option(help=MODEL_HELP)] = BUNDLED,
    data: Annotated[str | None, typer.Option(help=TEST_DATA_HELP)] = None,
    meter: Annotated[
        str, typer.Option(help="A meter, 'auto' or 'none'. `rheostat bench --meter list` shows all of them.")
    ] = "auto",
    queries: Annotated[int, typer.Option(min=2, help="Number of timed queries per position.")] = 200,
    json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Turn the knob down and show what each position costs.

    The knob goes from 100 % to 15 %. Cost, quality and suggestions are measured on a text that the model has not seen.
    Takes about a minute. Writes results files, a trade-off figure and an HTML report into a folder.

    Example: rheostat demo -o rheostat-demo
    """
    from rheostat.measure.meters import find_meter
    from rheostat.measure.results import results_json
    from rheostat.report.demo import Demo

    source = find_meter(meter)
    run = Demo(model, data, out)
    with labelled_share() if json or not results.is_terminal else _screen(run) as refresh:
        run.measure(source, refresh, queries)
        files = [*run.results, *_report(run)]
    if json:
        steps = [step.as_json() for step in run.steps]
        ngram = results_json(run.ngram) if run.ngram else None
        facts = {"model": run.model.name, "corpus": run.text.name, "steps": steps, "ngram": ngram}
        print_json({**facts, "files": list(map(str, files))})
        return
    if not results.is_terminal:
        results.print(_tables(run))
    for path in files:
        if path.suffix in (".html", ".png"):
            print_line(path)
    print_line("\n".join(["What to try next:", *_next_steps(model)]))


def _next_steps(model: Path) -> Iterator[str]:
    """Commands for the same model. One without a name fits on a line with its explanation."""
    named = "" if model == BUNDLED else f" {shlex.quote(str(model))}"
    commands = {form.format(model=named, option=named and f" --model{named}"): why for form, why in NEXT.items()}
    width = max(map(len, commands))
    for command, why in commands.items():
        yield f"  # {why}\n  {command}" if named else f"  {command:{width}}  {why}"


def _report(run: Demo) -> tuple[Path, ...]:
    try:
        return run.report()
    except MissingExtraError as error:
        messages.print(f"note: no figures and no report: {error}", style="yellow", markup=False, highlight=False)
        return ()


@contextmanager
def _screen(run: Demo) -> Iterator[Refresh]:
    """The tables as they fill up, above a line that says what is being measured."""
    with Live(console=results, auto_refresh=False) as live:

        def refresh(label: str, share: float) -> None:
            live.update(Group(_tables(run), Text(label, style="dim")), refresh=True)

        yield refresh
        live.update(_tables(run), refresh=True)


def _tables(run: Demo) -> Group:
    return Group(_figures(run), *_why_not_an_ngram(run), _suggestions(run.steps))


def _figures(run: Demo) -> Table:
    title = Text(f"{run.model.name}, int8, on {run.text.name}")
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    costs = ("MB\nread", "ms/query", "time\nsaved", "mJ/query")
    for heading in ("knob", *costs, "perplexity", "quality\nlost", "R@3"):
        table.add_column(heading, justify="right", no_wrap=True)
    for step in run.steps:
        quality = step.quality
        table.add_row(
            f"{quality.knob:.0%}",
            *_costs(run, step),
            f"{quality.perplexity:.1f}",
            f"{run.quality_lost(step):.1%}",
            f"{quality.recall_at_3:.1%}",
        )
    if one := run.ngram:
        size, latency = aligned(one.subject.megabytes), aligned(one.latency.latency_ms)
        lost = f"{one.test_perplexity / run.steps[0].quality.perplexity - 1:.1%}" if run.steps else NOT_YET
        figures = (f"{one.test_perplexity:.1f}", lost, f"{one.test_recall:.1%}")
        table.add_row(one.subject.model, f"{size} *", f"{latency} *", "–", "–", *figures, end_section=True)
    return table


def _costs(run: Demo, step: DemoStep) -> list[str]:
    if (cost := step.cost) is None:
        return [NOT_YET] * 4
    saved = run.time_saved(step)
    figures = [*map(aligned, (cost.megabytes_read, cost.latency_ms))]
    return [*figures, NOT_YET if saved is None else f"{saved:.0%}", str(cost.energy)]


def _why_not_an_ngram(run: Demo) -> list[Text]:
    """What the line of the n-gram model means: its size is that of its tables, its time that of another run."""
    if (one := run.ngram) is None:
        return []
    saved = one.keystrokes.keystrokes_saved_share
    made = f"{one.provenance.machine.processor}, {one.provenance.date:.10}"
    return [
        Text(
            f"* Why not an n-gram? The {one.subject.model} ({one.subject.smoothing}, the same training text) needs "
            f"{one.subject.megabytes:.0f} MB of tables and has no knob. It saves {saved:.0%} of the keystrokes. Its "
            f"time was measured before ({made}).\n",
            style="dim",
        )
    ]


def _suggestions(steps: list[DemoStep]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in ("knob", "cost", "bits", "widths"):
        table.add_column(heading, justify="right")
    for start in steps[0].suggestions if steps else ():
        table.add_column(Text(f"{start} …"), overflow="fold")
    for step in steps:
        offered = [Text(", ".join(words)) for words in step.suggestions.values()]
        quality = step.quality
        widths = " ".join(map(str, quality.widths))
        bits = f"{quality.mean_bits:.1f}"
        table.add_row(f"{quality.knob:.0%}", f"{quality.cost:.1%}", bits, widths, *offered)
    return table
