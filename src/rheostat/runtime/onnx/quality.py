"""Perplexity and recall of a graph on a text, by the protocol of `rheostat.metrics`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from rheostat.metrics import Quality, Scores, stream_quality, stretch_size
from rheostat.runtime.onnx.quantization import Floats
from rheostat.runtime.onnx.session import GraphEngine, State

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
