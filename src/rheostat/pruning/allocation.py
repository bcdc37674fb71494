"""Widths chosen layer by layer on validation text, instead of one keep fraction for all layers.

A greedy search: starting from the full model, narrow each layer in turn by a share of its filters, measure the loss on
a stretch of text, keep the narrowing that loses least per FLOP saved, and repeat. The last narrowing is trimmed to meet
the target without exceeding it. Knows widths and measured losses; a ranking says which filters are cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from rheostat.errors import OperatingPointError
from rheostat.model.operating_point import OperatingPoint, Ranking
from rheostat.model.origin import UNKNOWN_ORIGIN, Origin
from rheostat.model.shape import ModelShape
from rheostat.model.widths import best_of, select

Widths = tuple[int, ...]
Loss = Callable[[OperatingPoint], float]


def searched_name(ranking: str, target: float) -> str:
    """The name of the point of a ranking whose widths were searched for."""
    return f"{ranking}-searched-{target:g}"


def search_allocation(
    ranking: Ranking,
    shape: ModelShape,
    targets: Sequence[float],
    loss: Loss,
    budget: int = 60,
    progress: Callable[[float], None] | None = None,
    origin: Origin = UNKNOWN_ORIGIN,
    tokens: int | None = None,
) -> list[OperatingPoint]:
    """A point for each target share of the FLOPs, largest first, found with about `budget` measurements of loss.

    Never worse on the measured text than the uniform allocation, which is measured too and kept if it is better.
    origin: of the points; it links to the ranking's. tokens: how many one measurement reads, for the record.
    """
    measured: list[float] = []

    def measure(point: OperatingPoint) -> float:
        measured.append(loss(point))
        return measured[-1]

    ordered = sorted(set(targets), reverse=True)
    select(ranking, shape, ordered[-1])  # raises if the target cannot be met
    search = _Search(ranking, shape, measure, budget - len(ordered), ordered[-1])
    points = []
    for target in ordered:
        searched = search.down_to(target, progress or (lambda share: None))
        uniform = select(ranking, shape, target)
        best = min((searched, uniform), key=measure)
        points.append(replace(best, name=searched_name(ranking.name, target), origin=origin.after(ranking.origin)))
    read = None if tokens is None else tokens * len(measured)
    return [replace(point, origin=replace(point.origin, tokens_read=read)) for point in points]


class _Search:
    def __init__(self, ranking: Ranking, shape: ModelShape, loss: Loss, budget: int, lowest: float) -> None:
        layers = len(shape.hidden_sizes)
        if budget < layers:
            raise OperatingPointError(
                f"a budget of {budget} measurements is too small; expected at least {layers} more"
            )
        self.ranking, self.shape, self._loss = ranking, shape, loss
        self.widths: Widths = shape.hidden_sizes
        # As many rounds as the budget allows, each saving about the same.
        self._saving = (1 - lowest) * shape.flops / (budget / layers)
        self._lowest = lowest
        self._known: dict[Widths, float] = {}

    def down_to(self, target: float, progress: Callable[[float], None]) -> OperatingPoint:
        while self._share(self.widths) > target:
            choices = [widths for layer in range(len(self.widths)) if (widths := self._narrowed(layer, target))]
            if not choices:
                raise OperatingPointError(f"no layer can be narrowed enough to reach {target}")
            now = self._measure(self.widths)
            self.widths = min(choices, key=lambda widths: self._price(widths, now))
            progress(min((1 - self._share(self.widths)) / (1 - self._lowest), 1.0))
        return best_of(self.ranking, self.shape, self.widths)

    def _price(self, widths: Widths, loss_now: float) -> float:
        """Loss per FLOP saved."""
        saved = self._share(self.widths) - self._share(widths)
        return (self._measure(widths) - loss_now) / saved

    def _narrowed(self, layer: int, target: float) -> Widths | None:
        """Widths with this layer narrowed by one round's saving, but not below the target."""
        width, before = self.widths[layer], self._flops(self.widths)
        one_less = before - self._flops(self._with(layer, width - 1)) if width > 1 else 0
        if not one_less:
            return None
        # the cost is linear in the width of one layer
        enough = int(np.ceil((before - target * self.shape.flops) / one_less))
        step = max(1, min(round(self._saving / one_less), enough, width - 1))
        return self._with(layer, width - step)

    def _with(self, layer: int, width: int) -> Widths:
        return (*self.widths[:layer], width, *self.widths[layer + 1 :])

    def _flops(self, widths: Widths) -> int:
        return self.shape.with_hidden_sizes(widths).flops

    def _share(self, widths: Widths) -> float:
        return self.shape.flops_fraction(widths)

    def _measure(self, widths: Widths) -> float:
        if widths not in self._known:
            self._known[widths] = self._loss(best_of(self.ranking, self.shape, widths))
        return self._known[widths]
