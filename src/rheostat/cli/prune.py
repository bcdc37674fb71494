"""`rheostat prune`: find out which filters matter, and store the answer as rankings or points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from rheostat.cli.console import DATA_HELP, JSON_HELP, MODEL_OUT_HELP, labelled_share
from rheostat.cli.learning import print_stored, run_bar
from rheostat.errors import OperatingPointError
from rheostat.measure.results import read_sweep
from rheostat.model.names import check_name
from rheostat.model.writer import check_target
from rheostat.recipe import recipe_names

L0 = "l0"
RECIPE = "paper"  # of l0, if no other is named


def prune(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    out: Annotated[Path, typer.Option("-o", "--out", help=MODEL_OUT_HELP)],
    criterion: Annotated[
        list[str] | None,
        typer.Option(
            help="random, filter-norm, mean-activation, taylor (the default), l0, or one that you registered. "
            "May be repeated, except for l0."
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help=f"{DATA_HELP} Only for criteria that read text, and --search.")
    ] = None,
    share: Annotated[float, typer.Option(help="Share of the training text to read, from the start.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the random criterion.")] = 1,
    name: Annotated[str | None, typer.Option(help="Name of the ranking; the criterion's name by default.")] = None,
    search: Annotated[
        bool, typer.Option("--search", help="For each --knob, also search widths layer by layer on validation text.")
    ] = False,
    knob: Annotated[
        list[float] | None, typer.Option(help="With --search or l0: a share of the cost. May be repeated.")
    ] = None,
    budget: Annotated[int, typer.Option(help="With --search: about how many evaluations to spend.")] = 60,
    search_tokens: Annotated[
        int, typer.Option(help="With --search: number of validation tokens to measure on.")
    ] = 10_000,
    widths_of: Annotated[
        list[str] | None,
        typer.Option(help="Also store a point of the ranking with the widths of this stored point. May be repeated."),
    ] = None,
    widths_from: Annotated[
        Path | None,
        typer.Option(help="With --widths-of: the results file of a sweep that measured these points, of another file."),
    ] = None,
    strength: Annotated[
        list[float] | None,
        typer.Option(help="With l0: a fixed λ as in the paper, instead of a --knob. May be repeated."),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(help=f"With l0: a schedule ({', '.join(recipe_names(L0))}) or a .toml file; {RECIPE} by default."),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="With l0: change a value of the recipe, as in train.steps=500. May be repeated."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Rank the filters of a model, for the knob to cut by.

    Scores every filter of every layer and stores the ranking. A file can have several rankings, even several of one
    criterion under different names. The first one that is not random becomes the default.

    With --search, the widths found for each --knob are stored as points. The criterion l0 trains gates instead, one run
    for each --knob, and stores points; run the same command again to resume.

    Example: rheostat prune model.safetensors --criterion mean-activation --data DIR -o model.safetensors
    """
    criteria = criterion or ["taylor"]
    if name is not None:
        check_name(name, "--name")
    check_target(out)  # before torch is imported, which takes seconds
    if search and not (knob and data):
        raise OperatingPointError("--search needs at least one --knob to search for, and --data to measure on")
    if criteria == [L0]:
        ignored = {
            "--name": name,
            "--search": search,
            "--share": share != 1,
            "--seed": seed != 1,
            "--widths-of": widths_of,
            "--widths-from": widths_from,
        }
        _refuse_unused(ignored, "a criterion that ranks")
        if not data:
            raise OperatingPointError("l0 learns a point for each --knob (or --strength) and needs --data to learn on")
        from rheostat.pruning.steps import learn_point

        with run_bar() as bar:
            stored = learn_point(
                model,
                data=data,
                out=out,
                knob=knob or (),
                strength=strength or (),
                recipe=recipe or RECIPE,
                changes=changes or (),
                reporter=bar,
            )
    else:
        _refuse_unused({"--strength": strength, "--recipe": recipe, "--set": changes}, "--criterion l0")
        _refuse_unused({} if search else {"--knob": knob}, "--search or --criterion l0")
        _refuse_unused({} if widths_of else {"--widths-from": widths_from}, "--widths-of")
        widths: Sequence[str] | Mapping[str, Sequence[int]] = widths_of or ()
        if widths_from is not None:
            swept = read_sweep(widths_from)
            widths = {one: swept.widths_of(one) for one in widths}
        from rheostat.pruning.steps import rank

        with labelled_share() as progress:
            stored = rank(
                model,
                criteria,
                out=out,
                data=data,
                share=share,
                seed=seed,
                name=name,
                search=(knob or ()) if search else (),
                budget=budget,
                search_tokens=search_tokens,
                widths_of=widths,
                progress=progress,
            )
    print_stored(stored, json)


def _refuse_unused(options: Mapping[str, object], owner: str) -> None:
    """Raise an error for options that would be ignored."""
    if given := [name for name, value in options.items() if value]:
        work = "works" if len(given) == 1 else "work"
        raise OperatingPointError(f"{' and '.join(given)} {work} only with {owner}: add that, or leave out the rest")
