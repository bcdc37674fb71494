"""Perplexity and recall of a cut model on a text, without torch; `rheostat.metrics` defines both.

The text is one stream, read in stretches. The state is carried from stretch to stretch, so their length does not change
the result.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rheostat.metrics import Quality, QualityCount, Scores, read_stream
from rheostat.model.file import ModelFile
from rheostat.model.operating_point import OperatingPoint
from rheostat.runtime.onnx.quantization import Floats, Precision
from rheostat.runtime.onnx.session import Engine
from rheostat.runtime.onnx.session import State as EngineState
from rheostat.runtime.onnx.weights import RuntimeWeights

MOST_TOKENS = 1024  # per stretch
MOST_NUMBERS = 2**23  # log-probabilities held at once: 32 MiB
OPENED = 4  # with an adaptive softmax, a token needs about one word in four, or fewer

State = TypeVar("State")


def engine_quality(
    engine: Engine, ids: NDArray[np.integer], progress: Callable[[float], None] | None = None
) -> Quality:
    """Perplexity and recall of an engine on a stream of token ids. progress: called with the share done."""
    shape = engine.shape
    if not shape.softmax_splits:
        return stream_quality(
            engine.log_probabilities, engine.initial_state(), stretch_size(shape.vocabulary_size), ids, progress
        )
    size = stretch_size(max(shape.softmax_splits[0], shape.vocabulary_size // OPENED))
    return stream_quality(partial(_read_lazily, engine), engine.initial_state(), size, ids, progress)


def _read_lazily(engine: Engine, state: EngineState, ids: NDArray[np.int64]) -> tuple[Scores, EngineState]:
    """Scores of an adaptive softmax, whose tail clusters are opened only for the tokens that need them."""
    hidden, after = engine.hidden(state, ids)
    head, splits = engine.cluster(0, hidden), engine.shape.softmax_splits

    def open_tail(tail: int, rows: NDArray[np.bool_]) -> Floats:
        within = engine.cluster(tail + 1, hidden[rows])
        return np.asarray(within + head[rows, splits[0] + tail][:, None])

    return Scores(head, splits, open_tail), after


def stream_quality(
    read: Callable[[State, NDArray[np.int64]], tuple[Floats | Scores, State]],
    state: State,
    size: int,
    ids: NDArray[np.integer],
    progress: Callable[[float], None] | None = None,
) -> Quality:
    """Perplexity and recall of any model that can `read` a stream of token ids.

    read: takes a state and tokens, returns log p of the words after each token and the next state. size: tokens to
    read at once.
    """
    count = QualityCount()

    def predict(state: State, tokens: NDArray[np.int64], following: NDArray[np.int64]) -> State:
        scores, after = read(state, tokens)
        count.add(scores if isinstance(scores, Scores) else Scores(scores), following)
        return after

    read_stream(ids, size, state, predict, progress)
    return count.quality()


def stretch_size(numbers: int) -> int:
    """How many tokens to read at once if each has this many log-probabilities."""
    return min(MOST_TOKENS, max(1, MOST_NUMBERS // numbers))


class RuntimeEvaluator:
    """Quality of any operating point of a model file; the weights are read once."""

    def __init__(self, file: ModelFile, precision: Precision = "fp32", threads: int = 0) -> None:
        self.shape, self.precision, self.threads = file.shape, precision, threads
        self._weights = RuntimeWeights(file, precision, keep=True)

    def engine(self, point: OperatingPoint) -> Engine:
        """The small dense model of a point, ready to run."""
        weights = self._weights.of(point)
        return Engine(lambda: weights, point.cut_shape(self.shape), self.precision, self.threads, ready=False)

    def quality(
        self, point: OperatingPoint, ids: NDArray[np.integer], progress: Callable[[float], None] | None = None
    ) -> Quality:
        """Perplexity and recall of a point on a stream of token ids."""
        return engine_quality(self.engine(point), ids, progress)
