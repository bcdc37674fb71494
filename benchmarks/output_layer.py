"""The output layer of an adaptive softmax, in one run: all of it against the lazy exact top three, fp32 and int8.

    python benchmarks/output_layer.py --model FILE --data DIR --json -o results/benchmark-output-layer.json

Every word of a split is a query: the layers read it, then both output layers choose the three best of all words, taking
turns at going first. Answers are compared bit by bit. The whole output layer is the same graph with every cluster
opened. Beside them, the lazy one chooses among the words that a keyboard may suggest. Ratios are of means over all
queries, as few of them may take most of the time. At the end, whole processes: memory at int8, the first suggestion.
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

from measuring import hand_over, make_parser
from rheostat.corpus import CorpusConfig, load_split
from rheostat.knob import choose
from rheostat.model_file import ModelFile, open_model
from rheostat.operating_point import cut
from rheostat.runtime.completion import Completion
from rheostat.runtime.engine import Session
from rheostat.runtime.graph import build_graph, state_sizes
from rheostat.runtime.quantization import Precision, prepare
from rheostat.shape import ModelShape
from runtime import measure_processes

K = 3
ANSWER = ["top_words", "top_probabilities", "opened"]
WARM_UP = 3  # queries that are not timed
LINE_QUERIES = 1000  # between lines of progress
PRECISIONS: tuple[Precision, ...] = ("int8", "fp32")
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


def measure(
    file: ModelFile, ids: Sequence[int], suggestible: NDArray[np.bool_], precision: Precision, threads: int
) -> dict[str, Any]:
    """All queries of a text in one precision."""
    weights, shape = cut(prepare(file.stored_weights(), precision), file.shape, choose(file, 1.0))
    weights = prepare(weights, precision)
    layers = Session(build_graph(weights, shape, precision, "read"), weights, threads)
    lazy, whole = (
        Session(build_graph(weights, shape, precision, "choose", every_cluster=every), weights, threads)
        for every in (False, True)
    )
    everything = np.ones(shape.vocabulary_size, np.bool_)
    kinds = {"lazy": Kind(), "whole": Kind(), "suggestible": Kind()}
    names = [f"state.{name}" for name in state_sizes(shape)]
    state = [np.zeros((1, size), np.float32) for size in state_sizes(shape).values()]
    reading, differing = [], 0
    for query, token in enumerate(ids):
        start = time.perf_counter()
        hidden, *state = layers.run(None, {"token": np.array([token]), **dict(zip(names, state, strict=True))})
        reading.append(time.perf_counter() - start)
        turns = [("lazy", lazy), ("whole", whole)]
        answers = [kinds[name].ask(session, hidden, everything) for name, session in turns[:: 1 - 2 * (query % 2)]]
        differing += answers[0] != answers[1]
        kinds["suggestible"].ask(lazy, hidden, suggestible)
        if query % LINE_QUERIES == LINE_QUERIES - 1:
            print(f"{precision}: {query + 1:,} of {len(ids):,} queries, {differing} differ", file=sys.stderr)
    return summary(shape, kinds, in_ms(reading), differing)


def summary(shape: ModelShape, kinds: dict[str, Kind], layers_ms: dict[str, float], differing: int) -> dict[str, Any]:
    times = {name: kind.times() for name, kind in kinds.items()}
    lazy, whole, read = times["lazy"]["mean"], times["whole"]["mean"], layers_ms["mean"]
    return {
        "queries": len(kinds["lazy"].seconds),
        "differing_answers": differing,
        "output_layer_ms": times,
        "layers_ms": layers_ms,
        "output_layer_whole_over_lazy": whole / lazy,
        "query_whole_over_lazy": (read + whole) / (read + lazy),
        "static_flops": shape.flops,
        "all_words": kinds["lazy"].work(shape),
        "suggestible_words": kinds["suggestible"].work(shape),
    }


def suggestible_words(file: ModelFile) -> NDArray[np.bool_]:
    return Completion(file.vocabulary, file.tokenizer).allowed_mask()


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--model", type=Path, required=True, help="a model file with an adaptive softmax")
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
        ids = ids[: arguments.tokens] if arguments.tokens else ids
        figures: dict[str, Any] = {
            "kind": "benchmark-output-layer",
            "model": arguments.model.name,
            "corpus": arguments.data.resolve().name,
            "split": arguments.split,
            "softmax_splits": list(file.shape.softmax_splits),
            "threads": arguments.threads,
            "targets": TARGETS,
            "precisions": {
                precision: measure(file, ids.tolist(), suggestible_words(file), precision, arguments.threads)
                for precision in PRECISIONS
            },
            **measure_processes(arguments.model, arguments.threads, min(arguments.repeats, 7)),
        }
    for precision, found in figures["precisions"].items():
        ratio, differing = found["output_layer_whole_over_lazy"], found["differing_answers"]
        print(f"{precision}: the whole output layer takes {ratio:.2f} times as long ({TARGETS[precision]}); ", end="")
        print(f"{differing} of {found['queries']:,} answers differ (none)")
    hand_over(figures, arguments)


if __name__ == "__main__":
    main()
