"""Rankings, operating points, and the only code that cuts a model.

A ranking scores every filter; `select` turns it into an operating point for a share of the FLOPs; `cut` makes
the small dense model of a point. Knows indices; knows nothing of how scores come about, of files or of text.
Costs are asked of `ModelShape`. `cut` and `reorder` take NumPy and torch arrays alike: they only index,
multiply and add.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from rheostat.errors import OperatingPointError
from rheostat.model.shape import QRNN_GATES, ModelShape

Floats: TypeAlias = NDArray[np.float32]
Indices: TypeAlias = NDArray[np.int32]
Positions: TypeAlias = NDArray[np.int64]  # of rows or columns of a stacked matrix
Array = TypeVar("Array")  # NumPy's or torch's

FULL = "full"  # the name of the 100 % point


@dataclass(frozen=True, eq=False)
class Ranking:
    """The scores of all layers under one criterion; a higher score is a better filter."""

    name: str
    criterion: str
    scores: tuple[Floats, ...]  # [m] for each layer
    seed: int | None = None
    comparable: bool = False  # scores of all layers are on one scale: a point's widths follow from them

    def order(self, layer: int) -> Positions:
        """Filters of `layer`, best first; of equal scores the lower index comes first."""
        return np.argsort(-self.scores[layer], kind="stable")

    def check(self, shape: ModelShape) -> None:
        """Raise OperatingPointError unless there is one finite score for every filter of `shape`."""
        found = [np.shape(scores) for scores in self.scores]
        expected = [(size,) for size in shape.hidden_sizes]
        if found != expected:
            raise OperatingPointError(
                f"ranking '{self.name}' has scores of shapes {found}; this model has filters {expected}: "
                "rank this model, or use the model that was ranked"
            )
        for layer, scores in enumerate(self.scores):
            if not np.isfinite(scores).all():
                raise OperatingPointError(
                    f"ranking '{self.name}' has a score that is not finite in layer {layer}; "
                    "expected finite scores: rank again"
                )


@dataclass(frozen=True, eq=False)
class Update:
    """u · v, added to the cut matrix of one layer after gates were folded into its columns."""

    u: Floats  # [3K, rank]
    v: Floats  # [rank, columns]


@dataclass(frozen=True, eq=False)
class OperatingPoint:
    """Which filters are kept in each layer, with the gates and the update that it may have.

    gates and updates have one entry for each layer, None for a layer that has none. flops_fraction is what
    the point costs, as a share of the whole model.
    """

    name: str
    criterion: str
    keep: tuple[Indices, ...]  # [K] ascending, for each layer
    gates: tuple[Floats | None, ...] | None = None  # [K] in (0, 1]
    updates: tuple[Update | None, ...] | None = None
    flops_fraction: float = 1.0
    preferred: bool = False

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(len(keep) for keep in self.keep)

    @property
    def update_bytes(self) -> int:
        """Bytes that the stored update takes."""
        return sum(update.u.nbytes + update.v.nbytes for update in self.updates or () if update)

    @property
    def update_rank(self) -> int:
        """The largest rank among its layers' updates; 0 without one."""
        return max((update.u.shape[1] for update in self.updates or () if update), default=0)

    def gate(self, layer: int) -> Floats | None:
        """Gates of `layer` that change anything: none if all of them are one."""
        gates = self.gates[layer] if self.gates else None
        return None if gates is None or (gates == 1).all() else gates

    def update(self, layer: int) -> Update | None:
        return self.updates[layer] if self.updates else None

    @property
    def digest(self) -> str:
        """Tells points apart that have one name: of the filters, gates and updates, not of the name."""
        from hashlib import blake2b  # here, since a suggestion has no need of it

        hash = blake2b(digest_size=8)
        for layer, keep in enumerate(self.keep):
            update = self.update(layer)
            parts = [keep, self.gate(layer), *((update.u, update.v) if update else ())]
            for part in parts:
                values = np.empty(0, np.float32) if part is None else np.ascontiguousarray(part)
                hash.update(f"{values.dtype.str} {values.shape} ".encode() + values.tobytes())
        return hash.hexdigest()

    def is_full(self, shape: ModelShape) -> bool:
        """Whether this is the unpruned model: nothing left out, no gates, no update."""
        return self.widths == shape.hidden_sizes and not any(
            self.gate(layer) is not None or self.update(layer) is not None for layer in range(len(self.keep))
        )

    def cut_shape(self, shape: ModelShape) -> ModelShape:
        """The shape of the model that `cut` makes of a model of `shape`."""
        cut = shape.with_hidden_sizes(self.widths)
        differs = shape.is_cut or self.gate(len(self.keep) - 1) is not None
        return replace(cut, separate_output=True) if differs and not cut.is_cut else cut

    def check(self, shape: ModelShape) -> None:
        """Raise OperatingPointError unless this is a point of a model of `shape`."""
        layers = len(shape.hidden_sizes)
        for part, entries in (("keep", self.keep), ("gates", self.gates), ("updates", self.updates)):
            if entries is not None and len(entries) != layers:
                raise self._error(f"has {part} for {len(entries)} layers", f"{layers} layers")
        for layer, size in enumerate(shape.hidden_sizes):
            self._check_keep(layer, size)
        cut = shape.with_hidden_sizes(self.widths)
        for layer in range(layers):
            self._check_gates(layer)
            self._check_update(layer, cut)
        if not 0 < self.flops_fraction <= 1:
            raise self._error(f"has flops_fraction {self.flops_fraction}", "a share in (0, 1]")

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
            raise self._error(f"has a gate outside (0, 1] in layer {layer}", "kept filters to have gates in (0, 1]")

    def _check_update(self, layer: int, cut: ModelShape) -> None:
        update = self.update(layer)
        if update is None:
            return
        _require_qrnn(cut)
        rank = update.u.shape[-1] if update.u.ndim else 0
        rows, columns = cut.matrix_shape(layer)
        if rank < 1 or update.u.shape != (rows, rank) or update.v.shape != (rank, columns):
            raise self._error(
                f"has an update of shapes {list(update.u.shape)} and {list(update.v.shape)} in layer {layer}",
                f"[{rows}, rank] and [rank, {columns}]",
            )
        if not (np.isfinite(update.u).all() and np.isfinite(update.v).all()):
            raise self._error(f"has an update that is not finite in layer {layer}", "finite numbers")

    def _error(self, found: str, expected: str) -> OperatingPointError:
        return OperatingPointError(f"point '{self.name}' {found}; expected {expected}: select or recover it again")


