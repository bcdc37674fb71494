"""Reconstruction: what a point drops is guessed from what it keeps, and folded into the next matrix."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from typer.testing import CliRunner

import commands
import rheostat
from models import TINY, make_point, make_ranking, make_vocabulary, make_weights, rewrite, write_tiny
from rheostat.cli import app
from rheostat.core.binding import CoreModel
from rheostat.errors import CorpusError, ModelFileError, OperatingPointError, RheostatError, RheostatWarning
from rheostat.model import knob
from rheostat.model.contents import drop_rankings
from rheostat.model.cut import cut, reorder, reorder_point, unfolded
from rheostat.model.file import open_model
from rheostat.model.operating_point import OperatingPoint, full_point
from rheostat.model.ordered import order_filters, ordered_bytes
from rheostat.model.origin import UNKNOWN_ORIGIN as ORIGIN
from rheostat.model.reconstruction import RIDGE, LayerMoments, Reconstruction, moments_of
from rheostat.model.shape import ModelShape
from rheostat.model.widths import best_of, select
from rheostat.model.writer import write_model
from rheostat.pruning.reconstruction import Network, calibrate, outputs, reconstruct, rescored
from rheostat.runtime.evaluation import RuntimeEvaluator

SHAPE = ModelShape(11, 6, (8, 7, 6), (2, 1, 2))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    words = make_vocabulary(11).words
    text = np.random.default_rng(1).integers(2, 11, 600)
    for split in ("train", "valid", "test"):
        (folder / f"{split}.txt").write_text(" ".join(words[i] for i in text) + "\n", encoding="utf-8")
    return folder


def write(path: Path, **changes: Any) -> Path:
    everything = {
        "shape": SHAPE,
        "vocabulary": make_vocabulary(11),
        "weights": {name: 3 * array for name, array in make_weights(SHAPE, 2).items()},
        "rankings": [make_ranking(SHAPE, 3, "random-3"), make_ranking(SHAPE, 4, "other")],
        "points": [replace(make_point(SHAPE), updates=None)],
        "default_ranking": "other",
    }
    return write_tiny(path, **(everything | changes))


def layer_outputs(network: Network, ids: NDArray[Any]) -> list[NDArray[Any]]:
    stretches = [given for given, _ in outputs(network, ids)]
    return [
        np.concatenate([one[layer].reshape(-1, one[layer].shape[-1]) for one in stretches]) for layer in network.layers
    ]


# The guess


@given(st.integers(2, 12), st.integers(0, 1000), st.data())
@settings(max_examples=60)
def test_guess_from_the_stored_triangle_solves_the_normal_equations(size: int, seed: int, data: Any) -> None:
    random = np.random.default_rng(seed)
    h = random.normal(size=(5 * size, size)) @ random.normal(size=(size, size))
    covariance, mean = np.cov(h.T, bias=True), h.mean(0)
    count = data.draw(st.integers(1, size - 1))
    is_prefix = data.draw(st.booleans())
    kept = np.arange(count) if is_prefix else random.permutation(size)[:count]
    dropped = np.setdiff1d(np.arange(size), kept)
    guess = moments_of(mean, covariance).guess(kept, dropped)

    ridge = RIDGE * covariance.trace() / size
    inside = covariance[np.ix_(kept, kept)] + ridge * np.eye(count)
    weights = np.linalg.solve(inside, covariance[np.ix_(kept, dropped)]).T
    # The two guesses differ by less than a fiftieth of what a filter moves. Coefficients may differ by more where kept
    # filters are nearly copies of each other: float16 has 11 bits, and the solution amplifies their rounding.
    difference = guess.weights - weights
    moved = np.sqrt(np.einsum("dk,kl,dl->d", difference, inside, difference) / np.diag(covariance)[dropped])
    assert moved.max() < 0.02
    assert np.allclose(guess.offset, mean[dropped] - guess.weights @ mean[kept], atol=1e-5)


@given(st.integers(1, 9), st.integers(1, 8), st.integers(0, 100), st.floats(0, 1e6))
@settings(max_examples=60)
def test_rank_deficient_moments_never_give_nan(size: int, rows: int, seed: int, loudness: float) -> None:
    h = np.random.default_rng(seed).normal(size=(rows, size)) * loudness
    h[:, 0] = 0  # a filter that never moves
    moments = moments_of(h.mean(0), np.cov(h.T, bias=True).reshape(size, size))
    for count in range(1, size):
        guess = moments.guess(np.arange(count), np.arange(count, size))
        assert np.isfinite(guess.weights).all() and np.isfinite(guess.offset).all()


def test_values_that_are_not_finite_are_refused() -> None:
    with pytest.raises(RheostatError, match="not finite"):
        moments_of(np.zeros(2), np.full((2, 2), np.nan))


def test_triangle_takes_two_bytes_a_value() -> None:
    moments = moments_of(np.zeros(10), np.eye(10))
    assert moments.factor.dtype == np.float16
    assert moments.size_bytes == 55 * 2 + 10 * 4 + 10 * 4


# The network in NumPy


@pytest.mark.parametrize("shape", [SHAPE, TINY["qrnn"]])
def test_numpy_network_gives_what_the_core_gives(shape: ModelShape) -> None:
    weights = make_weights(shape)
    ids = np.random.default_rng(0).integers(0, 11, 40)
    h = layer_outputs(Network(shape, weights), ids)[-1]
    core = CoreModel(ordered_bytes(weights, shape, make_vocabulary(11), "fp32"))
    state = core.start()
    output, bias = weights["embedding.weight"], weights["output.bias"]
    for step, word in enumerate(ids):
        state = core.step(core.full_position(), state, int(word))
        scores = core.log_probabilities(core.predict(core.full_position(), state))
        head = slice(0, shape.softmax_splits[0]) if shape.softmax_splits else slice(None)
        logits = output[head] @ h[step] + bias[head]
        assert np.allclose(scores[head] - scores[head].max(), logits - logits.max(), atol=2e-5)


# Cutting


def reconstruction_of(weights: dict[str, NDArray[Any]], seed: int = 3, count: int = 2000) -> Reconstruction:
    ids = np.random.default_rng(5).integers(0, 11, count)
    return calibrate(Network(SHAPE, weights), make_ranking(SHAPE, seed), ids, ORIGIN)


def test_whole_model_is_unchanged(tmp_path: Path, corpus: Path) -> None:
    reconstruct(write(tmp_path / "a.safetensors"), data=corpus, out=tmp_path / "b.safetensors")
    with open_model(tmp_path / "b.safetensors") as file:
        point = knob.choose(file, 1.0)
        assert point.reconstruction is None and point.is_full(file.shape)
        assert knob.choose(file, 1.0, ranking="other").reconstruction is None
        weights = file.stored_weights()
        small, _ = cut(weights, file.shape, replace(full_point(file.shape), reconstruction=file.reconstruction))
        assert all(small[name] is weights[name] for name in weights)


def test_the_prefix_of_unfolded_weights_is_the_reconstructed_model() -> None:
    """A start for training: all layers but the last, whose reader is also the embedding."""
    weights = {name: 2 * array for name, array in make_weights(SHAPE, 2).items()}
    ranking, found = make_ranking(SHAPE, 3), reconstruction_of(weights)
    point = best_of(ranking, SHAPE, (5, 4, SHAPE.hidden_sizes[-1]))
    expected, shape = cut(weights, SHAPE, replace(point, reconstruction=found))
    start = unfolded(weights, SHAPE, replace(point, reconstruction=found))
    small, same = cut(start, SHAPE, point)
    assert same == shape
    for name, array in expected.items():
        np.testing.assert_allclose(small[name], array, atol=1e-5, err_msg=name)
    assert all(np.shape(start[name]) == np.shape(weights[name]) for name in weights)
    assert start["embedding.weight"] is weights["embedding.weight"]


def test_the_whole_model_of_unfolded_weights_is_nearer_than_its_prefix() -> None:
    weights = {name: 2 * array for name, array in make_weights(SHAPE, 2).items()}
    found = reconstruction_of(weights)
    point = replace(best_of(make_ranking(SHAPE, 3), SHAPE, (5, 7, 6)), reconstruction=found)
    ids = np.random.default_rng(6).integers(0, 11, 1000)

    def outputs_of(some: Any, shape: ModelShape) -> NDArray[Any]:
        return layer_outputs(Network(shape, some), ids)[1]

    start, exact = unfolded(weights, SHAPE, point), outputs_of(weights, SHAPE)
    whole = np.abs(outputs_of(start, SHAPE) - exact).mean()
    prefix = np.abs(outputs_of(*cut(start, SHAPE, replace(point, reconstruction=None))) - exact).mean()
    assert whole < prefix


def test_cut_is_exact_where_dropped_filters_are_linear_in_kept_ones() -> None:
    """The last three filters of the middle layer are copies of its first three, with other readers."""
    weights = {name: 2 * array for name, array in make_weights(SHAPE, 2).items()}
    rows, bias = weights["layers.1.weight"].reshape(3, 7, -1), weights["layers.1.bias"].reshape(3, 7)
    rows[:, 4:] = rows[:, :3]
    bias[:, 4:] = bias[:, :3]
    ids = np.random.default_rng(5).integers(0, 11, 3000)
    network = Network(SHAPE, weights)
    ranking = replace(
        make_ranking(SHAPE), scores=tuple(-np.arange(size, dtype=np.float32) for size in SHAPE.hidden_sizes)
    )
    found = calibrate(network, ranking, ids, ORIGIN)
    sharp = replace(found, layers=tuple(_without_ridge(network, ids, layer) for layer in network.layers))
    point = replace(best_of(ranking, SHAPE, (8, 4, 6)), reconstruction=sharp)
    small, shape = cut(weights, SHAPE, point)
    exact, plain = layer_outputs(network, ids[:60]), cut(weights, SHAPE, replace(point, reconstruction=None))[0]
    ours = layer_outputs(Network(shape, small), ids[:60])
    lost = layer_outputs(Network(shape, plain), ids[:60])
    settled = slice(1, None)  # a window of two reads a zero before the text, for which the constant is not meant
    assert np.abs(ours[-1] - exact[-1])[settled].max() < 0.01
    assert np.abs(lost[-1] - exact[-1])[settled].max() > 0.1


def _without_ridge(network: Network, ids: NDArray[Any], layer: int) -> LayerMoments:
    h = layer_outputs(network, ids)[layer]
    return moments_of(h.mean(0), np.cov(h.T, bias=True), ridge=1e-6)


@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
def test_fold_equals_running_the_guess(precision: str, tmp_path: Path, corpus: Path) -> None:
    """A cut of one layer equals the whole model with that layer's dropped filters replaced by their guess."""
    path = write(tmp_path / "a.safetensors", precision=precision)
    reconstruct(path, data=corpus, out=path, widths="ranking")
    with open_model(path) as file:
        point = replace(best_of(file.ranking(), SHAPE, (8, 4, 6)), reconstruction=file.reconstruction)
        small, shape = cut(file.stored_weights(), SHAPE, point)
        found, weights = file.reconstruction, file.weights()
    assert found is not None
    small = {name: np.asarray(array, np.float32) for name, array in small.items() if not name.endswith(".scale")} | {
        name: np.asarray(small[name], np.float32) * small[f"{name}.scale"][:, None]
        for name in small
        if f"{name}.scale" in small
    }
    ids = np.random.default_rng(5).integers(0, 11, 40)
    whole, cut_network = Network(SHAPE, weights), Network(shape, small)
    values, states = whole.embed(ids[:, None]), whole.start(1)
    for layer in (0, 1):
        values, _ = whole.run(layer, values, states[layer])
    keep = point.keep[1]
    dropped, guess = found.guess(1, keep)
    values[..., dropped] = values[..., keep] @ guess.weights.T + guess.offset
    values, _ = whole.run(2, values, states[2])
    settled = values.reshape(40, -1)[8:]  # see above; the state of the last layer forgets the first word slowly
    assert np.abs(settled - layer_outputs(cut_network, ids)[-1][8:]).max() < 0.02


