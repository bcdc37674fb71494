"""Learning an operating point of a model file: gates or an update, in a run that can be killed and gone on with.

The same command goes on where it stopped: the run's folder lies beside the model file it writes, and is removed when
that file is complete. Puts file, corpus, task and trainer together.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rheostat.corpus import CorpusConfig, load_split
from rheostat.errors import CheckpointError
from rheostat.model_file import ModelFile
from rheostat.operating_point import OperatingPoint, Ranking
from rheostat.pruning.l0 import GateConfig, GateTraining
from rheostat.pruning.recovery import UpdateConfig, UpdateTraining
from rheostat.recipe import fill
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
    precision = _prepare(file, recipe.train)
    task = UpdateTraining(file, point, recipe.update, recipe.regularization, texts.valid, precision)
    asked = {"point": point.name, "recipe": asdict(recipe)}
    _train(task, texts, recipe.train, folder, reporter, asked)
    return _result(folder, point.name)


def learn_gates(file: ModelFile, tables: Mapping[str, Any], texts: Texts, folder: Path, reporter: Reporter) -> Learnt:
    """Train the gates of a point; the point with them, and the ranking of all filters that they give."""
    recipe = fill(GateRecipe, tables)
    if not recipe.train.steps:
        raise CheckpointError("the recipe has no train.steps; gates follow a path of a known number of steps")
    precision = _prepare(file, recipe.train)
    task = GateTraining(file, recipe.gates, recipe.regularization, recipe.train.steps, texts.valid, precision)
    _train(task, texts, recipe.train, folder, reporter, {"recipe": asdict(recipe)})
    return _result(folder, task.point().name, task.ranking().name)


def _prepare(file: ModelFile, config: TrainConfig) -> str:
    keep_freed_memory()
    use_threads(sensible_threads(2 * file.shape.flops * config.batch_size * config.sequence_length))
    torch.manual_seed(config.seed)  # of the start, which a random update is drawn from
    return usable_precision(config.precision, make_fabric().device)


def _train(
    task: UpdateTraining | GateTraining,
    texts: Texts,
    config: TrainConfig,
    folder: Path,
    reporter: Reporter,
    asked: Mapping[str, Any],
) -> None:
    run_folder = RunFolder(folder)
    resume = run_folder.checkpoint.exists()
    if resume and run_folder.load()["recipe"] != asked:
        raise CheckpointError(f"{folder} holds a run that was asked for differently; remove it to start anew")
    if not resume:
        shutil.rmtree(folder, ignore_errors=True)
    run_folder.create(resume)
    fabric = make_fabric()
    fabric.launch()
    trainer = Trainer(task, texts.train, config, run_folder, fabric, reporter, asked)
    trainer.run(resume)


def _result(folder: Path, point: str, ranking: str | None = None) -> Learnt:
    from rheostat.model_file import open_model

    with open_model(RunFolder(folder).model) as learnt:
        return Learnt(learnt.point(point), learnt.ranking(ranking) if ranking else None)
