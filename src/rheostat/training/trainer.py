"""The training loop for weights, gates and updates.

It reads the text in batches, steps the optimizer, validates after every epoch and keeps the best result. It can be
killed and resumed at any moment with the same outcome. A `task` defines what is trained; Fabric handles processes and
devices.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor

from rheostat.errors import CheckpointError, RecipeError, RheostatError
from rheostat.metrics import Quality, perplexity
from rheostat.tables import from_json
from rheostat.training.batches import Batches, draw_length
from rheostat.training.configuration import TrainConfig
from rheostat.training.language_model import detach
from rheostat.training.optimization import WeightAverage, has_stalled, make_optimizer, rate_at
from rheostat.training.run_folder import Curves, RunFolder
from rheostat.training.task import Task

LOG_STEPS = 10
ADAM_MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass
class RunProgress:
    """The progress of a run: everything that decides what happens next, apart from weights and random numbers."""

    epoch: int = 0  # finished epochs
    position: int = 0  # row of the text at which the next batch starts
    step: int = 0  # finished steps
    tokens: int = 0
    seconds: float = 0.0  # over all sessions
    losses: tuple[float, ...] = ()  # one per validation
    averaging: bool = False
    finished: bool = False

    def __post_init__(self) -> None:
        if min(self.epoch, self.position, self.step, self.tokens) < 0 or not 0 <= self.seconds < math.inf:
            raise ValueError(f"{self.step} steps, {self.epoch} epochs, {self.seconds} s; expected none below zero")

    @classmethod
    def restored(cls, saved: Mapping[str, Any]) -> RunProgress:
        """The progress in a checkpoint, checked."""
        return from_json(cls, saved, "progress", error=CheckpointError)

    @property
    def last_epoch(self) -> int:
        """The number of the epoch, from 1, that the last step belongs to."""
        return self.epoch + (self.position > 0)

    @property
    def best_loss(self) -> float:
        return min(self.losses, default=math.inf)


class Reporter(Protocol):
    """Receives the progress of a run, for instance to draw a bar. `SILENT` ignores everything."""

    def reading(self, label: str, share: float) -> None:
        """The corpus is being read into the token cache."""

    def step(self, progress: RunProgress, share: float, loss: float, tokens_per_second: float) -> None:
        """Every few steps. share: how much of the run is done; loss: the mean since the last call."""

    def validating(self, share: float) -> None:
        """Validation is under way."""

    def validated(self, progress: RunProgress, quality: Quality, improved: bool) -> None:
        """Validation is done."""

    def message(self, text: str) -> None:
        """A line for the user."""


class _Silent:
    """A reporter that reports nothing."""

    def reading(self, label: str, share: float) -> None: ...

    def step(self, progress: RunProgress, share: float, loss: float, tokens_per_second: float) -> None: ...

    def validating(self, share: float) -> None: ...

    def validated(self, progress: RunProgress, quality: Quality, improved: bool) -> None: ...

    def message(self, text: str) -> None: ...


SILENT: Reporter = _Silent()


class InterruptedRunError(RheostatError):
    """The run was stopped by a signal, and saved before it stopped."""


class Trainer:
    """One run of one task in one folder."""

    def __init__(
        self,
        task: Task,
        ids: np.ndarray,
        config: TrainConfig,
        folder: RunFolder,
        fabric: Fabric,
        reporter: Reporter,
        recipe: Mapping[str, Any],
    ) -> None:
        if config.batch_size % fabric.world_size:
            raise RecipeError(
                f"train.batch_size is {config.batch_size}; expected a multiple of the {fabric.world_size} processes"
            )
        self.task, self.config, self.folder, self.fabric, self.reporter = task, config, folder, fabric, reporter
        self.recipe = recipe
        self.progress = RunProgress()
        share = config.batch_size // fabric.world_size
        self._batches = Batches(
            ids, config.batch_size, slice(fabric.global_rank * share, (fabric.global_rank + 1) * share)
        )
        self._module = fabric.setup_module(task.module)
        self._parameters = dict(task.trainable())
        optimizer = fabric.setup_optimizers(make_optimizer(self._parameters, config))
        assert not isinstance(optimizer, tuple)
        self._optimizer = optimizer
        self._average = WeightAverage(self._parameters)
        self._state = task.initial_state(share)
        self._share = share
        self._log_loss: Tensor = torch.zeros((), device=fabric.device)
        self._log_tokens, self._log_started = 0, time.monotonic()
        self._curves: Curves | None = None
        # Each process draws its own dropout; batches depend only on the seed and are shared.
        torch.manual_seed(config.seed + 7919 * (fabric.global_rank + 1))

    def run(self, resume: bool = False) -> RunProgress:
        """Train to the end. If a signal asks to stop, save and raise InterruptedRunError."""
        if self.fabric.is_global_zero:
            self.folder.make()
        if resume:
            saved = self.folder.load()
            if (processes := len(saved["ranks"])) != self.fabric.world_size:
                raise CheckpointError(
                    f"the run was started with {processes} processes and is resumed with {self.fabric.world_size}; "
                    f"resume it with {processes}"
                )
            with self.folder.restoring():
                self._restore(saved)
        else:
            self._save()  # before any model, so that a kill at any moment leaves a run that can be resumed
        self._open_logs()
        started, before = time.monotonic(), self.progress.seconds
        last_save = time.monotonic()
        with _signals() as stop_asked:
            while not self.progress.finished:
                self._step()
                self.progress.seconds = before + time.monotonic() - started
                if self.config.minutes:  # time decides the rate and the end, so all processes use one clock
                    self.progress.seconds = self.fabric.broadcast(self.progress.seconds)
                if self._at_end_of_text() or self._is_over():
                    self._finish_epoch()
                    due = True
                else:
                    due = time.monotonic() - last_save > 60 * self.config.checkpoint_minutes
                stop, due = self._agree(stop_asked(), due)
                if due or stop:
                    self._save()
                    last_save = time.monotonic()
                if stop and not self.progress.finished:
                    raise InterruptedRunError(f"stopped at step {self.progress.step}, saved in {self.folder.path}")
        return self.progress

    def _step(self) -> None:
        progress = self.progress
        inputs, targets = self._batches.batch(progress.position, draw_length(self.config, progress.step))
        inputs, targets = inputs.to(self.fabric.device), targets.to(self.fabric.device)
        rate = rate_at(self.config, self._share_done(), progress.epoch)
        if self.config.random_length:
            rate *= len(inputs) / self.config.sequence_length
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        loss = self._module(inputs, targets, self._state)
        self.fabric.backward(loss.objective)
        if self.config.clip:
            torch.nn.utils.clip_grad_norm_(self._parameters.values(), self.config.clip)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self._state = detach(loss.state)
        progress.step += 1
        progress.position += len(inputs)
        progress.tokens += len(inputs) * self.config.batch_size
        if progress.averaging or self._share_done() > self.config.average_from:
            self._average.update()
        self._log_step(loss.log_likelihood_loss, len(inputs) * self.config.batch_size, rate)

    def _share_done(self) -> float:
        if self.config.steps:
            return self.progress.step / self.config.steps
        if self.config.minutes:
            return min(self.progress.seconds / (60 * self.config.minutes), 1.0)
        within = min(self.progress.position / (self._batches.rows - 1), 1.0)
        return (self.progress.epoch + within) / self.config.epochs

    def _at_end_of_text(self) -> bool:
        return not self._batches.has(self.progress.position)

    def _is_over(self) -> bool:
        """Whether the steps or the minutes of the recipe are used up."""
        return (self.config.steps or self.config.minutes) > 0 and self._share_done() >= 1

    def _finish_epoch(self) -> None:
        progress, config = self.progress, self.config
        if self._at_end_of_text():
            progress.epoch, progress.position = progress.epoch + 1, 0
            self._state = self.task.initial_state(self._share)
        self._validate()
        if config.optimizer == "nt-asgd" and not progress.averaging:
            progress.averaging = has_stalled(progress.losses, config.nonmonotone_interval)
            if progress.averaging:
                self.reporter.message(f"validation has stalled: averaging weights from step {progress.step} on")
        stalled = config.patience > 0 and has_stalled(progress.losses, config.patience)
        epochs_done = not (config.steps or config.minutes) and progress.epoch >= config.epochs
        progress.finished = epochs_done or self._is_over() or stalled

    def _validate(self) -> None:
        """Validate on the first process. The others wait for its loss, so that all make the same decisions."""
        progress, quality = self.progress, None
        with self._average.in_place():
            if self.fabric.is_global_zero:
                quality = self.task.validate(self.reporter.validating)
            loss = self.fabric.broadcast(quality.loss if quality else None)
            assert loss is not None
            self._require_finite("perplexity in validation", perplexity(loss))
            improved = loss < progress.best_loss
            if quality and (improved or self.task.keeps_last):
                self.task.save(self.folder.model, self._run_so_far(quality))
        progress.losses += (loss,)
        if quality:
            self._log_validation(quality)
            self.reporter.validated(progress, quality, improved)
        # Validation time is not counted in the next tokens per second.
        self._log_started = time.monotonic()

    def _run_so_far(self, quality: Quality) -> dict[str, Any]:
        done = self.progress
        return {
            "epochs": done.epoch,
            "steps": done.step,
            "training_tokens": done.tokens,
            "training_seconds": round(done.seconds, 1),
            "averaged_steps": self._average.steps,
            "processes": self.fabric.world_size,
            "valid": quality.as_json(),
        }

    # Logging

    def _open_logs(self) -> None:
        if not self.fabric.is_global_zero:
            return
        self.folder.cut_log(self.progress.step)
        self._curves = self.folder.curves(self.progress.step + 1)

    def _log_step(self, loss: Tensor, tokens: int, rate: float) -> None:
        self._log_loss += loss * tokens
        self._log_tokens += tokens
        if self.progress.step % LOG_STEPS:
            return
        mean = float(self._all_reduce(self._log_loss, "mean")) / self._log_tokens
        self._require_finite("loss", mean)
        speed = self._log_tokens / max(time.monotonic() - self._log_started, 1e-9)
        self._log_loss.zero_()
        self._log_tokens, self._log_started = 0, time.monotonic()
        if self.fabric.is_global_zero:
            self._write_log("train", {"loss": mean, "rate": rate, "tokens_per_second": round(speed, 1)})
            self.reporter.step(self.progress, self._share_done(), mean, speed)

    def _require_finite(self, what: str, value: float) -> None:
        """Stop a run that has diverged: resuming it with the same recipe would only diverge again."""
        if not math.isfinite(value):
            raise RheostatError(
                f"the {what} became {value} at step {self.progress.step}; start again with a lower train.learning_rate"
            )

    def _log_validation(self, quality: Quality) -> None:
        averaged = {"averaged_steps": self._average.steps}
        self._write_log("valid", {"loss": quality.loss, **quality.as_json(), **averaged})

    def _write_log(self, event: str, values: dict[str, Any]) -> None:
        progress = self.progress
        clock = {"step": progress.step, "epoch": progress.epoch, "seconds": round(progress.seconds, 1)}
        self.folder.append_log({"event": event, **clock, **values})
        assert self._curves is not None
        self._curves.add({f"{event}/{name}": value for name, value in values.items()}, progress.step)

    # Checkpoints

    def _save(self) -> None:
        mine = {
            "random": _random_state(self.fabric.device),
            "state": [list(layer) for layer in self._state],
            "log_loss": float(self._log_loss),
        }
        ranks = self._gather(mine)
        self._require_finite("loss", sum(rank["log_loss"] for rank in ranks))
        # If the last step made weights infinite, the loss shows it only at the next step.
        self._require_finite("sum of all weights", sum(float(p.detach().sum()) for p in self._parameters.values()))
        if self.fabric.is_global_zero:
            self.folder.save(
                {
                    "recipe": dict(self.recipe),
                    "progress": asdict(self.progress),
                    "threads": torch.get_num_threads(),
                    "parameters": {name: parameter.detach() for name, parameter in self._parameters.items()},
                    "optimizer": self._optimizer.state_dict(),
                    "average": self._average.state_dict(),
                    "log_tokens": self._log_tokens,
                    "ranks": ranks,
                }
            )
        self.fabric.barrier()

    def _restore(self, saved: Mapping[str, Any]) -> None:
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                stored = saved["parameters"][name]
                _require_shape(name, stored, parameter)
                parameter.copy_(stored)
        self._restore_optimizer(saved["optimizer"]["state"])
        self._average.load_state_dict(saved["average"])
        self.progress = RunProgress.restored(saved["progress"])
        if not self.progress.finished and self._at_end_of_text():
            raise CheckpointError(f"it stopped at {self.progress.position}, which is beyond the end of the text")
        mine = saved["ranks"][self.fabric.global_rank]
        self._log_loss.fill_(mine["log_loss"])
        self._log_tokens = saved["log_tokens"]
        for empty, layer in zip(self._state, mine["state"], strict=True):
            for part, stored in zip(empty, layer, strict=True):
                _require_shape("the state", stored, part)
        layers = zip(self._state, mine["state"], strict=True)
        self._state = tuple(
            type(empty)(*(tensor.to(self.fabric.device) for tensor in layer)) for empty, layer in layers
        )
        _set_random_state(self.fabric.device, mine["random"])

    def _restore_optimizer(self, state: Mapping[int, Mapping[str, Any]]) -> None:
        """Restore the optimizer's moments; its settings come from the recipe. SGD has no moments."""
        if not self.config.optimizer.startswith("adam"):
            return
        fresh: dict[str, Any] = self._optimizer.state_dict()
        order = [index for group in fresh["param_groups"] for index in group["params"]]
        parameters = [one for group in self._optimizer.param_groups for one in group["params"]]
        known = dict(zip(order, parameters, strict=True))
        for index in state:  # a parameter that had no gradient yet has no moments
            for name in ADAM_MOMENTS:
                _require_shape(f"the optimizer's {name}", state[index][name], known[index])
            _require_shape("the optimizer's step", state[index]["step"], torch.zeros(()))
        moments = {index: {name: state[index][name] for name in ("step", *ADAM_MOMENTS)} for index in state}
        fresh["state"] = moments
        self._optimizer.load_state_dict(fresh)

    def _gather(self, mine: Any) -> list[Any]:
        if self.fabric.world_size == 1:
            return [mine]
        everyone: list[Any] = [None] * self.fabric.world_size
        torch.distributed.all_gather_object(everyone, mine)
        return everyone

    def _agree(self, *flags: bool) -> tuple[bool, ...]:
        """Each flag combined over all processes: true if it is true in any of them."""
        if self.fabric.world_size == 1:
            return flags
        wishes = torch.tensor(flags, dtype=torch.float32, device=self.fabric.device)
        return tuple(bool(wish) for wish in self._all_reduce(wishes, "sum"))

    def _all_reduce(self, tensor: Tensor, operation: str) -> Tensor:
        reduced = self.fabric.all_reduce(tensor, reduce_op=operation)
        assert isinstance(reduced, Tensor)
        return reduced


