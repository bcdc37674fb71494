"""Criteria: how much each filter of each layer matters. Higher = keep.

A criterion is a function from a `Subject` to one score per filter and layer, registered under its name:

    @criterion("filter-norm")
    def filter_norm(subject: Subject) -> Scores: ...

That is all it takes to add one (docs/criteria.md). Criteria only score: `model.widths.select` decides which filters a
knob position keeps, and `steps.rank` stores a ranking in a model file.
"""

from __future__ import annotations

import rheostat.training  # noqa: F401  (first: it names the missing extra if torch is not installed)

# isort: split
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from rheostat.arguments import checked
from rheostat.errors import OperatingPointError, RheostatError
from rheostat.model.operating_point import Ranking
from rheostat.model.origin import UNKNOWN_ORIGIN, Origin
from rheostat.model.shape import QRNN_GATES
from rheostat.training.batches import Batches
from rheostat.training.language_model import LanguageModel, detach
from rheostat.training.regularization import embed

Scores = list[Tensor]  # one [m] per layer

BATCH, LENGTH = 40, 70  # texts side by side and steps at a time, for criteria that read the text
SEEDS = range(-(2**63), 2**63)  # that a generator takes
L0 = "l0"  # not a criterion in this sense: it learns points, one run each (`steps.learn_point`)


def _ignore(share: float) -> None:
    pass


@dataclass(frozen=True)
class Subject:
    """The model to score, and what a criterion can use to score it."""

    model: LanguageModel
    ids: np.ndarray | None = None  # the training text
    share: float = 1.0  # how much of the text to read, from its beginning
    seed: int = 1
    progress: Callable[[float], None] = field(default=_ignore)
    origin: Origin = UNKNOWN_ORIGIN  # what is known about the command, the corpus and the weights
    tokens_read: list[int] = field(default_factory=list)  # one number per batch read

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Inputs and targets [T, B] of one pass over this share of the text, in order."""
        if self.ids is None:
            raise OperatingPointError("this criterion reads the training text; give it as data")
        batches = Batches(self.ids[: int(len(self.ids) * self.share)], BATCH)
        device, position = self.model.embedding.weight.device, 0
        while batches.has(position):
            inputs, targets = batches.batch(position, LENGTH)
            self.tokens_read.append(inputs.numel())
            yield inputs.to(device), targets.to(device)
            position += len(inputs)
            self.progress(min(position / (batches.rows - 1), 1.0))


Criterion = Callable[[Subject], Scores]
CRITERIA: dict[str, Criterion] = {}


@checked
def criterion(name: str) -> Callable[[Criterion], Criterion]:
    """Register a criterion under a new name."""
    if name in CRITERIA or name == L0:
        taken_by = getattr(CRITERIA.get(name), "__qualname__", "the package")
        raise OperatingPointError(
            f"a criterion named '{name}' is already registered by {taken_by}; choose another name"
        )

    def register(function: Criterion) -> Criterion:
        CRITERIA[name] = function
        return function

    return register


def check_criterion(name: str) -> None:
    """Raise OperatingPointError unless a criterion with this name ranks filters."""
    if name == L0:
        raise OperatingPointError("l0 learns points instead of a ranking: use it alone, or call learn_point")
    if name not in CRITERIA:
        raise OperatingPointError(f"no criterion '{name}'; expected one of {', '.join([*CRITERIA, L0])}")


def score(subject: Subject, criterion_name: str, name: str | None = None) -> Ranking:
    """The ranking of a model's filters under a criterion. By default it has the criterion's name."""
    check_criterion(criterion_name)
    if subject.model.shape.cell != "qrnn":
        raise OperatingPointError(
            f"a model of {subject.model.shape.cell} cells has no filters to rank; expected a qrnn"
        )
    if not 0 < subject.share <= 1:
        raise OperatingPointError(f"the share of the text is {subject.share}; expected a number in (0, 1]")
    if subject.seed not in SEEDS:
        raise OperatingPointError(f"the seed is {subject.seed!r:.40}; expected a whole number of at most 64 bits")
    scores = CRITERIA[criterion_name](subject)
    _check_scores(scores, criterion_name, subject.model.shape.hidden_sizes)
    arrays = tuple(layer.detach().cpu().numpy().astype(np.float32) for layer in scores)
    seed = subject.seed if criterion_name == "random" else None
    origin = _origin(subject, criterion_name, seed)
    return Ranking(name or criterion_name, criterion_name, arrays, seed, origin=origin)


def _origin(subject: Subject, criterion_name: str, seed: int | None) -> Origin:
    """The origin of a new ranking, without a corpus if no text was read."""
    recipe = {"criterion": criterion_name, "share": subject.share}
    read = sum(subject.tokens_read)
    origin = replace(subject.origin, recipe=recipe, steps=0, tokens_read=read, seed=seed)
    return origin if read else replace(origin, corpus="", corpus_digest="")


def _check_scores(scores: object, criterion_name: str, sizes: Sequence[int]) -> None:
    """Raise RheostatError unless there is one finite score for every filter of every layer."""
    expected = f"a list of one tensor per layer, of {', '.join(map(str, sizes))} scores: correct the criterion"
    if not isinstance(scores, list | tuple) or not all(isinstance(layer, Tensor) for layer in scores):
        kinds = sorted({type(layer).__name__ for layer in scores}) if isinstance(scores, list | tuple) else []
        name = type(scores).__name__
        found = f"{'an' if name[0] in 'aeiou' else 'a'} {name}" + (f" of {', '.join(kinds)}" if kinds else "")
        raise RheostatError(f"criterion '{criterion_name}' returned {found}; expected {expected}")
    shapes = [tuple(layer.shape) for layer in scores]
    if shapes != [(size,) for size in sizes]:
        raise RheostatError(f"criterion '{criterion_name}' returned scores of shapes {shapes}; expected {expected}")
    if not all(bool(torch.isfinite(layer).all()) for layer in scores):
        raise RheostatError(f"criterion '{criterion_name}' returned a score that is not finite; expected {expected}")


@criterion("random")
def random(subject: Subject) -> Scores:
    """A seeded permutation of each layer's filters, so that points nest."""
    generator = torch.Generator().manual_seed(subject.seed)
    return [torch.randperm(size, generator=generator).float() for size in subject.model.shape.hidden_sizes]


