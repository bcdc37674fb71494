"""`rheostat recover`: updates that win back what cutting lost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheostat.cli.learning import print_stored, run_bar
from rheostat.model.names import check_name
from rheostat.model.writer import check_target
from rheostat.recipe import recipe_names


def recover(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    data: Annotated[
        str, typer.Option(help="The corpus: a folder with train and valid text, one text file, 'chat' or 'talk'.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="The model file to write; may be the one that is read.")],
    knob: Annotated[
        list[float] | None, typer.Option(help="Share of the FLOPs. May be repeated, for several points.")
    ] = None,
    criterion: Annotated[str | None, typer.Option(help="Cut by this criterion.")] = None,
    ranking: Annotated[str | None, typer.Option(help="Cut by the ranking of this name.")] = None,
    point: Annotated[str | None, typer.Option(help="Recover the stored point of this name.")] = None,
    recipe: Annotated[
        str, typer.Option(help=f"A schedule ({', '.join(recipe_names('recover'))}) or a .toml file.")
    ] = "adam",
    rank: Annotated[int | None, typer.Option(min=1, help="Rank of the update; 1 is the paper's.")] = None,
    distill: Annotated[
        bool, typer.Option("--distill", help="Use the full model's distribution as a target beside the text.")
    ] = False,
    name: Annotated[str | None, typer.Option(help="Name of the stored point, if there is only one.")] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="Change a value, as in train.steps=500. May be repeated.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was stored as JSON.")] = False,
) -> None:
    """Train a small update that wins back quality of a pruned model, and store it with its point.

    The weights stay as they are. The update is merged when the point is cut, so it costs bytes but no time. The same
    command resumes after an interruption.

    Example: rheostat recover model.safetensors --knob 0.8 --data DIR -o model.safetensors
    """
    if name is not None:
        check_name(name, "--name")
    check_target(out)  # before torch is imported, which takes seconds
    from rheostat.pruning import steps

    with run_bar() as bar:
        stored = steps.recover(
            model,
            data=data,
            out=out,
            knob=knob or (),
            criterion=criterion,
            ranking=ranking,
            point=point,
            name=name,
            recipe=recipe,
            rank=rank,
            distill=steps.DISTILL if distill else None,
            changes=changes or (),
            reporter=bar,
        )
    print_stored(stored, json)
