"""Engines: what runs a model at one operating point. The core is the engine; ONNX Runtime is the second opinion.

An engine reads token ids and says how probable the next words are. It never changes and is safe to use from several
threads. Knows ids, states and operating points; knows nothing of texts or the knob.

The core serves every position of a ranking from one set of weights. An ordered file is such a set and is opened where
it is mapped, once for all predictors of the process. For any other file `CoreWeights` puts the filters in the order of
the default ranking once, in memory. A point is then only a position. Points with filters of their own are cut once.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, get_args
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from rheostat.arguments import check_whole
from rheostat.core.binding import CoreModel
from rheostat.core.library import MAX_CACHE
from rheostat.core.values import EVERYTHING, Answer, Block, Choice, Widths
from rheostat.errors import ModelFileError, NotCopyable, RheostatError
from rheostat.model.file import ModelFile
from rheostat.model.operating_point import OperatingPoint, Ranking
from rheostat.model.path import PathPosition
from rheostat.model.precision import Precision, check_precision
from rheostat.model.shape import ModelShape
from rheostat.words.completion import BestWords, Candidates

EngineName = Literal["core", "onnx"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)

Ids: TypeAlias = Sequence[int] | NDArray[np.integer[Any]]
Floats: TypeAlias = NDArray[np.float32]
State = TypeVar("State")

_opened: WeakValueDictionary[tuple[int, ...], CoreModel] = WeakValueDictionary()
_lock = threading.Lock()  # guards _opened, and keeps two threads from opening one file twice
# Answers that a point keeps. States are kept far longer, and an answer is made of one again in less than a step.
ANSWERS_BYTES, MOST_ANSWERS = 2 << 20, 64
_MASKS_KEPT = 8  # masks are asked for again with every word; these are the arrays of `Completion`


def check_engine(engine: str) -> None:
    """Raise RheostatError unless there is this engine."""
    if engine not in ENGINES:
        raise RheostatError(f"the engine is {engine!r:.40}; expected one of {', '.join(ENGINES)}")


def choose_engine(shape: ModelShape, precision: Precision, wanted: EngineName | None = None) -> EngineName:
    """The engine that runs a model: the one that was asked for, else the core if it can run the model."""
    check_precision(precision)
    missing = shape.cell if shape.cell != "qrnn" else ""
    if wanted is None:
        return "onnx" if missing else "core"
    check_engine(wanted)
    if wanted == "core" and missing:
        raise RheostatError(f"the core has no {missing}; expected a qrnn: choose one, or the engine onnx")
    return wanted


def reads_mapped(file: ModelFile, precision: Precision, engine: EngineName) -> bool:
    """Whether an engine reads the file where it is mapped, so that the file must stay as it is."""
    return engine == "core" and file.ordered is not None and file.precision == precision


def open_mapped(file: ModelFile, precision: Precision, threads: int = 1) -> CoreModel | None:
    """The core on the mapped file; None for a file that it does not open as it is in this precision.

    What the core refuses gives None too: the caller then makes bytes for it, and Python's checks say what is wrong.
    """
    if not reads_mapped(file, precision, "core"):
        return None
    file.check_scales()
    file.ranking()  # checks that the filters are in its order
    with _lock:
        key = (*file.identity, threads, file.has_checksums)
        model = _opened.get(key)
        if model is None:
            contents = file.mapped_bytes()  # compares the checksums
            try:
                model = CoreModel(contents, threads=threads)
            except ModelFileError:
                return None
            _opened[key] = model
    file.release()  # the model keeps the mapping
    return model


class Reading(Protocol):
    """What an engine keeps of a text: the state after its last word, and how probable the next words are."""

    @property
    def size_bytes(self) -> int: ...


class Engine(Protocol):
    """One model at one operating point."""

    @property
    def shape(self) -> ModelShape:
        """The shape of the model that is cut to the point."""

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights of the point."""

    @property
    def held_bytes(self) -> int:
        """Memory that is held for this point alone."""

    def start(self) -> Any:
        """The state before the text starts."""

    def after(self, reading: Any) -> Any:
        """The state after the text of a reading."""

    def read(self, state: Any, token: int) -> Any:
        """Read one more token."""

    def replay(self, state: Any, ids: Ids) -> Any:
        """The state after many tokens."""

    def query(self, state: Any, token: int, k: int, mask: NDArray[np.bool_] | None = None) -> tuple[Any, BestWords]:
        """Read one more token and find the k most probable next words: of all, or of those a mask [V] allows."""

    def best(
        self, reading: Any, k: int, *, mask: NDArray[np.bool_] | None = None, candidates: Candidates | None = None
    ) -> BestWords:
        """The k most probable words: of all words, of the words a mask [V] allows, or of the candidates."""

    def log_probabilities(self, reading: Any) -> Floats:
        """log p of every next word [V]."""

    def executed_flops(self, reading: Any) -> int:
        """FLOPs of the last token's query, without the clusters that stayed closed."""


