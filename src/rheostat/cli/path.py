"""`rheostat path`: search for the order in which the knob gives up filters and bits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table

from rheostat.cli.console import DATA_HELP, JSON_HELP, MODEL_OUT_HELP, labelled_share, print_json, print_line, results

if TYPE_CHECKING:
    from rheostat.measure.path_search import PathSearch

SHOWN = 0.05  # of the cost, between rows of the table


def path(
    model: Annotated[Path, typer.Argument(help="An ordered int8 model file.")],
    data: Annotated[str, typer.Option(help=DATA_HELP)],
    out: Annotated[Path, typer.Option("-o", "--out", help=MODEL_OUT_HELP)],
    by: Annotated[
        Literal["cost", "bytes", "ms"],
        typer.Option(help="What each step should save: cost, bytes read, or milliseconds of a device."),
    ] = "cost",
    bench: Annotated[
        Path | None, typer.Option(help="With --by ms: the results file of `rheostat bench` on that device.")
    ] = None,
    smallest: Annotated[
        float | None,
        typer.Option(help="Share of the cost where the path ends; by default the smallest trained width in 4 bits."),
    ] = None,
    tokens: Annotated[int, typer.Option(min=2, help="Tokens of validation text per measurement.")] = 4000,
    json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Search the order in which the knob gives up filters and bits.

    Each step narrows one layer, or reads a block of rows in 4 bits instead of 8: whichever loses least on validation
    text per unit saved. The path is stored in the model file, and the knob follows it from then on. Takes minutes; run
    the same command again to resume a search that was stopped.

    Example: rheostat path model.safetensors --data DIR -o model.safetensors
    """
    from rheostat.measure.path_search import search_path

    with labelled_share() as progress:
        found = search_path(
            model, out, data=data, by=by, bench=bench, smallest=smallest, tokens=tokens, progress=progress
        )
    if json:
        print_json(found.as_json())
        return
    results.print(_table(found))
    print_line(
        f"wrote {out}: {len(found.path)} positions, from {found.measurements:,} measurements of "
        f"{found.sample_tokens:,} tokens, {found.tokens_read:,} in all"
    )


def _table(found: PathSearch) -> Table:
    table = Table("cost", "filters", "8 bits up to", "perplexity")
    shown = 2.0
    for position, perplexity in zip(found.path, found.perplexities, strict=True):
        if shown - position.cost >= SHOWN or position is found.path[-1]:
            shown = position.cost
            bounds = "all" if position.bounds is None else " ".join(map(str, position.bounds))
            table.add_row(f"{position.cost:.1%}", " ".join(map(str, position.widths)), bounds, f"{perplexity:.2f}")
    return table