def _require_shape(name: str, stored: object, like: Tensor) -> None:
    """Words, weights and recipe already match the checkpoint's, so a wrong shape means damage."""
    if isinstance(stored, Tensor) and stored.shape == like.shape and stored.dtype == like.dtype:
        if not stored.is_floating_point() or torch.isfinite(stored).all():
            return
        raise CheckpointError(f"{name} has values that are not finite; expected finite ones")
    found = f"{stored.dtype} {list(stored.shape)}" if isinstance(stored, Tensor) else type(stored).__name__
    raise CheckpointError(f"{name} is {found}; expected {like.dtype} {list(like.shape)}")


def _random_state(device: torch.device) -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def _set_random_state(device: torch.device, states: Mapping[str, Tensor]) -> None:
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states["cuda"], device)


@contextmanager
def _signals() -> Iterator[Callable[[], bool]]:
    """Within the block, the first Ctrl-C or SIGTERM only sets a flag; a second one works as usual.

    Python allows signal handlers in the main thread only; in others a run cannot be asked to stop.
    """
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

    def remember(number: int, frame: object) -> None:
        asked.append(number)
        signal.signal(number, previous[number])

    watched = (signal.SIGINT, signal.SIGTERM)
    previous: dict[int, Any] = {number: signal.signal(number, remember) for number in watched}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
