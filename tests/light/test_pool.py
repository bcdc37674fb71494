"""Threads that share a query: the same bits for any number of them, several askers, forks, and how many are used."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from test_core import CLUSTERED, SHAPE, Case, models, read, small_weights
from test_core_builds import DATA, PROGRAMS, SANITIZERS, run

import rheostat
from models import make_vocabulary
from rheostat.core.binding import CoreModel
from rheostat.core.build import FLAGS, FOLDER, POOL, WARNINGS, CompilerError, find_compiler, run_compiler, sources
from rheostat.errors import RheostatError
from rheostat.model.ordered import ordered_bytes
from rheostat.model.shape import ModelShape
from rheostat.runtime import arguments
from rheostat.runtime.arguments import THREAD_BYTES, core_thread_count
from rheostat.runtime.points import Points

THREADS = (2, 3, 5)
TEXT = [5, 1, 60, 7, 7, 0, 33, 2]


def open_all(shape: ModelShape, precision: Any = "int8", seed: int = 0) -> list[CoreModel]:
    """The same model with one thread, and with more."""
    file = ordered_bytes(small_weights(shape, seed), shape, make_vocabulary(shape.vocabulary_size), precision)
    return [CoreModel(file, threads=threads) for threads in (1, *THREADS)]


def living() -> int:
    """Threads of this process, once their number has not changed for a while: the system lists some that have ended."""
    counts = [-1, 0]
    while len(set(counts[-5:])) > 1:
        counts.append(len(list(Path("/proc/self/task").iterdir())))
        time.sleep(0.05)
    return counts[-1]


@pytest.mark.parametrize("precision", ["int8", "fp32"])
@given(case=models())
@settings(max_examples=25)
def test_any_number_of_threads_gives_the_same_bits(precision: str, case: Case) -> None:
    shape, position, text, seed = case
    alone, *together = open_all(shape, precision, seed)
    rows = read(alone, position, text)
    state, scores, ranks = alone.evaluate(position, alone.start(), [*text, 0])
    for model in together:
        assert np.array_equal(rows.view(np.int32), read(model, position, text).view(np.int32))
        found = model.evaluate(position, model.start(), [*text, 0])
        assert found[0] == state == model.steps(position, model.start(), text)
        assert np.array_equal(found[1], scores) and np.array_equal(found[2], ranks)


@pytest.mark.parametrize("shape", [SHAPE, CLUSTERED], ids=["plain", "clusters"])
def test_many_threads_may_ask_a_pool_at_once(shape: ModelShape) -> None:
    alone, *together = open_all(shape)
    expected, wrong = read(alone, alone.full_position(), TEXT), list[int]()

    def ask(model: CoreModel) -> None:
        for _ in range(10):
            if not np.array_equal(read(model, model.full_position(), TEXT), expected):
                wrong.append(model.threads)

    askers = [threading.Thread(target=ask, args=(model,)) for model in together for _ in range(3)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert not wrong


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to count threads")
def test_threads_start_with_the_first_call_and_end_with_the_model() -> None:
    before = living()
    models = open_all(SHAPE)
    states = [model.start() for model in models]
    assert living() == before, "opening a model starts none"
    for model, state in zip(models, states, strict=True):
        model.step(model.full_position(), state, 1)
    assert living() == before + sum(threads - 1 for threads in THREADS)
    del model, models
    assert living() == before


def _read_in_child(model: CoreModel, expected: Any, answers: Any) -> None:
    answers.put(bool(np.array_equal(read(model, model.full_position(), TEXT), expected)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
def test_a_forked_process_starts_threads_of_its_own() -> None:
    alone, together, *_ = open_all(SHAPE)
    expected = read(alone, alone.full_position(), TEXT)
    assert np.array_equal(read(together, together.full_position(), TEXT), expected)
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_read_in_child, args=(together, expected, answers))
    child.start()
    assert answers.get(timeout=60)
    child.join(60)
    assert child.exitcode == 0
    assert np.array_equal(read(together, together.full_position(), TEXT), expected), "and the parent keeps its own"


def test_impossible_numbers_of_threads_are_refused() -> None:
    file = ordered_bytes(small_weights(SHAPE), SHAPE, make_vocabulary(SHAPE.vocabulary_size), "int8")
    for threads in (0, -1, 1025):
        with pytest.raises(RheostatError, match=f"{threads} threads were asked for; expected 1 to 1024"):
            CoreModel(file, threads=threads)


def test_the_bytes_of_a_query_decide_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "physical_cores", lambda: 3)
    for factor, wanted in ((0.1, 1), (1.9, 1), (2.0, 2), (2.9, 2), (3.1, 3), (100, 3)):
        assert core_thread_count(0, int(factor * THREAD_BYTES)) == wanted
    assert core_thread_count(2, 1) == 2 and core_thread_count(1, 100 * THREAD_BYTES) == 1


def test_points_pass_their_threads_on_and_end_them() -> None:
    three, one, same = (Points("chat", "int8", threads, 1 << 20, 1 << 20) for threads in (3, 0, 3))
    models = [each.serve(1.0, None).engine.model for each in (three, one, same)]  # type: ignore[attr-defined]
    assert [model.threads for model in models] == [3, 1, 3], "a small model takes one"
    assert models[0] is models[2] and models[0] is not models[1]
    ended = weakref.ref(models[0])
    del models
    for each in (three, one, same):
        each.close()
    assert ended() is None


def test_a_predictor_with_threads_answers_as_one_without() -> None:
    with rheostat.load("chat", threads=3) as three, rheostat.load("chat") as one:
        assert three.suggest("see you at the") == one.suggest("see you at the")


def build_threads(out: Path, *flags: str) -> Path:
    program = [f"-I{FOLDER}", str(PROGRAMS / "threads.c"), *sources(), str(FOLDER / POOL[0])]
    return run_compiler(find_compiler(), [*FLAGS, *flags, "-pthread", *program], out)


@pytest.mark.parametrize(
    "flags", [WARNINGS, SANITIZERS, ("-g", "-O1", "-fsanitize=thread")], ids=["", "memory", "thread"]
)
def test_askers_and_workers_under_sanitizers(flags: tuple[str, ...], tmp_path: Path) -> None:
    try:
        program = build_threads(tmp_path / "threads", *flags)
    except CompilerError as error:
        if flags is WARNINGS:
            raise
        pytest.skip(f"this compiler has no such sanitizer: {error}"[:200])
    for precision in ("int8", "int4", "fp32"):
        assert int(run(program, DATA / f"{precision}.safetensors", timeout=600)) > 0
