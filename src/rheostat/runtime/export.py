"""A model as a folder to ship with an application: what an engine runs, the words, and a manifest.

For the core, the folder holds one model file with the whole knob; for ONNX Runtime, the graphs of one operating point.
docs/export.md describes the folder, which can be used without this package. Knows files and their contents;
`export_folder` knows how a folder is replaced, `onnx.graph_files` how graphs are written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rheostat.arguments import checked
from rheostat.core.binding import CoreModel
from rheostat.errors import ModelFileError, RheostatError, encode_text, visible
from rheostat.model import knob as knob_positions
from rheostat.model.contents import Contents, convert
from rheostat.model.file import ModelFile, open_model
from rheostat.model.operating_point import OperatingPoint
from rheostat.model.ordered import order_filters
from rheostat.model.path import KnobPath
from rheostat.model.precision import Precision, check_precision
from rheostat.model.shape import ModelShape
from rheostat.model.writer import write_model
from rheostat.provenance import provenance
from rheostat.runtime.engine import EngineName, check_engine, choose_engine, open_mapped
from rheostat.runtime.export_folder import (
    CASING,
    FORMAT,
    FORMAT_VERSION,
    MANIFEST,
    MODEL,
    SUGGESTIBLE,
    TEXT,
    VOCABULARY,
    replaceable,
    written,
)
from rheostat.text.vocabulary import SPECIAL_TOKENS
from rheostat.words.completion import complete_without
from rheostat.words.hidden_words import HiddenWords
from rheostat.words.text_rules import describe_text

Json = dict[str, Any]


@checked
def export(
    model: str | Path,
    out: str | Path,
    knob: float = 1.0,
    *,
    point: str | None = None,
    criterion: str | None = None,
    ranking: str | None = None,
    precision: Precision = "int8",
    hidden_words: HiddenWords = None,
    engine: EngineName = "onnx",
) -> Json:
    """Write a model into the folder `out`, for an app, and return the manifest, as `rheostat export` does.

    model: a model file, or the name of a bundled model. hidden_words: see `rheostat.load`.
    engine: "core" writes a model file with the whole knob, and takes no position. "onnx" writes the graphs of one
    operating point, and needs the `onnx` extra. The point is the one at `knob`, a share of the cost, or a stored
    `point` by its name; `criterion` and `ranking` say what to cut by. Graphs have no 4-bit weights, so a position is a
    cut by the default ranking, in widths alone, even if the file has a path of bits.
    The folder is created, or replaces an earlier export, only once it is complete.
    """
    check_precision(precision)
    check_engine(engine)
    if engine == "core":
        _check_whole_knob(knob, point=point, criterion=criterion, ranking=ranking)
        with open_model(model) as file:
            return export_core(file, Path(out), precision, hidden_words)
    with open_model(model) as file:
        chosen = knob_positions.choose(file, knob, criterion=criterion, ranking=ranking, point=point, bits=False)
        return export_graphs(file, chosen, Path(out), precision, hidden_words)


def _check_whole_knob(knob: float, **chosen: str | None) -> None:
    given = [*(["knob"] if knob != 1 else []), *(name for name, value in chosen.items() if value is not None)]
    if given:
        raise RheostatError(
            f"an export for the core got a position ({', '.join(given)}); expected none, because its file has the "
            "whole knob: leave it out, or choose the engine onnx"
        )


def export_core(file: ModelFile, folder: Path, precision: Precision = "int8", hidden_words: HiddenWords = None) -> Json:
    """Write an open model file into a folder, as the core opens it, and return the manifest."""
    check_precision(precision)
    folder = replaceable(folder)
    packed = _packed(file, precision)
    path = file.knob_path() if packed is None else packed.knob_path
    with written(folder) as partial:
        _write_model(file, packed, partial / MODEL)
        own = {"positions": _positions(path)}
        return _complete(file, partial, hidden_words, _manifest(file, file.shape, "core", precision, MODEL) | own)


def export_graphs(
    file: ModelFile,
    point: OperatingPoint,
    folder: Path,
    precision: Precision = "int8",
    hidden_words: HiddenWords = None,
) -> Json:
    """Write `point` of an open model file into a folder, as ONNX graphs, and return the manifest."""
    from rheostat.runtime.onnx.graph_files import state_of, write_graphs  # here, since the core does without onnx

    check_precision(precision)
    with written(replaceable(folder)) as partial:
        graphs = write_graphs(file, point, precision, partial)
        own = {
            "graphs": graphs,
            "state": state_of(graphs["step"]),
            "not_in_the_graph": ["counts", "cache", "slips", "memory", "learned words"],
            "operating_point": {
                "name": point.name,
                "criterion": point.criterion,
                "hidden_sizes": list(point.widths),
                "bounds": None if point.bounds is None else list(point.bounds),
            },
            "flops_fraction": point.flops_fraction,
            "cost": point.cost,
        }
        shape = point.cut_shape(file.shape)
        return _complete(
            file, partial, hidden_words, _manifest(file, shape, "onnx", precision, visible(file.path.name)) | own
        )


# The model, for the core


def _packed(file: ModelFile, precision: Precision) -> Contents | None:
    """What to write for the core to open; None if the file itself is that, byte for byte."""
    choose_engine(file.shape, precision, "core")
    is_ordered = knob_positions.has_plain_path(file)
    if is_ordered and open_mapped(file, precision) is not None:
        return None
    contents = convert(file.contents(), precision)
    return contents if is_ordered else order_filters(contents)


def _write_model(file: ModelFile, packed: Contents | None, out: Path) -> None:
    if packed is None:
        out.write_bytes(file.mapped_bytes().data)
        file.check_unchanged()
        return
    try:
        write_model(out, packed)
    except ModelFileError as error:
        if isinstance(error.__cause__, OSError):
            raise error.__cause__ from None  # `written` names the folder, which is not the one being written
        raise
    with open_model(out) as made:
        CoreModel(made.mapped_bytes())  # never write a file that the core would refuse


def _positions(path: KnobPath) -> list[Json]:
    """The positions of the knob, from the whole model down. bounds: None where every weight is read in 8 bits."""
    return [
        {
            "cost": position.cost,
            "hidden_sizes": list(position.widths),
            "bounds": None if position.bounds is None else list(position.bounds),
        }
        for position in path
    ]


# What an application needs beside it


def _complete(file: ModelFile, folder: Path, hidden_words: HiddenWords, manifest: Json) -> Json:
    """Write the words and the manifest beside the model, and return the manifest with the size of every file."""
    _write_words(file, folder, hidden_words)
    manifest["bytes"] = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    (folder / MANIFEST).write_bytes(encode_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"))
    return manifest


def _write_words(file: ModelFile, folder: Path, hidden_words: HiddenWords) -> None:
    for name, array in file.text_tensors().items():
        if name in (names := {"vocabulary": VOCABULARY, "casing": CASING}):  # hidden words are in `suggestible`
            (folder / names[name]).write_bytes(array.tobytes())
    words = file.vocabulary
    completion = complete_without(words, file.tokenizer, hidden_words, file.hidden_words)
    (folder / SUGGESTIBLE).write_bytes(completion.kinds().tobytes())
    rules = describe_text(file.tokenizer, file.casing)
    (folder / TEXT).write_text(json.dumps(rules, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _manifest(file: ModelFile, shape: ModelShape, engine: EngineName, precision: Precision, model: str) -> Json:
    """What both engines have. shape: of the model that is run. model: the name of its file."""
    vocabulary = file.vocabulary
    special = {word: vocabulary.index[word] for word in SPECIAL_TOKENS if word in vocabulary.index}
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "engine": engine,
        "precision": precision,
        "model": {"file": model, "provenance": dict(file.description.provenance)},
        "vocabulary": {"file": VOCABULARY, "words": len(vocabulary), "special_ids": special},
        "suggestible": {"file": SUGGESTIBLE},
        "casing": {"file": CASING, "words": len(file.casing)} if "casing" in file.text_tensors() else None,
        "tokenizer": file.tokenizer,
        "text_rules": {"file": TEXT},
        "text": dict(file.description.text),
        "flops": shape.flops,
        "shape": {"cell": shape.cell, **shape.as_json()},
        "provenance": provenance(),
    }
