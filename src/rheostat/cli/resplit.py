"""`rheostat resplit`: other clusters for a trained output layer."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from rheostat.cli.console import labelled_share, print_json
from rheostat.model.writer import check_target


def resplit(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    data: Annotated[
        str, typer.Option(help="The corpus: a folder with train and valid text, one text file, 'chat' or 'talk'.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="The model file to write; may be the one that is read.")],
    tails: Annotated[
        int | None,
        typer.Option(help="Number of tail clusters, at most 16; by default, as many as make a query cheapest."),
    ] = None,
    knob: Annotated[
        list[float] | None,
        typer.Option(help="Fit this position too, beside the whole model and the stored points. May be repeated."),
    ] = None,
    tokens: Annotated[int, typer.Option(min=1000, help="Words of the training text to fit on.")] = 12_000,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Split a trained output layer into other clusters, so that a suggestion opens fewer of its words.

    Takes minutes and trains only one row per cluster; rankings, points and updates stay. A plain softmax becomes an
    adaptive one. Perplexity changes a little; the change of the whole model on validation text is printed.

    Example: rheostat resplit model.safetensors --data DIR -o model.safetensors
    """
    check_target(out)  # before torch is imported, which takes seconds
    from rheostat.pruning import resplit as resplitting

    with labelled_share() as progress:
        found = resplitting.resplit(
            model, data=data, out=out, tails=tails, knob=knob or (), tokens=tokens, progress=progress
        )
    before, after = found.multiplications
    if json:
        facts = {name: value for name, value in asdict(found).items() if name not in ("weight", "bias")}
        print_json({"model": str(out), **facts})
        return
    print(
        f"{out}: {len(found.splits)} tail clusters, starting at words {' '.join(map(str, found.splits))}; "
        f"the output layer takes {2e-6 * after:.1f} instead of {2e-6 * before:.1f} MFLOPs per query on average; "
        f"perplexity {found.perplexity_ratio - 1:+.2%}"
    )
