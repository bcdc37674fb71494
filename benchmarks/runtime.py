"""ONNX Runtime at full size, in one run: a query against torch, fp32 and memory bandwidth; the knob; memory; start-up.

    python benchmarks/runtime.py --model FILE --json -o results/benchmark-runtime.json

A query is one step of an engine: it reads one more word and finds the three best next words. The sides of a comparison
are interleaved, so load affects them all equally, and medians are taken. With --steps, that many words of random text
are read in one process, to check that memory stays flat and the state stays correct.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from measuring import hand_over, interleaved, interleaved_seconds, make_parser
from rheostat.model.contents import add_rankings, set_default_ranking
from rheostat.model.cut import cut
from rheostat.model.file import ModelFile, open_model
from rheostat.model.knob import choose
from rheostat.model.operating_point import Ranking
from rheostat.model.writer import write_model
from rheostat.runtime.engine import EngineName
from rheostat.runtime.onnx.quantization import prepare
from rheostat.runtime.onnx.session import GraphEngine
from rheostat.runtime.precision import Precision
from rheostat.runtime.predictor import Predictor

ENGINE: EngineName = "onnx"  # of everything here that predicts words
KNOBS = [round(0.1 * tenth, 1) for tenth in range(1, 11)]
QUERIES = 20  # per interleaved turn
KNOB_QUERIES = 4  # the same for knob positions
KNOB_ROUNDS = 2  # times the repeats: a line through ten positions needs more turns than a ratio of two sides
TEXT = "the company said it expects to report a loss for the third quarter"
TARGETS = {
    "torch_over_int8": "at least 5",
    "fp32_over_int8": "at least 2",
    "int8_over_read": "at most 1.5",
    "latency_flops_r2": "at least 0.98",
    "half_point_share": "at most 0.6",
    "visited_turn_over_query": "below 1",
    "new_turn_over_query": "below 150",
    "memory_over_weights": "at most 2.5",
    "first_suggestion_over_imports": "at most 4",
}


@contextmanager
def with_ranking(path: Path) -> Iterator[Path]:
    """The model, with a random ranking to cut by if it has none."""
    with open_model(path) as file, tempfile.TemporaryDirectory() as folder:
        if file.description.default_ranking:
            yield path
            return
        random = np.random.default_rng(1)
        scores = tuple(random.permutation(m).astype(np.float32) for m in file.shape.hidden_sizes)
        ranked = Path(folder) / "ranked.safetensors"
        contents = add_rankings(file.contents(), [Ranking("random", "random", scores, 1)])
        write_model(ranked, set_default_ranking(contents, "random"))
        yield ranked


def make_engine(file: ModelFile, precision: Precision, knob: float, threads: int) -> GraphEngine:
    weights, shape = cut(prepare(file.stored_weights(), precision), file.shape, choose(file, knob))
    return GraphEngine.build(weights, shape, precision, threads)


def make_queries(engine: GraphEngine, queries: int = QUERIES) -> Callable[[], None]:
    tokens = np.random.default_rng(2).integers(0, engine.shape.vocabulary_size, queries).tolist()

    def run() -> None:
        state = engine.initial_state()
        for token in tokens:
            state = engine.step(state, token, 3).state

    return run


def make_torch_queries(file: ModelFile, threads: int, queries: int = QUERIES) -> Callable[[], None]:
    """The torch model, word by word."""
    import torch

    from rheostat.training.language_model import LanguageModel

    torch.set_num_threads(threads)
    model = LanguageModel.from_weights(file.shape, file.weights())
    tokens = torch.from_numpy(np.random.default_rng(2).integers(0, file.shape.vocabulary_size, queries))

    @torch.inference_mode()
    def run() -> None:
        state = model.initial_state(1)
        for token in tokens:
            outputs = model(token.reshape(1, 1), state)
            state = outputs.state
            model.log_probabilities(outputs.dropped[0]).exp().topk(3)

    return run


def make_read(size_bytes: int, threads: int, repeats: int = QUERIES) -> Callable[[], None]:
    """Read this many bytes once with several threads, as fast as NumPy can add: the lower bound for a query."""
    parts = np.array_split(np.ones(size_bytes // 8, np.int64), threads)
    pool = ThreadPoolExecutor(threads)

    def run() -> None:
        for _ in range(repeats):
            list(pool.map(np.add.reduce, parts))

    return run


def measure_queries(file: ModelFile, threads: int, repeats: int) -> dict[str, Any]:
    int8 = make_engine(file, "int8", 1.0, threads)
    seconds = interleaved_seconds(
        {
            "int8": make_queries(int8),
            "fp32": make_queries(make_engine(file, "fp32", 1.0, threads)),
            "torch": make_torch_queries(file, threads),
            "read": make_read(product_bytes(int8), threads),
        },
        repeats,
        quiet=True,
    )
    return {
        "query_ms": {name: 1000 * value / QUERIES for name, value in seconds.items()},
        "torch_over_int8": seconds["torch"] / seconds["int8"],
        "fp32_over_int8": seconds["fp32"] / seconds["int8"],
        "int8_over_read": seconds["int8"] / seconds["read"],
        "read_gb_per_second": product_bytes(int8) * QUERIES / seconds["read"] / 1e9,
    }


def product_bytes(engine: GraphEngine) -> int:
    """Bytes of the int8 matrices that one query multiplies: half as many as its FLOPs."""
    return engine.shape.flops // 2


def measure_knob(file: ModelFile, threads: int, repeats: int) -> dict[str, Any]:
    """Ten positions of the knob, interleaved; the main figures are from turns of KNOB_QUERIES queries.

    Between the turns of a position, the weights of the others fill the processor's cache, as other programs' data does
    between a typist's words. The effect is smaller for longer turns and for small points.
    """
    engines = {f"{knob:g}": make_engine(file, "int8", knob, threads) for knob in KNOBS}
    flops = np.array([engine.shape.flops for engine in engines.values()], float)
    figures: dict[str, Any] = {"by_queries_in_a_row": {}}
    for queries in (1, KNOB_QUERIES, QUERIES):
        sides = {name: make_queries(engine, queries) for name, engine in engines.items()}
        turns = interleaved(sides, KNOB_ROUNDS * repeats * QUERIES // queries, True)
        times = np.array([statistics.median(values) / queries for values in turns.values()])
        found = {
            "latency_flops_r2": float(np.corrcoef(flops, times)[0, 1] ** 2),
            "half_point_share": times[KNOBS.index(0.5)] / times[KNOBS.index(1.0)],
        }
        figures["by_queries_in_a_row"][str(queries)] = found
        if queries == KNOB_QUERIES:
            slope, start = np.polyfit(flops, times, 1)
            figures |= found
            figures["points"] = [
                {"knob": float(name), "flops": engine.shape.flops, "query_ms": 1000 * seconds}
                for (name, engine), seconds in zip(engines.items(), times.tolist(), strict=True)
            ]
            figures["fit"] = {"ms_at_no_flops": 1000 * start, "ms_per_mflop": 1e9 * slope}
    return figures


def measure_turning(path: Path, threads: int, repeats: int) -> dict[str, Any]:
    """Turning to new points and back to a visited one, compared with a query; replaying the text is not counted."""
    predictor = Predictor(path, threads=threads, engine=ENGINE)
    predictor.suggest(TEXT)
    query = statistics.median(predictor.query_ms() for _ in range(repeats)) / 1000
    new, visited = [], []
    for turn in range(repeats):
        for knob, times in ((0.6 - 0.01 * turn, new), (1.0, visited)):
            start = time.perf_counter()
            predictor.turn(knob)
            times.append(time.perf_counter() - start)
    return {
        "visited_turn_over_query": statistics.median(visited) / query,
        "new_turn_over_query": statistics.median(new) / query,
        "first_turn_over_query": new[0] / query,  # this turn reads the weights from the file again and keeps them
        "new_turn_ms": 1000 * statistics.median(new),
    }


IMPORTS = "import onnxruntime, numpy"
FIRST = """
import sys, rheostat
rheostat.load(sys.argv[1], threads=int(sys.argv[2]), engine=sys.argv[4]).suggest(sys.argv[3])
"""
MEMORY = """
import contextlib, gc, json, sys, psutil
import rheostat, rheostat.errors, rheostat.runtime.predictor
def resident():
    gc.collect()
    return psutil.Process().memory_info().rss