def test_it_guesses_better_than_dropping(tmp_path: Path, corpus: Path) -> None:
    path = write(tmp_path / "a.safetensors")
    with open_model(path) as file:
        weights = dict(file.weights())
    network = Network(SHAPE, weights)
    ids = np.random.default_rng(9).integers(0, 11, 300)
    exact = layer_outputs(network, ids)[-1] @ weights["embedding.weight"].T
    found = reconstruction_of(weights)
    errors = {}
    for name, reconstruction in (("plain", None), ("guess", found)):
        point = replace(select(make_ranking(SHAPE, 3), SHAPE, 0.7), reconstruction=reconstruction)
        small, shape = cut(weights, SHAPE, point)
        logits = layer_outputs(Network(shape, small), ids)[-1] @ small["output.weight"].T
        logits = logits + (small["output.bias"] - weights["output.bias"])
        errors[name] = float(((logits - exact) ** 2).mean())
    assert errors["guess"] < 0.7 * errors["plain"]


def test_gates_are_folded_after_the_guess_and_an_update_is_added_last() -> None:
    weights = dict(make_weights(SHAPE, 2))
    found = reconstruction_of(weights)
    bare = replace(make_point(SHAPE), updates=None, gates=None)
    guessed = cut(weights, SHAPE, replace(bare, reconstruction=found))[0]["layers.2.weight"]
    plain = cut(weights, SHAPE, bare)[0]["layers.2.weight"]
    full = replace(make_point(SHAPE), reconstruction=found)
    gate, update = full.gate(1), full.update(2)
    assert gate is not None and update is not None
    assert not np.allclose(guessed, plain, atol=1e-3)
    expected = guessed * np.tile(gate, 2) + update.u @ update.v
    assert np.allclose(cut(weights, SHAPE, full)[0]["layers.2.weight"], expected, atol=1e-5)


