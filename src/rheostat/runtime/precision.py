"""The precisions that the runtime computes in, and how many bytes a query reads in each.

Four bits are no precision of their own: they belong to an operating point. Knows names and bytes; knows nothing of
weights.
"""

from __future__ import annotations

from typing import Literal, get_args

from rheostat.errors import PrecisionError

Precision = Literal["fp32", "int8"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
WEIGHT_BYTES: dict[Precision, float] = {"fp32": 4.0, "int8": 1.0}


def check_precision(precision: str) -> None:
    """Raise PrecisionError unless the runtime has this precision."""
    if precision not in PRECISIONS:
        raise PrecisionError(f"the precision is {precision!r:.40}; expected one of {', '.join(PRECISIONS)}")


def bytes_read(flops: float, precision: Precision) -> int:
    """Bytes of the matrices that a query with this many FLOPs reads: each weight once, at two FLOPs per weight.

    Biases, states, row scales and the row of the input embedding are left out.
    """
    return round(flops / 2 * WEIGHT_BYTES[precision])