@criterion("filter-norm")
def filter_norm(subject: Subject) -> Scores:
    """L1 norm of a filter's row of W_z: a small row gives a small output."""
    weights = subject.model.state_dict()
    layers = range(len(subject.model.shape.hidden_sizes))
    return [weights[f"layers.{layer}.weight"].chunk(QRNN_GATES)[0].abs().sum(1) for layer in layers]


@criterion("mean-activation")
@torch.no_grad()
def mean_activation(subject: Subject) -> Scores:
    """Mean |h| of a filter over the text."""
    sums, steps = _zeros(subject.model), 0
    state = subject.model.initial_state(BATCH)
    for inputs, _ in subject.batches():
        outputs = subject.model(inputs, state)
        state = outputs.state
        for total, hidden in zip(sums, outputs.layers, strict=True):
            total += hidden.abs().sum((0, 1))
        steps += len(inputs)
    return [total / (steps * BATCH) for total in sums]


@criterion("taylor")
def taylor(subject: Subject) -> Scores:
    """Mean |h · ∂L/∂h|: to first order, how much the loss of the text changes when the filter is cut."""
    sums, steps, model = _zeros(subject.model), 0, subject.model
    state = model.initial_state(BATCH)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in trained:  # only the outputs' gradients are needed, which halves the work
        parameter.requires_grad_(False)
    try:
        for inputs, targets in subject.batches():
            rows = embed(inputs, model.embedding.weight, 0.0).requires_grad_()
            outputs = model.run_layers(rows, state)
            state = detach(outputs.state)
            gradients = torch.autograd.grad(model.cross_entropy(outputs.dropped, targets), outputs.layers)
            for total, hidden, gradient in zip(sums, outputs.layers, gradients, strict=True):
                total += (hidden.detach() * gradient).abs().sum((0, 1))
            steps += len(inputs)
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)
    return [total / (steps * BATCH) for total in sums]


def _zeros(model: LanguageModel) -> Scores:
    device = model.embedding.weight.device
    return [torch.zeros(size, dtype=torch.float64, device=device) for size in model.shape.hidden_sizes]
