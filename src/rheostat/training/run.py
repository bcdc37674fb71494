"""A whole training run, from a recipe and a corpus to a model file: start it, or go on with it.

Puts corpus, model, task, Fabric and trainer together. What was asked is kept in the checkpoint, so that resuming needs
nothing but the folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric

from rheostat.corpus import Corpus, load_corpus
from rheostat.errors import CheckpointError, RecipeError
from rheostat.model_file import open_model, write_model
from rheostat.operating_point import Ranking, reorder
from rheostat.provenance import provenance
from rheostat.recipe import fill
from rheostat.shape import ModelShape
from rheostat.training.configuration import TrainingRecipe
from rheostat.training.graded import GradedTraining, validated_shares
from rheostat.training.language_model import LanguageModel
from rheostat.training.machine import keep_freed_memory, sensible_threads, usable_precision, use_threads
from rheostat.training.run_folder import RunFolder
from rheostat.training.task import Task, WeightTraining
from rheostat.training.trainer import Progress, Reporter, Trainer

CorpusProgress = Callable[[str, float], None]

PUT_BACK = "put back what it was, or start the run anew"


@dataclass(frozen=True)
class Request:
    """What a user asked for; plain data, so that it can travel in the checkpoint."""

    recipe: dict[str, Any]  # the recipe's tables, as read
    data: tuple[str, ...]  # a folder, three files, or "chat"; empty: what the recipe says
    vocabulary_file: str | None = None
    from_model: str | None = None
    threads: int = 0  # 0: as many as the model keeps busy
    # What was found or settled on when the run began. Runs of older versions lack the digests.
    precision: str | None = None
    from_digest: str | None = None  # of the weights of from_model
    vocabulary_digest: str | None = None  # of the words in their order


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
        _write(model, run_folder.model, request, recipe, corpus, {"epochs": 0, "steps": 0}, ())
    return run_folder.model


def _begin(request: Request, folder: Path) -> tuple[TrainingRecipe, RunFolder]:
    recipe = fill(TrainingRecipe, request.recipe)  # complain about a recipe before anything is written
    if recipe.train.graded and recipe.graded.teacher == "start":
        _check_taught(request, recipe)
    if not (request.data or recipe.data):
        raise RecipeError("no corpus: the recipe names none, so --data must; a folder, three files, 'chat' or 'talk'")
    run_folder = RunFolder(folder)
    run_folder.create(resume=False)
    return recipe, run_folder


def _check_taught(request: Request, recipe: TrainingRecipe) -> None:
    """The start can only teach where there is one; and imitating it is then all of the loss."""
    if not request.from_model:
        raise RecipeError('graded.teacher = "start" needs --from MODEL, the trained model that teaches')
    for key, value, expected in (
        ("regularization.activation", recipe.regularization.activation, 0),
        ("regularization.temporal_activation", recipe.regularization.temporal_activation, 0),
        ("graded.weight", recipe.graded.weight, 1),
    ):
        if value != expected:
            raise RecipeError(
                f'{key} is {value:g}, which has no effect with graded.teacher = "start"; set it to {expected}'
            )


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
    _check_dealing(recipe, fabric.world_size)
    corpus = _load_corpus_once(fabric, request, recipe, corpus_progress)
    request = _with_digests(request, corpus)
    torch.manual_seed(recipe.train.seed)
    model, order = _make_model(request, recipe, corpus)
    use_threads(request.threads or sensible_threads(_step_flops(model.shape, recipe)))
    if not request.precision:
        # Settled once: a resumed run must not choose anew. The first process chooses for all.
        usable = usable_precision(recipe.train.precision, fabric.device, lstm=model.shape.cell != "qrnn")
        request = replace(request, precision=fabric.broadcast(usable))
    if fabric.is_global_zero:
        reporter.message(_describe(corpus, model.shape, recipe))

    task = _make_task(model, request, recipe, corpus, order)
    asked = asdict(request)
    asked["data"] = list(asked["data"])
    trainer = Trainer(task, corpus.splits["train"].ids, recipe.train, folder, fabric, reporter, asked)
    return trainer.run(resume)


def _check_dealing(recipe: TrainingRecipe, processes: int) -> None:
    texts, readers = recipe.train.batch_size // processes, recipe.graded.readers
    if recipe.train.graded and texts < readers:
        raise RecipeError(
            f"each process has {texts} texts of a batch for {readers} widths to read; expected one for each: "
            "raise train.batch_size, or lower graded.widths"
        )


def _with_digests(request: Request, corpus: Corpus) -> Request:
    """The request with what tells its model and its words from others; an error if its run began with others."""
    if request.from_model:
        with open_model(Path(request.from_model)) as file:
            weights = file.weights_digest()
        if request.from_digest not in (None, weights):
            raise CheckpointError(f"{request.from_model} has other weights than when the run began; {PUT_BACK}")
        request = replace(request, from_digest=weights)
    words = blake2b(corpus.vocabulary.to_bytes(), digest_size=8).hexdigest()
    if request.vocabulary_digest not in (None, words):
        raise CheckpointError(f"the corpus has other words, or in another order, than when the run began; {PUT_BACK}")
    return replace(request, vocabulary_digest=words)


def _make_task(
    model: LanguageModel, request: Request, recipe: TrainingRecipe, corpus: Corpus, order: Ranking | None
) -> Task:
    def write(model: LanguageModel, path: Path, run: Mapping[str, object], rankings: Sequence[Ranking]) -> None:
        _write(model, path, request, recipe, corpus, run, rankings)

    assert request.precision
    valid, precision = corpus.splits["valid"].ids, request.precision
    if not recipe.train.graded:
        return WeightTraining(model, recipe.regularization, valid, write, precision)
    smallest = recipe.train.graded
    try:
        return GradedTraining(model, smallest, recipe.graded, recipe.regularization, valid, write, precision, order)
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
    data = _data(request, recipe)
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


def _data(request: Request, recipe: TrainingRecipe) -> tuple[str, ...]:
    return request.data or (recipe.data,)


def _make_model(request: Request, recipe: TrainingRecipe, corpus: Corpus) -> tuple[LanguageModel, Ranking | None]:
    """The model to train, and the ranking that its filters were put in the order of, if they were."""
    if request.from_model:
        with open_model(Path(request.from_model)) as file:
            if not (recipe.train.graded and (recipe.graded.ranking or file.description.rankings)):
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


def _describe(corpus: Corpus, shape: ModelShape, recipe: TrainingRecipe) -> str:
    splits = ", ".join(
        f"{name} {split.tokens:,} tokens ({split.unknown_rate:.2%} <unk>)" for name, split in corpus.splits.items()
    )
    layers = " ".join(map(str, shape.hidden_sizes))
    tails = f", softmax split at {' '.join(map(str, shape.softmax_splits))}" if shape.softmax_splits else ""
    shares = " ".join(f"{share:.0%}" for share in validated_shares(recipe.train.graded))
    valid = f"\nvalidation: over {shares} of the FLOPs together" if recipe.train.graded else ""
    return (
        f"corpus: {splits}; vocabulary {len(corpus.vocabulary):,}\n"
        f"model: {shape.cell}, layers {layers}{tails}, {shape.parameters:,} parameters, "
        f"{shape.flops / 1e6:.2f} MFLOPs a query{valid}"
    )


def _write(
    model: LanguageModel,
    path: Path,
    request: Request,
    recipe: TrainingRecipe,
    corpus: Corpus,
    run: Mapping[str, object],
    rankings: Sequence[Ranking],
) -> None:
    tables = asdict(recipe)
    if request.from_model:
        del tables["model"]  # it had no effect
    asked = {"from": request.from_model, "vocabulary": request.vocabulary_file}
    given = {"data": list(_data(request, recipe))} | {name: value for name, value in asked.items() if value}
    write_model(
        path,
        shape=model.shape,
        vocabulary=corpus.vocabulary,
        weights=model.state_dict(),
        text={"tokenizer": corpus.tokenizer},
        casing=corpus.casing,
        rankings=rankings,
        default_ranking=rankings[0].name if rankings else None,
        recipe=tables,
        # The command of a run that was gone on with is only `train --resume`.
        provenance={**provenance(), "asked": given, "corpus": corpus.summary(), "run": dict(run)},
        alone=True,
    )
