"""L0 gates: learning which filters to close while the weights stay unchanged (Louizos et al. 2018; paper, 2.2).

    s = σ((log u - log(1 - u) + log α) / β)     gate = min(1, max(0, (ζ - γ) s + γ))      u ~ Uniform(0, 1)
    P(gate > 0) = σ(log α - β log(-γ/ζ))        at test time: min(1, max(0, σ(log α)(ζ - γ) + γ))

Each filter's output is multiplied by a gate. With c_0 = 0 this equals a gate on Z, as in the paper, because pooling is
linear in Z. Only log α is trained. One run reaches a given share of the FLOPs: the strength of the penalty is adjusted
during training, so that the expected FLOPs follow a path to the target. In the last steps the choice of filters is
fixed, and their gates are trained as they will be used, without noise. Knows gates; `training.trainer` has the loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from rheostat.metrics import Quality
from rheostat.model.contents import add_points, add_rankings
from rheostat.model.file import ModelFile
from rheostat.model.operating_point import Floats, Indices, OperatingPoint, Ranking
from rheostat.model.origin import UNKNOWN_ORIGIN, Origin
from rheostat.model.shape import ModelShape
from rheostat.model.widths import affordable, check_knob
from rheostat.model.writer import write_model
from rheostat.training.evaluation import PointEvaluator
from rheostat.training.language_model import Adjustment, LanguageModel, State
from rheostat.training.regularization import RegularizationConfig
from rheostat.training.task import LanguageModelLoss, after_run

GAMMA, ZETA, BETA = -0.1, 1.1, 2 / 3
SMALLEST_GATE = 1e-3  # for a kept filter whose test-time gate is closed: it was kept only to use up the share
NEARLY_OPEN = 2.2  # log α of a gate of 0.98: a gate of exactly one has no gradient


def sample_gates(log_alpha: Tensor, uniform: Tensor) -> Tensor:
    """Hard-concrete gates for uniform noise in (0, 1)."""
    s = torch.sigmoid((torch.logit(uniform) + log_alpha) / BETA)
    return ((ZETA - GAMMA) * s + GAMMA).clamp(0, 1)


def probability_open(log_alpha: Tensor) -> Tensor:
    """P(gate > 0)."""
    return torch.sigmoid(log_alpha - BETA * math.log(-GAMMA / ZETA))


def test_time_gates(log_alpha: Tensor) -> Tensor:
    """The gates used at test time, without noise."""
    return (torch.sigmoid(log_alpha) * (ZETA - GAMMA) + GAMMA).clamp(0, 1)


@dataclass(frozen=True)
class GateConfig:
    """The `[gates]` table of a recipe."""

    knob: float = 0.8  # share of the FLOPs to reach; ignored if a strength is given
    strength: float = 0.0  # λ of the paper, fixed; 0 = found while training
    start: float = 2.5  # log α at the start: open
    path: float = 0.6  # share of the run during which the expected FLOPs fall to the target
    # Differs from the paper, which uses gates as trained with noise: the share at the end of the run during which the
    # choice of filters is fixed and their gates are trained without noise.
    polish: float = 0.2

    def __post_init__(self) -> None:
        check_knob(self.knob)
        if self.strength < 0:
            raise ValueError(f"strength is {self.strength}; expected a positive number, or 0 to have it found")
        if not 0 < self.path <= 1:
            raise ValueError(f"path is {self.path}; expected a share of the run in (0, 1]")
        if self.polish and not 0 < self.polish < 1 - self.path:
            raise ValueError(f"polish is {self.polish}; expected less than 1 - path, which is {1 - self.path:g}")


class StrengthController:
    """Adjusts λ so that the expected share of FLOPs follows a path from 1 to the target.

    Proportional and integral: the integral finds the λ that holds the target, the proportional part damps oscillation.
    Its only state is the integral, which is saved with the gates.
    """

    PROPORTIONAL, INTEGRAL = 0.05, 0.0005

    def __init__(self, config: GateConfig) -> None:
        self.config = config

    def wanted(self, share_done: float) -> float:
        """The share of the FLOPs that should remain at this stage of the run."""
        return 1 - (1 - self.config.knob) * min(share_done / self.config.path, 1.0)

    def strength(self, integral: Tensor, expected: float, share_done: float) -> float:
        """λ for the next step; updates the integral."""
        if self.config.strength:
            return self.config.strength
        error = expected - self.wanted(share_done)
        integral.add_(self.INTEGRAL * error).clamp_(min=0)
        return max(0.0, float(integral) + self.PROPORTIONAL * error)


class GateLoss(LanguageModelLoss):
    """The loss of a frozen model with random gates, plus the cost of open gates."""

    def __init__(
        self, model: LanguageModel, config: GateConfig, regularization: RegularizationConfig, steps: int, precision: str
    ) -> None:
        super().__init__(model.requires_grad_(False), regularization, precision)
        self.log_alpha = nn.ParameterList(torch.full((m,), config.start) for m in model.shape.hidden_sizes)
        # Parameters without a gradient, so that they are saved in the checkpoint.
        self.clock = nn.Parameter(torch.zeros(()), requires_grad=False)
        self.integral = nn.Parameter(torch.zeros(()), requires_grad=False)
        self.chosen = nn.Parameter(torch.zeros(()), requires_grad=False)
        # [m] each: 1 for a filter that may be open; once filters are chosen, 0 for the others.
        sizes = model.shape.hidden_sizes
        self.kept = nn.ParameterList(nn.Parameter(torch.ones(m), requires_grad=False) for m in sizes)
        # [m] each: log α when the filters were chosen. Later values say nothing about the others.
        self.scores = nn.ParameterList(nn.Parameter(torch.zeros(m), requires_grad=False) for m in sizes)
        self._controller, self._steps = StrengthController(config), steps

    @property
    def is_chosen(self) -> bool:
        """Whether the filters have been chosen, so that only the gates of the kept ones are still trained."""
        return bool(self.chosen)

    def adjustment(self) -> Adjustment:
        if not self.is_chosen and float(self.clock) >= self._steps * (1 - self._controller.config.polish):
            self._choose()
        if self.is_chosen:
            gates = zip(self.kept, self.log_alpha, strict=True)
            return Adjustment(gates=[kept * test_time_gates(log_alpha) for kept, log_alpha in gates])
        noise = [torch.empty_like(layer).uniform_(1e-6, 1 - 1e-6) for layer in self.log_alpha]
        return Adjustment(gates=[sample_gates(a, u) for a, u in zip(self.log_alpha, noise, strict=True)])

    @torch.no_grad()
    def _choose(self) -> None:
        """Fix the choice of filters, and reset the gates of the kept filters to nearly open."""
        chosen = self.keep()
        self.chosen.fill_(1)
        for kept, log_alpha, scores, filters in zip(self.kept, self.log_alpha, self.scores, chosen, strict=True):
            scores.copy_(log_alpha)
            kept.zero_()
            kept[torch.from_numpy(filters.astype(np.int64))] = 1
            log_alpha.fill_(NEARLY_OPEN)

    def keep(self) -> list[Indices]:
        """The filters to keep: the chosen ones, or those that would be chosen now."""
        if self.is_chosen:
            return [kept.nonzero(as_tuple=True)[0].cpu().numpy().astype(np.int32) for kept in self.kept]
        config = self._controller.config
        return filters_to_keep(list(self.log_alpha), self.model.shape, None if config.strength else config.knob)

    def ranking(self, name: str) -> Ranking:
        """All filters, ranked by how strongly they resisted being closed, on one scale for all layers."""
        scores = self.scores if self.is_chosen else self.log_alpha
        return Ranking(name, "l0", tuple(_array(layer) for layer in scores), comparable=True)

    def penalty(self) -> Tensor | None:
        if self.is_chosen:
            self.clock.add_(1)
            return None
        expected = torch.stack([probability_open(layer).sum() for layer in self.log_alpha])
        with torch.no_grad():
            widths = [max(1, round(float(width))) for width in expected]
            share = self.model.shape.flops_fraction(widths)
            strength = self._controller.strength(self.integral, share, float(self.clock) / self._steps)
            self.clock.add_(1)
        return strength * (self._prices(widths).to(expected.device) * expected).sum()

    def _prices(self, widths: Sequence[int]) -> Tensor:
        """The cost of an open filter in each layer: 1, as in the paper, if the strength is fixed; else its FLOPs.

        A filter that the output layer reads takes twice the FLOPs of any other. With costs in FLOPs, filters are cut
        where they are worth least per FLOP. The mean cost is 1, so that λ keeps its scale.
        """
        if self._controller.config.strength:
            return torch.ones(len(widths))
        prices = torch.tensor(filter_prices(self.model.shape, widths))
        return prices / prices.mean()


def filter_prices(shape: ModelShape, widths: Sequence[int]) -> list[float]:
    """The FLOPs saved by removing one filter from each layer at these widths, as a share of the whole model's."""
    share = shape.flops_fraction(widths)
    fewer = ([w - (i == layer) for i, w in enumerate(widths)] for layer in range(len(widths)))
    return [share - shape.flops_fraction([max(1, width) for width in less]) for less in fewer]


