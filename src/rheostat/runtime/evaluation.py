"""Quality of a cut model on a text, on the runtime: the protocol of `rheostat.metrics`, without torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rheostat.metrics import Quality, QualityCount, Scores, read_stream
from rheostat.model.cut import cut
from rheostat.model.file import ModelFile
from rheostat.model.operating_point import OperatingPoint
from rheostat.runtime.onnx.quantization import Floats, Precision, prepare
from rheostat.runtime.onnx.session import Engine
from rheostat.runtime.onnx.session import State as EngineState

MOST_TOKENS = 1024  # of a stretch
MOST_NUMBERS = 2**23  # log-probabilities held at once: 32 MiB
OPENED = 4  # of an adaptive softmax, about one in so many words of all tokens has to be looked at, or fewer

State = TypeVar("State")


def evaluate(engine: Engine, ids: NDArray[np.integer], progress: Callable[[float], None] | None = None) -> Quality:
    """Perplexity and recall on a stream of token ids; progress is told the share done."""
    shape = engine.shape
    if not shape.softmax_splits:
        return evaluate_stream(
            engine.log_probabilities, engine.initial_state(), stretch_size(shape.vocabulary_size), ids, progress
        )
    size = stretch_size(max(shape.softmax_splits[0], shape.vocabulary_size // OPENED))
    return evaluate_stream(partial(_read_lazily, engine), engine.initial_state(), size, ids, progress)


def _read_lazily(engine: Engine, state: EngineState, ids: NDArray[np.int64]) -> tuple[Scores, EngineState]:
    """An adaptive softmax, whose tail clusters are opened for the tokens that need them."""
    hidden, after = engine.hidden(state, ids)
    head, splits = engine.cluster(0, hidden), engine.shape.softmax_splits

    def open_tail(tail: int, rows: NDArray[np.bool_]) -> Floats:
        within = engine.cluster(tail + 1, hidden[rows])
        return np.asarray(within + head[rows, splits[0] + tail][:, None])

    return Scores(head, splits, open_tail), after


def evaluate_stream(
    read: Callable[[State, NDArray[np.int64]], tuple[Floats | Scores, State]],
    state: State,
    size: int,
    ids: NDArray[np.integer],
    progress: Callable[[float], None] | None = None,
) -> Quality:
    """The same of whatever can `read`: a state and tokens in, log p of the words after each and the next state out.

    size: tokens that are read at once.
    """
    count = QualityCount()

    def predict(state: State, tokens: NDArray[np.int64], following: NDArray[np.int64]) -> State:
        scores, after = read(state, tokens)
        count.add(scores if isinstance(scores, Scores) else Scores(scores), following)
        return after

    read_stream(ids, size, state, predict, progress)
    return count.quality()


def stretch_size(numbers: int) -> int:
    """Tokens of a stretch whose log-probabilities fit, of which each has so many."""
    return min(MOST_TOKENS, max(1, MOST_NUMBERS // numbers))


class RuntimeEvaluator:
    """Quality of any operating point of a model file; the weights are read once."""

    def __init__(self, file: ModelFile, precision: Precision = "fp32", threads: int = 0) -> None:
        self.shape, self.precision, self.threads = file.shape, precision, threads
        self._weights = prepare(file.stored_weights(), precision)

    def engine(self, point: OperatingPoint) -> Engine:
        """The small dense model of a point, ready to run."""
        weights, shape = cut(self._weights, self.shape, point)
        return Engine.build(weights, shape, self.precision, self.threads, ready=False)

    def quality(
        self, point: OperatingPoint, ids: NDArray[np.integer], progress: Callable[[float], None] | None = None
    ) -> Quality:
        return evaluate(self.engine(point), ids, progress)
