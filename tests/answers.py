"""A small model that uses every feature, and questions to ask it on every machine.

The model is made from whole numbers only: no random generator, no logarithm, nothing that two processors or two
releases of a library could compute differently. So every machine should give the same answers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import rheostat
from models import GOLDEN, write_file
from rheostat.model.operating_point import OperatingPoint, Ranking, Update
from rheostat.model.precision import PRECISIONS, Precision
from rheostat.model.shape import ModelShape
from rheostat.runtime.predictor import Predictor
from rheostat.text.vocabulary import END_OF_LINE, UNKNOWN, Vocabulary

RECORDED = GOLDEN / "answers.json"

# Windows, softmax splits, and widths that are no multiple of a vector register.
SHAPE = ModelShape(122, 40, (70, 65, 40), (2, 1, 2), (40, 80))
LEARNED = "gates-and-updates"  # a stored point
LENGTHS = (3, 8, 70)  # of texts, in words; the last is long enough to be replayed instead of stepped through
K = 3

# How far a log-probability may be from the recorded one. With few bits, an activation can be rounded the other way, a
# whole step of its scale.
TOLERANCE: dict[Precision, float] = {"fp32": 1e-4, "int8": 0.02}
SAME_SUGGESTIONS: tuple[Precision, ...] = ("fp32", "int8")

Position = float | str  # of the knob: a share of the FLOPs, or the name of a point
POSITIONS: tuple[Position, ...] = (1.0, 0.7, 0.4, LEARNED)
CASES = tuple(itertools.product(PRECISIONS, POSITIONS))


@dataclass(frozen=True)
class Question:
    text: str
    prefix: str


@dataclass(frozen=True)
class Answer:
    suggestions: list[str]
    completions: list[str]
    log_probabilities: NDArray[np.float32]  # [V]
    gap: float  # the smallest between a suggestion or completion and the word after it, in log p


def questions(length: int) -> Iterator[Question]:
    """An endless series, each with another text of that many words."""
    words = _words()
    for start in itertools.count(length):
        chosen = _scattered((length + 1,), start, len(words)).astype(int).tolist()
        *text, last = (words[place] for place in chosen)
        yield Question(" ".join(text), last[:1])


def open_predictor(model: Path, precision: Precision, position: Position) -> Predictor:
    if isinstance(position, str):
        return rheostat.load(model, point=position, precision=precision, threads=1)
    return rheostat.load(model, knob=position, precision=precision, threads=1)


def ask(predictor: Predictor, question: Question) -> Answer:
    lists = [predictor.suggest(question.text, K + 1, prefix) for prefix in ("", question.prefix)]
    gaps = [-np.diff(np.log([each.probability for each in some])) for some in lists]
    suggestions, completions = ([each.word for each in some[:K]] for some in lists)
    log_probabilities = predictor.log_probabilities_after(question.text.split())
    return Answer(suggestions, completions, log_probabilities, float(np.concatenate(gaps).min()))


# The model


def write_everything(path: Path) -> Path:
    """A model with windows, softmax splits, casing, a ranking, and a point with gates and updates."""
    sizes = SHAPE.tensor_shapes()
    weights = {name: _signed(size, seed) for seed, (name, size) in enumerate(sizes.items())}
    weights["embedding.weight"] *= 4  # makes some words far more probable than others
    write_file(
        path,
        shape=SHAPE,
        vocabulary=Vocabulary((UNKNOWN, END_OF_LINE, *_words())),
        weights=weights,
        text={"tokenizer": "words"},
        casing={"suda": "Suda", "kepo": "KEPO"},
        rankings=[Ranking("scattered", "random", tuple(_scores(size) for size in SHAPE.hidden_sizes), 0)],
        points=[_learned_point()],
        default_ranking="scattered",
    )
    return path


def _learned_point() -> OperatingPoint:
    """About half of the filters, with gates and updates in every layer."""
    keep = tuple(np.sort(np.argsort(_scores(size))[: size // 2]).astype(np.int32) for size in SHAPE.hidden_sizes)
    widths = [len(kept) for kept in keep]
    cut = SHAPE.with_hidden_sizes(widths)
    return OperatingPoint(
        LEARNED,
        "l0",
        keep,
        gates=tuple((_scattered((width,), 7, 63) + 1) / np.float32(64) for width in widths),
        updates=tuple(Update(_signed(u, 8), _signed(v, 9)) for u, v in cut.update_shapes(1)),
        flops_fraction=SHAPE.flops_fraction(cut.hidden_sizes),
    )


def _words() -> list[str]:
    """One or two syllables each; longer ones first, in no order of the alphabet."""
    syllables = ["ba", "da", "ke", "lo", "mi", "na", "po", "ra", "su", "ti", "ve"]
    words = [first + second for first in syllables for second in syllables if first != second]
    order = np.argsort(_scattered((len(words),), 1, 1 << 20), kind="stable")
    return [*(words[place] for place in order), *syllables][: SHAPE.vocabulary_size - 2]


def _signed(size: tuple[int, ...], seed: int) -> NDArray[np.float32]:
    """Multiples of 1/64 in -1/2 … 1/2."""
    return (_scattered(size, seed, 65) - 32) / np.float32(64)


def _scores(count: int) -> NDArray[np.float32]:
    return _scattered((count,), count, 1 << 20)


def _scattered(size: tuple[int, ...], seed: int, below: int) -> NDArray[np.float32]:
    """Whole numbers from 0 up to `below` that look like chance: each place, mixed bit by bit (as splitmix64 does)."""
    numbers = np.arange(int(np.prod(size)), dtype=np.uint64) + np.uint64((seed + 1) << 32)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return ((numbers >> np.uint64(33)) % np.uint64(below)).astype(np.float32).reshape(size)
