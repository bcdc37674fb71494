"""`rheostat reconstruct`: a knob without training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheostat.cli.console import (
    DATA_HELP,
    JSON_HELP,
    MODEL_OUT_HELP,
    labelled_share,
    print_json,
    print_line,
)

TOKENS = 30_000  # as `rheostat.reconstruct`, whose module is not imported until the command runs


def reconstruct(
    model: Annotated[Path, typer.Argument(help="A model file with a ranking.")],
    data: Annotated[str, typer.Option(help=DATA_HELP)],
    out: Annotated[Path, typer.Option("-o", "--out", help=MODEL_OUT_HELP)],
    ranking: Annotated[
        str | None, typer.Option(help="The ranking to cut by; the default ranking if not given.")
    ] = None,
    tokens: Annotated[int, typer.Option(min=2, help="Number of training tokens to read.")] = TOKENS,
    widths: Annotated[
        str,
        typer.Option(
            help="error: choose the width of each layer, at every knob position, by the error in the output; "
            "ranking: keep the widths of the ranking."
        ),
    ] = "error",
    point: Annotated[
        list[str] | None, typer.Option(help="Also store this point once more, reconstructed. May be repeated.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Give a ranked model a better knob, without training.

    Approximates the outputs of dropped filters by a linear function of the kept ones, and folds it into the next
    matrix: better answers for the same FLOPs. Reads some of the training text and stores the mean and covariance of
    every layer's output; from then on, every knob position of the file is cut that way. Needs no torch.

    Example: rheostat reconstruct model.safetensors --data DIR -o model.safetensors
    """
    from rheostat.pruning import reconstruction

    with labelled_share() as progress:
        found = reconstruction.reconstruct(
            model,
            data=data,
            out=out,
            ranking=ranking,
            tokens=tokens,
            widths=widths,  # type: ignore[arg-type]  # checked there
            points=point or (),
            progress=progress,
        )
    facts = {
        "model": str(found.model),
        "ranking": found.ranking.name,
        "tokens": found.tokens,
        "reconstruction_bytes": found.size_bytes,
        "points": [stored.name for stored in found.points],
    }
    if json:
        print_json(facts)
        return
    print_line(f"{out}: knob by ranking {found.ranking.name}, reconstructed from {found.tokens:,} words")
    print_line(f"reconstruction: {found.size_bytes:,} bytes; leave it out with: rheostat pack --drop-reconstruction")
    for stored in found.points:
        print_line(f"point {stored.name}: {stored.flops_fraction:.1%} of the FLOPs")
