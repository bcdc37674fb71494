"""Other clusters for a trained output layer: fewer words opened, nearly the same distribution, nothing else changed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from models import make_point, make_ranking, make_vocabulary, make_weights, write_file
from rheostat.cli import app
from rheostat.errors import OperatingPointError
from rheostat.model.clusters import split_places
from rheostat.model.contents import convert, replace_weights
from rheostat.model.file import open_model
from rheostat.model.knob import choose
from rheostat.model.operating_point import full_point
from rheostat.model.precision import StoredPrecision
from rheostat.model.shape import ModelShape
from rheostat.model.writer import write_model
from rheostat.pruning.resplit import NewClusters, find_clusters, fit_clusters, store, stretches, take_sample
from rheostat.training.evaluation import PointEvaluator

SHAPE = ModelShape(60, 12, (8, 12), (2, 1), (20, 40))
IDS = np.random.default_rng(7).integers(0, 60, 4000)


def write_skewed(path: Path, shape: ModelShape = SHAPE) -> Path:
    """A model with frequent words and rare ones."""
    weights = make_weights(shape)
    weights["output.bias"] = -0.15 * np.arange(shape.vocabulary_size, dtype=np.float32)
    if shape.softmax_splits:
        weights["clusters.bias"] = np.full(len(shape.softmax_splits), -1, np.float32)
    write_file(
        path,
        shape=shape,
        vocabulary=make_vocabulary(shape.vocabulary_size),
        weights=weights,
        text={"tokenizer": "ptb"},
        rankings=[make_ranking(shape)],
        points=[make_point(shape)],
        default_ranking="random",
    )
    return path


def resplit(source: Path, out: Path, tails: int | None) -> NewClusters:
    with open_model(source) as file:
        points = [full_point(file.shape), *file.points()]
        found = find_clusters(file, points, IDS, IDS[::-1], 2000, tails)
        store(file, found, out)
    return found


def log_probabilities(path: Path) -> np.ndarray:
    with open_model(path) as file, torch.inference_mode():
        model = PointEvaluator(file).model(full_point(file.shape))
        ids = torch.from_numpy(IDS[:200, None].astype(np.int64))
        return np.asarray(model.log_probabilities(model(ids, model.initial_state(1)).dropped[:, 0]))


@pytest.mark.parametrize("shape", [SHAPE, replace(SHAPE, softmax_splits=())], ids=["adaptive", "plain"])
def test_the_distribution_stays_nearly_as_it_was(tmp_path: Path, shape: ModelShape) -> None:
    source, out = write_skewed(tmp_path / "source.safetensors", shape), tmp_path / "out.safetensors"
    found = resplit(source, out, 5)
    assert len(found.splits) == 5 and set(shape.softmax_splits) <= set(found.splits)
    old, new = log_probabilities(source), log_probabilities(out)
    divergence = (np.exp(old) * (old - new)).sum(axis=1).mean()
    assert 0 <= divergence < 1e-3
    assert found.divergence < 1e-3 and found.perplexity_ratio == pytest.approx(1, abs=0.01)
    np.testing.assert_allclose(np.exp(new).sum(axis=1), 1, atol=1e-5)


def test_within_a_cluster_nothing_changes(tmp_path: Path) -> None:
    source, out = write_skewed(tmp_path / "source.safetensors"), tmp_path / "out.safetensors"
    splits = resplit(source, out, 6).splits
    old, new = log_probabilities(source), log_probabilities(out)
    for first, last in zip((0, *splits), (*splits, SHAPE.vocabulary_size), strict=True):
        within = [scores[:, first:last] - scores[:, first : first + 1] for scores in (old, new)]
        np.testing.assert_allclose(within[1], within[0], atol=2e-5)


@pytest.mark.parametrize("name", ["full", "l0-0.5"])
def test_a_sample_agrees_with_the_rows_of_the_old_clusters(tmp_path: Path, name: str) -> None:
    """This needs masses, normaliser, kept filters and gates to be right."""
    with open_model(write_skewed(tmp_path / "source.safetensors")) as file:
        point = full_point(SHAPE) if name == "full" else file.point(name)
        assert name == "full" or point.gate(1) is not None
        places = split_places(60)
        (texts,) = stretches(IDS, 500)
        sample = take_sample(PointEvaluator(file).model(point), texts, point, SHAPE, places)
        rows = np.column_stack([file.tensor("clusters.weight"), file.tensor("clusters.bias")])
    found = sample.hidden @ rows.T - sample.normalizer[:, None]
    np.testing.assert_allclose(found, sample.log_masses(SHAPE.softmax_splits, places)[:, 1:], atol=2e-5)
    np.testing.assert_allclose(np.exp(sample.log_masses((20, 40), places)).sum(axis=1), 1, atol=1e-5)


def test_a_point_still_serves_its_knob_position(tmp_path: Path) -> None:
    """More clusters cost a few more FLOPs; a point must not miss its knob position because of them."""
    shape = ModelShape(3000, 12, (8, 12), (2, 1), (1000, 2000))
    source, out = write_skewed(tmp_path / "source.safetensors", shape), tmp_path / "out.safetensors"
    with open_model(source) as file:
        (point,) = file.points()
        found = NewClusters(
            (1000, 1500, 2000), np.zeros((3, 12), np.float32), np.zeros(3, np.float32), 0.0, 1.0, (1.0, 1.0)
        )
        store(file, found, out)
        knob = point.flops_fraction
    with open_model(out) as file:
        assert file.point("l0-0.5").flops_fraction != knob
        assert choose(file, knob).digest == point.digest


def test_nothing_is_written_if_nothing_is_gained(tmp_path: Path) -> None:
    source, out = write_skewed(tmp_path / "source.safetensors", replace(SHAPE, softmax_splits=())), tmp_path / "out"
    with pytest.raises(OperatingPointError, match="no other clusters make a query cheaper"):
        resplit(source, out, None)  # checking costs more than all sixty words
    assert not out.exists()


def test_a_cluster_of_equal_words_is_fitted_exactly(tmp_path: Path) -> None:
    """The logarithm of a sum of equals is linear in the hidden state."""
    shape = replace(SHAPE, softmax_splits=())
    source, out = write_skewed(tmp_path / "source.safetensors", shape), tmp_path / "out.safetensors"
    with open_model(source) as file:
        weights = {name: array.copy() for name, array in file.weights().items()}
        for first, last in ((30, 45), (45, 60)):
            for tensor in (weights["embedding.weight"], weights["output.bias"]):
                tensor[first:last] = tensor[first]
        equal = tmp_path / "equal.safetensors"
        write_model(equal, replace_weights(file.contents(), shape, weights))
    with open_model(equal) as file:
        point, places = full_point(shape), split_places(60)
        model = PointEvaluator(file).model(point)
        (texts,) = stretches(IDS, 1000)
        sample = take_sample(model, texts, point, shape, places)
        weight, bias = fit_clusters(file, sample, (30, 45), places)
        store(file, NewClusters((30, 45), weight, bias, 0, 1, (1, 1)), out)
    np.testing.assert_allclose(log_probabilities(out), log_probabilities(equal), atol=2e-3)


@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
def test_everything_else_keeps_its_bytes(tmp_path: Path, precision: StoredPrecision) -> None:
    written = write_skewed(tmp_path / "written.safetensors")
    source, out = tmp_path / "source.safetensors", tmp_path / "out.safetensors"
    with open_model(written) as file:
        write_model(source, convert(file.contents(), precision))
    found = resplit(source, out, 4)
    with open_model(source) as before, open_model(out) as after:
        assert after.shape == replace(before.shape, softmax_splits=found.splits)
        assert after.precision == before.precision == precision
        for name, array in before.stored_weights().items():
            if not name.startswith("clusters."):
                assert array.tobytes() == after.stored_weights()[name].tobytes(), name
        assert [point.digest for point in after.points()] == [point.digest for point in before.points()]
        np.testing.assert_array_equal(after.ranking().scores[0], before.ranking().scores[0])
        assert after.points()[0].flops_fraction == after.shape.flops_fraction(after.points()[0].widths)


def test_fewer_words_are_opened(tmp_path: Path) -> None:
    """Checking is expensive compared with clusters of a few words, so the number of clusters is set."""
    source = write_skewed(tmp_path / "source.safetensors")
    before, after = resplit(source, tmp_path / "out.safetensors", 8).multiplications
    assert after < before <= SHAPE.output_size * (SHAPE.vocabulary_size + 2)


def test_clusters_can_only_be_split_further(tmp_path: Path) -> None:
    source = write_skewed(tmp_path / "source.safetensors")
    with pytest.raises(
        OperatingPointError, match="2 tails were asked for, but this output layer already has 2: expected 3"
    ):
        resplit(source, tmp_path / "out.safetensors", 2)
    with pytest.raises(OperatingPointError, match=r"99 tails .* can have at most 16: expected 3 to 16"):
        resplit(source, tmp_path / "out.safetensors", 99)


def test_the_command_prints_the_result(tmp_path: Path) -> None:
    source = write_skewed(tmp_path / "source.safetensors")
    with open_model(source) as file:
        words = [file.vocabulary.words[i] for i in IDS]
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.txt").write_text("\n".join(" ".join(words[i : i + 50]) for i in range(0, 4000, 50)))
    out = tmp_path / "out.safetensors"
    command = ["resplit", str(source), "--data", str(tmp_path), "-o", str(out), "--tails", "5", "--tokens", "1000"]
    result = CliRunner().invoke(app, [*command, "--knob", "0.8", "--json"])
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    with open_model(out) as file:
        assert list(file.shape.softmax_splits) == facts["splits"]
    result = CliRunner().invoke(app, command)
    assert "5 tail clusters, starting at words" in result.stdout and "perplexity" in result.stdout
