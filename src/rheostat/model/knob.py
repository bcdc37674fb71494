"""Which operating point of a model file a knob position selects.

The only place that decides this: evaluation, recovery, runtime and export all use it. A position is a share of the
whole model's cost (FLOPs weighted by bits), and a point never costs more than that share, compared to within a
hundredth of a percent.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace

import numpy as np

from rheostat.errors import OperatingPointError
from rheostat.model.file import ModelFile
from rheostat.model.operating_point import OperatingPoint, full_point
from rheostat.model.path import GRADED, has_bounds, known_cost_down_to, known_down_to
from rheostat.model.widths import below_smallest, check_knob, select

NEAR = 0.01  # a stored point counts as being at the knob position if it is below it by less than this
ROUNDING = 1e-6  # of the float32 costs of a path
SLACK = 1e-4  # or above it by no more than this, so that a few more tail clusters do not make a point unreachable
PATH = "path"  # the criterion of a point that was searched in widths and bits
BITS = "bits"  # the criterion of the whole model in 4 bits


def choose(
    file: ModelFile,
    knob: float = 1.0,
    *,
    criterion: str | None = None,
    ranking: str | None = None,
    point: str | None = None,
    bits: bool = True,
) -> OperatingPoint:
    """The point for a knob position.

    `point` names a stored point; `ranking` names a ranking to cut by. Otherwise the choice is, in this order: the first
    stored point at the knob position, which can have gates and an update; the largest position of an ordered file's
    path that costs no more; a cut by the default ranking; the nearest stored point below. With a `criterion`, only its
    points and its first ranking are considered; "path" means a path that turns bits too, "bits" the whole model in 4
    bits, if it costs no more. bits: whether weights can be read in fewer bits. If not, a path that turns bits is
    followed only if it is asked for by name: in 8 bits, its positions would cost far more than their share.
    """
    if point is not None:
        return file.point(point)
    check_knob(knob)
    if ranking is not None:
        return _select(file, ranking, knob)
    if knob == 1 and criterion is None:
        return full_point(file.shape)
    if (stored := stored_at(file, knob, criterion)) is not None:
        return stored
    searched = turns_bits(file)
    if searched and (criterion == PATH or (criterion is None and bits)):
        return path_point(file, knob)
    if criterion == BITS and searched and (in_4_bits := four_bits(file)).cost <= knob + ROUNDING:
        return in_4_bits
    name = _ranking_for(file, criterion)
    if name is not None and name == file.ordered and not searched and (place := place_on_path(file, knob)) is not None:
        return point_on_path(file, place, knob)
    if name is not None:
        return _select(file, name, knob)
    entries = [entry for entry in file.description.points if criterion in (None, entry.criterion)]
    below = [entry for entry in entries if entry.flops_fraction <= knob]
    if below:
        return file.point(max(below, key=lambda entry: entry.flops_fraction).name)
    raise OperatingPointError(_nothing_to_cut_by(file, knob, criterion))


def _select(file: ModelFile, name: str, knob: float) -> OperatingPoint:
    """A cut by a ranking, with the file's reconstruction if it has one.

    A graded ranking is left alone: the weights were trained so that its prefixes do without what they lack.
    """
    ranking = file.ranking(name)
    point = select(ranking, file.shape, knob)
    if ranking.criterion == GRADED or point.is_full(file.shape):
        return point
    return replace(point, reconstruction=file.reconstruction)


def turns_bits(file: ModelFile) -> bool:
    """Whether the knob follows a path of widths and bits."""
    return has_bounds(file.knob_path())


def path_point(file: ModelFile, knob: float) -> OperatingPoint:
    """The largest position of the file's path that costs no more than this."""
    place = place_on_path(file, knob)
    if place is None:
        last = file.knob_path()[-1]
        raise below_smallest(knob, last.cost, last.widths)
    return point_on_path(file, place, knob)


def place_on_path(file: ModelFile, knob: float) -> int | None:
    """The number of the largest position of an ordered file's path that costs no more.

    None below the end of the path, and in a file whose positions are cut with a reconstruction.
    """
    if not has_plain_path(file):
        return None
    fitting = bisect_right(file.path_costs, knob + ROUNDING)
    return len(file.path_costs) - fitting if fitting else None


def has_plain_path(file: ModelFile) -> bool:
    """Whether the positions of a file are those of its path, as they are."""
    about = file.description
    graded = any(entry.name == file.ordered and entry.criterion == GRADED for entry in about.rankings)
    return file.ordered is not None and (about.reconstruction is None or graded)


