"""How many filters each layer keeps for a share of the FLOPs, and the operating point that a ranking gives.

Knows widths and scores; `ModelShape` counts FLOPs. `pruning.allocation` searches for widths on validation text.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import cast

import numpy as np

from rheostat.errors import OperatingPointError
from rheostat.model.operating_point import Floats, Indices, OperatingPoint, Ranking, require_filters
from rheostat.model.shape import ModelShape

_SHARE = "a share of the cost in (0, 1], such as 0.8 for 80 %"


def select(ranking: Ranking, shape: ModelShape, flops_fraction: float) -> OperatingPoint:
    """The largest point of `ranking` that costs no more than `flops_fraction`; points of one ranking nest.

    If scores are comparable, the best filters of all layers together are kept (see `affordable`). Otherwise all layers
    have the same keep fraction p: layer l gets the width max(1, floor(p · m_l)). The exact largest p in [0, 1] within
    the target is used: the next p that changes any width adds at most one filter to each layer, and exceeds the target.
    """
    require_filters(shape)
    ranking.check(shape)
    check_knob(flops_fraction)
    if ranking.comparable:
        widths = tuple(map(len, affordable(ranking.scores, shape, flops_fraction)))
    else:
        widths = _uniform_widths(shape, flops_fraction)
    return replace(best_of(ranking, shape, widths), name=f"{ranking.name}-{flops_fraction:g}")


def affordable(scores: Sequence[Floats], shape: ModelShape, flops_fraction: float) -> list[Indices]:
    """The most filters, best score first over all layers, that cost no more than `flops_fraction`; by bisection.

    The best filter of each layer is always kept. Ties go to the lower layer, then to the lower index.
    """
    order = np.argsort(-np.concatenate(scores), kind="stable")
    layer_of = np.repeat(np.arange(len(scores)), [len(layer) for layer in scores])
    first = np.cumsum([0, *(len(layer) for layer in scores)])

    def keep(count: int) -> list[Indices]:
        best = order[:count]
        chosen = [np.sort(best[layer_of[best] == index] - first[index]) for index in range(len(scores))]
        strongest = [np.array([layer.argmax()]) for layer in scores]
        return [(c if len(c) else s).astype(np.int32) for c, s in zip(chosen, strongest, strict=True)]

    def share(count: int) -> float:
        return shape.flops_fraction(widths(count))

    def widths(count: int) -> list[int]:
        return [len(kept) for kept in keep(count)]

    counts = range(len(order) + 1)
    within = bisect_right(counts, flops_fraction, key=share)
    if not within:
        raise below_smallest(flops_fraction, share(0), widths(0))
    return keep(counts[within - 1])


def best_of(ranking: Ranking, shape: ModelShape, widths: Sequence[int]) -> OperatingPoint:
    """The point that keeps the best `widths` filters of each layer."""
    keep = tuple(np.sort(ranking.order(layer)[:width]).astype(np.int32) for layer, width in enumerate(widths))
    return OperatingPoint(
        ranking.name,
        ranking.criterion,
        keep,
        flops_fraction=shape.flops_fraction(widths),
        ranking=ranking.name,
        origin=ranking.origin,
    )


def _uniform_widths(shape: ModelShape, target: float) -> tuple[int, ...]:
    """Widths of the largest keep fraction that costs no more than `target`, by bisection over all steps.

    Shares are compared as floats, so that 6/10 fits a target of 0.6, and a point fits its own share.
    """
    sizes = shape.hidden_sizes
    whole = math.lcm(*sizes)  # keep fractions are counted in units of 1 / whole, so that all are whole numbers
    steps = sorted({0} | {kept * (whole // size) for size in sizes for kept in range(1, size + 1)})

    def widths(step: int) -> tuple[int, ...]:
        return tuple(max(1, step * size // whole) for size in sizes)

    def share(step: int) -> float:
        return shape.flops_fraction(widths(step))

    within = bisect_right(steps, target, key=share)
    if not within:
        raise below_smallest(target, share(0), widths(0))
    return widths(steps[within - 1])


def check_knob(knob: object) -> None:
    """Raise OperatingPointError unless this is a share of the cost. Everything that takes a knob asks here."""
    if isinstance(knob, bool) or not isinstance(knob, Real) or knob != knob:
        found = " ".join(f"{knob!r:.40}".split())
        raise OperatingPointError(f"the knob is {found} ({type(knob).__name__}); expected {_SHARE}")
    if not 0 < cast(float, knob) <= 1:
        raise OperatingPointError(f"the knob is set to {knob!s:.40}; expected {_SHARE}")


def below_smallest(target: float, smallest: float, widths: Sequence[int]) -> OperatingPointError:
    rounded = math.ceil(smallest * 1e6) / 1e6
    error = OperatingPointError(
        f"the knob is set to {target}; the smallest position of this model is "
        f"{rounded} (filters {list(widths)}): use that or more"
    )
    error.smallest = rounded
    return error
