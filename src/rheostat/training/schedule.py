"""Optimizers, and their rate as a function of how much of the run is done, so that it needs no state."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import nn

from rheostat.training.configuration import TrainConfig

# One cycle: the rate rises from 1/START of its peak and ends at 1/END of it, along cosines.
START, END = 25.0, 1000.0


def make_optimizer(parameters: Mapping[str, nn.Parameter], config: TrainConfig) -> torch.optim.Optimizer:
    """NT-ASGD is SGD underneath: the averaging is the trainer's (see nt_asgd)."""
    if config.optimizer in ("nt-asgd", "sgd"):
        return torch.optim.SGD(
            parameters.values(), lr=config.learning_rate, weight_decay=config.weight_decay, fused=_can_fuse(parameters)
        )
    if config.optimizer == "adam":
        rate, decay = config.learning_rate, config.weight_decay
        return torch.optim.Adam(parameters.values(), lr=rate, weight_decay=decay, fused=_can_fuse(parameters))
    # Decoupled decay acts on matrices only: a bias that shrinks is no simpler.
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
    """The learning rate when `share_done` of the run, and so many whole epochs, lie behind."""
    rate = config.learning_rate * config.decay_factor ** sum(epochs_done >= epoch for epoch in config.decay_epochs)
    if config.schedule == "constant":
        return rate
    if share_done < config.warmup:
        return _cosine(rate / START, rate, share_done / config.warmup)
    return _cosine(rate, rate / END, min((share_done - config.warmup) / (1 - config.warmup), 1.0))


def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2
