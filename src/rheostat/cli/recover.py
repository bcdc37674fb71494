"""`rheostat recover`: train updates that recover the quality lost by cutting."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheostat.cli.console import CRITERION_HELP, DATA_HELP, JSON_HELP, MODEL_OUT_HELP, RANKING_HELP
from rheostat.cli.learning import print_stored, run_bar
from rheostat.model.names import check_name
from rheostat.model.writer import check_target
from rheostat.recipe import recipe_names


def recover(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    data: Annotated[str, typer.Option(help=DATA_HELP)],
    out: Annotated[Path, typer.Option("-o", "--out", help=MODEL_OUT_HELP)],
    knob: Annotated[list[float] | None, typer.Option(help="A share of the cost. May be repeated.")] = None,
    criterion: Annotated[str | None, typer.Option(help=CRITERION_HELP)] = None,
    ranking: Annotated[str | None, typer.Option(help=RANKING_HELP)] = None,
    point: Annotated[str | None, typer.Option(help="Recover the stored point with this name.")] = None,
    recipe: Annotated[
        str, typer.Option(help=f"A schedule ({', '.join(recipe_names('recover'))}) or a .toml file.")
    ] = "adam",
    what: Annotated[
        str | None, typer.Option(help="update (the default), or as controls: gate (one per filter) or bias.")
    ] = None,
    rank: Annotated[int | None, typer.Option(min=1, help="Rank of the update; the recipe's by default.")] = None,
    distill: Annotated[
        bool, typer.Option("--distill", help="Make the full model's distribution half of the target.")
    ] = False,
    name: Annotated[str | None, typer.Option(help="Name of the stored point; only for a single point.")] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a value of the recipe, as in train.steps=500. May be repeated."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Train a small update that improves a cut model.

    The update is stored with the point; the weights stay as they are. It is merged when the point is cut, so it costs
    bytes but no time. Run the same command again to resume.

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
            what=what,  # type: ignore[arg-type]  # checked with the recipe
            rank=rank,
            distill=steps.DISTILL if distill else None,
            changes=changes or (),
            reporter=bar,
        )
    print_stored(stored, json)