def full_point(shape: ModelShape) -> OperatingPoint:
    """The 100 % point: the unpruned model."""
    keep = tuple(np.arange(size, dtype=np.int32) for size in shape.hidden_sizes)
    return OperatingPoint(FULL, "", keep)


def select(ranking: Ranking, shape: ModelShape, flops_fraction: float, *, align: int = 1) -> OperatingPoint:
    """The largest point of `ranking` that costs no more than asked; points of one ranking nest.

    If its scores are comparable, the best filters of all layers together are kept (see `affordable`). Otherwise one
    keep fraction p holds for all layers: layer l gets the width max(1, floor(p · m_l)). Of all p in [0, 1] the largest
    that does not exceed the target is taken, exactly: the next larger p that changes anything adds one filter to at
    least one layer, and to none more than one, and exceeds it. With `align`, widths are multiples of it, or the whole
    layer, and the next step is one multiple.
    """
    _require_qrnn(shape)
    ranking.check(shape)
    _check_target(flops_fraction)
    if align < 1:
        raise OperatingPointError(f"widths cannot be multiples of {align}; expected 1 or more: leave align out")
    if ranking.comparable:
        widths = tuple(map(len, affordable(ranking.scores, shape, flops_fraction, align=align)))
        widths = tuple(_aligned(width, size, align) for width, size in zip(widths, shape.hidden_sizes, strict=True))
    else:
        widths = _uniform_widths(shape, flops_fraction, align)
    return replace(best_of(ranking, shape, widths), name=f"{ranking.name}-{flops_fraction:g}")


