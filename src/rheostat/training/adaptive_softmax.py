"""The tied adaptive softmax (Grave et al. 2017; tied as in Merity et al. 2018).

The vocabulary, sorted by count, is split into a head and tail clusters. The head's softmax has one entry per head word
and one per cluster; a tail word has log p = log p(cluster) + log p(word | cluster). Words share the embedding; only
the clusters' own rows (`clusters.weight`, `clusters.bias`) are extra.

Without splits this is the plain softmax: the head is the whole vocabulary. Knows tensors; knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rheostat.metrics import Scores
from rheostat.training.cross_entropy import Distilled, Teacher, linear_cross_entropy, linear_distillation


@dataclass(frozen=True)
class OutputWeights:
    """The weights of the output layer. splits: first word id of each tail; weight [V, D], bias [V]."""

    weight: Tensor
    bias: Tensor
    splits: tuple[int, ...] = ()
    cluster_weight: Tensor | None = None  # [tails, D]
    cluster_bias: Tensor | None = None  # [tails]

    @property
    def head_size(self) -> int:
        """The number of words in the head, without the clusters' entries."""
        return self.splits[0] if self.splits else len(self.weight)

    def detach(self) -> OutputWeights:
        """The same, detached from the graph."""
        cluster = (None if part is None else part.detach() for part in (self.cluster_weight, self.cluster_bias))
        return OutputWeights(self.weight.detach(), self.bias.detach(), self.splits, *cluster)

    def softmaxes(self) -> list[tuple[Tensor, Tensor]]:
        """Rows and biases of each softmax. First the head: its words, then one row per cluster. Then each cluster.

        Split in one call: with separate slices, the backward pass would fill a gradient of the whole vocabulary for
        each slice.
        """
        if not self.splits:
            return [(self.weight, self.bias)]
        sizes = [last - first for first, last in pairwise((0, *self.splits, len(self.weight)))]
        (head, *weights), (head_bias, *biases) = self.weight.split(sizes), self.bias.split(sizes)
        assert self.cluster_weight is not None and self.cluster_bias is not None
        head, head_bias = torch.cat([head, self.cluster_weight]), torch.cat([head_bias, self.cluster_bias])
        return [(head, head_bias), *zip(weights, biases, strict=True)]

    def tails(self) -> Iterator[tuple[int, int]]:
        """(first, last + 1) word id of each tail cluster."""
        return pairwise((*self.splits, len(self.weight)))


@dataclass(frozen=True)
class SoftTargets:
    """A teacher's distribution: the input of its output layer [N, D'], and that layer."""

    hidden: Tensor
    output: OutputWeights
    share: float  # how much of the target is this distribution; the rest is the text


def cross_entropy(hidden: Tensor, output: OutputWeights, targets: Tensor) -> Tensor:
    """Summed negative log-likelihood of targets [N] given hidden [N, D]; opens only the clusters of the targets."""
    losses = [
        linear_cross_entropy(hidden if part.rows is None else hidden[part.rows], weight, bias, part.targets)
        for part, (weight, bias) in _parts(output, targets)
    ]
    return torch.stack(losses).sum()


def distillation(hidden: Tensor, output: OutputWeights, targets: Tensor, soft: SoftTargets) -> Distilled:
    """The same with a teacher's distribution as a second target.

    Within a cluster, the teacher is imitated only for targets in it: no cluster is opened for the teacher alone.
    """
    losses = []
    for (part, own), (_, theirs) in zip(_parts(output, targets), _parts(soft.output, targets), strict=True):
        rows = slice(None) if part.rows is None else part.rows
        teacher = Teacher(soft.hidden[rows], *theirs, soft.share)
        losses.append(linear_distillation(hidden[rows], *own, part.targets, teacher))
    return Distilled(*(torch.stack(column).sum() for column in zip(*losses, strict=True)))


class _Part(NamedTuple):
    """One softmax of the output layer: the predictions that involve it, and their targets within it."""

    rows: Tensor | None  # None: all
    targets: Tensor


def _parts(output: OutputWeights, targets: Tensor) -> Iterator[tuple[_Part, tuple[Tensor, Tensor]]]:
    """The head and the clusters of the targets, each with its weights and biases."""
    head_targets = targets
    for cluster, (first, last) in enumerate(output.tails()):
        inside = (targets >= first) & (targets < last)
        head_targets = torch.where(inside, output.head_size + cluster, head_targets)
    head, *tails = output.softmaxes()
    yield _Part(None, head_targets), head
    for (first, last), weights in zip(output.tails(), tails, strict=True):
        chosen = ((targets >= first) & (targets < last)).nonzero(as_tuple=True)[0]
        if len(chosen):
            yield _Part(chosen, targets[chosen] - first), weights


def scores(hidden: Tensor, output: OutputWeights) -> Scores:
    """log p of the head's words and of the clusters [N, H + C], and of a cluster's words when it is opened."""
    (head_weight, head_bias), *tails = output.softmaxes()
    head = F.log_softmax(F.linear(hidden, head_weight, head_bias).float(), dim=-1)

    def open_tail(tail: int, rows: Tensor) -> Tensor:
        within = F.log_softmax(F.linear(hidden[rows], *tails[tail]).float(), dim=-1)
        return within + head[rows, output.head_size + tail][:, None]

    return Scores(head, output.splits, open_tail)


def log_probabilities(hidden: Tensor, output: OutputWeights) -> Tensor:
    """log p of every word [N, V]."""
    known, everyone = scores(hidden, output), torch.ones(len(hidden), dtype=torch.bool, device=hidden.device)
    tails = [known.open_tail(tail, everyone) for tail in range(len(output.splits))]
    return torch.cat([known.head[:, : output.head_size], *tails], dim=1)
