"""Other clusters for a trained output layer: a query opens fewer words, and nothing is trained again.

A tail cluster is opened when it is more probable than the third best word. The more clusters there are, the less
probable each is, and the fewer words are opened. Where they begin is chosen from what the model itself answers on a
sample of text (`splits.cheapest_splits`). No new cluster lies across an old bound: within each, softmax over its words'
scores is then p(word | cluster) as it was. What is new is p(cluster), a linear score for each, which is fitted so that
the distribution over head words and clusters stays as near as can be to the old one (least KL; convex). All else stays
as it is, so that rankings, points and updates still fit.

Where a model is cut, its clusters' rows are cut with it: the sample is of all positions of the knob that matter, and
one fit serves them all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rheostat.errors import CorpusError, OperatingPointError
from rheostat.model.clusters import MOST_TAILS, cheapest_splits, opening_rates, split_places
from rheostat.model.contents import replace_weights
from rheostat.model.file import ModelFile
from rheostat.model.flops import executed_flops, flops_by_part
from rheostat.model.operating_point import Floats, OperatingPoint
from rheostat.model.origin import UNKNOWN_ORIGIN, Origin
from rheostat.model.shape import ModelShape
from rheostat.model.writer import write_model
from rheostat.training.evaluation import PointEvaluator
from rheostat.training.language_model import LanguageModel

BEST = 3  # a cluster is opened to find so many words
WARM_UP = 30  # tokens of a stretch that only lead up to the sample
STRETCH = 130
TEXTS = 10  # stretches that are read side by side
JUDGED = 5  # of so many tokens that are fitted on, one more is judged on
BLOCK = 100  # queries whose log p of all words exist at once
NEARNESS = 1e-5  # pull towards where the fit began: rare clusters have little to be fitted on
ITERATIONS = 300
SMALLEST = 1e-30  # probability that is still told from none

Reals = NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """What a model answered: N queries, P places where a cluster may begin."""

    hidden: Floats  # [N, D + 1], as the whole output layer would read it, and a one for the bias
    mass_before: Reals  # [N, P] probability of the words before each place
    normalizer: Reals  # [N] of the head's softmax: score - log p of each of its words
    threshold: Reals  # [N] probability of the last of the BEST
    targets: NDArray[np.int64]  # [N] the words that followed

    def log_masses(self, splits: Sequence[int], places: NDArray[np.int64]) -> Reals:
        """log p of the words of the head, and of each cluster [N, 1 + C]."""
        before = self.mass_before[:, np.searchsorted(places, splits)]
        bounds = np.column_stack([np.zeros(len(before)), before, self.mass_before[:, -1]])
        return np.asarray(np.log(np.maximum(np.diff(bounds, axis=1), SMALLEST)))


@dataclass(frozen=True)
class NewClusters:
    """New clusters, and what they do to answers on text that they were not fitted on."""

    splits: tuple[int, ...]
    weight: Floats  # [C, D]
    bias: Floats  # [C]
    divergence: float  # KL from the old distribution over head words and clusters, in nats
    perplexity_ratio: float  # new over old
    multiplications: tuple[float, float]  # of the output layer of a query, in the mean: before and after
    tokens_read: int | None = None


def find_clusters(
    file: ModelFile,
    points: Sequence[OperatingPoint],
    train: NDArray[np.integer],
    valid: NDArray[np.integer],
    tokens: int,
    tails: int | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> NewClusters:
    """Clusters for all these points, fitted on so many tokens of training text.

    They are judged on a share of as many others, with the first of the points. tails: how many; None for as many as
    make a query cheapest.
    """
    shape = file.shape
    check_tails(shape, tails)
    places = split_places(shape.vocabulary_size, shape.softmax_splits)
    evaluator = PointEvaluator(file)
    samples: list[Sample] = []
    judged: list[Sample] = []
    read_tokens = 0  # of the training text
    for number, point in enumerate(points):
        model, read = evaluator.model(point), partial(take_sample, point=point, shape=shape, places=places)
        if not judged:
            judged = [read(model, texts) for texts in stretches(valid, tokens // JUDGED)]
        stretched = stretches(train, tokens // len(points))
        read_tokens += sum(texts[:-1].numel() for texts in stretched)
        for done, texts in enumerate(stretched):
            samples.append(read(model, texts))
            progress((number + (done + 1) / len(stretched)) / len(points))
    sample = _joined(samples)
    opened = opening_rates(sample.mass_before, sample.threshold)
    splits = cheapest_splits(places, opened, shape.output_size, tails, shape.softmax_splits, least_head=BEST)
    if splits == shape.softmax_splits:
        raise OperatingPointError(f"{file.path}: no other clusters make a query cheaper: use it as it is")
    found = _judge(shape, _joined(judged), splits, places, fit_clusters(file, sample, splits, places))
    return replace(found, tokens_read=read_tokens)


def check_tails(shape: ModelShape, tails: int | None) -> None:
    """Raise OperatingPointError unless the output layer can be split into so many tail clusters."""
    now, most = len(shape.softmax_splits), min(MOST_TAILS, shape.vocabulary_size - BEST)
    if now >= most:
        raise OperatingPointError(
            f"this output layer has {now} tail clusters for {shape.vocabulary_size} words; "
            f"expected fewer than {most}, so that it can be split further: use it as it is"
        )
    if tails is not None and not now < tails <= most:
        raise OperatingPointError(
            f"--tails {tails} was asked for, and this output layer has {now}: expected {now + 1} to {most}"
        )


def store(file: ModelFile, found: NewClusters, path: Path, origin: Origin = UNKNOWN_ORIGIN) -> None:
    """The model with its new clusters; everything else stays, except figures that were measured with the old ones.

    origin: of the new weights; that of the old ones stands behind it.
    """
    provenance = {name: value for name, value in file.description.provenance.items() if name != "curve"}
    earlier = provenance.get("softmax_splits_before", [])
    shape = replace(file.shape, softmax_splits=found.splits)
    weights = {"clusters.weight": found.weight, "clusters.bias": found.bias}
    contents = replace(
        replace_weights(file.contents(), shape, weights),
        provenance={**provenance, "softmax_splits_before": [*earlier, list(file.shape.softmax_splits)]},
        origin=replace(origin, tokens_read=found.tokens_read).after(file.origin),
    )
    write_model(path, contents)


@torch.inference_mode()
def take_sample(
    model: LanguageModel, stretch: Tensor, point: OperatingPoint, shape: ModelShape, places: NDArray[np.int64]
) -> Sample:
    """Queries of some texts side by side [T + 1, texts], answered by the cut model of a point.

    shape: of the whole model.
    """
    keep, gates = point.keep[-1], point.gate(len(point.keep) - 1)
    starts = np.concatenate([[0], places[:-1]])
    output = model.output_weights()
    hidden = model(stretch[:-1], model.initial_state(stretch.shape[1])).dropped[WARM_UP:].flatten(0, 1)
    parts: list[Sample] = []
    for block, targets in zip(hidden.split(BLOCK), stretch[1 + WARM_UP :].flatten().split(BLOCK), strict=True):
        log_p = model.log_probabilities(block)
        score = block @ output.weight[0] + output.bias[0]  # of the first word, which is always of the head
        whole = np.zeros((len(block), shape.output_size + 1), np.float32)
        whole[:, keep] = block.numpy() * (1 if gates is None else gates)
        whole[:, -1] = 1
        parts.append(
            Sample(
                whole,
                np.add.reduceat(log_p.exp().numpy(), starts, axis=1, dtype=np.float64).cumsum(axis=1),
                (score - log_p[:, 0]).double().numpy(),
                log_p.topk(min(BEST, log_p.shape[1]), dim=1).values[:, -1].double().exp().numpy(),
                targets.numpy(),
            )
        )
    return _joined(parts)


def stretches(ids: NDArray[np.integer], tokens: int) -> list[Tensor]:
    """[STRETCH + 1, texts] each: about so many tokens after the warm-ups, evenly spread over a text."""
    if len(ids) <= STRETCH:
        raise CorpusError(f"a text of {len(ids)} tokens is too short to sample; expected more than {STRETCH}")
    count = max(1, round(tokens / (STRETCH - WARM_UP)))
    starts = np.linspace(0, len(ids) - STRETCH - 1, count).astype(np.int64)
    texts = torch.from_numpy(np.stack([np.array(ids[start : start + STRETCH + 1], np.int64) for start in starts], 1))
    return list(texts.split(TEXTS, dim=1))


def _joined(samples: Sequence[Sample]) -> Sample:
    columns = ([getattr(sample, field.name) for sample in samples] for field in fields(Sample))
    return Sample(*map(np.concatenate, columns))


def fit_clusters(
    file: ModelFile, sample: Sample, splits: Sequence[int], places: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """Rows and biases of the clusters whose softmax with the head's words is nearest to the sample's."""
    masses = torch.from_numpy(np.exp(sample.log_masses(splits, places)))
    hidden = torch.from_numpy(sample.hidden).double()
    head = masses[:, 0].log() + torch.from_numpy(sample.normalizer)  # log of the sum of exp of its words' scores
    start = torch.from_numpy(_typical_rows(file, splits))
    rows = start.clone().requires_grad_()
    optimizer = torch.optim.LBFGS([rows], max_iter=ITERATIONS, history_size=20, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        scores = torch.cat([head[:, None], hidden @ rows.T], 1)
        objective = (scores.logsumexp(1) - (masses * scores).sum(1)).mean() + NEARNESS * (rows - start).square().sum()
        objective.backward()
        return objective

    optimizer.step(loss)
    fitted = rows.detach().float().numpy()
    return fitted[:, :-1], fitted[:, -1]


def _typical_rows(file: ModelFile, splits: Sequence[int]) -> Reals:
    """[C, D + 1] where the fit begins: the mean row of each cluster, with a bias as if all of its words had it."""
    weight = file.tensor(file.shape.output_name)
    bias = file.tensor("output.bias")
    shape = replace(file.shape, softmax_splits=tuple(splits))
    return np.stack(
        [
            np.append(weight[words].mean(0), bias[words].mean() + np.log(words.stop - words.start))
            for words in shape.clusters[1:]
        ]
    ).astype(np.float64)


def _judge(
    shape: ModelShape,
    sample: Sample,
    splits: tuple[int, ...],
    places: NDArray[np.int64],
    rows: tuple[Floats, Floats],
) -> NewClusters:
    weight, bias = rows
    old = sample.log_masses(splits, places)
    clusters = sample.hidden @ np.column_stack([weight, bias]).T
    scores = np.column_stack([old[:, 0] + sample.normalizer, clusters])
    new = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
    cluster_of = np.searchsorted(splits, sample.targets, side="right")
    change = np.take_along_axis(new - old, cluster_of[:, None], axis=1)
    # The head's words are as probable among themselves as before, and so is the last of the BEST, if it is one of them;
    # if it is not, clusters before it are opened as well, and these are not counted.
    threshold = np.log(sample.threshold) + new[:, 0] - old[:, 0]
    before = sample.log_masses(shape.softmax_splits, places)
    return NewClusters(
        splits,
        weight,
        bias,
        divergence=float((np.exp(old) * (old - new)).sum(axis=1).mean()),
        perplexity_ratio=float(np.exp(-change.mean())),
        multiplications=(
            _multiplications(shape, before[:, 1:] > np.log(sample.threshold)[:, None]),
            _multiplications(replace(shape, softmax_splits=splits), new[:, 1:] > threshold[:, None]),
        ),
    )


def _multiplications(shape: ModelShape, opened: NDArray[np.bool_]) -> float:
    """Of the output layer in the mean, for queries that opened these tail clusters [N, C]."""
    layers = shape.flops - flops_by_part(shape)["output"]
    return float(np.mean([executed_flops(shape, query) - layers for query in opened.astype(int)])) / 2
