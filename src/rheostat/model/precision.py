"""Precisions: how weights are stored (fp32, fp16, or int8 with one scale per row), and what the runtime computes in.

w = q · scale with q in -127 … 127. Four bits are not a precision: they belong to an operating point. Knows
numbers; knows nothing of where they are stored or what they mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from rheostat.errors import PrecisionError
from rheostat.model.container import problem
from rheostat.model.names import scale_name

Floats: TypeAlias = NDArray[np.float32]
StoredPrecision = Literal["fp32", "fp16", "int8"]
STORED_PRECISIONS: tuple[StoredPrecision, ...] = get_args(StoredPrecision)
Precision = Literal["fp32", "int8"]  # of the products of a query
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
WEIGHT_BYTES: dict[Precision, float] = {"fp32": 4.0, "int8": 1.0}
_OF_TYPE: dict[str, StoredPrecision] = {"float32": "fp32", "float16": "fp16", "int8": "int8"}  # by NumPy's names

LARGEST_INTEGER = 127  # -128 would have no positive counterpart
# The largest scale that keeps every weight finite.
LARGEST_SCALE = float(np.nextafter(np.finfo(np.float32).max / np.float32(LARGEST_INTEGER), np.float32(0)))
# The largest scale in a file: the sums of the widest output layer then stay finite, and so does every log p.
LARGEST_STORED_SCALE = 1e30


def check_precision(precision: str) -> None:
    """Raise PrecisionError unless the runtime has this precision."""
    if precision not in PRECISIONS:
        raise PrecisionError(f"the precision is {precision!r:.40}; expected one of {', '.join(PRECISIONS)}")


def bytes_read(flops: float, precision: Precision) -> int:
    """Bytes of the matrices that a query with this many FLOPs reads: each weight once, at two FLOPs per weight.

    Biases, states, row scales and the row of the input embedding are left out.
    """
    return round(flops / 2 * WEIGHT_BYTES[precision])


def precision_of(types: Iterable[str]) -> StoredPrecision | None:
    """The precision of matrices of these NumPy types; None if they differ."""
    found = {_OF_TYPE[name] for name in types}
    return found.pop() if len(found) == 1 else None


def is_stored_as(stored: NDArray[Any], precision: StoredPrecision) -> bool:
    """Whether a weight tensor is stored as `encode_all` would store it: int8 leaves biases in fp32."""
    wanted = "fp32" if precision == "int8" and stored.ndim == 1 else precision
    return _OF_TYPE[stored.dtype.name] == wanted


def decode(stored: NDArray[Any], scale: Floats | None) -> Floats:
    """A stored weight tensor as float32. scale: for int8; None otherwise."""
    return widen(stored) if scale is None else dequantize(stored, scale)


def quantize(matrix: Floats) -> tuple[NDArray[np.int8], Floats]:
    """(q, scale), rounded to nearest and symmetric: the largest value of each row becomes 127 or -127."""
    scale: Floats = np.abs(matrix).max(axis=1, initial=0) / np.float32(LARGEST_INTEGER)
    scale[scale == 0] = 1  # a row of zeros
    scale = np.minimum(scale, np.float32(LARGEST_SCALE))
    integers = np.rint(matrix / scale[:, None])
    return np.clip(integers, -LARGEST_INTEGER, LARGEST_INTEGER).astype(np.int8), scale


def dequantize(integers: NDArray[np.int8], scale: Floats) -> Floats:
    floats = integers.astype(np.float32)
    floats *= scale[:, None]
    return floats


def widen(stored: NDArray[Any]) -> Floats:
    """Stored floats, which must be finite, as float32; the array itself if it needs no change."""
    if stored.dtype == np.float16:
        return _widen_halves(stored)
    return np.require(stored, np.float32, ["C", "ALIGNED"])  # other programs can store a tensor at any offset


def all_finite(stored: NDArray[Any]) -> bool:
    """Whether every float is finite. float16 is checked by its bits, which is thirty times as fast in NumPy."""
    if stored.dtype != np.float16:
        return bool(np.isfinite(stored).all())
    # 0x7C00 is infinity and 0xFC00 its negative; larger bit patterns are NaN
    positive, negative = stored.view(np.int16), stored.view(np.uint16)
    return bool(positive.max(initial=0) < 0x7C00 and negative.max(initial=0) < 0xFC00)


def _widen_halves(halves: NDArray[np.float16]) -> Floats:
    """float16 to float32 with the same bits as `astype`, in a tenth of the time.

    Exponent and fraction are shifted to their places in float32, where the fraction is 13 bits longer and the exponent
    bias is 127 instead of 15.
    """
    bits = np.left_shift(halves.view(np.int16), 13, dtype=np.int32, order="C")
    bits &= np.int32(~0x70000000)  # copies of the sign, from int16 to int32
    floats: Floats = bits.view(np.float32)
    floats *= np.float32(2.0 ** (127 - 15))
    return floats


def as_floats(name: str, array: Any, size: tuple[int, ...]) -> Floats:
    """A NumPy or torch array as float32. It must exist, have this shape, and be finite."""
    if array is None:
        raise problem(f"no weights {name}", f"{list(size)}", "give all weights of the shape")
    if hasattr(array, "detach"):  # torch, which this module must not import
        # float(), because NumPy has no bfloat16
        array = array.detach().cpu().float().numpy()
    with np.errstate(over="ignore"):  # values too large for float32 become infinite, and are refused below
        floats: Floats = np.asarray(array, dtype=np.float32)
    if floats.shape != size:
        raise problem(f"weights {name} of shape {list(floats.shape)}", f"{list(size)}", "give those of the shape")
    if not np.isfinite(floats).all():
        raise problem(f"a value in {name} that is not finite", "finite weights", "go back to an earlier checkpoint")
    return floats


def encode_all(weights: Mapping[str, Floats], precision: StoredPrecision) -> dict[str, NDArray[Any]]:
    """The tensors that store these weights. In int8, each matrix also has `{name}.scale`, and biases stay fp32."""
    if precision not in STORED_PRECISIONS:
        raise problem(f"precision {precision!r}", f"one of {', '.join(STORED_PRECISIONS)}", "choose one of these")
    tensors: dict[str, NDArray[Any]] = {}
    for name, array in weights.items():
        tensors |= _encode(name, array, precision)
    return tensors


def _encode(name: str, array: Floats, precision: StoredPrecision) -> dict[str, NDArray[Any]]:
    if precision == "int8" and array.ndim == 2:
        integers, scale = quantize(array)
        if scale.max(initial=0) > LARGEST_STORED_SCALE:
            largest = f"at most {LARGEST_STORED_SCALE * LARGEST_INTEGER:.3g} in int8"
            raise problem(f"a value of {np.abs(array).max():.3g} in {name}", largest, "use fp32")
        return {name: integers, scale_name(name): scale}
    if precision != "fp16":
        return {name: array}
    with np.errstate(over="ignore"):
        halves = array.astype(np.float16)
    if not np.isfinite(halves).all():
        raise problem(f"a value of {np.abs(array).max():.3g} in {name}", "at most 65504 in fp16", "use fp32")
    return {name: halves}
