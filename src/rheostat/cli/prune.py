"""`rheostat prune`: which filters matter, stored in the model file as a ranking or as points."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from rheostat.cli.console import shares
from rheostat.cli.learning import Learn, learn_and_store, report_points
from rheostat.errors import OperatingPointError
from rheostat.model.description import check_name
from rheostat.model.file import ModelFile, check_target, open_model, repack
from rheostat.model.operating_point import OperatingPoint, Ranking
from rheostat.recipe import read_recipe, recipe_names
from rheostat.text.corpus import CorpusConfig, load_split

L0 = "l0"
RECIPE = "paper"  # of l0, where no other is named


def prune(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Where the model file with the ranking goes.")],
    criterion: Annotated[
        str, typer.Option(help="random, filter-norm, mean-activation, taylor, l0, or one you registered.")
    ] = "taylor",
    data: Annotated[str | None, typer.Option(help="The corpus, for criteria that read text and for --search.")] = None,
    share: Annotated[float, typer.Option(help="Share of the training text to read, from its beginning.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of the random criterion.")] = 1,
    name: Annotated[str | None, typer.Option(help="The ranking's name; the criterion's by default.")] = None,
    search: Annotated[
        bool, typer.Option("--search", help="Also search widths per layer on validation text, for each --knob.")
    ] = False,
    knob: Annotated[
        list[float] | None, typer.Option(help="With --search or l0: a share of the FLOPs; repeat it.")
    ] = None,
    budget: Annotated[int, typer.Option(help="With --search: how many evaluations it may take.")] = 60,
    search_tokens: Annotated[
        int, typer.Option(help="With --search: tokens of validation text to measure on.")
    ] = 10_000,
    strength: Annotated[
        list[float] | None, typer.Option(help="With l0: fix λ as in the paper, instead of finding it for a --knob.")
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(help=f"With l0: a schedule ({', '.join(recipe_names(L0))}) or a .toml file; else {RECIPE}."),
    ] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="With l0: change a value, as in train.steps=500.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was stored as JSON.")] = False,
) -> None:
    """Score every filter of every layer and store the ranking: the knob cuts by it.

    A file may hold several rankings, also of one criterion under several names. With --search, widths are chosen layer
    by layer on validation text for each --knob and stored as points. The criterion l0 trains gates instead, one run for
    each --knob, and stores points; the same command again goes on where it was stopped.

    Example: rheostat prune model.safetensors --criterion mean-activation --data DIR -o model.safetensors
    """
    if name is not None:
        check_name(name, "--name")
    if search and not (knob and data):
        raise OperatingPointError("--search needs at least one --knob to search for, and --data to measure on")
    if criterion == L0:
        learn_gates(model, out, data, knob or [], strength, recipe or RECIPE, changes or [], json)
        return
    _refuse_unused({"--strength": strength, "--recipe": recipe, "--set": changes}, "--criterion l0")
    _refuse_unused({} if search else {"--knob": knob}, "--search or --criterion l0")
    check_target(out)
    from rheostat.pruning.criteria import CRITERIA, Subject, rank
    from rheostat.training.language_model import LanguageModel

    if criterion not in CRITERIA:
        raise OperatingPointError(f"no criterion '{criterion}'; expected one of {', '.join([*CRITERIA, L0])}")
    with open_model(model) as file:
        network = LanguageModel.from_weights(file.shape, file.weights())
        config = CorpusConfig(tokenizer=file.tokenizer)
        ids = load_split(data, "train", config, file.vocabulary).ids if data else None
        with shares(f"scoring by {criterion}") as progress:
            ranking = rank(Subject(network, ids, share, seed, progress), criterion, name)
        points: list[OperatingPoint] = []
        if search:
            valid = load_split(str(data), "valid", config, file.vocabulary).ids[: search_tokens + 1]
            points = _search(file, ranking, knob or [], valid, budget)
        repack(file, out, add_rankings=[ranking], add_points=points)
    report_points(out, points, json, ranking)


def _refuse_unused(options: Mapping[str, object], owner: str) -> None:
    """What would be ignored was meant for something else."""
    if given := [name for name, value in options.items() if value]:
        raise OperatingPointError(f"{', '.join(given)} without {owner}, where it belongs: add that, or leave it out")


def learn_gates(
    model: Path,
    out: Path,
    data: str | None,
    knobs: list[float],
    strength: list[float] | None,
    recipe: str,
    changes: list[str],
    json: bool,
) -> None:
    """L0 gates do not rank: each position of the knob, or each strength, is a run of its own and gives a point."""
    from rheostat.pruning import run

    if not data or not (knobs or strength):
        raise OperatingPointError("l0 learns a point for each --knob (or --strength) and needs --data to learn on")
    if not all(value > 0 for value in strength or []):
        raise OperatingPointError(f"--strength got {strength}; expected positive numbers, or --knob to have λ found")
    wanted = [("knob", value) for value in knobs] + [("strength", value) for value in strength or []]
    jobs: dict[str, Learn] = {}
    with open_model(model) as file:
        for key, value in wanted:
            tables = read_recipe(recipe, [*changes, f"gates.{key}={value}"], stage=L0)
            jobs[f"{key}-{value:g}"] = partial(run.learn_gates, file, tables)
        points = learn_and_store(file, data, out, jobs)
    report_points(out, points, json)


def _search(
    file: ModelFile, ranking: Ranking, knobs: list[float], ids: np.ndarray, budget: int
) -> list[OperatingPoint]:
    from rheostat.pruning.allocation import search_allocation
    from rheostat.training.evaluation import PointEvaluator

    evaluator = PointEvaluator(file)
    with shares("searching widths") as progress:
        return search_allocation(
            ranking, file.shape, knobs, lambda point: evaluator.quality(point, ids).loss, budget, progress
        )
