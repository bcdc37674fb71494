"""A run that learns one operating point of a model file (its gates or its update) and can be killed and resumed.

Puts file, texts, task and session together. If the given folder already holds the same run, it is resumed. `steps`
chooses the folder and stores the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rheostat.errors import CheckpointError
from rheostat.model.file import ModelFile, open_model
from rheostat.model.operating_point import OperatingPoint, Ranking
from rheostat.model.origin import Origin, digest_of
from rheostat.provenance import new_origin
from rheostat.pruning.l0 import GateConfig, GateTask
from rheostat.pruning.recovery import UpdateConfig, UpdateTask
from rheostat.tables import fill
from rheostat.text.corpus import CorpusConfig, load_training_split
from rheostat.training.configuration import TrainConfig
from rheostat.training.regularization import RegularizationConfig
from rheostat.training.run_folder import RunFolder
from rheostat.training.session import RunSession, changes_since, open_session
from rheostat.training.trainer import Reporter


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
class Learned:
    """What a run adds to a model file."""

    point: OperatingPoint
    ranking: Ranking | None = None


@dataclass(frozen=True)
class Texts:
    """The text that a point is trained on, and the text that it is validated on."""

    train: np.ndarray
    valid: np.ndarray
    corpus: str | None = None  # the name of the corpus
    corpus_digest: str | None = None  # of the bytes of the training text

    def digest(self) -> str:
        """The digest of the ids, independent of file names."""
        return digest_of([self.train, self.valid])


def read_texts(file: ModelFile, data: str | Path, progress: Callable[[str, float], None]) -> Texts:
    """The training and validation text of a corpus, as ids in a model's vocabulary."""
    config = CorpusConfig(tokenizer=file.tokenizer)
    train, valid = (
        load_training_split(data, name, config, file.vocabulary, progress=progress) for name in ("train", "valid")
    )
    return Texts(train.ids, valid.ids, train.corpus, train.digest)


def learn_update(
    file: ModelFile, point: OperatingPoint, tables: Mapping[str, Any], texts: Texts, folder: Path, reporter: Reporter
) -> Learned:
    """Train the update of a point; returns the point with it."""
    recipe = fill(RecoveryRecipe, tables)
    # Recovery starts from the cut model, without an old update.
    filters = replace(point, updates=None, biases=None).digest
    asked: dict[str, Any] = {"point": point.name, "filters": filters, "recipe": asdict(recipe)}
    asked, session = _begin(folder, asked, file, texts, recipe.train)
    origin = _origin(file, texts, recipe)
    task = UpdateTask(file, point, recipe.update, recipe.regularization, texts.valid, asked["precision"], origin)
    session.train(task, texts.train, recipe.train, reporter, asked)
    return _result(folder, point.name)


def learn_gates(file: ModelFile, tables: Mapping[str, Any], texts: Texts, folder: Path, reporter: Reporter) -> Learned:
    """Train the gates of a point; returns the point with them, and the ranking of all filters by their gates."""
    recipe = fill(GateRecipe, tables)
    if not recipe.train.steps:
        raise CheckpointError("the recipe has no train.steps; closing gates needs a known number of steps: set it")
    asked, session = _begin(folder, {"recipe": asdict(recipe)}, file, texts, recipe.train)
    origin, steps = _origin(file, texts, recipe), recipe.train.steps
    task = GateTask(file, recipe.gates, recipe.regularization, steps, texts.valid, asked["precision"], origin)
    session.train(task, texts.train, recipe.train, reporter, asked)
    return _result(folder, task.point().name, task.ranking().name)


def _origin(file: ModelFile, texts: Texts, recipe: RecoveryRecipe | GateRecipe) -> Origin:
    """The origin of a point that is about to be learned."""
    return replace(
        new_origin(),
        recipe=asdict(recipe),
        seed=recipe.train.seed,
        corpus=texts.corpus,
        corpus_digest=texts.corpus_digest,
        made_from=file.weights_digest(),
    )


def _begin(
    folder: Path, asked: Mapping[str, Any], file: ModelFile, texts: Texts, config: TrainConfig
) -> tuple[dict[str, Any], RunSession]:
    """The request to save in the checkpoint, and the session, with threads and seed set.

    A run in this folder is resumed if its request is the same; if there is none, a new one starts.
    """
    run_folder = RunFolder(folder)
    saved = run_folder.load() if run_folder.checkpoint.exists() else {}
    asked = {**asked, "model": file.weights_digest(), "text": texts.digest()}
    started = {name: value for name, value in saved.get("recipe", {}).items() if name != "precision"}
    if changed := changes_since(started, asked):
        raise CheckpointError(
            f"{folder} holds a different run, with another {' and '.join(changed)}; remove it to start again"
        )
    run_folder.check(resume=bool(saved))
    session = open_session(run_folder, saved)
    session.settle_threads(0, 2 * file.shape.flops * config.batch_size * config.sequence_length)
    precision = session.settle_precision(config.precision)
    torch.manual_seed(config.seed)  # a random update is drawn from it
    return {**asked, "precision": precision}, session


def _result(folder: Path, point: str, ranking: str | None = None) -> Learned:
    with open_model(RunFolder(folder).model) as learned:
        return Learned(learned.point(point), learned.ranking(ranking) if ranking else None)
