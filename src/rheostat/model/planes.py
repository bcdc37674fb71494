"""How the int8 matrices of an ordered file are stored: two planes of four bits, in the order in which the core reads.

A weight q is stored as q + 128 = 16 · upper + lower, both 0 to 15. The upper plane alone is the 4-bit model: it stands
for the middle of what the lower one may add, 16 · upper + 8 - 128. Both planes are in *quads*: blocks of 16 rows; in a
block, lines of 8 columns, 64 bytes each; in a line, four columns of each row side by side, in the low halves of the
bytes, and the next four in the high halves. So a narrower position reads the beginning of every block, and one cache
line is multiplied by eight inputs at once. z, f and o begin with a block of their own, and each step of a window with
a line of its own; what fills blocks and lines up is zero. core/kernels.h says the same in C.

Knows integers and places; `precision` knows what they stand for, `writer` and `file` where they are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rheostat.model.container import LINE_BYTES, problem
from rheostat.model.names import lower_name, scale_name, upper_name
from rheostat.model.precision import LARGEST_INTEGER
from rheostat.model.shape import CLUSTERS, QRNN_GATES, ModelShape

ROWS = 16  # in a block; `operating_point.BOUND_STEP` follows from it
QUAD = 4  # columns of a row side by side
COLUMNS = 2 * QUAD  # in a line
_OFFSET = 128  # what makes a weight of 8 bits positive
_MIDDLE = 8  # of the 16 values that share an upper half

Integers = NDArray[np.int8]
Plane = NDArray[np.uint8]


class MatrixSizes(NamedTuple):
    """The sizes of a matrix: rows come in equal parts (z, f, o), columns in equal steps (of a window)."""

    rows: int
    columns: int
    parts: int = 1
    steps: int = 1

    @property
    def plane_shape(self) -> tuple[int, int, int]:
        blocks = self.parts * -(-self.rows // self.parts // ROWS)
        return blocks, self.steps * -(-self.columns // self.steps // COLUMNS), LINE_BYTES


def matrix_sizes(shape: ModelShape) -> dict[str, MatrixSizes]:
    """The sizes of every matrix of a QRNN, by its name."""
    found = {}
    for name, size in shape.tensor_shapes().items():
        if len(size) == 2:
            layer = name.split(".")[1]
            parts = (QRNN_GATES, shape.windows[int(layer)]) if name.startswith("layers.") else (1, 1)
            found[name] = MatrixSizes(size[0], size[1], *parts)
    return found


def coarse(integers: NDArray[Any]) -> NDArray[Any]:
    """A matrix as 4 bits give it: the middle of the 16 values with the same upper half. A row of zeros stays one."""
    return np.where(integers.any(axis=1, keepdims=True), (integers & -16) + _MIDDLE, 0).astype(integers.dtype)


def to_planes(integers: Integers, sizes: MatrixSizes) -> tuple[Plane, Plane]:
    """The upper and the lower plane of a matrix."""
    blocks, lines, _ = sizes.plane_shape
    parts, steps = sizes.parts, sizes.steps
    padded = np.zeros((parts, blocks // parts * ROWS, steps, lines // steps * COLUMNS), np.uint8)
    stored = (integers.astype(np.int16) + _OFFSET).astype(np.uint8)
    rows, columns = sizes.rows // parts, sizes.columns // steps
    padded[:, :rows, :, :columns] = stored.reshape(parts, rows, steps, columns)
    quads = padded.reshape(blocks, ROWS, lines, 2, QUAD).transpose(0, 2, 3, 1, 4).reshape(blocks, lines, 2, LINE_BYTES)
    first, second = quads[:, :, 0], quads[:, :, 1]
    upper: Plane = np.asarray(first >> 4 | second & 0xF0, np.uint8)
    lower: Plane = np.asarray(first & 0x0F | second << 4, np.uint8)
    return upper, lower


def from_planes(upper: Plane, lower: Plane | None, sizes: MatrixSizes) -> Integers:
    """The matrix of two planes; without the lower one, as 4 bits give it."""
    blocks, lines, _ = sizes.plane_shape
    quads = np.empty((blocks, lines, 2, LINE_BYTES), np.uint8)
    for half, high, low in (
        (0, upper << 4, None if lower is None else lower & 0x0F),
        (1, upper & 0xF0, None if lower is None else lower >> 4),
    ):
        quads[:, :, half] = high | (_MIDDLE if low is None else low)
    parts, steps = sizes.parts, sizes.steps
    padded = quads.reshape(blocks, lines, 2, ROWS, QUAD).transpose(0, 3, 1, 2, 4)
    padded = padded.reshape(parts, blocks // parts * ROWS, steps, lines // steps * COLUMNS)
    stored = padded[:, : sizes.rows // parts, :, : sizes.columns // steps].reshape(sizes.rows, sizes.columns)
    return (stored ^ np.uint8(_OFFSET)).view(np.int8)


def as_planes(weights: Mapping[str, NDArray[Any]], shape: ModelShape, bits: int = 8) -> dict[str, NDArray[Any]]:
    """The tensors that store int8 weights in planes. bits: 4 leaves out the lower planes, but for the rows of tails.

    A row of zeros gets the scale 0, since four bits have no zero.
    """
    tensors = dict(weights)
    for name, sizes in matrix_sizes(shape).items():
        integers = tensors.pop(name)
        if integers.min(initial=0) < -LARGEST_INTEGER:
            raise problem(f"-128 in {name}", f"-{LARGEST_INTEGER} to {LARGEST_INTEGER}")
        tensors[upper_name(name)], lower = to_planes(integers, sizes)
        if bits == 8 or name == CLUSTERS:
            tensors[lower_name(name)] = lower
        empty = ~integers.any(axis=1)
        if empty.any():
            tensors[scale_name(name)] = np.where(empty, np.float32(0), tensors[scale_name(name)])
    return tensors
