"""New clusters for a trained output layer: a query opens fewer words, without training the model again.

A tail cluster is opened when it is more probable than the third best word. The more clusters there are, the less
probable each is, and the fewer words are opened. Where they begin is chosen from the model's own answers on a sample of
text (`model.clusters.cheapest_splits`). No new cluster crosses an old boundary, so within each, the softmax over its
words' scores still gives p(word | cluster). Only p(cluster) is new: a linear score per cluster, fitted so that the
distribution over head words and clusters stays as close as possible to the old one (least KL; convex). Everything else
is unchanged, so rankings, points and updates still fit.

When a model is cut, its clusters' rows are cut too. The sample covers all relevant knob positions, so one fit works for
all of them.
"""

from __future__ import annotations

import rheostat.training  # noqa: F401  (first: it names the missing extra if torch is not installed)

# isort: split
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rheostat.arguments import checked
from rheostat.errors import CorpusError, OperatingPointError
from rheostat.model import knob as knob_positions
from rheostat.model.clusters import MOST_TAILS, cheapest_splits, opening_rates, split_places
from rheostat.model.contents import replace_weights
from rheostat.model.file import ModelFile, open_model
from rheostat.model.flops import executed_flops, flops_by_part
from rheostat.model.operating_point import Floats, OperatingPoint
from rheostat.model.origin import UNKNOWN_ORIGIN, Origin
from rheostat.model.shape import CLUSTERS, CLUSTERS_BIAS, OUTPUT_BIAS, ModelShape
from rheostat.model.writer import check_target, write_model
from rheostat.provenance import new_origin
from rheostat.text.corpus import CorpusConfig, load_training_split
from rheostat.training.evaluation import PointEvaluator
from rheostat.training.language_model import LanguageModel

BEST = 3  # the number of words that clusters are opened to find
WARM_UP = 30  # tokens at the start of a stretch that only build up the state
STRETCH = 130
TEXTS = 10  # stretches read in parallel
JUDGED = 5  # one token for judging per five for fitting
BLOCK = 100  # queries whose log p of all words is in memory at once
NEARNESS = 1e-5  # pull towards the start of the fit, because rare clusters have little data
ITERATIONS = 300
SMALLEST = 1e-30  # smaller probabilities count as zero

Reals = NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """A model's answers to N queries, for P places where a cluster may begin."""

    hidden: Floats  # [N, D + 1]: the input of the whole output layer, and a one for the bias
    mass_before: Reals  # [N, P] probability of the words before each place
    normalizer: Reals  # [N] of the head's softmax: score - log p of each of its words
    threshold: Reals  # [N] probability of the last of the BEST
    targets: NDArray[np.int64]  # [N] the words that followed

    def log_masses(self, splits: Sequence[int], places: NDArray[np.int64]) -> Reals:
        """log p of the head's words together, and of each cluster [N, 1 + C]."""
        before = self.mass_before[:, np.searchsorted(places, splits)]
        bounds = np.column_stack([np.zeros(len(before)), before, self.mass_before[:, -1]])
        return np.asarray(np.log(np.maximum(np.diff(bounds, axis=1), SMALLEST)))


@dataclass(frozen=True)
class NewClusters:
    """New clusters, and how they change answers on text they were not fitted on."""

    splits: tuple[int, ...]
    weight: Floats  # [C, D]
    bias: Floats  # [C]
    divergence: float  # KL from the old distribution over head words and clusters, in nats
    perplexity_ratio: float  # new over old
    multiplications: tuple[float, float]  # of the output layer per query, on average: before and after
    tokens_read: int | None = None


