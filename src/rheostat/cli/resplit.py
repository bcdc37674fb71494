"""`rheostat resplit`: other clusters for a trained output layer."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from rheostat import knob as knob_positions
from rheostat.cli.console import print_json, shares
from rheostat.corpus import CorpusConfig, load_split
from rheostat.model_file import check_target, open_model
from rheostat.operating_point import OperatingPoint


def resplit(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    data: Annotated[str, typer.Option(help="The corpus: a folder with train and valid text, 'chat' or 'talk'.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Where the model file with its new clusters goes.")],
    tails: Annotated[
        int | None,
        typer.Option(help="How many tail clusters, at most 16; without it, as many as make a query cheapest."),
    ] = None,
    knob: Annotated[
        list[float] | None,
        typer.Option(help="Fit this position too, beside the whole model and the stored points; repeat it."),
    ] = None,
    tokens: Annotated[int, typer.Option(min=1000, help="Words of the training text to fit on.")] = 12_000,
    json: Annotated[bool, typer.Option("--json", help="Print what came of it as JSON.")] = False,
) -> None:
    """Split a trained output layer into other clusters, so that a suggestion opens fewer of its words.

    Takes minutes and trains nothing but one row for each cluster; rankings, points and updates stay. A plain softmax
    becomes an adaptive one. Perplexity changes a little: how much, of the whole model on validation text, is printed.

    Example: rheostat resplit model.safetensors --data DIR -o model.safetensors
    """
    check_target(out)
    from rheostat.pruning.resplit import check_tails, find_clusters, store

    with open_model(model) as file:
        check_tails(file.shape, tails)
        config = CorpusConfig(tokenizer=file.tokenizer)
        train, valid = (load_split(data, split, config, file.vocabulary).ids for split in ("train", "valid"))
        positions = [knob_positions.choose(file, position) for position in (1.0, *(knob or ()))]
        points: dict[str, OperatingPoint] = {point.digest: point for point in (*positions, *file.points())}
        with shares("sampling answers") as progress:
            found = find_clusters(file, list(points.values()), train, valid, tokens, tails, progress)
        before, after = found.multiplications
        store(file, found, out)
    if json:
        facts = {name: value for name, value in asdict(found).items() if name not in ("weight", "bias")}
        print_json({"model": str(out), **facts})
        return
    print(
        f"{out}: {len(found.splits)} tail clusters, from words {' '.join(map(str, found.splits))} on; "
        f"the output layer takes {2e-6 * after:.1f} instead of {2e-6 * before:.1f} MFLOPs a query in the mean; "
        f"perplexity {found.perplexity_ratio - 1:+.2%}"
    )
