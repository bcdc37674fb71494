"""A whole training run, from a recipe and a corpus to a model file: `train` and `resume`.

Puts corpus, model, task and session together. The request is saved in the checkpoint, so resuming needs only the
folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric

from rheostat.arguments import check_whole, checked
from rheostat.errors import CheckpointError, RecipeError, counted, visible
from rheostat.metrics import perplexity
from rheostat.model.contents import new_contents
from rheostat.model.cut import reorder, unfolded
from rheostat.model.file import open_model
from rheostat.model.operating_point import Ranking
from rheostat.model.ordered import order_filters
from rheostat.model.origin import UNKNOWN_ORIGIN, Origin
from rheostat.model.shape import ModelShape
from rheostat.model.widths import best_of, select
from rheostat.model.writer import write_model
from rheostat.provenance import command_line, new_origin, provenance
from rheostat.recipe import read_recipe
from rheostat.tables import fill, from_json
from rheostat.text.corpus import Corpus, load_corpus
from rheostat.training.configuration import TrainingRecipe
from rheostat.training.graded import GradedTask, at_cost, graded_order
from rheostat.training.language_model import LanguageModel
from rheostat.training.run_folder import RunFolder
from rheostat.training.session import RunSession, changes_since, open_session
from rheostat.training.task import Task, WeightTask, after_run
from rheostat.training.trainer import SILENT, Reporter, RunProgress


@dataclass(frozen=True)
class TrainingRequest:
    """What a user asked for, as plain data that can be saved in the checkpoint."""

    recipe: dict[str, Any]  # the recipe's tables, as read
    data: tuple[str, ...]  # a folder, one file, three files, "chat" or "talk"; empty: what the recipe says
    vocabulary_file: str | None = None
    from_model: str | None = None
    threads: int = 0  # 0 = as many as the model keeps busy
    # Known once the run has started; None before that.
    precision: str | None = None
    from_digest: str | None = None  # of the weights of from_model
    vocabulary_digest: str | None = None  # of the words in their order
    command: str | None = None  # that started the run


@dataclass(frozen=True)
class TrainingResult:
    """A finished run: the model file it wrote, and how it went."""

    model: Path
    epochs: int
    steps: int
    valid_perplexity: float  # of the best model, which was kept
    valid_over_shares: tuple[
        float, ...
    ] = ()  # the shares of the cost, if validation covered several positions together


Files = str | Path | Sequence[str | Path]


@checked
def train(
    recipe: str | Path | Mapping[str, Any],
    *,
    out: str | Path,
    data: Files = (),
    changes: Sequence[str] = (),
    from_model: str | Path | None = None,
    vocabulary: str | Path | None = None,
    threads: int = 0,
    reporter: Reporter = SILENT,
) -> TrainingResult:
    """Train a language model in the new folder `out`; the best model so far is always in `out/model.safetensors`.

    recipe: the name of a recipe that comes with the package, the path of a .toml file, or its tables.
    data: a folder with train, valid and test text, three files in that order, one file (which is divided), "chat" or
        "talk"; by default what the recipe names. changes: such as "train.epochs=2".
    from_model: start from the weights of this model file. vocabulary: a file with one word and its count per line.
    threads: processor threads; 0 = as many as the model keeps busy.
    Raises InterruptedRunError, after saving, when a signal asks to stop: `resume` continues the run.
    """
    request = _request(recipe, data, changes, from_model, vocabulary, threads)
    filled, folder = _begin(request, Path(out))
    return _run(request, filled, open_session(folder), reporter)


@checked
def resume(out: str | Path, *, reporter: Reporter = SILENT) -> TrainingResult:
    """Resume the run in this folder, with the recipe, corpus, threads and precision that it started with."""
    folder = RunFolder(Path(out))
    folder.check(resume=True)
    saved = folder.load()
    with folder.restoring():
        request = from_json(TrainingRequest, saved["recipe"], "recipe", error=CheckpointError)
        recipe = fill(TrainingRecipe, request.recipe)
        progress = RunProgress.restored(saved["progress"])
    if progress.finished:
        done = f"{counted(progress.epoch, 'epoch')}, {counted(progress.step, 'step')}"
        reporter.message(f"the run in {out} is finished: {done}")
        return _result(folder, recipe, progress)
    return _run(request, recipe, open_session(folder, saved), reporter)


@checked
def write_untrained(
    recipe: str | Path | Mapping[str, Any],
    *,
    out: str | Path,
    data: Files = (),
    changes: Sequence[str] = (),
    from_model: str | Path | None = None,
    vocabulary: str | Path | None = None,
    reporter: Reporter = SILENT,
) -> Path:
    """Write the untrained model of a recipe. It predicts nothing useful, but runs as fast as the trained one."""
    request = _request(recipe, data, changes, from_model, vocabulary)
    filled, folder = _begin(request, Path(out))
    fabric = open_session(folder).fabric
    corpus = _load_corpus_once(fabric, request, filled, reporter)
    torch.manual_seed(filled.train.seed)
    model, _ = _make_model(request, filled, corpus)
    if fabric.is_global_zero:
        folder.make()
        run = {"epochs": 0, "steps": 0}
        _write(model, folder.model, request, filled, corpus, run, (), after_run(_origin(request, filled, corpus), run))
    return folder.model


def _request(
    recipe: str | Path | Mapping[str, Any],
    data: Files,
    changes: Sequence[str],
    from_model: str | Path | None,
    vocabulary: str | Path | None,
    threads: int = 0,
) -> TrainingRequest:
    check_whole("threads", threads, 0)
    return TrainingRequest(
        recipe=read_recipe(recipe, changes),
        data=(str(data),) if isinstance(data, str | Path) else tuple(map(str, data)),
        vocabulary_file=str(vocabulary) if vocabulary else None,
        from_model=str(from_model) if from_model else None,
        threads=threads,
        command=command_line(),
    )


def _begin(request: TrainingRequest, folder: Path) -> tuple[TrainingRecipe, RunFolder]:
    recipe = fill(TrainingRecipe, request.recipe)  # raises if the recipe is wrong, before anything is written
    if recipe.train.graded and recipe.graded.teacher == "start":
        _check_teacher(request, recipe)
    if not (request.data or recipe.data):
        raise RecipeError("no corpus: the recipe names none; give data: a folder, one or three files, 'chat' or 'talk'")
    run_folder = RunFolder(folder)
    run_folder.check(resume=False)
    return recipe, run_folder


def _check_teacher(request: TrainingRequest, recipe: TrainingRecipe) -> None:
    """With teacher = "start", a run needs a starting model, and imitating it must be the whole loss."""
    if not request.from_model:
        raise RecipeError('graded.teacher = "start" needs a model to start from: the trained one that teaches')
    for key, value, expected in (
        ("regularization.activation", recipe.regularization.activation, 0),
        ("regularization.temporal_activation", recipe.regularization.temporal_activation, 0),
        ("graded.weight", recipe.graded.weight, 1),
    ):
        if value != expected:
            raise RecipeError(
                f'{key} is {value:g}, which has no effect with graded.teacher = "start"; set it to {expected}'
            )


def _run(request: TrainingRequest, recipe: TrainingRecipe, session: RunSession, reporter: Reporter) -> TrainingResult:
    _check_texts_per_width(recipe, session.fabric.world_size)
    corpus = _load_corpus_once(session.fabric, request, recipe, reporter)
    request = _with_digests(request, corpus)
    torch.manual_seed(recipe.train.seed)
    model, order = _make_model(request, recipe, corpus)
    session.settle_threads(request.threads, _step_flops(model.shape, recipe))
    precision = session.settle_precision(recipe.train.precision, lstm=model.shape.cell != "qrnn")
    request = replace(request, precision=precision)
    if session.fabric.is_global_zero:
        reporter.message(_describe(corpus, model.shape, recipe))

    task = _make_task(model, request, recipe, corpus, order)
    asked = {**asdict(request), "data": list(request.data)}
    progress = session.train(task, corpus.splits["train"].ids, recipe.train, reporter, asked)
    return _result(session.folder, recipe, progress)


def _result(folder: RunFolder, recipe: TrainingRecipe, progress: RunProgress) -> TrainingResult:
    shares = recipe.graded.validated(recipe.train.graded) if recipe.train.graded else ()
    return TrainingResult(folder.model, progress.epoch, progress.step, perplexity(progress.best_loss), shares)


def _check_texts_per_width(recipe: TrainingRecipe, processes: int) -> None:
    texts, readers = recipe.train.batch_size // processes, recipe.graded.readers
    if recipe.train.graded and texts < readers:
        raise RecipeError(
            f"each process has {texts} texts per batch for {readers} widths; expected at least one text per width: "
            "raise train.batch_size, or lower graded.widths"
        )


def _with_digests(request: TrainingRequest, corpus: Corpus) -> TrainingRequest:
    """The request with digests of its model and its words; an error if they differ from those at the start."""
    now: dict[str, Any] = {"vocabulary_digest": blake2b(corpus.vocabulary.to_bytes(), digest_size=8).hexdigest()}
    if request.from_model:
        with open_model(Path(request.from_model)) as file:
            now["from_digest"] = file.weights_digest()
    changed = changes_since({name: getattr(request, name) for name in now}, now)
    remedy = "since the run started; restore the old ones, or start a new run"
    if "from_digest" in changed:
        raise CheckpointError(f"the weights in {request.from_model} have changed {remedy}")
    if changed:
        raise CheckpointError(f"the words of the corpus, or their order, have changed {remedy}")
    return replace(request, **now)


def _make_task(
    model: LanguageModel, request: TrainingRequest, recipe: TrainingRecipe, corpus: Corpus, order: Ranking | None
) -> Task:
    def write(model: LanguageModel, path: Path, run: Mapping[str, object], rankings: Sequence[Ranking]) -> None:
        made = after_run(origin, run)
        ranked = [replace(ranking, origin=made.after(order_origin)) for ranking in rankings]
        _write(model, path, request, recipe, corpus, run, ranked, made)

    origin, order_origin = _origin(request, recipe, corpus), order.origin if order else UNKNOWN_ORIGIN
    assert request.precision
    valid, precision = corpus.splits["valid"].ids, request.precision
    if not recipe.train.graded:
        return WeightTask(model, recipe.regularization, valid, write, precision)
    smallest, config = recipe.train.graded, recipe.graded
    try:
        start = _reconstructed_start(request, recipe, order) if config.reconstructed else None
        return GradedTask(model, smallest, config, recipe.regularization, valid, write, precision, order, start)
    except ValueError as error:
        raise RecipeError(f"graded: {error}") from None


def _reconstructed_start(
    request: TrainingRequest, recipe: TrainingRecipe, order: Ranking | None
) -> dict[str, torch.Tensor]:
    """Weights whose smallest prefix is the reconstructed model, with the filters in the order of the ranking."""
    assert request.from_model  # checked with the teacher
    with open_model(Path(request.from_model)) as file:
        shape, found = file.shape, file.reconstruction
        if found is None or order is None:
            raise RecipeError(
                f"graded.reconstructed is true, but {request.from_model} has no "
                f"{'ranking' if order is None else 'reconstruction'}; run rheostat reconstruct on it first"
            )
        prefixes = graded_order(shape, recipe.graded, order)
        share = at_cost(recipe.train.graded, shape, recipe.graded.bits).flops_fraction
        point = replace(best_of(order, shape, select(prefixes, shape, share).widths), reconstruction=found)
        weights = reorder(unfolded(file.weights(), shape, point), shape, order)
    return LanguageModel.from_weights(shape, weights).state_dict()


def _load_corpus_once(fabric: Fabric, request: TrainingRequest, recipe: TrainingRecipe, reporter: Reporter) -> Corpus:
    """Load the corpus in the first process, which fills the token cache, then in the others."""
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
        progress=reporter.reading if fabric.is_global_zero else None,
    )
    if fabric.is_global_zero:
        fabric.barrier()
    return corpus


def _data(request: TrainingRequest, recipe: TrainingRecipe) -> tuple[str, ...]:
    return request.data or (recipe.data,)


def _make_model(
    request: TrainingRequest, recipe: TrainingRecipe, corpus: Corpus
) -> tuple[LanguageModel, Ranking | None]:
    """The model to train, and the ranking that sorted its filters, if any."""
    if request.from_model:
        with open_model(Path(request.from_model)) as file:
            if not (recipe.train.graded and (recipe.graded.ranking or file.description.rankings)):
                return LanguageModel.from_weights(file.shape, file.weights()), None
            ranking = file.ranking(recipe.graded.ranking or None)  # the most important filters come first
            return LanguageModel.from_weights(file.shape, reorder(file.weights(), file.shape, ranking)), ranking
    try:
        shape = recipe.model.with_splits(corpus.counts).shape(len(corpus.vocabulary))
    except ValueError as error:
        raise RecipeError(f"model: {error}") from None
    return LanguageModel(shape), None


def _step_flops(shape: ModelShape, recipe: TrainingRecipe) -> int:
    """FLOPs of one training step: a forward pass, and a backward pass that costs twice as much."""
    return 3 * shape.flops * recipe.train.batch_size * recipe.train.sequence_length


def _describe(corpus: Corpus, shape: ModelShape, recipe: TrainingRecipe) -> str:
    splits = ", ".join(
        f"{name} {split.tokens:,} tokens ({split.unknown_rate:.2%} <unk>)" for name, split in corpus.splits.items()
    )
    layers = " ".join(map(str, shape.hidden_sizes))
    tails = f", softmax split at {' '.join(map(str, shape.softmax_splits))}" if shape.softmax_splits else ""
    shares = " ".join(f"{share:.0%}" for share in recipe.graded.validated(recipe.train.graded))
    valid = f"\nvalidation: over {shares} of the cost together" if recipe.train.graded else ""
    rule = f"{corpus.source} is one file, divided by {corpus.split_rule}; its parts are in {corpus.divided_in}\n"
    return (
        f"{rule if corpus.split_rule else ''}"
        f"corpus: {splits}; vocabulary {len(corpus.vocabulary):,}\n"
        f"model: {shape.cell}, layers {layers}{tails}, {shape.parameters:,} parameters, "
        f"{shape.flops / 1e6:.2f} MFLOPs per query{valid}"
    )


def _origin(request: TrainingRequest, recipe: TrainingRecipe, corpus: Corpus) -> Origin:
    """The origin of a run's weights, as far as known when the run starts."""
    before = UNKNOWN_ORIGIN
    if request.from_model:
        with open_model(Path(request.from_model)) as file:
            before = file.origin
    return replace(
        new_origin(),
        command=request.command,  # not that of `train --resume`
        recipe=_resolved(request, recipe, corpus),
        seed=recipe.train.seed,
        corpus=corpus.name,
        corpus_digest=corpus.splits["train"].digest,
        made_from=request.from_digest if request.from_model else "",
    ).after(before)


