"""The path of an ordered file: the positions of its knob, from the whole model down, each nested in the one before.

Python computes a path once, and the core looks positions up in it. Knows widths, bit bounds and their cost; `widths`
says which filters a share keeps, `ordered` puts them in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rheostat.errors import OperatingPointError
from rheostat.model.container import problem
from rheostat.model.names import PATH_BOUNDS, PATH_COST, PATH_WIDTHS
from rheostat.model.operating_point import OperatingPoint, Ranking, check_bounds, whole_bounds
from rheostat.model.shape import ModelShape
from rheostat.model.widths import best_of, check_knob, select

STEPS = 100  # per 100 %: whole percents are then positions, as they are for `choose`
SMALLEST = 0.1  # share of the cost where a path ends if nothing is known about its ranking
GRADED = "graded"  # the criterion of a ranking that the weights were trained along
_TOLERANCE = 1e-4  # between the cost that a path states and what its widths cost

ADVICE = "write the path again: rheostat pack --order"


class PathPosition(NamedTuple):
    """One position of the knob."""

    cost: float  # share of the whole model's, as a float32
    widths: tuple[int, ...]  # filters of each layer
    bounds: tuple[int, ...] | None = None  # filters of each layer, and words, that are read in 8 bits; None: all


KnobPath: TypeAlias = tuple[PathPosition, ...]


def position_of(point: OperatingPoint) -> PathPosition:
    return PathPosition(float(np.float32(point.cost)), point.widths, point.bounds)


def point_at(position: PathPosition, ranking: Ranking, shape: ModelShape) -> OperatingPoint:
    """The operating point of a position of the path of this ranking."""
    point = best_of(ranking, shape, position.widths)
    cost = shape.cost_fraction(position.widths, position.bounds)
    return replace(point, name=f"{ranking.name}-{cost:.4g}", bounds=position.bounds, cost_fraction=cost)


def has_bounds(path: KnobPath) -> bool:
    """Whether a path turns bits too, not only widths."""
    return any(position.bounds is not None for position in path)


def without_bounds(path: KnobPath, shape: ModelShape) -> KnobPath:
    """The widths of a path, each once, with what they cost in equal bits everywhere."""
    found: list[PathPosition] = []
    for position in path:
        cost = float(np.float32(shape.flops_fraction(position.widths)))
        if not found or cost < found[-1].cost:
            found.append(PathPosition(cost, position.widths))
    return tuple(found)


def path_along(ranking: Ranking, shape: ModelShape, smallest: float = SMALLEST) -> KnobPath:
    """A position for each percent of the cost, down to `smallest` or to the smallest that the model can serve.

    They are those that `select` gives, so a whole percent means the same filters to Python and to the core.
    """
    check_knob(smallest)
    whole_percents = [step / STEPS for step in range(STEPS, 0, -1) if step / STEPS > smallest]
    found: list[PathPosition] = []
    for share in (*whole_percents, smallest):
        try:
            position = position_of(select(ranking, shape, share))
        except OperatingPointError:
            break
        if not found or position.cost < found[-1].cost:
            found.append(position)
    return tuple(found)


def known_down_to(criterion: str, recipe: Mapping[str, Any], provenance: Mapping[str, Any]) -> float | None:
    """The smallest share of the FLOPs that a ranking is known to be good for; None if nothing is recorded.

    This is where graded training ended, or else the smallest share that was measured. Both are written by others, so
    anything that is not a share counts as not recorded. A share of the cost that was trained in 4 bits is twice that
    share of the FLOPs.
    """
    training, graded_by, curve = recipe.get("train"), recipe.get("graded"), provenance.get("curve")
    graded = training.get("graded") if isinstance(training, Mapping) and criterion == GRADED else None
    if isinstance(graded_by, Mapping) and graded_by.get("bits") is True and type(graded) is float:
        graded = 2 * graded
    points = curve if isinstance(curve, list) else []
    measured = [point.get("flops_fraction") for point in points if isinstance(point, Mapping)]
    return min(_shares([graded]) or _shares(measured), default=None)


def known_cost_down_to(criterion: str, recipe: Mapping[str, Any], provenance: Mapping[str, Any]) -> float | None:
    """The smallest share of the cost that a path of widths and bits is known to be good for; None if not recorded.

    This is the smallest cost that was measured on it, or where graded training ended if that is less.
    """
    training, curve = recipe.get("train"), provenance.get("curve")
    graded = training.get("graded") if isinstance(training, Mapping) and criterion == GRADED else None
    points = [point for point in curve if isinstance(point, Mapping)] if isinstance(curve, list) else []
    measured = [point.get("cost_fraction") or point.get("flops_fraction") for point in points]
    return min(_shares([graded, *measured]), default=None)


def _shares(values: Iterable[Any]) -> list[float]:
    return [value for value in values if type(value) in (int, float) and 0 < value <= 1]


def check_path(path: KnobPath, shape: ModelShape) -> None:
    """Raise ModelFileError unless this is the path of a model of `shape`."""
    if not path or path[0].widths != shape.hidden_sizes or path[0].cost != 1:
        first = list(path[0].widths) if path else "no position"
        raise problem(f"a path that begins with {first}", f"the whole model, {list(shape.hidden_sizes)}", ADVICE)
    for position in path:
        _check_position(position, shape)
    for larger, smaller in pairwise(path):
        if not smaller.cost < larger.cost:
            raise problem(f"a cost of {smaller.cost} after {larger.cost} in the path", "descending costs", ADVICE)
        if any(inner > outer for inner, outer in zip(smaller.widths, larger.widths, strict=True)):
            raise problem(f"widths {list(smaller.widths)} after {list(larger.widths)} in the path", "no larger", ADVICE)
        pairs = zip(_bounds(smaller, shape), _bounds(larger, shape), strict=True)
        if any(inner > outer for inner, outer in pairs):
            raise problem(f"bit bounds {smaller.bounds} after {larger.bounds} in the path", "no larger", ADVICE)


def _check_position(position: PathPosition, shape: ModelShape) -> None:
    cost, widths, bounds = position
    in_range = [1 <= width <= size for width, size in zip(widths, shape.hidden_sizes, strict=True)]
    if not all(in_range):
        raise problem(f"widths {list(widths)} in the path", f"1 to {list(shape.hidden_sizes)}", ADVICE)
    try:
        check_bounds(bounds, shape)
    except OperatingPointError as error:
        raise problem(f"{error} in the path", "bounds that fit the model", ADVICE) from None
    expected = shape.cost_fraction(widths, bounds)
    if not (0 < cost <= 1 and abs(cost - expected) <= _TOLERANCE):
        raise problem(f"a cost of {cost} in the path", f"{expected:.6f}, which its widths cost", ADVICE)


def _bounds(position: PathPosition, shape: ModelShape) -> tuple[int, ...]:
    return whole_bounds(shape) if position.bounds is None else position.bounds


def path_tensors(path: KnobPath, shape: ModelShape) -> dict[str, NDArray[Any]]:
    """The tensors that hold a path; none for an empty one, and no bounds if all positions have 8 bits everywhere."""
    if not path:
        return {}
    bounds = {PATH_BOUNDS: np.array([_bounds(position, shape) for position in path], np.int32)}
    return (bounds if has_bounds(path) else {}) | {
        PATH_COST: np.array([position.cost for position in path], np.float32),
        PATH_WIDTHS: np.array([position.widths for position in path], np.int32),
    }


def path_of_tensors(
    cost: NDArray[Any], widths: NDArray[Any], bounds: NDArray[Any] | None, shape: ModelShape
) -> KnobPath:
    whole = whole_bounds(shape)
    rows = [whole] * len(cost) if bounds is None else [tuple(row) for row in bounds.tolist()]
    return tuple(
        PathPosition(share, tuple(row), None if row_bounds == whole else row_bounds)
        for share, row, row_bounds in zip(cost.tolist(), widths.tolist(), rows, strict=True)
    )