# Widths


def test_scores_by_error_keep_the_order_and_choose_the_widths() -> None:
    weights = dict(make_weights(SHAPE, 2))
    found, ranking = reconstruction_of(weights), make_ranking(SHAPE, 3)
    ids = np.random.default_rng(5).integers(0, 11, 400)
    new = rescored(Network(SHAPE, weights), found, ranking, ids, ORIGIN)
    assert new.comparable and new.criterion == f"{ranking.criterion}-by-error"
    for layer in range(len(SHAPE.hidden_sizes)):
        assert (new.order(layer) == ranking.order(layer)).all()
    points = [select(new, SHAPE, share) for share in (0.9, 0.7, 0.5)]
    assert all(point.flops_fraction <= share for point, share in zip(points, (0.9, 0.7, 0.5), strict=True))


# The file


def test_file_keeps_it_and_every_position_uses_it(tmp_path: Path, corpus: Path) -> None:
    path = tmp_path / "b.safetensors"
    stored = reconstruct(write(tmp_path / "a.safetensors"), data=corpus, out=path, points=["l0-0.5"])
    with open_model(path) as file:
        assert file.description.format_version == 2
        assert file.description.default_ranking == stored.ranking.name == "other-by-error"
        found = file.reconstruction
        assert found is not None and found.ranking == "other" and found.size_bytes == stored.size_bytes
        assert found.origin.tokens_read == stored.tokens and found.origin.corpus == "data"
        for name in (None, "random-3", "other"):
            assert knob.choose(file, 0.7, ranking=name).reconstruction is found
        point = file.point("l0-0.5-reconstructed")
        assert point.reconstruction is found and point.gates is not None
        assert file.point("l0-0.5").reconstruction is None
        assert point.digest != file.point("l0-0.5").digest
        evaluator = RuntimeEvaluator(file)
        ids = np.random.default_rng(0).integers(0, 11, 50)
        assert np.isfinite(evaluator.quality(knob.choose(file, 0.7), ids).loss)
        contents = file.contents()
    again = tmp_path / "c.safetensors"
    write_model(again, contents)
    assert again.read_bytes() == path.read_bytes()