class _KeptAnswer:
    """An answer while it is kept; then None."""

    __slots__ = ("answer",)

    def __init__(self, answer: Answer) -> None:
        self.answer: Answer | None = answer


class CoreReading:
    """The state after a text, and as long as it is kept the answer to what may follow it. Both belong to C."""

    __slots__ = ("__weakref__", "kept", "state")

    def __init__(self, state: Block, kept: _KeptAnswer) -> None:
        self.state, self.kept = state, kept

    @property
    def size_bytes(self) -> int:
        """Of the state; the engine bounds the memory of answers."""
        return self.state.size


class CoreEngine:
    """A model that the core has open, at one position."""

    def __init__(
        self, model: CoreModel, position: Widths, whole: ModelShape, precision: Precision, held_bytes: int
    ) -> None:
        """whole: the shape of the open model. held_bytes: memory that no other point uses."""
        self.model, self.position = model, position
        self.whole, self.precision, self.held_bytes = whole, precision, held_bytes
        self._answers: deque[_KeptAnswer] = deque()  # the oldest first
        self._most_answers = max(2, min(MOST_ANSWERS, ANSWERS_BYTES // model.answer_bytes))
        self._choices: dict[int, tuple[NDArray[np.bool_], Choice]] = {}

    @cached_property
    def shape(self) -> ModelShape:
        return self.whole.cut_to(self.position.widths)

    @property
    def weight_bytes(self) -> int:
        return sum(_stored_bytes(size, self.precision) for size in self.shape.tensor_shapes().values())

    def start(self) -> Block:
        return self.model.start()

    def after(self, reading: CoreReading) -> Block:
        return reading.state

    def read(self, state: Block, token: int) -> CoreReading:
        found = self.model.query(self.position, state, token, 0)
        return CoreReading(found.state, self.keep(found.answer))

    def query(
        self, state: Block, token: int, k: int, mask: NDArray[np.bool_] | None = None
    ) -> tuple[CoreReading, BestWords]:
        choice = EVERYTHING if mask is None else self._choice(mask)
        found = self.model.query(self.position, state, token, k, choice)
        best = list(zip(found.words, map(exp, found.log_probabilities)))  # noqa: B905 — of one length, and in a hurry
        return CoreReading(found.state, self.keep(found.answer)), best

    def replay(self, state: Block, ids: Ids) -> Block:
        return self.model.steps(self.position, state, ids)

    def best(
        self,
        reading: CoreReading,
        k: int,
        *,
        mask: NDArray[np.bool_] | None = None,
        candidates: Candidates | None = None,
    ) -> BestWords:
        return self.best_of(self.answer(reading), k, mask, candidates)

    def best_of(
        self, answer: Answer, k: int, mask: NDArray[np.bool_] | None = None, candidates: Candidates | None = None
    ) -> BestWords:
        """The k most probable words of an answer."""
        if candidates is not None:
            choice = Choice.from_ids(candidates.address, candidates.count)
        else:
            choice = EVERYTHING if mask is None else self._choice(mask)
        words, scores = self.model.best_words(answer, k, choice)
        return list(zip(words, map(exp, scores), strict=True))

    def log_probabilities(self, reading: CoreReading) -> Floats:
        return self.model.log_probabilities(self.answer(reading))

    def executed_flops(self, reading: CoreReading) -> int:
        return self.model.executed_flops(self.answer(reading))

    def answer(self, reading: CoreReading) -> Answer:
        """The answer of a reading; predicted again if it was dropped."""
        answer = reading.kept.answer
        if answer is None:
            answer = self.model.predict(self.position, reading.state)
            reading.kept = self.keep(answer)
        return answer

    def keep(self, answer: Answer) -> _KeptAnswer:
        """Keep an answer, and drop the oldest one. Who is using that one still has it."""
        kept, answers = _KeptAnswer(answer), self._answers
        answers.append(kept)
        if len(answers) > self._most_answers:
            answers.popleft().answer = None
        return kept

    def _choice(self, mask: NDArray[np.bool_]) -> Choice:
        """A mask as C takes it. Read-only arrays are remembered: the same ones are asked for with every word."""
        known = self._choices.get(id(mask))
        if known and known[0] is mask:
            return known[1]
        choice = Choice(mask=mask)
        if not mask.flags.writeable:
            if len(self._choices) >= _MASKS_KEPT:
                self._choices = {}
            self._choices[id(mask)] = mask, choice
        return choice


@dataclass(frozen=True)
class Cache:
    """The last words written make similar next words more probable. It is kept in memory only.

    words: how many. weight: their share of the answer once all are there, less before. sharpness: how much a similar
    state of the network counts.
    Weight and sharpness were tuned on validation text.
    """

    words: int = 250
    weight: float = 0.08
    sharpness: float = 0.2

    def __post_init__(self) -> None:
        for name, value, most in (("weight", self.weight, 0.99), ("sharpness", self.sharpness, 1000)):
            if not isinstance(value, int | float) or not 0 <= value <= most:
                raise RheostatError(f"the cache's {name} is {value!r:.40}; expected a number from 0 to {most}")
        check_whole("the cache's words", self.words, 1, MAX_CACHE)


@dataclass(frozen=True, eq=False)
class CachedReading:
    """A reading of the core with its cache, which is already in the answer."""

    core: CoreReading
    cache: Block

    @property
    def size_bytes(self) -> int:
        return self.core.size_bytes + self.cache.size


class CachedState(NamedTuple):
    """The state after a text, and the last words of it."""

    state: Block
    cache: Block


class CachedEngine:
    """The core at one position with a cache of the last words of each text.

    The cache is part of the state, so an answer still depends on the text alone. After a turn the text is read again:
    states of two positions cannot be compared.
    """

    def __init__(self, core: CoreEngine, cache: Cache) -> None:
        if core.whole.softmax_splits:
            raise RheostatError("the model has an adaptive softmax; expected a plain one: load it without a cache")
        self.core, self.cache = core, cache

    @property
    def shape(self) -> ModelShape:
        return self.core.shape

    @property
    def weight_bytes(self) -> int:
        return self.core.weight_bytes

    @property
    def held_bytes(self) -> int:
        return self.core.held_bytes

    def start(self) -> CachedState:
        return CachedState(self.core.start(), self.core.model.start_cache(self.cache.words))

    def after(self, reading: CachedReading) -> CachedState:
        return CachedState(reading.core.state, reading.cache)

    def read(self, state: CachedState, token: int) -> CachedReading:
        return self.query(state, token, 0)[0]

    def query(
        self, state: CachedState, token: int, k: int, mask: NDArray[np.bool_] | None = None
    ) -> tuple[CachedReading, BestWords]:
        model, position, cache = self.core.model, self.core.position, state.cache.copy()
        model.add_to_cache(position, cache, state.state, token)
        found = model.query(position, state.state, token, 0)
        self._mix(found.answer, found.state, cache)
        reading = CachedReading(CoreReading(found.state, self.core.keep(found.answer)), cache)
        return reading, self.core.best_of(found.answer, k, mask) if k else []

    def replay(self, state: CachedState, ids: Ids) -> CachedState:
        """The cache needs the state before each of its words, so the last ones are read one by one.

        The first one too, which is not kept if nothing was read before it. Whole rounds of the cache are skipped, so
        that each word has the place it would have otherwise: places decide the order of additions, and so the bits.
        """
        model, position, cache = self.core.model, self.core.position, state.cache.copy()
        skipped, now = max(0, len(ids) - 1 - self.cache.words) // self.cache.words * self.cache.words, state.state
        for number, token in enumerate(ids):
            if skipped and number == 1:
                now = model.steps(position, now, ids[1 : 1 + skipped])
            if 1 <= number <= skipped:
                continue
            model.add_to_cache(position, cache, now, int(token))
            now = model.step(position, now, int(token))
        return CachedState(now, cache)

    def best(
        self,
        reading: CachedReading,
        k: int,
        *,
        mask: NDArray[np.bool_] | None = None,
        candidates: Candidates | None = None,
    ) -> BestWords:
        return self.core.best_of(self._answer(reading), k, mask, candidates)

    def log_probabilities(self, reading: CachedReading) -> Floats:
        return self.core.model.log_probabilities(self._answer(reading))

    def executed_flops(self, reading: CachedReading) -> int:
        return self.core.executed_flops(reading.core)

    def _answer(self, reading: CachedReading) -> Answer:
        """The answer with the cache in it. If it was dropped, it is made again, and kept once it is mixed: other
        threads may be asking for it.
        """
        answer = reading.core.kept.answer
        if answer is None:
            answer = self.core.model.predict(self.core.position, reading.core.state)
            self._mix(answer, reading.core.state, reading.cache)
            reading.core.kept = self.core.keep(answer)
        return answer

    def _mix(self, answer: Answer, state: Block, cache: Block) -> None:
        core, weight, sharpness = self.core, self.cache.weight, self.cache.sharpness
        core.model.mix_cache(core.position, cache, state, weight, sharpness, answer)


def _stored_bytes(size: tuple[int, ...], precision: Precision) -> int:
    """Bytes of a tensor: int8 matrices have one scale per row, and vectors are always float32."""
    if len(size) == 2 and precision == "int8":
        return math.prod(size) + 4 * size[0]
    return 4 * math.prod(size)


class CoreWeights(NotCopyable):
    """The weights of a model file as the core reads them, for all of its points. Safe to use from several threads."""

    def __init__(self, file: ModelFile, precision: Precision, counts: bool = True, threads: int = 1) -> None:
        """counts: whether to use those of the file."""
        choose_engine(file.shape, precision, "core")
        self._file, self._precision, self._uses_counts, self._threads = file, precision, counts, threads
        self._lock = threading.Lock()
        self._whole: CoreModel | None = None

    def engine(self, point: OperatingPoint) -> CoreEngine:
        """A point, ready to run."""
        if self._is_position(point):
            return self._at(point.widths, point.cost, point.bounds)
        from rheostat.model.cut import cut  # here and below, since a position of an ordered file needs none of it

        weights, shape = cut(self._file.stored_weights(), self._file.shape, point)
        model, cost = self._open(weights, shape, point.name), point.cost if self._uses_counts else None
        size = model.file_bytes + model.workspace_bytes
        return CoreEngine(model, Widths(shape.hidden_sizes, cost), shape, self._precision, size)

    def engine_on_path(self, position: PathPosition) -> CoreEngine | None:
        """A position of the file's path, ready to run; None if it has to be made of a point."""
        if position.bounds and self._precision != "int8":
            return None
        return self._at(position.widths, position.cost, position.bounds)

    def _at(self, widths: tuple[int, ...], cost: float, bounds: tuple[int, ...] | None) -> CoreEngine:
        """The first filters of every layer of the shared weights."""
        position = Widths(widths, cost if self._uses_counts else None, bounds)
        return CoreEngine(self._model(), position, self._file.shape, self._precision, 0)

    def _is_position(self, point: OperatingPoint) -> bool:
        """Whether a point keeps the best filters of the order that the shared weights are in."""
        if point.gates or point.updates or point.biases or point.reconstruction:
            return False
        if point.bounds and self._precision != "int8":
            return False
        if self._file.ordered is not None:  # kept filters ascend, so the last one tells whether they are the first
            return all(keep[-1] == len(keep) - 1 for keep in point.keep)
        ranking = self._order()
        orders = [None if ranking is None else ranking.order(layer) for layer in range(len(point.keep))]
        return all(
            len(keep) == size or (order is not None and np.array_equal(np.sort(order[: len(keep)]), keep))
            for keep, size, order in zip(point.keep, self._file.shape.hidden_sizes, orders, strict=True)
        )

    def _order(self) -> Ranking | None:
        return self._file.ranking(None) if self._file.description.default_ranking else None

    def _model(self) -> CoreModel:
        with self._lock:
            if self._whole is None:
                self._whole = open_mapped(self._file, self._precision, self._threads) or self._in_order()
            return self._whole

    def _in_order(self) -> CoreModel:
        """The whole model in the order of the default ranking, made in memory."""
        from rheostat.model.cut import reorder

        weights, ranking = self._file.stored_weights(), self._order()
        ordered = weights if ranking is None else reorder(weights, self._file.shape, ranking)
        return self._open(ordered, self._file.shape, ranking.name if ranking else "as stored")

    def _open(self, weights: Any, shape: ModelShape, order: str) -> CoreModel:
        from rheostat.model.ordered import ordered_bytes

        precision: Literal["fp32", "int8"] = "int8" if self._precision == "int8" else "fp32"
        made = ordered_bytes(weights, shape, self._file.vocabulary, precision, order=order, counts=self._file.counts())
        opened = CoreModel(made, threads=self._threads)
        self._file.release()
        return opened
