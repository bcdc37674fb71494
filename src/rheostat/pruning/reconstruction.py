"""A better knob without training: the dropped filters of a point are guessed from the kept ones, and the guess is
folded into the next matrix.

`reconstruct` runs the model over some text, stores the mean and covariance of what every layer gives (as
`model.reconstruction` describes), and from then on every knob position of the file is cut with the guess: no training,
no extra FLOPs. It also chooses widths: filters of all layers become comparable by how much of the output is lost with
each. NumPy is enough; nothing here imports torch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from rheostat.arguments import check_whole, checked
from rheostat.errors import CorpusError, OperatingPointError, RheostatError, RheostatWarning
from rheostat.model.contents import add_points, add_rankings, set_default_ranking, set_reconstruction
from rheostat.model.file import ModelFile, open_model
from rheostat.model.names import check_name
from rheostat.model.operating_point import Floats, OperatingPoint, Ranking, require_filters
from rheostat.model.origin import Origin
from rheostat.model.path import GRADED
from rheostat.model.reconstruction import BY_ERROR, Doubles, Reconstruction, moments_of
from rheostat.model.shape import CLUSTERS, EMBEDDING, QRNN_GATES, ModelShape
from rheostat.model.writer import check_target, write_model
from rheostat.provenance import new_origin
from rheostat.text.corpus import CorpusConfig, load_training_split

Widths = Literal["error", "ranking"]
WIDTHS: tuple[Widths, ...] = get_args(Widths)
Progress = Callable[[str, float], None]

TOKENS = 30_000  # of the training text
STREAMS = 20  # parts of the text that are read side by side, so that a step is one matrix product
STEPS = 50  # words of each stream at a time
PROBE = 0.5  # share of a layer's filters that are dropped to find out how much the output minds
PROBE_TOKENS = 2_000
SUFFIX = "-reconstructed"  # of a point


@dataclass(frozen=True, eq=False)
class Reconstructed:
    """What `reconstruct` added to a model file. ranking: the one that the knob uses from now on."""

    model: Path
    ranking: Ranking
    tokens: int
    size_bytes: int
    points: tuple[OperatingPoint, ...] = ()


@checked
def reconstruct(
    model: str | Path,
    *,
    data: str | Path,
    out: str | Path,
    ranking: str | None = None,
    tokens: int = TOKENS,
    widths: Widths = "error",
    points: Sequence[str] = (),
    progress: Progress = lambda label, share: None,
) -> Reconstructed:
    """Give a ranked model a knob that needs no training, and write it to `out`.

    data: the corpus whose training text is read. ranking: a name; the default ranking without one. tokens: how much of
    the text is read. widths: "error" stores the ranking once more, under its name with "-by-error", with scores
    that choose each layer's width by what the output loses, and makes it the default; "ranking" keeps the widths of
    the ranking. points: stored points to store once more with the guess, with their filters and gates.
    """
    if widths not in WIDTHS:
        raise RheostatError(f"widths is {widths!r:.40}; expected one of {', '.join(WIDTHS)}")
    check_whole("tokens", tokens, 2)
    check_target(out)
    with open_model(model) as file:
        require_filters(file.shape)
        by = _ranking_of(file, ranking)
        chosen = [_bare_point(file, name) for name in points]
        split = load_training_split(
            data, "train", CorpusConfig(tokenizer=file.tokenizer), file.vocabulary, progress=progress
        )
        ids = np.asarray(split.ids[:tokens])
        origin = replace(
            new_origin(),
            recipe={"reconstruct": {"tokens": len(ids), "widths": widths}},
            steps=0,
            tokens_read=len(ids),
            corpus=split.corpus,
            corpus_digest=split.digest,
            made_from=file.weights_digest(),
        ).after(by.origin)
        network = Network(file.shape, file.weights())
        found = calibrate(network, by, ids, origin, progress)
        contents = set_reconstruction(file.contents(), found)
        if widths == "error":
            by = rescored(network, found, by, ids[:PROBE_TOKENS], origin, progress)
            contents = add_rankings(contents, [by])
        contents = set_default_ranking(contents, by.name)
        added = tuple(_with_guess(point, found, origin) for point in chosen)
        write_model(out, add_points(contents, added))
    return Reconstructed(Path(out), by, len(ids), found.size_bytes, added)


def _ranking_of(file: ModelFile, name: str | None) -> Ranking:
    ranking = file.ranking(name)
    if ranking.criterion == GRADED:
        raise OperatingPointError(
            f"ranking '{ranking.name}' is graded: its weights were trained to do without what a position drops, and a "
            "guess of it would only disturb them: use the file as it is, or name another ranking"
        )
    return ranking


def _bare_point(file: ModelFile, name: str) -> OperatingPoint:
    point = file.point(name)
    if point.updates is not None:
        raise OperatingPointError(
            f"point '{name}' has an update, trained for the plain cut: reconstruct it first, then run rheostat recover"
        )
    check_name(name + SUFFIX, "the name of the point")
    return point


def _with_guess(point: OperatingPoint, found: Reconstruction, origin: Origin) -> OperatingPoint:
    return replace(
        point, name=point.name + SUFFIX, reconstruction=found, preferred=False, origin=origin.after(point.origin)
    )


# Running the model


class Network:
    """A QRNN in NumPy, as in `training.layers`, to see what every layer gives; the core runs models for users."""

    def __init__(self, shape: ModelShape, weights: Mapping[str, Floats]) -> None:
        self.shape, self.weights = shape, weights
        self.layers = range(len(shape.hidden_sizes))

    def start(self, streams: int) -> list[tuple[Floats, Floats]]:
        """For each layer, c [B, m] and the last r - 1 inputs [r - 1, B, D], before the text starts."""
        shape = self.shape
        return [
            (
                np.zeros((streams, shape.hidden_sizes[layer]), np.float32),
                np.zeros((shape.windows[layer] - 1, streams, shape.input_size(layer)), np.float32),
            )
            for layer in self.layers
        ]

    def embed(self, ids: Any) -> Floats:
        return np.asarray(self.weights[EMBEDDING][ids], np.float32)

    def run(self, layer: int, inputs: Floats, state: tuple[Floats, Floats]) -> tuple[Floats, tuple[Floats, Floats]]:
        """h [T, B, m] of one layer, and its state afterwards. inputs: [T, B, D]."""
        c, past = state
        steps, window = len(inputs), self.shape.windows[layer]
        stream = np.concatenate([past, inputs])
        read = np.concatenate([stream[word : word + steps] for word in range(window)], axis=2)  # oldest first
        gates = read @ self.weights[f"layers.{layer}.weight"].T + self.weights[f"layers.{layer}.bias"]
        size = self.shape.hidden_sizes[layer]
        z, f, o = (gates[..., part * size : (part + 1) * size] for part in range(QRNN_GATES))
        z, f, o = np.tanh(z), _sigmoid(f), _sigmoid(o)
        h = np.empty_like(z)
        for step in range(steps):
            c = f[step] * c + (1 - f[step]) * z[step]
            h[step] = o[step] * c
        return h, (c, stream[steps:])

    def readers(self, layer: int) -> Floats:
        """The matrix [rows, m] that reads what a layer gives, once for each word of a window."""
        if layer + 1 == len(self.layers):
            output = self.weights[self.shape.output_name]
            tails = [self.weights[CLUSTERS]] if self.shape.softmax_splits else []
            return np.concatenate([output, *tails])
        matrix = self.weights[f"layers.{layer + 1}.weight"]
        return np.concatenate(np.split(matrix, self.shape.windows[layer + 1], axis=1))


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)), np.float32)  # without overflow


def _streams(ids: np.ndarray) -> np.ndarray:
    """The text as parallel streams [T, B]; a short one has fewer streams."""
    streams = max(1, min(STREAMS, len(ids) // STEPS))
    steps = len(ids) // streams
    return ids[: streams * steps].reshape(streams, steps).T


def outputs(network: Network, ids: np.ndarray) -> Iterator[tuple[list[Floats], float]]:
    """What every layer gives [T, B, m], stretch by stretch, and the share of the text read."""
    text = _streams(ids)
    states = network.start(text.shape[1])
    for first in range(0, len(text), STEPS):
        values, given = network.embed(text[first : first + STEPS]), []
        for layer in network.layers:
            values, states[layer] = network.run(layer, values, states[layer])
            given.append(values)
        yield given, min((first + STEPS) / len(text), 1.0)


# Mean and covariance


def calibrate(
    network: Network,
    ranking: Ranking,
    ids: np.ndarray,
    origin: Origin,
    progress: Progress = lambda label, share: None,
) -> Reconstruction:
    """Mean and covariance of every layer over a text, in the order of a ranking."""
    sizes = network.shape.hidden_sizes
    ranking.check(network.shape)
    if len(ids) < 2:
        raise CorpusError(f"the training text has {len(ids)} words; expected at least 2, better some ten thousand")
    if len(ids) < max(sizes):
        warnings.warn(
            f"{len(ids):,} words are few for layers of up to {max(sizes):,} filters: what is dropped is guessed badly; "
            "give a longer training text, or let more tokens be read",
            RheostatWarning,
            stacklevel=3,
        )
    sums = [np.zeros(size) for size in sizes]
    products = [np.zeros((size, size)) for size in sizes]
    count = 0
    for given, share in outputs(network, ids):
        for layer, values in enumerate(given):
            rows = values.reshape(-1, sizes[layer])
            sums[layer] += rows.sum(0, dtype=np.float64)
            products[layer] += rows.T @ rows
        count += given[0].shape[0] * given[0].shape[1]
        progress("reading what every layer gives", share)
    order = tuple(ranking.order(layer) for layer in network.layers)
    layers = []
    for layer, by in enumerate(order):
        mean = sums[layer] / count
        covariance = products[layer] / count - np.outer(mean, mean)
        layers.append(moments_of(mean[by], covariance[np.ix_(by, by)]))
    return Reconstruction(ranking.name, tuple(layers), order, origin)


# Widths by the error


def rescored(
    network: Network,
    found: Reconstruction,
    ranking: Ranking,
    ids: np.ndarray,
    origin: Origin,
    progress: Progress = lambda label, share: None,
) -> Ranking:
    """The same order with comparable scores: what the output loses with a filter, per FLOP that it costs.

    With the filters from j on dropped, what cannot be guessed adds E |W (h - ĥ)|² = Σ_{i ≥ j} |W L_i|² to the products
    of the matrix W that reads them; L_i is column i of the triangle. How much the output minds is measured, by
    dropping half of one layer at a time.
    """
    minds = _sensitivity(network, found, ids, progress)
    scores = []
    for layer, moments in enumerate(found.layers):
        columns = network.readers(layer)[:, found.order[layer]].astype(np.float32) @ moments.triangle().astype(
            np.float32
        )
        lost = (columns.astype(np.float64) ** 2).sum(0)  # with each filter in turn, the worst last
        tail = lost[_kept(moments.filters) :].sum()
        share = lost * (minds[layer] / tail if tail > 0 else 1.0)
        falling = _non_increasing(share / _flops_per_filter(network.shape, layer))
        by_filter = np.empty(moments.filters, np.float32)
        by_filter[found.order[layer]] = _strictly_falling(falling)
        scores.append(by_filter)
    name, criterion = ranking.name + BY_ERROR, ranking.criterion + BY_ERROR
    return Ranking(name, criterion, tuple(scores), ranking.seed, comparable=True, origin=origin)


def _kept(size: int) -> int:
    return max(1, round(size * (1 - PROBE)))


def _sensitivity(network: Network, found: Reconstruction, ids: np.ndarray, progress: Progress) -> list[float]:
    """Mean squared change of the logits if half of a layer is guessed, one layer at a time."""
    text = _streams(ids)
    start = network.start(text.shape[1])
    exact: list[Floats] = []
    values = network.embed(text)
    for layer in network.layers:
        values, _ = network.run(layer, values, start[layer])
        exact.append(values)
    logits = _logit_metric(network, ids)
    changes = []
    for layer in network.layers:
        keep = np.sort(found.order[layer][: _kept(network.shape.hidden_sizes[layer])])
        dropped, guess = found.guess(layer, keep)
        values = exact[layer].copy()
        values[..., dropped] = values[..., keep] @ guess.weights.T.astype(np.float32) + guess.offset.astype(np.float32)
        for above in network.layers[layer + 1 :]:
            values, _ = network.run(above, values, start[above])
        change = (values - exact[-1]).reshape(-1, values.shape[-1]).astype(np.float64)
        changes.append(float(np.einsum("ti,ij,tj->", change, logits, change, optimize=True) / len(change)))
        progress("how much the output minds", (layer + 1) / len(network.layers))
    return changes


def _logit_metric(network: Network, ids: np.ndarray) -> Doubles:
    """G with Δhᵀ G Δh = the variance of the change of the logits, over words as they occur in the text."""
    weight = np.asarray(network.weights[network.shape.output_name], np.float64)
    often = np.bincount(np.asarray(ids, np.int64), minlength=len(weight)) + 1.0
    often /= often.sum()
    mean = often @ weight
    return np.asarray((weight * often[:, None]).T @ weight - np.outer(mean, mean))


def _flops_per_filter(shape: ModelShape, layer: int) -> float:
    """What one filter of the whole model costs: its own rows, and the columns that read it."""
    fewer = list(shape.hidden_sizes)
    fewer[layer] -= 1
    return float(shape.flops - shape.with_hidden_sizes(fewer).flops) if fewer[layer] else float(shape.flops)


def _non_increasing(values: Doubles) -> Doubles:
    """The values with every rising run replaced by its mean (pool adjacent violators), so the order stays."""
    blocks: list[tuple[float, int]] = []
    for value in values.tolist():
        total, count = value, 1
        while blocks and blocks[-1][0] / blocks[-1][1] < total / count:
            before, number = blocks.pop()
            total, count = total + before, count + number
        blocks.append((total, count))
    return np.concatenate([np.full(count, total / count) for total, count in blocks])


def _strictly_falling(values: Doubles) -> Floats:
    """As float32 without ties, which would be broken by index instead of by rank."""
    falling = values.astype(np.float32)
    for place in range(1, len(falling)):
        falling[place] = min(falling[place], np.nextafter(falling[place - 1], np.float32(-np.inf)))
    return falling
