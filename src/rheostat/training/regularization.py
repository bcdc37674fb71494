"""Regularization, which keeps a language model from memorising its text, after Merity et al. (2017).

Locked dropout (one mask for all steps of a text), embedding dropout (whole words), weight drop (entries of a matrix),
and the two activation penalties. Every function is the identity, or zero, at strength 0. Knows nothing of models.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

PENALTIES = ("activation", "temporal_activation")


@dataclass(frozen=True)
class RegularizationConfig:
    """The `[regularization]` table of a recipe: dropout probabilities and weights of penalties."""

    dropout_embedding: float = 0.0  # whole words of the embedding
    dropout_input: float = 0.0  # what the first layer reads
    dropout_hidden: float = 0.0  # between layers
    dropout_output: float = 0.0  # what the output layer reads
    weight_drop: float = 0.0  # QRNN: the stacked matrix; LSTM: hidden to hidden
    activation: float = 0.0  # α: mean square of the dropped last output
    temporal_activation: float = 0.0  # β: mean square of its change from step to step

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name in PENALTIES and not 0 <= value < math.inf:
                raise ValueError(f"{name} is {value}; expected the weight of a penalty, 0 or more")
            if name not in PENALTIES and not 0 <= value < 1:
                raise ValueError(f"{name} is {value}; expected a probability in [0, 1)")


NO_REGULARIZATION = RegularizationConfig()


def locked_dropout(inputs: Tensor, probability: float) -> Tensor:
    """Drop features of [T, B, D], the same ones at every step of a text."""
    if not probability:
        return inputs
    keep = 1 - probability
    mask = torch.empty(1, *inputs.shape[1:], dtype=inputs.dtype, device=inputs.device).bernoulli_(keep).div_(keep)
    return inputs * mask


def embed(ids: Tensor, embedding: Tensor, dropout: float, *, sparse: bool = False) -> Tensor:
    """Rows of the embedding, with a share of the *words* zeroed everywhere in the batch and the others scaled up.

    sparse: the embedding's gradient has only those rows, to be added to a dense gradient from elsewhere.
    """
    rows = F.embedding(ids, embedding, sparse=sparse)
    if not dropout:
        return rows
    keep = 1 - dropout
    # Masking the looked-up rows equals masking the matrix, without copying the matrix.
    mask = torch.empty(len(embedding), 1, dtype=rows.dtype, device=rows.device).bernoulli_(keep).div_(keep)
    return rows * F.embedding(ids, mask)


def weight_drop(weight: Tensor, probability: float) -> Tensor:
    """Drop single entries of a matrix, the same ones at every step and for every text of the batch."""
    if not probability:
        return weight
    if weight.device.type != "cpu":
        return F.dropout(weight, probability, training=True)
    seed = int(torch.randint(2**32, ()))  # from torch's generator, whose state is in the checkpoint
    dropped: Tensor = _WeightDrop.apply(weight, probability, seed)  # type: ignore[no-untyped-call]
    return dropped


class _WeightDrop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, probability: float, seed: int) -> Tensor:
        from rheostat.training import compiled

        ctx.probability, ctx.seed = probability, seed
        dropped = torch.empty_like(weight, memory_format=torch.contiguous_format)
        compiled.drop(weight.contiguous(), dropped, probability, seed)
        return dropped

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return _WeightDrop.forward(ctx, gradients[0], ctx.probability, ctx.seed), None, None


def activation_penalty(outputs: Tensor, dropped_outputs: Tensor, config: RegularizationConfig) -> Tensor | None:
    """α · mean(dropped²) + β · mean((h_t - h_{t-1})²) of the last layer's output [T, B, D]; None if both are 0."""
    penalty = None
    if config.activation:
        penalty = config.activation * dropped_outputs.square().mean()
    if config.temporal_activation and len(outputs) > 1:
        temporal = config.temporal_activation * (outputs[1:] - outputs[:-1]).square().mean()
        penalty = temporal if penalty is None else penalty + temporal
    return penalty
