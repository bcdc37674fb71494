"""What a training run trains: its parameters, its loss, its validation and its file.

The trainer knows only this interface. Training all weights is defined here, gates and updates in `pruning`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from rheostat.metrics import Quality
from rheostat.model.operating_point import Ranking
from rheostat.model.origin import Origin
from rheostat.provenance import new_origin
from rheostat.training.adaptive_softmax import SoftTargets
from rheostat.training.evaluation import measure_quality
from rheostat.training.language_model import UNADJUSTED, Adjustment, LanguageModel, Outputs, State
from rheostat.training.regularization import RegularizationConfig, activation_penalty


class Loss(NamedTuple):
    """objective: what is minimised, a mean over tokens; log_likelihood_loss: the part that gives the perplexity."""

    objective: Tensor
    log_likelihood_loss: Tensor
    state: State


class Task(Protocol):
    """Anything the trainer can train."""

    @property
    def module(self) -> nn.Module:
        """Called as module(inputs, targets, state) -> Loss."""

    @property
    def keeps_last(self) -> bool:
        """Whether to keep the newest result, even if an earlier one had a lower validation loss."""

    def trainable(self) -> Mapping[str, nn.Parameter]: ...

    def initial_state(self, batch_size: int) -> State: ...

    def validate(self, progress: Callable[[float], None]) -> Quality: ...

    def save(self, path: Path, run: Mapping[str, object]) -> None:
        """Write the current result; `run` is what the file records about the run."""


def after_run(origin: Origin, run: Mapping[str, Any]) -> Origin:
    """The origin of a run's current result: `origin` plus the steps taken and the tokens read so far."""
    return replace(origin, steps=run.get("steps"), tokens_read=run.get("training_tokens"), date=new_origin().date)


class LanguageModelLoss(nn.Module):
    """The loss of a language model as a module, so that torch's DDP can wrap it."""

    def __init__(self, model: LanguageModel, regularization: RegularizationConfig, precision: str = "fp32") -> None:
        super().__init__()
        self.model, self.regularization, self.precision = model, regularization, precision

    def adjustment(self) -> Adjustment:
        """What this step adds to the weights: nothing, unless a subclass trains something."""
        return UNADJUSTED

    def penalty(self) -> Tensor | None:
        """An extra loss term, besides the activation penalties."""
        return None

    def soft_targets(self, inputs: Tensor, state: State) -> tuple[SoftTargets | None, State]:
        """A second target for this step, from a teacher; the teacher's state comes after the model's own."""
        return None, state

    def extra_loss(self, inputs: Tensor, targets: Tensor, state: State, outputs: Outputs) -> Tensor | None:
        """An extra loss for this step, a mean over tokens, for tasks that also run the model in other ways."""
        return None

    def forward(self, inputs: Tensor, targets: Tensor, state: State) -> Loss:
        own, carried = state[: len(self.model.layers)], state[len(self.model.layers) :]
        with self.reduced_precision(inputs):
            outputs = self.model(inputs, own, self.regularization, self.adjustment())
            soft, carried = self.soft_targets(inputs, carried)
            objective, loss = self._losses(outputs.dropped, targets, soft)
            extra = self.extra_loss(inputs, targets, own, outputs)
        activations = activation_penalty(outputs.raw.float(), outputs.dropped.float(), self.regularization)
        for term in (extra, activations, self.penalty()):
            objective = objective if term is None else objective + term
        return Loss(objective, loss, outputs.state + carried)

    def reduced_precision(self, inputs: Tensor) -> torch.autocast:
        """Within it, products use bf16 if asked for; weights, pooling, state and penalties stay in float32.

        (Fabric's own bf16-mixed would round the carried state at every call.)
        """
        return torch.autocast(inputs.device.type, dtype=torch.bfloat16, enabled=self.precision == "bf16")

    def _losses(self, hidden: Tensor, targets: Tensor, soft: SoftTargets | None) -> tuple[Tensor, Tensor]:
        """Objective and log-likelihood loss, as means over tokens."""
        if soft is None:
            loss = self.model.cross_entropy(hidden, targets) / targets.numel()
            return loss, loss.detach()
        distilled = self.model.distillation(hidden, targets, soft)
        return distilled.objective / targets.numel(), distilled.log_likelihood_loss / targets.numel()


class WeightTask:
    """Train all weights of a language model."""

    keeps_last = False

    def __init__(
        self,
        model: LanguageModel,
        regularization: RegularizationConfig,
        valid_ids: np.ndarray,
        write: Callable[[LanguageModel, Path, Mapping[str, object], Sequence[Ranking]], None],
        precision: str = "fp32",
    ) -> None:
        self.model = model
        self.module: LanguageModelLoss = LanguageModelLoss(model, regularization, precision)
        self._valid_ids, self._write = valid_ids, write

    def trainable(self) -> Mapping[str, nn.Parameter]:
        return dict(self.model.named_parameters())

    def initial_state(self, batch_size: int) -> State:
        return self.model.initial_state(batch_size)

    def validate(self, progress: Callable[[float], None]) -> Quality:
        return measure_quality(self.model, self._valid_ids, progress)

    def save(self, path: Path, run: Mapping[str, object]) -> None:
        self._write(self.model, path, run, ())
