"""What all runs share, whether they train weights, gates or updates: how a run starts, resumes and settles its choices.

Threads and precision are chosen once, when a run starts, and saved in its checkpoint. A resumed run uses the same ones,
so that it ends with the same bits as one that was never stopped. Knows folders, checkpoints and Fabric; corpora, models
and tasks are put together in `training.run` and `pruning.run`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric

from rheostat.training.configuration import TrainConfig
from rheostat.training.machine import keep_freed_memory, sensible_threads, usable_precision, use_threads
from rheostat.training.run_folder import RunFolder
from rheostat.training.task import Task
from rheostat.training.trainer import Reporter, RunProgress, Trainer


@dataclass(frozen=True)
class RunSession:
    """A run from its start, or from its last checkpoint, to its end or the next interruption."""

    folder: RunFolder
    fabric: Fabric
    saved: Mapping[str, Any]  # the checkpoint that is resumed; empty for a new run

    @property
    def settled(self) -> Mapping[str, Any]:
        """What the run was asked for and what was chosen for it when it started; empty for a new run."""
        settled: Mapping[str, Any] = self.saved.get("recipe", {})
        return settled

    def settle_threads(self, wanted: int, step_flops: int) -> None:
        """Use the threads that the run started with; a new run uses `wanted`, or 0 for as many as it keeps busy."""
        use_threads(self.saved["threads"] if self.saved else wanted or sensible_threads(step_flops))

    def settle_precision(self, wanted: str, *, lstm: bool = False) -> str:
        """The precision that the run started with; a new run takes one that works here, the same in all processes."""
        started_with: str | None = self.settled.get("precision")
        if started_with:
            return started_with
        usable: str = self.fabric.broadcast(usable_precision(wanted, self.fabric.device, lstm=lstm))
        return usable

    def train(
        self, task: Task, ids: np.ndarray, config: TrainConfig, reporter: Reporter, asked: Mapping[str, Any]
    ) -> RunProgress:
        """Train to the end. asked: what a resumed run must be asked for again, saved in the checkpoint."""
        return Trainer(task, ids, config, self.folder, self.fabric, reporter, asked).run(resume=bool(self.saved))


def open_session(folder: RunFolder, saved: Mapping[str, Any] | None = None) -> RunSession:
    """The session of a new run, or of one that resumes from the checkpoint `saved`."""
    keep_freed_memory()
    fabric = make_fabric()
    fabric.launch()
    return RunSession(folder, fabric, saved or {})


def changes_since(started: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The names of what was recorded when a run started and has another value now. None: not known yet."""
    return [name for name, value in started.items() if value is not None and value != now.get(name)]


def make_fabric() -> Fabric:
    """Fabric for this process: the only one, or one of those that `torchrun` started.

    Precision is left to the task: see LanguageModelLoss.
    """
    world = int(os.environ.get("WORLD_SIZE", "1"))
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return Fabric(
        accelerator="cuda" if torch.cuda.is_available() else "cpu",
        devices=local,
        num_nodes=world // local,
        strategy="ddp" if world > 1 else "auto",
    )


def is_first_process() -> bool:
    """Whether this is the only process, or the one of those started by `torchrun` that prints and writes."""
    return int(os.environ.get("RANK", "0")) == 0