def test_predictor_turns_the_knob_of_such_a_file(tmp_path: Path, corpus: Path) -> None:
    path = tmp_path / "b.safetensors"
    reconstruct(write(tmp_path / "a.safetensors"), data=corpus, out=path)
    with rheostat.load(path, knob=0.7) as predictor, rheostat.load(path) as whole:
        first = predictor.suggest("word3 word4")
        predictor.turn(1.0)
        assert predictor.suggest("word3 word4") == whole.suggest("word3 word4")
        predictor.turn(0.7)
        assert predictor.suggest("word3 word4") == first


def test_onnx_engine_agrees_with_the_core(tmp_path: Path, corpus: Path) -> None:
    pytest.importorskip("onnxruntime")
    path = tmp_path / "b.safetensors"
    reconstruct(write(tmp_path / "a.safetensors"), data=corpus, out=path)
    ids = np.random.default_rng(0).integers(0, 11, 50)
    with open_model(path) as file:
        point = knob.choose(file, 0.7)
        core, onnx = (RuntimeEvaluator(file, engine=engine).quality(point, ids).loss for engine in ("core", "onnx"))
    assert core == pytest.approx(onnx, abs=1e-4)


def test_dropping_it_restores_the_plain_file(tmp_path: Path, corpus: Path) -> None:
    path, packed = tmp_path / "b.safetensors", tmp_path / "c.safetensors"
    reconstruct(write(tmp_path / "a.safetensors"), data=corpus, out=path, widths="ranking", points=["l0-0.5"])
    summary = rheostat.pack(path, packed, drop_reconstruction=True)
    assert summary["reconstruction"] is None
    assert [point["name"] for point in summary["points"]] == ["l0-0.5"]
    assert packed.read_bytes() == _plain_copy(tmp_path).read_bytes()


