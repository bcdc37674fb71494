"""Copies of open things are refused, and the original keeps working. A copy would close the original's file."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rheostat
from models import GOLDEN, write_tiny
from rheostat.core.binding import CoreModel
from rheostat.core.values import Block
from rheostat.errors import RheostatError
from rheostat.model.container import Container
from rheostat.model.file import ModelFile, open_model
from rheostat.words.memory import Memory
from rheostat.words.user_words import UserWords

COPIES: dict[str, Callable[[Any], object]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickle.dumps,
    "pickle 2": lambda thing: pickle.dumps(thing, 2),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("model") / "tiny.safetensors")


@pytest.fixture
def predictor(model: Path) -> Iterator[rheostat.Predictor]:
    with rheostat.load(model) as opened:
        yield opened


@pytest.mark.parametrize("way", COPIES)
def test_a_predictor_is_not_copied_and_keeps_working(predictor: rheostat.Predictor, way: str) -> None:
    before = predictor.suggest("word3")
    for thing in (predictor, [predictor], {"it": (predictor,)}, predictor.watch()):
        if way == "copy" and thing is not predictor:
            continue  # a copy of a list holds the same predictor, which is fine
        with pytest.raises(RheostatError, match=r"a \w+ cannot be copied or pickled") as error:
            COPIES[way](thing)
        assert "\n" not in str(error.value)
    gc.collect()
    assert predictor.suggest("word3") == before and predictor.suggest("word3 word4")


@pytest.mark.parametrize("way", COPIES)
def test_an_open_file_is_not_copied_and_keeps_working(model: Path, way: str) -> None:
    """A copy closed the original's descriptor, and the next file to be opened was then read in its place."""
    container = Container(str(model))
    with open_model(model) as file:
        for thing in (file, container):
            with pytest.raises(RheostatError, match="cannot be copied or pickled"):
                COPIES[way](thing)
        gc.collect()
        others = [open_model(model) for _ in range(3)]
        weights, again = file.weights(), container.array("output.bias")
        np.testing.assert_array_equal(weights["output.bias"], again)
        assert isinstance(others[0], ModelFile)


@pytest.mark.parametrize("way", COPIES)
def test_what_a_predictor_is_made_of_is_not_copied(predictor: rheostat.Predictor, tmp_path: Path, way: str) -> None:
    core = CoreModel((GOLDEN / "golden-ordered.safetensors").read_bytes())
    state = core.start()
    words, memory = UserWords(tmp_path / "words"), Memory(tmp_path / "memory")
    for thing in (core, state, words, memory, predictor.completion, predictor.user_words):
        with pytest.raises(RheostatError, match="cannot be copied or pickled"):
            COPIES[way](thing)
    gc.collect()
    words.learn("another")
    memory.learn(["a", "word"])
    assert state.copy() == state and isinstance(state.copy(), Block)
    assert core.predict(core.full_position(), state) is not None


@pytest.mark.parametrize("way", ["copy", "deepcopy", "pickle"])
def test_values_are_still_copied(predictor: rheostat.Predictor, way: str) -> None:
    """Suggestions, points, rankings and shapes hold nothing open."""
    for value in (predictor.suggest("word3"), predictor.shape, predictor.vocabulary, predictor.point):
        copied = COPIES[way](value)
        again = pickle.loads(copied) if isinstance(copied, bytes) else copied
        assert type(again) is type(value)
    assert COPIES[way](predictor.suggest("word3"))
