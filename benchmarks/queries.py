"""Queries to time: steps of an engine from Python and from C, suggestions, letters; and reading the same bytes alone.

A step is one query to an engine: it reads one more word and finds the three best next words that may be suggested.
"""

from __future__ import annotations

import ctypes
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from measuring import Figures, interleaved
from rheostat.core.binding import CoreModel
from rheostat.core.build import FOLDER, find_compiler
from rheostat.core.library import load_library
from rheostat.core.values import Block, Choice
from rheostat.model.file import ModelFile
from rheostat.model.knob import choose
from rheostat.model.precision import Precision
from rheostat.runtime.engine import CoreEngine, CoreWeights, Engine
from rheostat.runtime.onnx.engine import OnnxEngine
from rheostat.runtime.onnx.weights import RuntimeWeights
from rheostat.runtime.predictor import Predictor

QUERIES = 10  # per interleaved turn


def core_engine(file: ModelFile, knob: float, precision: Precision = "int8") -> Engine:
    """The network alone, as ONNX Runtime has it: without the counts of the file."""
    return CoreWeights(file, precision, counts=False).engine(choose(file, knob))


def onnx_engine(file: ModelFile, knob: float, precision: Precision = "int8", threads: int = 1) -> Engine:
    weights = RuntimeWeights(file, precision)
    return OnnxEngine(weights, choose(file, knob), file.shape, precision, threads, ready=True)


def steps(engine: Engine, mask: Any, queries: int = QUERIES) -> Callable[[], None]:
    """Steps of one text that goes on from turn to turn."""
    chance, state = random.Random(2), engine.start()

    def run() -> None:
        nonlocal state
        for token in chance.choices(range(engine.shape.vocabulary_size), k=queries):
            reading, _ = engine.query(state, token, 3, mask)
            state = engine.after(reading)

    return run


class Writer:
    """A text that grows by words of the vocabulary, and starts again now and then: a long message, not a book."""

    def __init__(self, predictor: Predictor) -> None:
        self._chance = random.Random(3)
        self._words = [word for word in predictor.vocabulary.words[:3000] if word.isalpha() and len(word) > 3]
        self.text, self._left = "", 0

    def next_word(self) -> str:
        if not self._left:
            self.text, self._left = " ".join(self._chance.choices(self._words, k=2)), 100
        self._left -= 1
        return self._chance.choice(self._words)


def suggestions(predictor: Predictor, queries: int = QUERIES) -> Callable[[], None]:
    """`suggest` of one more word."""
    writer = Writer(predictor)

    def run() -> None:
        for _ in range(queries):
            word = writer.next_word()
            writer.text += f" {word}"
            predictor.suggest(writer.text)

    return run


def letter_seconds(predictor: Predictor, words: int) -> list[float]:
    """Seconds of `complete` with one more letter, beyond the first of a word."""
    writer, times = Writer(predictor), list[float]()
    for _ in range(words):
        word = writer.next_word()
        writer.text += " "
        for number, letter in enumerate(word):
            writer.text += letter
            start = time.perf_counter()
            predictor.complete(writer.text)
            if number:
                times.append(time.perf_counter() - start)
    return times


@cache
def compiled(name: str) -> ctypes.CDLL:
    """A C file of this folder, as a library."""
    library = Path(tempfile.mkdtemp()) / f"{name}.so"
    flags = ["-O3", "-march=native", "-shared", "-fPIC", "-I", str(FOLDER)]
    source = Path(__file__).with_name(f"{name}.c")
    subprocess.run([*find_compiler(), *flags, str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


def steps_in_c(engine: Engine, mask: Any, queries: int = QUERIES) -> Callable[[], None]:
    """The same as `steps`, without the Python around each."""
    assert isinstance(engine, CoreEngine)
    model, (state, answer, scratch) = engine.model, room_for(engine.model)
    run_steps, pointer = compiled("core_steps").run_steps, ctypes.c_void_p
    run_steps.argtypes = [*[pointer] * 8, ctypes.c_int32]
    query = ctypes.cast(load_library().rheo_query, pointer)
    chance, choice = random.Random(2), Choice(mask)
    vocabulary = engine.shape.vocabulary_size

    def run() -> None:
        words = np.array(chance.choices(range(vocabulary), k=queries), np.int32)
        room = (state.address, answer.address, scratch.address)
        status = run_steps(query, model.handle, engine.position, *room, choice, words.ctypes.data, queries)
        assert status == 0, status

    return run


def room_for(model: CoreModel) -> tuple[Block, Block, Block]:
    """A state at the start of a text, and room for an answer and for a call."""
    scratch = int(load_library().rheo_scratch_bytes(model.handle))
    return model.start(), Block(model.answer_bytes), Block(scratch)


def reads(file: ModelFile, knob: float, queries: int = QUERIES) -> Callable[[], None]:
    """Read as many bytes of the mapped file as the products of a query do: half as many as its FLOPs."""
    data, function = file.mapped_bytes(), compiled("read_bytes").read_bytes
    function.restype, function.argtypes = ctypes.c_uint64, [ctypes.c_void_p, ctypes.c_size_t]
    count = min(len(data), choose(file, knob).cut_shape(file.shape).flops // 2) // 8
    address = data.ctypes.data + -data.ctypes.data % 64

    def run() -> None:
        assert len(data)  # stays mapped
        for _ in range(queries):
            function(address, count - 8)

    return run


def medians(sides: Mapping[str, Callable[[], object]], turns: int, queries: int = QUERIES) -> Figures:
    """Microseconds per query of each side."""
    found = interleaved(sides, turns, quiet=True)
    return {name: 1e6 * statistics.median(values) / queries for name, values in found.items()}