def _plain_copy(folder: Path) -> Path:
    rheostat.pack(folder / "a.safetensors", folder / "d.safetensors")
    return folder / "d.safetensors"


def test_without_its_ranking_it_goes_too(tmp_path: Path, corpus: Path) -> None:
    path = tmp_path / "b.safetensors"
    reconstruct(write(tmp_path / "a.safetensors"), data=corpus, out=path, ranking="random-3", points=["l0-0.5"])
    with open_model(path) as file:
        left = drop_rankings(file.contents(), ["random-3"])
    assert left.reconstruction is None and [point.name for point in left.points] == ["l0-0.5"]


def test_such_a_file_cannot_be_ordered(tmp_path: Path, corpus: Path) -> None:
    path = tmp_path / "b.safetensors"
    ordered = tmp_path / "ordered.safetensors"
    rheostat.pack(write(tmp_path / "a.safetensors"), ordered, order=True)
    reconstruct(ordered, data=corpus, out=path)
    with open_model(path) as file:
        assert file.ordered is None
        with pytest.raises(OperatingPointError, match="drop the reconstruction"):
            order_filters(file.contents())
    packed = ["pack", str(path), "--order", "-o", str(ordered)]
    answer = CliRunner().invoke(app, packed)
    assert isinstance(answer.exception, OperatingPointError)
    assert "leave out --order, or add --drop-reconstruction" in str(answer.exception)
    assert CliRunner().invoke(app, [*packed, "--drop-reconstruction"], catch_exceptions=False).exit_code == 0


def test_broken_reconstructions_are_refused(tmp_path: Path, corpus: Path) -> None:
    path = tmp_path / "b.safetensors"

    def broken(edit: Any) -> str:
        reconstruct(write(tmp_path / "a.safetensors"), data=corpus, out=path, points=["l0-0.5"])
        rewrite(path, description=edit)
        with pytest.raises(ModelFileError) as caught:
            open_model(path)
        return str(caught.value)

    assert "in the order of ranking" in broken(lambda found: found["reconstruction"].update(ranking="absent"))
    assert "reconstructed" in broken(lambda found: found.pop("reconstruction"))
    assert "for reconstruction" in broken(lambda found: found.update(reconstruction=[1]))
    assert "true or false" in broken(lambda found: found["points"][1].update(reconstructed=3))


# Careless use


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tokens": 1}, "2 or more"),
        ({"tokens": True}, "a whole number"),
        ({"widths": "wide"}, "error, ranking"),
        ({"points": "l0-0.5"}, "a list"),
        ({"points": ["absent"]}, "absent"),
        ({"ranking": "absent"}, "absent"),
    ],
)
def test_careless_arguments_get_a_message(arguments: Any, message: str, tmp_path: Path, corpus: Path) -> None:
    with pytest.raises(RheostatError, match=message):
        reconstruct(write(tmp_path / "a.safetensors"), data=corpus, out=tmp_path / "b.safetensors", **arguments)
    assert not (tmp_path / "b.safetensors").exists()


def test_an_update_for_the_plain_cut_is_not_reused(tmp_path: Path, corpus: Path) -> None:
    path = write(tmp_path / "a.safetensors", points=[make_point(SHAPE)])
    with pytest.raises(OperatingPointError, match="recover"):
        reconstruct(path, data=corpus, out=tmp_path / "b.safetensors", points=["l0-0.5"])


