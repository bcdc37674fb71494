"""One cut model, ready to run: ONNX Runtime's sessions, and the state as a value.

An engine never changes and may be called from several threads. It knows ids and states; words, texts and knobs are the
business of others.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from rheostat.errors import RheostatError
from rheostat.model.flops import executed_flops
from rheostat.model.shape import ModelShape
from rheostat.runtime.onnx.graph import Form, Graph, build_graph, state_sizes
from rheostat.runtime.onnx.quantization import Floats, Precision, Prepared, Weights, check_precision, prepare

State: TypeAlias = tuple[Floats, ...]  # in the order of graph.state_sizes, each [1, width]
Feeds: TypeAlias = dict[str, NDArray[np.generic]]
Ids: TypeAlias = Sequence[int] | NDArray[np.integer]

ANSWER = ("top_words", "top_probabilities")
STRETCH = 128  # tokens that are replayed at once: more are no quicker, and take more memory
THREADS_A_CPU = 4  # at most: more make nothing quicker, and thousands take all memory before the first answer
STEPPED = 128  # so many tokens are stepped through sooner than a session to replay them is built


class StepResult(NamedTuple):
    """What one token leads to."""

    state: State
    words: NDArray[np.int64]  # the best allowed words, best first: k, or all there are if that is fewer
    probabilities: Floats  # of these words, out of all words
    opened: NDArray[np.uint8]  # 1 for each tail cluster of an adaptive softmax that was opened for this, else 0


@dataclass(eq=False)
class Reading:
    """What was made of a text: the state behind its last word, and log p of the next words as far as it is known.

    Of an adaptive softmax that grows: `Engine.look_up` opens a cluster when it is first needed, and then never again.
    """

    state: State
    log_probabilities: Floats  # [V]; `Engine.look_up` tells them
    hidden: Floats = field(default_factory=lambda: np.empty((1, 0), np.float32))  # [1, D], to open clusters with
    closed: set[int] = field(default_factory=set)  # clusters of which nothing is known yet; 0 is the head

    @property
    def size_bytes(self) -> int:
        return sum(array.nbytes for array in (*self.state, self.hidden, self.log_probabilities))


class Engine:
    """One cut model: `state, token → state, words`. `Engine.build` makes one of weights that are at hand.

    A plain softmax is one session. An adaptive one is two, of the layers and of the output layer, so that the layers
    are not run again for another prefix of the same word, nor the output layer for words that are only read.
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
        """weights: gives what `operating_point.cut` gives, now and whenever a further session is first needed: what a
        session has made its own copy of need not stay in memory. threads: 0 means one for each physical core. ready:
        open what a step needs at once; without it, each session when it is first needed.
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
        self.weight_bytes = sum(array.nbytes for array in prepared.values())  # as they are given to the graphs
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
    ) -> Engine:
        """The engine of a cut model, of any stored precision, that keeps these weights.

        int8: weights that `quantization.prepare` made are taken as they are, which is how another point is built
        quickly.
        """
        prepared = prepare(weights, precision)
        return cls(lambda: prepared, shape, precision, threads, ready=ready)

    def initial_state(self) -> State:
        """Before the text starts."""
        return tuple(np.zeros((1, size), np.float32) for size in self._sizes.values())

    def step(self, state: State, token: int, k: int = 3, allowed: NDArray[np.bool_] | None = None) -> StepResult:
        """Read one token; `allowed` [V] marks the words that may be suggested, all of them without it."""
        if allowed is None:
            allowed = self._everything
        if self._is_lazy:
            hidden, *after = self._session("read").run(None, self._token(state, token))
            feeds = {"hidden": hidden, **_choice(k, allowed)}
            return StepResult(tuple(after), *self._session("choose").run([*ANSWER, "opened"], feeds))
        feeds = self._token(state, token) | _choice(k, allowed)
        words, probabilities, *after = self._session("step").run([*ANSWER, *self._next], feeds)
        if not allowed[words].all():  # fewer are allowed than were asked for
            chosen = allowed[words]
            words, probabilities = words[chosen], probabilities[chosen]
        return StepResult(tuple(after), words, probabilities, np.empty(0, np.uint8))

    def read(self, state: State, token: int) -> Reading:
        """Read one token; `look_up` tells what may follow."""
        if self._is_lazy:
            hidden, *after = self._session("read").run(None, self._token(state, token))
            unknown = np.empty(self.shape.vocabulary_size, np.float32)
            return Reading(tuple(after), unknown, hidden, set(range(len(self._clusters))))
        feeds = self._token(state, token) | _choice(1, self._everything)
        scores, *after = self._session("step").run(["log_probabilities", *self._next], feeds)
        return Reading(tuple(after), scores[0])

    def look_up(self, reading: Reading, k: int | None = None, allowed: NDArray[np.bool_] | None = None) -> Floats:
        """log p of every next word [V]; where only the k best of the allowed words are wanted, of these at least.

        The others may have -inf in its place: words of clusters that did not have to be opened.
        """
        if not reading.closed:
            return reading.log_probabilities
        wanted = (self._everything if allowed is None else allowed).copy()
        for cluster, words in enumerate(self._clusters):
            if cluster and cluster not in reading.closed:
                wanted[words] = False  # they are known: no need to open their cluster again
        feeds = {"hidden": reading.hidden, **_choice(k or self.shape.vocabulary_size, wanted)}
        names = ["head", *(f"tail.{tail}" for tail in range(len(self._clusters) - 1))]
        parts = self._session("choose").run(names, feeds)
        with self._noting:  # another thread may have looked up the same reading meanwhile
            if 0 in reading.closed:
                reading.log_probabilities.fill(-np.inf)
            for cluster, scores in enumerate(parts):
                if scores.size:
                    reading.log_probabilities[self._clusters[cluster]] = scores[0]
                    reading.closed.discard(cluster)
        return reading.log_probabilities

    def executed_flops(self, reading: Reading) -> int:
        """FLOPs of the last word's query, with the clusters that were looked up so far."""
        return executed_flops(self.shape, [cluster not in reading.closed for cluster in range(1, len(self._clusters))])

    def replay(self, state: State, ids: Ids) -> State:
        """The state after many tokens; the output layer is left out, where that saves more than it costs to set up."""
        if len(ids) <= STEPPED and ("replay", 0) not in self._sessions:
            for token in ids:
                state = self.read(state, int(token)).state
            return state
        session = self._session("replay")
        for first in range(0, len(ids), STRETCH):
            state = tuple(session.run(None, self._feeds(state, ids[first : first + STRETCH])))
        return state

    def log_probabilities(self, state: State, ids: Ids) -> tuple[Floats, State]:
        """log p of every word after each of these tokens [T, V], and the state after them."""
        scores, *after = self._session("sequence").run(None, self._feeds(state, ids))
        return scores, tuple(after)

    def hidden(self, state: State, ids: Ids) -> tuple[Floats, State]:
        """What the output layer is given after each of these tokens [T, D], and the state after them."""
        hidden, *after = self._session("hidden").run(None, self._feeds(state, ids))
        return hidden, tuple(after)

    def cluster(self, cluster: int, hidden: Floats) -> Floats:
        """log p of its words, given that it is one of them [T, N]; with 0 of those of the head and of the others."""
        scores: Floats = self._session("cluster", cluster).run(None, {"hidden": hidden})[0]
        return scores

    @property
    def _is_lazy(self) -> bool:
        return len(self._clusters) > 1

    @property
    def _forms(self) -> tuple[Form, ...]:
        """What a step is made of."""
        return ("read", "choose") if self._is_lazy else ("step",)

    @property
    def session_bytes(self) -> int:
        """About what the open sessions hold: a copy of the constants of each."""
        return sum(session.constant_bytes for session in list(self._sessions.values()))  # another thread may open one

    def _feeds(self, state: State, ids: Ids) -> Feeds:
        return {"tokens": np.asarray(ids, np.int64), **dict(zip(self._state_names, state, strict=True))}

    def _token(self, state: State, token: int) -> Feeds:
        return {"token": np.array([token], np.int64), **dict(zip(self._state_names, state, strict=True))}

    def _session(self, form: Form, cluster: int = 0) -> Session:
        """The session for a form, opened once."""
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


