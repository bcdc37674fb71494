"""Learning an operating point of a model file: gates or an update, in a run that can be killed and gone on with.

The same command goes on where it stopped: the run's folder lies beside the model file it writes, and is removed when
that file is complete. Puts file, corpus, task and trainer together.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rheostat.errors import CheckpointError
from rheostat.model.file import ModelFile, open_model
from rheostat.model.operating_point import OperatingPoint, Ranking
from rheostat.pruning.l0 import GateConfig, GateTraining
from rheostat.pruning.recovery import UpdateConfig, UpdateTraining
from rheostat.recipe import fill
from rheostat.text.corpus import CorpusConfig, load_split
from rheostat.training.configuration import TrainConfig
from rheostat.training.machine import keep_freed_memory, sensible_threads, usable_precision, use_threads
from rheostat.training.regularization import RegularizationConfig
from rheostat.training.run import make_fabric
from rheostat.training.run_folder import RunFolder
from rheostat.training.trainer import Reporter, Trainer


@dataclass(frozen=True)
class RecoveryRecipe:
    """All tables of a recipe for `rheostat recover`."""

    update: UpdateConfig = field(default_factory=UpdateConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    regularization: RegularizationConfig = field(default_factory=RegularizationConfig)


@dataclass(frozen=True)
class GateRecipe:
    """All tables of a recipe for `rheostat prune --criterion l0`."""

    gates: GateConfig = field(default_factory=GateConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    regularization: RegularizationConfig = field(default_factory=RegularizationConfig)


@dataclass(frozen=True, eq=False)
class Learnt:
    """What a run adds to a model file."""

    point: OperatingPoint
    ranking: Ranking | None = None


@dataclass(frozen=True)
class Texts:
    """What a point is learnt on, and judged by."""

    train: np.ndarray
    valid: np.ndarray

    def digest(self) -> str:
        """Tells texts apart: of their ids, whatever the files were called."""
        hash = blake2b(digest_size=8)
        for ids in (self.train, self.valid):
            hash.update(f"{ids.dtype.str} {ids.shape} ".encode())
            hash.update(np.ascontiguousarray(ids).data)
        return hash.hexdigest()


def read_texts(file: ModelFile, data: str, progress: Callable[[str, float], None]) -> Texts:
    config = CorpusConfig(tokenizer=file.tokenizer)
    train, valid = (
        load_split(data, name, config, file.vocabulary, progress=progress).ids for name in ("train", "valid")
    )
    return Texts(train, valid)


def recover(
    file: ModelFile, point: OperatingPoint, tables: Mapping[str, Any], texts: Texts, folder: Path, reporter: Reporter
) -> Learnt:
    """Train the update of a point; the point with it."""
    recipe = fill(RecoveryRecipe, tables)
    filters = replace(point, updates=None).digest  # recovery starts from the cut itself, whatever the point had
    asked = {"point": point.name, "filters": filters, "recipe": asdict(recipe)}
    run = _open(folder, asked, file, texts, recipe.train)
    task = UpdateTraining(file, point, recipe.update, recipe.regularization, texts.valid, run.precision)
    _train(task, texts, recipe.train, run, reporter)
    return _result(folder, point.name)


def learn_gates(file: ModelFile, tables: Mapping[str, Any], texts: Texts, folder: Path, reporter: Reporter) -> Learnt:
    """Train the gates of a point; the point with them, and the ranking of all filters that they give."""
    recipe = fill(GateRecipe, tables)
    if not recipe.train.steps:
        raise CheckpointError("the recipe has no train.steps; gates follow a path of a known number of steps")
    run = _open(folder, {"recipe": asdict(recipe)}, file, texts, recipe.train)
    task = GateTraining(file, recipe.gates, recipe.regularization, recipe.train.steps, texts.valid, run.precision)
    _train(task, texts, recipe.train, run, reporter)
    return _result(folder, task.point().name, task.ranking().name)


@dataclass(frozen=True)
class _Run:
    """A run that is about to begin, or to be gone on with; `asked` travels in its checkpoint."""

    folder: RunFolder
    asked: Mapping[str, Any]
    precision: str
    resume: bool


def _open(folder: Path, asked: Mapping[str, Any], file: ModelFile, texts: Texts, config: TrainConfig) -> _Run:
    """The run in this folder, if it is the one that is asked for; else a new one. Sets threads and the seed."""
    run_folder = RunFolder(folder)
    saved = run_folder.load() if run_folder.checkpoint.exists() else {}
    asked = {**asked, "model": file.weights_digest(), "text": texts.digest()}
    before = dict(saved.get("recipe", {}))
    settled = before.pop("precision", None)
    if others := [name for name in asked if saved and before.get(name) != asked[name]]:
        raise CheckpointError(
            f"{folder} holds a run that was asked for differently, with another {' and '.join(others)}; "
            "remove it to start anew"
        )
    if not saved:
        shutil.rmtree(folder, ignore_errors=True)
    run_folder.create(resume=bool(saved))
    keep_freed_memory()
    step_flops = 2 * file.shape.flops * config.batch_size * config.sequence_length
    # Settled when the run began: going on, it must not be chosen anew.
    use_threads(saved["threads"] if saved else sensible_threads(step_flops))
    precision = settled or usable_precision(config.precision, make_fabric().device)
    torch.manual_seed(config.seed)  # of the start, which a random update is drawn from
    return _Run(run_folder, {**asked, "precision": precision}, precision, bool(saved))


def _train(
    task: UpdateTraining | GateTraining, texts: Texts, config: TrainConfig, run: _Run, reporter: Reporter
) -> None:
    fabric = make_fabric()
    fabric.launch()
    Trainer(task, texts.train, config, run.folder, fabric, reporter, run.asked).run(run.resume)


def _result(folder: Path, point: str, ranking: str | None = None) -> Learnt:
    with open_model(RunFolder(folder).model) as learnt:
        return Learnt(learnt.point(point), learnt.ranking(ranking) if ranking else None)
