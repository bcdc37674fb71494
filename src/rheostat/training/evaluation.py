"""Quality of a torch model on a text, measured as `rheostat.metrics` defines it.

Stretches are long enough for matrix products to run at full speed. Used during training, on the model's device.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from rheostat.metrics import Quality, QualityCount, read_stream
from rheostat.model.cut import cut
from rheostat.model.file import ModelFile
from rheostat.model.operating_point import OperatingPoint
from rheostat.training import adaptive_softmax
from rheostat.training.cross_entropy import block_size
from rheostat.training.language_model import LanguageModel, Outputs, State

STRETCH = 1024  # tokens


def measure_quality(model: LanguageModel, ids: np.ndarray, progress: Callable[[float], None] | None = None) -> Quality:
    """Perplexity and recall of a model on a stream of token ids. progress: called with the share done."""
    count = QualityCount()
    count_predictions(model, ids, count, progress)
    return count.quality()


@torch.inference_mode()
def count_predictions(
    model: LanguageModel, ids: np.ndarray, count: QualityCount, progress: Callable[[float], None] | None = None
) -> None:
    """Add a model's predictions of a stream of token ids to `count`."""
    device = model.embedding.weight.device

    def predict(state: State, tokens: np.ndarray, following: np.ndarray) -> State:
        outputs: Outputs = model(torch.as_tensor(tokens, device=device)[:, None], state)
        _count_block(model, outputs.dropped[:, 0], torch.as_tensor(following, device=device), count)
        return outputs.state

    read_stream(ids, STRETCH, model.initial_state(1), predict, progress)


def _count_block(model: LanguageModel, hidden: Tensor, targets: Tensor, count: QualityCount) -> None:
    """Count in blocks of tokens, so that the logits of a large vocabulary fit in memory."""
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
        return measure_quality(self.model(point), ids, progress)
