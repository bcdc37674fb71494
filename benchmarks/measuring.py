"""What benchmarks share: timing on shared machines, their options, and how figures are handed over."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rheostat.provenance import provenance


def interleaved_seconds(
    functions: Mapping[str, Callable[[], object]], repeats: int, quiet: bool = False
) -> dict[str, float]:
    """Median seconds of each function; they take turns, so that a busy machine slows all alike."""
    return {name: statistics.median(values) for name, values in interleaved(functions, repeats, quiet).items()}


def interleaved(
    functions: Mapping[str, Callable[[], object]], repeats: int, quiet: bool = False
) -> dict[str, list[float]]:
    """Seconds of every turn of each function. The first turn of each does not count."""
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
    return seconds


def make_parser(documentation: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(documentation or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="print all figures as one JSON object on the last line")
    parser.add_argument("-o", "--out", type=Path, help="write them to this file too")
    return parser


def hand_over(figures: Mapping[str, Any], arguments: argparse.Namespace) -> None:
    """Write and print figures as the options say, with where they come from."""
    everything = {**figures, "provenance": provenance()}
    if arguments.out:
        arguments.out.write_text(json.dumps(everything, indent=1) + "\n")
    if arguments.json:
        print(json.dumps(everything))
