"""Graded training: every prefix of filters becomes a good model, so the knob is continuous and costs no bytes.

Each step runs the full width on the text, and narrower prefixes that share its weights and have its distribution as
their target (nested dropout, Rippel et al. 2014; slimmable networks, Yu & Huang 2019). A run that starts from a trained
model can use that model as the teacher of all widths, including the full one. Frozen and without dropout, it is a
steadier target, and its forward pass replaces the full width's pass over every text. Only the `graded` ranking decides
how wide each layer of a prefix is, so training and the knob cut in the same way. Knows widths; `trainer` has the loop,
`model.cut` does the cutting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from rheostat.metrics import Quality, QualityCount
from rheostat.model.cut import cut
from rheostat.model.operating_point import OperatingPoint, Ranking
from rheostat.model.shape import ModelShape
from rheostat.model.widths import select
from rheostat.training.adaptive_softmax import Taught
from rheostat.training.cross_entropy import Distilled
from rheostat.training.evaluation import count_predictions
from rheostat.training.language_model import LanguageModel, Outputs, State
from rheostat.training.layers import LayerState
from rheostat.training.regularization import RegularizationConfig
from rheostat.training.task import LanguageModelLoss, Loss, WeightTask

GRADED = "graded"


@dataclass(frozen=True)
class GradedConfig:
    """The `[graded]` table of a recipe; `train.graded` is the smallest share of the FLOPs to train."""

    teacher: Literal["self", "start"] = "self"  # the full width while it learns, or the model that the run started from
    # Narrower prefixes per step. The batch's texts are divided among them (and the full width, unless it is the teacher
    # and reads all texts).
    widths: int = 2
    # With teacher = "start": share of the starting weights in the result. Averaging both keeps the full width closer to
    # the start, and is no worse at other widths (Wortsman et al. 2022).
    anchor: float = 0.0
    sampling: Literal["sandwich", "uniform"] = "sandwich"  # always include the smallest prefix, or all at random
    # For each layer: a prefix at knob position s keeps s^taper of it. Empty = 1 for all layers or, if the filters were
    # sorted by a ranking with comparable scores, the widths given by that ranking.
    taper: tuple[float, ...] = ()
    distill: float = 1.0  # share of the target that is the teacher's distribution
    dropout: float = 0.5  # of a prefix, relative to the full width's: small models need less
    weight: float = 1.0  # of the prefixes' loss relative to that of the full width, which reads all texts
    ranking: str = ""  # sorts the filters of the --from model before training; empty = its default ranking

    def __post_init__(self) -> None:
        if self.widths < 1:
            raise ValueError(f"widths is {self.widths}; expected at least 1 narrower prefix per step")
        if min(self.dropout, self.weight) < 0:
            raise ValueError(f"dropout is {self.dropout}, weight {self.weight}; expected no negative number")
        if any(taper < 0 for taper in self.taper):
            raise ValueError(f"taper is {list(self.taper)}; expected no negative number")
        if not 0 <= self.anchor < 1 or (self.anchor and self.teacher != "start"):
            raise ValueError(f'anchor is {self.anchor}; expected a share in [0, 1), with teacher = "start"')
        if not 0 <= self.distill <= 1:
            raise ValueError(f"distill is {self.distill}; expected a share of the target in [0, 1]")

    @property
    def readers(self) -> int:
        """The number of widths that share the texts of a batch; a full width that teaches reads all texts."""
        return self.widths + (self.teacher == "start")


def sorted_ranking(ranking: Ranking) -> Ranking:
    """The graded ranking of a model whose filters were sorted by a ranking with comparable scores."""
    scores = tuple(-np.sort(-layer, kind="stable") for layer in ranking.scores)
    return Ranking(GRADED, GRADED, scores, comparable=True)


def graded_ranking(shape: ModelShape, taper: tuple[float, ...] = ()) -> Ranking:
    """The ranking of a model whose filters are sorted: filter i of m is left out when s^taper falls below (i + ½)/m.

    Scores are log(m / (i + ½)) / taper, which is -log of that s, so they are comparable between layers.
    """
    taper = taper or (1.0,) * len(shape.hidden_sizes)
    if len(taper) != len(shape.hidden_sizes):
        raise ValueError(f"taper has {len(taper)} numbers; the model has {len(shape.hidden_sizes)} layers")
    scores = tuple(
        (np.log(size / (np.arange(size) + 0.5)) / max(exponent, 1e-3)).astype(np.float32)
        for size, exponent in zip(shape.hidden_sizes, taper, strict=True)
    )
    return Ranking(GRADED, GRADED, scores, comparable=True)


class GradedLoss(LanguageModelLoss):
    """The loss of the full width, plus that of the prefixes that imitate it.

    With teacher = "start", it is the loss of all widths, including the full one, which all imitate the teacher. Only
    the teacher then reads every text, so its state is carried, and every width starts from it.
    """

    def __init__(
        self,
        model: LanguageModel,
        ranking: Ranking,
        smallest: float,
        config: GradedConfig,
        regularization: RegularizationConfig,
        precision: str = "fp32",
    ) -> None:
        super().__init__(model, regularization, precision)
        self._ranking, self._smallest, self._config = ranking, smallest, config
        self._narrow_regularization = _scaled(regularization, config.dropout)
        self.teacher: LanguageModel | None = None
        if config.teacher == "start":
            self.teacher = LanguageModel.from_weights(model.shape, model.state_dict()).requires_grad_(False)

    def forward(self, inputs: Tensor, targets: Tensor, state: State) -> Loss:
        if self.teacher is None:
            return super().forward(inputs, targets, state)
        with self.reduced_precision(inputs):
            theirs = self.teacher(inputs, state)
            taught = self.teacher.teach(theirs.raw, self._config.distill)
            dealt = deal([1.0, *self._shares()], inputs.shape[1])
            losses = [self._distilled(inputs, targets, state, taught, texts, share) for texts, share in dealt]
        objective, full = torch.stack([loss.objective for loss in losses]).sum(), losses[0].log_likelihood_loss
        return Loss(objective / targets.numel(), full / targets[:, dealt[0][0]].numel(), theirs.state)

    def prefix(self, share: float) -> tuple[OperatingPoint, LanguageModel]:
        """The prefix with this share of the FLOPs, as a model that shares this model's weights."""
        point = select(self._ranking, self.model.shape, share)
        weights, shape = cut(dict(self.model.named_parameters()), self.model.shape, point)
        return point, LanguageModel.over(shape, weights)

    def extra_loss(self, inputs: Tensor, targets: Tensor, state: State, outputs: Outputs) -> Tensor | None:
        taught = self.model.teach(outputs.raw, self._config.distill)
        losses = [
            self._distilled(inputs, targets, state, taught, texts, share).objective
            for texts, share in deal(self._shares(), inputs.shape[1])
        ]
        return self._config.weight * torch.stack(losses).sum() / targets.numel()

    def _distilled(
        self, inputs: Tensor, targets: Tensor, state: State, taught: Taught, texts: slice, share: float
    ) -> Distilled:
        """The loss of one width on its texts, starting from the teacher's state."""
        point, narrow = self.prefix(share)
        regularization = self.regularization if share == 1 else self._narrow_regularization
        own = narrow(inputs[:, texts], prefix_state(state, point, texts), regularization)
        return narrow.distillation(own.dropped, targets[:, texts], replace(taught, hidden=taught.hidden[:, texts]))

    def _shares(self) -> list[float]:
        """Shares of the FLOPs, one for each prefix of this step."""
        shares: list[float] = (self._smallest + (1 - self._smallest) * torch.rand(self._config.widths)).tolist()
        if self._config.sampling == "sandwich":
            shares[0] = self._smallest
        return shares


