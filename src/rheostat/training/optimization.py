"""The optimizer, its learning rate, and the averaging of NT-ASGD.

The rate depends only on how much of the run is done, so it needs no state. NT-ASGD (Merity et al. 2017) is plain SGD at
a constant rate until validation has not improved for a while (the non-monotone trigger). From then on the running mean
of the weights is kept, evaluated and saved, while SGD continues underneath. The trigger and the averaging are also used
separately: averaging at the end of an AdamW run, or stopping a second run. Knows parameters; knows nothing of models.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from rheostat.training.configuration import TrainConfig

# One cycle: the rate starts at peak / first number, and ends at peak / second number.
FIRST_DIVISOR, LAST_DIVISOR = 25.0, 1000.0


def make_optimizer(parameters: Mapping[str, nn.Parameter], config: TrainConfig) -> torch.optim.Optimizer:
    """The optimizer that a recipe asks for. NT-ASGD is SGD underneath: the trainer averages its weights."""
    if config.optimizer in ("nt-asgd", "sgd"):
        return torch.optim.SGD(
            parameters.values(), lr=config.learning_rate, weight_decay=config.weight_decay, fused=_can_fuse(parameters)
        )
    if config.optimizer == "adam":
        rate, decay = config.learning_rate, config.weight_decay
        return torch.optim.Adam(parameters.values(), lr=rate, weight_decay=decay, fused=_can_fuse(parameters))
    # Decoupled decay acts on matrices only: shrinking a bias does not simplify the model.
    groups = [
        {"params": [p for p in parameters.values() if p.dim() > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters.values() if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]], lr=config.learning_rate, fused=_can_fuse(parameters)
    )


def _can_fuse(parameters: Mapping[str, nn.Parameter]) -> bool:
    return all(parameter.device.type in ("cpu", "cuda") for parameter in parameters.values())


def rate_at(config: TrainConfig, share_done: float, epochs_done: int) -> float:
    """The learning rate after `share_done` of the run and `epochs_done` whole epochs."""
    rate = config.learning_rate * config.decay_factor ** sum(epochs_done >= epoch for epoch in config.decay_epochs)
    if config.schedule == "constant":
        return rate
    if share_done < config.warmup:
        return _cosine(rate / FIRST_DIVISOR, rate, share_done / config.warmup)
    return _cosine(rate, rate / LAST_DIVISOR, min((share_done - config.warmup) / (1 - config.warmup), 1.0))


def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2


def has_stalled(losses: Sequence[float], interval: int) -> bool:
    """Whether the newest validation loss is worse than the best one from more than `interval` evaluations ago."""
    return len(losses) > interval + 1 and losses[-1] > min(losses[: -interval - 1])


class WeightAverage:
    """The running mean of parameters since averaging started."""

    def __init__(self, parameters: Mapping[str, nn.Parameter]) -> None:
        self._parameters = dict(parameters)
        self._means: dict[str, Tensor] = {}
        self.steps = 0

    @torch.no_grad()
    def update(self) -> None:
        """Add the current weights to the mean."""
        self.steps += 1
        if self.steps == 1:
            self._means = {name: parameter.detach().clone() for name, parameter in self._parameters.items()}
            return
        torch._foreach_lerp_(
            list(self._means.values()), [p.detach() for p in self._parameters.values()], 1 / self.steps
        )

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within the block, the model has the averaged weights, if any; afterwards its own again."""
        if not self.steps:
            yield
            return
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for name, parameter in self._parameters.items():
            parameter.data, self._means[name] = self._means[name], parameter.data

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps, "means": dict(self._means)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.steps = int(state["steps"])
        self._means = {name: mean.to(self._parameters[name].device) for name, mean in state["means"].items()}
        if self.steps and set(self._means) != set(self._parameters):
            raise ValueError("the averaged weights are not those of the model")
        for name, mean in self._means.items():
            if mean.shape != self._parameters[name].shape:
                raise ValueError(f"the average of {name} is {list(mean.shape)}")
