"""One operating point as a folder to ship with an application: ONNX graphs, words, and a manifest.

docs/export.md describes the folder, which can be used without this package. Knows files and folders; `graph` builds the
graphs.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rheostat.arguments import checked
from rheostat.durable import STALE_SECONDS, copy_ownership, exchange, obstacle
from rheostat.errors import ExportError, MissingExtraError, RheostatError
from rheostat.inputs import read_input
from rheostat.model import knob as knob_positions
from rheostat.model.file import ModelFile, open_model
from rheostat.model.operating_point import OperatingPoint
from rheostat.model.precision import Precision, check_precision
from rheostat.provenance import provenance
from rheostat.runtime.onnx.graph import Form, build_graph
from rheostat.runtime.onnx.weights import RuntimeWeights
from rheostat.tables import decode_json
from rheostat.text.vocabulary import SPECIAL_TOKENS
from rheostat.words.completion import complete_without
from rheostat.words.hidden_words import HiddenWords
from rheostat.words.text_rules import describe_text

try:
    import onnx
    from onnx import helper
except ImportError as error:
    raise MissingExtraError("onnx", "exporting a model", error) from error

FORMAT = "rheostat-export"
FORMAT_VERSION = 1

MANIFEST = "manifest.json"
TEXT = "text.json"
VOCABULARY = "vocabulary.txt"
CASING = "casing.txt"
SUGGESTIBLE = "suggestible.bin"
GRAPHS: dict[Form, str] = {"step": "step.onnx", "replay": "sequence.onnx"}
FILES = frozenset({MANIFEST, TEXT, VOCABULARY, CASING, SUGGESTIBLE, *GRAPHS.values()})
LARGEST_GRAPH = 2**31 - 1  # bytes of a protobuf

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
) -> Json:
    """Write one operating point of a model into the folder `out` and return the manifest, as `rheostat export` does.

    model: a model file, or the name of a bundled model. The point is the one at `knob`, a share of the cost, or a
    stored `point` by its name; `criterion` and `ranking` say what to cut by. Graphs have no 4-bit weights, so a
    position is a cut by the default ranking, in widths alone, even if the file has a path of bits. hidden_words: see
    `rheostat.load`.
    The folder is created, or replaces an earlier export, only once it is complete.
    """
    check_precision(precision)
    with open_model(model) as file:
        chosen = knob_positions.choose(file, knob, criterion=criterion, ranking=ranking, point=point, bits=False)
        return write_export(file, chosen, Path(out), precision, hidden_words)


def write_export(
    file: ModelFile,
    point: OperatingPoint,
    folder: Path,
    precision: Precision = "int8",
    hidden_words: HiddenWords = None,
) -> Json:
    """Write `point` of an open model file into a folder and return the manifest."""
    folder = folder.absolute()  # gives "." a name
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
    """Write the graphs and return their file names, inputs and outputs."""
    weights, shape = RuntimeWeights(file, precision).of(point), point.cut_shape(file.shape)
    described: Json = {}
    for form, name in GRAPHS.items():
        graph = build_graph(weights, shape, precision, form)
        _check_size(name, graph.weight_bytes)
        model = graph.complete()
        onnx.checker.check_model(model)  # never write a graph that a reader would reject
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
            "use int8, or turn the knob down"
        )


def _described(ports: Sequence[onnx.ValueInfoProto]) -> list[Json]:
    """Names, types and shapes; a size given as a name is known only when the graph runs."""
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
        if name in (names := {"vocabulary": VOCABULARY, "casing": CASING}):  # hidden words are in `suggestible`
            (folder / names[name]).write_bytes(array.tobytes())
    words = file.vocabulary
    completion = complete_without(words, file.tokenizer, hidden_words, file.hidden_words)
    (folder / SUGGESTIBLE).write_bytes(completion.kinds().tobytes())
    rules = describe_text(file.tokenizer, file.casing)
    (folder / TEXT).write_text(json.dumps(rules, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


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
        "text_rules": {"file": TEXT},
        "not_in_the_graph": ["counts", "cache", "slips", "memory", "learned words"],
        "text": dict(file.description.text),
        "operating_point": {
            "name": point.name,
            "criterion": point.criterion,
            "hidden_sizes": list(point.widths),
            "bounds": None if point.bounds is None else list(point.bounds),
        },
        "flops": shape.flops,
        "flops_fraction": point.flops_fraction,
        "cost": point.cost,
        "shape": {"cell": shape.cell, **shape.as_json()},
        "model": {"file": file.path.name, "provenance": dict(file.description.provenance)},
        "provenance": provenance(),
    }


def _state(step: Json) -> list[Json]:
    """Which output becomes which input for the next word; all inputs start as zeros."""
    inputs = [port for port in step["inputs"] if port["name"].startswith("state.")]
    return [
        {"input": port["name"], "output": port["name"].replace("state.", "next.", 1), "shape": port["shape"]}
        for port in inputs
    ]


# The folder itself


def _check_replaceable(folder: Path) -> None:
    """Raise ExportError unless there is nothing at `folder`, or only an earlier export."""
    if not os.path.lexists(folder):
        return
    if folder.is_symlink() or not folder.is_dir():
        raise _refuse(folder, "is not a folder")
    names = {path.name for path in folder.iterdir()}
    if names and not _is_export(folder / MANIFEST):
        raise _refuse(folder, "contains files that are not an earlier export")
    if strangers := sorted(names - FILES):
        raise _refuse(folder, f"contains {strangers[0]!r:.60}, which is not part of an export")
    if not folder.stat().st_mode & 0o222 or not os.access(folder, os.W_OK):
        raise _refuse(folder, "is read-only")
    for name in sorted(names):
        if found := obstacle(folder / name):
            raise _refuse(folder, f"contains {name}, which is {found}")


def _is_export(manifest: Path) -> bool:
    try:
        described = decode_json(read_input(manifest, "manifest of an export"))
    except (OSError, RheostatError):
        return False
    return isinstance(described, dict) and described.get("format") == FORMAT


def _refuse(folder: Path, why: str) -> ExportError:
    return ExportError(f"{folder} {why}; expected a new folder, or an earlier export to replace: choose another folder")


@contextlib.contextmanager
def _written(folder: Path) -> Iterator[Path]:
    """A temporary folder next to `folder` to write into; it replaces `folder` on success and is deleted on failure."""
    partial = folder.with_name(f".{folder.name}.{os.urandom(8).hex()}.partial")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _tidy(folder)
        partial.mkdir()
        yield partial
        _put_in_place(partial, folder)
    except OSError as error:
        found = error.strerror or str(error)
        raise ExportError(
            f"{folder} could not be written ({found}); expected a writable place: choose another folder"
        ) from error
    finally:
        _delete(partial)


def _put_in_place(partial: Path, folder: Path) -> None:
    if not folder.exists():
        partial.rename(folder)
        return
    _check_replaceable(folder)  # again, because it may have changed since
    for path in partial.iterdir():
        copy_ownership(folder / path.name, path)
    copy_ownership(folder, partial)
    if exchange(partial, folder):
        return  # `partial` is the old folder now, and is deleted
    # Not every system can swap two folders. A kill between these two leaves the old one beside it, for `_tidy`.
    aside = partial.with_suffix(".old")
    folder.rename(aside)
    try:
        partial.rename(folder)
    except OSError:
        aside.rename(folder)
        raise
    _delete(aside)


def _tidy(folder: Path) -> None:
    """Put back an export that a kill left moved aside, and delete old half-written ones; only those of this folder."""
    for path in sorted(folder.parent.glob(".*.*")):
        found = re.fullmatch(re.escape(f".{folder.name}.") + r"[0-9a-f]{16}\.(partial|old)", path.name)
        if not found or path.is_symlink() or not path.is_dir() or not {one.name for one in path.iterdir()} <= FILES:
            continue
        if found[1] == "old" and not os.path.lexists(folder):
            path.rename(folder)
        elif time.time() - path.stat().st_mtime > STALE_SECONDS:
            _delete(path)


def _delete(folder: Path) -> None:
    """Delete a folder that an export made. Anything that is not part of an export stays, and its folder with it."""
    for _ in range(2):  # once more if there was no memory for it
        with contextlib.suppress(OSError, MemoryError):
            for name in FILES:
                (folder / name).unlink(missing_ok=True)
            folder.rmdir()
            return
