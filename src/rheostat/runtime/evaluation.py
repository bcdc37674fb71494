"""Perplexity and recall of a cut model on a text, without torch; `rheostat.metrics` defines both.

The text is one stream, read in stretches. The state is carried from stretch to stretch, so their length does not change
the result.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rheostat.core.values import Block
from rheostat.metrics import MOST_TOKENS, Quality, QualityCount, read_stream
from rheostat.model.file import ModelFile
from rheostat.model.operating_point import OperatingPoint
from rheostat.model.precision import Precision
from rheostat.runtime.engine import (
    Cache,
    CachedEngine,
    CachedState,
    CoreEngine,
    EngineName,
    choose_engine,
    reads_mapped,
)
from rheostat.runtime.points import engines_of


def core_quality(
    engine: CoreEngine, ids: NDArray[np.integer], progress: Callable[[float], None] | None = None
) -> Quality:
    """Perplexity and recall of the core at one position; nothing of the vocabulary's size leaves C."""
    count = QualityCount()

    def predict(state: Block, tokens: NDArray[np.int64], following: NDArray[np.int64]) -> Block:
        words = np.append(tokens, following[-1])
        after, own, above = engine.model.evaluate(engine.position, state, words)
        count.add_ranked(own, above)
        return after

    read_stream(ids, MOST_TOKENS, engine.start(), predict, progress)
    return count.quality()


def core_log_probabilities(engine: CoreEngine, ids: NDArray[np.integer]) -> NDArray[np.float32]:
    """log p of every token of a stream but the first, [tokens - 1]."""
    found: list[NDArray[np.float32]] = []

    def predict(state: Block, tokens: NDArray[np.int64], following: NDArray[np.int64]) -> Block:
        after, own, _ = engine.model.evaluate(engine.position, state, np.append(tokens, following[-1]))
        found.append(np.asarray(own, np.float32))
        return after

    read_stream(ids, MOST_TOKENS, engine.start(), predict)
    return np.concatenate(found)


def cached_quality(
    engine: CachedEngine, ids: NDArray[np.integer], progress: Callable[[float], None] | None = None
) -> Quality:
    """The same with a cache, which every word changes: one query per token."""
    count = QualityCount()

    def predict(state: CachedState, tokens: NDArray[np.int64], following: NDArray[np.int64]) -> CachedState:
        own, above = np.empty(len(tokens), np.float32), np.empty(len(tokens), np.int32)
        for place, (token, target) in enumerate(zip(tokens.tolist(), following.tolist(), strict=True)):
            reading = engine.read(state, token)
            scores = engine.log_probabilities(reading)
            own[place], above[place] = scores[target], np.count_nonzero(scores > scores[target])
            state = engine.after(reading)
        count.add_ranked(own, above)
        return state

    read_stream(ids, MOST_TOKENS, engine.start(), predict, progress)
    return count.quality()


class RuntimeEvaluator:
    """Quality of any operating point of a model file; the weights are read once."""

    def __init__(
        self,
        file: ModelFile,
        precision: Precision = "fp32",
        threads: int = 0,
        engine: EngineName | None = None,
        counts: bool = True,
        cache: Cache | None = None,
    ) -> None:
        """threads, engine, counts, cache: as for `rheostat.load`."""
        engines = engines_of(file, precision, threads, engine, serves=False, counts=counts, cache=cache)
        self._engine_of = engines.of_point
        self.engine: EngineName = choose_engine(file.shape, precision, engine)
        self._mapped = file if reads_mapped(file, precision, self.engine) else None

    def quality(
        self, point: OperatingPoint, ids: NDArray[np.integer], progress: Callable[[float], None] | None = None
    ) -> Quality:
        """Perplexity and recall of a point on a stream of token ids."""
        engine = self._engine_of(point)

        def watched(share: float) -> None:
            if self._mapped is not None:
                self._mapped.check_unchanged()  # no figure is of two files
            if progress:
                progress(share)

        if isinstance(engine, CoreEngine):
            return core_quality(engine, ids, watched)
        if isinstance(engine, CachedEngine):
            return cached_quality(engine, ids, watched)
        from rheostat.runtime.onnx.engine import (
            OnnxEngine,  # here, since the core does without it
            graph_quality,
        )

        assert isinstance(engine, OnnxEngine)
        return graph_quality(engine.graph, ids, progress)

    def log_probabilities(self, point: OperatingPoint, ids: NDArray[np.integer]) -> NDArray[np.float32]:
        """log p of every token of a stream but the first, [tokens - 1]; on the core, without a cache."""
        engine = self._engine_of(point)
        assert isinstance(engine, CoreEngine)
        return core_log_probabilities(engine, ids)
