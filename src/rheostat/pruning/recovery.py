"""Single-rank updates: adding u · v to each layer's matrix recovers what cutting lost (the paper's section 3.1).

The model of a point is cut, its gates are folded in, and it is frozen; only u and v are trained. They are stored with
the point and merged when it is cut, so they cost bytes but no time. Knows updates; `training.trainer` has the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from rheostat.metrics import Quality
from rheostat.model.contents import add_points
from rheostat.model.file import ModelFile
from rheostat.model.operating_point import OperatingPoint, Update, full_point
from rheostat.model.origin import UNKNOWN_ORIGIN, Origin
from rheostat.model.writer import write_model
from rheostat.training.adaptive_softmax import SoftTargets
from rheostat.training.evaluation import PointEvaluator
from rheostat.training.language_model import Adjustment, LanguageModel, State
from rheostat.training.layers import LowRank
from rheostat.training.regularization import RegularizationConfig
from rheostat.training.task import LanguageModelLoss, after_run

DEVIATION = 0.1  # standard deviation of the paper's initial values


What = Literal["update", "gate", "bias"]
SMALLEST_GATE = 1e-3  # a gate is above zero, since a filter that is kept is paid for


@dataclass(frozen=True)
class UpdateConfig:
    """The `[update]` table of a recovery recipe."""

    what: What = "update"  # or, as controls, one gate per kept filter, or the biases
    rank: int = 1
    start: Literal["normal", "zero"] = "normal"  # u and v from Normal(0, 0.1) as in the paper; or u = 0, exactly at W
    distill: float = 0.0  # share of the target that is the full model's distribution; the rest is the text

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ValueError(f"rank is {self.rank}; expected at least 1")
        if not 0 <= self.distill <= 1:
            raise ValueError(f"distill is {self.distill}; expected a share of the target in [0, 1]")


class UpdateLoss(LanguageModelLoss):
    """The loss of a frozen model with updates on top."""

    def __init__(
        self,
        model: LanguageModel,
        config: UpdateConfig,
        regularization: RegularizationConfig,
        precision: str = "fp32",
        teacher: LanguageModel | None = None,
    ) -> None:
        super().__init__(model.requires_grad_(False), regularization, precision)
        self.teacher = teacher.requires_grad_(False) if teacher else None
        self._distill = config.distill
        self.what = config.what
        if config.what == "bias":
            self._start = [bias.detach().clone() for bias in self._biases()]
            for bias in self._biases():
                bias.requires_grad_(True)
        if config.what == "gate":
            self.gates = nn.ParameterList(torch.ones(size) for size in model.shape.hidden_sizes)
        shapes = model.shape.update_shapes(config.rank) if config.what == "update" else []
        self.u = nn.ParameterList(torch.empty(u).normal_(0, DEVIATION) for u, _ in shapes)
        self.v = nn.ParameterList(torch.empty(v).normal_(0, DEVIATION) for _, v in shapes)
        if config.start == "zero":
            for u in self.u:
                nn.init.zeros_(u)

    def _biases(self) -> list[nn.Parameter]:
        return [p for name, p in self.model.named_parameters() if name.startswith("layers.") and name.endswith("bias")]

    def _clamped(self) -> list[Tensor]:
        """Gates in range; the gradient of one that has left it is let through, so that it can come back."""
        return [gate + (gate.clamp(SMALLEST_GATE, 1) - gate).detach() for gate in self.gates]

    def adjustment(self) -> Adjustment:
        if self.what == "gate":
            return Adjustment(gates=self._clamped())
        if self.what == "bias":
            return Adjustment()
        return Adjustment(updates=[LowRank(u, v) for u, v in zip(self.u, self.v, strict=True)])

    def soft_targets(self, inputs: Tensor, state: State) -> tuple[SoftTargets | None, State]:
        if self.teacher is None:
            return None, state
        with torch.no_grad():  # without dropout: the distribution that was learned
            outputs = self.teacher(inputs, state)
        return self.teacher.soft_targets(outputs.raw, self._distill), outputs.state

    def initial_state(self, batch_size: int) -> State:
        """The model's state, followed by the teacher's."""
        models = [self.model, *([self.teacher] if self.teacher else [])]
        return tuple(layer for model in models for layer in model.initial_state(batch_size))

    def added_to(self, bare: OperatingPoint) -> OperatingPoint:
        """The point with what was trained, as stored in a model file. Gates multiply those it already has."""
        if self.what == "bias":
            pairs = zip(self._biases(), self._start, strict=True)
            return replace(bare, biases=tuple(_array(bias - start) for bias, start in pairs))
        if self.what == "gate":
            old = [1.0 if gate is None else gate for gate in map(bare.gate, range(len(bare.keep)))]
            trained = [_array(gate) for gate in self._clamped()]
            smallest = np.float32(SMALLEST_GATE)
            return replace(bare, gates=tuple(np.maximum(a * b, smallest) for a, b in zip(trained, old, strict=True)))
        return replace(bare, updates=self._updates())

    def _updates(self) -> tuple[Update, ...]:
        return tuple(Update(_array(u), _array(v)) for u, v in zip(self.u, self.v, strict=True))


class UpdateTask:
    """Train the update of one operating point of a model file."""

    keeps_last = False

    def __init__(
        self,
        file: ModelFile,
        point: OperatingPoint,
        config: UpdateConfig,
        regularization: RegularizationConfig,
        valid_ids: np.ndarray,
        precision: str = "fp32",
        origin: Origin = UNKNOWN_ORIGIN,
    ) -> None:
        """origin: of the update, as far as known when the run starts."""
        self.file = file
        # The update's origin links to that of the point itself, not of an earlier update.
        self.origin = origin.after((point.origin.before or UNKNOWN_ORIGIN) if point.updates else point.origin)
        # Recovery starts from the cut model, without an old update.
        self.bare = replace(point, updates=None, biases=None)
        self._evaluator, self._valid_ids = PointEvaluator(file), valid_ids
        teacher = self._evaluator.model(full_point(file.shape)) if config.distill else None
        self.module = UpdateLoss(self._evaluator.model(self.bare), config, regularization, precision, teacher)

    def trainable(self) -> Mapping[str, nn.Parameter]:
        return {name: p for name, p in self.module.named_parameters() if p.requires_grad}

    def initial_state(self, batch_size: int) -> State:
        return self.module.initial_state(batch_size)

    def point(self) -> OperatingPoint:
        """The point with the current update."""
        return self.module.added_to(self.bare)

    def validate(self, progress: Callable[[float], None]) -> Quality:
        """Validate the merged model, with the weights that a device will run."""
        return self._evaluator.quality(self.point(), self._valid_ids, progress)

    def save(self, path: Path, run: Mapping[str, object]) -> None:
        point = replace(self.point(), origin=after_run(self.origin, run))
        write_model(path, add_points(self.file.contents(), [point]), alone=True)


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy().copy()
