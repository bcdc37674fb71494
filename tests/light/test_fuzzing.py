"""Damaged inputs of every kind are accepted or refused in one line: the kept corpus, and new ones.

Each target gets a fixed number of new inputs (EXAMPLES) and then, if RHEOSTAT_FUZZ_SECONDS is set, as many more as it
takes to fill that time; `make test` sets it to 5. All are the same in every run. `make fuzz` runs the same targets for
an hour, with others. An input that breaks something is kept in `tests/data/fuzz`.
"""

from __future__ import annotations

import itertools
import os
import signal
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fuzz_targets import CORPUS, TARGETS, FuzzTarget
from mutations import Random

LONGEST_SECONDS = 20  # a thousand times the usual: only a hang takes so long
MOST_BYTES = 200_000_000
EXAMPLES = {"results": 100, "recipes": 200, "policy": 200, "checkpoints": 40, "manifests": 100}
OTHERS = 250
LEAST_SECONDS = float(os.environ.get("RHEOSTAT_FUZZ_SECONDS") or 0)  # of new inputs for each target


@contextmanager
def in_time() -> Iterator[None]:
    """Stop an input that never ends."""

    def stop(*_: object) -> None:
        raise AssertionError(f"took longer than {LONGEST_SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LONGEST_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def usable(name: str) -> FuzzTarget:
    target = TARGETS[name]
    if target.needs:
        pytest.importorskip(target.needs)
    return target


@cache
def corpus_of(name: str) -> list[bytes]:
    return TARGETS[name].corpus()


@pytest.mark.parametrize("name", TARGETS)
def test_the_kept_inputs_are_accepted_or_refused(name: str, tmp_path: Path) -> None:
    target = usable(name)
    corpus = corpus_of(name)
    target.accepts(corpus[0], tmp_path)  # imports what it needs, whose memory is not the input's
    tracemalloc.start()
    try:
        for content in corpus:
            tracemalloc.reset_peak()
            with in_time():
                target.accepts(content, tmp_path)
            assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", TARGETS)
def test_the_seeds_are_accepted(name: str, tmp_path: Path) -> None:
    """Damage to an input that is refused anyway tests little."""
    target = usable(name)
    good = [path.read_bytes() for path in sorted((CORPUS / name).glob("good-*"))]
    seeds = [*target.seeds(), *good]
    assert seeds and all(target.accepts(content, tmp_path) for content in seeds)


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_inputs_are_accepted_or_refused(name: str, tmp_path: Path) -> None:
    target, corpus, begin = usable(name), corpus_of(name), time.monotonic()

    def check(seed: int) -> None:
        content = target.damaged(Random(seed), corpus)
        with in_time():
            try:
                target.accepts(content, tmp_path)
            except Exception as error:
                raise AssertionError(f"{name}, seed {seed}: {type(error).__name__}: {error}") from error

    @settings(
        max_examples=EXAMPLES.get(name, OTHERS),
        derandomize=True,  # the same inputs in every run; `make fuzz` draws others
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(seed=st.integers(0, 2**32))
    def damaged(seed: int) -> None:
        check(seed)

    damaged()
    for seed in itertools.count():
        if time.monotonic() - begin >= LEAST_SECONDS:
            break
        check(seed)
