"""`rheostat train`: train a model from text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rheostat.cli.console import JSON_HELP, print_json, print_line
from rheostat.cli.learning import run_bar
from rheostat.errors import RecipeError, counted
from rheostat.recipe import read_recipe, recipe_names

if TYPE_CHECKING:
    from rheostat.training.run import TrainingResult


def train(
    recipe: Annotated[
        str, typer.Argument(help=f"A recipe's name ({', '.join(recipe_names())}) or a .toml file; not with --resume.")
    ] = "",
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="A folder with train, valid and test text, one text file (which is divided into these), 'chat' or "
            "'talk'; given three times, the three files."
        ),
    ] = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder of the run.")] = Path("runs/latest"),
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in --out.")] = False,
    untrained: Annotated[
        bool, typer.Option("--untrained", help="Write the model without training it, to measure its speed.")
    ] = False,
    from_model: Annotated[
        Path | None, typer.Option("--from", help="Start from the weights of this model file.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a value of the recipe, as in train.epochs=2. May be repeated."),
    ] = None,
    vocabulary: Annotated[
        Path | None, typer.Option(help="A vocabulary file with one word and its count per line.")
    ] = None,
    threads: Annotated[int, typer.Option(min=0, help="Processor threads; 0 = as many as the model keeps busy.")] = 0,
    json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Train a language model.

    OUT/model.safetensors is always the best model so far. Stop the run at any time, and resume it with --resume.

    Example: rheostat train ptb --data DIR -o runs/ptb
    """
    if resume and (recipe or changes or data or from_model or vocabulary or untrained):
        raise RecipeError(
            "a resumed run keeps its recipe and corpus; expected only --resume and -o: leave the rest out"
        )
    if not resume and not recipe:
        raise RecipeError(f"no recipe given; expected one of {', '.join(recipe_names())}, or a .toml file")
    if not resume:
        _check_early(recipe, changes or (), data or ())
    from rheostat.training import run
    from rheostat.training.session import is_first_process

    with run_bar(f"rheostat train --resume -o {out}") as bar:
        if resume:
            result = run.resume(out, reporter=bar)
        elif untrained:
            model = run.write_untrained(
                recipe,
                data=data or (),
                out=out,
                changes=changes or (),
                from_model=from_model,
                vocabulary=vocabulary,
                reporter=bar,
            )
            _report_untrained(model, json)
            return
        else:
            result = run.train(
                recipe,
                data=data or (),
                out=out,
                changes=changes or (),
                from_model=from_model,
                vocabulary=vocabulary,
                threads=threads,
                reporter=bar,
            )
    if is_first_process():
        _report(result, json)


def _check_early(recipe: str, changes: Sequence[str], data: Sequence[str]) -> None:
    """Name the commonest mistakes before torch is imported, which takes seconds."""
    from rheostat.text.sources import find_splits, is_named, is_one_file

    read_recipe(recipe, changes)
    source = data[0] if len(data) == 1 else [Path(file) for file in data]
    if data and not is_named(source) and not is_one_file(source):
        find_splits(source)


def _report(result: TrainingResult, json: bool) -> None:
    shares = result.valid_over_shares
    if json:
        figures = {"epochs": result.epochs, "steps": result.steps, "valid_perplexity": result.valid_perplexity}
        over = {"valid_over_shares": list(shares)} if shares else {}
        print_json({"model": str(result.model), **figures, **over})
        return
    widths = f" over {' '.join(f'{share:.0%}' for share in shares)} of the cost together," if shares else ""
    print_line(
        f"{result.model}: valid perplexity {result.valid_perplexity:.2f}{widths} "
        f"after {counted(result.epochs, 'epoch')}, {counted(result.steps, 'step')}"
    )


def _report_untrained(model: Path, json: bool) -> None:
    if json:
        print_json({"model": str(model), "steps": 0})
    else:
        print_line(f"{model}: not trained")
