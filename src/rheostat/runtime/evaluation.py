"""Quality of a cut model on a text, on the runtime: the protocol of `rheostat.metrics`, without torch.

One stream, in stretches; the state is carried from stretch to stretch, so that the length of a stretch changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rheostat.errors import CorpusError
from rheostat.metrics import RECALL_AT, Quality, QualityCount
from rheostat.model_file import ModelFile
from rheostat.operating_point import OperatingPoint, cut
from rheostat.runtime.engine import Engine
from rheostat.runtime.quantization import Floats, Precision, prepare

MOST_TOKENS = 1024  # of a stretch
MOST_NUMBERS = 2**23  # log-probabilities held at once: 32 MiB

State = TypeVar("State")


def evaluate(engine: Engine, ids: NDArray[np.integer], progress: Callable[[float], None] | None = None) -> Quality:
    """Perplexity and recall on a stream of token ids; progress is told the share done."""
    return evaluate_stream(
        engine.log_probabilities, engine.initial_state(), engine.shape.vocabulary_size, ids, progress
    )


def evaluate_stream(
    read: Callable[[State, NDArray[np.int64]], tuple[Floats, State]],
    state: State,
    vocabulary_size: int,
    ids: NDArray[np.integer],
    progress: Callable[[float], None] | None = None,
) -> Quality:
    """The same of whatever can `read`: a state and tokens in, log p of every word after each and the next state out."""
    if len(ids) < 2:
        raise CorpusError(
            f"a text of {len(ids)} token has nothing to predict; expected at least two tokens: give more text"
        )
    count, size = QualityCount(), stretch_size(vocabulary_size)
    for first in range(0, len(ids) - 1, size):
        # The slice of a memory-mapped corpus is copied here: one stretch, never the split.
        stretch = np.array(ids[first : first + size + 1], np.int64)
        scores, state = read(state, stretch[:-1])
        _count_predictions(scores, stretch[1:], count)
        if progress:
            progress((first + len(stretch) - 1) / (len(ids) - 1))
    return count.quality()


def stretch_size(vocabulary_size: int) -> int:
    """Tokens of a stretch whose log-probabilities fit."""
    return min(MOST_TOKENS, max(1, MOST_NUMBERS // vocabulary_size))


def _count_predictions(scores: Floats, targets: NDArray[np.int64], count: QualityCount) -> None:
    target = np.take_along_axis(scores, targets[:, None], axis=1)
    above = np.count_nonzero(scores > target, axis=1)  # words ranked before the target
    hits = {k: int(np.count_nonzero(above < k)) for k in RECALL_AT}
    count.add(-float(target.sum(dtype=np.float64)), hits, len(targets))


class RuntimeEvaluator:
    """Quality of any operating point of a model file; the weights are read once."""

    def __init__(self, file: ModelFile, precision: Precision = "fp32", threads: int = 0) -> None:
        self.shape, self.precision, self.threads = file.shape, precision, threads
        self._weights = prepare(file.stored_weights(), precision)

    def engine(self, point: OperatingPoint) -> Engine:
        """The small dense model of a point, ready to run."""
        weights, shape = cut(self._weights, self.shape, point)
        return Engine.build(weights, shape, self.precision, self.threads)

    def quality(
        self, point: OperatingPoint, ids: NDArray[np.integer], progress: Callable[[float], None] | None = None
    ) -> Quality:
        return evaluate(self.engine(point), ids, progress)
