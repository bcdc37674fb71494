"""From a model file to the numbers that a graph computes with: float32, or 8 bits with one scale per row.

The whole model is prepared first and cut afterwards, so all points of a file are rounded the same way. Only layers that
a point changes (gates folded in, an update added) are floats after the cut, and are prepared once more. Knows files and
points; knows nothing about ONNX. Graphs and engines take `Prepared` weights and never prepare them again.

8-bit weights do not use the full range: they are in -LARGEST … LARGEST (64 instead of 127). x86 processors without VNNI
add two products of an unsigned and a signed byte in 16 bits (vpmaddubsw), and 2 · 255 · 127 does not fit: the sum would
silently saturate and the answer would be wrong. 2 · 255 · 64 = 32,640 fits, so the same graph is correct on every
processor. Unsigned weights would be correct too, but ONNX Runtime's kernel for them took about 12 % longer per query
there, for a twentieth of a percent less perplexity.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any, NewType, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rheostat.errors import NotCopyable
from rheostat.model.cut import cut
from rheostat.model.file import ModelFile
from rheostat.model.names import is_scale_name, scale_name
from rheostat.model.operating_point import OperatingPoint
from rheostat.model.precision import Precision, check_precision, dequantize, widen

Weights: TypeAlias = Mapping[str, NDArray[Any]]  # in any precision that a file can store
Prepared = NewType("Prepared", dict[str, NDArray[Any]])  # what `prepare` returns and graphs are made from
Floats: TypeAlias = NDArray[np.float32]
LARGEST = 64  # absolute value of an 8-bit weight
_ROWS_AT_ONCE = 64  # so that converting a matrix takes little extra memory


class RuntimeWeights(NotCopyable):
    """The weights of a file in one precision, cut to any point. Safe to use from several threads.

    The prepared model is kept from its second use on. So a device that never turns the knob holds only its one point,
    and a program that turns it does not read the whole file again. With `keep`, it is kept from the first use on.
    """

    def __init__(self, file: ModelFile, precision: Precision, *, keep: bool = False) -> None:
        self._file, self._precision = file, precision
        self._whole: Prepared | None = None
        self._keeps = keep
        self._lock = threading.Lock()

    def of(self, point: OperatingPoint) -> Prepared:
        """The weights of the model that is cut to `point`; its shape is `point.cut_shape(file.shape)`."""
        # Bits are those of the stored integers, so rows are read in 4 bits before anything is rounded for a graph.
        if point.bounds:
            return prepare(cut(self._file.stored_weights(), self._file.shape, point)[0], self._precision)
        small, _ = cut(self._prepared(), self._file.shape, point)
        changed = {name: array for name, array in small.items() if array.dtype.kind == "f" and not is_scale_name(name)}
        return Prepared({**small, **prepare(changed, self._precision)})

    def _prepared(self) -> Prepared:
        with self._lock:
            if self._whole is not None:
                return self._whole
            weights = prepare(self._file.stored_weights(), self._precision)
            # Biases are copied: a view of one would keep the whole mapped file in memory.
            whole = Prepared({name: array.copy() if array.ndim == 1 else array for name, array in weights.items()})
            self._file.release()
            if self._keeps:
                self._whole = whole
            self._keeps = True
            return whole


def prepare(weights: Weights, precision: str) -> Prepared:
    """Weights of any stored precision as the graph of `precision` needs them; arrays that already fit are not copied.

    fp32: everything is float32. int8: matrices are int8 in -LARGEST … LARGEST with row scales under
    `{name}.scale`, so a prepared model can be cut repeatedly; biases are float32.
    """
    check_precision(precision)
    prepared: dict[str, NDArray[Any]] = {}
    for name, array in weights.items():
        if is_scale_name(name):
            continue
        scale = weights.get(scale_name(name))
        if array.ndim == 2 and precision == "int8":
            prepared[name], prepared[scale_name(name)] = reduce(array, scale)
        else:
            prepared[name] = _as_floats(array, scale)
    return Prepared(prepared)


def reduce(matrix: NDArray[Any], scale: Floats | None = None) -> tuple[NDArray[np.int8], Floats]:
    """(q, scale) of a matrix of floats, or of int8 with row scales, where w = q · scale and |q| ≤ LARGEST."""
    if scale is not None and _fits(matrix):
        return matrix, scale
    integers = np.empty(matrix.shape, np.int8)
    scales = np.empty(len(matrix), np.float32)
    for rows in _slices(len(matrix)):
        floats = _as_floats(matrix[rows], None if scale is None else scale[rows])
        integers[rows], scales[rows] = _nearest(floats, LARGEST)
    return integers, scales


def transposed(matrix: NDArray[Any]) -> NDArray[Any]:
    """A transposed copy, made in strips that fit into the processor's cache."""
    result = np.empty(matrix.shape[::-1], matrix.dtype)
    for first in range(0, len(matrix), 256):
        result[:, first : first + 256] = matrix[first : first + 256].T
    return result


def _as_floats(array: NDArray[Any], scale: Floats | None) -> Floats:
    """The float32 values of a stored array; the array itself if it is float32 already."""
    return widen(array) if scale is None else dequantize(array, scale)


def _nearest(floats: Floats, largest: int) -> tuple[Floats, Floats]:
    """Whole numbers, and one scale per row that maps its largest magnitude to `largest`."""
    extreme = np.maximum(floats.max(axis=1, initial=0), -floats.min(axis=1, initial=0))
    scale: Floats = extreme / np.float32(largest)
    scale[scale == 0] = 1  # a row of zeros
    steps = floats / scale[:, None]
    return np.rint(steps, out=steps), scale


def _fits(integers: NDArray[np.int8]) -> bool:
    return bool(integers.min(initial=0) >= -LARGEST and integers.max(initial=0) <= LARGEST)


def _slices(rows: int) -> Iterator[slice]:
    return (slice(first, first + _ROWS_AT_ONCE) for first in range(0, rows, _ROWS_AT_ONCE))