class Session:
    """An ONNX Runtime session for one graph.

    Constants that are weights themselves are shared with it, and kept for it; it makes copies of the others, in the
    layout that the processor reads quickest.
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
    """For a keyboard: quiet between queries, small, and no faster on one text at the cost of the next."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3  # errors only
    options.enable_cpu_mem_arena = False  # it would keep what the longest text once needed
    # Threads spin between the operators of a query, where waking them would take longer than many operators do; but
    # not between queries, where it would take the battery that the knob saves.
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")
    options.add_session_config_entry("session.force_spinning_stop", "1")
    # On ARM with SME these kernels round activations in another way: step and sequence would no longer agree.
    options.add_session_config_entry("mlas.disable_kleidiai", "1")
    return options


def _give_back_memory() -> None:
    """Hand what building a graph needed back to the system, where the C library would keep it (glibc)."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # elsewhere
        ctypes.CDLL(None).malloc_trim(0)


def thread_count(threads: int) -> int:
    """How many threads to use where so many are asked for; 0: one for each physical core."""
    cpus = os.cpu_count() or 1
    if not 0 <= threads <= THREADS_A_CPU * cpus:
        raise RheostatError(
            f"{threads} threads were asked for, and this machine has {cpus} CPUs; "
            f"expected 0 (one for each physical core) to {THREADS_A_CPU * cpus}"
        )
    return threads or physical_cores()


def physical_cores() -> int:
    """Cores that this process may use, counting those that share one as one."""
    import psutil  # here, since an app that says how many threads it wants never needs it

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(psutil.cpu_count(logical=False) or usable, usable))
