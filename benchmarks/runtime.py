"""What the knob costs and buys on this machine: the core, the Python around it, ONNX Runtime, memory, start, quality.

    python benchmarks/runtime.py --json -o results/benchmark-runtime.json

A step is one query to an engine: it reads one more word and finds the three best next words that may be suggested.
Against ONNX Runtime both are called from Python; against itself, and against reading its bytes, the core is called from
C. All sides of a ratio are interleaved, a few queries each, so load affects them equally; medians over all turns are
compared. Their order changes from turn to turn, so no side always finds the caches as the same other side left them.
The network alone is compared, without the counts of the bundled file; `suggest` and `complete` are whole. One
thread, unless a row says otherwise. --only names groups of rows (see GROUPS), --quick takes fewer turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from agreement import measure_quality, measure_words
from footprint import measure_processes, measure_sizes
from measuring import Figures, interleaved, make_parser, report_results
from queries import (
    QUERIES,
    Writer,
    core_engine,
    letter_seconds,
    medians,
    onnx_engine,
    reads,
    steps,
    steps_in_c,
    suggestions,
)
from rheostat.bundled import DEFAULT_MODEL, HELD_OUT_TEXT, model_path
from rheostat.measure.evaluation import read_splits
from rheostat.model.file import open_model
from rheostat.model.knob import choose
from rheostat.model.precision import PRECISIONS
from rheostat.runtime.engine import ENGINES, CoreWeights
from rheostat.runtime.evaluation import RuntimeEvaluator
from rheostat.runtime.predictor import Predictor
from rheostat.words.completion import Completion

ROOT = Path(__file__).parents[1]
PTB = ROOT / "models" / "ptb-graded-int8.safetensors"
SMALL = 0.15  # the position that is compared with the full model
KNOBS = [round(0.15 + 0.85 * step / 9, 3) for step in range(10)]
LONG_TURN = 50  # where the sides are processes: each has the caches to fill again
TURNING_ROUNDS = 5
CONTEXTS = 2000  # of the comparison of best words
TOKENS = 20_000  # of Penn Treebank's test text
SPEED_TOKENS = 3000  # of the comparison of evaluation

# What each figure is to reach (issue 17).
TARGETS = {
    "core_over_onnx_100": "at most 0.45",
    "core_over_onnx_15": "at most 0.40",
    "core_15_over_100": "at most 0.33",
    "suggest_15_over_100": "at most 0.55",
    "python_over_step": "at most 0.4",
    "suggest_over_before": "at most 0.35",
    "letter_over_step": "at most 0.25",
    "chat_step_over_read": "at most 1.7",
    "ptb_step_over_read": "at most 1.4",
    "ptb_core_over_onnx": "at most 1.0",
    "ptb_core_over_onnx_two_threads": "at most 0.95",
    "flops_r2": "at least 0.99",
    "flops_intercept_over_full": "at most 0.2",
    "turn_over_query": "at most 0.02",
    "turn_bytes": "0",
    "memory_over_file": "at most 2",
    "start_over_numpy": "at most 1.6",
    "installed_mb": "at most 110",
    "library_kb": "at most 120",
    "wasm_kb": "at most 120",
    "chat_int8_over_fp32": "at most 1.002",
    "ptb_int8_over_fp32": "at most 1.002",
    "same_words_100": "at least ONNX Runtime's",
    "same_words_50": "at least ONNX Runtime's",
    "same_words_20": "at least ONNX Runtime's",
    "log_p_difference": "at most 1e-5",
    "evaluate_over_onnx": "at most 1",
    "evaluate_fp32_over_onnx": "at most 1",
}

EARLIER = """
import sys, time
from rheostat import Predictor
text, predictor = "", Predictor(sys.argv[1], threads=1)
for line in sys.stdin:
    seconds = 0.0
    for word in line.split():
        text = word if len(text) > 600 else f"{text} {word}"
        start = time.perf_counter()
        predictor.suggest(text)
        seconds += time.perf_counter() - start
    print(seconds, flush=True)
