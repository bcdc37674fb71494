"""Counting a training text into a model file: which n-grams are worth their bytes beside this network.

Knows training text, validation text and the network; `model.counts` says how counts are stored and mixed in, `ngram`
counts and discounts.

An n-gram is worth what it adds to the log-probability of the training text beside the network: its count times
log(mixed / alone). The network is asked with the context of the n-gram alone. Weights are tuned on validation text; of
a mixture, every part counts as much as in training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rheostat.arguments import check_whole, checked
from rheostat.errors import CorpusError, OperatingPointError, RheostatError
from rheostat.measure.ngram import Grams, count_grams, discounts
from rheostat.metrics import perplexity
from rheostat.model import knob as knob_positions
from rheostat.model.counts import LARGEST_ORDER, MOST_WORDS, SMALLEST_ORDER, Counts, level_of, row_keys, share_of
from rheostat.model.file import ModelFile, open_model
from rheostat.model.operating_point import OperatingPoint
from rheostat.model.writer import check_target, write_model
from rheostat.runtime.engine import CoreEngine, CoreWeights
from rheostat.text.corpus import CorpusConfig, load_split, load_training_split, part_texts, part_weights
from rheostat.text.vocabulary import Vocabulary

ORDER = 4
MEGABYTES = 1.7
KNOBS = (1.0, 0.5, 0.25, 0.15)
SAMPLE = 40_000  # tokens of validation text, at most, that weights are tuned on
STRETCHES = 8
MINIMUM_COUNT = 3
CANDIDATES = 3.0  # times the bytes that will be kept: the network is asked about these
# Weights that n-grams of each order are chosen by; the tuned ones are near them.
CHOSEN_BY = {2: 0.1, 3: 0.2, 4: 0.3}
_STEPS = (0.2, 0.1, 0.05, 0.02, 0.01)

Floats: TypeAlias = NDArray[np.float64]
Ids: TypeAlias = NDArray[np.int64]
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class TunedCost:
    """The effect of counts at one position of the knob, on the validation sample."""

    cost: float
    weights: tuple[float, ...]
    perplexity_without: float
    perplexity_with: float


@dataclass(frozen=True)
class Counted:
    """Counts that were added to a file. ngrams: of each order, from 2. tokens: of the training text.

    sample: tokens of validation text that the weights were tuned on.
    """

    size_bytes: int
    ngrams: tuple[int, ...]
    tokens: int
    sample: int
    tuned: tuple[TunedCost, ...]

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "tuned": [dict(vars(one)) for one in self.tuned]}


@checked
def add_counts(
    model: str | Path,
    out: str | Path,
    *,
    data: str | Path,
    order: int = ORDER,
    megabytes: float = MEGABYTES,
    knobs: Sequence[float] = KNOBS,
    progress: Progress = lambda label, share: None,
) -> Counted:
    """Add counts of a training text to a model file; they replace those that it has.

    data: the corpus that the model was trained on. order: the length of the longest n-grams, 2 to 4. megabytes: room in
    the file. knobs: positions whose weights are tuned on validation text; others lie between them.
    """
    check_whole("order", order, SMALLEST_ORDER, LARGEST_ORDER)
    if not 0 < megabytes <= 1000:
        raise RheostatError(f"megabytes is {megabytes}; expected a number above 0, at most 1000")
    check_target(out)
    with open_model(model) as file:
        _check_model(file)
        config = CorpusConfig(tokenizer=file.tokenizer)
        train = load_training_split(data, "train", config, file.vocabulary)
        points = _points(file, knobs)
        weights = CoreWeights(file, "int8", counts=False)
        tables = _choose(train.ids, file, order, megabytes * 1e6, [weights.engine(p) for p in _ends(points)], progress)
        stretches = sample_texts(_valid_texts(data, config, file.vocabulary))
        tuned = _tune(tables, stretches, [(point.cost, weights.engine(point)) for point in points], progress)
        costs = np.array([one.cost for one in tuned], np.float32)
        counts = Counts(*tables, costs, np.array([one.weights for one in tuned], np.float32))
        sample = sum(len(stretch) - 1 for stretch in stretches)
        found = Counted(counts.size_bytes, tuple(map(len, counts.rows)), train.tokens, sample, tuple(tuned))
        about = {"corpus": train.corpus, "corpus_digest": train.digest, **found.as_json()}
        contents = file.contents()
        write_model(out, replace(contents, counts=counts, provenance={**contents.provenance, "counts": about}))
    return found


def _check_model(file: ModelFile) -> None:
    shape = file.shape
    if shape.cell != "qrnn" or shape.softmax_splits or shape.vocabulary_size > MOST_WORDS:
        raise RheostatError(
            f"{file.path.name} cannot have counts; expected a qrnn with a plain softmax and at most {MOST_WORDS} words"
        )


def _points(file: ModelFile, knobs: Sequence[float]) -> list[OperatingPoint]:
    """The positions to tune, from the largest down; those that the file cannot serve are left out."""
    points: list[OperatingPoint] = []
    for knob in sorted({1.0, *knobs}, reverse=True):
        try:
            point = knob_positions.choose(file, knob)
        except OperatingPointError:
            if knob == 1:
                raise
            continue
        if not points or point.cost < points[-1].cost:
            points.append(point)
    return points


def _ends(points: Sequence[OperatingPoint]) -> list[OperatingPoint]:
    """The largest and the smallest: n-grams should help both."""
    return [points[0], *points[1:][-1:]]


# --- which n-grams ----------------------------------------------------------------------------------------


class _Candidates(NamedTuple):
    """N-grams of one order, in the order of their rows. gains: nats on the training text."""

    rows: NDArray[np.uint16]
    shares: Floats
    counts: Ids
    gains: Floats


class Tables(NamedTuple):
    """Rows and levels by order, from 2."""

    rows: tuple[NDArray[np.uint16], ...]
    levels: tuple[NDArray[np.uint8], ...]


def _choose(
    ids: NDArray[np.integer],
    file: ModelFile,
    order: int,
    size_bytes: float,
    engines: Sequence[CoreEngine],
    progress: Progress,
) -> Tables:
    progress("counting n-grams", 0.0)
    grams = list(count_grams(np.asarray(ids, np.int64), file.shape.vocabulary_size, order))
    found = _cheapest(_candidates(grams), CANDIDATES * size_bytes)
    asked = []
    for candidates in found:

        def show(share: float, order: int = candidates.rows.shape[1]) -> None:
            progress(f"asking the network about {order}-grams", share)

        gains = [_gains(engine, candidates, show) for engine in engines]
        asked.append(candidates._replace(gains=np.mean(gains, 0)))
    kept = _cheapest(asked, size_bytes)
    return Tables(tuple(one.rows for one in kept), tuple(level_of(one.shares) for one in kept))


def _candidates(grams: Sequence[Grams]) -> list[_Candidates]:
    """All n-grams that occur often enough, with their gain over the shorter context."""
    shorter = np.maximum(grams[0].counts, 0.5) / grams[0].counts.sum()
    words = grams[0].words[:, None]
    found = []
    for gram in grams[1:]:
        words = np.concatenate([words[gram.parent], gram.words[:, None]], 1)
        totals = np.bincount(gram.parent, weights=gram.counts, minlength=len(shorter))
        taken = np.array([0.0, *discounts(gram.counts)])[np.minimum(gram.counts, 3)]
        shares = (gram.counts - taken) / totals[gram.parent]
        left = 1 - np.bincount(gram.parent, weights=shares, minlength=len(totals))
        backed_off = np.maximum(left, 1e-4)[gram.parent] * shorter[gram.suffix]
        gains = gram.counts * np.log(1 + shares / backed_off)
        often = gram.counts >= MINIMUM_COUNT
        found.append(_Candidates(words[often].astype(np.uint16), shares[often], gram.counts[often], gains[often]))
        shorter = shares + backed_off
    return found


def _cheapest(candidates: Sequence[_Candidates], size_bytes: float) -> list[_Candidates]:
    """Those that gain most per byte, and gain anything, until the room is used up."""
    prices = [np.full(len(one.rows), 2.0 * one.rows.shape[1] + 1) for one in candidates]
    worth = np.concatenate([one.gains / price for one, price in zip(candidates, prices, strict=True)])
    best = np.argsort(-worth, kind="stable")
    best = best[worth[best] > 0]
    best = best[np.cumsum(np.concatenate(prices)[best]) <= size_bytes]
    is_kept = np.zeros(len(worth), np.bool_)
    is_kept[best] = True
    parts = np.split(is_kept, np.cumsum([len(one.rows) for one in candidates])[:-1])
    return [
        _Candidates(one.rows[kept], one.shares[kept], one.counts[kept], one.gains[kept])
        for one, kept in zip(candidates, parts, strict=True)
    ]


def _gains(engine: CoreEngine, of: _Candidates, progress: Callable[[float], None]) -> Floats:
    """Nats that each n-gram adds to the network's prediction from its context alone."""
    if not len(of.rows):
        raise CorpusError(
            f"no {of.rows.shape[1]} words in a row occur {MINIMUM_COUNT} times in this text; expected more text: "
            "choose a larger corpus"
        )
    own = np.empty(len(of.rows))
    contexts = row_keys(of.rows[:, :-1])
    starts = np.unique(contexts, return_index=True)[1].tolist()
    start, model, position = engine.start(), engine.model, engine.position
    for first, last in zip(starts, [*starts[1:], len(own)], strict=True):
        state = model.steps(position, start, of.rows[first, :-1].astype(np.int32))
        own[first:last] = model.log_probabilities(model.predict(position, state))[of.rows[first:last, -1]]
        progress(last / len(own))
    weight, alone = CHOSEN_BY[of.rows.shape[1]], np.exp(own)
    return np.asarray(of.counts * np.log((weight * of.shares + (1 - weight) * alone) / alone))


