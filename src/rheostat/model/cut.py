"""Cutting a model to the small dense model of an operating point, and reordering its filters by a ranking.

The only code that knows which rows and columns belong to a filter. Works on NumPy and torch arrays alike: it only
indexes, multiplies and adds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from rheostat.errors import OperatingPointError
from rheostat.model.names import scale_name
from rheostat.model.operating_point import Floats, OperatingPoint, Positions, Ranking, Update, require_filters
from rheostat.model.planes import coarse
from rheostat.model.shape import CLUSTERS, CLUSTERS_BIAS, EMBEDDING, OUTPUT, OUTPUT_BIAS, QRNN_GATES, ModelShape

Array = TypeVar("Array")  # NumPy's or torch's


def cut(weights: Mapping[str, Array], shape: ModelShape, point: OperatingPoint) -> tuple[dict[str, Array], ModelShape]:
    """The small dense model of `point`: its weights by the names in its shape, and that shape.

    In this order: rows after bit bounds are read in 4 bits; rows and columns are selected; of a reconstructed point,
    the guess of the dropped filters is folded into the columns that read the kept ones (in the next layer or the output
    layer), and its constant into the biases; gates are folded into those columns; u · v and the point's biases are
    added. The 100 % point returns the same arrays. A matrix can be int8, with its row scales under `{name}.scale`: its
    integers are selected, and become floats only where something is folded in or added.
    """
    point.check(shape)
    _check_weights(weights, shape)
    if point.is_full(shape):
        return dict(weights), shape
    require_filters(shape)
    cut_shape = point.cut_shape(shape)
    keep = [None if len(kept) == size else kept for kept, size in zip(point.keep, shape.hidden_sizes, strict=True)]
    if point.bounds is not None:
        weights = _coarsened(weights, shape, point.bounds)
    small = _select_filters(weights, shape, [None, *keep])
    _reconstruct(small, weights, shape, point)
    for layer in range(len(keep)):
        _fold(small, f"layers.{layer}.weight", point.gate(layer - 1) if layer else None, shape.windows[layer])
    last_gate = point.gate(len(keep) - 1)
    _fold(small, OUTPUT, last_gate)
    if shape.softmax_splits:
        _fold(small, CLUSTERS, last_gate)
    for layer in range(len(keep)):
        _merge(small, f"layers.{layer}.weight", point.update(layer))
        if (added := point.bias(layer)) is not None:
            bias = small[f"layers.{layer}.bias"]
            small[f"layers.{layer}.bias"] = bias + _like(added, bias)
    if not cut_shape.is_cut:
        small.pop(OUTPUT)  # the embedding itself
        small.pop(scale_name(OUTPUT), None)
    return cast(dict[str, Array], small), cut_shape


def reorder(weights: Mapping[str, Array], shape: ModelShape, ranking: Ranking) -> dict[str, Array]:
    """The same network with the filters of every layer in the order of `ranking`, best first.

    The output layer reads the last layer. It is also the embedding, which feeds the first layer. So the last layer's
    order is also applied to the columns of the embedding and of the first layer. Scores and points of the old order do
    not fit the result: `reorder_ranking` and `reorder_point` make them fit.
    """
    require_filters(shape)
    ranking.check(shape)
    _check_weights(weights, shape)
    order = [ranking.order(layer) for layer in range(len(shape.hidden_sizes))]
    result = _select_filters(weights, shape, [None if shape.is_cut else order[-1], *order])
    if not shape.is_cut:
        result[EMBEDDING] = result.pop(OUTPUT)
        result.pop(scale_name(OUTPUT), None)  # the embedding's own
    return cast(dict[str, Array], result)


def reorder_ranking(other: Ranking, ranking: Ranking) -> Ranking:
    """The scores of a ranking for the model that `reorder` makes by `ranking`."""
    scores = tuple(layer[ranking.order(index)] for index, layer in enumerate(other.scores))
    return replace(other, scores=scores)


def reorder_point(point: OperatingPoint, shape: ModelShape, ranking: Ranking) -> OperatingPoint:
    """The same point of the model that `reorder` makes by `ranking`: filters, gates and updates move along."""
    order = [ranking.order(layer) for layer in range(len(point.keep))]
    places = [np.argsort(layer)[keep] for layer, keep in zip(order, point.keep, strict=True)]  # where each one is now
    moved = [np.argsort(layer) for layer in places]  # kept filters are listed ascending
    read = [None if shape.is_cut else order[-1], *moved]  # what the columns of each layer read
    keep = tuple(layer[by].astype(np.int32) for layer, by in zip(places, moved, strict=True))
    gates = point.gates and tuple(
        None if gate is None else gate[by] for gate, by in zip(point.gates, moved, strict=True)
    )
    updates = point.updates and tuple(
        None if update is None else _reorder_update(update, by, columns, window)
        for update, by, columns, window in zip(point.updates, moved, read, shape.windows, strict=False)
    )
    biases = point.biases and tuple(
        None if bias is None else bias[_Places(by, len(by), QRNN_GATES).positions()]
        for bias, by in zip(point.biases, moved, strict=True)
    )
    return replace(point, keep=keep, gates=gates, updates=updates, biases=biases)


def _reorder_update(update: Update, rows: NDArray[Any], columns: NDArray[Any] | None, window: int) -> Update:
    u = update.u[_Places(rows, len(rows), QRNN_GATES).positions()]
    v = update.v if columns is None else update.v[:, _Places(columns, len(columns), window).positions()]
    return Update(np.ascontiguousarray(u), np.ascontiguousarray(v))


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
    """All tensors with only these filters, in this order; the output layer is always a separate matrix.

    filters: columns of the embedding, then filters of each layer; None = all of them, in their order.
    """
    selected = dict(weights)
    for layer, (inputs, outputs) in enumerate(pairwise(filters)):
        name = f"layers.{layer}"
        rows = _Places(outputs, shape.hidden_sizes[layer], QRNN_GATES)
        columns = _Places(inputs, shape.input_size(layer), shape.windows[layer])
        selected[f"{name}.weight"] = _take(weights[f"{name}.weight"], rows, columns)
        selected[f"{name}.bias"] = _take(weights[f"{name}.bias"], rows)
        if (scale := scale_name(f"{name}.weight")) in weights:
            selected[scale] = _take(weights[scale], rows)
    output = shape.output_name
    columns = _Places(filters[-1], shape.output_size)
    selected[OUTPUT] = _take(weights[output], _Places(None, shape.vocabulary_size), columns)
    if (scale := scale_name(output)) in weights:
        selected[scale_name(OUTPUT)] = weights[scale]
    if shape.softmax_splits:
        tails = _Places(None, len(shape.softmax_splits))
        selected[CLUSTERS] = _take(weights[CLUSTERS], tails, columns)
    return selected


@dataclass(frozen=True, eq=False)
class _Places:
    """Rows or columns that belong to filters: the same in each of `blocks` blocks of `size` (z, f, o; window steps)."""

    filters: NDArray[Any] | None  # None: all, in their order
    size: int
    blocks: int = 1

    def positions(self) -> Positions:
        filters = np.arange(self.size) if self.filters is None else self.filters
        places: Positions = (np.arange(self.blocks)[:, None] * self.size + filters.astype(np.int64)).reshape(-1)
        return places

    def prefix(self) -> int | None:
        """The number of filters if they are the first ones in order; otherwise None."""
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
    else:  # slices copy whole lines instead of single entries, and so does torch's gradient
        blocks = matrix.reshape(rows.blocks, rows.size, columns.blocks, columns.size)[:, :tall, :, :wide]
        small = blocks.reshape(rows.blocks * tall, columns.blocks * wide)
    small = small if array.ndim > 1 else small.reshape(-1)
    return small.contiguous() if hasattr(small, "contiguous") else np.ascontiguousarray(small)


def _index(matrix: Any, positions: Positions, axis: int) -> Any:
    """Rows or columns of a matrix. Indexing one axis at a time is faster, because it copies whole lines."""
    if isinstance(matrix, np.ndarray):
        return matrix.take(positions, axis)
    return matrix[positions] if axis == 0 else matrix[:, positions]


def _coarsened(weights: Mapping[str, Any], shape: ModelShape, bounds: Sequence[int]) -> dict[str, Any]:
    """The rows after the bit bounds in 4 bits: those of filters in z, f and o, and those of words."""
    parts = [(f"layers.{layer}.weight", QRNN_GATES, bound) for layer, bound in enumerate(bounds[:-1])]
    parts += [(name, 1, bounds[-1]) for name in {EMBEDDING, shape.output_name}]
    changed = dict(weights)
    for name, blocks, bound in parts:
        matrix = weights[name]
        if str(matrix.dtype) != "int8":
            raise OperatingPointError(
                f"a point with bit bounds was given, and {name} in {matrix.dtype}; expected int8: pack it in int8"
            )
        in_four_bits = np.tile(np.arange(len(matrix) // blocks) >= bound, blocks)[:, None]
        changed[name] = np.where(in_four_bits, coarse(matrix), matrix)
    return changed


def _fold(weights: dict[str, Any], name: str, gates: Floats | None, window: int = 1) -> None:
    if gates is not None:
        matrix = _floats(weights, name)
        weights[name] = matrix * _like(np.tile(gates, window), matrix)


def _reconstruct(small: dict[str, Any], weights: Mapping[str, Any], shape: ModelShape, point: OperatingPoint) -> None:
    """Add the guess of every dropped filter to what reads it: W_k + W_d A, and W_d (μ_d - A μ_k) to the bias.

    Before a text starts, a window reads zeros, for which the constant is not meant; that lasts window - 1 words.
    """
    if point.reconstruction is None:
        return
    for layer, (keep, size) in enumerate(zip(point.keep, shape.hidden_sizes, strict=True)):
        if len(keep) == size:
            continue
        dropped, guess = point.reconstruction.guess(layer, keep)
        for reader in _readers(shape, point, layer):
            lost = _take(weights[reader.source], reader.rows, _Places(dropped, size, reader.window))
            scale = weights.get(scale_name(reader.source))
            lost = lost if scale is None else lost * _take(scale, reader.rows)[:, None]
            matrix = _floats(small, reader.name)
            blocks = lost.reshape(len(lost), reader.window, len(dropped))  # of each word in the window
            small[reader.name] = matrix + (blocks @ _like(guess.weights, lost)).reshape(matrix.shape)
            small[reader.bias] = small[reader.bias] + (blocks @ _like(guess.offset, lost)).sum(1)


def unfolded(weights: Mapping[str, Any], shape: ModelShape, point: OperatingPoint) -> dict[str, Any]:
    """Weights of the whole size whose prefix at a reconstructed point is the reconstructed model: a start for training.

    Columns of kept filters get the guess of the dropped ones, W_k + W_d A; columns of dropped filters keep what the
    guess leaves over, so that the whole model stays near. One set of weights cannot hold the guess of every position.
    The last layer is left as it is, because the matrix that reads it is also the embedding.
    """
    changed = dict(weights)
    assert point.reconstruction is not None
    for layer, (keep, size) in enumerate(zip(point.keep[:-1], shape.hidden_sizes, strict=False)):
        if len(keep) == size:
            continue
        dropped, guess = point.reconstruction.guess(layer, keep)
        name = f"layers.{layer + 1}"
        matrix = np.asarray(changed[f"{name}.weight"], np.float32)
        blocks = matrix.reshape(len(matrix), shape.windows[layer + 1], size).copy()  # of each word in the window
        lost = blocks[..., dropped]
        blocks[..., keep] += lost @ _like(guess.weights, matrix)
        blocks[..., dropped] = lost @ _like(point.reconstruction.remainder(layer, keep), matrix)
        changed[f"{name}.weight"] = blocks.reshape(matrix.shape)
        changed[f"{name}.bias"] = changed[f"{name}.bias"] + (lost @ _like(guess.offset, matrix)).sum(1)
    return changed


class _Reader(NamedTuple):
    """A matrix whose columns read what a layer gives. source: its name before cutting. rows: those that are kept."""

    name: str
    source: str
    bias: str
    rows: _Places
    window: int = 1


def _readers(shape: ModelShape, point: OperatingPoint, layer: int) -> list[_Reader]:
    following = layer + 1
    if following < len(shape.hidden_sizes):
        name, size = f"layers.{following}", shape.hidden_sizes[following]
        keep = None if len(point.keep[following]) == size else point.keep[following]
        rows = _Places(keep, size, QRNN_GATES)
        return [_Reader(f"{name}.weight", f"{name}.weight", f"{name}.bias", rows, shape.windows[following])]
    readers = [_Reader(OUTPUT, shape.output_name, OUTPUT_BIAS, _Places(None, shape.vocabulary_size))]
    if shape.softmax_splits:
        tails = _Places(None, len(shape.softmax_splits))
        readers.append(_Reader(CLUSTERS, CLUSTERS, CLUSTERS_BIAS, tails))
    return readers


def _merge(weights: dict[str, Any], name: str, update: Update | None) -> None:
    if update is not None:
        matrix = _floats(weights, name)
        weights[name] = matrix + _like(update.u, matrix) @ _like(update.v, matrix)


def _floats(weights: dict[str, Any], name: str) -> Any:
    """The matrix as floats. The scales of an int8 matrix are removed from `weights`."""
    scale = weights.pop(scale_name(name), None)
    return weights[name] if scale is None else weights[name] * scale[:, None]


def _like(values: NDArray[Any], array: Any) -> Any:
    """`values` as the same kind of array as `array`, on the same device."""
    if hasattr(array, "new_tensor"):
        return array.new_tensor(values)
    return values.astype(np.result_type(array.dtype, np.float32))