def affordable(scores: Sequence[Floats], shape: ModelShape, flops_fraction: float, *, align: int = 1) -> list[Indices]:
    """The most filters, best score first over all layers, that cost no more than asked; found by bisection.

    The best filter of each layer is always kept. Of equal scores the lower layer comes first, then the lower index.
    align: they have to be affordable when widths are made multiples of it, which is left to the caller.
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
        return [_aligned(len(kept), len(layer), align) for kept, layer in zip(keep(count), scores, strict=True)]

    counts = range(len(order) + 1)
    within = bisect_right(counts, flops_fraction, key=share)
    if not within:
        raise _below_smallest(flops_fraction, share(0), widths(0))
    return keep(counts[within - 1])


def best_of(ranking: Ranking, shape: ModelShape, widths: Sequence[int]) -> OperatingPoint:
    """The point that keeps the best `widths` filters of each layer."""
    keep = tuple(np.sort(ranking.order(layer)[:width]).astype(np.int32) for layer, width in enumerate(widths))
    return OperatingPoint(ranking.name, ranking.criterion, keep, flops_fraction=shape.flops_fraction(widths))


def cut(weights: Mapping[str, Array], shape: ModelShape, point: OperatingPoint) -> tuple[dict[str, Array], ModelShape]:
    """The small dense model of `point`: its weights by the names of its shape, and that shape.

    In this order: rows and columns are selected; gates are folded into the columns that read the gated
    filters (the next layer's, or the output layer's); u · v is added. The 100 % point gives the very same
    arrays. Each matrix may be int8 with its row scales under `{name}.scale`: selected as they are, and made
    float only where something is folded or added.
    """
    point.check(shape)
    _check_weights(weights, shape)
    if point.is_full(shape):
        return dict(weights), shape
    _require_qrnn(shape)
    cut_shape = point.cut_shape(shape)
    keep = [None if len(kept) == size else kept for kept, size in zip(point.keep, shape.hidden_sizes, strict=True)]
    small = _select_filters(weights, shape, [None, *keep])
    for layer in range(len(keep)):
        _fold(small, f"layers.{layer}.weight", point.gate(layer - 1) if layer else None, shape.windows[layer])
        _merge(small, f"layers.{layer}.weight", point.update(layer))
    last_gate = point.gate(len(keep) - 1)
    _fold(small, "output.weight", last_gate)
    if shape.softmax_splits:
        _fold(small, "clusters.weight", last_gate)
    if not cut_shape.is_cut:
        small.pop("output.weight")  # the embedding itself
        small.pop("output.weight.scale", None)
    return cast(dict[str, Array], small), cut_shape


def reorder(weights: Mapping[str, Array], shape: ModelShape, ranking: Ranking) -> dict[str, Array]:
    """The same network with the filters of every layer in the order of `ranking`, best first.

    The last layer is read by the output layer, which is the embedding, which feeds the first layer: so its
    order becomes the order of the embedding's columns and of the first layer's. Scores and points of the old
    order do not fit the result.
    """
    _require_qrnn(shape)
    ranking.check(shape)
    _check_weights(weights, shape)
    order = [ranking.order(layer) for layer in range(len(shape.hidden_sizes))]
    result = _select_filters(weights, shape, [None if shape.is_cut else order[-1], *order])
    if not shape.is_cut:
        result["embedding.weight"] = result.pop("output.weight")
        result.pop("output.weight.scale", None)  # the embedding's own
    return cast(dict[str, Array], result)


def _require_qrnn(shape: ModelShape) -> None:
    if shape.cell != "qrnn":
        raise OperatingPointError(
            f"this model has cell '{shape.cell}'; only 'qrnn' has filters to leave out: use it at 100 %"
        )


def _uniform_widths(shape: ModelShape, target: float, align: int) -> tuple[int, ...]:
    """Widths of the largest keep fraction that costs no more than `target`, by bisection over all steps.

    Shares are compared as the nearest floats, so that 0.6 is met by 6/10 and a point by its own share.
    """
    sizes = shape.hidden_sizes
    whole = math.lcm(*sizes)  # keep fractions are counted in 1 / whole, so that all are whole numbers
    steps = sorted({0} | {kept * (whole // size) for size in sizes for kept in _widths_of(size, align)})

    def widths(step: int) -> tuple[int, ...]:
        return tuple(_aligned(step * size // whole, size, align) for size in sizes)

    def share(step: int) -> float:
        return shape.flops_fraction(widths(step))

    within = bisect_right(steps, target, key=share)
    if not within:
        raise _below_smallest(target, share(0), widths(0))
    return widths(steps[within - 1])


def _check_target(target: float) -> None:
    if not 0 < target <= 1:
        raise OperatingPointError(
            f"a knob at {target} was asked for; expected a share of the FLOPs in (0, 1]: 80 % is 0.8"
        )


def _below_smallest(target: float, smallest: float, widths: Sequence[int]) -> OperatingPointError:
    return OperatingPointError(
        f"a knob at {target} was asked for; the smallest that this model can serve is "
        f"{math.ceil(smallest * 1e6) / 1e6} (filters {list(widths)}): ask for that or more"
    )


def _widths_of(size: int, align: int) -> Sequence[int]:
    return [*range(align, size, align), size]


def _aligned(width: int, size: int, align: int) -> int:
    """The widest of `_widths_of` that is not above `width`, or the narrowest there is."""
    return size if width >= size else min(size, max(align, width // align * align))


def _check_weights(weights: Mapping[str, Any], shape: ModelShape) -> None:
    for name, size in shape.tensor_shapes().items():
        found = tuple(weights[name].shape) if name in weights else "nothing"
        if found != size:
            raise OperatingPointError(
                f"the weights have {found} for {name}; expected {size}: give the weights of this shape"
            )


def _select_filters(
    weights: Mapping[str, Any], shape: ModelShape, filters: Sequence[NDArray[Any] | None]
) -> dict[str, Any]:
    """All tensors with only these filters, in this order; the output layer always as a matrix of its own.

    filters: columns of the embedding, then filters of each layer; None for all of them as they are.
    """
    selected = dict(weights)
    for layer, (inputs, outputs) in enumerate(pairwise(filters)):
        name = f"layers.{layer}"
        rows = _Places(outputs, shape.hidden_sizes[layer], QRNN_GATES)
        columns = _Places(inputs, shape.input_size(layer), shape.windows[layer])
        selected[f"{name}.weight"] = _take(weights[f"{name}.weight"], rows, columns)
        selected[f"{name}.bias"] = _take(weights[f"{name}.bias"], rows)
        if (scale := f"{name}.weight.scale") in weights:
            selected[scale] = _take(weights[scale], rows)
    output = "output.weight" if shape.is_cut else "embedding.weight"
    columns = _Places(filters[-1], shape.output_size)
    selected["output.weight"] = _take(weights[output], _Places(None, shape.vocabulary_size), columns)
    if (scale := f"{output}.scale") in weights:
        selected["output.weight.scale"] = weights[scale]
    if shape.softmax_splits:
        tails = _Places(None, len(shape.softmax_splits))
        selected["clusters.weight"] = _take(weights["clusters.weight"], tails, columns)
    return selected


@dataclass(frozen=True, eq=False)
class _Places:
    """Where filters are among rows or columns: in each of `blocks` blocks of `size` (z, f, o; steps of a window)."""

    filters: NDArray[Any] | None  # None: all, as they are
    size: int
    blocks: int = 1

    def positions(self) -> Positions:
        filters = np.arange(self.size) if self.filters is None else self.filters
        places: Positions = (np.arange(self.blocks)[:, None] * self.size + filters.astype(np.int64)).reshape(-1)
        return places

    def prefix(self) -> int | None:
        """How many filters, if they are the first ones in their order."""
        if self.filters is None:
            return self.size
        first = len(self.filters) and self.filters[0] == 0 and (np.diff(self.filters) == 1).all()
        return len(self.filters) if first else None


def _take(array: Any, rows: _Places, columns: _Places | None = None) -> Any:
    if rows.filters is None and (columns is None or columns.filters is None):
        return array
    columns = columns or _Places(None, 1)
    tall, wide = rows.prefix(), columns.prefix()
    matrix = array.reshape(array.shape[0], -1)
    if tall is None or wide is None:
        small = _index(_index(matrix, rows.positions(), 0), columns.positions(), 1)
    else:  # slices: a copy of lines instead of a walk over entries, and torch's gradient of it as well
        blocks = matrix.reshape(rows.blocks, rows.size, columns.blocks, columns.size)[:, :tall, :, :wide]
        small = blocks.reshape(rows.blocks * tall, columns.blocks * wide)
    small = small if array.ndim > 1 else small.reshape(-1)
    return small.contiguous() if hasattr(small, "contiguous") else np.ascontiguousarray(small)


def _index(matrix: Any, positions: Positions, axis: int) -> Any:
    """Rows or columns of a matrix. One after the other is quicker than an index for both: lines stay lines."""
    if isinstance(matrix, np.ndarray):
        return matrix.take(positions, axis)
    return matrix[positions] if axis == 0 else matrix[:, positions]


def _fold(weights: dict[str, Any], name: str, gates: Floats | None, window: int = 1) -> None:
    if gates is not None:
        matrix = _floats(weights, name)
        weights[name] = matrix * _like(np.tile(gates, window), matrix)


def _merge(weights: dict[str, Any], name: str, update: Update | None) -> None:
    if update is not None:
        matrix = _floats(weights, name)
        weights[name] = matrix + _like(update.u, matrix) @ _like(update.v, matrix)


def _floats(weights: dict[str, Any], name: str) -> Any:
    """The matrix itself; if it was int8, its values, and its scales leave `weights`."""
    scale = weights.pop(f"{name}.scale", None)
    return weights[name] if scale is None else weights[name] * scale[:, None]


def _like(values: Floats, array: Any) -> Any:
    """`values` as the kind of array, and on the device, that `array` is."""
    if hasattr(array, "new_tensor"):
        return array.new_tensor(values)
    return values.astype(np.result_type(array.dtype, np.float32))
