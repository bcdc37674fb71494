"""Checks of arguments: a value of the right kind, or an error in one line; and how many threads to use.

Knows kinds of values; `model.knob` decides whether a model can serve a knob position.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, cast

from rheostat.errors import OperatingPointError, RheostatError
from rheostat.model.widths import check_knob

LARGEST_K = 100
LARGEST = sys.float_info.max


def check_text(name: str, value: Any) -> None:
    """Raise RheostatError unless this is a str."""
    if not isinstance(value, str):
        raise RheostatError(f"{name} is {shown(value)}; expected a str")


def check_whole(name: str, value: Any, least: int, most: float = math.inf) -> None:
    """Raise RheostatError unless this is a whole number in a range."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or not least <= int(value) <= most:
        bounds = f"of {least} or more" if most == math.inf else f"from {least} to {int(most):,}"
        raise RheostatError(f"{name} is {shown(value)}; expected a whole number {bounds}")


def check_list(name: str, value: Any) -> None:
    """Raise RheostatError unless this is a list of values, or something like one. A str is none."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise RheostatError(f"{name} is {shown(value)}; expected a list: [{value!r:.40}]")


def check_position(knob: Any, point: Any, latency_ms: Any = None) -> None:
    """Raise OperatingPointError unless these can name an operating point; None means not given."""
    if knob is None and point is None and latency_ms is None:
        raise OperatingPointError("no position was given; expected a share of the FLOPs in (0, 1], or point=…")
    if knob is not None:
        check_knob(knob)
    if point is not None and not isinstance(point, str):
        raise OperatingPointError(f"the point is {shown(point)}; expected the name of a stored point")
    if latency_ms is not None and not (is_number(latency_ms) and latency_ms > 0):
        raise OperatingPointError(f"the latency is {shown(latency_ms)}; expected milliseconds above 0")


def is_number(value: Any) -> bool:
    """Whether this is a finite number; True and False are not."""
    return type(value) is not bool and isinstance(value, Real) and abs(cast(float, value)) <= LARGEST


def shown(value: Any) -> str:
    """A value for an error message: short, on one line, with its type."""
    text = " ".join(repr(value).split())
    return f"{text if len(text) <= 40 else text[:37] + '...'} ({type(value).__name__})"


THREADS_PER_CPU = 4  # at most: more are not faster, and thousands exhaust the memory before the first answer


def thread_count(threads: int) -> int:
    """The number of threads to use; 0 = one per physical core."""
    cpus = os.cpu_count() or 1
    if not 0 <= threads <= THREADS_PER_CPU * cpus:
        raise RheostatError(
            f"{threads} threads were requested on a machine with {cpus} CPUs; "
            f"expected 0 (one per physical core) to {THREADS_PER_CPU * cpus}"
        )
    return threads or physical_cores()


def physical_cores() -> int:
    """Physical cores that this process may use."""
    import psutil  # here, because an app that sets the number of threads never needs it

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(psutil.cpu_count(logical=False) or usable, usable))
