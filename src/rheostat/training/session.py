"""What runs that train weights, gates or updates share: how a run starts, resumes, and fixes its threads and precision.

Threads and precision are chosen once, when a run starts, and saved in its checkpoint. A resumed run uses the same ones,
so its result is bit-identical to that of an uninterrupted run. Knows folders, checkpoints and Fabric; `training.run`
and `pruning.run` put corpora, models and tasks together.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric

from rheostat.errors import show
from rheostat.training.configuration import TrainConfig
from rheostat.training.machine import keep_freed_memory, sensible_threads, usable_precision, use_threads
from rheostat.training.run_folder import RunFolder
from rheostat.training.task import Task
from rheostat.training.trainer import Reporter, RunProgress, Trainer


@dataclass(frozen=True)
class RunSession:
    """A run from its start or last checkpoint to its end or next interruption."""

    folder: RunFolder
    fabric: Fabric
    saved: Mapping[str, Any]  # the checkpoint to resume from; empty for a new run

    @property
    def settled(self) -> Mapping[str, Any]:
        """The request, and what was chosen when the run started; empty for a new run."""
        settled: Mapping[str, Any] = self.saved.get("recipe", {})
        return settled

    def settle_threads(self, wanted: int, step_flops: int) -> None:
        """Use the threads that the run started with; a new run uses `wanted` (0 = as many as it keeps busy)."""
        use_threads(self.saved["threads"] if self.saved else wanted or sensible_threads(step_flops))

    def settle_precision(self, wanted: str, *, lstm: bool = False) -> str:
        """The precision that the run started with; for a new run, one that works here, the same in all processes."""
        started_with: str | None = self.settled.get("precision")
        if started_with in ("fp32", "bf16"):
            return started_with
        if started_with is not None:
            raise self.folder.damaged(f"the precision is {show(started_with)}; expected fp32 or bf16")
        usable: str = self.fabric.broadcast(usable_precision(wanted, self.fabric.device, lstm=lstm))
        return usable

    def train(
        self, task: Task, ids: np.ndarray, config: TrainConfig, reporter: Reporter, asked: Mapping[str, Any]
    ) -> RunProgress:
        """Train to the end. asked: the request, saved in the checkpoint; a resumed run must match it."""
        return Trainer(task, ids, config, self.folder, self.fabric, reporter, asked).run(resume=bool(self.saved))


def open_session(folder: RunFolder, saved: Mapping[str, Any] | None = None) -> RunSession:
    """The session of a new run, or of one that resumes from the checkpoint `saved`."""
    keep_freed_memory()
    fabric = make_fabric()
    fabric.launch()
    if torch.distributed.is_initialized():
        atexit.register(_leave_processes)
    return RunSession(folder, fabric, saved or {})


def _leave_processes() -> None:
    """End the threads between processes. Fabric does so for CUDA alone, and a thread that runs until the very end of a
    process can abort it.
    """
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def changes_since(started: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The names of values that differ from those recorded when the run started. None: not known yet."""
    return [name for name, value in started.items() if value is not None and value != now.get(name)]


def make_fabric() -> Fabric:
    """Fabric for this process, which is the only one or was started by `torchrun`.

    The task handles precision: see LanguageModelLoss.
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
    """Whether this is the process that prints and writes: the only one, or the first that `torchrun` started."""
    return int(os.environ.get("RANK", "0")) == 0
