"""What benchmarks share: timing on shared machines, their options, and writing their results."""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rheostat.measure.results import BenchmarkResults, Provenance, results_json, write_results

Figures = dict[str, float]  # by their names in a results file


def interleaved_seconds(
    functions: Mapping[str, Callable[[], object]], repeats: int, quiet: bool = False
) -> dict[str, float]:
    """Median seconds of each function. They are interleaved, so load affects them all equally."""
    return {name: statistics.median(values) for name, values in interleaved(functions, repeats, quiet).items()}


def interleaved(
    functions: Mapping[str, Callable[[], object]], repeats: int, quiet: bool = False
) -> dict[str, list[float]]:
    """Seconds of every turn of each function; each function warms up for one turn first.

    The order changes from turn to turn: in a fixed one, a function would always find in the caches what the one before
    it has read.
    """
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    order, chance = list(functions), random.Random(1)
    for turn in range(repeats + 1):
        chance.shuffle(order)
        for name in order:
            start = time.perf_counter()
            functions[name]()
            elapsed = time.perf_counter() - start
            if turn:
                seconds[name].append(elapsed)
            if not quiet:
                print(f"{name}: {elapsed:.3f} s", file=sys.stderr)
    return seconds


def make_parser(documentation: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(documentation or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="print the results as one JSON object on the last line")
    parser.add_argument("-o", "--out", type=Path, help="also write the results to this file")
    return parser


def report_results(name: str, figures: Mapping[str, Any], arguments: argparse.Namespace) -> None:
    """Write and print the results of a benchmark, according to the options."""
    results = BenchmarkResults(Provenance.of_this_process(), name, figures)
    if arguments.out:
        write_results(Path(arguments.out), results)
    if arguments.json:
        print(json.dumps(results_json(results)))
