"""Arguments that only the runtime takes: a position of the knob, a number of threads.

Knows what can be asked for; `model.knob` decides whether a model can serve a knob position.
"""

from __future__ import annotations

import os
from typing import Any

from rheostat.arguments import is_number, shown
from rheostat.errors import OperatingPointError, RheostatError
from rheostat.model.widths import check_knob

LARGEST_K = 100
DEFAULT_LAYOUT = "qwerty"  # of the keyboard; `words.slips` knows where its keys are
# What a query should read per thread of the core, so that two threads begin at 16 MB: between the bundled model, whose
# whole query is hardly longer than waking a thread up takes, and those of Penn Treebank (24 MB).
THREAD_BYTES = 8 << 20
THREADS_PER_CPU = 4  # at most: more are not faster, and thousands exhaust the memory before the first answer


def check_position(knob: Any, point: Any, latency_ms: Any = None) -> None:
    """Raise OperatingPointError unless these can name an operating point; None means not given."""
    if knob is None and point is None and latency_ms is None:
        raise OperatingPointError("no position was given; expected a share of the cost in (0, 1], or point=…")
    if knob is not None:
        check_knob(knob)
    if point is not None and not isinstance(point, str):
        raise OperatingPointError(f"the point is {shown(point)}; expected the name of a stored point")
    if latency_ms is not None and not (is_number(latency_ms) and latency_ms > 0):
        raise OperatingPointError(f"the latency is {shown(latency_ms)}; expected milliseconds above 0")


def check_threads(threads: int) -> None:
    """Raise RheostatError unless this many threads can be used; 0 = let the engine decide."""
    cpus = os.cpu_count() or 1
    if not 0 <= threads <= THREADS_PER_CPU * cpus:
        raise RheostatError(
            f"{threads} threads were requested on a machine with {cpus} CPUs; "
            f"expected 0 (as many as are useful) to {THREADS_PER_CPU * cpus}"
        )


def thread_count(threads: int) -> int:
    """The number of threads of ONNX Runtime; 0 = one per physical core."""
    check_threads(threads)
    return threads or physical_cores()


def core_thread_count(threads: int, query_bytes: int) -> int:
    """The number of threads of the core; 0 = by the bytes that a query reads at 100 %."""
    check_threads(threads)
    if threads or query_bytes < 2 * THREAD_BYTES:
        return threads or 1  # and physical cores, which take long to count, do not matter
    return min(physical_cores(), query_bytes // THREAD_BYTES)


def physical_cores() -> int:
    """Physical cores that this process may use."""
    import psutil  # here, because an app that sets the number of threads never needs it

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(psutil.cpu_count(logical=False) or usable, usable))
