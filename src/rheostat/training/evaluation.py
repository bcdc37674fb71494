"""Quality of a torch model on a text, by the protocol of `rheostat.metrics`.

One stream, in stretches long enough for the matrix products to run at full rate; the state is carried from stretch to
stretch, so that the length of a stretch changes nothing. Used while training, on whatever device the model is on.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from rheostat.errors import CorpusError
from rheostat.metrics import Quality, QualityCount
from rheostat.model.cut import cut
from rheostat.model.file import ModelFile
from rheostat.model.operating_point import OperatingPoint
from rheostat.training import adaptive_softmax
from rheostat.training.cross_entropy import block_size
from rheostat.training.language_model import LanguageModel

STRETCH = 1024  # tokens


def evaluate(model: LanguageModel, ids: np.ndarray, progress: Callable[[float], None] | None = None) -> Quality:
    """Perplexity and recall on a stream of token ids; progress is told the share done."""
    count = QualityCount()
    count_predictions(model, ids, count, progress)
    return count.quality()


@torch.inference_mode()
def count_predictions(
    model: LanguageModel, ids: np.ndarray, count: QualityCount, progress: Callable[[float], None] | None = None
) -> None:
    """Add a model's predictions of a stream of token ids to `count`."""
    if len(ids) < 2:
        raise CorpusError(f"a text of {len(ids)} token has nothing to predict; expected at least two tokens")
    device = model.embedding.weight.device
    state = model.initial_state(1)
    for first in range(0, len(ids) - 1, STRETCH):
        # The slice of a memory-mapped corpus is copied here: one stretch, never the split.
        stretch = torch.as_tensor(np.array(ids[first : first + STRETCH + 1], dtype=np.int64), device=device)
        outputs = model(stretch[:-1, None], state)
        state = outputs.state
        _count_block(model, outputs.dropped[:, 0], stretch[1:], count)
        if progress:
            progress((first + len(stretch) - 1) / (len(ids) - 1))


def _count_block(model: LanguageModel, hidden: Tensor, targets: Tensor, count: QualityCount) -> None:
    """In blocks of tokens, so that the logits of a large vocabulary fit."""
    output = model.output_weights()
    size = block_size(output.head_size)
    for block, wanted in zip(hidden.split(size), targets.split(size), strict=True):
        count.add(adaptive_softmax.scores(block, output), wanted)


class PointEvaluator:
    """Quality of any operating point of a model file; the weights are read once."""

    def __init__(self, file: ModelFile) -> None:
        self.shape = file.shape
        self._weights = {name: torch.tensor(array) for name, array in file.weights().items()}

    def model(self, point: OperatingPoint) -> LanguageModel:
        """The small dense model of a point."""
        weights, shape = cut(self._weights, self.shape, point)
        return LanguageModel.from_weights(shape, weights)

    def quality(
        self, point: OperatingPoint, ids: np.ndarray, progress: Callable[[float], None] | None = None
    ) -> Quality:
        return evaluate(self.model(point), ids, progress)