def filters_to_keep(log_alpha: Sequence[Tensor], shape: ModelShape, knob: float | None) -> list[Indices]:
    """The filters whose gates are open; with a knob, as many filters as it allows.

    Filters of all layers compete by log α; the best filter of each layer is always kept.
    """
    return _open(log_alpha) if knob is None else affordable([_array(layer) for layer in log_alpha], shape, knob)


def point_of(log_alpha: Sequence[Tensor], keep: Sequence[Indices], shape: ModelShape, name: str) -> OperatingPoint:
    """The point that keeps these filters, with their test-time gates."""
    gates = []
    for layer, kept in zip(log_alpha, keep, strict=True):
        values = test_time_gates(layer.detach().cpu())[torch.from_numpy(kept.astype(np.int64))]
        gates.append(values.clamp(min=SMALLEST_GATE).numpy().astype(np.float32))
    fraction = shape.flops_fraction([len(kept) for kept in keep])
    return OperatingPoint(name, "l0", tuple(keep), tuple(gates), flops_fraction=fraction)


def _array(tensor: Tensor) -> Floats:
    return np.asarray(tensor.detach().cpu().numpy(), np.float32)


def _open(log_alpha: Sequence[Tensor]) -> list[Indices]:
    keep = []
    for layer in log_alpha:
        values = test_time_gates(layer.detach().cpu())
        kept = values.nonzero(as_tuple=True)[0]
        keep.append((kept if len(kept) else values.argmax()[None]).numpy().astype(np.int32))
    return keep