# --- weights ----------------------------------------------------------------------------------------------


class _LookedUp(NamedTuple):
    """What counts say about each token of a sample. shares: [tokens, orders] of that token; sums: of its context."""

    shares: Floats
    sums: Floats


def _tune(
    tables: Tables, stretches: Sequence[Ids], engines: Sequence[tuple[float, CoreEngine]], progress: Progress
) -> list[TunedCost]:
    looked_up = [_look_up(tables, stretch) for stretch in stretches]
    seen = _LookedUp(*(np.concatenate(column) for column in zip(*looked_up, strict=True)))
    tuned = []
    for number, (cost, engine) in enumerate(engines):
        progress("tuning weights", number / len(engines))
        scores = [engine.model.evaluate(engine.position, engine.start(), stretch)[1] for stretch in stretches]
        alone = np.exp(np.concatenate(scores).astype(np.float64))
        weights = _best_weights(seen, alone)
        before, after = (perplexity(-float(np.log(p).mean())) for p in (alone, mixed(seen, alone, weights)))
        tuned.append(TunedCost(cost, tuple(weights.tolist()), before, after))
    return tuned


def _valid_texts(data: str | Path, config: CorpusConfig, vocabulary: Vocabulary) -> list[tuple[Ids, float]]:
    """The validation text, or that of each part of a mixture, with how often training reads such text."""
    texts = part_texts(data, config)
    weighted = [(texts[f"valid-{part}"], weight) for part, weight in part_weights(data, config).items()]
    found = [(load_split(path, "valid", config, vocabulary), weight) for path, weight in weighted]
    found = found or [(load_training_split(data, "valid", config, vocabulary), 1.0)]
    return [(np.asarray(split.ids, np.int64), weight) for split, weight in found]


