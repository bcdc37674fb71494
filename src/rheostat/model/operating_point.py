"""Rankings and operating points: which filters a model keeps.

A ranking scores every filter. An operating point lists the kept ones, optionally with gates and an update. Knows
indices; knows nothing of files, text or how scores are computed. `widths` chooses how many filters to keep, `cut` makes
the small model, `origin` records how a ranking or a point was made.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rheostat.errors import OperatingPointError
from rheostat.model.flops import CostShare
from rheostat.model.origin import UNKNOWN_ORIGIN, Origin, digest_of
from rheostat.model.shape import ModelShape

if TYPE_CHECKING:
    from rheostat.model.reconstruction import Reconstruction

Floats: TypeAlias = NDArray[np.float32]
Indices: TypeAlias = NDArray[np.int32]
Positions: TypeAlias = NDArray[np.int64]  # of rows or columns of a stacked matrix

FULL = "full"  # the name of the 100 % point
RANDOM = "random"  # the criterion that scores by chance


@dataclass(frozen=True, eq=False)
class Ranking:
    """The scores of all layers under one criterion; a higher score is a better filter."""

    name: str
    criterion: str
    scores: tuple[Floats, ...]  # [m] for each layer
    seed: int | None = None
    comparable: bool = False  # scores of all layers are on one scale, so a point's widths follow from them
    origin: Origin = UNKNOWN_ORIGIN

    def __repr__(self) -> str:
        """One line: name, criterion and number of filters, without the scores."""
        return f"Ranking({self.name!r}, {self.criterion!r}, filters {_spaced(map(len, self.scores))})"

    def order(self, layer: int) -> Positions:
        """Filters of `layer`, best first; ties go to the lower index."""
        return np.argsort(-self.scores[layer], kind="stable")

    def check(self, shape: ModelShape) -> None:
        """Raise OperatingPointError unless there is one finite score for every filter of `shape`."""
        found = [np.shape(scores) for scores in self.scores]
        expected = [(size,) for size in shape.hidden_sizes]
        if found != expected:
            raise OperatingPointError(
                f"ranking '{self.name}' has scores of shapes {found}; this model has filters {expected}: "
                "rank this model, or use the one that was ranked"
            )
        for layer, scores in enumerate(self.scores):
            if not np.isfinite(scores).all():
                raise OperatingPointError(
                    f"ranking '{self.name}' has a score that is not finite in layer {layer}; "
                    "expected finite scores: rank again"
                )

    @property
    def is_in_order(self) -> bool:
        """Whether the filters of every layer stand in the order of this ranking."""
        return not any((scores[1:] > scores[:-1]).any() for scores in self.scores)

    def check_order(self) -> None:
        """Raise OperatingPointError unless the filters stand in the order of this ranking, as an ordered file says."""
        if not self.is_in_order:
            raise OperatingPointError(
                f"ranking '{self.name}' has a better filter after a worse one; expected the best first in an ordered "
                "file: order it again with rheostat pack --order"
            )


@dataclass(frozen=True, eq=False)
class Update:
    """u · v, added to the cut matrix of one layer after gates are folded into its columns."""

    u: Floats  # [3K, rank]
    v: Floats  # [rank, columns]


@dataclass(frozen=True, eq=False)
class OperatingPoint(CostShare):
    """Which filters are kept in each layer, optionally with a guess of the dropped ones, with gates and an update.

    gates and updates have one entry per layer, None for a layer without. flops_fraction: the cost of the point as a
    share of the whole model's. origin: for a point cut by a ranking, the ranking's.
    """

    name: str
    criterion: str
    keep: tuple[Indices, ...]  # [K] ascending, for each layer
    gates: tuple[Floats | None, ...] | None = None  # [K] in (0, 1]
    updates: tuple[Update | None, ...] | None = None
    flops_fraction: float = 1.0
    preferred: bool = False
    ranking: str | None = None  # the name of the ranking it was cut by; None for the whole model and stored points
    origin: Origin = UNKNOWN_ORIGIN
    biases: tuple[Floats | None, ...] | None = None  # [3K], added to the biases of each layer
    reconstruction: Reconstruction | None = None  # of the file; what is cut off is guessed with it
    bounds: tuple[int, ...] | None = None  # filters of each layer, then words, that are read in 8 bits; None: all
    cost_fraction: float | None = None  # of the whole model's cost, where bounds make it less than flops_fraction

    def __repr__(self) -> str:
        """One line: name, cost and widths, without the filters' indices."""
        facts = [repr(self.name), f"{100 * self.flops_fraction:.1f} % of the FLOPs", f"widths {_spaced(self.widths)}"]
        if self.bounds:
            facts += [f"8 bits up to {_spaced(self.bounds)}", f"{100 * self.cost:.1f} % of the cost"]
        if any(self.gate(layer) is not None for layer in range(len(self.keep))):
            facts.append("gates")
        if self.reconstruction is not None:
            facts.append("reconstructed")
        if self.update_rank:
            facts.append(f"rank-{self.update_rank} update")
        return f"OperatingPoint({', '.join(facts)})"

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(len(keep) for keep in self.keep)

    @property
    def update_bytes(self) -> int:
        """Size of the stored update in bytes."""
        matrices = sum(update.u.nbytes + update.v.nbytes for update in self.updates or () if update)
        return matrices + sum(bias.nbytes for bias in self.biases or () if bias is not None)

    @property
    def update_rank(self) -> int:
        """The largest rank among its layers' updates; 0 if it has none."""
        return max((update.u.shape[1] for update in self.updates or () if update), default=0)

    def gate(self, layer: int) -> Floats | None:
        """The gates of `layer`; None if it has none or all are one, which changes nothing."""
        gates = self.gates[layer] if self.gates else None
        return None if gates is None or (gates == 1).all() else gates

    def update(self, layer: int) -> Update | None:
        return self.updates[layer] if self.updates else None

    def bias(self, layer: int) -> Floats | None:
        return self.biases[layer] if self.biases else None

    @property
    def digest(self) -> str:
        """The digest of filters, gates and updates. It distinguishes points with the same name."""
        arrays: list[NDArray[Any]] = []
        for layer, keep in enumerate(self.keep):
            gate, update = self.gate(layer), self.update(layer)
            arrays += [keep, np.empty(0, np.float32) if gate is None else gate]
            arrays += [update.u, update.v] if update else []
            arrays += [] if (bias := self.bias(layer)) is None else [bias]
        arrays += [np.array(self.bounds, np.int32)] if self.bounds else []
        filters = digest_of(arrays)
        return filters if self.reconstruction is None else f"{filters}+{self.reconstruction.digest}"

    def is_full(self, shape: ModelShape) -> bool:
        """Whether this is the unpruned model: nothing left out or in fewer bits, no gates, no update."""
        parts = (self.gate, self.update, self.bias)
        is_changed = any(part(layer) is not None for layer in range(len(self.keep)) for part in parts)
        return self.widths == shape.hidden_sizes and not self.bounds and not is_changed

    def cut_shape(self, shape: ModelShape) -> ModelShape:
        """The shape of the model that `cut` makes of a model of `shape`."""
        return shape.cut_to(self.widths, gated=self.gate(len(self.keep) - 1) is not None)

    def check(self, shape: ModelShape) -> None:
        """Raise OperatingPointError unless this point fits a model of `shape`."""
        layers = len(shape.hidden_sizes)
        extras = {"gates": self.gates, "updates": self.updates, "biases": self.biases}
        for part, entries in {"keep": self.keep, **extras}.items():
            if entries is not None and len(entries) != layers:
                raise self._error(f"has {part} for {len(entries)} layers", f"{layers} layers")
        for layer, size in enumerate(shape.hidden_sizes):
            self._check_keep(layer, size)
        cut = shape.with_hidden_sizes(self.widths)
        for layer in range(layers):
            self._check_gates(layer)
            self._check_update(layer, cut)
            self._check_bias(layer, cut)
        if not (0 < self.flops_fraction <= 1 and 0 < self.cost <= 1):
            raise self._error(f"has flops_fraction {self.flops_fraction}, cost {self.cost}", "shares in (0, 1]")
        check_bounds(self.bounds, shape)

    def _check_keep(self, layer: int, size: int) -> None:
        keep = self.keep[layer]
        if keep.ndim != 1 or keep.dtype.kind not in "iu" or not 1 <= len(keep) <= size:
            raise self._error(f"keeps {keep.dtype} {list(keep.shape)} in layer {layer}", f"1 to {size} whole numbers")
        if keep[0] < 0 or keep[-1] >= size or (keep[1:] <= keep[:-1]).any():
            raise self._error(f"keeps filters out of order or range in layer {layer}", f"ascending, 0 to {size - 1}")

    def _check_gates(self, layer: int) -> None:
        gates = self.gates[layer] if self.gates else None
        if gates is None:
            return
        width = len(self.keep[layer])
        if gates.shape != (width,):
            raise self._error(f"has gates of shape {list(gates.shape)} in layer {layer}", f"[{width}]")
        if not ((gates > 0) & (gates <= 1)).all():
            raise self._error(f"has a gate outside (0, 1] in layer {layer}", "gates in (0, 1] for all kept filters")

    def _check_update(self, layer: int, cut: ModelShape) -> None:
        update = self.update(layer)
        if update is None:
            return
        require_filters(cut)
        rank = update.u.shape[-1] if update.u.ndim else 0
        rows, columns = cut.matrix_shape(layer)
        if rank < 1 or update.u.shape != (rows, rank) or update.v.shape != (rank, columns):
            raise self._error(
                f"has an update of shapes {list(update.u.shape)} and {list(update.v.shape)} in layer {layer}",
                f"[{rows}, rank] and [rank, {columns}]",
            )
        if not (np.isfinite(update.u).all() and np.isfinite(update.v).all()):
            raise self._error(f"has an update that is not finite in layer {layer}", "finite numbers")
        largest = rank * float(np.abs(update.u).max()) * float(np.abs(update.v).max())
        if largest > LARGEST_CHANGE:
            raise self._error(f"has an update of up to {largest:.1g} in layer {layer}", f"at most {LARGEST_CHANGE:.0g}")

    def _check_bias(self, layer: int, cut: ModelShape) -> None:
        bias = self.bias(layer)
        if bias is None:
            return
        rows = cut.matrix_shape(layer)[0]
        if bias.shape != (rows,) or not (np.abs(bias) <= LARGEST_CHANGE).all():  # false for NaN
            raise self._error(
                f"has {list(bias.shape)} biases in layer {layer}", f"[{rows}], each at most {LARGEST_CHANGE:.0g}"
            )

    def _error(self, found: str, expected: str) -> OperatingPointError:
        return OperatingPointError(f"point '{self.name}' {found}; expected {expected}: select or recover it again")