class GateTask:
    """Train the gates of one operating point of a model file; the weights are frozen."""

    def __init__(
        self,
        file: ModelFile,
        config: GateConfig,
        regularization: RegularizationConfig,
        steps: int,
        valid_ids: np.ndarray,
        precision: str = "fp32",
        origin: Origin = UNKNOWN_ORIGIN,
    ) -> None:
        """origin: of the point and the ranking, as far as known when the run starts."""
        self.file, self.config, self.origin = file, config, origin
        self._evaluator, self._valid_ids = PointEvaluator(file), valid_ids
        model = LanguageModel.from_weights(file.shape, file.weights())
        self.module = GateLoss(model, config, regularization, steps, precision)

    def trainable(self) -> Mapping[str, nn.Parameter]:
        return {name: p for name, p in self.module.named_parameters() if not name.startswith("model.")}

    @property
    def keeps_last(self) -> bool:
        """With a fixed strength, gates keep closing until the end: earlier points are better, but not the goal."""
        return bool(self.config.strength)

    def initial_state(self, batch_size: int) -> State:
        return self.module.model.initial_state(batch_size)

    @property
    def position(self) -> str:
        """The knob or the strength, as part of a name."""
        return f"{self.config.strength or self.config.knob:g}"

    def point(self) -> OperatingPoint:
        label = f"l0-{self.position}"
        return point_of(list(self.module.log_alpha), self.module.keep(), self.file.shape, label)

    def validate(self, progress: Callable[[float], None]) -> Quality:
        return self._evaluator.quality(self.point(), self._valid_ids, progress)

    def save(self, path: Path, run: Mapping[str, object]) -> None:
        origin = after_run(self.origin, run)
        ranking, point = replace(self.ranking(), origin=origin), replace(self.point(), origin=origin)
        write_model(path, add_points(add_rankings(self.file.contents(), [ranking]), [point]), alone=True)

    def ranking(self) -> Ranking:
        return self.module.ranking(f"gates-{self.position}")