def test_graded_and_unranked_models_get_a_message(tmp_path: Path, corpus: Path) -> None:
    graded = replace(make_ranking(SHAPE), name="graded", criterion="graded")
    path = write(tmp_path / "a.safetensors", rankings=[graded], default_ranking="graded")
    with pytest.raises(OperatingPointError, match="graded"):
        reconstruct(path, data=corpus, out=tmp_path / "b.safetensors")
    path = write(tmp_path / "a.safetensors", rankings=[], default_ranking=None)
    with pytest.raises(OperatingPointError, match="rheostat prune"):
        reconstruct(path, data=corpus, out=tmp_path / "b.safetensors")


def test_tiny_text_warns_and_never_gives_nan(tmp_path: Path, corpus: Path) -> None:
    path = tmp_path / "b.safetensors"
    with pytest.warns(RheostatWarning, match="few"):
        reconstruct(write(tmp_path / "a.safetensors"), data=corpus, out=path, tokens=2)
    with open_model(path) as file:
        small, _ = cut(file.stored_weights(), file.shape, knob.choose(file, 0.6))
        assert all(np.isfinite(array).all() for array in small.values())
    with pytest.raises(CorpusError, match="at least 2"):
        calibrate(Network(SHAPE, make_weights(SHAPE)), make_ranking(SHAPE), np.array([1]), ORIGIN)


def test_command_and_inspect(tmp_path: Path, corpus: Path) -> None:
    path, out = write(tmp_path / "a.safetensors"), tmp_path / "b.safetensors"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        printed = commands.rheostat("reconstruct", path, "--data", corpus, "-o", out, "--point", "l0-0.5", "--json")
    facts = json.loads(printed)
    assert facts["ranking"] == "other-by-error" and facts["points"] == ["l0-0.5-reconstructed"]
    summary = json.loads(commands.rheostat("inspect", out, "--json"))
    assert summary["reconstruction"]["bytes"] == facts["reconstruction_bytes"]
    assert summary["bytes_by_part"]["reconstruction"] == facts["reconstruction_bytes"]
    assert "by ranking other" in commands.rheostat("inspect", out)


def test_it_needs_no_torch() -> None:
    script = "import sys; sys.modules['torch'] = None; import rheostat; rheostat.reconstruct"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_points_know_whether_they_are_reconstructed() -> None:
    point = OperatingPoint("a", "", (np.arange(2, dtype=np.int32),))
    found = Reconstruction("r", (moments_of(np.zeros(3), np.eye(3)),), (np.arange(3),))
    assert "reconstructed" in repr(replace(point, reconstruction=found)) and "reconstructed" not in repr(point)


def test_biases_of_a_point_are_stored_added_and_moved(tmp_path: Path) -> None:
    bare = replace(make_point(SHAPE), updates=None, gates=None)
    biases = tuple(np.arange(3 * width, dtype=np.float32) / 8 for width in bare.widths)
    path = write(tmp_path / "a.safetensors", points=[replace(bare, biases=biases)])
    with open_model(path) as file:
        point, weights = file.point(bare.name), dict(file.stored_weights())
        assert point.update_bytes == 4 * sum(3 * width for width in bare.widths) and point.digest != bare.digest
        plain, added = cut(weights, SHAPE, bare)[0], cut(weights, SHAPE, point)[0]
        assert np.allclose(added["layers.1.bias"] - plain["layers.1.bias"], biases[1])
        ids = np.random.default_rng(0).integers(0, 11, 50)
        before = RuntimeEvaluator(file).quality(point, ids).loss
        ranking = file.ranking("random-3")
        moved, places = reorder(weights, SHAPE, ranking), reorder_point(point, SHAPE, ranking)
        assert not np.allclose(before, RuntimeEvaluator(file).quality(bare, ids).loss)
    same = Network(*reversed(cut(moved, SHAPE, places)))  # type: ignore[arg-type]
    ours = Network(*reversed(cut(weights, SHAPE, point)))  # type: ignore[arg-type]
    logits = [layer_outputs(one, ids)[-1] @ one.weights["output.weight"].T for one in (same, ours)]
    assert np.allclose(*logits, atol=1e-4)
    with pytest.raises(OperatingPointError, match="biases"):
        replace(bare, biases=(biases[2], *biases[1:])).check(SHAPE)
