"""Edits of a model file's contents change only what they name; everything else keeps its bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models import GOLDEN, TINY, golden_origins, make_point, make_ranking, make_weights, write_tiny
from rheostat.errors import ModelFileError, OperatingPointError
from rheostat.model.contents import (
    Contents,
    add_points,
    add_rankings,
    convert,
    drop_points,
    drop_rankings,
    keep_points,
    replace_weights,
    set_default_ranking,
)
from rheostat.model.file import open_model
from rheostat.model.knob import choose
from rheostat.model.precision import STORED_PRECISIONS
from rheostat.model.writer import write_model

GOLDEN_FILES = sorted({*GOLDEN.glob("golden-*.safetensors")} - {GOLDEN / "golden-without-checksums.safetensors"})


@pytest.fixture
def contents(tmp_path: Path) -> Contents:
    """Two rankings, random-3 by default and other, and two points, l0-0.5 and second."""
    return open_model(write_tiny(tmp_path / "tiny.safetensors")).contents()


def write_edited(source: Path, out: Path, edit: Callable[[Contents], Contents]) -> bytes:
    with open_model(source) as file:
        write_model(out, edit(file.contents()))
    return out.read_bytes()


@pytest.mark.parametrize("golden", GOLDEN_FILES, ids=lambda path: path.stem)
def test_a_file_written_again_has_the_same_bytes(golden: Path, tmp_path: Path) -> None:
    with open_model(golden) as file:
        precision = file.precision
    assert precision != "mixed"
    for edit in (lambda contents: contents, lambda contents: convert(contents, precision)):
        assert write_edited(golden, tmp_path / "out", edit) == golden.read_bytes()


@pytest.mark.parametrize("precision", STORED_PRECISIONS)
def test_converting_changes_the_precision_and_nothing_else(tmp_path: Path, precision: Any) -> None:
    floats, golden = GOLDEN / "golden-fp32.safetensors", GOLDEN / f"golden-{precision}.safetensors"
    converted = write_edited(floats, tmp_path / "out", lambda contents: convert(contents, precision))
    assert converted == golden.read_bytes()


def test_converting_int8_to_floats_keeps_its_values(tmp_path: Path) -> None:
    source = GOLDEN / "golden-int8.safetensors"
    write_edited(source, tmp_path / "floats", lambda contents: convert(contents, "fp32"))
    with open_model(source) as before, open_model(tmp_path / "floats") as after:
        assert after.precision == "fp32"
        for name, array in after.weights().items():
            np.testing.assert_array_equal(array, before.tensor(name))


def test_an_unknown_precision_is_named(contents: Contents) -> None:
    with pytest.raises(ModelFileError, match="precision 'int4'; expected one of fp32, fp16, int8"):
        convert(contents, "int4")  # type: ignore[arg-type]


def test_every_edit_keeps_all_origins(tmp_path: Path) -> None:
    shape, edits = TINY["qrnn"], (
        lambda contents: convert(contents, "fp16"),
        lambda contents: set_default_ranking(contents, "random-0"),
        lambda contents: drop_rankings(contents, ["random-0"]),
        lambda contents: drop_points(contents, ["plain"]),
        lambda contents: keep_points(contents, ["l0-0.5"]),
        lambda contents: add_rankings(contents, [make_ranking(shape, 0, "new")]),
        lambda contents: add_points(contents, [make_point(shape, "new")]),
    )  # fmt: skip
    for edit in edits:
        write_edited(GOLDEN / "golden-version-2.safetensors", tmp_path / "out", edit)
        with open_model(tmp_path / "out") as file:
            assert (file.origin, file.ranking("norm").origin, file.point("l0-0.5").origin) == golden_origins()


def names(contents: Contents) -> tuple[list[str], list[str], str | None]:
    rankings = [ranking.name for ranking in contents.rankings]
    return rankings, [point.name for point in contents.points], contents.default_ranking


def test_points_are_ordered_and_dropped(contents: Contents) -> None:
    both = ["random-3", "other"]
    assert names(contents) == (both, ["l0-0.5", "second"], "random-3")
    assert names(keep_points(contents, ["second", "l0-0.5"])) == (both, ["second", "l0-0.5"], "random-3")
    assert names(keep_points(contents, ["second"])) == (both, ["second"], "random-3")
    assert names(keep_points(contents, [])) == (both, [], "random-3")
    assert names(drop_points(contents, ["l0-0.5"])) == (both, ["second"], "random-3")
    for edit in (keep_points, drop_points):
        with pytest.raises(OperatingPointError, match=r"found no point 'x'; the model has: l0-0\.5, second"):
            edit(contents, ["x"])


def test_rankings_are_dropped_and_the_default_is_set(contents: Contents) -> None:
    points = ["l0-0.5", "second"]
    other = set_default_ranking(contents, "other")
    assert names(other) == (["random-3", "other"], points, "other")
    assert names(drop_rankings(contents, ["other"])) == (["random-3"], points, "random-3")
    assert names(drop_rankings(other, ["random-3"])) == (["other"], points, "other")
    assert names(drop_rankings(contents, ["random-3", "other"])) == ([], points, None)
    with pytest.raises(OperatingPointError, match="'random-3' is the default and cannot be dropped"):
        drop_rankings(contents, ["random-3"])
    with pytest.raises(OperatingPointError, match="found no ranking 'l0'; the model has: random-3, other"):
        drop_rankings(contents, ["l0"])
    with pytest.raises(OperatingPointError, match="no ranking 'l0'"):
        set_default_ranking(contents, "l0")


def test_an_added_point_replaces_one_of_the_same_name_or_comes_last(contents: Contents) -> None:
    shape = TINY["qrnn"]
    added = add_rankings(contents, [make_ranking(shape, 8, "other"), make_ranking(shape, 9, "new")])
    added = add_points(added, [replace(make_point(shape, "second"), gates=None), make_point(shape, "third")])
    assert names(added) == (["random-3", "other", "new"], ["l0-0.5", "second", "third"], "random-3")
    assert added.rankings[1].seed == 8 and added.points[1].gates is None


def test_the_first_ranking_added_becomes_the_default_unless_it_is_random(contents: Contents) -> None:
    bare, shape = drop_rankings(contents, ["random-3", "other"]), TINY["qrnn"]
    random = make_ranking(shape, 0, "first")
    norm, taylor = (replace(random, name=name, criterion=name) for name in ("filter-norm", "taylor"))
    assert add_rankings(bare, [random]).default_ranking is None
    assert add_rankings(bare, [random, norm, taylor]).default_ranking == "filter-norm"
    assert add_rankings(add_rankings(bare, [random]), [taylor]).default_ranking == "taylor"
    assert add_rankings(contents, [norm]).default_ranking == "random-3", "a default that was chosen stays"


def test_a_knob_with_only_random_rankings_says_how_to_use_them(contents: Contents, tmp_path: Path) -> None:
    bare, path = drop_rankings(contents, ["random-3", "other"]), tmp_path / "random.safetensors"
    random = add_rankings(keep_points(bare, []), [make_ranking(TINY["qrnn"], 0, "random-0")])
    write_model(path, random)
    with open_model(path) as file:
        with pytest.raises(
            OperatingPointError, match="name the ranking random-0, or run rheostat pack --default-ranking random-0"
        ):
            choose(file, 0.5)
        assert choose(file, 0.5, ranking="random-0").ranking == "random-0"
    write_model(path, set_default_ranking(random, "random-0"))
    with open_model(path) as file:
        assert choose(file, 0.5).ranking == "random-0"


def test_replaced_weights_are_stored_as_the_others_and_the_others_keep_their_bytes(contents: Contents) -> None:
    shape = replace(contents.shape, softmax_splits=(4,))
    clusters = {name: array for name, array in make_weights(shape, 5).items() if name.startswith("clusters.")}
    int8 = convert(contents, "int8")
    edited = replace_weights(int8, shape, clusters)
    assert edited.shape == shape and edited.precision == "int8"
    np.testing.assert_array_equal(edited.weights["clusters.bias"], clusters["clusters.bias"])
    for name, array in edited.weights.items():
        if not name.startswith("clusters."):
            assert array is int8.weights[name]


def test_all_weights_of_a_new_shape_are_required(contents: Contents) -> None:
    shape = replace(contents.shape, softmax_splits=(4,))
    with pytest.raises(ModelFileError, match=r"no weights clusters\.weight"):
        replace_weights(contents, shape, {})
    with pytest.raises(ModelFileError, match=r"weights decoder\.weight; expected only"):
        replace_weights(contents, shape, {"decoder.weight": np.zeros(1)})