LARGEST_CHANGE = 1e30  # of a weight by an update: far above any, and no sum with a weight overflows float32
BOUND_STEP = 16  # bit bounds are multiples of it: the core reads 16 rows at once


def whole_bounds(shape: ModelShape) -> tuple[int, ...]:
    """The bounds of 8 bits everywhere: all filters of each layer, and all words."""
    return (*shape.hidden_sizes, shape.vocabulary_size)


def check_bounds(bounds: tuple[int, ...] | None, shape: ModelShape) -> None:
    """Raise OperatingPointError unless these bit bounds fit a model of `shape`."""
    if bounds is None:
        return
    sizes = whole_bounds(shape)
    fit = len(bounds) == len(sizes) and all(
        bound == size or (0 <= bound < size and bound % BOUND_STEP == 0)
        for bound, size in zip(bounds, sizes, strict=True)
    )
    if not fit:
        raise OperatingPointError(
            f"bit bounds {_spaced(bounds)}; expected, for each of {_spaced(sizes)}, this size or a smaller multiple of "
            f"{BOUND_STEP}"
        )


def full_point(shape: ModelShape) -> OperatingPoint:
    """The 100 % point: the unpruned model."""
    keep = tuple(np.arange(size, dtype=np.int32) for size in shape.hidden_sizes)
    return OperatingPoint(FULL, "", keep)


def _spaced(numbers: Iterable[int]) -> str:
    return " ".join(map(str, numbers))


def require_filters(shape: ModelShape) -> None:
    if shape.cell != "qrnn":
        raise OperatingPointError(
            f"this model has cell '{shape.cell}'; only 'qrnn' has filters to leave out: use it at 100 %"
        )
