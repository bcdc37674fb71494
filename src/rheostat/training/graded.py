"""Graded training: every prefix of filters becomes a good model, so the knob is continuous and costs no bytes.

Each step runs the full width on the text, and narrower prefixes that share its weights and have its distribution as
their target (nested dropout, Rippel et al. 2014; slimmable networks, Yu & Huang 2019). A run that starts from a trained
model can use that model as the teacher of all widths, including the full one. Frozen and without dropout, it is a
steadier target, and its forward pass replaces the full width's pass over every text. Only the `graded` ranking decides
how wide each layer of a prefix is, so training and the knob cut in the same way.

With `bits`, prefixes also read rows of their matrices in 4 bits: the weights are rounded in the forward pass, and
gradients pass the rounding unchanged (the straight-through estimator, Bengio et al. 2013). Knows widths and bits;
`trainer` has the loop, `model.cut` does the cutting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from rheostat.metrics import Quality, QualityCount
from rheostat.model.cut import cut
from rheostat.model.operating_point import OperatingPoint, Ranking
from rheostat.model.precision import LARGEST_INTEGER, LARGEST_SCALE
from rheostat.model.shape import QRNN_GATES, ModelShape
from rheostat.model.widths import select
from rheostat.training.adaptive_softmax import SoftTargets
from rheostat.training.cross_entropy import Distilled
from rheostat.training.evaluation import count_predictions
from rheostat.training.language_model import LanguageModel, Outputs, State
from rheostat.training.layers import LayerState
from rheostat.training.regularization import RegularizationConfig
from rheostat.training.task import LanguageModelLoss, Loss, WeightTask

GRADED = "graded"

# With `bits`: the share of prefixes that read only some of their rows in 4 bits. The others read all rows in 4 bits, as
# every path position below half of the cost does; training matters most there.
MIXED = 0.25
HALF = 0.5  # the cost of a weight in 4 bits
CACHED = 2**17  # weights that are rounded at once, so that they stay in the cache

Item = TypeVar("Item")


class Drawn(NamedTuple):
    """How one part of a batch is read: a prefix of the filters, and how many rows of each matrix have 8 bits."""

    flops_fraction: float
    # The share of rows, counted from the first, that is read in 8 bits: one per layer (of its filters), then one for
    # the output layer (of its words). The rest is read in 4 bits. Empty = all rows in 8 bits.
    eight_bits: tuple[float, ...] = ()


WHOLE = Drawn(1.0)


@dataclass(frozen=True)
class GradedConfig:
    """The `[graded]` table of a recipe; `train.graded` is the smallest share of the cost to train."""

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
    bits: bool = False  # also draw each prefix's bits: a cost share c is then a share 2c of the FLOPs, in 4 bits
    # With teacher = "start", as a control: train a single width, the whole model or the smallest prefix. It reads all
    # texts. The smallest alone is the upper bound of what grading could reach there.
    only: Literal["", "whole", "smallest"] = ""
    # With teacher = "start": start from weights whose smallest prefix is reconstructed (`rheostat reconstruct`). The
    # teacher stays the untouched model.
    reconstructed: bool = False

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
        for name in ("only", "reconstructed"):
            if (value := getattr(self, name)) and self.teacher != "start":
                raise ValueError(f'{name} is {value!r} with teacher = "{self.teacher}"; expected teacher = "start"')

    @property
    def readers(self) -> int:
        """The number of widths that share the texts of a batch; a full width that teaches reads all texts."""
        return 1 if self.only else self.widths + (self.teacher == "start")

    def validated(self, smallest: float) -> tuple[float, ...]:
        """Shares of the cost at which a model is validated: all that matter, or the only one that is trained."""
        shares = validated_shares(smallest, self.bits)
        return {"whole": shares[:1], "smallest": shares[-1:]}.get(self.only, shares)


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


def graded_order(shape: ModelShape, config: GradedConfig, order: Ranking | None) -> Ranking:
    """The graded ranking of a run. order: the ranking that sorted the filters, if any."""
    follows = order is not None and order.comparable and not config.taper
    return sorted_ranking(order) if order and follows else graded_ranking(shape, config.taper)


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
            soft = self.teacher.soft_targets(theirs.raw, self._config.distill)
            assigned = assign_texts(self._student_widths(), inputs.shape[1])
            losses = self._distilled(inputs, targets, state, soft, assigned)
        objective, full = torch.stack([loss.objective for loss in losses]).sum(), losses[0].log_likelihood_loss
        return Loss(objective / targets.numel(), full / targets[:, assigned[0][0]].numel(), theirs.state)

    def _student_widths(self) -> list[Drawn]:
        """The widths among which the teacher's texts are divided."""
        if self._config.only == "whole":
            return [WHOLE]
        if self._config.only == "smallest":
            return [at_cost(self._smallest, self.model.shape, self._config.bits)]
        return [WHOLE, *self._draw()]

    def prefix(self, drawn: Drawn, rounded: Mapping[str, Tensor] | None = None) -> tuple[OperatingPoint, LanguageModel]:
        """The prefix with this share of the FLOPs, as a model that shares this model's weights.

        rounded: `four_bits` of every matrix, if it is at hand.
        """
        point = select(self._ranking, self.model.shape, drawn.flops_fraction)
        weights: dict[str, Tensor] = dict(self.model.named_parameters())
        if drawn.eight_bits:
            weights = read_bits(weights, self.model.shape, drawn.eight_bits, rounded or self._rounded([drawn]))
        small, shape = cut(weights, self.model.shape, point)
        return point, LanguageModel.over(shape, small)

    def extra_loss(self, inputs: Tensor, targets: Tensor, state: State, outputs: Outputs) -> Tensor | None:
        soft = self.model.soft_targets(outputs.raw, self._config.distill)
        losses = self._distilled(inputs, targets, state, soft, assign_texts(self._draw(), inputs.shape[1]))
        return self._config.weight * torch.stack([loss.objective for loss in losses]).sum() / targets.numel()

    def _distilled(
        self, inputs: Tensor, targets: Tensor, state: State, soft: SoftTargets, assigned: Sequence[tuple[slice, Drawn]]
    ) -> list[Distilled]:
        """The loss of each prefix on its texts, starting from the teacher's state."""
        rounded, losses = self._rounded([drawn for _, drawn in assigned]), []
        for texts, drawn in assigned:
            point, narrow = self.prefix(drawn, rounded)
            regularization = self.regularization if drawn == WHOLE else self._narrow_regularization
            own = narrow(inputs[:, texts], prefix_state(state, point, texts), regularization)
            part = replace(soft, hidden=soft.hidden[:, texts])
            losses.append(narrow.distillation(own.dropped, targets[:, texts], part))
        return losses

    def _rounded(self, draws: Sequence[Drawn]) -> dict[str, Tensor]:
        """Every matrix in 4 bits, once for all prefixes of a step; nothing if none of them needs it."""
        if not any(drawn.eight_bits for drawn in draws):
            return {}
        matrices = bounded_matrices(self.model.shape)
        return {name: four_bits(self.model.get_parameter(name).detach()) for name in matrices}

    def _draw(self) -> list[Drawn]:
        """The prefixes of this step."""
        if not self._config.bits:
            shares = (self._smallest + (1 - self._smallest) * torch.rand(self._config.widths)).tolist()
            draws = [Drawn(share) for share in shares]
        else:
            draws = [draw_bits(self._smallest, self.model.shape) for _ in range(self._config.widths)]
        if self._config.sampling == "sandwich":
            draws[0] = at_cost(self._smallest, self.model.shape, self._config.bits)
        return draws


