"""The steps of pruning, one call each: `rank` filters, `learn_point` with gates, `recover` what cutting lost.

Each reads a model file and a corpus, and writes a model file with the old contents plus the result. Names, targets and
options are checked before anything is read. Learning a point takes a while: after an interruption, the same call
resumes it from a folder next to the output file. Knows files and folders; `criteria` computes scores, `run` learns
points.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rheostat.arguments import checked
from rheostat.errors import OperatingPointError
from rheostat.model import knob as knob_positions
from rheostat.model.contents import add_points, add_rankings
from rheostat.model.file import ModelFile, open_model
from rheostat.model.names import check_name
from rheostat.model.operating_point import OperatingPoint, Ranking
from rheostat.model.origin import Origin
from rheostat.model.widths import best_of, check_knob
from rheostat.model.writer import check_target, write_model
from rheostat.provenance import new_origin
from rheostat.pruning.allocation import search_allocation, searched_name
from rheostat.pruning.criteria import L0, Subject, check_criterion, score
from rheostat.pruning.recovery import What
from rheostat.pruning.run import Learned, Texts, learn_gates, learn_update, read_texts
from rheostat.recipe import read_recipe
from rheostat.text.corpus import CorpusConfig, Split, load_training_split
from rheostat.training.evaluation import PointEvaluator
from rheostat.training.language_model import LanguageModel
from rheostat.training.run_folder import RunFolder
from rheostat.training.trainer import SILENT, Reporter

LabelledProgress = Callable[[str, float], None]
Recipe = str | Path | Mapping[str, Any]
Learn = Callable[[Texts, Path, Reporter], Learned]

DISTILL = 0.5  # share of the target that is the full model's, if distillation is asked for without a share


@dataclass(frozen=True, eq=False)
class Stored:
    """What a step added to a model file."""

    model: Path | None  # the file that was written, if any
    rankings: tuple[Ranking, ...] = ()
    points: tuple[OperatingPoint, ...] = ()
    default_ranking: str | None = None  # the ranking that the file's knob uses
    used: Mapping[str, str] = field(default_factory=dict)  # recovered point -> the ranking or point it came from


@checked
def rank(
    model: str | Path,
    criterion: str | Sequence[str] = "taylor",
    *,
    out: str | Path | None = None,
    data: str | Path | None = None,
    share: float = 1.0,
    seed: int = 1,
    name: str | None = None,
    search: Sequence[float] = (),
    budget: int = 60,
    search_tokens: int = 10_000,
    widths_of: Sequence[str] | Mapping[str, Sequence[int]] = (),
    progress: LabelledProgress = lambda label, share: None,
) -> Stored:
    """Score every filter of every layer by one or more criteria, and store the rankings in `out`.

    criterion: random, filter-norm, mean-activation, taylor, or one registered with `criteria.criterion`.
    data: the corpus, for criteria that read text. share: how much of its training text to read, from the beginning.
    seed: for the random criterion. name: of the ranking, if there is only one; by default the criterion's name.
    search: knob positions for which to search widths, layer by layer on `search_tokens` of validation text, with about
        `budget` evaluations; each is stored as a point. widths_of: names of stored points, or widths by name; the best
        filters of each ranking at these widths are stored as points too, so that criteria can be compared at the same
        widths.
    """
    criteria = [criterion] if isinstance(criterion, str) else list(criterion)
    names = _ranking_names(criteria, name)
    for one in names:
        for made in (*(_name_at(one, other) for other in widths_of), *(searched_name(one, knob) for knob in search)):
            check_name(made, "the points to store")
    if search and data is None:
        raise OperatingPointError("searching for widths needs text to measure on; give a corpus as data")
    if out is not None:
        check_target(out)
    with open_model(model) as file:
        widths = _named_widths(file, widths_of)
        network = LanguageModel.from_weights(file.shape, file.weights())
        train = None if data is None else _read(file, data, "train", progress)
        ids, origin = None if train is None else train.ids, _origin(file, train)
        rankings = [
            score(Subject(network, ids, share, seed, partial(progress, f"scoring by {one}"), origin), one, its_name)
            for one, its_name in zip(criteria, names, strict=True)
        ]
        points = [_at_widths_of(file, one, name, widths[name]) for one in rankings for name in widths]
        if search and data is not None:
            valid = _read(file, data, "valid", progress)
            ids, origin = valid.ids[: search_tokens + 1], _origin(file, valid)
            for ranking in rankings:
                points += _search(file, ranking, search, ids, budget, progress, origin)
        return _store(file, out, rankings, points)


@checked
def learn_point(
    model: str | Path,
    *,
    data: str | Path,
    out: str | Path,
    knob: float | Sequence[float] = (),
    strength: float | Sequence[float] = (),
    recipe: Recipe = "paper",
    changes: Sequence[str] = (),
    reporter: Reporter = SILENT,
) -> Stored:
    """Learn which filters to keep with L0 gates: one run and one stored point per knob position or strength.

    knob: one or more shares of the FLOPs to reach. strength: one or more fixed values of the paper's λ.
    recipe: the name of an l0 recipe, the path to a .toml file, or its tables. changes: such as "train.steps=500".
    The gates of each run are stored as a ranking too. The same call resumes after an interruption.
    """
    knobs, strengths = _knobs(knob), _several(strength)
    if not (knobs or strengths):
        raise OperatingPointError("l0 learns a point for each knob position (or strength); give at least one")
    if not all(isinstance(value, int | float) and value > 0 for value in strengths):
        raise OperatingPointError(
            f"the strengths are {strengths}; expected positive numbers, or knob positions to have λ found"
        )
    wanted = [("knob", value) for value in knobs] + [("strength", value) for value in strengths]
    jobs: dict[str, Learn] = {}
    with open_model(model) as file:
        for key, value in wanted:
            tables = read_recipe(recipe, [*changes, f"gates.{key}={value}"], stage=L0)
            jobs[f"{key}-{value:g}"] = partial(learn_gates, file, tables)
        return _learn_and_store(file, data, Path(out), jobs, reporter)


@checked
def recover(
    model: str | Path,
    *,
    data: str | Path,
    out: str | Path,
    knob: float | Sequence[float] = (),
    criterion: str | None = None,
    ranking: str | None = None,
    point: str | None = None,
    name: str | None = None,
    recipe: Recipe = "adam",
    what: What | None = None,
    rank: int | None = None,
    distill: float | None = None,
    changes: Sequence[str] = (),
    reporter: Reporter = SILENT,
) -> Stored:
    """Train a low-rank update for each knob position, or for a stored point, and store the point with it.

    criterion, ranking: what to cut by instead of what the knob uses. point: the name of a stored point to recover.
    name: of the stored point, if there is only one. what: train an "update", or as controls one "gate" per filter, or
    the "bias" of every row. rank: of the update; the paper uses 1.
    distill: share of the target that is the full model's distribution. recipe, changes: as for `learn_point`.
    The weights stay unchanged. The same call resumes after an interruption.
    """
    knobs = _knobs(knob)
    if not (knobs or point):
        raise OperatingPointError("nothing to recover; give at least one knob position, or a stored point")
    if name is not None:
        check_name(name, "the name to store under")
        if len(knobs) > 1:
            raise OperatingPointError(f"the name {name} was given for {len(knobs)} points; expected one: leave it out")
    tables = read_recipe(recipe, changes, stage="recover")
    asked = {"what": what, "rank": rank, "distill": distill}
    tables.setdefault("update", {}).update({key: value for key, value in asked.items() if value is not None})
    with open_model(model) as file:
        chosen = [
            knob_positions.choose(file, position, criterion=criterion, ranking=ranking, point=point)
            for position in (knobs or [1.0])
        ]
        named = [replace(bare, name=name or bare.name) for bare in chosen]
        jobs: dict[str, Learn] = {bare.name: partial(learn_update, file, bare, tables) for bare in named}
        used = {bare.name: knob_positions.chosen_by(file, one) for bare, one in zip(named, chosen, strict=True)}
        return replace(_learn_and_store(file, data, Path(out), jobs, reporter), used=used)


def _several(values: Any) -> list[Any]:
    """One value or several; a str is one, and no number, which the checks that follow say."""
    return [values] if isinstance(values, str) or not isinstance(values, Iterable) else list(values)


def _knobs(values: float | Sequence[float]) -> list[float]:
    knobs = _several(values)
    for knob in knobs:
        check_knob(knob)
    return knobs


def _ranking_names(criteria: Sequence[str], name: str | None) -> list[str]:
    """The names of the rankings; an error if a criterion or name is not valid, before anything is read."""
    for criterion in criteria:
        check_criterion(criterion)
    if doubled := [criterion for criterion in dict.fromkeys(criteria) if criteria.count(criterion) > 1]:
        raise OperatingPointError(f"the criterion {doubled[0]} was given more than once; expected each once")
    if name is None:
        return list(criteria)
    check_name(name, "the name to store under")
    if len(criteria) != 1:
        raise OperatingPointError(f"the name {name} was given for {len(criteria)} rankings; expected one: leave it out")
    return [name]


def _read(file: ModelFile, data: str | Path, split: str, progress: LabelledProgress) -> Split:
    config = CorpusConfig(tokenizer=file.tokenizer)
    return load_training_split(data, split, config, file.vocabulary, progress=progress)


def _origin(file: ModelFile, text: Split | None) -> Origin:
    """The origin of something made from a model and, if given, a text."""
    origin = replace(new_origin(), made_from=file.weights_digest())
    return origin if text is None else replace(origin, corpus=text.corpus, corpus_digest=text.digest)


def _search(
    file: ModelFile,
    ranking: Ranking,
    knobs: Sequence[float],
    ids: np.ndarray,
    budget: int,
    progress: LabelledProgress,
    origin: Origin,
) -> list[OperatingPoint]:
    evaluator, tokens = PointEvaluator(file), len(ids) - 1
    show = partial(progress, f"searching widths for {ranking.name}")
    origin = replace(origin, recipe={"search": {"knob": list(knobs), "budget": budget, "tokens": tokens}}, steps=0)

    def loss(point: OperatingPoint) -> float:
        return evaluator.quality(point, ids).loss

    return search_allocation(ranking, file.shape, knobs, loss, budget, show, origin, tokens)


def _named_widths(
    file: ModelFile, widths_of: Sequence[str] | Mapping[str, Sequence[int]]
) -> dict[str, tuple[int, ...]]:
    """Widths by name: those of stored points, or as given."""
    if not isinstance(widths_of, Mapping):
        return {name: file.point(name).widths for name in widths_of}
    sizes = file.shape.hidden_sizes
    for name, widths in widths_of.items():
        check_name(name, "the names of widths")
        if len(widths) != len(sizes) or not all(1 <= width <= size for width, size in zip(widths, sizes, strict=True)):
            raise OperatingPointError(
                f"the widths of {name} are {list(widths)!s:.60}; the model has layers of {list(sizes)}: expected one "
                "width for each, from 1 to its size"
            )
    return {name: tuple(widths) for name, widths in widths_of.items()}


def _at_widths_of(file: ModelFile, ranking: Ranking, name: str, widths: Sequence[int]) -> OperatingPoint:
    """The best filters of a ranking at these widths; name: whose widths they are."""
    point = best_of(ranking, file.shape, widths)
    return replace(point, name=_name_at(ranking.name, name), ranking=None)


def _name_at(ranking: str, point: str) -> str:
    """The name of the point of a ranking that has the widths of another point."""
    return f"{ranking}-at-{point}"


def _learn_and_store(
    file: ModelFile, data: str | Path, out: Path, jobs: Mapping[str, Learn], reporter: Reporter
) -> Stored:
    """Learn each point in its own folder next to `out`, write `out` with all of them, and remove the folders.

    After an interruption, the same call resumes without repeating finished runs. Folders of other calls that write to
    `out` are left alone.
    """
    for name in jobs:
        check_name(name, "the points to store")
    check_target(out)
    runs = out.with_name(out.name + ".run")
    texts = read_texts(file, data, reporter.reading)
    learned = [learn(texts, runs / name, reporter) for name, learn in jobs.items()]
    rankings = [one.ranking for one in learned if one.ranking]
    stored = _store(file, out, rankings, [one.point for one in learned])
    for name in jobs:
        RunFolder(runs / name).remove()
    with contextlib.suppress(OSError):  # another call's run is in it
        runs.rmdir()
    return stored


def _store(
    file: ModelFile, out: str | Path | None, rankings: Sequence[Ranking], points: Sequence[OperatingPoint]
) -> Stored:
    if out is None:
        return Stored(None, tuple(rankings), tuple(points), file.description.default_ranking)
    write_model(out, add_points(add_rankings(file.contents(), rankings), points))
    with open_model(out) as written:
        return Stored(Path(out), tuple(rankings), tuple(points), written.description.default_ranking)
