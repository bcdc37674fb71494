"""A long text as batches for truncated back-propagation: B stretches of it, read in parallel.

The start and length of a batch depend only on the seed and the step number, so a resumed run, and every process of a
distributed run, sees the same batches. Knows ids; knows nothing of words.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rheostat.errors import CorpusError
from rheostat.training.configuration import TrainConfig

SHORTEST = 5  # steps


class Batches:
    """The text as B columns, or the columns that one process of a distributed run reads."""

    def __init__(self, ids: np.ndarray, batch_size: int, columns: slice = slice(None)) -> None:
        self.rows = len(ids) // batch_size
        if self.rows < 2:
            raise CorpusError(
                f"the training text has {len(ids)} tokens, too few for {batch_size} parallel texts; "
                "expected at least two tokens for each (lower train.batch_size)"
            )
        # A view: only the rows of the current batch are read from a memory-mapped corpus.
        self._columns = ids[: self.rows * batch_size].reshape(batch_size, self.rows)[columns]

    def batch(self, position: int, length: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets [T, B] starting at row `position`; T is at most `length`."""
        last = min(position + length, self.rows - 1)
        stretch = np.array(self._columns[:, position : last + 1].T, dtype=np.int64)
        return torch.from_numpy(stretch[:-1]), torch.from_numpy(stretch[1:])

    def has(self, position: int) -> bool:
        """Whether a batch can start at this row."""
        return position < self.rows - 1


def draw_length(config: TrainConfig, step: int) -> int:
    """The back-propagation length of a step (Merity et al.: the full length or, rarely, half of it, plus noise)."""
    if not config.random_length:
        return config.sequence_length
    random = np.random.default_rng((config.seed, step))
    base = config.sequence_length if random.random() < 0.95 else config.sequence_length / 2
    return max(SHORTEST, int(random.normal(base, 5)))
