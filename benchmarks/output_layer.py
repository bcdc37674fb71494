"""The output layer of an adaptive softmax, in one run: all of it against the lazy exact top three, fp32 and int8.

    python benchmarks/output_layer.py --model FILE --data DIR --json -o results/benchmark-output-layer.json

Every word of a split is a query: the lazy output layer chooses the three best of all words. Its answers are compared
bit by bit with the three best of the whole softmax, computed for many queries at once, which changes no bit of it. For
one query in twenty, evenly spread, both output layers answer one after the other, taking turns at going first: these
are the times; the whole one is the same graph with every cluster opened, and its answers are compared too. Beside them,
the lazy one chooses among the words that a keyboard may suggest. Ratios are of means, as few queries may take most of
the time. At the end, whole processes: memory at int8, the first suggestion.
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
import onnx
import onnxruntime
from numpy.typing import NDArray

from measuring import hand_over, make_parser
from rheostat.corpus import CorpusConfig, load_split
from rheostat.knob import choose
from rheostat.model_file import ModelFile, open_model
from rheostat.operating_point import cut
from rheostat.runtime.completion import Completion
from rheostat.runtime.engine import Engine, Session, State
from rheostat.runtime.graph import build_graph, state_sizes
from rheostat.runtime.operators import IR_VERSION, OPSET
from rheostat.runtime.quantization import Precision, prepare
from rheostat.shape import ModelShape
from runtime import measure_processes

K = 3
ANSWER = ["top_words", "top_probabilities", "opened"]
WARM_UP = 3  # queries that are not timed
TIMED = 20  # one query in so many
TOGETHER = 60  # queries whose whole softmax is computed at once; a multiple of TIMED
LINE_QUERIES = 6000  # between lines of progress
PRECISIONS: tuple[Precision, ...] = ("int8", "fp32")
TIMES = {"lazy": "timed", "whole": "whole", "suggestible": "suggestible"}  # what is reported of which kind
TARGETS = {"int8": "at least 4", "fp32": "at least 4"}


@dataclass
class Kind:
    """What was seen of one way to compute the output layer."""

    seconds: list[float] = field(default_factory=list)
    opened: list[tuple[int, ...]] = field(default_factory=list)

    def ask(self, session: Session, hidden: NDArray[np.float32], allowed: NDArray[np.bool_]) -> list[bytes]:
        """One query; the words and probabilities, bit by bit."""
        feeds = {"hidden": hidden, "k": np.array([K]), "allowed": allowed.view(np.uint8)}
        start = time.perf_counter()
        words, probabilities, opened = session.run(ANSWER, feeds)
        self.seconds.append(time.perf_counter() - start)
        self.opened.append(tuple(opened.tolist()))
        return [words.tobytes(), probabilities.tobytes()]

    def times(self) -> dict[str, float]:
        return in_ms(self.seconds)

    def work(self, shape: ModelShape) -> dict[str, Any]:
        """What was executed, beside the static count."""
        flops = [shape.executed_flops(opened) for opened in self.opened]
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
        self.engine = Engine.build(weights, self.shape, precision, threads)
        self.lazy, self.whole = (
            Session(build_graph(weights, self.shape, precision, "choose", every_cluster=every), weights, threads)
            for every in (False, True)
        )
        self._read = Session(build_graph(weights, self.shape, precision, "read"), weights, threads)
        exponential = onnx.helper.make_graph(
            [onnx.helper.make_node("Exp", ["x"], ["y"])],
            "exp",
            *([onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [K])] for name in "xy"),
        )
        opset = [onnx.helper.make_opsetid("", OPSET)]
        model = onnx.helper.make_model(exponential, opset_imports=opset, ir_version=IR_VERSION)
        self._exp = onnxruntime.InferenceSession(model.SerializeToString())

    def seconds_to_read(self, state: State, token: int) -> float:
        """Of the layers, for one token."""
        names = [f"state.{name}" for name in state_sizes(self.shape)]
        feeds = {"token": np.array([token]), **dict(zip(names, state, strict=True))}
        start = time.perf_counter()
        self._read.run(None, feeds)
        return time.perf_counter() - start

    def answers(self, hidden: NDArray[np.float32]) -> list[list[bytes]]:
        """The K best words of the whole softmax and their probabilities, bit by bit, for each query [T, D]."""
        head, *tails = (self.engine.cluster(cluster, hidden) for cluster in range(len(self.shape.clusters)))
        first = self.shape.softmax_splits[0]
        parts = [head[:, :first]]
        for tail, words in enumerate(tails):
            cluster = head[:, first + tail, None]
            parts.append(np.minimum(words + cluster, cluster))
        return [self._best(np.concatenate([part[row] for part in parts])) for row in range(len(hidden))]

    def _best(self, scores: NDArray[np.float32]) -> list[bytes]:
        threshold = np.partition(scores, -K)[-K]
        words = np.flatnonzero(scores >= threshold)  # in the order of their ids, so that of equals the first is first
        words = words[np.argsort(-scores[words], kind="stable")][:K]
        return [words.tobytes(), self._exp.run(None, {"x": scores[words]})[0].tobytes()]


def measure(
    file: ModelFile, ids: NDArray[np.integer], suggestible: NDArray[np.bool_], precision: Precision, threads: int
) -> dict[str, Any]:
    """All queries of a text in one precision."""
    layers = OutputLayers(file, precision, threads)
    everything = np.ones(layers.shape.vocabulary_size, np.bool_)
    kinds = {name: Kind() for name in ("lazy", "timed", "whole", "suggestible")}
    reading: list[float] = []
    state, differing = layers.engine.initial_state(), 0
    for first in range(0, len(ids), TOGETHER):
        tokens = np.array(ids[first : first + TOGETHER], np.int64)
        rows, after = layers.engine.hidden(state, tokens)
        expected = layers.answers(rows)
        for place, answer in enumerate(expected):
            hidden = rows[place : place + 1]
            if place % TIMED:
                differing += kinds["lazy"].ask(layers.lazy, hidden, everything) != answer
                continue
            reading.append(layers.seconds_to_read(state, int(tokens[place])))
            turns = [("timed", layers.lazy), ("whole", layers.whole)]
            answers = [
                kinds[name].ask(session, hidden, everything) for name, session in turns[:: 1 - 2 * (len(reading) % 2)]
            ]
            differing += any(found != answer for found in answers)
            kinds["suggestible"].ask(layers.lazy, hidden, suggestible)
        state = after
        done = first + len(tokens)
        if done // LINE_QUERIES > first // LINE_QUERIES:
            ratio = sum(kinds["whole"].seconds) / sum(kinds["timed"].seconds)
            print(f"{precision}: {done:,} of {len(ids):,} queries, {differing} differ, {ratio:.2f}", file=sys.stderr)
    return summary(layers.shape, kinds, in_ms(reading), differing)


def summary(shape: ModelShape, kinds: dict[str, Kind], layers_ms: dict[str, float], differing: int) -> dict[str, Any]:
    times = {name: kinds[kind].times() for name, kind in TIMES.items()}
    lazy, whole, read = times["lazy"]["mean"], times["whole"]["mean"], layers_ms["mean"]
    every = Kind(opened=kinds["lazy"].opened + kinds["timed"].opened)
    return {
        "queries": len(every.opened),
        "differing_answers": differing,
        "timed_queries": len(kinds["timed"].seconds),
        "output_layer_ms": times,
        "layers_ms": layers_ms,
        "output_layer_whole_over_lazy": whole / lazy,
        "query_whole_over_lazy": (read + whole) / (read + lazy),
        "static_flops": shape.flops,
        "all_words": every.work(shape),
        "suggestible_words": kinds["suggestible"].work(shape),
    }


def suggestible_words(file: ModelFile) -> NDArray[np.bool_]:
    return Completion(file.vocabulary, file.tokenizer).allowed_mask()


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--model", type=Path, required=True, help="a model file with an adaptive softmax")
    parser.add_argument("--packed", type=Path, help="the same packed to int8, for memory and the first suggestion")
    parser.add_argument("--data", type=Path, required=True, help="its corpus")
    parser.add_argument("--split", default="test")
    parser.add_argument("--tokens", type=int, default=0, help="only so many queries; without it, the whole split")
    parser.add_argument("--threads", type=int, default=2)
    arguments: argparse.Namespace = parser.parse_args()
    with open_model(arguments.model) as file:
        if not file.shape.softmax_splits:
            parser.error(f"{arguments.model} has a plain softmax; expected a model with softmax splits")
        config = CorpusConfig(tokenizer=file.tokenizer)
        ids = load_split(arguments.data, arguments.split, config, file.vocabulary).ids[:-1]
        ids = ids[: arguments.tokens or None]
        figures: dict[str, Any] = {
            "kind": "benchmark-output-layer",
            "model": arguments.model.name,
            "corpus": arguments.data.resolve().name,
            "split": arguments.split,
            "softmax_splits": list(file.shape.softmax_splits),
            "threads": arguments.threads,
            "targets": TARGETS,
            "precisions": {
                precision: measure(file, ids, suggestible_words(file), precision, arguments.threads)
                for precision in PRECISIONS
            },
            **measure_processes(arguments.packed or arguments.model, arguments.threads, min(arguments.repeats, 7)),
        }
    for precision, found in figures["precisions"].items():
        ratio, differing = found["output_layer_whole_over_lazy"], found["differing_answers"]
        print(f"{precision}: the whole output layer takes {ratio:.2f} times as long ({TARGETS[precision]}); ", end="")
        print(f"{differing} of {found['queries']:,} answers differ (none)")
    hand_over(figures, arguments)


if __name__ == "__main__":
    main()
