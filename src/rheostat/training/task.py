"""What a training run is about: which parameters, which loss, which validation, which file.

The trainer knows only this interface; training all weights is its first case, gates and updates are others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from rheostat.metrics import Quality
from rheostat.training.evaluation import evaluate
from rheostat.training.language_model import UNADJUSTED, Adjustment, LanguageModel, State
from rheostat.training.regularization import RegularizationConfig, activation_penalty


class Loss(NamedTuple):
    """objective: what is minimised, a mean over tokens; log_likelihood_loss: its part that perplexity is made of."""

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
        """Whether the newest result is the one to keep, even where an earlier one had a lower validation loss."""

    def trainable(self) -> Mapping[str, nn.Parameter]: ...

    def initial_state(self, batch_size: int) -> State: ...

    def validate(self, progress: Callable[[float], None]) -> Quality: ...

    def save(self, path: Path, run: Mapping[str, object]) -> None:
        """Write the result so far; `run` is what the file should say of the run behind it."""


class LanguageModelLoss(nn.Module):
    """The loss of a language model as a module, so that torch's DDP can wrap it."""

    def __init__(self, model: LanguageModel, regularization: RegularizationConfig, precision: str = "fp32") -> None:
        super().__init__()
        self.model, self.regularization, self.precision = model, regularization, precision

    def adjustment(self) -> Adjustment:
        """What this step puts on top of the weights; nothing, unless a subclass trains it."""
        return UNADJUSTED

    def penalty(self) -> Tensor | None:
        """What is added to the loss beside the activation penalties."""
        return None

    def forward(self, inputs: Tensor, targets: Tensor, state: State) -> Loss:
        # Products in bf16; weights, pooling, state and penalties stay in float32. (Fabric's own bf16-mixed would round
        # the carried state at every call.)
        with torch.autocast(inputs.device.type, dtype=torch.bfloat16, enabled=self.precision == "bf16"):
            outputs = self.model(inputs, state, self.regularization, self.adjustment())
            loss = self.model.cross_entropy(outputs.dropped, targets) / targets.numel()
        objective = loss
        activations = activation_penalty(outputs.raw.float(), outputs.dropped.float(), self.regularization)
        for penalty in (activations, self.penalty()):
            objective = objective if penalty is None else objective + penalty
        return Loss(objective, loss.detach(), outputs.state)


class WeightTraining:
    """Train all weights of a language model."""

    keeps_last = False

    def __init__(
        self,
        model: LanguageModel,
        regularization: RegularizationConfig,
        valid_ids: np.ndarray,
        write: Callable[[LanguageModel, Path, Mapping[str, object]], None],
        precision: str = "fp32",
    ) -> None:
        self.model = model
        self.module = LanguageModelLoss(model, regularization, precision)
        self._valid_ids, self._write = valid_ids, write

    def trainable(self) -> Mapping[str, nn.Parameter]:
        return dict(self.model.named_parameters())

    def initial_state(self, batch_size: int) -> State:
        return self.model.initial_state(batch_size)

    def validate(self, progress: Callable[[float], None]) -> Quality:
        return evaluate(self.model, self._valid_ids, progress)

    def save(self, path: Path, run: Mapping[str, object]) -> None:
        self._write(self.model, path, run)
