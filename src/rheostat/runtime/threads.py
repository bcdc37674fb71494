"""How many threads to use on this machine."""

from __future__ import annotations

import os

from rheostat.errors import RheostatError

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
