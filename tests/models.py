"""Small models for the tests, and the shared full-size one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rheostat.model.contents import keep_upper_planes, new_contents
from rheostat.model.file import open_model
from rheostat.model.operating_point import OperatingPoint, Ranking, Update
from rheostat.model.ordered import order_filters
from rheostat.model.origin import Origin
from rheostat.model.precision import StoredPrecision
from rheostat.model.shape import Cell, ModelShape
from rheostat.model.writer import write_model
from rheostat.text.vocabulary import END_OF_LINE, UNKNOWN, Vocabulary

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "data"

JsonObject = dict[str, Any]

PTB_QRNN = ModelShape(10_000, 400, (1550, 1550, 1550, 400), (2, 1, 1, 1))
WT103_QRNN = ModelShape(267_735, 400, (2500, 2500, 2500, 400), (2, 1, 1, 1), (2_800, 20_000, 76_000))

TINY: dict[Cell, ModelShape] = {
    "qrnn": ModelShape(11, 4, (5, 6, 4), (2, 1, 3), (5, 8)),
    "lstm": ModelShape(9, 4, (5, 4), (1, 1), cell="lstm"),
    "skip-lstm": ModelShape(9, 3, (5, 5), (), cell="skip-lstm"),
}


def shared_model(name: str = "ptb-qrnn.safetensors") -> Path:
    """A file in `$RHEOSTAT_MODELS` (by default ../shared/models); skips the test if it is missing."""
    models = ROOT / os.environ.get("RHEOSTAT_MODELS", "../shared/models")
    if not (models / name).is_file():
        pytest.skip(f"no {name} in {models}; RHEOSTAT_MODELS names the folder of the shared models")
    return models / name


def make_vocabulary(size: int) -> Vocabulary:
    return Vocabulary((UNKNOWN, END_OF_LINE, *(f"word{index}" for index in range(2, size))))


def make_weights(shape: ModelShape, seed: int = 0, dtype: Any = np.float32) -> dict[str, NDArray[Any]]:
    """Weights in steps of 1/64 below 1/2 in absolute value: every precision except int8 stores them exactly."""
    random = np.random.default_rng(seed)
    return {name: (random.integers(-31, 32, size) / 64).astype(dtype) for name, size in shape.tensor_shapes().items()}


def write_file(path: Path, **everything: Any) -> None:
    """A model file of new weights. everything: what `new_contents` takes, and fields of `Contents`."""
    new = {"shape", "vocabulary", "weights", "text", "casing", "precision"}
    contents = new_contents(**{name: value for name, value in everything.items() if name in new})
    rest = {name: value for name, value in everything.items() if name not in new}
    for name in {"rankings", "points"} & set(rest):
        rest[name] = tuple(rest[name])
    write_model(path, replace(contents, **rest))


def make_golden(path: Path, precision: StoredPrecision, version: int = 1) -> None:
    """A model with everything that a file can hold, from plain arithmetic: the same bytes on every machine."""
    shape = TINY["qrnn"]
    keep = tuple(np.arange(0, size, 2, dtype=np.int32) for size in shape.hidden_sizes)
    widths = [len(kept) for kept in keep]
    gates = tuple(None if width == 2 else np.linspace(0.25, 1, width, dtype=np.float32) for width in widths)
    updates = tuple(
        Update(_steps(u, 3), _steps(v, 5)) for u, v in shape.with_hidden_sizes(widths).update_shapes(rank=2)
    )
    trained, ranked, learned = golden_origins() if version == 2 else (Origin(), Origin(), Origin())
    write_file(
        path,
        shape=shape,
        vocabulary=make_vocabulary(shape.vocabulary_size),
        weights={name: _steps(size, 7) for name, size in shape.tensor_shapes().items()},
        text={"tokenizer": "words", "language": "en"},
        casing={"word3": "Word3", "word5": "WORD5"},
        rankings=[
            Ranking("random-0", "random", tuple(_steps((size,), 3) for size in shape.hidden_sizes), 0),
            Ranking("norm", "filter-norm", tuple(_steps((size,), 5) for size in shape.hidden_sizes), origin=ranked),
        ],
        points=[
            OperatingPoint("l0-0.5", "l0", keep, gates, updates, preferred=True, origin=learned),
            OperatingPoint("plain", "random", keep, flops_fraction=0.5),
        ],
        default_ranking="norm",
        recipe={"train": {"epochs": 2, "rates": [0.1, 30]}},
        provenance={"corpus": 'a Ümlaut, "quoted"', "seed": 1},
        origin=trained,
        precision=precision,
    )


def make_golden_ordered(path: Path, bits: int = 8) -> None:
    """The golden model of version 2, ordered: in two planes, or in the upper ones alone."""
    with open_model(GOLDEN / "golden-version-2.safetensors") as file:
        ordered = order_filters(file.contents())
        write_model(path, ordered if bits == 8 else keep_upper_planes(ordered))


def golden_origins() -> tuple[Origin, Origin, Origin]:
    """Origins of the weights, of a ranking with few facts, and of a point that links to the ranking's."""
    recipe = {"train": {"epochs": 2, "rates": [0.1, 30]}}
    trained = Origin(
        "rheostat train ptb",
        recipe,
        1400,
        3_802_440,
        0,
        "ptb",
        "00ff",
        "1234abcd",
        "0.1.0",
        "2026-11-16T05:54:38+00:00",
    )
    ranked = Origin(command='rheostat prune "ä"', steps=0)
    return trained, ranked, Origin("rheostat recover", {"update": {"rank": 2}}, 200, seed=1).after(ranked)