@checked
def resplit(
    model: str | Path,
    *,
    data: str | Path,
    out: str | Path,
    tails: int | None = None,
    knobs: Sequence[float] = (),
    tokens: int = 12_000,
    progress: Callable[[str, float], None] = lambda label, share: None,
) -> NewClusters:
    """Split the output layer of a model file into new clusters, and write the new file.

    tails: how many tail clusters, at most 16; None = the number that makes a query cheapest.
    knobs: positions to fit, besides the whole model and the stored points. tokens: of training text to fit on.
    """
    check_target(out)
    with open_model(model) as file:
        check_tails(file.shape, tails)
        config = CorpusConfig(tokenizer=file.tokenizer)
        train, valid = (
            load_training_split(data, split, config, file.vocabulary, progress=progress) for split in ("train", "valid")
        )
        positions = [knob_positions.choose(file, position) for position in (1.0, *knobs)]
        points = {point.digest: point for point in (*positions, *file.points())}
        show = partial(progress, "sampling answers")
        found = find_clusters(file, list(points.values()), train.ids, valid.ids, tokens, tails, show)
        origin = replace(
            new_origin(),
            recipe={"resplit": {"tails": tails, "knob": list(knobs), "tokens": tokens}},
            steps=0,
            corpus=train.corpus,
            corpus_digest=train.digest,
            made_from=file.weights_digest(),
        )
        store(file, found, Path(out), origin)
    return found


def find_clusters(
    file: ModelFile,
    points: Sequence[OperatingPoint],
    train: NDArray[np.integer],
    valid: NDArray[np.integer],
    tokens: int,
    tails: int | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> NewClusters:
    """Clusters for all these points, fitted on `tokens` of training text.

    They are judged on other text, at the first point. tails: how many; None = the number that makes a query cheapest.
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
        raise OperatingPointError(f"{file.path}: no other clusters make a query cheaper; use the model unchanged")
    found = _judge(shape, _joined(judged), splits, places, fit_clusters(file, sample, splits, places))
    return replace(found, tokens_read=read_tokens)


def check_tails(shape: ModelShape, tails: int | None) -> None:
    """Raise OperatingPointError unless the output layer can be split into this number of tail clusters."""
    now, most = len(shape.softmax_splits), min(MOST_TAILS, shape.vocabulary_size - BEST)
    if now >= most:
        raise OperatingPointError(
            f"this output layer has {now} tail clusters for {shape.vocabulary_size} words; "
            f"expected fewer than {most}, so that it can be split further: use the model unchanged"
        )
    if tails is not None and not now < tails <= most:
        limit = f"already has {now}" if tails <= now else f"can have at most {most}"
        raise OperatingPointError(
            f"{tails} tails were asked for, but this output layer {limit}: expected {now + 1} to {most}"
        )


def store(file: ModelFile, found: NewClusters, path: Path, origin: Origin = UNKNOWN_ORIGIN) -> None:
    """Write the model with its new clusters, without figures measured with the old ones.

    origin: of the new weights; it links to the old origin.
    """
    provenance = {name: value for name, value in file.description.provenance.items() if name != "curve"}
    earlier = provenance.get("softmax_splits_before", [])
    shape = replace(file.shape, softmax_splits=found.splits)
    weights = {CLUSTERS: found.weight, CLUSTERS_BIAS: found.bias}
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
    """Queries of parallel texts [T + 1, texts], answered by the cut model of a point.

    shape: of the whole model.
    """
    keep, gates = point.keep[-1], point.gate(len(point.keep) - 1)
    starts = np.concatenate([[0], places[:-1]])
    output = model.output_weights()
    hidden = model(stretch[:-1], model.initial_state(stretch.shape[1])).dropped[WARM_UP:].flatten(0, 1)
    parts: list[Sample] = []
    for block, targets in zip(hidden.split(BLOCK), stretch[1 + WARM_UP :].flatten().split(BLOCK), strict=True):
        log_p = model.log_probabilities(block)
        score = block @ output.weight[0] + output.bias[0]  # of the first word, which is always in the head
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
    """Stretches [STRETCH + 1, texts], evenly spread over a text: about `tokens` in all, not counting warm-up."""
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
    """Rows and biases of clusters whose softmax, together with the head's words, is closest to the sample's."""
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
    """[C, D + 1]: the start of the fit. The mean row of each cluster, with a bias as if all its words had that row."""
    weight = file.tensor(file.shape.output_name)
    bias = file.tensor(OUTPUT_BIAS)
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
    # Words in the head keep their relative probabilities, and so does the last of the BEST if it is in the head. If it
    # is not, earlier clusters are opened too, which is not counted.
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
    """Multiplications in the output layer, averaged over queries that opened these tail clusters [N, C]."""
    layers = shape.flops - flops_by_part(shape)["output"]
    return float(np.mean([executed_flops(shape, query) - layers for query in opened.astype(int)])) / 2