def point_on_path(file: ModelFile, place: int, knob: float) -> OperatingPoint:
    """A position of an ordered file's path as a point: the first filters of every layer, in its bits."""
    position, searched = file.knob_path()[place], turns_bits(file)
    ranking = next(entry for entry in file.description.rankings if entry.name == file.ordered)
    return OperatingPoint(
        f"{PATH if searched else ranking.name}-{knob:g}",
        PATH if searched else ranking.criterion,
        tuple(np.arange(width, dtype=np.int32) for width in position.widths),
        flops_fraction=file.shape.flops_fraction(position.widths),
        ranking=ranking.name,
        origin=ranking.origin,
        bounds=position.bounds,
        cost_fraction=file.shape.cost_fraction(position.widths, position.bounds) if searched else None,
    )


def four_bits(file: ModelFile) -> OperatingPoint:
    """All filters, every row in 4 bits: quantisation alone, to compare a path with."""
    bounds = (0,) * (len(file.shape.hidden_sizes) + 1)
    cost = file.shape.cost_fraction(file.shape.hidden_sizes, bounds)
    return replace(full_point(file.shape), name="4-bits", criterion=BITS, bounds=bounds, cost_fraction=cost)


def stored_at(file: ModelFile, knob: float, criterion: str | None = None) -> OperatingPoint | None:
    """The first stored point at a position; None if there is none, so that `choose` has to look further."""
    for entry in file.description.points:
        if criterion in (None, entry.criterion) and knob - NEAR < entry.flops_fraction <= knob + SLACK:
            return file.point(entry.name)
    return None


def chosen_by(file: ModelFile, point: OperatingPoint) -> str:
    """Where `choose` took a point from: "ranking taylor", "point l0-0.8" or "the whole model"."""
    if point.criterion == PATH:
        return "the path"
    if point.ranking is not None:
        return f"ranking {point.ranking}"
    stored = any(entry.name == point.name for entry in file.description.points)
    return f"point {point.name}" if stored else "the whole model"


def unmeasured_warning(file: ModelFile, point: OperatingPoint) -> str | None:
    """What to say about a point of the default ranking below all that it was graded or measured for; else None."""
    known = _known_down_to(file)
    if known is None or point.ranking is None or point.ranking != file.description.default_ranking:
        return None
    if point.cost >= unmeasured_below(file):
        return None
    counted = "cost" if turns_bits(file) else "FLOPs"
    return (
        f"the knob is at {point.cost:.1%} of the {counted}; {file.path.name} was trained or measured down to "
        f"{known:.1%} only, and its quality below that is not known: turn the knob to {known:g} or more"
    )


def unmeasured_below(file: ModelFile) -> float:
    """The share of the cost below which `unmeasured_warning` has something to say; 0 if nothing is recorded."""
    known = _known_down_to(file)
    return 0.0 if known is None else known - NEAR


def _known_down_to(file: ModelFile) -> float | None:
    about = file.description
    criterion = next((entry.criterion for entry in about.rankings if entry.name == about.default_ranking), "")
    known = known_cost_down_to if turns_bits(file) else known_down_to
    return known(criterion, about.recipe, about.provenance)


def can_serve(file: ModelFile, knob: float) -> bool:
    """Whether the model can run at this knob position."""
    try:
        choose(file, knob)
    except OperatingPointError:
        return False
    return True


def can_follow(file: ModelFile, knob: float) -> bool:
    """Whether the path has a position that costs no more than this."""
    return file.knob_path()[-1].cost <= knob + SLACK / 100


def _ranking_for(file: ModelFile, criterion: str | None) -> str | None:
    if criterion is None:
        return file.description.default_ranking
    return next((entry.name for entry in file.description.rankings if entry.criterion == criterion), None)


def _nothing_to_cut_by(file: ModelFile, knob: float, criterion: str | None) -> str:
    rankings = ", ".join(entry.name for entry in file.description.rankings) or "none"
    points = ", ".join(f"{entry.name} ({entry.flops_fraction:.1%})" for entry in file.description.points) or "none"
    wanted = f"criterion '{criterion}'" if criterion else f"the knob at {knob}"
    remedy = "add a ranking with: rheostat prune"
    if not criterion and file.description.rankings:
        name = file.description.rankings[0].name
        remedy = f"none is the default: name the ranking {name}, or run rheostat pack --default-ranking {name}"
    return f"{file.path} has nothing for {wanted}: its rankings are {rankings}, its points {points}; {remedy}"