def sample_texts(texts: Sequence[tuple[Ids, float]]) -> list[Ids]:
    """Stretches of the texts, as many tokens of each as training reads of it, in proportion."""
    total = sum(len(ids) * weight for ids, weight in texts)
    stretches = []
    for ids, weight in texts:
        wanted = round(SAMPLE * len(ids) * weight / total)
        length = max(min(wanted, len(ids)) // STRETCHES - 1, 1)
        starts = np.linspace(0, max(len(ids) - length - 1, 0), STRETCHES).astype(int)
        stretches += [ids[start : start + length + 1] for start in dict.fromkeys(starts.tolist())]
    return stretches


def _look_up(tables: Tables, tokens: Ids) -> _LookedUp:
    """For every token but the first; a context that begins before the stretch has no rows."""
    shares, sums = np.zeros((2, len(tokens) - 1, len(tables.rows)))
    for place, (rows, levels) in enumerate(zip(*tables, strict=True)):
        order = place + SMALLEST_ORDER
        if len(tokens) < order or not len(rows):
            continue
        windows = np.lib.stride_tricks.sliding_window_view(tokens.astype(np.uint16), order)
        of_rows = share_of(levels)
        contexts, firsts = np.unique(row_keys(rows[:, :-1]), return_index=True)
        totals = np.add.reduceat(of_rows, firsts)
        shares[order - 2 :, place] = _found(row_keys(rows), of_rows, row_keys(windows))
        sums[order - 2 :, place] = _found(contexts, totals, row_keys(windows[:, :-1]))
    return _LookedUp(shares, sums)


def _found(keys: NDArray[np.uint64], values: Floats, wanted: NDArray[np.uint64]) -> Floats:
    """The value of each wanted key; 0 where there is none."""
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, values[places], 0.0)


def mixed(seen: _LookedUp, alone: Floats, weights: Floats) -> Floats:
    """p of each token with the counts mixed in: `Counts.mix` for one word each."""
    p = alone
    for place, weight in enumerate(weights):
        p = weight * seen.shares[:, place] + (1 - weight * seen.sums[:, place]) * p
    return p


def _best_weights(seen: _LookedUp, alone: Floats) -> Floats:
    """By coordinate search, in smaller and smaller steps."""
    weights = np.full(seen.shares.shape[1], 0.2)
    best = float(np.log(mixed(seen, alone, weights)).mean())
    for step in _STEPS:
        is_better = True
        while is_better:
            is_better = False
            for place in range(len(weights)):
                for change in (-step, step):
                    tried = weights.copy()
                    tried[place] = np.clip(tried[place] + change, 0, 0.99)
                    found = float(np.log(mixed(seen, alone, tried)).mean())
                    if found > best + 1e-9:
                        weights, best, is_better = tried, found, True
    return weights
