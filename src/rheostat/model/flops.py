"""Counting FLOPs, the additions and multiplications of one query, and cost: FLOPs weighted by bits.

The only place that counts them, from the sizes of a model. Biases, pooling and activations, under 0.3 % of a full-size
model, are left out. Knows sizes; knows nothing of values, files or time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol


class Sizes(Protocol):
    """What counting needs; `ModelShape` provides it."""

    @property
    def vocabulary_size(self) -> int: ...
    @property
    def output_size(self) -> int: ...
    @property
    def hidden_sizes(self) -> tuple[int, ...]: ...
    @property
    def softmax_splits(self) -> tuple[int, ...]: ...
    @property
    def clusters(self) -> tuple[slice, ...]: ...
    def tensor_shapes(self) -> dict[str, tuple[int, ...]]: ...


class CostShare:
    """What has a cost: an operating point, or a measurement of one. A share of the whole model's."""

    flops_fraction: float
    cost_fraction: float | None  # None: the same as flops_fraction, because all weights have the same bits

    @property
    def cost(self) -> float:
        """The share of the whole model's cost, FLOPs weighted by bits: what the knob counts."""
        return self.flops_fraction if self.cost_fraction is None else self.cost_fraction

    @property
    def mean_bits(self) -> float:
        """Bits of a weight, averaged over the products of a query; 8 if all weights have the same bits."""
        return 8 * self.cost / self.flops_fraction


def flops_by_part(shape: Sizes) -> dict[str, int]:
    """FLOPs of one query, 2 · rows · columns for every matrix product, under `layers.{l}` and `output`.

    This is the static count: every cluster of an adaptive softmax counts as opened.
    """
    products: dict[str, int] = {}
    for name, size in shape.tensor_shapes().items():
        if name.startswith("layers.") and len(size) == 2:
            part = name.rpartition(".")[0]
            products[part] = products.get(part, 0) + math.prod(size)
    products["output"] = (shape.vocabulary_size + len(shape.softmax_splits)) * shape.output_size
    return {part: 2 * multiplications for part, multiplications in products.items()}


def cost_by_part(shape: Sizes, bounds: Sequence[int] | None = None) -> dict[str, float]:
    """FLOPs of one query weighted by bits / 8, by part: a product with an 8-bit weight counts once, with 4 bits half.

    bounds: how many filters of each layer, and how many words, are read in 8 bits; None for all (and for floats). The
    rows of tail clusters always are.
    """
    costs: dict[str, float] = dict(flops_by_part(shape))
    sizes = (*shape.hidden_sizes, shape.vocabulary_size)
    for part, size, bound in zip(list(costs), sizes, bounds or sizes, strict=True):
        rows = size + (len(shape.softmax_splits) if part == "output" else 0)
        costs[part] *= 1 - 0.5 * (size - min(bound, size)) / rows
    return costs


def executed_flops(shape: Sizes, opened: Sequence[int]) -> int:
    """FLOPs of a query whose lazy output layer opened only the tail clusters that are 1 in `opened`."""
    tails = zip(shape.clusters[1:], opened, strict=True)
    skipped: int = sum(words.stop - words.start for words, was_opened in tails if not was_opened)
    return sum(flops_by_part(shape).values()) - 2 * skipped * shape.output_size
