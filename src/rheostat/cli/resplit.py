"""`rheostat resplit`: split a trained output layer into other clusters."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from rheostat.cli.console import DATA_HELP, JSON_HELP, MODEL_OUT_HELP, labelled_share, print_json, print_line
from rheostat.model.writer import check_target


def resplit(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    data: Annotated[str, typer.Option(help=DATA_HELP)],
    out: Annotated[Path, typer.Option("-o", "--out", help=MODEL_OUT_HELP)],
    tails: Annotated[
        int | None,
        typer.Option(help="Number of tail clusters, at most 16; by default, the number that makes a query cheapest."),
    ] = None,
    knob: Annotated[
        list[float] | None,
        typer.Option(
            help="Also fit this share of the cost, besides the whole model and the stored points. May be repeated."
        ),
    ] = None,
    tokens: Annotated[int, typer.Option(min=1000, help="Number of training tokens to fit on.")] = 12_000,
    json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Split a trained output layer into other clusters.

    A query then computes fewer words. A plain softmax becomes an adaptive one. Takes minutes: only one row per cluster
    is trained, and rankings, points and updates stay as they are. Perplexity changes slightly; the change of the whole
    model on validation text is printed.

    Example: rheostat resplit model.safetensors --data DIR -o model.safetensors
    """
    check_target(out)  # before torch is imported, which takes seconds
    from rheostat.pruning import resplit as resplitting

    with labelled_share() as progress:
        found = resplitting.resplit(
            model, data=data, out=out, tails=tails, knobs=knob or (), tokens=tokens, progress=progress
        )
    before, after = found.multiplications
    if json:
        facts = {name: value for name, value in asdict(found).items() if name not in ("weight", "bias")}
        print_json({"model": str(out), **facts})
        return
    print_line(
        f"{out}: {len(found.splits)} tail clusters, starting at words {' '.join(map(str, found.splits))}; "
        f"the output layer takes {2e-6 * after:.1f} instead of {2e-6 * before:.1f} MFLOPs per query on average; "
        f"perplexity {found.perplexity_ratio - 1:+.2%}"
    )
