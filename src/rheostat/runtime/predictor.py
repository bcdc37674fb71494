"""Predicting the next word on a device: text in, suggestions out, and a knob that the application can turn.

`suggest` depends on the text alone. Texts read before only make it faster, and after turning the knob it returns
exactly what a fresh predictor at the new position would return. Everything here is safe to use from several threads.

Knows how reading, completing, presenting and operating points fit together; each has its own module.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import numpy as np

from rheostat.arguments import check_text, check_whole, checked, is_list, shown
from rheostat.bundled import DEFAULT_MODEL
from rheostat.errors import OperatingPointError, RheostatError, RheostatWarning
from rheostat.model.knob import doubt_about
from rheostat.model.operating_point import OperatingPoint
from rheostat.model.shape import ModelShape
from rheostat.runtime.arguments import LARGEST_K, check_position
from rheostat.runtime.engine import EngineName, Floats, Reading
from rheostat.runtime.points import DEFAULT_CACHE_BYTES, Points, Serving
from rheostat.runtime.precision import Precision, check_precision
from rheostat.text.tokenizers import Tokenizer
from rheostat.text.vocabulary import Vocabulary
from rheostat.words.completion import Completion
from rheostat.words.hidden_words import HiddenWords, hidden_places
from rheostat.words.user_words import UserWords
from rheostat.words.writing import CONTEXT_LIMIT, Suggestion, Typed, as_context, compose_best, distinct, split_typed

DEFAULT_HISTORY_BYTES = 32 << 20  # for the states of texts, per point
REMEMBERED = 8  # last words of a text read in one pass whose states are kept, so deleting them costs nothing
SPARE = 4  # words requested beyond k, because some look the same once they are capitalised
KNOB_STEP = 0.05  # between the positions tried to find a latency
TIMED_QUERIES = 9


@checked
def load(
    model: str | Path = DEFAULT_MODEL,
    knob: float = 1.0,
    *,
    point: str | None = None,
    precision: Precision = "int8",
    threads: int = 0,
    user_words: UserWords | str | Path | None = None,
    hidden_words: HiddenWords = None,
    context: int = CONTEXT_LIMIT,
    cache_bytes: int = DEFAULT_CACHE_BYTES,
    history_bytes: int = DEFAULT_HISTORY_BYTES,
    engine: EngineName | None = None,
) -> Predictor:
    """Load a model for prediction.

    model: a model file, or the name of a bundled model.
    knob: the share of the full model's FLOPs that a query may spend; or `point`, the name of a stored point.
    precision: int8, or fp32 for exact arithmetic.
    threads: of ONNX Runtime; 0 = one per physical core. The core runs on one.
    user_words: where learned words are kept; without it, they last as long as the predictor.
    hidden_words: words that are never suggested. A Path names a file of changes to the package's list; a list of words
        replaces that list; () hides nothing.
    context: how many words back a text is read.
    cache_bytes: memory for visited operating points.
    history_bytes: memory for the states of texts, per point.
    engine: "core", or "onnx" for ONNX Runtime (the `onnx` extra); None takes the core for everything it can run.
    """
    return Predictor(
        model,
        knob,
        point=point,
        precision=precision,
        threads=threads,
        user_words=user_words,
        hidden_words=hidden_words,
        context=context,
        cache_bytes=cache_bytes,
        history_bytes=history_bytes,
        engine=engine,
    )


class _Model:
    """What all predictors of one loaded model share; closed when the last of them is closed."""

    def __init__(self, points: Points, user_words: UserWords, hidden_words: HiddenWords, context: int) -> None:
        file = points.file
        self.points, self.user_words, self.context = points, user_words, context
        self.vocabulary: Vocabulary = file.vocabulary
        self.tokenizer, self.casing = file.tokenizer, file.casing
        self.completion = Completion(self.vocabulary, self.tokenizer, hidden_places(self.vocabulary, hidden_words))
        self._predictors, self._lock = 0, threading.Lock()

    def add(self) -> None:
        with self._lock:
            self._predictors += 1

    def remove(self) -> None:
        with self._lock:
            self._predictors -= 1
            if not self._predictors:
                self.points.close()


class Predictor:
    """Suggestions from one model at one position of the knob; made by `rheostat.load`.

    A predictor can be closed, or used with `with`, to free its memory and the file before the program ends.
    """

    def __init__(
        self,
        model: str | Path = DEFAULT_MODEL,
        knob: float = 1.0,
        *,
        point: str | None = None,
        precision: Precision = "int8",
        threads: int = 0,
        user_words: UserWords | str | Path | None = None,
        hidden_words: HiddenWords = None,
        context: int = CONTEXT_LIMIT,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        history_bytes: int = DEFAULT_HISTORY_BYTES,
        engine: EngineName | None = None,
    ) -> None:
        """The arguments are those of `load`."""
        check_position(knob, point)
        check_precision(precision)
        check_whole("threads", threads, 0)
        check_whole("context", context, 2)
        check_whole("cache_bytes", cache_bytes, 0)
        check_whole("history_bytes", history_bytes, 0)
        words = user_words if isinstance(user_words, UserWords) else UserWords(user_words)
        points = Points(model, precision, threads, cache_bytes, history_bytes, engine)
        try:
            self._begin(_Model(points, words, hidden_words, context), None if point else knob, point)
        except BaseException:
            points.close()
            raise

    def _begin(self, model: _Model, knob: float | None, point: str | None) -> None:
        serving = model.points.serve(knob, point)
        self._model = model
        self._turning = threading.Lock()
        self._wishes = 0  # turns requested so far; of several in the background, the last one counts
        self._serving: Serving | None = serving  # None once closed
        self._knob = serving.point.cost if knob is None else knob
        self._warned = False
        model.add()
        self._warn_about(serving.point)

    def close(self) -> None:
        """Free the memory and close the model file. A second call does nothing; any other call is then an error.

        Predictors made by `at` share the model: it is closed with the last of them.
        """
        with self._turning:
            was_open, self._serving = self._serving is not None, None
        if was_open:
            self._model.remove()

    def __enter__(self) -> Predictor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._serving is None else f"at {self._knob:g} of the FLOPs"
        return f"<Predictor of {self._model.points.file.path.name}, {state}>"

    def _open(self) -> Serving:
        """The point that is serving, for one query: it stays the same for that query even if the knob is turned."""
        if (serving := self._serving) is None:
            raise RheostatError("this predictor is closed; expected an open one: load the model again")
        return serving

    # What it is

    @property
    def shape(self) -> ModelShape:
        """The shape of the whole model."""
        return self._model.points.file.shape

    @property
    def vocabulary(self) -> Vocabulary:
        """The words that the model knows."""
        return self._model.vocabulary

    @property
    def engine(self) -> EngineName:
        """What runs the model: "core" or "onnx"."""
        return self._model.points.engine

    @property
    def tokenizer(self) -> Tokenizer:
        """How text becomes words of the model."""
        return self._model.tokenizer

    @property
    def completion(self) -> Completion:
        """Which words may be suggested, by prefix."""
        return self._model.completion

    @property
    def user_words(self) -> UserWords:
        """The words that this user has taught."""
        return self._model.user_words

    @property
    def knob(self) -> float:
        """The share of the cost that was requested last; `cost` is what is really spent."""
        return self._knob

    @property
    def point(self) -> OperatingPoint:
        """The point that is serving."""
        return self._open().point

    @property
    def cost(self) -> float:
        """The share of the full model's cost, FLOPs weighted by bits, that a query spends."""
        return self._open().point.cost

    @property
    def flops_fraction(self) -> float:
        """The share of the full model's FLOPs that a query spends."""
        return self._open().point.flops_fraction

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights of the point that is serving; a query reads only one row of the input embedding."""
        return self._open().engine.weight_bytes

    # Suggestions

    def suggest(self, text: str, k: int = 3, prefix: str = "") -> list[Suggestion]:
        """The k most probable words after a text of whole words; with `prefix`, only words that begin with it.

        `complete` takes a text whose last word may be unfinished.
        """
        return self._suggest(self._context(text, prefix), k)

    def complete(self, text: str, k: int = 3) -> list[Suggestion]:
        """The k most probable words for the text before the cursor, whose last word may be unfinished.

        `suggest` takes a text of whole words.
        """
        check_text("the text", text)
        return self._suggest(split_typed(text, self.tokenizer, self._model.context), k)

    def log_probabilities(self, text: str) -> Floats:
        """log p of every word of the vocabulary [V] after a text of whole words."""
        return self.log_probabilities_after(self._context(text).words)

    def log_probabilities_after(self, words: Sequence[str]) -> Floats:
        """log p of every word of the vocabulary [V] after these words of the model; unknown ones are read as `<unk>`.

        The words are read as they are: a text that starts a line begins with `<eos>`.
        """
        if not is_list(words) or not all(isinstance(word, str) for word in words):
            raise RheostatError(f"the words are {shown(words)}; expected a list of str")
        serving = self._open()
        return serving.engine.log_probabilities(self._reading(serving, words))

    def executed_flops(self, text: str, k: int = 3, prefix: str = "") -> int:
        """FLOPs of the query that `suggest` answers for this text, without the clusters that stay closed.

        For a plain softmax this is the point's static count. For a text that was queried before, all clusters opened
        so far count; the head counts once.
        """
        self.suggest(text, k, prefix)
        serving = self._open()
        return serving.engine.executed_flops(self._reading(serving, self._context(text, prefix).words))

    def _context(self, text: str, prefix: str = "") -> Typed:
        check_text("the text", text)
        check_text("the prefix", prefix)
        return as_context(text, self.tokenizer, prefix, self._model.context)

    def _suggest(self, typed: Typed, k: int) -> list[Suggestion]:
        check_whole("k", k, 1, LARGEST_K)
        serving = self._open()
        reading = self._reading(serving, typed.words)
        taught = self._taught(serving, reading, typed, k)
        # A lazy output layer may open more clusters for every further word: spare words are requested only if needed.
        is_lazy = bool(self.shape.softmax_splits)
        found = self._found(serving, reading, typed, k, spare=0 if is_lazy else SPARE)
        if is_lazy and len(found) < k:
            found = self._found(serving, reading, typed, k, spare=SPARE)
        return distinct([*found, *taught], k) if taught else found[:k]

    def _found(self, serving: Serving, reading: Reading, typed: Typed, k: int, spare: int) -> list[Suggestion]:
        """The best words of the model as they are shown, at most k + spare; words that look alike are one."""
        if typed.prefix:
            candidates = self.completion.ids_with_prefix(typed.prefix, attach=typed.attaches)
            best = serving.engine.best(reading, k + spare, candidates=candidates)
        else:
            best = serving.engine.best(reading, k + spare, mask=self.completion.allowed_mask(attach=typed.attaches))
        names = self.vocabulary.words
        words = [(names[place], p) for place, p in zip(best.ids.tolist(), best.probabilities.tolist(), strict=True)]
        return compose_best(words, typed, self._model.casing, k + spare, tokenizer=self.tokenizer)

    def _unknown(self, serving: Serving, reading: Reading) -> float:
        """The probability of a word that the model does not know."""
        only = np.array([self.vocabulary.unknown_id])
        return float(serving.engine.best(reading, 1, candidates=only).probabilities[0])

    def _taught(self, serving: Serving, reading: Reading, typed: Typed, k: int) -> list[Suggestion]:
        """The user's own words: the best is as probable as an unknown word, older and rarer ones less."""
        words = self.user_words.with_prefix(typed.prefix, k)
        if not words or (typed.attaches and typed.prefix):
            return []
        first, unknown = words[0].score, self._unknown(serving, reading)
        return [
            Suggestion(word.word, unknown * 2.0 ** (word.score - first), "user", len(typed.prefix)) for word in words
        ]

    def _reading(self, serving: Serving, words: Sequence[str]) -> Reading:
        ids = self.vocabulary.encode(words) or [self.vocabulary.end_id]
        known, reading = serving.history.longest(ids)
        if reading is None or known < len(ids):
            reading = _read_on(serving, ids, known, reading)
        return reading

    # The user's words

    def learn(self, word: str) -> None:
        """Remember a word, and suggest it from now on; learning it again makes it more likely."""
        self._open()
        self.user_words.learn(word)

    def forget(self, word: str) -> bool:
        """Forget a learned word; return whether it was known."""
        self._open()
        return self.user_words.forget(word)

    # The knob

    def turn(
        self, knob: float | None = None, *, point: str | None = None, latency_ms: float | None = None, wait: bool = True
    ) -> None:
        """Move to another operating point: a share of the cost, a stored point, or the largest that is fast enough.

        A position that cannot be served is an error, and nothing changes. With wait=False, a point that was not visited
        before is built in the background while the old one keeps answering; if that fails, the old one stays and a
        warning says so. Finding a point by `latency_ms` always waits, because it measures.
        """
        self._open()
        check_position(knob, point, latency_ms)
        if sum(option is not None for option in (knob, point, latency_ms)) != 1:
            raise OperatingPointError(
                "turn got several positions; expected one of: a knob position, point=…, latency_ms=…"
            )
        if latency_ms is not None:
            self._turn_to_latency(latency_ms)
            return
        wish = self._wish()
        if serving := self._model.points.visited(knob, point):
            self._serve(serving, knob, wish)
        elif wait:
            self._serve(self._model.points.serve(knob, point), knob, wish)
        else:
            self._model.points.choose(knob, point)  # raises here rather than in the background
            threading.Thread(target=self._turn_later, args=(knob, point, wish), daemon=True).start()

    def at(self, knob: float | None = None, *, point: str | None = None) -> Predictor:
        """Another predictor of the same model at another point, to use both at the same time.

        Both share the weights, visited points and the user's words; each has its own knob.
        """
        self._open()
        check_position(knob, point)
        if knob is not None and point is not None:
            raise OperatingPointError("at got two positions; expected one of: a knob position, point=…")
        other = Predictor.__new__(Predictor)
        other._begin(self._model, knob, point)
        return other

    def query_ms(self, queries: int = TIMED_QUERIES) -> float:
        """Median time of a query at the point that is serving, measured now."""
        check_whole("queries", queries, 1)
        return _query_ms(self._open(), self.vocabulary, queries)

    def _wish(self) -> int:
        with self._turning:
            self._wishes += 1
            return self._wishes

    def _serve(self, serving: Serving, knob: float | None, wish: int) -> None:
        with self._turning:
            if wish == self._wishes and self._serving is not None:  # no later turn, and still open
                self._serving = serving
                self._knob = serving.point.cost if knob is None else knob
        self._warn_about(serving.point)

    def _warn_about(self, point: OperatingPoint) -> None:
        """Say once if the knob is below what the model was trained or measured for."""
        if not self._warned and (doubt := doubt_about(self._model.points.file, point)):
            self._warned = True
            warnings.warn(doubt, RheostatWarning, stacklevel=2)

    def _turn_later(self, knob: float | None, point: str | None, wish: int) -> None:
        if wish != self._wishes:
            return
        try:
            self._serve(self._model.points.serve(knob, point), knob, wish)
        except Exception as error:  # out of memory, or the file is gone
            if self._serving is None:
                return
            message = f"the knob could not be turned in the background ({error or type(error).__name__}); it stays"
            warnings.warn(message, RheostatWarning, stacklevel=1)

    def _turn_to_latency(self, latency_ms: float) -> None:
        """Go down from the full point, in steps based on the measured times, and take the first point that fits."""
        position, wish = 1.0, self._wish()
        while True:
            serving = self._model.points.serve(position, None)
            found = _query_ms(serving, self.vocabulary, TIMED_QUERIES)
            if found <= latency_ms:
                self._serve(serving, position, wish)
                return
            lower = self._position_below(position, position * latency_ms / found)
            if lower is None:
                raise OperatingPointError(
                    f"{latency_ms} ms per query was requested; the smallest point tried, "
                    f"{serving.point.cost:.0%} of the cost, takes {found:.2f} ms: allow more time or threads"
                )
            position = lower

    def _position_below(self, position: float, wanted: float) -> float | None:
        """The position to try next: near the wanted one, or the smallest that the model has; None if there is none."""
        steps = math.floor(min(position - KNOB_STEP, wanted) / KNOB_STEP + 1e-9)
        while (lower := round(steps * KNOB_STEP, 2)) < position:
            with contextlib.suppress(OperatingPointError):
                self._model.points.choose(lower, None)
                return lower
            steps += 1
        return None


def _read_on(serving: Serving, ids: list[int], known: int, reading: Reading | None) -> Reading:
    """Read the new part of a text: its last words one by one, to remember their states, and the rest in one pass."""
    engine, history = serving.engine, serving.history
    state = engine.after(reading) if reading else engine.start()
    stepped = max(known, len(ids) - REMEMBERED)
    if stepped > known:
        state = engine.replay(state, ids[known:stepped])
    for place in range(stepped, len(ids)):
        reading = engine.read(state, ids[place])
        state = engine.after(reading)
        history.put(ids[: place + 1], reading, reading.size_bytes)
    assert reading is not None  # there was something new
    return reading


def _query_ms(serving: Serving, vocabulary: Vocabulary, queries: int) -> float:
    engine, state = serving.engine, serving.engine.start()
    times = []
    for token in range(queries + 2):
        start = time.perf_counter()
        reading = engine.read(state, token % len(vocabulary))
        engine.best(reading, 3)
        state = engine.after(reading)
        times.append(1000 * (time.perf_counter() - start))
    return float(np.median(times[2:]))  # the first two are warm-up
