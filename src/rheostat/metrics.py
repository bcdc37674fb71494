"""Perplexity and recall: what a quality figure means (DESIGN section 3).

A split is one stream of tokens with an `<eos>` per line; the state starts at zero and is carried through; the first
token is given and every following one is predicted once. Knows counts, nothing of models or text.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

RECALL_AT = (1, 3, 5)


def perplexity(loss: float) -> float:
    """exp of the mean negative log-likelihood in nats; infinite where a float has no room for it."""
    return math.exp(loss) if loss < 700 else math.inf


@dataclass(frozen=True)
class Quality:
    """How well a model predicts a text."""

    loss: float  # mean negative log-likelihood of a token, in nats
    recall: dict[int, float]  # k -> share of tokens among the k largest logits, special tokens included
    predictions: int

    @property
    def perplexity(self) -> float:
        return perplexity(self.loss)

    def as_json(self) -> dict[str, Any]:
        recall = {f"recall_at_{k}": share for k, share in self.recall.items()}
        return {"perplexity": self.perplexity, **recall, "tokens": self.predictions}


@dataclass
class QualityCount:
    """Adds up predictions block by block."""

    loss_sum: float = 0.0
    predictions: int = 0

    def __post_init__(self) -> None:
        self.hits = dict.fromkeys(RECALL_AT, 0)

    def add(self, loss_sum: float, hits: dict[int, int], predictions: int) -> None:
        """hits: k -> how many targets had fewer than k words above them."""
        self.loss_sum += loss_sum
        self.predictions += predictions
        for k in RECALL_AT:
            self.hits[k] += hits[k]

    def quality(self) -> Quality:
        recall = {k: hits / self.predictions for k, hits in self.hits.items()}
        return Quality(self.loss_sum / self.predictions, recall, self.predictions)
