"""A whole training run, from a recipe and a corpus to a model file: start it, or go on with it.

Puts corpus, model, task, Fabric and trainer together. What was asked is kept in the checkpoint, so that resuming needs
nothing but the folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric

from rheostat.corpus import Corpus, load_corpus
from rheostat.errors import RecipeError
from rheostat.model_file import open_model, write_model
from rheostat.operating_point import Ranking, reorder
from rheostat.provenance import provenance
from rheostat.recipe import fill
from rheostat.shape import ModelShape
from rheostat.training.configuration import TrainingRecipe
from rheostat.training.graded import GradedTraining
from rheostat.training.language_model import LanguageModel
from rheostat.training.machine import keep_freed_memory, sensible_threads, usable_precision, use_threads
from rheostat.training.run_folder import RunFolder
from rheostat.training.task import Task, WeightTraining
from rheostat.training.trainer import Progress, Reporter, Trainer

CorpusProgress = Callable[[str, float], None]


@dataclass(frozen=True)
class Request:
    """What a user asked for; plain data, so that it can travel in the checkpoint."""

    recipe: dict[str, Any]  # the recipe's tables, as read
    data: tuple[str, ...]  # a folder, three files, or "chat"; empty: what the recipe says
    vocabulary_file: str | None = None
    from_model: str | None = None
    threads: int = 0  # 0: as many as the model keeps busy
    precision: str | None = None  # what was settled on when the run began


def start(request: Request, folder: Path, reporter: Reporter, corpus_progress: CorpusProgress) -> Progress:
    """A new run in a new folder."""
    recipe, run_folder = _begin(request, folder)
    return _run(request, recipe, run_folder, reporter, corpus_progress, resume=False)


def write_untrained(request: Request, folder: Path, corpus_progress: CorpusProgress) -> Path:
    """The model of a recipe before its first step: it knows nothing, and costs what it will cost once it does."""
    recipe, run_folder = _begin(request, folder)
    fabric = make_fabric()
    fabric.launch()
    corpus = _load_corpus_once(fabric, request, recipe, corpus_progress)
    torch.manual_seed(recipe.train.seed)
    model, _ = _make_model(request, recipe, corpus)
    if fabric.is_global_zero:
        origin = {**provenance(), "corpus": corpus.summary(), "run": {"epochs": 0, "steps": 0}}
        _write(model, run_folder.model, corpus, recipe, origin, ())
    return run_folder.model


def _begin(request: Request, folder: Path) -> tuple[TrainingRecipe, RunFolder]:
    recipe = fill(TrainingRecipe, request.recipe)  # complain about a recipe before anything is written
    if recipe.train.graded and recipe.graded.teacher == "start" and not request.from_model:
        raise RecipeError('graded.teacher = "start" needs --from MODEL, the trained model that teaches')
    if not (request.data or recipe.data):
        raise RecipeError("no corpus: the recipe names none, so --data must; a folder, three files, or 'chat'")
    run_folder = RunFolder(folder)
    run_folder.create(resume=False)
    return recipe, run_folder


def resume(folder: Path, reporter: Reporter, corpus_progress: CorpusProgress) -> Progress:
    """Go on with the run in this folder, with the recipe, corpus, threads and precision it began with."""
    run_folder = RunFolder(folder)
    run_folder.create(resume=True)
    saved = run_folder.load()
    asked = saved["recipe"]
    request = Request(**{**asked, "data": tuple(asked["data"])})
    request = replace(request, threads=saved["threads"])
    progress = Progress(**saved["progress"])
    if progress.finished:
        reporter.message(f"the run in {folder} is finished: {progress.epoch} epochs, {progress.step} steps")
        return progress
    recipe = fill(TrainingRecipe, request.recipe)
    return _run(request, recipe, run_folder, reporter, corpus_progress, resume=True)


def _run(
    request: Request,
    recipe: TrainingRecipe,
    folder: RunFolder,
    reporter: Reporter,
    corpus_progress: CorpusProgress,
    resume: bool,
) -> Progress:
    keep_freed_memory()
    fabric = make_fabric()
    fabric.launch()
    # Settled once: a resumed run must not choose anew. The first process chooses for all.
    precision = request.precision or fabric.broadcast(usable_precision(recipe.train.precision, fabric.device))
    corpus = _load_corpus_once(fabric, request, recipe, corpus_progress)
    torch.manual_seed(recipe.train.seed)
    model, origin = _make_model(request, recipe, corpus)
    use_threads(request.threads or sensible_threads(_step_flops(model.shape, recipe)))
    if fabric.is_global_zero:
        reporter.message(_describe(corpus, model.shape))

    task = _make_task(model, recipe, corpus, precision, origin)
    asked = asdict(replace(request, precision=precision))
    asked["data"] = list(asked["data"])
    trainer = Trainer(task, corpus.splits["train"].ids, recipe.train, folder, fabric, reporter, asked)
    return trainer.run(resume)


def _make_task(
    model: LanguageModel, recipe: TrainingRecipe, corpus: Corpus, precision: str, origin: Ranking | None
) -> Task:
    def write(model: LanguageModel, path: Path, run: Mapping[str, object], rankings: Sequence[Ranking]) -> None:
        origin = {**provenance(), "corpus": corpus.summary(), "run": dict(run)}
        _write(model, path, corpus, recipe, origin, rankings)

    valid = corpus.splits["valid"].ids
    if not recipe.train.graded:
        return WeightTraining(model, recipe.regularization, valid, write, precision)
    smallest = recipe.train.graded
    try:
        return GradedTraining(model, smallest, recipe.graded, recipe.regularization, valid, write, precision, origin)
    except ValueError as error:
        raise RecipeError(f"graded: {error}") from None


def is_first_process() -> bool:
    """Whether this process is alone, or the one of those started by `torchrun` that speaks for all."""
    return int(os.environ.get("RANK", "0")) == 0


def make_fabric() -> Fabric:
    """Fabric for this process: alone, or one of those that `torchrun` started.

    Precision stays with the task: see LanguageModelLoss.
    """
    world = int(os.environ.get("WORLD_SIZE", "1"))
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return Fabric(
        accelerator="cuda" if torch.cuda.is_available() else "cpu",
        devices=local,
        num_nodes=world // local,
        strategy="ddp" if world > 1 else "auto",
    )


def _load_corpus_once(fabric: Fabric, request: Request, recipe: TrainingRecipe, progress: CorpusProgress) -> Corpus:
    """The first process fills the token cache; the others find it filled."""
    if not fabric.is_global_zero:
        fabric.barrier()
    data = request.data or (recipe.data,)
    source = data[0] if len(data) == 1 else [Path(part) for part in data]
    vocabulary = open_model(Path(request.from_model)).vocabulary if request.from_model else None
    corpus = load_corpus(
        source,
        recipe.corpus,
        vocabulary_file=Path(request.vocabulary_file) if request.vocabulary_file else None,
        vocabulary=vocabulary,
        progress=progress if fabric.is_global_zero else None,
    )
    if fabric.is_global_zero:
        fabric.barrier()
    return corpus


def _make_model(request: Request, recipe: TrainingRecipe, corpus: Corpus) -> tuple[LanguageModel, Ranking | None]:
    """The model to train, and the ranking that its filters were put in the order of, if they were."""
    if request.from_model:
        with open_model(Path(request.from_model)) as file:
            if not (recipe.train.graded and file.description.rankings):
                return LanguageModel.from_weights(file.shape, file.weights()), None
            ranking = file.ranking(recipe.graded.ranking or None)  # so that the filters to leave last come first
            return LanguageModel.from_weights(file.shape, reorder(file.weights(), file.shape, ranking)), ranking
    try:
        shape = recipe.model.with_splits(corpus.counts).shape(len(corpus.vocabulary))
    except ValueError as error:
        raise RecipeError(f"model: {error}") from None
    return LanguageModel(shape), None


def _step_flops(shape: ModelShape, recipe: TrainingRecipe) -> int:
    """Products of one training step: forward, and two as large going back."""
    return 3 * shape.flops * recipe.train.batch_size * recipe.train.sequence_length


def _describe(corpus: Corpus, shape: ModelShape) -> str:
    splits = ", ".join(
        f"{name} {split.tokens:,} tokens ({split.unknown_rate:.2%} <unk>)" for name, split in corpus.splits.items()
    )
    layers = " ".join(map(str, shape.hidden_sizes))
    tails = f", softmax split at {' '.join(map(str, shape.softmax_splits))}" if shape.softmax_splits else ""
    return (
        f"corpus: {splits}; vocabulary {len(corpus.vocabulary):,}\n"
        f"model: {shape.cell}, layers {layers}{tails}, {shape.parameters:,} parameters, "
        f"{shape.flops / 1e6:.2f} MFLOPs a query"
    )


def _write(
    model: LanguageModel,
    path: Path,
    corpus: Corpus,
    recipe: TrainingRecipe,
    origin: Mapping[str, Any],
    rankings: Sequence[Ranking],
) -> None:
    write_model(
        path,
        shape=model.shape,
        vocabulary=corpus.vocabulary,
        weights=model.state_dict(),
        text={"tokenizer": corpus.tokenizer},
        casing=corpus.casing,
        rankings=rankings,
        default_ranking=rankings[0].name if rankings else None,
        recipe=asdict(recipe),
        provenance=dict(origin),
    )
