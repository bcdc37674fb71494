"""The tied adaptive softmax (Grave et al. 2017; tied as in Merity et al. 2018).

The vocabulary, sorted by count, is split into a head and tail clusters. The head's softmax has one entry per head word
and one per cluster; a tail word has log p = log p(cluster) + log p(word | cluster). Words share the embedding; only
the clusters' own rows (`clusters.weight`, `clusters.bias`) are extra.

No splits is the plain softmax: the head is the vocabulary. Knows tensors, nothing of models.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from rheostat.training.cross_entropy import linear_cross_entropy


@dataclass(frozen=True)
class OutputWeights:
    """What the output layer reads. splits: first word id of each tail; weight [V, D], bias [V]."""

    weight: Tensor
    bias: Tensor
    splits: tuple[int, ...] = ()
    cluster_weight: Tensor | None = None  # [tails, D]
    cluster_bias: Tensor | None = None  # [tails]

    @property
    def head_size(self) -> int:
        """Words of the head, without the clusters' entries."""
        return self.splits[0] if self.splits else len(self.weight)

    def head(self) -> tuple[Tensor, Tensor]:
        """Rows and biases of the head: its words, then one row per cluster."""
        if not self.splits:
            return self.weight, self.bias
        assert self.cluster_weight is not None and self.cluster_bias is not None
        weight = torch.cat([self.weight[: self.head_size], self.cluster_weight])
        return weight, torch.cat([self.bias[: self.head_size], self.cluster_bias])

    def tails(self) -> Iterator[tuple[int, int]]:
        """(first, last + 1) word id of each tail cluster."""
        return pairwise((*self.splits, len(self.weight)))


def cross_entropy(hidden: Tensor, output: OutputWeights, targets: Tensor) -> Tensor:
    """Summed negative log-likelihood of targets [N] given hidden [N, D]; only the clusters that occur are opened."""
    head_targets = targets
    for cluster, (first, last) in enumerate(output.tails()):
        inside = (targets >= first) & (targets < last)
        head_targets = torch.where(inside, output.head_size + cluster, head_targets)
    loss = linear_cross_entropy(hidden, *output.head(), head_targets)
    for first, last in output.tails():
        chosen = ((targets >= first) & (targets < last)).nonzero(as_tuple=True)[0]
        if len(chosen):
            rows, bias = output.weight[first:last], output.bias[first:last]
            loss = loss + linear_cross_entropy(hidden[chosen], rows, bias, targets[chosen] - first)
    return loss


def log_probabilities(hidden: Tensor, output: OutputWeights) -> Tensor:
    """log p of every word [N, V]."""
    head = F.log_softmax(F.linear(hidden, *output.head()).float(), dim=-1)
    if not output.splits:
        return head
    parts = [head[:, : output.head_size]]
    for cluster, (first, last) in enumerate(output.tails()):
        within = F.log_softmax(F.linear(hidden, output.weight[first:last], output.bias[first:last]).float(), dim=-1)
        parts.append(within + head[:, output.head_size + cluster, None])
    return torch.cat(parts, dim=1)
