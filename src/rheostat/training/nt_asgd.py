"""Averaging of weights, and when to begin: the two halves of NT-ASGD (Merity et al. 2017).

NT-ASGD is plain SGD at a constant rate until validation has not improved for a while (the non-monotone trigger); from
then on the running mean of the weights is kept, evaluated and saved, while SGD goes on underneath. Either half also
serves alone: averaging the end of an AdamW run, or stopping a second run. Knows parameters, nothing of models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


def has_stalled(losses: Sequence[float], interval: int) -> bool:
    """Whether the newest validation loss is worse than the best of those more than `interval` evaluations ago."""
    return len(losses) > interval + 1 and losses[-1] > min(losses[: -interval - 1])


class WeightAverage:
    """The running mean of parameters over the steps since it began."""

    def __init__(self, parameters: Mapping[str, nn.Parameter]) -> None:
        self._parameters = dict(parameters)
        self._means: dict[str, Tensor] = {}
        self.steps = 0

    @torch.no_grad()
    def update(self) -> None:
        """Take the present weights into the mean."""
        self.steps += 1
        if self.steps == 1:
            self._means = {name: parameter.detach().clone() for name, parameter in self._parameters.items()}
            return
        torch._foreach_lerp_(
            list(self._means.values()), [p.detach() for p in self._parameters.values()], 1 / self.steps
        )

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within the block the model has the averaged weights (if there are any), afterwards its own again."""
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
        self.steps = state["steps"]
        self._means = {name: mean.to(self._parameters[name].device) for name, mean in state["means"].items()}