sizes = {"imports": resident()}
predictor = rheostat.load(sys.argv[1], threads=int(sys.argv[2]), engine=sys.argv[4])
predictor.suggest(sys.argv[3])
sizes["loaded"] = resident()
with contextlib.suppress(rheostat.errors.RheostatError):  # a model without rankings
    predictor.turn(0.5)
    predictor.suggest(sys.argv[3])
    sizes["turned"] = resident()
print(json.dumps(sizes))
"""


def measure_processes(path: Path, threads: int, repeats: int) -> dict[str, Any]:
    """Whole processes: from nothing to the first suggestion, and what stays in memory."""
    arguments = [str(path), str(threads), TEXT, ENGINE]
    with tempfile.TemporaryDirectory() as folder:
        # Modules must be compiled, as those of installed packages are: the first turn does this.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}

        def start(script: str) -> Callable[[], str]:
            command = [sys.executable, "-c", script, *arguments]
            return lambda: subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout

        seconds = interleaved_seconds({"imports": start(IMPORTS), "first": start(FIRST)}, repeats, quiet=True)
        memory = json.loads(start(MEMORY)())
    with open_model(path) as file:
        weights = sum(size for name, size in int8_bytes(file).items())
    return {
        "first_suggestion_s": seconds["first"],
        "imports_s": seconds["imports"],
        "first_suggestion_over_imports": seconds["first"] / seconds["imports"],
        "memory_mb": {name: size / 1e6 for name, size in memory.items()},
        "int8_weight_mb": weights / 1e6,
        "memory_over_weights": (memory["loaded"] - memory["imports"]) / weights,
    }


def int8_bytes(file: ModelFile) -> dict[str, int]:
    """Bytes of the weights in int8; biases and scales are not counted."""
    return {name: int(np.prod(size)) for name, size in file.shape.tensor_shapes().items() if len(size) == 2}


def measure_endurance(path: Path, steps: int, knob: float) -> dict[str, Any]:
    """Read many words of random text in one process, sometimes deleting words. Not timed, so one thread is enough."""
    predictor = Predictor(path, knob, threads=1, history_bytes=8 << 20, engine=ENGINE)
    random = np.random.default_rng(3)
    words = predictor.vocabulary.words
    process, memory = psutil.Process(), []
    text: list[str] = []
    read = 0
    while read < steps:
        text = text[-400:-2] if len(text) > 500 else text
        text.extend(words[i] for i in random.integers(0, len(words), 5))
        predictor.log_probabilities_after(text)
        read += 5
        if read % (steps // 20) < 5:
            memory.append(process.memory_info().rss / 1e6)
            print(f"{read:,} of {steps:,} words: {memory[-1]:.0f} MB", file=sys.stderr)
    fresh = Predictor(path, knob, threads=1, engine=ENGINE)
    drift = float(np.abs(fresh.log_probabilities_after(text) - predictor.log_probabilities_after(text)).max())
    return {"steps": read, "knob": knob, "memory_mb": memory, "largest_drift_of_log_probabilities": drift}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--model", type=Path, required=True, help="a model file; ptb-qrnn for the figures on record")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=0, help="also read this number of words of random text")
    parser.add_argument("--steps-knob", type=float, default=0.2, help="at this position of the knob")
    arguments: argparse.Namespace = parser.parse_args()
    threads, repeats = arguments.threads, arguments.repeats
    with with_ranking(arguments.model) as path, open_model(path) as file:
        figures: dict[str, Any] = {
            "model": arguments.model.name,
            "engine": ENGINE,
            "threads": threads,
            "targets": TARGETS,
            **measure_queries(file, threads, repeats),
            **measure_knob(file, threads, repeats),
            **measure_turning(path, threads, repeats),
            **measure_processes(path, threads, min(repeats, 7)),
        }
        if arguments.steps:
            figures["endurance"] = measure_endurance(path, arguments.steps, arguments.steps_knob)
    for name, target in TARGETS.items():
        print(f"{name}: {figures[name]:.3f} ({target})")
    hand_over("runtime", figures, arguments)


if __name__ == "__main__":
    main()
