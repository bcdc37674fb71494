"""The next word, on a device: text in, suggestions out, with the knob in the application's hand.

`suggest` is a function of the text alone: what was read before only makes it quick, and turning the knob between two
calls gives just what a fresh start at the new position would have given. Everything is safe from several threads.

Knows how reading, completing, presenting and the points fit together; each of these is a module of its own.
"""

from __future__ import annotations

import copy
import math
import threading
import time
import warnings
from pathlib import Path

import numpy as np

from rheostat.bundled import DEFAULT_MODEL
from rheostat.errors import OperatingPointError, RheostatError, RheostatWarning
from rheostat.model.operating_point import OperatingPoint
from rheostat.model.shape import ModelShape
from rheostat.runtime.onnx.quantization import Precision
from rheostat.runtime.onnx.session import Reading
from rheostat.runtime.points import DEFAULT_CACHE_BYTES, Points, Serving
from rheostat.text.tokenizers import Tokenizer
from rheostat.text.vocabulary import Vocabulary
from rheostat.words.completion import Completion
from rheostat.words.hidden_words import HiddenWords, hidden_places
from rheostat.words.user_words import UserWords
from rheostat.words.writing import DEFAULT_LIMIT, Suggestion, Typed, as_context, compose, distinct, split_typed

DEFAULT_HISTORY_BYTES = 32 << 20  # states of texts, at each point
LARGEST_K = 100
REMEMBERED = 8  # last words of a text read at once whose states are kept, so that deleting them costs nothing
SPARE = 4  # words asked for beyond k: some look alike once they have their capitals
KNOB_STEP = 0.05  # between the positions that a latency is looked for at
TIMED_QUERIES = 9


