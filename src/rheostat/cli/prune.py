"""`rheostat prune`: which filters matter, stored in the model file as a ranking or as points."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from rheostat.cli.console import print_json, shares
from rheostat.corpus import CorpusConfig, load_split
from rheostat.errors import OperatingPointError
from rheostat.model_file import ModelFile, open_model, repack
from rheostat.operating_point import OperatingPoint, Ranking


def prune(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Where the model file with the ranking goes.")],
    criterion: Annotated[
        str, typer.Option(help="random, filter-norm, mean-activation, taylor, or one you registered.")
    ] = "taylor",
    data: Annotated[str | None, typer.Option(help="The corpus, for criteria that read text and for --search.")] = None,
    share: Annotated[float, typer.Option(help="Share of the training text to read, from its beginning.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of the random criterion.")] = 1,
    name: Annotated[str | None, typer.Option(help="The ranking's name; the criterion's by default.")] = None,
    search: Annotated[
        bool, typer.Option("--search", help="Also search widths per layer on validation text, for each --knob.")
    ] = False,
    knob: Annotated[list[float] | None, typer.Option(help="With --search: shares of the FLOPs.")] = None,
    budget: Annotated[int, typer.Option(help="With --search: how many evaluations it may take.")] = 60,
    search_tokens: Annotated[
        int, typer.Option(help="With --search: tokens of validation text to measure on.")
    ] = 10_000,
    json: Annotated[bool, typer.Option("--json", help="Print what was stored as JSON.")] = False,
) -> None:
    """Score every filter of every layer and store the ranking: the knob cuts by it.

    A file may hold several rankings, also of one criterion under several names. With --search, widths are chosen layer
    by layer on validation text for each --knob and stored as points.

    Example: rheostat prune model.safetensors --criterion mean-activation --data DIR -o model.safetensors
    """
    from rheostat.pruning.criteria import Subject, rank
    from rheostat.training.language_model import LanguageModel

    if search and not (knob and data):
        raise OperatingPointError("--search needs at least one --knob to search for, and --data to measure on")
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
    _report(out, ranking, points, json)


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


def _report(out: Path, ranking: Ranking, points: list[OperatingPoint], json: bool) -> None:
    if json:
        stored = [
            {"name": point.name, "widths": list(point.widths), "flops_fraction": point.flops_fraction}
            for point in points
        ]
        print_json({"model": str(out), "ranking": ranking.name, "criterion": ranking.criterion, "points": stored})
        return
    print(f"{out}: ranking '{ranking.name}' of {sum(map(len, ranking.scores)):,} filters")
    for point in points:
        print(f"{out}: point '{point.name}', {point.flops_fraction:.2%} of the FLOPs, filters {point.widths}")
