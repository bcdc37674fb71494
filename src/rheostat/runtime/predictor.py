"""Predicting the next word on a device: text in, suggestions out, and a knob that the application can turn.

`suggest` depends on the text alone. Texts read before only make it faster, and after turning the knob it returns
exactly what a fresh predictor at the new position would return. Everything here is safe to use from several threads.

Knows how reading, completing, presenting and operating points fit together; each has its own module.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rheostat.arguments import check_text, check_whole, checked, is_list, shown
from rheostat.bundled import DEFAULT_MODEL
from rheostat.errors import NotCopyable, OperatingPointError, RheostatError, RheostatWarning
from rheostat.model.knob import doubt_about, doubtful_below
from rheostat.model.operating_point import OperatingPoint
from rheostat.model.precision import Precision, check_precision
from rheostat.model.shape import ModelShape
from rheostat.runtime.arguments import LARGEST_K, check_position
from rheostat.runtime.engine import Cache, Engine, EngineName, Floats, Reading
from rheostat.runtime.history import Found, Node
from rheostat.runtime.latencies import latency_table, query_ms
from rheostat.runtime.points import DEFAULT_CACHE_BYTES, Place, Points, Serving
from rheostat.text.tokenizers import Tokenizer
from rheostat.text.vocabulary import Vocabulary
from rheostat.words.completion import BestWords, Completion, single
from rheostat.words.hidden_words import HiddenWords, hidden_places
from rheostat.words.memory import Memory
from rheostat.words.passage import CONTEXT_LIMIT, Growth, context_words, read_on, read_words
from rheostat.words.slips import DEFAULT_LAYOUT, compose_meant
from rheostat.words.user_words import UserWords
from rheostat.words.writing import (
    Suggestion,
    Typed,
    compose_best,
    distinct,
    find_context,
    find_typed,
    matching_form,
)

if TYPE_CHECKING:
    from rheostat.core.word_tree import TypedWord
    from rheostat.runtime.explaining import Explainer, Keys, Taps
    from rheostat.runtime.remembering import Mixed, Watch

DEFAULT_HISTORY_BYTES = 8 << 20  # for the states of texts, per point: hundreds of words. Fresh memory costs time, too
REMEMBERED = 8  # last words of a text read in one pass whose states are kept, so deleting them costs nothing
SPARE = 4  # words requested beyond k, because some look the same once they are capitalised
KNOB_STEP = 0.05  # between the positions tried to find a latency
BUILT_STEPS = 4  # steps between them where a position has to be built
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
    memory: Memory | str | Path | None = None,
    slips: bool = True,
    context: int = CONTEXT_LIMIT,
    cache_bytes: int = DEFAULT_CACHE_BYTES,
    history_bytes: int = DEFAULT_HISTORY_BYTES,
    engine: EngineName | None = None,
    counts: bool = True,
    cache: Cache | None = None,
    verify: bool = True,
) -> Predictor:
    """Load a model for prediction.

    model: a model file, or the name of a bundled model.
    knob: the share of the full model's FLOPs that a query may spend; or `point`, the name of a stored point.
    precision: int8, or fp32 for exact arithmetic.
    threads: that compute a query together; the core's answers do not depend on it. 0 = as many as are useful: one for
        a model that fits the cache, more for a larger one; one per physical core for ONNX Runtime.
    user_words: where learned words are kept; without it, they last as long as the predictor.
    hidden_words: words that are never suggested. A Path names a file of changes to the package's list; a list of words
        replaces that list; () empties it. Misspellings that the file hides stay hidden.
    memory: the file in which what this user writes is counted, created if missing; None learns nothing.
    slips: whether `complete` allows for letters typed wrong; False takes every letter as it was typed.
    context: how many words back a text is read.
    cache_bytes: memory for visited operating points.
    history_bytes: memory for the states of texts, per point; all positions of a path share it.
    engine: "core", or "onnx" for ONNX Runtime (the `onnx` extra); None takes the core for everything it can run.
    counts: use the counts of the file, if it has them; the engine "onnx" never does.
    cache: `Cache()` makes words of the text so far more probable; it lives in memory and needs the core.
    verify: compare the file with its checksums, if it holds them: a damaged one is an error, and gives no bad guesses.
    """
    return Predictor(
        model,
        knob,
        point=point,
        precision=precision,
        threads=threads,
        user_words=user_words,
        hidden_words=hidden_words,
        memory=memory,
        slips=slips,
        context=context,
        cache_bytes=cache_bytes,
        history_bytes=history_bytes,
        engine=engine,
        counts=counts,
        cache=cache,
        verify=verify,
    )


class _Model(NotCopyable):
    """What all predictors of one loaded model share; closed when the last of them is closed."""

    def __init__(
        self,
        points: Points,
        user_words: UserWords,
        hidden_words: HiddenWords,
        context: int,
        slips: bool,
        memory: Memory | None,
    ) -> None:
        file = points.file
        self.points, self.user_words, self.context, self.slips = points, user_words, context, slips
        self.memory = memory
        self.vocabulary: Vocabulary = file.vocabulary
        self.tokenizer, self.casing = file.tokenizer, file.casing
        self.doubtful_below = doubtful_below(file)
        self.is_lazy = bool(file.shape.softmax_splits)
        self.has_look_alikes = self.tokenizer == "wikitext"  # "game" and "Game" are two words of such a model
        self.unknown = single(self.vocabulary.unknown_id)
        hidden = {*hidden_places(self.vocabulary, hidden_words), *hidden_places(self.vocabulary, file.hidden_words)}
        self.completion = Completion(self.vocabulary, self.tokenizer, hidden)
        self._predictors, self._lock = 0, threading.Lock()

    @cached_property
    def explainer(self) -> Explainer:
        from rheostat.runtime.explaining import Explainer  # here, since `suggest` does without it

        return Explainer(self.completion, self.vocabulary)

    def add(self) -> None:
        with self._lock:
            self._predictors += 1

    def remove(self) -> None:
        with self._lock:
            self._predictors -= 1
            if not self._predictors:
                if self.memory is not None:
                    self.memory.flush()
                self.points.close()


class Predictor(NotCopyable):
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
        memory: Memory | str | Path | None = None,
        slips: bool = True,
        context: int = CONTEXT_LIMIT,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        history_bytes: int = DEFAULT_HISTORY_BYTES,
        engine: EngineName | None = None,
        counts: bool = True,
        cache: Cache | None = None,
        verify: bool = True,
    ) -> None:
        """The arguments are those of `load`."""
        check_position(knob, point)
        check_precision(precision)
        check_whole("threads", threads, 0)
        check_whole("context", context, 2)
        check_whole("cache_bytes", cache_bytes, 0)
        check_whole("history_bytes", history_bytes, 0)
        words = user_words if isinstance(user_words, UserWords) else UserWords(user_words)
        remembered = memory if memory is None or isinstance(memory, Memory) else Memory(memory)
        points = Points(model, precision, threads, cache_bytes, history_bytes, engine, counts, cache, verify)
        try:
            self._begin(
                _Model(points, words, hidden_words, context, bool(slips), remembered), None if point else knob, point
            )
        except BaseException:
            points.close()
            raise

    def _begin(self, model: _Model, knob: float | None, point: str | None, criterion: str | None = None) -> None:
        serving = model.points.serve(knob, point, criterion)
        assert serving.engine  # made now, so that an unusable file is refused here
        self._model = model
        self._turning = threading.Lock()
        self._wishes = 0  # turns requested so far; of several in the background, the last one counts
        self._serving: Serving | None = serving  # None once closed
        self._knob = serving.cost if knob is None else knob
        self._warned = False
        self._last_mixed: Mixed | None = None
        model.add()
        self._warn_about(serving)

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
        state = "closed" if self._serving is None else f"at {self._knob:.1%} of the cost"
        return f"<Predictor of {self._model.points.file.path.name}, {state}>"

    def _open(self) -> Serving:
        """The point that is serving, for one query: it stays the same for that query even if the knob is turned."""
        if (serving := self._serving) is None:
            raise RheostatError("this predictor is closed; expected an open one: load the model again")
        self._model.points.check_file()
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
        return self._open().cost

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
        check_text("the text", text)
        check_text("the prefix", prefix)
        return self._suggest(find_context(text, prefix), text, len(text), "", k)

    def complete(
        self, text: str, k: int = 3, *, taps: Taps | None = None, layout: str = DEFAULT_LAYOUT
    ) -> list[Suggestion]:
        """The k most probable words for the text before the cursor, whose last word may be unfinished.

        Letters may have been typed wrong: words are ranked by their probability times that of the slips.
        taps: where the finger came down for each letter of the last word, in keys; None where that is not known.
        layout: the keyboard, as named in `words/key_layouts.json`.
        `suggest` takes a text of whole words.
        """
        check_text("the text", text)
        typed, end, letter = find_typed(text, self._model.tokenizer)
        explainer = self._model.explainer
        keys = explainer.keys(layout, taps, typed.prefix)
        if self._model.slips and not typed.attaches and explainer.can_explain(typed.prefix):
            if type(k) is not int or not 1 <= k <= LARGEST_K:
                check_whole("k", k, 1, LARGEST_K)
            return self._explain(typed, text, end, letter, k, keys)
        return self._suggest(typed, text, end, letter, k)

    def correct(
        self, text: str, k: int = 3, *, taps: Taps | None = None, layout: str = DEFAULT_LAYOUT
    ) -> list[Suggestion]:
        """What the last word of a text may have been meant to be, now that it is finished; best first.

        To be called when the user ends a word, without the space behind it. What was typed is always among the
        suggestions. If the first one's `advice` is "correct", the app replaces the word by itself.
        The arguments are those of `complete`.
        """
        check_text("the text", text)
        check_whole("k", k, 1, LARGEST_K)
        explainer = self._model.explainer
        typed, end, letter = find_typed(text, self._model.tokenizer)
        keys = explainer.keys(layout, taps, typed.prefix)
        if not typed.prefix:
            return []
        if typed.attaches or not explainer.can_explain(typed.prefix) or self._is_own(matching_form(typed.prefix)):
            return [Suggestion(typed.prefix, 1.0, "model", len(typed.prefix), "typed", 1.0, True)]
        return self._explain(typed, text, end, letter, k, keys, finished=True)

    def log_probabilities(self, text: str) -> Floats:
        """log p of every word of the vocabulary [V] after a text of whole words."""
        check_text("the text", text)
        return self.log_probabilities_after(self._words(text))

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
        return serving.engine.executed_flops(self._reading(serving, self._words(text)))

    def _words(self, text: str) -> list[str]:
        return context_words(text, self._model.tokenizer, self._model.context)

    def _suggest(self, typed: Typed, text: str, end: int, letter: str, k: int) -> list[Suggestion]:
        """letter: behind the words that end at `end` (see `passage.read_words`)."""
        if type(k) is not int or not 1 <= k <= LARGEST_K:
            check_whole("k", k, 1, LARGEST_K)
        model, serving = self._model, self._open()
        # A lazy output layer may open more clusters for every further word: spare words are requested only if needed.
        wanted = k + (SPARE if model.has_look_alikes and not model.is_lazy else 0)
        mask = None if typed.prefix else model.completion.allowed_mask(attach=typed.attaches)
        reading, best = _answer(serving, model, text, end, letter, wanted, mask)
        if model.memory is not None and (mixed := self._mixed(serving, reading, text, end, letter)):
            return self._remembered(mixed, serving, reading, typed, k)
        if best is None:
            best = self._best(serving, reading, typed, wanted, mask)
        found = compose_best(self._named(best), typed, model.casing, wanted, tokenizer=model.tokenizer)
        if len(found) < k and len(best) == wanted:  # some of them look the same
            best = self._best(serving, reading, typed, k + SPARE, mask)
            found = compose_best(self._named(best), typed, model.casing, k + SPARE, tokenizer=model.tokenizer)
        taught = self._taught(serving, reading, typed, k) if len(model.user_words) else None
        return distinct([*found, *taught], k) if taught else found[:k]

    def _best(
        self, serving: Serving, reading: Reading, typed: Typed, k: int, mask: NDArray[np.bool_] | None
    ) -> BestWords:
        if mask is not None:
            return serving.engine.best(reading, k, mask=mask)
        candidates = self._model.completion.candidates(typed.prefix, attach=typed.attaches)
        return serving.engine.best(reading, k, candidates=candidates)

    def _remembered(self, mixed: Mixed, serving: Serving, reading: Reading, typed: Typed, k: int) -> list[Suggestion]:
        """The best words with the memory's share, and those that only the memory or the user knows."""
        model = self._model
        best = model.completion.best(mixed.scores, typed.prefix, k + SPARE, attach=typed.attaches)
        found = compose_best(self._named(best.pairs()), typed, model.casing, k + SPARE, tokenizer=model.tokenizer)
        own = [] if typed.attaches and typed.prefix else mixed.suggestions(typed.prefix, k)
        own += self._taught(serving, reading, typed, k) if len(model.user_words) else []
        return distinct([*found, *own], k)

    def _mixed(self, serving: Serving, reading: Reading, text: str, end: int, letter: str) -> Mixed | None:
        """The probabilities with the memory's share; None without a memory, or while it is empty."""
        memory = self._model.memory
        if memory is None or not len(memory):
            return None
        words = read_words(text, end, letter, self._model.tokenizer, self._model.context)
        mixed = self._last_mixed
        if mixed is None or not mixed.is_for(reading, words, memory.version):
            from rheostat.runtime.remembering import Mixed

            mixed = self._last_mixed = Mixed(serving.engine, reading, self.vocabulary, memory, words)
        return mixed

    def _explain(
        self, typed: Typed, text: str, end: int, letter: str, k: int, keys: Keys, finished: bool = False
    ) -> list[Suggestion]:
        """The words that best explain what was typed, with what was typed among them."""
        serving, model = self._open(), self._model
        reading, _ = _answer(serving, model, text, end, letter, 1, None)
        mixed = self._mixed(serving, reading, text, end, letter)
        word = model.explainer.begin(serving.engine, reading, mixed)
        if word is None:
            return self._suggest(typed, text, end, letter, k)

        def after(first: str) -> TypedWord | None:
            words = read_words(text, end, letter, model.tokenizer, model.context)
            return model.explainer.begin(serving.engine, self._reading(serving, [*words, first]))

        wanted = k + (SPARE if model.has_look_alikes else 1)
        found, literal = model.explainer.explain(word, matching_form(typed.prefix), wanted, keys, after, finished)
        shown = compose_meant(found, literal, typed, model.casing, k, tokenizer=self.tokenizer, finished=finished)
        taught = self._taught(serving, reading, typed, k) if len(model.user_words) and not finished else []
        taught += mixed.suggestions(typed.prefix, k) if mixed and not finished else []
        return distinct([*shown, *taught], k) if taught else shown

    def _is_own(self, form: str) -> bool:
        """Whether this is a word that only the user can have meant: a taught one, or one that is never suggested."""
        place = self.vocabulary.index.get(form)
        is_hidden = place is not None and not self.completion.allowed_mask()[place]
        return is_hidden or self.user_words.knows(form)

    def _named(self, best: BestWords) -> list[tuple[str, float]]:
        names = self._model.vocabulary.words
        return [(names[place], probability) for place, probability in best]

    def _taught(self, serving: Serving, reading: Reading, typed: Typed, k: int) -> list[Suggestion]:
        """The user's own words: the best is as probable as an unknown word, older and rarer ones less."""
        words = self.user_words.with_prefix(typed.prefix, k)
        if not words or (typed.attaches and typed.prefix):
            return []
        ((_, unknown),) = serving.engine.best(reading, 1, candidates=self._model.unknown)
        first = words[0].score
        return [
            Suggestion(word.word, unknown * 2.0 ** (word.score - first), "user", len(typed.prefix)) for word in words
        ]

    def _reading(self, serving: Serving, words: Sequence[str]) -> Reading:
        ids = self.vocabulary.encode(words) or [self.vocabulary.end_id]
        found = serving.history.longest(ids)
        if found.state is not None and found.length == len(ids):
            return found.state
        reading, _, _ = _read_on(serving, ids, found, None, 0, None)
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

    # The memory

    @property
    def memory(self) -> Memory | None:
        """What this user's writing has taught; None unless it was asked for."""
        return self._model.memory

    def watch(self, *, private: bool = False) -> Watch:
        """Learn from one text field: call `see` on the result when its text changes, and `end` when it is sent.

        private: nothing that is typed there is learned. Without a memory, nothing is learned either.
        """
        from rheostat.runtime.remembering import Watch

        self._open()
        return Watch(self._model.memory, self.tokenizer, self._is_meant, private)

    def _is_meant(self, text: str) -> bool:
        """Whether the last word of a text is surely what was meant, as far as can be told."""
        from rheostat.runtime.remembering import LEARN_AT

        best = self.correct(text, 1)
        return not best or (best[0].kind == "typed" and best[0].confidence >= LEARN_AT)

    # The knob

    def turn(
        self, knob: float | None = None, *, point: str | None = None, latency_ms: float | None = None, wait: bool = True
    ) -> None:
        """Move to another operating point: a share of the cost, a stored point, or the largest that is fast enough.

        A position that cannot be served is an error, and nothing changes. With wait=False, a point that was not visited
        before is built in the background while the old one keeps answering; if that fails, the old one stays and a
        warning says so. Finding a point by `latency_ms` waits the first time, because it measures; the process then
        keeps what was measured.
        """
        if type(knob) is float and 0 < knob <= 1 and point is None and latency_ms is None and self._serving is not None:
            serving = self._model.points.visited(knob, None)
            if serving is not None:
                self._serve(serving, knob, self._wish())
                return
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

    def at(self, knob: float | None = None, *, point: str | None = None, criterion: str | None = None) -> Predictor:
        """Another predictor of the same model at another point, to use both at the same time.

        Both share the weights, visited points and the user's words; each has its own knob. criterion: what the knob
        cuts by, if not by the file's own choice, until the other predictor is turned: the criterion of a ranking, or
        "bits" for the whole model in 4 bits.
        """
        self._open()
        check_position(knob, point)
        if criterion is not None:
            check_text("criterion", criterion)
        if knob is not None and point is not None:
            raise OperatingPointError("at got two positions; expected one of: a knob position, point=…")
        other = Predictor.__new__(Predictor)
        other._begin(self._model, knob, point, criterion)
        return other

    def query_ms(self, queries: int = TIMED_QUERIES) -> float:
        """Median time of a query at the point that is serving, measured now."""
        check_whole("queries", queries, 1)
        return query_ms(self._open().engine, queries)

    def _wish(self) -> int:
        with self._turning:
            self._wishes += 1
            return self._wishes

    def _serve(self, serving: Serving, knob: float | None, wish: int) -> None:
        with self._turning:
            if wish == self._wishes and self._serving is not None:  # no later turn, and still open
                self._serving = serving
                self._knob = serving.cost if knob is None else knob
        if serving.cost < self._model.doubtful_below:
            self._warn_about(serving)

    def _warn_about(self, serving: Serving) -> None:
        """Say once if the knob is below what the model was trained or measured for."""
        if not self._warned and (doubt := doubt_about(self._model.points.file, serving.point)):
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
        """Take the largest position of this device's table that is fast enough."""
        wish, points = self._wish(), self._model.points
        table = latency_table(points.settings, self._positions_to_time)
        for knob, found_ms in table:
            if found_ms <= latency_ms:
                self._serve(points.serve(knob, None), knob, wish)
                return
        knob, found_ms = table[-1]
        share = points.serve(knob, None).cost
        raise OperatingPointError(
            f"{latency_ms} ms per query was requested; the smallest point tried, "
            f"{share:.0%} of the cost, takes {found_ms:.2f} ms: allow more time or threads"
        )

    def _positions_to_time(self) -> list[tuple[float, Engine]]:
        """The positions of the knob, in steps, that the model has; fewer where each takes memory of its own."""
        points, found = self._model.points, list[tuple[float, Engine]]()
        for step in range(round(1 / KNOB_STEP), 0, -1):
            if step % BUILT_STEPS and found and found[0][1].held_bytes:
                continue
            knob = round(step * KNOB_STEP, 2)
            try:
                found.append((knob, points.serve(knob, None).engine))
            except OperatingPointError:
                break
        return found