def at_cost(cost: float, shape: ModelShape, bits: bool) -> Drawn:
    """The prefix for a share of the cost: bits are reduced before filters are left out."""
    if not bits or cost > HALF:
        return Drawn(cost)
    return Drawn(min(cost / HALF, 1.0), (0.0,) * (len(shape.hidden_sizes) + 1))


def draw_bits(smallest: float, shape: ModelShape) -> Drawn:
    """A prefix in 4 bits with a share of the cost from `smallest` to a half, small ones as often as large ones (its
    logarithm is uniform); or, with probability MIXED, a wide one that reads some of the rows of each matrix in 8 bits.
    """
    chance, place, *bounds = torch.rand(len(shape.hidden_sizes) + 3).tolist()
    if chance < MIXED:
        return Drawn(HALF + HALF * place, tuple(bounds))
    return at_cost(smallest * (HALF / smallest) ** place, shape, bits=True)


def bounded_matrices(shape: ModelShape) -> dict[str, int]:
    """The matrices that bits are drawn for, in the order of `Drawn.eight_bits`: name, and number of row blocks.

    A tied output layer is the embedding: a word's input row is read in the same bits as its output row.
    """
    layers = {f"layers.{layer}.weight": QRNN_GATES for layer in range(len(shape.hidden_sizes))}
    return {**layers, shape.output_name: 1}