def _steps(size: tuple[int, ...], stride: int) -> NDArray[np.float32]:
    """Multiples of 1/8 from -1 to 1, repeating."""
    count = int(np.prod(size))
    return ((np.arange(count) * stride % 17 - 8) / 8).astype(np.float32).reshape(size)


def make_ranking(shape: ModelShape, seed: int = 0, name: str = "random") -> Ranking:
    random = np.random.default_rng(seed)
    scores = tuple(random.permutation(size).astype(np.float32) for size in shape.hidden_sizes)
    return Ranking(name, "random", scores, seed)


def make_point(shape: ModelShape, name: str = "l0-0.5", rank: int = 2, seed: int = 0) -> OperatingPoint:
    """A point with about half of the filters, with gates and updates in every layer but the first."""
    random = np.random.default_rng(seed)
    keep = tuple(np.sort(random.permutation(size)[: (size + 1) // 2]).astype(np.int32) for size in shape.hidden_sizes)
    cut = shape.with_hidden_sizes([len(kept) for kept in keep])
    gates = [(random.integers(1, 64, len(kept)) / 64).astype(np.float32) for kept in keep]
    updates = [
        Update(random.normal(size=u).astype(np.float32), random.normal(size=v).astype(np.float32))
        for u, v in cut.update_shapes(rank)
    ]
    return OperatingPoint(
        name,
        "l0",
        keep,
        gates=(None, *gates[1:]),
        updates=(None, *updates[1:]),
        flops_fraction=shape.flops_fraction(cut.hidden_sizes),
        preferred=True,
    )


def write_tiny(path: Path, cell: Cell = "qrnn", **changes: Any) -> Path:
    shape = TINY[cell]
    everything: dict[str, Any] = {
        "shape": shape,
        "vocabulary": make_vocabulary(shape.vocabulary_size),
        "weights": make_weights(shape),
        "text": {"tokenizer": "words"},
    }
    if cell == "qrnn":
        everything["rankings"] = [make_ranking(shape, 3, "random-3"), make_ranking(shape, 4, "other")]
        everything["points"] = [make_point(shape), make_point(shape, "second", rank=1, seed=5)]
        everything["default_ranking"] = "random-3"
    write_file(path, **(everything | changes))
    return path


def write_words(path: Path, words: tuple[str, ...], shape: ModelShape, **changes: Any) -> Path:
    """A model of these words, with a random ranking to cut by."""
    everything: dict[str, Any] = {
        "shape": shape,
        "vocabulary": Vocabulary(words),
        "weights": make_weights(shape),
        "rankings": [make_ranking(shape, 1, "random")],
        "points": [],
        "default_ranking": "random",
    }
    return write_tiny(path, **(everything | changes))


# Files taken apart


def parts_of(path: Path) -> tuple[JsonObject, JsonObject, bytes]:
    """Header, description and tensors of a file."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    return header, json.loads(header["__metadata__"]["rheostat"]), content[8 + length :]


def write_parts(path: Path, header: JsonObject, description: JsonObject | str, data: bytes) -> None:
    text = description if isinstance(description, str) else json.dumps(description)
    header = {**header, "__metadata__": {"rheostat": text}}
    write_raw(path, json.dumps(header).encode(), data)


def write_raw(path: Path, header: bytes, data: bytes = b"") -> None:
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)


def rewrite(
    path: Path,
    header: Callable[[JsonObject], object] = lambda _: None,
    description: Callable[[JsonObject], object] = lambda _: None,
    data: Callable[[bytes], bytes] = lambda data: data,
) -> None:
    """Change a file in place."""
    old_header, old_description, old_data = parts_of(path)
    header(old_header)
    description(old_description)
    write_parts(path, old_header, old_description, data(old_data))
