"""The lazy output layer of an adaptive softmax: fewer products, exactly the same answers."""

from __future__ import annotations

import threading
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import rheostat
from models import make_ranking, make_weights, write_words
from rheostat.model.flops import executed_flops
from rheostat.model.precision import PRECISIONS, Precision
from rheostat.model.shape import ModelShape
from rheostat.runtime.onnx.graph import build_graph
from rheostat.runtime.onnx.session import GraphEngine, Session
from rheostat.runtime.onnx.weights import prepare
from rheostat.text.vocabulary import END_OF_LINE, UNKNOWN

TAILS = {1: (7,), 2: (5, 12), 3: (6, 8, 21)}
FEATURES = 6
VOCABULARY = 40
ANSWER = ["top_words", "top_probabilities", "opened"]


def shape_of(tails: int) -> ModelShape:
    return ModelShape(VOCABULARY, FEATURES, (5, FEATURES), (2, 1), TAILS[tails])


@cache
def sessions(tails: int, precision: Precision, seed: int) -> tuple[Session, Session]:
    """The lazy output layer, and the same one with every cluster opened."""
    shape = shape_of(tails)
    weights = make_weights(shape, seed)
    weights["clusters.bias"] = weights["clusters.bias"] - 2  # as trained: a cluster is less probable than its words
    weights["embedding.weight"][20:] = weights["embedding.weight"][:20]  # makes words of several clusters equal
    prepared = prepare(weights, precision)
    lazy, whole = (
        Session(build_graph(prepared, shape, precision, "choose", every_cluster=every), prepared, 1)
        for every in (False, True)
    )
    return lazy, whole


def feeds(hidden: NDArray[np.float32], k: int, allowed: NDArray[np.bool_]) -> dict[str, Any]:
    return {"hidden": hidden, "k": np.array([k]), "allowed": allowed.astype(np.uint8)}


@settings(max_examples=150)
@given(
    tails=st.sampled_from(sorted(TAILS)),
    precision=st.sampled_from(PRECISIONS),
    seed=st.integers(0, 3),
    hidden=st.lists(st.integers(-16, 16), min_size=FEATURES, max_size=FEATURES),
    k=st.integers(1, VOCABULARY + 5),
    allowed=st.one_of(
        st.lists(st.booleans(), min_size=VOCABULARY, max_size=VOCABULARY),
        st.sets(st.integers(0, VOCABULARY - 1), max_size=3).map(lambda ids: [i in ids for i in range(VOCABULARY)]),
        st.just([True] * VOCABULARY),
    ),
)
def test_answers_are_those_of_the_whole_output_layer(
    tails: int, precision: Precision, seed: int, hidden: list[int], k: int, allowed: list[bool]
) -> None:
    lazy, whole = sessions(tails, precision, seed)
    query = feeds(np.array([hidden], np.float32) / 2, k, np.array(allowed))
    words, probabilities, opened = lazy.run(ANSWER, query)
    all_words, all_probabilities, all_opened = whole.run(ANSWER, query)
    np.testing.assert_array_equal(words, all_words)
    np.testing.assert_array_equal(probabilities.view(np.uint32), all_probabilities.view(np.uint32))
    assert len(words) == min(k, sum(allowed))
    assert all_opened.tolist() == [1] * tails
    bounds = (*TAILS[tails], VOCABULARY)
    for cluster, (first, last) in enumerate(pairwise(bounds)):
        assert any(allowed[first:last]) or not opened[cluster], "a cluster without allowed words was opened"


@pytest.mark.parametrize("precision", PRECISIONS)
def test_an_improbable_cluster_stays_closed_and_is_not_computed(precision: Precision) -> None:
    shape = shape_of(2)
    weights = make_weights(shape)
    weights["clusters.bias"] = np.array([-9, 3], np.float32)
    engine = GraphEngine.build(weights, shape, precision, 1)
    step = engine.step(engine.initial_state(), 5)
    assert step.opened.tolist() == [0, 1]
    reading = engine.read(engine.initial_state(), 5)
    known = engine.look_up(reading, 3)
    assert np.isneginf(known[5:12]).all() and np.isfinite(known[12:]).all()
    assert reading.closed == {1}
    np.testing.assert_array_equal(np.argsort(-known, kind="stable")[:3], step.words)


def test_a_cluster_that_could_only_tie_stays_closed() -> None:
    """Between equals the lower id wins, so a cluster that could only tie is not opened."""
    shape = ModelShape(6, 2, (2,), (1,), (3,))
    weights = {name: np.zeros(size, np.float32) for name, size in shape.tensor_shapes().items()}
    engine = GraphEngine.build(weights, shape, "fp32", 1)  # the words of the head and the cluster: a quarter each
    assert engine.step(engine.initial_state(), 0, k=3).opened.tolist() == [0]
    assert engine.step(engine.initial_state(), 0, k=3).words.tolist() == [0, 1, 2]
    assert engine.step(engine.initial_state(), 0, k=4).words.tolist() == [0, 1, 2, 3]