class Predictor:
    """Suggestions from one model file at one position of the knob. `rheostat.load` makes one."""

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
        context: int = DEFAULT_LIMIT,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        history_bytes: int = DEFAULT_HISTORY_BYTES,
    ) -> None:
        """model: a model file, or the name of a bundled one. knob: the share of the FLOPs that may be spent, or
        `point`, a stored point's name. precision: int8, fp32 for exactness, int4. threads: 0 for one a physical core.
        user_words: where learnt words live; without it, they live as long as the predictor. hidden_words: a file that
        changes the package's list of words that are not to be suggested, or the words themselves. context: how many
        words back a text is read. cache_bytes: for points that were visited; history_bytes: for the states of texts, at
        each of them.
        """
        if context < 2:
            raise RheostatError(f"a context of {context} words was asked for; expected at least 2")
        self._points = Points(model, precision, threads, cache_bytes, history_bytes)
        file = self._points.file
        self.vocabulary: Vocabulary = file.vocabulary
        self._tokenizer, self._casing, self._context = file.tokenizer, file.casing, context
        self.user_words = user_words if isinstance(user_words, UserWords) else UserWords(user_words)
        hidden = hidden_places(self.vocabulary, hidden_words)
        self.completion = Completion(self.vocabulary, self._tokenizer, hidden)
        self._turning = threading.Lock()
        self._wishes = 0  # turns asked for so far: of several in the background, the last one counts
        self._serving = self._points.serve(None if point else knob, point)
        self._knob = self._serving.point.flops_fraction if point else knob

    # What it is

    @property
    def shape(self) -> ModelShape:
        """Of the whole model."""
        return self._points.file.shape

    @property
    def tokenizer(self) -> Tokenizer:
        """How text becomes words of the model."""
        return self._tokenizer

    @property
    def knob(self) -> float:
        """The share of the FLOPs that was asked for last; what is spent is `flops_fraction`."""
        return self._knob

    @property
    def point(self) -> OperatingPoint:
        """The point that is serving."""
        return self._serving.point

    @property
    def flops_fraction(self) -> float:
        return self._serving.point.flops_fraction

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights of the point that is serving; a query reads only one row of the input embedding."""
        return self._serving.engine.weight_bytes

    # Suggestions

    def suggest(self, text: str, k: int = 3, prefix: str = "") -> list[Suggestion]:
        """The k most probable words after a text of whole words; with a prefix, of those that begin with it."""
        return self._suggest(as_context(text, self._tokenizer, prefix, self._context), k)

    def complete(self, text: str, k: int = 3) -> list[Suggestion]:
        """The same for a text as it stands before the cursor: its last word may be unfinished."""
        return self._suggest(split_typed(text, self._tokenizer, self._context), k)

    def executed_flops(self, text: str, k: int = 3, prefix: str = "") -> int:
        """FLOPs of the query that `suggest` answers for this text: those of clusters that stay closed are not executed.

        Of a plain softmax, the static count of the point. A text that was asked for before counts with all that was;
        the head counts once.
        """
        self.suggest(text, k, prefix)
        serving, typed = self._serving, as_context(text, self._tokenizer, prefix, self._context)
        return serving.engine.executed_flops(self._reading(serving, typed.words))

    def _suggest(self, typed: Typed, k: int) -> list[Suggestion]:
        if not 1 <= k <= LARGEST_K:
            raise RheostatError(f"{k} suggestions were asked for; expected 1 to {LARGEST_K}")
        serving = self._serving  # one for the whole query, whatever is turned meanwhile
        reading = self._reading(serving, typed.words)
        # A lazy output layer may open more for every further word: spare ones are asked for where they are needed.
        found = self._found(serving, reading, typed, k if self.shape.softmax_splits else k + SPARE)
        if self.shape.softmax_splits and len(distinct(found, k)) < k:
            found = self._found(serving, reading, typed, k + SPARE)
        return distinct([*found, *self._taught(serving, reading, typed, k)], k)

    def _found(self, serving: Serving, reading: Reading, typed: Typed, k: int) -> list[Suggestion]:
        """The k best words of the model as they are shown: some may look alike."""
        allowed = self.completion.allowed_mask(typed.prefix, attach=typed.attaches) if reading.closed else None
        log_probabilities = serving.engine.look_up(reading, k, allowed)
        best = self.completion.best(log_probabilities, typed.prefix, k, attach=typed.attaches)
        words = zip((self.vocabulary.words[i] for i in best.ids.tolist()), best.probabilities.tolist(), strict=True)
        return [compose(word, p, typed, self._casing, tokenizer=self._tokenizer) for word, p in words]

    def _unknown(self, serving: Serving, reading: Reading) -> float:
        """The probability of a word that the model does not know."""
        only = np.zeros(len(self.vocabulary), np.bool_)
        only[self.vocabulary.unknown_id] = True
        return float(np.exp(serving.engine.look_up(reading, 1, only)[self.vocabulary.unknown_id]))

    def _taught(self, serving: Serving, reading: Reading, typed: Typed, k: int) -> list[Suggestion]:
        """The user's own words: the best is as probable as a word unknown to the model, older and rarer ones less."""
        words = self.user_words.with_prefix(typed.prefix, k)
        if not words or (typed.attaches and typed.prefix):
            return []
        first, unknown = words[0].score, self._unknown(serving, reading)
        return [
            Suggestion(word.word, unknown * 2.0 ** (word.score - first), "user", len(typed.prefix)) for word in words
        ]

    def read(self, words: list[str]) -> np.ndarray:
        """log p of every next word [V] after these words of the model's; an unknown one is read as `<unk>`."""
        serving = self._serving
        return serving.engine.look_up(self._reading(serving, words)).copy()  # the history keeps its own

    def _reading(self, serving: Serving, words: list[str]) -> Reading:
        ids = self.vocabulary.encode(words) or [self.vocabulary.end_id]
        known, reading = serving.history.longest(ids)
        if reading is None or known < len(ids):
            reading = _read_on(serving, ids, known, reading)
        return reading

    # The user's words

    def learn(self, word: str) -> None:
        """Remember a word, so that it is suggested from now on; learning it again makes it more likely."""
        self.user_words.learn(word)

    def forget(self, word: str) -> bool:
        """Forget a learnt word; whether it was there."""
        return self.user_words.forget(word)

    # The knob

    def turn(
        self, knob: float | None = None, *, point: str | None = None, latency_ms: float | None = None, wait: bool = True
    ) -> None:
        """Serve at another operating point: a share of the FLOPs, a stored point, or the largest that is quick enough.

        A position that cannot be served is an error at once, and nothing changes. Without `wait`, a point that was not
        visited yet is built in the background while the old one goes on answering; if that fails, it
        stays, and a warning says so. A latency is measured before anything is turned, with or without `wait`.
        """
        if sum(option is not None for option in (knob, point, latency_ms)) != 1:
            raise OperatingPointError("turn to what? expected one of: a knob position, point=…, latency_ms=…")
        if latency_ms is not None:
            self._turn_to_latency(latency_ms)
            return
        wish = self._wish()
        if serving := self._points.visited(knob, point):
            self._serve(serving, knob, wish)
        elif wait:
            self._serve(self._points.serve(knob, point), knob, wish)
        else:
            self._points.choose(knob, point)  # complains here rather than in the background
            threading.Thread(target=self._turn_later, args=(knob, point, wish), daemon=True).start()

    def at(self, knob: float | None = None, *, point: str | None = None) -> Predictor:
        """Another predictor of the same model that stands at another point, for several at the same time.

        Both share weights, points that were visited and the user's words; each has a knob of its own.
        """
        other = copy.copy(self)
        other._turning = threading.Lock()
        other.turn(knob, point=point)
        return other

    def query_ms(self, queries: int = TIMED_QUERIES) -> float:
        """Median time of a query at the point that is serving, measured now."""
        return _query_ms(self._serving, self.vocabulary, queries)

    def _wish(self) -> int:
        with self._turning:
            self._wishes += 1
            return self._wishes

    def _serve(self, serving: Serving, knob: float | None, wish: int) -> None:
        with self._turning:
            if wish == self._wishes:  # not overtaken by a later turn
                self._serving = serving
                self._knob = serving.point.flops_fraction if knob is None else knob

    def _turn_later(self, knob: float | None, point: str | None, wish: int) -> None:
        if wish != self._wishes:
            return
        try:
            self._serve(self._points.serve(knob, point), knob, wish)
        except Exception as error:  # out of memory, or a file that has gone
            message = f"the knob could not be turned in the background: {error or type(error).__name__}; it stays"
            warnings.warn(message, RheostatWarning, stacklevel=1)

    def _turn_to_latency(self, latency_ms: float) -> None:
        """Down from the full point in strides that the measured times suggest; the first that fits is taken."""
        position, wish = 1.0, self._wish()
        while True:
            serving = self._points.serve(position, None)
            found = _query_ms(serving, self.vocabulary, TIMED_QUERIES)
            if found <= latency_ms:
                self._serve(serving, position, wish)
                return
            wanted = min(position - KNOB_STEP, position * latency_ms / found)
            position = round(math.floor(wanted / KNOB_STEP + 1e-9) * KNOB_STEP, 2)
            try:
                self._points.choose(position, None)
            except OperatingPointError:
                raise OperatingPointError(
                    f"{latency_ms} ms a query were asked for; the smallest point tried, "
                    f"{serving.point.flops_fraction:.0%} of the FLOPs, takes {found:.2f} ms: allow more time or threads"
                ) from None


load = Predictor  # what an application begins with: rheostat.load(knob=0.6)


def _read_on(serving: Serving, ids: list[int], known: int, reading: Reading | None) -> Reading:
    """Read what is new of a text: all but its last words in one pass, and those one by one, to be remembered."""
    engine, history = serving.engine, serving.history
    state = reading.state if reading else engine.initial_state()
    stepped = max(known, len(ids) - REMEMBERED)
    if stepped > known:
        state = engine.replay(state, ids[known:stepped])
    for place in range(stepped, len(ids)):
        reading = engine.read(state, ids[place])
        state = reading.state
        history.put(ids[: place + 1], reading, reading.size_bytes)
    assert reading is not None  # there was something new
    return reading


def _query_ms(serving: Serving, vocabulary: Vocabulary, queries: int) -> float:
    engine, state = serving.engine, serving.engine.initial_state()
    times = []
    for token in range(queries + 2):
        start = time.perf_counter()
        state = engine.step(state, token % len(vocabulary), 3).state
        times.append(1000 * (time.perf_counter() - start))
    return float(np.median(times[2:]))  # the first ones warm up
