"""Predicting the next word on a device: text in, suggestions out, and a knob that the application can turn.

`suggest` depends on the text alone. Texts read before only make it faster, and after turning the knob it returns
exactly what a fresh predictor at the new position would return. Everything here is safe to use from several threads.

Checks what an application asks for; `reading` reads its texts, `suggesting` finds the words, `turning` turns the knob.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from rheostat.arguments import check_flag, check_text, check_whole, checked, is_list, shown
from rheostat.bundled import DEFAULT_MODEL
from rheostat.errors import NotCopyable, OperatingPointError, RheostatError
from rheostat.model.operating_point import OperatingPoint
from rheostat.model.precision import Precision, check_precision
from rheostat.model.shape import ModelShape
from rheostat.runtime.arguments import DEFAULT_LAYOUT, check_position
from rheostat.runtime.engine import Cache, EngineName, Floats
from rheostat.runtime.points import DEFAULT_CACHE_BYTES, Points
from rheostat.runtime.suggesting import Lexicon, Suggester
from rheostat.runtime.turning import Turner
from rheostat.text.tokenizers import Tokenizer
from rheostat.text.vocabulary import Vocabulary
from rheostat.words.completion import Completion
from rheostat.words.hidden_words import HiddenWords
from rheostat.words.memory import Memory
from rheostat.words.passage import CONTEXT_LIMIT
from rheostat.words.user_words import UserWords
from rheostat.words.writing import Suggestion, find_context

if TYPE_CHECKING:
    from rheostat.runtime.explaining import Taps
    from rheostat.runtime.remembering import Watch

DEFAULT_HISTORY_BYTES = 8 << 20  # for the states of texts, per point: hundreds of words. Fresh memory costs time, too
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
    knob: the share of the full model's cost that a query may spend; or `point`, the name of a stored point.
    precision: int8, or fp32 for exact arithmetic.
    threads: that compute a query together; the core's answers do not depend on it. 0 = as many as are useful: one for
        a model that fits the cache, more for a larger one; one per physical core for ONNX Runtime.
    user_words: where learned words are kept; without it, they last as long as the predictor.
    hidden_words: words that are never suggested. A Path names a file of changes to the package's list; a list of words
        replaces that list; () empties it. Misspellings that the file hides stay hidden.
    memory: the file in which what this user writes is counted, created if missing; None learns nothing.
    slips: whether `complete` and `correct` allow for letters typed wrong; False takes every letter as it was typed.
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

    def __init__(self, points: Points, lexicon: Lexicon) -> None:
        self.points, self.lexicon = points, lexicon
        self._predictors, self._lock = 0, threading.Lock()

    def add(self) -> None:
        with self._lock:
            self._predictors += 1

    def remove(self) -> None:
        with self._lock:
            self._predictors -= 1
            if not self._predictors:
                try:
                    if self.lexicon.memory is not None:
                        self.lexicon.memory.flush()
                finally:
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
        for name, flag in (("slips", slips), ("counts", counts), ("verify", verify)):
            check_flag(name, flag)
        if cache is not None and not isinstance(cache, Cache):
            raise RheostatError(f"cache is {shown(cache)}; expected a Cache or None")
        words = user_words if isinstance(user_words, UserWords) else UserWords(user_words)
        remembered = memory if memory is None or isinstance(memory, Memory) else Memory(memory)
        points = Points(model, precision, threads, cache_bytes, history_bytes, engine, counts, cache, verify)
        try:
            lexicon = Lexicon(points.file, words, hidden_words, context, slips, remembered)
            self._begin(_Model(points, lexicon), None if point else knob, point)
        except BaseException:
            points.close()
            raise

    def _begin(self, model: _Model, knob: float | None, point: str | None, criterion: str | None = None) -> None:
        self._model, self._lexicon = model, model.lexicon
        self._turner = Turner(model.points, knob, point, criterion)
        self._suggester = Suggester(model.lexicon)
        model.add()

    def close(self) -> None:
        """Free the memory and close the model file. A second call does nothing; any other call is then an error.

        Predictors made by `at` share the model: it is closed with the last of them.
        """
        if self._turner.close():
            self._model.remove()

    def __enter__(self) -> Predictor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._turner.is_closed else f"at {self._turner.knob:.1%} of the cost"
        return f"<Predictor of {self._model.points.file.path.name}, {state}>"

    # What it is

    @property
    def shape(self) -> ModelShape:
        """The shape of the whole model."""
        return self._model.points.file.shape

    @property
    def vocabulary(self) -> Vocabulary:
        """The words that the model knows."""
        return self._lexicon.vocabulary

    @property
    def engine(self) -> EngineName:
        """What runs the model: "core" or "onnx"."""
        return self._model.points.engine

    @property
    def tokenizer(self) -> Tokenizer:
        """How text becomes words of the model."""
        return self._lexicon.tokenizer

    @property
    def completion(self) -> Completion:
        """Which words may be suggested, by prefix."""
        return self._lexicon.completion

    @property
    def user_words(self) -> UserWords:
        """The words that were learned from this user."""
        return self._lexicon.user_words

    @property
    def knob(self) -> float:
        """The share of the cost that was requested last; `cost` is what is really spent."""
        return self._turner.knob

    @property
    def point(self) -> OperatingPoint:
        """The point that is serving."""
        return self._turner.serving().point

    @property
    def cost(self) -> float:
        """The share of the full model's cost, FLOPs weighted by bits, that a query spends."""
        return self._turner.serving().cost

    @property
    def flops_fraction(self) -> float:
        """The share of the full model's FLOPs that a query spends."""
        return self._turner.serving().point.flops_fraction

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights of the point that is serving; a query reads only one row of the input embedding."""
        return self._turner.serving().engine.weight_bytes

    # Suggestions

    def suggest(self, text: str, k: int = 3, prefix: str = "") -> list[Suggestion]:
        """The k most probable words after a text of whole words; with `prefix`, only words that begin with it.

        `complete` takes a text whose last word may be unfinished.
        """
        check_text("the text", text)
        check_text("the prefix", prefix)
        return self._suggester.suggest(self._turner.serving(), find_context(text, prefix), text, len(text), "", k)

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
        return self._suggester.complete(self._turner.serving(), text, k, taps, layout)

    def correct(
        self, text: str, k: int = 3, *, taps: Taps | None = None, layout: str = DEFAULT_LAYOUT
    ) -> list[Suggestion]:
        """What the last word of a text may have been meant to be, now that it is finished; best first.

        To be called when the user ends a word, without the space after it. What was typed is always among the
        suggestions. If the first one's `advice` is "correct", the app replaces the word automatically.
        The arguments are those of `complete`.
        """
        check_text("the text", text)
        found = self._suggester.correct(self._turner.serving(), text, k, taps, layout, self._lexicon.slips)
        if self._lexicon.memory is not None and found and found[0].advice == "correct":
            self._lexicon.corrections.note(text, found[0])
        return found

    def log_probabilities(self, text: str) -> Floats:
        """log p of every word of the vocabulary [V] after a text of whole words."""
        check_text("the text", text)
        return self.log_probabilities_after(self._lexicon.reader.words(text))

    def log_probabilities_after(self, words: Sequence[str]) -> Floats:
        """log p of every word of the vocabulary [V] after these words of the model; unknown ones are read as `<unk>`.

        The words are read as they are: a text that starts a line begins with `<eos>`.
        """
        if not is_list(words) or not all(isinstance(word, str) for word in words):
            raise RheostatError(f"the words are {shown(words)}; expected a list of str")
        serving = self._turner.serving()
        return serving.engine.log_probabilities(self._lexicon.reader.read_words(serving, words))

    def executed_flops(self, text: str, k: int = 3, prefix: str = "") -> int:
        """FLOPs of the query that `suggest` answers for this text, without the clusters that stay closed.

        For a plain softmax this is the point's static count. For a text that was queried before, all clusters opened
        so far count; the head counts once.
        """
        self.suggest(text, k, prefix)
        serving = self._turner.serving()
        reader = self._lexicon.reader
        return serving.engine.executed_flops(reader.read_words(serving, reader.words(text)))

    # The user's words

    def learn(self, word: str) -> None:
        """Remember a word, and suggest it from now on; learning it again makes it more likely."""
        self._turner.serving()
        self.user_words.learn(word)

    def forget(self, word: str) -> bool:
        """Forget a learned word; return whether it was known."""
        self._turner.serving()
        return self.user_words.forget(word)

    # The memory

    @property
    def memory(self) -> Memory | None:
        """What this user's writing has taught; None unless it was asked for."""
        return self._lexicon.memory

    def watch(self, *, private: bool = False) -> Watch:
        """Learn from one text field: call `see` on the result when its text changes, and `end` when it is sent.

        private: nothing that is typed there is learned. Without a memory, nothing is learned either.
        """
        from rheostat.runtime.remembering import Watch

        self._turner.serving()
        lexicon = self._lexicon
        return Watch(lexicon.memory, self.tokenizer, self._confidence_as_typed, lexicon.is_correct, private)

    def _confidence_as_typed(self, text: str) -> float:
        """The confidence that the last word of a text is what was meant."""
        best = self._suggester.correct(self._turner.serving(), text, 1, None, DEFAULT_LAYOUT, slips=True)
        sure = 1.0 if not best else best[0].confidence if best[0].kind == "typed" else 0.0
        return self._lexicon.corrections.limit(text, sure)

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
        self._turner.turn(knob, point, latency_ms, wait)

    def at(self, knob: float | None = None, *, point: str | None = None, criterion: str | None = None) -> Predictor:
        """Another predictor of the same model at another point, to use both at the same time.

        Both share the weights, visited points and the user's words; each has its own knob. criterion: what the knob
        cuts by, if not by the file's own choice, until the other predictor is turned: the criterion of a ranking, or
        "bits" for the whole model in 4 bits.
        """
        self._turner.serving()
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
        return self._turner.query_ms(queries)