def test_lookups_add_up_to_all_words() -> None:
    shape = shape_of(3)
    engine = GraphEngine.build(make_weights(shape), shape, "int8", 1)
    whole = engine.look_up(engine.read(engine.initial_state(), 5))
    assert np.exp(whole.astype(np.float64)).sum() == pytest.approx(1, abs=1e-5)
    reading = engine.read(engine.initial_state(), 5)
    for cluster, word in ((0, 2), (1, 6), (3, 30), (2, 10)):  # one word of each cluster, in any order
        only = np.arange(VOCABULARY) == word
        assert engine.look_up(reading, 1, only)[word] == whole[word]
        assert cluster not in reading.closed
    assert not reading.closed
    np.testing.assert_array_equal(engine.look_up(reading), whole)


def test_threads_that_look_up_one_reading_agree() -> None:
    shape = shape_of(3)
    engine = GraphEngine.build(make_weights(shape), shape, "int8", 1)
    whole = engine.look_up(engine.read(engine.initial_state(), 5))
    for _ in range(20):
        reading, found = engine.read(engine.initial_state(), 5), dict[int, float]()

        def ask(word: int, reading: Any = reading, found: dict[int, float] = found) -> None:
            found[word] = engine.look_up(reading, 1, np.arange(VOCABULARY) == word)[word]

        threads = [threading.Thread(target=ask, args=(word,)) for word in (2, 7, 15, 35)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == {word: whole[word] for word in (2, 7, 15, 35)}


def test_weights_are_held_once() -> None:
    """The branches of the graph have no constants."""
    shape = shape_of(3)
    graph = build_graph(prepare(make_weights(shape), "int8"), shape, "int8", "step").complete().graph
    branches = [attribute.g for node in graph.node if node.op_type == "If" for attribute in node.attribute]
    assert len(branches) == 12
    assert not any(branch.initializer for branch in branches)
    assert not any(node.op_type == "Constant" for branch in branches for node in branch.node)


WORDS = (UNKNOWN, END_OF_LINE, "the", "game", "i", "saw", "a", "Game", "gate", "garden", "Gary", "see", "go", "gain")


def test_suggestions_do_not_depend_on_earlier_queries(tmp_path: Path) -> None:
    shape = ModelShape(len(WORDS), 8, (6, 8), (2, 1), (5, 8, 11))
    model = write_words(tmp_path / "model.safetensors", WORDS, shape)
    asked = [("i saw the", ""), ("i saw the", "g"), ("i saw the", "ga"), ("", ""), ("", "g"), ("i saw", "s")]
    fresh = {query: rheostat.load(model).suggest(query[0], 3, prefix=query[1]) for query in asked}
    predictor = rheostat.load(model)
    assert {query: predictor.suggest(query[0], 3, prefix=query[1]) for query in reversed(asked)} == fresh
    scores = predictor.log_probabilities_after([END_OF_LINE, "i", "saw", "the"])
    expected = sorted((i for i, word in enumerate(WORDS) if word.lower().startswith("ga")), key=lambda i: -scores[i])
    assert [s.word for s in fresh["i saw the", "ga"]] == [WORDS[i] for i in expected[:3]]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_at_a_cut_point_suggestions_are_those_of_all_words(tmp_path: Path, precision: Precision) -> None:
    words = tuple(word for word in WORDS if word != "Game")  # none that look the same with capitals
    shape = ModelShape(len(words), 8, (12, 8), (2, 1), (5, 8, 11))
    model = write_words(tmp_path / "model.safetensors", words, shape, rankings=[make_ranking(shape, 3)])
    predictor, fresh = (rheostat.load(model, 0.7, precision=precision) for _ in range(2))
    assert predictor.flops_fraction < 0.7 and predictor.point.widths != shape.hidden_sizes
    for text in ("", "i", "i saw", "i saw the", "the gate"):
        scores = fresh.log_probabilities_after([END_OF_LINE, *text.split()])
        for prefix in ("", "g", "ga", "s"):
            found = predictor.suggest(text, 3, prefix=prefix)
            best = fresh.completion.best(scores, prefix, 3)
            assert [one.word.lower() for one in found] == [words[i].lower() for i in best.ids]
            assert [one.probability for one in found] == pytest.approx(best.probabilities.tolist(), rel=1e-6)
        assert predictor.executed_flops(text, 3) <= predictor.point.cut_shape(shape).flops


def test_a_learned_word_is_as_probable_as_an_unknown_one_of_a_closed_cluster(tmp_path: Path) -> None:
    words = (*WORDS[1:], UNKNOWN)
    shape = ModelShape(len(words), 8, (6, 8), (2, 1), (5, 11))
    predictor = rheostat.load(write_words(tmp_path / "model.safetensors", words, shape))
    predictor.learn("zebra")
    (found,) = predictor.suggest("i saw the", prefix="z")
    expected = np.exp(predictor.log_probabilities_after([END_OF_LINE, "i", "saw", "the"])[len(words) - 1])
    assert found.probability == pytest.approx(float(expected))


def test_executed_flops_leave_out_the_clusters_that_stay_closed(tmp_path: Path) -> None:
    shape = ModelShape(len(WORDS), 8, (6, 8), (2, 1), (5, 11))
    weights = make_weights(shape)
    weights["clusters.bias"] = np.array([-9, -9], np.float32)
    predictor = rheostat.load(write_words(tmp_path / "model.safetensors", WORDS, shape, weights=weights))
    assert predictor.executed_flops("i saw", k=1) == executed_flops(shape, [0, 0])
    assert predictor.executed_flops("the", prefix="gar") == executed_flops(shape, [1, 0])
    assert predictor.executed_flops("saw the", k=20) == shape.flops
