"""`rheostat recover`: updates that win back what cutting lost."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from rheostat import knob as knob_positions
from rheostat.cli.learning import Learn, learn_and_store, report_points
from rheostat.errors import OperatingPointError
from rheostat.model_file import open_model
from rheostat.recipe import read_recipe, recipe_names

DISTILL = 0.5  # share of the target, where --distill asks for one; --set update.distill=… for another


def recover(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    data: Annotated[str, typer.Option(help="The corpus: a folder with train and valid text, 'chat' or 'talk'.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Where the model file with the updates goes.")],
    knob: Annotated[list[float] | None, typer.Option(help="Share of the FLOPs; repeat it for several points.")] = None,
    criterion: Annotated[str | None, typer.Option(help="Cut by this criterion.")] = None,
    ranking: Annotated[str | None, typer.Option(help="Cut by the ranking of this name.")] = None,
    point: Annotated[str | None, typer.Option(help="Recover the stored point of this name.")] = None,
    recipe: Annotated[
        str, typer.Option(help=f"A schedule ({', '.join(recipe_names('recover'))}) or a .toml file.")
    ] = "adam",
    rank: Annotated[int | None, typer.Option(min=1, help="Rank of the update; 1 is the paper's.")] = None,
    distill: Annotated[
        bool, typer.Option("--distill", help="Take the full model's distribution as a target beside the text.")
    ] = False,
    name: Annotated[str | None, typer.Option(help="A name for the stored point, if it is one.")] = None,
    changes: Annotated[list[str] | None, typer.Option("--set", help="Change a value, as in train.steps=500.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was stored as JSON.")] = False,
) -> None:
    """Train a small update of a pruned model that wins quality back, and store it with its point.

    Weights stay as they are; the update is merged when the point is cut, so that it costs bytes but no time. The same
    command again goes on where it was stopped.

    Example: rheostat recover model.safetensors --knob 0.8 --data DIR -o model.safetensors
    """
    from rheostat.pruning import run

    if not (knob or point):
        raise OperatingPointError("nothing to recover; give at least one --knob, or a stored --point")
    tables = read_recipe(recipe, changes or (), stage="recover")
    for key, value in (("rank", rank), ("distill", DISTILL if distill else None)):
        if value is not None:
            tables.setdefault("update", {})[key] = value
    with open_model(model) as file:
        chosen = [
            knob_positions.choose(file, position, criterion=criterion, ranking=ranking, point=point)
            for position in (knob or [1.0])
        ]
        if name and len(chosen) == 1:
            chosen = [replace(chosen[0], name=name)]
        jobs: dict[str, Learn] = {bare.name: partial(run.recover, file, bare, tables) for bare in chosen}
        points = learn_and_store(file, data, out, jobs)
    report_points(out, points, json)