def deal(shares: Sequence[float], texts: int) -> list[tuple[slice, float]]:
    """Which texts of the batch each share of the FLOPs reads: every text once, the same number at every share.

    Drawn again at each step: a column of the batch is one part of the text, and every share should read the whole text.
    """
    bounds = [texts * part // len(shares) for part in range(len(shares) + 1)]
    parts = [slice(first, last) for first, last in pairwise(bounds)]
    return [(parts[part], share) for part, share in zip(torch.randperm(len(parts)).tolist(), shares, strict=True)]


def prefix_state(state: State, point: OperatingPoint, texts: slice) -> State:
    """The part of the teacher's state that belongs to the filters of a prefix, as the prefix's initial state.

    It differs from the state that the prefix would have reached by itself, but only a little, and it is forgotten
    within a few words. Carrying a state for every possible width is impossible.
    """
    layers = []
    inputs = state[0][1].shape[-1]  # the embedding, which is never cut
    for layer, width in zip(state, point.widths, strict=True):
        layers.append(LayerState(layer[0][texts, :width], layer[1][:, texts, :inputs]))
        inputs = width
    return tuple(layers)


def _scaled(regularization: RegularizationConfig, factor: float) -> RegularizationConfig:
    names = [name for name in vars(regularization) if name.startswith("dropout") or name == "weight_drop"]
    return replace(regularization, **{name: min(factor * getattr(regularization, name), 0.95) for name in names})


def validated_shares(smallest: float) -> tuple[float, ...]:
    """Shares of the FLOPs at which a graded model is validated: the full width, the smallest, and their midpoint."""
    return 1.0, (1 + smallest) / 2, smallest


class GradedTask(WeightTask):
    """Train all weights of a language model for every width at once."""

    def __init__(
        self,
        model: LanguageModel,
        smallest: float,
        config: GradedConfig,
        regularization: RegularizationConfig,
        valid_ids: np.ndarray,
        write: Callable[[LanguageModel, Path, Mapping[str, object], Sequence[Ranking]], None],
        precision: str = "fp32",
        order: Ranking | None = None,
    ) -> None:
        """order: the ranking that sorted the filters, if any."""
        self._smallest = smallest
        follows = order is not None and order.comparable and not config.taper
        self._ranking = sorted_ranking(order) if order and follows else graded_ranking(model.shape, config.taper)
        select(self._ranking, model.shape, smallest)  # raises early if the share is impossible
        super().__init__(model, regularization, valid_ids, write, precision)
        self.module: GradedLoss = GradedLoss(model, self._ranking, smallest, config, regularization, precision)
        self._anchor = config.anchor

    def validate(self, progress: Callable[[float], None]) -> Quality:
        """Validate several widths together, so that the whole knob counts."""
        count = QualityCount()
        positions = validated_shares(self._smallest)
        with torch.no_grad(), self._anchored():
            for done, share in enumerate(positions):

                def show(part: float, done: int = done) -> None:
                    progress((done + part) / len(positions))

                model = self.model if share == 1 else self.module.prefix(share)[1]
                count_predictions(model, self._valid_ids, count, show)
        return count.quality()

    def save(self, path: Path, run: Mapping[str, object]) -> None:
        with self._anchored():
            shares = list(validated_shares(self._smallest))
            self._write(self.model, path, {**run, "valid_over_shares": shares}, [self._ranking])

    @contextmanager
    def _anchored(self) -> Iterator[None]:
        """Within the block, the model has the weights of the result; afterwards, the weights in training again."""
        if self.module.teacher is None or not self._anchor:
            yield
            return
        parameters, start = list(self.model.parameters()), self.module.teacher.parameters()
        trained = [parameter.detach().clone() for parameter in parameters]
        try:
            with torch.no_grad():
                for parameter, anchor in zip(parameters, start, strict=True):
                    parameter.lerp_(anchor, self._anchor)
            yield
        finally:
            with torch.no_grad():
                for parameter, value in zip(parameters, trained, strict=True):
                    parameter.copy_(value)
