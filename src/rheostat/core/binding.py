"""The core from Python, by ctypes: thin, typed, and without the GIL while C runs.

A `CoreModel` is opened on the bytes of an ordered model file and may be used from several threads. States and answers
belong to the caller. Knows ids and numbers; knows nothing of texts or policies.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rheostat.core.library import MAX_BEST, MAX_THREADS, ErrorText, PositionStruct, check, load_library
from rheostat.core.pool import Pool
from rheostat.core.values import EVERYTHING, Answer, Block, Choice, Config, Floats, Ids, Query, ScoredWords, Widths
from rheostat.errors import NotCopyable, RheostatError


class _ThreadBuffers(threading.local):
    """What a thread needs for its calls, made once per thread."""

    def __init__(self, scratch_bytes: int) -> None:
        self.scratch = Block(scratch_bytes)
        self.evaluation: Block | None = None  # larger, and made when it is needed
        self.error = ErrorText()
        self.error_at = ctypes.byref(self.error)
        self.found = ctypes.c_int32()
        self.found_at = ctypes.byref(self.found)
        self.ids = np.empty(MAX_BEST, np.int32)
        self.scores = np.empty(MAX_BEST, np.float32)
        self.ids_at, self.scores_at = self.ids.ctypes.data, self.scores.ctypes.data


class CoreModel(NotCopyable):
    """A model that C has opened on `file`, the bytes of an ordered model file, which are kept and never copied.

    threads: that compute a query together; the answers do not depend on it. The first call starts them, and they end
    with the model. A forked process starts its own.
    """

    def __init__(
        self, file: Any, kernel: str | None = None, library: ctypes.CDLL | None = None, threads: int = 1
    ) -> None:
        if not 1 <= threads <= MAX_THREADS:
            raise RheostatError(f"{threads} threads were asked for; expected 1 to {MAX_THREADS}")
        self._library = library or load_library()
        self._file = np.frombuffer(file, np.uint8)
        error, needed, model = ErrorText(), ctypes.c_size_t(), ctypes.c_void_p()
        address, size = self._file.ctypes.data, len(self._file)
        name = None if kernel is None else kernel.encode()
        check(self._library.rheo_workspace_bytes(address, size, ctypes.byref(needed), ctypes.byref(error)), error)
        self._workspace = Block(needed.value)
        opened = self._library.rheo_open(
            ctypes.byref(model), address, size, self._workspace.address, needed.value, name, ctypes.byref(error)
        )
        check(opened, error)
        self._model = model
        self._state_bytes = int(self._library.rheo_state_bytes(model))
        self._answer_bytes = int(self._library.rheo_answer_bytes(model))
        self._spare_answers: list[tuple[NDArray[np.uint8], int]] = []
        self._here = _ThreadBuffers(int(self._library.rheo_scratch_bytes(model)))
        self.config = self._read_config()
        self.kernel: str = self._library.rheo_kernel_of(model).decode()
        self.threads = threads
        self._pool = Pool(self._library, model, threads)

    @property
    def handle(self) -> ctypes.c_void_p:
        """The model as C knows it."""
        return self._model

    @property
    def file_bytes(self) -> int:
        return len(self._file)

    @property
    def workspace_bytes(self) -> int:
        """What opening took beside the file."""
        return self._workspace.size

    def full_position(self) -> Widths:
        return Widths(self.config.hidden_sizes)

    def position_at(self, number: int) -> Widths:
        """A position of the file's path, the most expensive one first."""
        return self._position(self._library.rheo_position_at, number)

    def position_near(self, share: float) -> Widths:
        """The largest position of the file's path that costs no more than this share."""
        return self._position(self._library.rheo_position_near, share)

    def word(self, number: int) -> str | None:
        """The word of an id; None for an id that the model does not have."""
        length = ctypes.c_int32()
        address = self._library.rheo_word(self._model, number, ctypes.byref(length))
        return None if address is None else ctypes.string_at(address, length.value).decode()

    def find_word(self, word: str) -> int:
        """The id of a word; -1 if the model does not have it."""
        data = word.encode()
        return int(self._library.rheo_find_word(self._model, data, len(data)))

    def start(self) -> Block:
        """The state before the text starts."""
        state = Block(self._state_bytes)
        self._library.rheo_start(self._model, state.address)
        return state

    def step(self, position: Widths, state: Block, word: int) -> Block:
        """The state after one more word."""
        if self._pool.is_missing:
            self._pool.start()
        after, here = self._copy(state), self._here
        status = self._library.rheo_step(
            self._model, position, after.address, word, here.scratch.address, here.error_at
        )
        check(status, here.error)
        return after

    def steps(self, position: Widths, state: Block, words: Sequence[int] | NDArray[Any]) -> Block:
        """The state after many words: the same bits as one by one, sooner."""
        if self._pool.is_missing:
            self._pool.start()
        after, here = self._copy(state), self._here
        ids = np.ascontiguousarray(words, np.int32)
        status = self._library.rheo_steps(
            self._model, position, after.address, ids.ctypes.data, len(ids), here.scratch.address, here.error_at
        )
        check(status, here.error)
        return after

    @property
    def answer_bytes(self) -> int:
        return self._answer_bytes

    def predict(self, position: Widths, state: Block) -> Answer:
        """An answer: how probable every next word is."""
        if self._pool.is_missing:
            self._pool.start()
        answer, here = Answer(self._answer_bytes, self._spare_answers), self._here
        status = self._library.rheo_predict(self._model, position, state.address, answer.address, here.error_at)
        check(status, here.error)
        return answer

    def query(self, position: Widths, state: Block, word: int, k: int, choice: Choice = EVERYTHING) -> Query:
        """Read one more word, predict, and find the k best words of the choice: all in one call. k = 0 finds none."""
        if self._pool.is_missing:
            self._pool.start()
        self._check_choice(choice)
        here, after, answer = self._here, Block(self._state_bytes), Answer(self._answer_bytes, self._spare_answers)
        here.found.value = 0
        status = self._library.rheo_query(
            self._model,
            position,
            state.address,
            word,
            after.address,
            answer.address,
            choice,
            k,
            here.ids_at,
            here.scores_at,
            here.found_at,
            here.scratch.address,
            here.error_at,
        )
        if status:
            check(status, here.error)
        found = here.found.value
        return Query(after, answer, here.ids[:found].tolist(), here.scores[:found].tolist())

    def start_cache(self, words: int) -> Block:
        """An empty cache of the last words."""
        cache, here = Block(int(self._library.rheo_cache_bytes(self._model, words))), self._here
        check(self._library.rheo_cache_start(self._model, cache.address, words, here.error_at), here.error)
        return cache

    def add_to_cache(self, position: Widths, cache: Block, state: Block, word: int) -> None:
        """Remember, in this cache, that a word followed the text of a state."""
        here = self._here
        status = self._library.rheo_cache_add(self._model, position, cache.address, state.address, word, here.error_at)
        check(status, here.error)

    def mix_cache(
        self, position: Widths, cache: Block, state: Block, weight: float, sharpness: float, answer: Answer
    ) -> None:
        """Mix a cache into the answer for a state."""
        here = self._here
        with answer.lock:
            status = self._library.rheo_cache_mix(
                self._model, position, cache.address, state.address, weight, sharpness, answer.address, here.error_at
            )
        check(status, here.error)

    def best(self, answer: Answer, k: int, choice: Choice = EVERYTHING) -> ScoredWords:
        """The k most probable words of the choice."""
        ids, scores = self.best_words(answer, k, choice)
        return ScoredWords(np.array(ids, np.int32), np.array(scores, np.float32))

    def best_words(self, answer: Answer, k: int, choice: Choice = EVERYTHING) -> tuple[list[int], list[float]]:
        """The same as lists: words and their log p."""
        if self._pool.is_missing:
            self._pool.start()
        self._check_choice(choice)
        here = self._here
        with answer.lock:
            status = self._library.rheo_best(
                self._model, answer.address, choice, k, here.ids_at, here.scores_at, here.found_at, here.error_at
            )
        if status:
            check(status, here.error)
        found = here.found.value
        return here.ids[:found].tolist(), here.scores[:found].tolist()

    def _check_choice(self, choice: Choice) -> None:
        if choice.vocabulary_size is not None and choice.vocabulary_size != self.config.vocabulary_size:
            raise RheostatError(
                f"a mask of {choice.vocabulary_size} words was given; expected {self.config.vocabulary_size}"
            )

    def _copy(self, state: Block) -> Block:
        after = Block(self._state_bytes)
        ctypes.memmove(after.address, state.address, self._state_bytes)
        return after

    def log_probabilities(self, answer: Answer) -> Floats:
        """log p of every word [V]."""
        if self._pool.is_missing:
            self._pool.start()
        scores, here = np.empty(self.config.vocabulary_size, np.float32), self._here
        with answer.lock:
            status = self._library.rheo_log_probabilities(
                self._model, answer.address, scores.ctypes.data, here.error_at
            )
        check(status, here.error)
        return scores

    def evaluate(
        self, position: Widths, state: Block, words: Sequence[int] | NDArray[Any]
    ) -> tuple[Block, Floats, Ids]:
        """Read all words but the last: the state, log p of each following word, and how many words were likelier."""
        if self._pool.is_missing:
            self._pool.start()
        ids = np.ascontiguousarray(words, np.int32)
        count = len(ids) - 1
        after, here = self._copy(state), self._here
        if here.evaluation is None:
            here.evaluation = Block(int(self._library.rheo_evaluation_bytes(self._model)))
        scores, ranks = np.empty(count, np.float32), np.empty(count, np.int32)
        status = self._library.rheo_evaluate(
            self._model,
            position,
            after.address,
            ids.ctypes.data,
            count,
            scores.ctypes.data,
            ranks.ctypes.data,
            here.evaluation.address,
            here.error_at,
        )
        check(status, here.error)
        return after, scores, ranks

    def executed_flops(self, answer: Answer) -> int:
        """FLOPs of the query that an answer belongs to, with the clusters that were opened so far."""
        return 2 * int(self._library.rheo_executed(self._model, answer.address))

    def _read_config(self) -> Config:
        found = self._library.rheo_config_of(self._model).contents
        return Config(
            found.vocabulary_size,
            found.embedding_size,
            tuple(found.hidden_sizes[: found.layers]),
            tuple(found.windows[: found.layers]),
            tuple(found.cluster_start[: found.clusters + 1]),
            found.positions,
            bool(found.is_int8),
            found.bits,
            found.counts,
        )

    def _position(self, look_up: Any, asked: float) -> Widths:
        found, error = PositionStruct(), ErrorText()
        check(look_up(self._model, asked, ctypes.byref(found), ctypes.byref(error)), error)
        layers, config = len(self.config.hidden_sizes), self.config
        bounds = tuple(found.bounds[: layers + 1])
        is_whole = bounds == (*config.hidden_sizes, config.vocabulary_size)
        return Widths(found.widths[:layers], found.cost, None if is_whole else bounds)
