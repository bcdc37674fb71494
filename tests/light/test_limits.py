"""Files beyond the limits in docs/file-format.md are refused from their header, at once, in Python and in C."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rheostat
from models import TINY, make_point, make_ranking, make_vocabulary, make_weights, write_file, write_raw, write_tiny
from mutations import join
from rheostat.core.binding import CoreModel
from rheostat.core.build import FOLDER
from rheostat.errors import ModelFileError, RheostatError
from rheostat.model import container, description, precision, shape
from rheostat.model.contents import new_contents
from rheostat.model.operating_point import LARGEST_CHANGE, OperatingPoint, Update
from rheostat.model.ordered import order_filters
from rheostat.model.origin import Origin
from rheostat.model.shape import ModelShape
from rheostat.model.writer import write_model

TOO_LARGE = {
    "layers": (ModelShape(9, 2, (2,) * 17, (1,) * 17), "17 layers; expected at most 16"),
    "window": (ModelShape(9, 2, (2,), (17,)), "windows of 17; expected whole numbers from 1 to 16"),
    "clusters": (ModelShape(99, 2, (2,), (1,), tuple(range(2, 66))), "65 clusters of words; expected at most 64"),
    "5,000 layers": (ModelShape(9, 1, (1,) * 5000, (1,) * 5000), "5000 layers; expected at most 16"),
    "a window of a million": (ModelShape(2, 1, (1,), (10**6,)), "windows of 1000000; expected"),
}


def large_file(path: Path, large: ModelShape, extra: Mapping[str, Any] | None = None) -> Path:
    """A file of this shape, all zeros, as a writer without limits would write it; ordered, for the core."""
    about = {"format_version": 2, "cell": "qrnn", "shape": large.as_json(), "rankings": [{"name": "r"}]}
    about |= {"default_ranking": "r", "ordered": "r", **(extra or {})}
    header: dict[str, Any] = {"__metadata__": {"rheostat": json.dumps(about)}}
    sizes = {name: ("F32", size) for name, size in large.tensor_shapes().items()}
    sizes |= {f"rankings.r.{layer}": ("F32", (size,)) for layer, size in enumerate(large.hidden_sizes)}
    sizes |= {"path.cost": ("F32", (1,)), "path.widths": ("I32", (1, len(large.hidden_sizes)))}
    position = 0
    for name, (dtype, size) in sizes.items():
        end = position + 4 * int(np.prod(size))
        header[name] = {"dtype": dtype, "shape": list(size), "data_offsets": [position, end]}
        position = end
    words = make_vocabulary(large.vocabulary_size).to_bytes()
    header["vocabulary"] = {"dtype": "U8", "shape": [len(words)], "data_offsets": [position, position + len(words)]}
    text = json.dumps(header)
    text += " " * (-(8 + len(text)) % 8)
    path.write_bytes(join(text, bytes(position) + words))
    return path


@pytest.mark.parametrize("what", TOO_LARGE)
def test_a_shape_beyond_the_limits_is_refused(what: str, tmp_path: Path) -> None:
    large, message = TOO_LARGE[what]
    path = large_file(tmp_path / "large", large)
    with pytest.raises(ModelFileError, match=re.escape(message)):
        rheostat.open_model(path)
    with pytest.raises(RheostatError, match=r"model|layers|window|shape|description|header"):
        CoreModel(path.read_bytes())


@pytest.mark.parametrize("what", ["layers", "window", "clusters"])
def test_what_would_be_refused_is_not_written(what: str, tmp_path: Path) -> None:
    large, message = TOO_LARGE[what]
    contents = new_contents(large, make_vocabulary(large.vocabulary_size), make_weights(large), {})
    with pytest.raises(ModelFileError, match=re.escape(message)):
        write_model(tmp_path / "model", contents)
    assert not list(tmp_path.iterdir())


def test_the_largest_shapes_are_written_read_and_used(tmp_path: Path) -> None:
    """Every engine, with 64 clusters, 16 layers and windows of 16."""
    splits = tuple(range(100, 100 + 3 * 63, 3))
    large = ModelShape(300, 4, (4,) * 16, (16,) * 16, splits)
    write_file(
        tmp_path / "model",
        shape=large,
        vocabulary=make_vocabulary(300),
        weights=make_weights(large),
        text={"tokenizer": "words"},
        rankings=[make_ranking(large, 1, "first")],
        default_ranking="first",
    )
    answers = []
    for engine in ("core", "onnx"):
        if engine == "onnx":
            pytest.importorskip("onnxruntime")
        predictor = rheostat.load(tmp_path / "model", engine=engine, precision="fp32", slips=False)
        answers.append([one.word for one in predictor.suggest("word3 word4")])
    assert answers[0] == answers[1]


def test_a_header_of_99_megabytes_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "large"
    write_raw(path, b'{"__metadata__":{"rheostat":"{}"}}' + b" " * 99_000_000)
    with pytest.raises(ModelFileError, match=r"a header length of 990000\d+ in a file of .*; expected 2 to 4194304"):
        rheostat.open_model(path)
    with pytest.raises(RheostatError, match="the length of the header"):
        CoreModel(path.read_bytes())


def test_a_header_that_no_reader_takes_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="expected at most 4,194,304; drop some points"):
        write_tiny(tmp_path / "model", recipe={"note": "x" * 5_000_000})


def nested(levels: int) -> dict[str, Any]:
    """Tables in tables, with a number in the last."""
    return {"a": nested(levels - 1) if levels > 1 else 1}


@pytest.mark.parametrize("levels", [68, 69])
def test_a_key_that_is_not_known_is_as_deep_as_the_core_reads(levels: int, tmp_path: Path) -> None:
    path = large_file(tmp_path / "model", ModelShape(9, 2, (2,), (1,)), {"later": nested(levels)})
    if levels > description.MAXIMUM_WHOLE_DEPTH:
        with pytest.raises(ModelFileError, match="nested too deeply; expected at most 68 levels in all"):
            rheostat.open_model(path)
    else:
        rheostat.open_model(path).close()
    # Zeros are no path, but that is refused only once the description has been read.
    with pytest.raises(ModelFileError) as caught:
        CoreModel(path.read_bytes())
    assert ("description" in str(caught.value)) == (levels > description.MAXIMUM_WHOLE_DEPTH), caught.value


# Where something can be nested, and the levels of its own that an origin has around it.
PLACES = {"recipe": 0, "provenance": 0, "the origin of the weights": 1, "the origin of a ranking": 1}


@pytest.mark.parametrize("place", PLACES)
def test_what_python_writes_is_never_too_deep_for_the_core(place: str, tmp_path: Path) -> None:
    tiny, path, most = TINY["qrnn"], tmp_path / "model", 64 - PLACES[place]

    def write(levels: int) -> None:
        deep = nested(levels)
        ranking = make_ranking(tiny, 1, "first")
        contents = new_contents(tiny, make_vocabulary(tiny.vocabulary_size), make_weights(tiny), {})
        contents = replace(contents, rankings=(ranking,), default_ranking="first")
        match place:
            case "recipe" | "provenance":
                contents = replace(contents, **{place: deep})
            case "the origin of the weights":
                contents = replace(contents, origin=Origin(recipe=deep))
            case _:
                contents = replace(contents, rankings=(replace(ranking, origin=Origin(recipe=deep)),))
        write_model(path, order_filters(contents))

    write(most)
    CoreModel(path.read_bytes())
    rheostat.load(path, slips=False).suggest("word3")
    before = path.read_bytes()
    with pytest.raises(ModelFileError, match="a description nested too deeply; expected at most 64 levels"):
        write(most + 1)
    assert path.read_bytes() == before


def damaged_update(change: float, tmp_path: Path) -> Path:
    """A file with an update that was once small."""
    tiny = TINY["qrnn"]
    point = make_point(tiny)
    first = point.updates[1] if point.updates else None
    assert first is not None
    first.u[0, 0] = 0.2345  # found below, and replaced
    path = write_tiny(tmp_path / "model", points=[point])
    data, old = path.read_bytes(), np.float32(0.2345).tobytes()
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, np.float32(change).tobytes()))
    return path


@pytest.mark.parametrize("change", [1e31, 3e38])
def test_an_update_whose_product_overflows_is_refused(change: float, tmp_path: Path) -> None:
    path = damaged_update(change, tmp_path)
    message = r"an update of up to .* in layer 1"
    with rheostat.open_model(path, verify=False) as file, pytest.raises(ModelFileError, match=message):
        file.point("l0-0.5")
    with pytest.raises(RheostatError, match="an update of up to"):
        rheostat.load(path, point="l0-0.5", slips=False, verify=False)


def test_the_largest_update_gives_finite_weights(tmp_path: Path) -> None:
    from rheostat.model.cut import cut

    tiny = TINY["qrnn"]
    weights = {name: np.full(size, np.finfo(np.float32).max) for name, size in tiny.tensor_shapes().items()}
    half = make_point(tiny)
    assert half.updates and half.updates[1]
    u, v = (np.full(part.shape, (LARGEST_CHANGE / 2.1) ** 0.5, np.float32) for part in vars(half.updates[1]).values())
    updates = (half.updates[0], Update(u, v), half.updates[2])
    point = OperatingPoint(half.name, "l0", half.keep, updates=updates)
    point.check(tiny)
    small, _ = cut(weights, tiny, point)
    assert all(np.isfinite(array).all() for array in small.values())


def test_the_limits_are_those_of_the_core_and_of_the_page() -> None:
    header, source = (FOLDER / "rheostat.h").read_text(), (FOLDER / "model.c").read_text()
    assert f"#define RHEO_MAX_LAYERS {shape.MOST_LAYERS}\n" in header
    assert f"#define RHEO_MAX_CLUSTERS {shape.MOST_CLUSTERS} " in header
    assert f"#define RHEO_MAX_WINDOW {shape.LARGEST_WINDOW}\n" in header
    assert "MAX_HEADER_BYTES = 1 << 22," in source and container.MAXIMUM_HEADER_BYTES == 1 << 22
    assert "MAX_SIZE = 1 << 27," in source and shape.MAXIMUM_SIZE == 1 << 27
    assert "MAX_COLUMNS = 1 << 17 " in source and shape.MAXIMUM_WIDTH == 1 << 17
    assert f"MAX_DEPTH = {description.MAXIMUM_WHOLE_DEPTH}, " in source
    assert "MAX_DIMENSIONS = 8," in source and container.MAXIMUM_DIMENSIONS == 8
    assert "largest = (uint64_t)1 << 53;" in source and container.MAXIMUM_OFFSET == 1 << 53
    assert "MAX_COUNTED_WORDS = 1 << 16," in source and description.MOST_COUNTED_WORDS == 1 << 16
    assert "<= 1e30f" in source and precision.LARGEST_STORED_SCALE == 1e30
    page = (Path(__file__).parents[2] / "docs" / "file-format.md").read_text(encoding="utf-8")
    for limit in (
        f"| bytes of the header | {container.MAXIMUM_HEADER_BYTES:,} ",
        f"| layers | {shape.MOST_LAYERS} |",
        f"| words in a window | {shape.LARGEST_WINDOW} |",
        f"adaptive softmax | {shape.MOST_CLUSTERS} |",
        f"= {shape.MAXIMUM_SIZE:,} |",
        f"= {shape.MAXIMUM_WIDTH:,} |",
        f"any value of the description | {description.MAXIMUM_WHOLE_DEPTH} |",
        f"| dimensions of a tensor | {container.MAXIMUM_DIMENSIONS} |",
        "| a size or an offset | 2⁵³ |",
        "| a scale of an int8 matrix | 10³⁰ |",
    ):
        assert limit in page, limit
