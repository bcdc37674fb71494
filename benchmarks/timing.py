"""Timing for benchmarks on shared machines: what is compared takes turns, and medians are taken."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable


def interleaved_seconds(
    functions: dict[str, Callable[[], object]], repeats: int, quiet: bool = False
) -> dict[str, float]:
    """Median seconds of each function; the first turn of each does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(repeats + 1):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            elapsed = time.perf_counter() - start
            if turn:
                seconds[name].append(elapsed)
            if not quiet:
                print(f"{name}: {elapsed:.3f} s", file=sys.stderr)
    return {name: statistics.median(values) for name, values in seconds.items()}
