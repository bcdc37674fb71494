"""Perplexity and recall: the definition of both.

A split is one stream of tokens with an `<eos>` per line. The state starts at zero and is carried through. The first
token is given, and every later one is predicted once. This module owns that loop (`read_stream`) and the counting;
models are passed in as functions. Keystrokes are counted in `measure.keystrokes`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rheostat.errors import CorpusError

State = TypeVar("State")

RECALL_AT = (1, 3, 5)
MOST_TOKENS = 1024  # per stretch
MOST_NUMBERS = 2**23  # log-probabilities held at once: 32 MiB


def perplexity(loss: float) -> float:
    """exp of the mean negative log-likelihood in nats; infinite if a float cannot hold it."""
    return math.exp(loss) if loss < 700 else math.inf


def read_stream(
    ids: NDArray[np.integer],
    size: int,
    state: State,
    predict: Callable[[State, NDArray[np.int64], NDArray[np.int64]], State],
    progress: Callable[[float], None] | None = None,
) -> None:
    """Call `predict` for every token of a stream but the first, in stretches of `size` tokens.

    predict: takes the state, a stretch of tokens and the token after each of them; returns the next state. The state is
    carried from stretch to stretch, so their size does not affect the result. progress: called with the share done.
    """
    if len(ids) < 2:
        raise CorpusError(
            f"found a text with {len(ids)} token(s), which leaves nothing to predict; expected at least two tokens: "
            "give more text"
        )
    for first in range(0, len(ids) - 1, size):
        # Copies one stretch of a memory-mapped corpus, never the whole split.
        stretch = np.array(ids[first : first + size + 1], np.int64)
        state = predict(state, stretch[:-1], stretch[1:])
        if progress:
            progress((first + len(stretch) - 1) / (len(ids) - 1))


@dataclass(frozen=True)
class Quality:
    """How well a model predicts a text."""

    loss: float  # mean negative log-likelihood per token, in nats
    recall: dict[int, float]  # k -> share of tokens that were among the k largest logits, special tokens included
    predictions: int

    @property
    def perplexity(self) -> float:
        return perplexity(self.loss)

    def as_json(self) -> dict[str, Any]:
        recall = {f"recall_at_{k}": share for k, share in self.recall.items()}
        return {"perplexity": self.perplexity, **recall, "tokens": self.predictions}


def _no_tails(tail: int, rows: Any) -> Any:
    raise AssertionError("a plain softmax has no tail clusters")


@dataclass(frozen=True)
class Scores:
    """log p of the words after each of T tokens, as NumPy arrays or torch tensors.

    head: [T, V]; for an adaptive softmax [T, H + C]: the words before the first split, then one entry per tail cluster.
    open_tail: log p of the words in a tail cluster, for the tokens selected by a mask [T].
    """

    head: Any
    splits: tuple[int, ...] = ()
    open_tail: Callable[[int, Any], Any] = _no_tails

    @property
    def head_size(self) -> int:
        return self.splits[0] if self.splits else int(self.head.shape[1])

    def places(self, targets: Any) -> tuple[Any, Any]:
        """For each target: its tail (counted from 1; 0 is the head), and log p of the target or of its tail."""
        home = 0 * targets
        for first in self.splits:
            home = home + (targets >= first)
        column = (home == 0) * targets + (home > 0) * (self.head_size + home - 1)
        return home, _pick(self.head, column)


def _pick(rows: Any, columns: Any) -> Any:
    """One element of each row."""
    return rows[list(range(len(rows))), columns]


@dataclass
class QualityCount:
    """Adds up predictions block by block."""

    loss_sum: float = 0.0
    predictions: int = 0

    def __post_init__(self) -> None:
        self.hits = dict.fromkeys(RECALL_AT, 0)

    def add(self, scores: Scores, targets: Any) -> None:
        """Count the predictions of these target tokens [T].

        A tail cluster is opened for the targets in it, and for other targets whose rank it can still change: the
        cluster is more probable than the target, and fewer than the largest k words are known to rank above the target.
        """
        home, own = scores.places(targets)
        own, above, tails = own + 0, 0 * targets, scores.head[:, scores.head_size :]
        for tail, first in enumerate(scores.splits):  # the target's own tail first: that can be enough
            inside = home == tail + 1
            if inside.any():
                words = scores.open_tail(tail, inside)
                own[inside] = _pick(words, targets[inside] - first)
                above[inside] = (words > own[inside][:, None]).sum(1)
        above = above + (scores.head[:, : scores.head_size] > own[:, None]).sum(1)
        for tail in range(len(scores.splits)):
            rows = (home != tail + 1) & (above < max(RECALL_AT)) & (tails[:, tail] > own)
            if rows.any():
                above[rows] += (scores.open_tail(tail, rows) > own[rows][:, None]).sum(1)
        self.add_ranked(own, above)

    def add_ranked(self, own: Any, above: Any) -> None:
        """Count predictions by log p of the tokens that followed [T], and how many words were more probable [T]."""
        self.loss_sum -= math.fsum(own.tolist())
        self.predictions += len(own)
        for k in RECALL_AT:
            self.hits[k] += int((above < k).sum())

    def quality(self) -> Quality:
        recall = {k: hits / self.predictions for k, hits in self.hits.items()}
        return Quality(self.loss_sum / self.predictions, recall, self.predictions)


def stream_quality(
    read: Callable[[State, NDArray[np.int64]], tuple[Any, State]],
    state: State,
    size: int,
    ids: NDArray[np.integer],
    progress: Callable[[float], None] | None = None,
) -> Quality:
    """Perplexity and recall of any model that can `read` a stream of token ids.

    read: takes a state and tokens, returns log p of the words after each token and the next state. size: tokens that
    are read at once.
    """
    count = QualityCount()

    def predict(state: State, tokens: NDArray[np.int64], following: NDArray[np.int64]) -> State:
        scores, after = read(state, tokens)
        count.add(scores if isinstance(scores, Scores) else Scores(scores), following)
        return after

    read_stream(ids, size, state, predict, progress)
    return count.quality()


def stretch_size(numbers: int) -> int:
    """How many tokens to read at once if each has this many log-probabilities."""
    return min(MOST_TOKENS, max(1, MOST_NUMBERS // numbers))
