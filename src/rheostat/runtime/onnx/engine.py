"""ONNX Runtime as an engine: the second opinion that the core is held to, and what runs LSTMs.

Also the perplexity and recall of a graph on a text, by the protocol of `rheostat.metrics`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rheostat.metrics import Quality, Scores, stream_quality, stretch_size
from rheostat.model.operating_point import OperatingPoint
from rheostat.model.precision import Precision
from rheostat.model.shape import ModelShape
from rheostat.runtime.engine import Floats, Ids
from rheostat.runtime.onnx.session import GraphEngine, GraphReading, State
from rheostat.runtime.onnx.weights import RuntimeWeights
from rheostat.words.completion import BestWords, Candidates, most_probable


class OnnxEngine:
    """One cut model in ONNX Runtime's sessions."""

    def __init__(
        self,
        weights: RuntimeWeights,
        point: OperatingPoint,
        shape: ModelShape,
        precision: Precision,
        threads: int,
        ready: bool,
    ) -> None:
        """shape: of the whole model. ready: open what a query needs now, not when it is first needed."""
        self.shape = point.cut_shape(shape)
        self.graph = GraphEngine(partial(weights.of, point), self.shape, precision, threads, ready=ready)

    @property
    def weight_bytes(self) -> int:
        return self.graph.weight_bytes

    @property
    def held_bytes(self) -> int:
        return self.graph.session_bytes

    def start(self) -> State:
        return self.graph.initial_state()

    def after(self, reading: GraphReading) -> State:
        return reading.state

    def read(self, state: State, token: int) -> GraphReading:
        return self.graph.read(state, token)

    def replay(self, state: State, ids: Ids) -> State:
        return self.graph.replay(state, ids)

    def query(
        self, state: State, token: int, k: int, mask: NDArray[np.bool_] | None = None
    ) -> tuple[GraphReading, BestWords]:
        reading = self.read(state, token)
        return reading, self.best(reading, k, mask=mask)

    def best(
        self,
        reading: GraphReading,
        k: int,
        *,
        mask: NDArray[np.bool_] | None = None,
        candidates: Candidates | None = None,
    ) -> BestWords:
        if candidates is not None:
            ids: NDArray[np.integer[Any]] = candidates.numbers
        else:
            ids = np.arange(self.shape.vocabulary_size) if mask is None else np.flatnonzero(mask)
        if mask is None and reading.closed:
            mask = np.zeros(self.shape.vocabulary_size, np.bool_)
            mask[ids] = True
        return most_probable(self.graph.look_up(reading, k, mask), ids, k).pairs()

    def log_probabilities(self, reading: GraphReading) -> Floats:
        return self.graph.look_up(reading).copy()  # the reading keeps its own

    def executed_flops(self, reading: GraphReading) -> int:
        return self.graph.executed_flops(reading)


OPENED = 4  # with an adaptive softmax, about one in four of all words or fewer has to be looked at per token


def graph_quality(
    engine: GraphEngine, ids: NDArray[np.integer], progress: Callable[[float], None] | None = None
) -> Quality:
    """Perplexity and recall of an engine on a stream of token ids. progress: called with the share done."""
    shape = engine.shape
    if not shape.softmax_splits:
        return stream_quality(
            engine.log_probabilities, engine.initial_state(), stretch_size(shape.vocabulary_size), ids, progress
        )
    size = stretch_size(max(shape.softmax_splits[0], shape.vocabulary_size // OPENED))
    return stream_quality(partial(_read_lazily, engine), engine.initial_state(), size, ids, progress)


def _read_lazily(engine: GraphEngine, state: State, ids: NDArray[np.int64]) -> tuple[Scores, State]:
    """Scores of an adaptive softmax, whose tail clusters are opened only for the tokens that need them."""
    hidden, after = engine.hidden(state, ids)
    head, splits = engine.cluster(0, hidden), engine.shape.softmax_splits

    def open_tail(tail: int, rows: NDArray[np.bool_]) -> Floats:
        within = engine.cluster(tail + 1, hidden[rows])
        return np.asarray(within + head[rows, splits[0] + tail][:, None])

    return Scores(head, splits, open_tail), after