def _resolved(request: TrainingRequest, recipe: TrainingRecipe, corpus: Corpus) -> dict[str, Any]:
    """The recipe as it was used, with every value filled in."""
    used = replace(recipe.corpus, parts=corpus.parts)  # "talk" names parts, and some of their files may be missing
    tables = asdict(replace(recipe, corpus=used, data=corpus.name))
    if request.from_model:
        del tables["model"]  # the shape comes from the model it started from
    return tables


def _write(
    model: LanguageModel,
    path: Path,
    request: TrainingRequest,
    recipe: TrainingRecipe,
    corpus: Corpus,
    run: Mapping[str, object],
    rankings: Sequence[Ranking],
    origin: Origin,
) -> None:
    asked = {"from": request.from_model, "vocabulary": request.vocabulary_file}
    given = {"data": [visible(one) for one in _data(request, recipe)]} | {
        name: visible(value) for name, value in asked.items() if value
    }
    text, weights = {"tokenizer": corpus.tokenizer}, model.state_dict()
    contents = replace(
        new_contents(model.shape, corpus.vocabulary, weights, text, corpus.casing),
        rankings=tuple(rankings),
        default_ranking=rankings[0].name if rankings else None,
        recipe=_resolved(request, recipe, corpus),
        # The command of a resumed run is only `train --resume`, so what was asked for is recorded too.
        provenance={**provenance(), "asked": given, "corpus": corpus.summary(), "run": dict(run)},
        origin=origin,
    )
    # A graded model's filters are already in the order of its ranking, so this only adds the path.
    write_model(path, order_filters(contents) if rankings else contents, alone=True)
