"""The model file: everything written is read back, bytes are stable, and old files stay readable."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from models import (
    GOLDEN,
    TINY,
    make_golden,
    make_point,
    make_ranking,
    make_vocabulary,
    make_weights,
    parts_of,
    rewrite,
    shared_model,
    write_file,
    write_parts,
    write_tiny,
)
from rheostat.errors import ModelFileError, OperatingPointError
from rheostat.model import container
from rheostat.model.file import open_model
from rheostat.model.precision import (
    LARGEST_SCALE,
    STORED_PRECISIONS,
    StoredPrecision,
    all_finite,
    dequantize,
    quantize,
    widen,
)
from rheostat.model.shape import Cell, ModelShape
from rheostat.model.summary import bytes_by_part, summarize


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_tiny(tmp_path / "tiny.safetensors")


# Round trips


@pytest.mark.parametrize("precision", STORED_PRECISIONS)
@pytest.mark.parametrize("cell", list(TINY))
def test_weights_come_back(tmp_path: Path, cell: Cell, precision: StoredPrecision) -> None:
    weights = make_weights(TINY[cell])
    path = write_tiny(tmp_path / "model", cell, precision=precision)
    with open_model(path) as file:
        assert file.shape == TINY[cell]
        assert file.precision == precision
        found = file.weights()
    assert found.keys() == weights.keys()
    for name, array in found.items():
        assert array.dtype == np.float32
        if precision == "int8" and array.ndim == 2:
            largest = np.abs(weights[name]).max(axis=1, keepdims=True)
            assert (np.abs(array - weights[name]) <= largest / 254 + 1e-7).all()
        else:
            np.testing.assert_array_equal(array, weights[name])


def test_rankings_and_points_come_back(tiny: Path) -> None:
    shape = TINY["qrnn"]
    with open_model(tiny) as file:
        rankings, points = file.rankings(), file.points()
        assert file.description.default_ranking == "random-3"
        assert file.ranking().name == "random-3"
    for ranking, written in zip(
        rankings, [make_ranking(shape, 3, "random-3"), make_ranking(shape, 4, "other")], strict=True
    ):
        assert (ranking.name, ranking.criterion, ranking.seed) == (written.name, "random", written.seed)
        for found, scores in zip(ranking.scores, written.scores, strict=True):
            np.testing.assert_array_equal(found, scores)
    for point, original in zip(points, [make_point(shape), make_point(shape, "second", 1, 5)], strict=True):
        assert (point.name, point.criterion, point.preferred) == (original.name, "l0", True)
        assert point.flops_fraction == original.flops_fraction
        assert point.gates is not None
        assert point.updates is not None
        assert point.gates[0] is None
        assert point.updates[0] is None
        for layer in range(3):
            np.testing.assert_array_equal(point.keep[layer], original.keep[layer])
            if layer:
                update, written_update = point.update(layer), original.update(layer)
                assert update is not None
                assert written_update is not None
                np.testing.assert_array_equal(point.gates[layer], (original.gates or ())[layer])
                np.testing.assert_array_equal(update.u, written_update.u)
                np.testing.assert_array_equal(update.v, written_update.v)


def test_text_recipe_and_provenance_come_back(tmp_path: Path) -> None:
    text = {"tokenizer": "words", "language": "ü", "nested": {"a": [1, 2.5, None, True]}}
    casing = {"word3": "Word3"}
    path = write_tiny(
        tmp_path / "model", text=text, casing=casing, recipe={"train": {"seed": 0}}, provenance={"commit": "ab"}
    )
    with open_model(path) as file:
        assert file.description.text == text
        assert file.tokenizer == "words"
        assert file.casing == casing
        assert file.description.recipe == {"train": {"seed": 0}}
        assert file.description.provenance == {"commit": "ab"}
        assert file.vocabulary.words == make_vocabulary(11).words


def test_missing_keys_are_empty(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m", text={}, rankings=[], points=[], default_ranking=None)
    _, description, _ = parts_of(path)
    assert set(description) == {"format_version", "cell", "shape"}
    del description["cell"]
    rewrite(path, description=lambda d: d.pop("cell"))
    with open_model(path) as file:
        assert (file.description.cell, file.tokenizer) == ("qrnn", "ptb")
        assert (file.description.text, file.description.recipe, file.casing) == ({}, {}, {})
        assert (file.rankings(), file.points(), file.description.default_ranking) == ([], [], None)


def test_a_seed_of_zero_is_kept(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m", rankings=[make_ranking(TINY["qrnn"], 0)], default_ranking=None)
    with open_model(path) as file:
        assert file.ranking("random").seed == 0


def test_halves_become_floats_to_the_bit() -> None:
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)]
    assert widen(finite).tobytes() == finite.astype(np.float32).tobytes()
    turned = finite[:1000].reshape(10, 100).T  # not contiguous
    np.testing.assert_array_equal(widen(turned), turned)


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_values_that_are_not_finite_are_found(kind: type[np.floating[Any]]) -> None:
    largest = np.finfo(kind).max
    fine = np.array([0, -0.0, 1, -1, largest, -largest, 6e-8, -6e-8], kind)
    assert all_finite(fine) and all_finite(fine[:0])
    for wrong in (np.inf, -np.inf, np.nan, -np.nan):
        assert not all_finite(np.append(fine, kind(wrong)))


def test_zero_rows_and_extreme_rows_survive_int8() -> None:
    largest = np.finfo(np.float32).max
    matrix = np.array([[0, 0], [largest, -largest], [1e-45, 0], [1, -0.5]], np.float32)
    integers, scale = quantize(matrix)
    values = dequantize(integers, scale)
    assert np.isfinite(values).all()
    assert (scale > 0).all()
    assert (scale <= LARGEST_SCALE).all()
    assert integers[1].tolist() == [127, -127]
    np.testing.assert_allclose(values[[0, 1, 3]], matrix[[0, 1, 3]], rtol=0.01)


# Bytes


@pytest.mark.parametrize("precision", STORED_PRECISIONS)
def test_golden_bytes_of_version_1(tmp_path: Path, precision: StoredPrecision) -> None:
    make_golden(tmp_path / "model", precision)
    golden = GOLDEN / f"golden-{precision}.safetensors"
    assert (tmp_path / "model").read_bytes() == golden.read_bytes()
    assert parts_of(golden)[1]["format_version"] == 1


def test_golden_bytes_of_version_2(tmp_path: Path) -> None:
    make_golden(tmp_path / "model", "int8", version=2)
    golden = GOLDEN / "golden-version-2.safetensors"
    assert (tmp_path / "model").read_bytes() == golden.read_bytes()
    assert parts_of(golden)[1]["format_version"] == 2


def test_version_2_differs_from_version_1_only_by_its_origins() -> None:
    _, first, tensors = parts_of(GOLDEN / "golden-int8.safetensors")
    _, second, same_tensors = parts_of(GOLDEN / "golden-version-2.safetensors")
    assert same_tensors == tensors
    recipe = second["origin"]["recipe"]
    for entry in (second, *second["rankings"], *second["points"]):
        entry.pop("origin", None)
    assert second | {"format_version": 1, "recipe": recipe} == first, "a recipe is stored once"


@pytest.mark.parametrize("precision", STORED_PRECISIONS)
def test_the_safetensors_library_reads_the_same(precision: StoredPrecision) -> None:
    path = GOLDEN / f"golden-{precision}.safetensors"
    tensors = load_file(path)
    with open_model(path) as file:
        assert set(file.stored_weights()) <= set(tensors)
        for name, array in file.stored_weights().items():
            np.testing.assert_array_equal(array, tensors[name])
            assert array.dtype == tensors[name].dtype
    with safe_open(path, framework="numpy") as opened:
        assert json.loads(opened.metadata()["rheostat"])["format_version"] == 1


def test_every_tensor_is_aligned() -> None:
    for precision in STORED_PRECISIONS:
        header, _, _ = parts_of(GOLDEN / f"golden-{precision}.safetensors")
        for name, entry in header.items():
            if name != "__metadata__":
                assert entry["data_offsets"][0] % container.DTYPES[entry["dtype"]].itemsize == 0


def test_keys_of_later_writers_are_ignored(tiny: Path) -> None:
    rewrite(tiny, description=lambda d: d.update(comment="hello") or d["points"][0].update(perplexity=60.7))
    with open_model(tiny) as file:
        assert len(file.points()) == 2


def test_a_file_of_another_writer_may_be_unaligned_and_in_any_order(tiny: Path) -> None:
    with open_model(tiny) as file:
        weights = {name: array.copy() for name, array in file.weights().items()}
    header, description, data = parts_of(tiny)
    tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
    names = sorted(tensors, key=lambda name: (name != "vocabulary", name))
    moved, position, blocks = {}, 0, []
    for name in names:
        begin, end = tensors[name]["data_offsets"]
        blocks.append(data[begin:end])
        offsets = [position, position + end - begin]
        moved[name] = {"data_offsets": offsets, "dtype": tensors[name]["dtype"], "shape": tensors[name]["shape"]}
        position = offsets[1]
    vocabulary_bytes = len(blocks[0])
    assert vocabulary_bytes % 4, "so that what follows is unaligned"
    header = {**{name: moved[name] for name in reversed(names)}, "__metadata__": header["__metadata__"]}
    write_parts(tiny, header, description, b"".join(blocks))
    with open_model(tiny) as file:
        for name, array in file.weights().items():
            np.testing.assert_array_equal(array, weights[name])
            assert array.flags.aligned
        assert len(file.points()) == 2


# Opening


def test_large_headers_are_read_whole(tmp_path: Path) -> None:
    shape = ModelShape(5, 2, (2,) * 16, (1,) * 16)
    weights, recipe = make_weights(shape), {"note": "x" * 3 * container.FIRST_READ_BYTES}
    write_file(tmp_path / "deep", shape=shape, vocabulary=make_vocabulary(5), weights=weights, text={}, recipe=recipe)
    with open_model(tmp_path / "deep") as file:
        assert bytes_by_part(file)["header"] > 2 * container.FIRST_READ_BYTES
        assert len(file.weights()) == 34


def test_bytes_by_part_add_up_to_the_file(tiny: Path) -> None:
    with open_model(tiny) as file:
        parts = bytes_by_part(file)
        assert sum(parts.values()) == tiny.stat().st_size == file.file_bytes
    assert {"header", "embedding", "output", "clusters", "layers.0", "layers.2", "vocabulary"} <= set(parts)
    assert {"rankings", "points"} <= set(parts)


def test_summary_is_json_and_counts_with_the_shape(tiny: Path) -> None:
    with open_model(tiny) as file:
        summary = json.loads(json.dumps(summarize(file), allow_nan=False))
    assert summary["parameters"] == TINY["qrnn"].parameters
    assert summary["flops"] == TINY["qrnn"].flops
    assert [point["name"] for point in summary["points"]] == ["l0-0.5", "second"]
    assert [point["update_rank"] for point in summary["points"]] == [2, 1]
    assert summary["points"][0]["widths"] == [3, 3, 2]


def test_arrays_outlive_the_file_and_its_replacement(tiny: Path) -> None:
    before = make_weights(TINY["qrnn"])
    file = open_model(tiny)
    bias = file.tensor("output.bias")
    write_tiny(tiny, weights=make_weights(TINY["qrnn"], seed=9))
    np.testing.assert_array_equal(file.tensor("embedding.weight"), before["embedding.weight"])
    file.close()
    np.testing.assert_array_equal(bias, before["output.bias"])
    with pytest.raises(ModelFileError, match="the model file is closed"):
        file.tensor("output.bias")
    file.close()


def test_a_file_replaced_before_its_first_use_is_the_old_one(tiny: Path) -> None:
    with open_model(tiny) as file:
        write_tiny(tiny, weights=make_weights(TINY["qrnn"], seed=9))
        expected = make_weights(TINY["qrnn"])["output.bias"]
        np.testing.assert_array_equal(file.tensor("output.bias"), expected)


def test_a_file_cut_short_after_opening_is_an_error(tiny: Path) -> None:
    with open_model(tiny) as file:
        os.truncate(tiny, 100)
        with pytest.raises(ModelFileError, match="was written to while it was in use"):
            file.tensor("output.bias")


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's list of mappings")
def test_mapped_pages_can_be_released(tiny: Path) -> None:
    def is_mapped() -> bool:
        return str(tiny) in Path("/proc/self/maps").read_text()

    with open_model(tiny) as file:
        before = file.tensor("output.bias").copy()
        assert is_mapped()
        file.release()
        assert not is_mapped()
        array = file.tensor("output.bias")
        file.release()
        np.testing.assert_array_equal(array, before)


def test_mapped_weights_cannot_be_written_to(tiny: Path) -> None:
    with open_model(tiny) as file:
        weight = file.tensor("embedding.weight")
    with pytest.raises(ValueError, match="read-only"):
        weight[0, 0] = 1


def test_an_unknown_name_is_an_error_that_lists_the_known_ones(tiny: Path) -> None:
    with open_model(tiny) as file:
        with pytest.raises(OperatingPointError, match="found no ranking 'l0'; the file has: random-3, other"):
            file.ranking("l0")
        with pytest.raises(OperatingPointError, match=r"found no point 'x'; the file has: l0-0\.5, second"):
            file.point("x")
        with pytest.raises(ModelFileError, match="no weights named 'vocabulary'"):
            file.tensor("vocabulary")


def test_opening_reads_no_weights() -> None:
    """Resident memory of a process: before and after opening the full-size file, and after using one tensor."""
    path = shared_model()
    script = f"""
import psutil
from rheostat.model.file import open_model
from rheostat.model.summary import summarize
summarize(open_model({str(GOLDEN / "golden-fp16.safetensors")!r}))
resident = lambda: psutil.Process().memory_info().rss
before = resident()
file = open_model({str(path)!r})
opened = resident()
used = file.raw("layers.1.weight").sum(dtype="float32")
print(opened - before, resident() - opened)
"""
    answer = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    opening, using = map(int, answer.stdout.split())
    assert opening < 300_000
    assert using > 14_000_000


def test_the_shared_model_is_read() -> None:
    with open_model(shared_model()) as file:
        assert file.shape.parameters == 24_020_150
        assert (file.precision, file.tokenizer) == ("fp16", "ptb")
        assert len(file.vocabulary) == 10_000
        weights = file.weights()
    assert {name: array.shape for name, array in weights.items()} == file.shape.tensor_shapes()
