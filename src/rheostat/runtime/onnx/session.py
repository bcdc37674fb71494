"""One cut model, ready to run: ONNX Runtime's sessions, and the state as a value.

An engine never changes and can be called from several threads. Knows ids and states; knows nothing about words,
texts or knobs (see `reading` and `points`).
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rheostat.errors import MissingExtraError, NotCopyable
from rheostat.model.flops import executed_flops
from rheostat.model.precision import Precision, check_precision
from rheostat.model.shape import ModelShape
from rheostat.runtime.arguments import thread_count
from rheostat.runtime.onnx.graph import Form, Graph, build_graph, state_sizes
from rheostat.runtime.onnx.weights import Floats, Prepared, Weights, prepare

try:
    import onnxruntime
except ImportError as error:
    raise MissingExtraError("onnx", "ONNX Runtime as the engine (LSTMs, engine='onnx')", error) from error

State: TypeAlias = tuple[Floats, ...]  # in the order of graph.state_sizes, each [1, width]
Feeds: TypeAlias = dict[str, NDArray[np.generic]]
Ids: TypeAlias = Sequence[int] | NDArray[np.integer]
ANSWER = ("top_words", "top_probabilities")
STRETCH = 128  # tokens that are replayed at once: more are not faster and take more memory
STEPPED = 128  # up to this many tokens, stepping through them is faster than building a session to replay them


class StepResult(NamedTuple):
    """The result of reading one token."""

    state: State
    words: NDArray[np.int64]  # the k best allowed words, best first; fewer if fewer are allowed
    probabilities: Floats  # of these words, under the softmax over all words
    opened: NDArray[np.uint8]  # for each tail cluster of an adaptive softmax: 1 if it was opened, else 0


@dataclass(eq=False)
class GraphReading:
    """The result of reading a text: the state after its last word, and log p of the next words as far as known.

    With an adaptive softmax, more becomes known over time: `look_up` opens a cluster when it is first needed.
    """

    state: State
    log_probabilities: Floats  # [V]; read them with `GraphEngine.look_up`
    hidden: Floats = field(default_factory=lambda: np.empty((1, 0), np.float32))  # [1, D], to open clusters with
    closed: set[int] = field(default_factory=set)  # clusters that were not opened yet; 0 is the head

    @property
    def size_bytes(self) -> int:
        return sum(array.nbytes for array in (*self.state, self.hidden, self.log_probabilities))


class GraphEngine(NotCopyable):
    """One cut model: `state, token → state, words`. `GraphEngine.build` makes one from weights in memory.

    A plain softmax is one session. An adaptive softmax is two, layers and output layer: the layers need not run again
    for another prefix of the same word, nor the output layer for words that are only read.
    """

    def __init__(
        self,
        weights: Callable[[], Prepared],
        shape: ModelShape,
        precision: Precision,
        threads: int = 0,
        *,
        ready: bool = True,
    ) -> None:
        """weights: returns the prepared weights of the cut model. It is called now and whenever a further session is
        opened, because a session copies what it needs and the weights need not stay in memory. threads: 0 = one per
        physical core. ready: open the sessions of a step now, not when first needed.
        """
        self.shape, self.precision, self.threads = shape, precision, thread_count(threads)
        self._weights = weights
        self._sizes = state_sizes(shape)
        self._state_names = [f"state.{name}" for name in self._sizes]
        self._next = [f"next.{name}" for name in self._sizes]
        self._everything = np.ones(shape.vocabulary_size, np.bool_)
        self._clusters = shape.clusters
        self._sessions: dict[tuple[Form, int], Session] = {}
        self._building, self._noting = threading.Lock(), threading.Lock()
        check_precision(precision)
        prepared = weights()
        self.weight_bytes = sum(array.nbytes for array in prepared.values())  # as the graphs receive them
        for form in self._forms if ready else ():
            self._open(form, prepared)
        del prepared
        _give_back_memory()

    @classmethod
    def build(
        cls,
        weights: Weights,
        shape: ModelShape,
        precision: Precision = "int8",
        threads: int = 0,
        *,
        ready: bool = True,
    ) -> GraphEngine:
        """The engine of a cut model from weights in memory, in any stored precision; it keeps them."""
        prepared = prepare(weights, precision)
        return cls(lambda: prepared, shape, precision, threads, ready=ready)

    def initial_state(self) -> State:
        """The state before the text starts."""
        return tuple(np.zeros((1, size), np.float32) for size in self._sizes.values())

    def step(self, state: State, token: int, k: int = 3, allowed: NDArray[np.bool_] | None = None) -> StepResult:
        """Read one token and choose the k best words. allowed [V]: the words to choose from; None for all."""
        if allowed is None:
            allowed = self._everything
        if self._is_lazy:
            hidden, *after = self._session("read").run(None, self._token(state, token))
            feeds = {"hidden": hidden, **_choice(k, allowed)}
            return StepResult(tuple(after), *self._session("choose").run([*ANSWER, "opened"], feeds))
        feeds = self._token(state, token) | _choice(k, allowed)
        words, probabilities, *after = self._session("step").run([*ANSWER, *self._next], feeds)
        if not allowed[words].all():  # fewer are allowed than were requested
            chosen = allowed[words]
            words, probabilities = words[chosen], probabilities[chosen]
        return StepResult(tuple(after), words, probabilities, np.empty(0, np.uint8))

    def read(self, state: State, token: int) -> GraphReading:
        """Read one token; `look_up` then gives the probabilities of the next word."""
        if self._is_lazy:
            hidden, *after = self._session("read").run(None, self._token(state, token))
            unknown = np.empty(self.shape.vocabulary_size, np.float32)
            return GraphReading(tuple(after), unknown, hidden, set(range(len(self._clusters))))
        feeds = self._token(state, token) | _choice(1, self._everything)
        scores, *after = self._session("step").run(["log_probabilities", *self._next], feeds)
        return GraphReading(tuple(after), scores[0])

    def look_up(self, reading: GraphReading, k: int | None = None, allowed: NDArray[np.bool_] | None = None) -> Floats:
        """log p of every next word [V]. With `k`, at least those of the k best allowed words are right.

        Words of clusters that did not have to be opened may then be -inf.
        """
        if not reading.closed:
            return reading.log_probabilities
        wanted = (self._everything if allowed is None else allowed).copy()
        for cluster, words in enumerate(self._clusters):
            if cluster and cluster not in reading.closed:
                wanted[words] = False  # already known: their cluster need not be opened again
        feeds = {"hidden": reading.hidden, **_choice(k or self.shape.vocabulary_size, wanted)}
        names = ["head", *(f"tail.{tail}" for tail in range(len(self._clusters) - 1))]
        parts = self._session("choose").run(names, feeds)
        with self._noting:  # another thread may be looking up the same reading
            if 0 in reading.closed:
                reading.log_probabilities.fill(-np.inf)
            for cluster, scores in enumerate(parts):
                if scores.size:
                    reading.log_probabilities[self._clusters[cluster]] = scores[0]
                    reading.closed.discard(cluster)
        return reading.log_probabilities

    def executed_flops(self, reading: GraphReading) -> int:
        """FLOPs of the query for the last word, including the clusters opened so far."""
        return executed_flops(self.shape, [cluster not in reading.closed for cluster in range(1, len(self._clusters))])

    def replay(self, state: State, ids: Ids) -> State:
        """The state after many tokens; long texts skip the output layer."""
        if len(ids) <= STEPPED and ("replay", 0) not in self._sessions:
            for token in ids:
                state = self.read(state, int(token)).state
            return state
        session = self._session("replay")
        for first in range(0, len(ids), STRETCH):
            state = tuple(session.run(None, self._feeds(state, ids[first : first + STRETCH])))
        return state

    def log_probabilities(self, state: State, ids: Ids) -> tuple[Floats, State]:
        """log p of every word after each of these tokens [T, V], and the state after the last."""
        scores, *after = self._session("sequence").run(None, self._feeds(state, ids))
        return scores, tuple(after)

    def hidden(self, state: State, ids: Ids) -> tuple[Floats, State]:
        """The input of the output layer after each of these tokens [T, D], and the state after the last."""
        hidden, *after = self._session("hidden").run(None, self._feeds(state, ids))
        return hidden, tuple(after)

    def cluster(self, cluster: int, hidden: Floats) -> Floats:
        """log p of the words of a cluster within it [T, N]; for the head, 0, its words and then the other clusters."""
        scores: Floats = self._session("cluster", cluster).run(None, {"hidden": hidden})[0]
        return scores

    @property
    def _is_lazy(self) -> bool:
        return len(self._clusters) > 1

    @property
    def _forms(self) -> tuple[Form, ...]:
        """The sessions that a step needs."""
        return ("read", "choose") if self._is_lazy else ("step",)

    @property
    def session_bytes(self) -> int:
        """Approximate memory of the open sessions: each holds a copy of its constants."""
        return sum(session.constant_bytes for session in list(self._sessions.values()))  # another thread may open one

    def _feeds(self, state: State, ids: Ids) -> Feeds:
        return {"tokens": np.asarray(ids, np.int64), **dict(zip(self._state_names, state, strict=True))}

    def _token(self, state: State, token: int) -> Feeds:
        return {"token": np.array([token], np.int64), **dict(zip(self._state_names, state, strict=True))}

    def _session(self, form: Form, cluster: int = 0) -> Session:
        """The session of a form, opened when it is first needed."""
        if (form, cluster) not in self._sessions:
            with self._building:
                if (form, cluster) not in self._sessions:
                    self._open(form, self._weights(), cluster)
                    _give_back_memory()
        return self._sessions[form, cluster]

    def _open(self, form: Form, weights: Prepared, cluster: int = 0) -> None:
        graph = build_graph(weights, self.shape, self.precision, form, cluster=cluster)
        self._sessions[form, cluster] = Session(graph, weights, self.threads)


def _choice(k: int, allowed: NDArray[np.bool_]) -> Feeds:
    return {"k": np.array([k], np.int64), "allowed": allowed.view(np.uint8)}


class Session(NotCopyable):
    """An ONNX Runtime session for one graph.

    It shares the constants that are weights themselves, so they are kept alive here. It copies the others into the
    order that the processor reads fastest.
    """

    def __init__(self, graph: Graph, weights: Prepared, threads: int) -> None:
        options = session_options(threads)
        outside = graph.outside
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in outside.values()]
        options.add_external_initializers(list(outside), values)
        ours = {id(array) for array in weights.values()}
        self._shared = []
        for (name, array), value in zip(outside.items(), values, strict=True):
            if id(array) in ours:
                options.add_initializer(name, value)
                self._shared.append(value)
        self.constant_bytes = graph.weight_bytes
        self._session = onnxruntime.InferenceSession(graph.structure(), options, providers=["CPUExecutionProvider"])
        self.run = self._session.run


def session_options(threads: int) -> onnxruntime.SessionOptions:
    """Options for a keyboard: little memory, no log, no work between queries."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3  # errors only
    options.enable_cpu_mem_arena = False  # it would hold on to the memory that the longest text needed
    # Threads spin between the operators of a query, because waking them takes longer than many operators. They do not
    # spin between queries, which would waste the energy that the knob saves.
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")
    options.add_session_config_entry("session.force_spinning_stop", "1")
    # On ARM with SME these kernels round activations differently: step and sequence would no longer agree.
    options.add_session_config_entry("mlas.disable_kleidiai", "1")
    return options


def _give_back_memory() -> None:
    """Return freed memory to the system; glibc would keep what building a graph needed."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)
