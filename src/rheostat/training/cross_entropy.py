"""Cross-entropy of a linear output layer, in blocks of tokens.

The logits of a whole batch (tokens × vocabulary) never exist: a block of them is made, turned into its loss and at once
into its gradient while it is still near the processor, and forgotten. The products are the same three as in the plain
form; what goes is the memory and the passes over it. Knows nothing of models.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

BLOCK_BYTES = 32 * 2**20
SMALLEST_BLOCK = 128  # tokens: products narrower than this run well below the machine's rate


def linear_cross_entropy(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """Summed -log softmax(hidden Wᵀ + b)[target], for hidden [N, D], weight [V, D], bias [V], targets [N]."""
    loss: Tensor = _LinearCrossEntropy.apply(hidden, weight, bias, targets)  # type: ignore[no-untyped-call]
    return loss


def block_size(vocabulary_size: int) -> int:
    """Tokens whose float32 logits fill one block."""
    return max(SMALLEST_BLOCK, BLOCK_BYTES // (4 * vocabulary_size))


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
        device = hidden.device.type
        narrow = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        wanted = zip((hidden, weight, bias), ctx.needs_input_grad, strict=False)  # targets have none
        gradients = [torch.zeros_like(tensor) if needed else None for tensor, needed in wanted]
        with torch.autocast(device, enabled=False):
            loss = _blocks(hidden.to(narrow), weight.to(narrow), bias, targets, *gradients)
        ctx.save_for_backward(*(g for g in gradients if g is not None))
        return loss

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        saved = iter(ctx.saved_tensors)
        return (*(next(saved) * gradients[0] if needed else None for needed in ctx.needs_input_grad[:3]), None)


def _blocks(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    hidden_gradient: Tensor | None,
    weight_gradient: Tensor | None,
    bias_gradient: Tensor | None,
) -> Tensor:
    """The loss; the gradients that are asked for are filled in on the way."""
    loss = bias.new_zeros(())
    size = block_size(len(weight))
    for first in range(0, len(hidden), size):
        rows = slice(first, first + size)
        block, wanted = hidden[rows], targets[rows, None]
        logits = (block @ weight.t()).to(bias.dtype).add_(bias)
        log_probabilities = torch.log_softmax(logits, dim=1)
        loss -= log_probabilities.gather(1, wanted).sum()
        if hidden_gradient is None and weight_gradient is None and bias_gradient is None:
            continue
        # ∂loss/∂logits = softmax - one-hot
        wide = log_probabilities.exp_()
        wide.scatter_add_(1, wanted, wide.new_full(wanted.shape, -1))
        if bias_gradient is not None:
            bias_gradient += wide.sum(0)
        delta = wide.to(weight.dtype)
        if hidden_gradient is not None:
            hidden_gradient[rows] = delta @ weight
        if weight_gradient is not None:
            _accumulate_product(weight_gradient, delta.t(), block)
    return loss


def _accumulate_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:  # products in reduced precision, sums over blocks in full
        total += left @ right