def _answer(
    serving: Serving, model: _Model, text: str, end: int, letter: str, k: int, mask: NDArray[np.bool_] | None
) -> tuple[Reading, BestWords | None]:
    """What is known after the words before `end`; with a mask, the k best words too if they were found on the way.

    A text that begins like that of the last query is read from where that one was read to.
    """
    place, history, vocabulary = serving.place, serving.history, model.vocabulary
    growth = read_on(place.passage if place else None, text, end, letter, model.tokenizer, model.context)
    after = place.node if place and growth.follows else None
    ids = vocabulary.encode(growth.words) if after or growth.words else [vocabulary.end_id]
    found = history.longest(ids, after)
    if after is not None and found.state is None:  # its states were dropped
        serving.place = None
        return _answer(serving, model, text, end, letter, k, mask)
    best, reading, node = None, found.state, found.node
    if reading is None or found.length < len(ids):
        reading, node, best = _read_on(serving, ids, found, after, k, mask)
    if not (growth.follows and growth.passage is (place and place.passage)):
        serving.place = _place(growth, node, len(ids))
    return reading, best


def _place(growth: Growth, node: Node[Reading] | None, length: int) -> Place | None:
    """Where to read on. node: of all `length` words."""
    for _ in range(length - growth.passed):
        node = node and node.before
    return Place(growth.passage, node) if growth.passage and node else None


def _read_on(
    serving: Serving,
    ids: list[int],
    found: Found[Reading],
    after: Node[Reading] | None,
    k: int,
    mask: NDArray[np.bool_] | None,
) -> tuple[Reading, Node[Reading] | None, BestWords | None]:
    """Read the new part of a text: its last words one by one, to remember their states, and the rest in one pass.

    Gives the reading, its node if it was kept, and with a mask the k best words.
    """
    engine, history = serving.engine, serving.history
    known, reading, node = found
    state = engine.start() if reading is None else engine.after(reading)
    stepped = max(known, len(ids) - REMEMBERED)
    if stepped > known:
        state, node = engine.replay(state, ids[known:stepped]), None
    best = None
    for place in range(stepped, len(ids)):
        if mask is not None and place == len(ids) - 1:
            reading, best = engine.query(state, ids[place], k, mask)
        else:
            reading = engine.read(state, ids[place])
        state = engine.after(reading)
        size = reading.size_bytes
        if node is not None:
            node = history.put([ids[place]], reading, size, node)
        else:
            node = history.put(ids[: place + 1], reading, size, after)
    assert reading is not None  # there was something new
    return reading, node, best
