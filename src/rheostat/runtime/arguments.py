"""Checks of arguments: a value of the right kind, or an error in one line.

Knows kinds of values; `model.knob` decides whether a model can serve a knob position.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from rheostat.errors import OperatingPointError, RheostatError

LARGEST_K = 100


def check_text(name: str, value: Any) -> None:
    """Raise RheostatError unless this is a str."""
    if not isinstance(value, str):
        raise RheostatError(f"{name} is {shown(value)}; expected a str")


def check_whole(name: str, value: Any, least: int, most: float = math.inf) -> None:
    """Raise RheostatError unless this is a whole number in a range."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or not least <= int(value) <= most:
        bounds = f"of {least} or more" if most == math.inf else f"from {least} to {most:g}"
        raise RheostatError(f"{name} is {shown(value)}; expected a whole number {bounds}")


def check_position(knob: Any, point: Any, latency_ms: Any = None) -> None:
    """Raise OperatingPointError unless these can name an operating point; None means not given.

    `model.knob` checks the range of the knob.
    """
    if knob is None and point is None and latency_ms is None:
        raise OperatingPointError("no position was given; expected a share of the FLOPs in (0, 1], or point=…")
    if knob is not None and not is_number(knob):
        raise OperatingPointError(
            f"the knob is {shown(knob)}; expected a number, a share of the FLOPs in (0, 1]: 80 % is 0.8"
        )
    if point is not None and not isinstance(point, str):
        raise OperatingPointError(f"the point is {shown(point)}; expected the name of a stored point")
    if latency_ms is not None and not (is_number(latency_ms) and latency_ms > 0):
        raise OperatingPointError(f"the latency is {shown(latency_ms)}; expected milliseconds above 0")


def is_number(value: Any) -> bool:
    """Whether this is a finite number; True and False are not."""
    return type(value) is not bool and isinstance(value, Real) and math.isfinite(value)


def shown(value: Any) -> str:
    """A value for an error message: short, on one line, with its type."""
    text = " ".join(repr(value).split())
    return f"{text if len(text) <= 40 else text[:37] + '...'} ({type(value).__name__})"
