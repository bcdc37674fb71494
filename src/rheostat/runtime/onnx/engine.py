"""ONNX Runtime as an engine: the second opinion that the core is held to, and what runs LSTMs and int4."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rheostat.model.operating_point import OperatingPoint
from rheostat.model.shape import ModelShape
from rheostat.runtime.engine import Floats, Ids
from rheostat.runtime.onnx.session import GraphEngine, GraphReading, State
from rheostat.runtime.onnx.weights import RuntimeWeights
from rheostat.runtime.precision import Precision
from rheostat.words.completion import Best, most_probable


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

    def best(
        self,
        reading: GraphReading,
        k: int,
        *,
        mask: NDArray[np.bool_] | None = None,
        candidates: NDArray[np.integer[Any]] | None = None,
    ) -> Best:
        ids = candidates if mask is None else np.flatnonzero(mask)
        if ids is None:
            ids = np.arange(self.shape.vocabulary_size)
        if mask is None and reading.closed:
            mask = np.zeros(self.shape.vocabulary_size, np.bool_)
            mask[ids] = True
        return most_probable(self.graph.look_up(reading, k, mask), ids, k)

    def log_probabilities(self, reading: GraphReading) -> Floats:
        return self.graph.look_up(reading).copy()  # the reading keeps its own

    def executed_flops(self, reading: GraphReading) -> int:
        return self.graph.executed_flops(reading)
