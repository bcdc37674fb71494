"""Writing a model file: errors come before anything is written, and the old file survives."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models import (
    GOLDEN,
    TINY,
    make_point,
    make_ranking,
    make_vocabulary,
    make_weights,
    parts_of,
    rewrite,
    write_tiny,
)
from rheostat.errors import ModelFileError
from rheostat.model.cut import cut
from rheostat.model.file import open_model
from rheostat.model.operating_point import Ranking, full_point
from rheostat.model.origin import Origin


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_tiny(tmp_path / "tiny.safetensors")


def refused(tmp_path: Path, message: str, **changes: Any) -> str:
    path = tmp_path / "refused"
    with pytest.raises(ModelFileError, match=message) as caught:
        write_tiny(path, **changes)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir()), "nothing is left behind"
    return str(caught.value)


def refused_with_path(tmp_path: Path, message: str, **changes: Any) -> None:
    assert refused(tmp_path, message, **changes).startswith(f"{tmp_path / 'refused'}: ")


def test_wrong_weights_are_an_error(tmp_path: Path) -> None:
    shape = TINY["qrnn"]
    weights = make_weights(shape)
    bad = weights["layers.1.weight"].copy()
    bad[2, 3] = np.nan
    refused(tmp_path, "a value in layers.1.weight that is not finite", weights=weights | {"layers.1.weight": bad})
    refused(tmp_path, "1e.05 in output.bias", weights=weights | {"output.bias": np.full(11, 1e5)}, precision="fp16")
    bad[2, 3] = 1e33
    huge = weights | {"layers.1.weight": bad}
    refused(tmp_path, r"1e.33 in layers.1.weight; expected at most 1.27e.32 in int8", weights=huge, precision="int8")
    refused(tmp_path, "not finite", weights=weights | {"output.bias": np.full(11, 1e300)})
    refused(tmp_path, "weights decoder.weight; expected only", weights=weights | {"decoder.weight": bad})
    refused(tmp_path, r"of shape \[2, 2\]; expected \[18\]", weights=weights | {"layers.1.bias": np.zeros((2, 2))})
    refused(tmp_path, "no weights output.bias", weights={k: v for k, v in weights.items() if k != "output.bias"})
    refused(tmp_path, "a vocabulary of 3 words; expected 11 as in the shape", vocabulary=make_vocabulary(3))
    refused(tmp_path, "precision 'int4'; expected one of fp32, fp16, int8", precision="int4")


def test_an_impossible_write_is_an_error_with_the_path(tmp_path: Path) -> None:
    shape = TINY["qrnn"]
    ranking = make_ranking(shape)
    refused_with_path(tmp_path, "tokenizer 'bpe'", text={"tokenizer": "bpe"})
    refused_with_path(tmp_path, "that JSON cannot hold", provenance={"path": Path()})
    refused_with_path(tmp_path, "that JSON cannot hold", provenance={"rate": float("nan")})
    refused_with_path(tmp_path, "that JSON cannot hold", provenance={"half a character": "\ud800"})
    refused_with_path(tmp_path, "default_ranking 'x'", default_ranking="x")
    refused_with_path(tmp_path, "the name 'a b' in rankings", rankings=[replace(ranking, name="a b")])
    refused_with_path(tmp_path, "the name random twice in rankings", rankings=[ranking, ranking], default_ranking=None)
    refused_with_path(
        tmp_path, "ranking 'random' has scores", rankings=[Ranking("random", "", ())], default_ranking=None
    )
    refused_with_path(tmp_path, "point 'full' keeps filters out of order", points=[wrong_order(full_point(shape))])


def wrong_order(point: Any) -> Any:
    return replace(point, keep=(point.keep[0][::-1].copy(), *point.keep[1:]))


def test_a_cut_model_cannot_be_written(tmp_path: Path) -> None:
    shape = TINY["qrnn"]
    small, small_shape = cut(make_weights(shape), shape, make_point(shape))
    changes = {"shape": small_shape, "weights": small, "rankings": [], "points": [], "default_ranking": None}
    refused_with_path(tmp_path, "a last layer 2 wide; expected embedding_size 4", **changes)


def test_only_qrnn_files_have_rankings_and_points(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="rankings or points for cell lstm"):
        write_tiny(tmp_path / "m", "lstm", rankings=[make_ranking(TINY["lstm"])])


def test_writing_to_a_folder_or_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="found a folder; expected a regular file or an unused name; add"):
        write_tiny(tmp_path)
    with pytest.raises(ModelFileError, match=r"found no folder .*missing; expected an existing folder; create it"):
        write_tiny(tmp_path / "missing" / "model")
    with pytest.raises(ModelFileError, match="null"):
        write_tiny(tmp_path / "nul\0l")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of files")
def test_a_full_disk_leaves_the_old_file_intact(tiny: Path) -> None:
    import resource

    before = tiny.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limits[1]))
    try:
        with pytest.raises(ModelFileError, match=r"an error while writing \(File too large\)"):
            write_tiny(tiny, weights=make_weights(TINY["qrnn"], seed=9))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert tiny.read_bytes() == before
    assert list(tiny.parent.iterdir()) == [tiny]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, error: Any
) -> None:
    before = tiny.read_bytes()

    def fail(_: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises((ModelFileError, KeyboardInterrupt)):
        write_tiny(tiny, weights=make_weights(TINY["qrnn"], seed=9))
    assert tiny.read_bytes() == before
    assert list(tiny.parent.iterdir()) == [tiny]


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links and modes are POSIX's")
def test_writing_follows_links_and_keeps_the_mode(tiny: Path) -> None:
    link = tiny.with_name("link")
    link.symlink_to(tiny)
    tiny.chmod(0o640)
    write_tiny(link, weights=make_weights(TINY["qrnn"], seed=9))
    assert link.is_symlink()
    assert tiny.stat().st_mode & 0o777 == 0o640
    with open_model(tiny) as file:
        expected = make_weights(TINY["qrnn"], seed=9)["output.bias"]
        np.testing.assert_array_equal(file.tensor("output.bias"), expected)


# Versions and origins


def test_a_file_is_of_version_2_only_if_something_in_it_has_an_origin(tmp_path: Path) -> None:
    origin, shape = Origin(seed=0), TINY["qrnn"]
    recorded: list[dict[str, Any]] = [
        {"origin": origin},
        {"rankings": [replace(make_ranking(shape), origin=origin)], "default_ranking": None},
        {"points": [replace(make_point(shape), origin=origin)]},
    ]
    for changes in recorded:
        assert parts_of(write_tiny(tmp_path / "m", **changes))[1]["format_version"] == 2
    assert parts_of(write_tiny(tmp_path / "m"))[1]["format_version"] == 1


def test_a_version_1_file_has_no_origins_whatever_it_says(tiny: Path) -> None:
    rewrite(tiny, description=lambda d: d.update(origin="heaven") or d["points"][0].update(origin={"steps": 1}))
    with open_model(tiny) as file:
        assert not file.origin.is_recorded
        assert not file.points()[0].origin.is_recorded and not file.rankings()[0].origin.is_recorded


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ("heaven", "found origin of the weights is 'heaven'; expected an object"),
        ({"steps": 1.5}, r"found origin of the weights\.steps is 1\.5; expected a whole number"),
        ({"recipe": {"rate": 1e999}}, "a number that is too large"),
        ({"before": {"date": 7}}, r"found origin of the weights\.before\.date is 7; expected a text"),
    ],
)
def test_an_invalid_origin_is_not_written(tmp_path: Path, stored: Any, message: str) -> None:
    path = tmp_path / "broken"
    path.write_bytes((GOLDEN / "golden-version-2.safetensors").read_bytes())
    rewrite(path, description=lambda d: d.update(origin=stored))
    if message.startswith("a number"):
        path.write_bytes(path.read_bytes().replace(b"Infinity", b"1e999999"))
    with pytest.raises(ModelFileError, match=message):
        open_model(path)


def test_a_recipe_that_differs_from_the_origin_s_is_stored_too(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m", recipe={"a": 1}, origin=Origin(recipe={"b": 2}))
    with open_model(path) as file:
        assert file.description.recipe == {"a": 1} and file.origin.recipe == {"b": 2}
