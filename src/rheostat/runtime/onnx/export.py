"""One operating point as a folder that an application ships: ONNX graphs, words, and a manifest that describes them.

The folder is described in docs/export.md. It is complete and readable without this package. Knows files; the graphs are
the business of `graph`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import helper

from rheostat.errors import ExportError
from rheostat.model.cut import cut
from rheostat.model.file import ModelFile
from rheostat.model.operating_point import OperatingPoint
from rheostat.provenance import provenance
from rheostat.runtime.onnx.graph import Form, build_graph
from rheostat.runtime.onnx.quantization import Precision, check_precision, prepare
from rheostat.text.vocabulary import SPECIAL_TOKENS
from rheostat.words.completion import Completion
from rheostat.words.hidden_words import HiddenWords, hidden_places

FORMAT = "rheostat-export"
FORMAT_VERSION = 1

MANIFEST = "manifest.json"
VOCABULARY = "vocabulary.txt"
CASING = "casing.txt"
SUGGESTIBLE = "suggestible.bin"
GRAPHS: dict[Form, str] = {"step": "step.onnx", "replay": "sequence.onnx"}
FILES = frozenset({MANIFEST, VOCABULARY, CASING, SUGGESTIBLE, *GRAPHS.values()})
LARGEST_GRAPH = 2**31 - 1  # bytes of a protobuf

Json = dict[str, Any]


def export(
    file: ModelFile,
    point: OperatingPoint,
    folder: Path,
    precision: Precision = "int8",
    hidden_words: HiddenWords = None,
) -> Json:
    """Write `point` of a model into a new folder, or in the place of an earlier export; returns the manifest.

    hidden_words: a file that changes the package's list of words that are not to be suggested, or the words themselves.
    All of it appears at once: what was there before stays until the new folder is complete.
    """
    folder = folder.absolute()  # so that "." has a name
    check_precision(precision)
    _check_replaceable(folder)
    with _written(folder) as partial:
        graphs = _write_graphs(file, point, precision, partial)
        _write_words(file, partial, hidden_words)
        manifest = _manifest(file, point, precision, graphs)
        manifest["bytes"] = {path.name: path.stat().st_size for path in sorted(partial.iterdir())}
        (partial / MANIFEST).write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return manifest


# What is in the folder


def _write_graphs(file: ModelFile, point: OperatingPoint, precision: Precision, folder: Path) -> Json:
    """Write the graphs; what they are called, and their inputs and outputs."""
    # In this order, as a predictor does it: the folder gives the very numbers that the runtime gives.
    weights, shape = cut(prepare(file.stored_weights(), precision), file.shape, point)
    described: Json = {}
    for form, name in GRAPHS.items():
        graph = build_graph(weights, shape, precision, form)
        _check_size(name, graph.weight_bytes)
        model = graph.complete()
        onnx.checker.check_model(model)  # what a reader would refuse is not written
        (folder / name).write_bytes(model.SerializeToString())
        described[form] = {
            "file": name,
            "inputs": _described(model.graph.input),
            "outputs": _described(model.graph.output),
        }
    return described


def _check_size(name: str, size: int) -> None:
    if size > LARGEST_GRAPH:
        raise ExportError(
            f"{name} would have {size:,} bytes of weights; expected at most {LARGEST_GRAPH:,}: "
            "use --precision int8, or turn the knob down"
        )


def _described(ports: Sequence[onnx.ValueInfoProto]) -> list[Json]:
    """A size that is a word is known when the graph runs."""
    described = []
    for port in ports:
        kind = port.type.tensor_type
        shape = [size.dim_param or size.dim_value for size in kind.shape.dim]
        described.append({"name": port.name, "type": _type_name(kind.elem_type), "shape": shape})
    return described


def _type_name(kind: int) -> str:
    return str(helper.tensor_dtype_to_np_dtype(kind).name)


def _write_words(file: ModelFile, folder: Path, hidden_words: HiddenWords) -> None:
    for name, array in file.text_tensors().items():
        (folder / {"vocabulary": VOCABULARY, "casing": CASING}[name]).write_bytes(array.tobytes())
    completion = Completion(file.vocabulary, file.tokenizer, hidden_places(file.vocabulary, hidden_words))
    (folder / SUGGESTIBLE).write_bytes(completion.kinds().tobytes())


def _manifest(file: ModelFile, point: OperatingPoint, precision: Precision, graphs: Json) -> Json:
    shape = point.cut_shape(file.shape)
    vocabulary = file.vocabulary
    special = {word: vocabulary.index[word] for word in SPECIAL_TOKENS if word in vocabulary.index}
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "precision": precision,
        "graphs": graphs,
        "state": _state(graphs["step"]),
        "vocabulary": {"file": VOCABULARY, "words": len(vocabulary), "special_ids": special},
        "suggestible": {"file": SUGGESTIBLE},
        "casing": {"file": CASING, "words": len(file.casing)} if "casing" in file.text_tensors() else None,
        "tokenizer": file.tokenizer,
        "text": dict(file.description.text),
        "operating_point": {"name": point.name, "criterion": point.criterion, "hidden_sizes": list(point.widths)},
        "flops": shape.flops,
        "flops_fraction": point.flops_fraction,
        "shape": {"cell": shape.cell, **shape.as_json()},
        "model": {"file": file.path.name, "provenance": dict(file.description.provenance)},
        "provenance": provenance(),
    }


def _state(step: Json) -> list[Json]:
    """Which output becomes which input for the next word; all of them start as zeros."""
    inputs = [port for port in step["inputs"] if port["name"].startswith("state.")]
    return [
        {"input": port["name"], "output": port["name"].replace("state.", "next.", 1), "shape": port["shape"]}
        for port in inputs
    ]


# The folder itself


def _check_replaceable(folder: Path) -> None:
    """Raise ExportError unless there is nothing at `folder`, or nothing but an earlier export."""
    if not os.path.lexists(folder):
        return
    if folder.is_symlink() or not folder.is_dir():
        raise _refuse(folder, "is not a folder")
    names = {path.name for path in folder.iterdir()}
    if names and not _is_export(folder / MANIFEST):
        raise _refuse(folder, "holds something else than an earlier export")
    if strangers := sorted(names - FILES):
        raise _refuse(folder, f"holds {strangers[0]!r:.60}, which no export wrote")


def _is_export(manifest: Path) -> bool:
    try:
        described = json.loads(manifest.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(described, dict) and described.get("format") == FORMAT


def _refuse(folder: Path, why: str) -> ExportError:
    return ExportError(
        f"{folder} {why}; expected a new folder, or an earlier export to replace: choose another with -o"
    )


@contextlib.contextmanager
def _written(folder: Path) -> Iterator[Path]:
    """A folder beside `folder` to write into; it takes its place when all went well, and else disappears."""
    partial = folder.with_name(f".{folder.name}.{os.urandom(8).hex()}.partial")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir()
        yield partial
        _put_in_place(partial, folder)
    except OSError as error:
        found = error.strerror or str(error)
        raise ExportError(
            f"{folder} could not be written: {found}; expected a folder that can be: choose another with -o"
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _put_in_place(partial: Path, folder: Path) -> None:
    if not folder.exists():
        partial.rename(folder)
        return
    _check_replaceable(folder)  # again: time has passed
    # Not every system renames a folder onto another one, so the old one steps aside first.
    aside = partial.with_suffix(".old")
    folder.rename(aside)
    try:
        partial.rename(folder)
    except OSError:
        aside.rename(folder)
        raise
    shutil.rmtree(aside)
