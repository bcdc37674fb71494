"""Cross-entropy of a linear output layer, in blocks of tokens.

The logits of a whole batch (tokens × vocabulary) are never in memory: one block is computed, turned into its loss and
gradient while still in the cache, and discarded. The three matrix products are the same as in the plain form; this
saves memory and passes over it. A teacher's distribution can be a second target, handled in the same blocks. Knows
nothing of models.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

BLOCK_BYTES = 32 * 2**20
SMALLEST_BLOCK = 128  # tokens: narrower products run well below the machine's peak rate


class Teacher(NamedTuple):
    """A distribution to imitate, softmax(hidden Wᵀ + b) of another layer, which gets no gradient."""

    hidden: Tensor  # [N, D']
    weight: Tensor  # [V, D']
    bias: Tensor  # [V]
    share: float  # how much of the target is the teacher; the rest is the text


class Distilled(NamedTuple):
    """objective: (1 - share) · cross-entropy + share · KL(teacher ‖ own), summed. log_likelihood_loss: of the text."""

    objective: Tensor
    log_likelihood_loss: Tensor


def linear_cross_entropy(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """Summed -log softmax(hidden Wᵀ + b)[target], for hidden [N, D], weight [V, D], bias [V], targets [N]."""
    loss: Tensor = _LinearCrossEntropy.apply(hidden, weight, bias, targets, None)[0]  # type: ignore[no-untyped-call]
    return loss


def linear_distillation(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, teacher: Teacher) -> Distilled:
    """The same with a teacher's distribution as a second target, in one pass over the logits."""
    return Distilled(*_LinearCrossEntropy.apply(hidden, weight, bias, targets, teacher))  # type: ignore[no-untyped-call]


def block_size(vocabulary_size: int) -> int:
    """The number of tokens whose float32 logits fill one block."""
    return max(SMALLEST_BLOCK, BLOCK_BYTES // (4 * vocabulary_size))


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, teacher: Teacher | None
    ) -> tuple[Tensor, Tensor]:
        device = hidden.device.type
        narrow = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        wanted = zip((hidden, weight, bias), ctx.needs_input_grad, strict=False)  # targets have none
        gradients = _Gradients(*(torch.zeros_like(tensor) if needed else None for tensor, needed in wanted))
        if teacher is not None:
            teacher = teacher._replace(hidden=teacher.hidden.to(narrow), weight=teacher.weight.to(narrow))
        with torch.autocast(device, enabled=False):
            losses = _blocks(hidden.to(narrow), weight.to(narrow), bias, targets, teacher, gradients)
        ctx.save_for_backward(*(g for g in gradients if g is not None))
        ctx.mark_non_differentiable(losses[1])
        return losses

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        saved = iter(ctx.saved_tensors)
        return (*(next(saved) * gradients[0] if needed else None for needed in ctx.needs_input_grad[:3]), None, None)


class _Gradients(NamedTuple):
    """Buffers for the gradients that are needed, None for the others."""

    hidden: Tensor | None
    weight: Tensor | None
    bias: Tensor | None


def _blocks(
    hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, teacher: Teacher | None, gradients: _Gradients
) -> tuple[Tensor, Tensor]:
    """The objective and the loss on the text; also fills in the gradients of the objective."""
    log_likelihood_loss, divergence = bias.new_zeros(()), bias.new_zeros(())
    share = teacher.share if teacher else 0.0
    size = block_size(len(weight))
    for first in range(0, len(hidden), size):
        rows = slice(first, first + size)
        wanted = targets[rows, None]
        log_probabilities = _log_softmax(hidden[rows], weight, bias)
        log_likelihood_loss -= log_probabilities.gather(1, wanted).sum()
        taught = None
        if teacher is not None:
            taught = _log_softmax(teacher.hidden[rows], teacher.weight, teacher.bias)
            difference = taught - log_probabilities
            divergence += difference.mul_(taught.exp_()).sum()
        if any(gradient is not None for gradient in gradients):
            # ∂objective/∂logits = softmax - target; the target is one-hot, the teacher's distribution, or a mixture
            delta = log_probabilities.exp_()
            delta.scatter_add_(1, wanted, delta.new_full(wanted.shape, share - 1))
            if taught is not None:
                delta.sub_(taught, alpha=share)
            _accumulate(gradients, rows, delta, hidden[rows], weight)
    return (1 - share) * log_likelihood_loss + share * divergence, log_likelihood_loss


def _log_softmax(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.log_softmax((hidden @ weight.t()).to(bias.dtype).add_(bias), dim=1)


def _accumulate(gradients: _Gradients, rows: slice, wide: Tensor, hidden: Tensor, weight: Tensor) -> None:
    """Add the contribution of one block of ∂objective/∂logits."""
    if gradients.bias is not None:
        gradients.bias.add_(wide.sum(0))
    delta = wide.to(weight.dtype)
    if gradients.hidden is not None:
        gradients.hidden[rows] = delta @ weight
    if gradients.weight is not None:
        _accumulate_product(gradients.weight, delta.t(), hidden)


def _accumulate_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:  # products in reduced precision, sums over blocks in full
        total += left @ right