def four_bits(matrix: Tensor) -> Tensor:
    """What reading the upper four bits of a matrix gives, once `model.precision.quantize` has made it int8.

    Slices of rows that stay in the cache take half the time.
    """
    rows = max(1, CACHED // matrix.shape[1])
    return torch.cat([_upper_bits(part) for part in matrix.split(rows)])


def _upper_bits(matrix: Tensor) -> Tensor:
    scale = (matrix.abs().amax(1, keepdim=True) / LARGEST_INTEGER).clamp_(max=LARGEST_SCALE)
    divisor = torch.where(scale == 0, 1, scale)  # a row of zeros stays one: its scale is 0
    integers = (matrix / divisor).round_().clamp_(-LARGEST_INTEGER, LARGEST_INTEGER)
    return integers.div_(16).floor_().mul_(16).add_(8).mul_(scale)  # the midpoint of what the lower four bits can add


def read_bits(
    weights: Mapping[str, Tensor], shape: ModelShape, eight_bits: Sequence[float], rounded: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """The same weights, with the rows after these shares of each matrix in 4 bits; gradients reach `weights`."""
    read = dict(weights)
    for (name, blocks), share in zip(bounded_matrices(shape).items(), eight_bits, strict=True):
        own, coarse = weights[name], rounded[name]
        size = len(own) // blocks
        bound = round(share * size)
        if bound:
            fine = (torch.arange(len(own), device=own.device) % size < bound)[:, None]
            coarse = torch.where(fine, own.detach(), coarse)
        read[name] = _StraightThrough.apply(own, coarse)  # type: ignore[no-untyped-call]
    return read


class _StraightThrough(torch.autograd.Function):
    """The value of one tensor, with the gradient of another."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, value: Tensor) -> Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None


def assign_texts(readers: Sequence[Item], texts: int) -> list[tuple[slice, Item]]:
    """Which texts of the batch each reader gets: every text once, the same number for all.

    Drawn again at each step: a column of the batch is one part of the text, and every prefix should read the whole
    text.
    """
    bounds = [texts * part // len(readers) for part in range(len(readers) + 1)]
    parts = [slice(first, last) for first, last in pairwise(bounds)]
    return [(parts[part], reader) for part, reader in zip(torch.randperm(len(parts)).tolist(), readers, strict=True)]


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


def validated_shares(smallest: float, bits: bool = False) -> tuple[float, ...]:
    """Shares of the cost at which a graded model is validated: the whole model, the smallest, and one between them:
    their midpoint or, with bits, the full width in 4 bits.
    """
    return 1.0, HALF if bits else (1 + smallest) / 2, smallest


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
        start: Mapping[str, Tensor] | None = None,
    ) -> None:
        """order: the ranking that sorted the filters, if any. start: weights to begin with; the teacher keeps those of
        the model.
        """
        self._smallest = smallest
        self._ranking = graded_order(model.shape, config, order)
        if config.bits and smallest >= HALF:
            raise ValueError(f"bits is true and train.graded {smallest}; expected less than {HALF}, the cost of 4 bits")
        # Raises early if the share is impossible.
        select(self._ranking, model.shape, at_cost(smallest, model.shape, config.bits).flops_fraction)
        super().__init__(model, regularization, valid_ids, write, precision)
        self.module: GradedLoss = GradedLoss(model, self._ranking, smallest, config, regularization, precision)
        if start is not None:
            model.load_state_dict(dict(start))
        self._anchor, self._bits, self._config = config.anchor, config.bits, config

    def validate(self, progress: Callable[[float], None]) -> Quality:
        """Validate several positions together, so that the whole knob counts."""
        count = QualityCount()
        positions = self._config.validated(self._smallest)
        with torch.no_grad(), self._anchored():
            for done, share in enumerate(positions):

                def show(part: float, done: int = done) -> None:
                    progress((done + part) / len(positions))

                drawn = at_cost(share, self.model.shape, self._bits)
                model = self.model if drawn == WHOLE else self.module.prefix(drawn)[1]
                count_predictions(model, self._valid_ids, count, show)
        return count.quality()

    def save(self, path: Path, run: Mapping[str, object]) -> None:
        with self._anchored():
            shares = list(self._config.validated(self._smallest))
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
