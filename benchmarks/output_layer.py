"""The output layer of an adaptive softmax, in one run: computed whole against the lazy exact top three, fp32 and int8.

    python benchmarks/output_layer.py --model FILE --data DIR --json -o results/benchmark-output-layer.json

Every word of a split is a query: the lazy output layer chooses the three best of all words. First come the times. For
one query in forty, evenly spread, the lazy output layer and the whole one (the same graph with every cluster opened)
both answer, in alternating order. Their answers must be bit-identical. The lazy one also chooses among the words
that a keyboard may suggest. Ratios are of means, since a few queries can take most of the time. Then all lazy answers
are compared, bit by bit, with the three best of the whole softmax, computed for many queries at once. Finally, whole
processes are measured: memory in int8, and the first suggestion.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from footprint import TEXT, run_processes
from measuring import make_parser, report_results
from rheostat.measure.resident_memory import resident_memory
from rheostat.model.cut import cut
from rheostat.model.file import ModelFile, open_model
from rheostat.model.flops import executed_flops
from rheostat.model.knob import choose
from rheostat.model.precision import Precision
from rheostat.model.shape import ModelShape
from rheostat.runtime.onnx.graph import build_graph, state_sizes
from rheostat.runtime.onnx.graph_files import onnx
from rheostat.runtime.onnx.operators import IR_VERSION, OPSET
from rheostat.runtime.onnx.session import GraphEngine, Session, onnxruntime
from rheostat.runtime.onnx.weights import prepare
from rheostat.text.corpus import CorpusConfig, load_split
from rheostat.words.completion import Completion

K = 3
ANSWER = ["top_words", "top_probabilities", "opened"]
WARM_UP = 3  # queries that are not timed
TIMED = 40  # one query in this number is timed
TOGETHER = 60  # queries whose layers, and whose whole softmax, are computed at once
LINE_CHUNKS = 100  # between lines of progress
PRECISIONS: tuple[Precision, ...] = ("int8", "fp32")
TARGETS = {"int8": "at least 4", "fp32": "at least 4"}


@dataclass
class Kind:
    """Measurements of one way to compute the output layer."""

    seconds: list[float] = field(default_factory=list)
    opened: list[tuple[int, ...]] = field(default_factory=list)

    def ask(self, session: Session, hidden: NDArray[np.float32], allowed: NDArray[np.bool_]) -> list[bytes]:
        """One query; returns the words and probabilities as bytes."""
        feeds = {"hidden": hidden, "k": np.array([K]), "allowed": allowed.view(np.uint8)}
        start = time.perf_counter()
        words, probabilities, opened = session.run(ANSWER, feeds)
        self.seconds.append(time.perf_counter() - start)
        self.opened.append(tuple(opened.tolist()))
        return [words.tobytes(), probabilities.tobytes()]

    def work(self, shape: ModelShape) -> dict[str, Any]:
        """The FLOPs executed, to compare with the static count."""
        flops = [executed_flops(shape, opened) for opened in self.opened]
        clusters = Counter(sum(opened) for opened in self.opened)
        return {
            "share_of_queries_by_clusters_opened": {
                str(count): clusters[count] / len(flops) for count in range(len(shape.softmax_splits) + 1)
            },
            "share_of_queries_that_open_each": np.mean(self.opened, axis=0).tolist(),
            "mean_flops": statistics.fmean(flops),
            "worst_flops": max(flops),
        }


def in_ms(seconds: Sequence[float]) -> dict[str, float]:
    timed = seconds[WARM_UP:]
    return {"mean": 1000 * statistics.fmean(timed), "median": 1000 * statistics.median(timed)}


class OutputLayers:
    """The output layer of one model in one precision: lazy, whole, and whole for many queries at once."""

    def __init__(self, file: ModelFile, precision: Precision, threads: int) -> None:
        weights, self.shape = cut(prepare(file.stored_weights(), precision), file.shape, choose(file, 1.0))
        self.engine = GraphEngine.build(weights, self.shape, precision, threads)
        self.lazy, self.whole = (
            Session(build_graph(weights, self.shape, precision, "choose", every_cluster=every), weights, threads)
            for every in (False, True)
        )
        self._read = Session(build_graph(weights, self.shape, precision, "read"), weights, threads)
        self.everything = np.ones(self.shape.vocabulary_size, np.bool_)
        exponential = onnx.helper.make_graph(
            [onnx.helper.make_node("Exp", ["x"], ["y"])],
            "exp",
            *([onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [K])] for name in "xy"),
        )
        opset = [onnx.helper.make_opsetid("", OPSET)]
        model = onnx.helper.make_model(exponential, opset_imports=opset, ir_version=IR_VERSION)
        self._exp = onnxruntime.InferenceSession(model.SerializeToString())

    def hidden(self, ids: NDArray[np.integer]) -> NDArray[np.float32]:
        """The inputs of the output layer for every query of a text [T, D]."""
        state, rows = self.engine.initial_state(), np.empty((len(ids), self.shape.output_size), np.float32)
        for chunk in chunks(len(ids)):
            rows[chunk], state = self.engine.hidden(state, np.array(ids[chunk], np.int64))
        return rows

    def seconds_to_read(self, token: int) -> float:
        """Seconds that the layers take for one token; the time does not depend on the state."""
        names = [f"state.{name}" for name in state_sizes(self.shape)]
        feeds = {"token": np.array([token]), **dict(zip(names, self.engine.initial_state(), strict=True))}
        start = time.perf_counter()
        self._read.run(None, feeds)
        return time.perf_counter() - start

    def answers(self, hidden: NDArray[np.float32]) -> list[list[bytes]]:
        """The K best words of the whole softmax and their probabilities, as bytes, for each query [T, D]."""
        head, *tails = (self.engine.cluster(cluster, hidden) for cluster in range(len(self.shape.clusters)))
        first = self.shape.softmax_splits[0]
        parts = [head[:, :first]]
        for tail, words in enumerate(tails):
            cluster = head[:, first + tail, None]
            parts.append(np.minimum(words + cluster, cluster))
        return [self._best([part[row] for part in parts]) for row in range(len(hidden))]

    def _best(self, parts: list[NDArray[np.float32]]) -> list[bytes]:
        scores = np.concatenate(parts)
        some = parts[0] if len(parts[0]) >= K else scores
        threshold = np.partition(some, -K)[-K]  # the best K of all are no worse than the best K of the head
        words = np.flatnonzero(scores >= threshold)  # in order of id, so that ties go to the lower id
        words = words[np.argsort(-scores[words], kind="stable")][:K]
        return [words.tobytes(), self._exp.run(None, {"x": scores[words]})[0].tobytes()]


def chunks(queries: int) -> list[slice]:
    return [slice(first, min(first + TOGETHER, queries)) for first in range(0, queries, TOGETHER)]


def measure(
    file: ModelFile, ids: NDArray[np.integer], suggestible: NDArray[np.bool_], precision: Precision, threads: int
) -> dict[str, Any]:
    """All queries of a text in one precision."""
    layers = OutputLayers(file, precision, threads)
    rows = layers.hidden(ids)
    print(f"{precision}: timing", file=sys.stderr)
    figures = measure_times(layers, ids[::TIMED], rows[::TIMED], suggestible)
    print(f"{precision}: timed, {figures['output_layer_whole_over_lazy']:.2f}", file=sys.stderr)
    return {**compare(layers, rows, precision), **figures}


def measure_times(
    layers: OutputLayers, ids: NDArray[np.integer], rows: NDArray[np.float32], suggestible: NDArray[np.bool_]
) -> dict[str, Any]:
    """Both output layers, one query after another."""
    kinds = {"lazy": Kind(), "whole": Kind(), "suggestible": Kind()}
    turns = [("lazy", layers.lazy), ("whole", layers.whole)]
    reading, differing = [], 0
    for token, row in zip(ids.tolist(), rows, strict=True):
        reading.append(layers.seconds_to_read(token))
        first, second = (kinds[name].ask(session, row[None], layers.everything) for name, session in turns)
        differing += first != second
        kinds["suggestible"].ask(layers.lazy, row[None], suggestible)
        turns.reverse()
    times, layers_ms = {name: in_ms(kind.seconds) for name, kind in kinds.items()}, in_ms(reading)
    lazy, whole, read = times["lazy"]["mean"], times["whole"]["mean"], layers_ms["mean"]
    return {
        "timed_queries": len(rows),
        "differing_timed_answers": differing,
        "output_layer_ms": times,
        "layers_ms": layers_ms,
        "output_layer_whole_over_lazy": whole / lazy,
        "query_whole_over_lazy": (read + whole) / (read + lazy),
        "suggestible_words": kinds["suggestible"].work(layers.shape),
    }


def compare(layers: OutputLayers, rows: NDArray[np.float32], precision: Precision) -> dict[str, Any]:
    """Compare every answer of the lazy output layer with the whole softmax."""
    lazy, differing = Kind(), 0
    for number, chunk in enumerate(chunks(len(rows))):
        if number % LINE_CHUNKS == 0:
            print(f"{precision}: {chunk.start:,} of {len(rows):,} queries, {differing} differ", file=sys.stderr)
        hidden = rows[chunk]
        for row, answer in zip(hidden, layers.answers(hidden), strict=True):
            differing += lazy.ask(layers.lazy, row[None], layers.everything) != answer
    return {
        "queries": len(rows),
        "differing_answers": differing,
        "static_flops": layers.shape.flops,
        "all_words": lazy.work(layers.shape),
    }


def measure_process(model: Path, threads: int, turns: int) -> dict[str, Any]:
    """A process that loads the model and makes its first suggestion: its seconds and its memory."""
    memory = resident_memory(model, 1.0, None, "int8", threads, [TEXT])
    seconds, _ = run_processes(model, turns)
    loaded = None if memory is None else memory.resident_bytes / 1e6
    return {"first_suggestion_s": seconds["first"], "memory_mb": {"loaded": loaded}}


def suggestible_words(file: ModelFile) -> NDArray[np.bool_]:
    return Completion(file.vocabulary, file.tokenizer).allowed_mask()


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--model", type=Path, required=True, help="a model file with an adaptive softmax")
    parser.add_argument("--packed", type=Path, help="the same packed to int8, for memory and the first suggestion")
    parser.add_argument("--data", type=Path, required=True, help="its corpus")
    parser.add_argument("--split", default="test")
    parser.add_argument("--tokens", type=int, default=0, help="number of queries; 0 = the whole split")
    parser.add_argument("--threads", type=int, default=1)
    arguments: argparse.Namespace = parser.parse_args()
    with open_model(arguments.model) as file:
        if not file.shape.softmax_splits:
            parser.error(f"{arguments.model} has a plain softmax; expected a model with softmax splits")
        config = CorpusConfig(tokenizer=file.tokenizer)
        ids = load_split(arguments.data, arguments.split, config, file.vocabulary).ids[:-1]
        ids = ids[: arguments.tokens or None]
        if len(ids) <= WARM_UP * TIMED:
            parser.error(f"{len(ids)} queries; expected more than {WARM_UP * TIMED}, of which one in {TIMED} is timed")
        figures: dict[str, Any] = {
            "model": arguments.model.name,
            "engine": "onnx",
            "corpus": arguments.data.resolve().name,
            "split": arguments.split,
            "softmax_splits": list(file.shape.softmax_splits),
            "threads": arguments.threads,
            "targets": TARGETS,
            "precisions": {
                precision: measure(file, ids, suggestible_words(file), precision, arguments.threads)
                for precision in PRECISIONS
            },
            **measure_process(arguments.packed or arguments.model, arguments.threads, min(arguments.repeats, 7)),
        }
    for precision, found in figures["precisions"].items():
        ratio = found["output_layer_whole_over_lazy"]
        differing = found["differing_answers"] + found["differing_timed_answers"]
        print(f"{precision}: the whole output layer takes {ratio:.2f} times as long ({TARGETS[precision]}); ", end="")
        print(f"{differing} of {found['queries']:,} answers differ (none)")
    report_results("output-layer", figures, arguments)


if __name__ == "__main__":
    main()