"""


def over_before(options: argparse.Namespace) -> Figures:
    """`suggest` of one more word, now and in an earlier version, each in a process of its own, interleaved.

    Both with the model that the earlier version bundles.
    """
    if options.before is None:
        return {}
    model = options.before / model_path().relative_to(ROOT)
    words = Writer(Predictor(model))
    pipe = subprocess.PIPE
    children = {
        name: subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", EARLIER, str(model)],
            env={**os.environ, "PYTHONPATH": str(Path(source) / "src")},
            text=True,
            stdin=pipe,
            stdout=pipe,
        )
        for name, source in (("now", ROOT), ("before", options.before))
    }
    seconds: dict[str, list[float]] = {name: [] for name in children}
    try:
        for _ in range(options.turns // 2):
            line = " ".join(words.next_word() for _ in range(LONG_TURN))
            for name, child in children.items():
                assert child.stdin and child.stdout
                child.stdin.write(line + "\n")
                child.stdin.flush()
                seconds[name].append(float(child.stdout.readline()))
    finally:
        for child in children.values():
            child.communicate()
    us = {name: 1e6 * statistics.median(values) / LONG_TURN for name, values in seconds.items()}
    return {"suggest_over_before": us["now"] / us["before"], "us_suggest_before": us["before"]}


def measure_chat(options: argparse.Namespace) -> Figures:
    with open_model(model_path()) as file:
        full, small = core_engine(file, 1.0), core_engine(file, SMALL)
        mask = Completion(file.vocabulary, file.tokenizer).allowed_mask(attach=True)
        predictor, literal = Predictor(DEFAULT_MODEL), Predictor(DEFAULT_MODEL, slips=False)
        sides = {
            "core_100": steps(full, mask),
            "core_15": steps(small, mask),
            "onnx_100": steps(onnx_engine(file, 1.0), mask),
            "onnx_15": steps(onnx_engine(file, SMALL), mask),
            "suggest_100": suggestions(predictor),
            "suggest_15": suggestions(predictor.at(SMALL)),
            "suggest_onnx": suggestions(Predictor(DEFAULT_MODEL, engine="onnx", threads=1)),
        }
        us = medians(sides, options.turns)
        in_c = {"c_100": steps_in_c(full, mask), "c_15": steps_in_c(small, mask), "read": reads(file, 1.0)}
        us |= medians(in_c, options.turns)
        letters = interleaved({"step": sides["core_100"], "words": lambda: None}, options.turns, quiet=True)
        step = 1e6 * statistics.median(letters["step"]) / QUERIES
        letter = 1e6 * statistics.median(letter_seconds(literal, 2 * options.turns))
        slipped = 1e6 * statistics.median(letter_seconds(predictor, 2 * options.turns))
    return {
        "core_over_onnx_100": us["core_100"] / us["onnx_100"],
        "core_over_onnx_15": us["core_15"] / us["onnx_15"],
        "core_15_over_100": us["c_15"] / us["c_100"],
        "core_15_over_100_from_python": us["core_15"] / us["core_100"],
        "suggest_15_over_100": us["suggest_15"] / us["suggest_100"],
        "python_over_step": (us["suggest_100"] - us["core_100"]) / us["core_100"],
        "suggest_over_onnx": us["suggest_100"] / us["suggest_onnx"],
        "letter_over_step": letter / step,
        "letter_with_slips_over_step": slipped / step,
        "chat_step_over_read": us["c_100"] / us["read"],
        **{f"us_{name}": value for name, value in us.items()},
        "us_letter": letter,
        **over_before(options),
    }


def measure_ptb(options: argparse.Namespace) -> Figures:
    with open_model(options.ptb) as file:
        mask = Completion(file.vocabulary, file.tokenizer).allowed_mask(attach=True)
        core = core_engine(file, 1.0)
        sides = {"core": steps(core, mask, 3), "onnx": steps(onnx_engine(file, 1.0), mask, 3)}
        sides |= {"c": steps_in_c(core, mask, 3), "read": reads(file, 1.0, 3)}
        us = medians(sides, options.turns // 2, 3)
        found = {
            "ptb_step_over_read": us["c"] / us["read"],
            "ptb_core_over_onnx": us["core"] / us["onnx"],
            **{f"us_ptb_{name}": value for name, value in us.items()},
        }
    one, two = (Predictor(options.ptb, threads=threads) for threads in (1, 2))
    onnx = Predictor(options.ptb, threads=2, engine="onnx")
    sides = {"core": two, "onnx": onnx, "core_one": one}
    us = medians(
        {name: steps(each._turner.serving().engine, mask, 3) for name, each in sides.items()}, options.turns // 2, 3
    )
    return {
        **found,
        "ptb_core_over_onnx_two_threads": us["core"] / us["onnx"],
        "ptb_two_threads_over_one": us["core"] / us["core_one"],
        **{f"us_ptb_{name}_two_threads": us[name] for name in ("core", "onnx")},
    }


def measure_line(options: argparse.Namespace) -> Figures:
    """A step at ten positions against its FLOPs, by widths alone, and against its cost, on the path of widths and bits.

    A line through the origin would be ideal.
    """
    with open_model(model_path()) as file:
        mask = Completion(file.vocabulary, file.tokenizer).allowed_mask(attach=True)
        weights = CoreWeights(file, "int8")
        points = {
            "flops": [choose(file, knob, ranking=file.ordered) for knob in KNOBS],
            "cost": [choose(file, knob) for knob in KNOBS],
        }
        sides = {
            f"{kind}_{knob:g}": steps_in_c(weights.engine(point), mask)
            for kind, chosen in points.items()
            for knob, point in zip(KNOBS, chosen, strict=True)
        }
        us = medians(sides, options.turns)
    found: Figures = {}
    for kind, chosen in points.items():
        shares = [point.cost for point in chosen]  # by widths alone, a share of the FLOPs
        times = [us[f"{kind}_{knob:g}"] for knob in KNOBS]
        slope, start = np.polyfit(shares, times, 1)
        found[f"{kind}_r2"] = float(np.corrcoef(shares, times)[0, 1] ** 2)
        found[f"{kind}_intercept_over_full"] = float(start / (start + slope))
    return {**found, **{f"us_{name}": value for name, value in us.items()}}


def turning_seconds(predictor: Predictor, knob: float) -> float:
    """Seconds until a position could answer: `turn` leaves making its engine to the first query."""
    start = time.perf_counter()
    predictor.turn(knob)
    _ = predictor._turner.serving().engine
    return time.perf_counter() - start


def measure_turning(options: argparse.Namespace) -> Figures:
    """Turning to positions not visited before, and the memory that the process then has more.

    One after another, and between queries, where the caches hold the weights and not the code that turns.
    """
    seconds: dict[str, list[float]] = {"row": [], "between": []}
    queries, held = list[float](), list[int]()
    for kind in [*seconds] * TURNING_ROUNDS:
        predictor, times = Predictor(DEFAULT_MODEL), seconds[kind]
        predictor.suggest("see you at the")
        for percent in range(99, 14, -1):
            times.append(turning_seconds(predictor, percent / 100))
            if kind == "between":
                held.append(predictor._turner.serving().engine.held_bytes)
                predictor.turn(1.0)
                queries.append(predictor.query_ms(3) / 1000)
    query = statistics.median(queries)
    return {
        "turn_over_query": statistics.median(seconds["row"]) / query,
        "turn_between_queries_over_query": statistics.median(seconds["between"]) / query,
        "turn_bytes": float(max(held)),
        "us_turn": 1e6 * statistics.median(seconds["row"]),
    }


def measure_evaluation(options: argparse.Namespace) -> Figures:
    with open_model(model_path()) as file:
        ((_, split),) = read_splits(file, str(HELD_OUT_TEXT), None, ["test"]).items()
        ids, point = np.asarray(split.ids[:SPEED_TOKENS]), choose(file, 1.0)
        evaluators = {
            f"{precision}_{name}": RuntimeEvaluator(file, precision, 1, name, counts=False)
            for precision in PRECISIONS
            for name in ENGINES
        }
        sides = {name: lambda each=each: each.quality(point, ids) for name, each in evaluators.items()}
        seconds = {name: statistics.median(times) for name, times in interleaved(sides, 5, quiet=True).items()}
    return {
        "evaluate_over_onnx": seconds["int8_core"] / seconds["int8_onnx"],
        "evaluate_fp32_over_onnx": seconds["fp32_core"] / seconds["fp32_onnx"],
        "evaluate_tokens_per_second": len(ids) / seconds["int8_core"],
    }


GROUPS: dict[str, Callable[[argparse.Namespace], Figures]] = {
    "chat": measure_chat,
    "ptb": measure_ptb,
    "line": measure_line,
    "turning": measure_turning,
    "processes": measure_processes,
    "sizes": measure_sizes,
    "quality": measure_quality,
    "words": measure_words,
    "evaluation": measure_evaluation,
}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=list(GROUPS), default=list(GROUPS), help="groups of rows")
    parser.add_argument("--quick", action="store_true", help="a tenth of the turns: to see that all works")
    parser.add_argument("--turns", type=int, default=500, help="interleaved turns of each side")
    before = "the folder of a checkout of an earlier version, whose `suggest` is compared with today's"
    parser.add_argument("--before", type=Path, help=before)
    parser.add_argument("--ptb", type=Path, default=PTB, help="an ordered int8 model of Penn Treebank")
    data = Path(os.environ.get("RHEOSTAT_DATA", "")) / "ptb"
    parser.add_argument("--data", default=str(data) if data.is_dir() else None, help="the folder of Penn Treebank")
    options = parser.parse_args()
    options.tokens, options.contexts = TOKENS, CONTEXTS
    if options.quick:
        options.turns, options.tokens, options.contexts = max(8, options.turns // 10), 2000, 200
    figures: dict[str, Any] = {"engine": "core", "turns": options.turns, "threads": 1, "targets": TARGETS}
    for name in options.only:
        start = time.perf_counter()
        figures |= GROUPS[name](options)
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
    for name, target in TARGETS.items():
        if name in figures:
            print(f"{name}: {figures[name]:.4g} ({target})")
    report_results("runtime", figures, options)


if __name__ == "__main__":
    main()
