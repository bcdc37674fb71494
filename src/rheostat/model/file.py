"""The one file that holds a model: format version 1, specified in docs/file-format.md.

Opening checks all structure and touches no weights; values are checked when they are first used. Whatever is
wrong is a ModelFileError that begins with the path. Knows precisions and values; which tensors there must be
is the business of `description`, bytes are that of `container`. Knows nothing of how a model is trained,
pruned or run.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from rheostat.bundled import DEFAULT_MODEL, model_path
from rheostat.errors import ModelFileError, OperatingPointError
from rheostat.model.container import (
    DTYPES,
    Container,
    arrange,
    header_bytes,
    parse_header,
    problem,
    show,
    write_container,
)
from rheostat.model.container import check_target as check_container_target
from rheostat.model.description import Description, PointEntry, RankingEntry, describe, metadata_of
from rheostat.model.flops import flops_by_part
from rheostat.model.operating_point import Floats, OperatingPoint, Ranking, Update
from rheostat.model.precision import (
    LARGEST_INTEGER,
    LARGEST_SCALE,
    PRECISIONS,
    Precision,
    all_finite,
    as_floats,
    dequantize,
    encode_all,
    widen,
)
from rheostat.model.shape import ModelShape
from rheostat.text.casing import casing_from_bytes, casing_to_bytes
from rheostat.text.tokenizers import Tokenizer
from rheostat.text.vocabulary import Vocabulary

__all__ = ["PRECISIONS", "Description", "ModelFile", "Precision", "open_model", "repack", "write_model"]

Named = TypeVar("Named", Ranking, OperatingPoint, RankingEntry, PointEntry)


def open_model(name_or_path: str | Path = DEFAULT_MODEL) -> ModelFile:
    """Open a model file: its structure is checked, its weights are mapped and not touched.

    A bundled model goes by its name; without any, the default one is opened.
    """
    path = model_path(name_or_path)
    container = Container(os.fspath(path))
    try:
        return ModelFile(container, describe(container.metadata, container.tensors))
    except ModelFileError as error:
        container.close()
        raise ModelFileError(f"{path}: {error}") from error.__cause__


class ModelFile:
    """An open model file. Arrays taken from it are read-only and outlive it.

    It keeps showing what it was opened on when the file is replaced by another, as `write_model` does it.
    """

    def __init__(self, container: Container, description: Description) -> None:
        self._container = container
        self.description = description
        self._checked: set[str] = set()  # tensors whose values are known to be good
        self._vocabulary: Vocabulary | None = None
        self._casing: dict[str, str] | None = None

    @cached_property
    def _weight_shapes(self) -> dict[str, tuple[int, ...]]:
        return self.shape.tensor_shapes()

    @property
    def path(self) -> Path:
        return Path(self._container.path)

    @property
    def shape(self) -> ModelShape:
        return self.description.shape

    @property
    def tokenizer(self) -> Tokenizer:
        return self.description.tokenizer

    @property
    def vocabulary(self) -> Vocabulary:
        if self._vocabulary is None:
            try:
                vocabulary = Vocabulary.from_bytes(self._container.array("vocabulary").tobytes())
            except ValueError as error:
                raise self._problem(str(error), "one word a line") from error
            if len(vocabulary) != self.shape.vocabulary_size:
                raise self._problem(f"{len(vocabulary)} words", f"{self.shape.vocabulary_size} by its shape")
            self._vocabulary = vocabulary
        return self._vocabulary

    @property
    def casing(self) -> Mapping[str, str]:
        """The usual spelling of words that are not written in lower case; empty where the file has none."""
        if self._casing is None:
            try:
                self._casing = casing_from_bytes(self.text_tensors().get("casing", np.empty(0)).tobytes())
            except ValueError as error:
                raise self._problem(str(error), "one spelling a line") from error
        return self._casing

    @property
    def precision(self) -> str:
        """What the matrices are stored as: "float32", "float16", "int8", or "mixed"."""
        matrices = [name for name, size in self._weight_shapes.items() if len(size) == 2]
        found = {DTYPES[self._container.tensors[name][0]].name for name in matrices}
        return found.pop() if len(found) == 1 else "mixed"

    def tensor(self, name: str) -> Floats:
        """A weight tensor as float32, by its name in `ModelShape.tensor_shapes`; a view if stored so."""
        stored = self.raw(name)
        scale = self.scale(name)
        return widen(stored) if scale is None else dequantize(stored, scale)

    def weights(self) -> dict[str, Floats]:
        """All weight tensors as float32."""
        return {name: self.tensor(name) for name in self._weight_shapes}

    def raw(self, name: str) -> NDArray[Any]:
        """A weight tensor as it is stored: float32, float16 or int8, mapped."""
        if name not in self._weight_shapes:
            raise self._problem(
                f"no weights named {show(name)}", "a name of ModelShape.tensor_shapes", "ask for one of those"
            )
        return self._values(name)

    def scale(self, name: str) -> Floats | None:
        """The row scales of a tensor that is stored as int8, where w = q · scale; None for any other."""
        scale = f"{name}.scale"
        return self._values(scale) if scale in self._container.tensors else None

    def stored_weights(self) -> dict[str, NDArray[Any]]:
        """All weight tensors as they are stored, with `{name}.scale` beside int8: `cut` takes these too."""
        stored = {name: self.raw(name) for name in self._weight_shapes}
        scales = {f"{name}.scale": self.scale(name) for name in stored}
        return stored | {name: scale for name, scale in scales.items() if scale is not None}

    def weights_digest(self) -> str:
        """Tells models apart that have one name and shape: of the weights as they are stored."""
        from hashlib import blake2b  # here, since a suggestion has no need of it

        hash = blake2b(digest_size=8)
        for name, values in self.stored_weights().items():
            hash.update(f"{name} {values.dtype.str} {values.shape} ".encode())
            hash.update(np.ascontiguousarray(values).data)
        return hash.hexdigest()

    def text_tensors(self) -> dict[str, NDArray[Any]]:
        """The bytes of the vocabulary and, where there is one, of the casing."""
        tensors = self._container.tensors
        return {name: self._container.array(name) for name in ("vocabulary", "casing") if name in tensors}

    def ranking(self, name: str | None = None) -> Ranking:
        """A ranking by its name; without one, the default ranking."""
        name = self.description.default_ranking if name is None else name
        entry = _find(name, self.description.rankings)
        if entry is None:
            raise self._lacks("ranking", name, self.description.rankings)
        return self._read_ranking(entry)

    def rankings(self) -> list[Ranking]:
        return [self._read_ranking(entry) for entry in self.description.rankings]

    def point(self, name: str) -> OperatingPoint:
        """A stored point by its name, its indices and gates checked."""
        entry = _find(name, self.description.points)
        if entry is None:
            raise self._lacks("point", name, self.description.points)
        return self._read_point(entry)

    def points(self) -> list[OperatingPoint]:
        return [self._read_point(entry) for entry in self.description.points]

    def bytes_by_part(self) -> dict[str, int]:
        """Bytes of the file by part; they add up to its size."""
        sizes = {"header": self._container.data_offset}
        for name, (_, _, begin, end) in self._container.tensors.items():
            part = _part(name)
            sizes[part] = sizes.get(part, 0) + end - begin
        return sizes

    @property
    def file_bytes(self) -> int:
        return self._container.size

    def summary(self) -> dict[str, Any]:
        """All that can be said of the file without reading weights, fit for JSON."""
        description, shape = self.description, self.shape
        return {
            "path": self._container.path,
            "file_bytes": self.file_bytes,
            "cell": shape.cell,
            "precision": self.precision,
            "shape": {
                "vocabulary_size": shape.vocabulary_size,
                "embedding_size": shape.embedding_size,
                "hidden_sizes": list(shape.hidden_sizes),
                "windows": list(shape.windows),
                "softmax_splits": list(shape.softmax_splits),
            },
            "parameters": shape.parameters,
            "flops": shape.flops,
            "flops_by_part": flops_by_part(shape),
            "bytes_by_part": self.bytes_by_part(),
            "tokenizer": self.tokenizer,
            "text": dict(description.text),
            "default_ranking": description.default_ranking,
            "rankings": [dict(vars(entry)) for entry in description.rankings],
            "points": [vars(entry) | {"widths": list(entry.widths)} for entry in description.points],
            "recipe": dict(description.recipe),
            "provenance": dict(description.provenance),
        }

    def release(self) -> None:
        """Let what was read leave the memory, as far as no array uses it; it is mapped again when it is needed."""
        self._container.release()

    def close(self) -> None:
        self._container.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _layers(self) -> range:
        return range(len(self.shape.hidden_sizes))

    def _read_ranking(self, entry: RankingEntry) -> Ranking:
        scores = tuple(self._values(f"rankings.{entry.name}.{layer}").copy() for layer in self._layers)
        return Ranking(entry.name, entry.criterion, scores, entry.seed, entry.comparable)

    def _read_point(self, entry: PointEntry) -> OperatingPoint:
        name = entry.name
        gates = tuple(self._optional(f"points.{name}.gate.{layer}") for layer in self._layers)
        updates = tuple(self._update(name, layer) for layer in self._layers)
        point = OperatingPoint(
            name=name,
            criterion=entry.criterion,
            keep=tuple(self._values(f"points.{name}.keep.{layer}").astype(np.int32) for layer in self._layers),
            gates=gates if entry.has_gates else None,
            updates=updates if entry.update_rank else None,
            flops_fraction=entry.flops_fraction,
            preferred=entry.preferred,
        )
        try:
            point.check(self.shape)
        except OperatingPointError as error:
            raise ModelFileError(f"{self.path}: {error}") from None
        return point

    def _values(self, name: str) -> NDArray[Any]:
        """A tensor as stored, its values checked the first time."""
        array = self._container.array(name)
        if name not in self._checked:
            self._check_values(name, array)
            self._checked.add(name)
        return array

    def _check_values(self, name: str, array: NDArray[Any]) -> None:
        if array.dtype.kind == "f" and not all_finite(array):
            raise self._problem(f"a value in {name} that is not finite", "finite numbers")
        if array.dtype == np.int8 and array.min() < -LARGEST_INTEGER:
            raise self._problem(f"-128 in {name}", f"-{LARGEST_INTEGER} to {LARGEST_INTEGER}")
        if name.endswith(".scale") and not ((array >= 0) & (array <= LARGEST_SCALE)).all():
            raise self._problem(f"a scale below zero or too large in {name}", f"0 to {LARGEST_SCALE:.2g}")

    def _optional(self, name: str) -> Floats | None:
        return self._values(name).astype(np.float32) if name in self._container.tensors else None

    def _update(self, point: str, layer: int) -> Update | None:
        u = self._optional(f"points.{point}.update.{layer}.u")
        v = self._optional(f"points.{point}.update.{layer}.v")
        return None if u is None or v is None else Update(u, v)

    def _problem(self, found: str, expected: str, *remedy: str) -> ModelFileError:
        return ModelFileError(f"{self.path}: {problem(found, expected, *remedy)}")

    def _lacks(self, what: str, name: str | None, entries: Iterable[RankingEntry | PointEntry]) -> OperatingPointError:
        names = ", ".join(entry.name for entry in entries) or "none"
        asked = f"'{name}'" if name is not None else "default one"
        return OperatingPointError(
            f"{self.path}: no {what} {asked} was found; it has: {names}; "
            "name one of these, or make it with rheostat prune"
        )


# Writing


def write_model(
    path: str | Path,
    *,
    shape: ModelShape,
    vocabulary: Vocabulary,
    weights: Mapping[str, Any],
    text: Mapping[str, Any],
    casing: Mapping[str, str] | None = None,
    rankings: Sequence[Ranking] = (),
    points: Sequence[OperatingPoint] = (),
    default_ranking: str | None = None,
    recipe: Mapping[str, Any] | None = None,
    provenance: Mapping[str, Any] | None = None,
    precision: Precision = "float32",
    alone: bool = False,
) -> None:
    """Write a model file, or leave what was at `path` untouched. The same model always gives the same bytes.

    weights: NumPy or torch arrays by the names of `shape.tensor_shapes`. int8 is symmetric with a scale for
    each row; biases are then float32. alone: nobody else writes this file, so that what a kill left of it is cleared.
    """
    description = Description(
        shape, text, default_ranking=default_ranking, recipe=recipe or {}, provenance=provenance or {}
    )
    with _naming(path):
        if len(vocabulary) != shape.vocabulary_size:
            raise problem(f"{len(vocabulary)} words", f"{shape.vocabulary_size} by the shape", "give the model's own")
        tensors = encode_all(_checked_weights(weights, shape.tensor_shapes()), precision)
        tensors["vocabulary"] = _text_tensor(vocabulary.to_bytes())
        if casing and (spellings := casing_to_bytes(casing)):
            tensors["casing"] = _text_tensor(spellings)
        _write(Path(path), description, tensors, rankings, points, alone)


def repack(
    source: ModelFile,
    path: str | Path,
    *,
    precision: Precision | None = None,
    default_ranking: str | None = None,
    points: Sequence[str] | None = None,
    drop_points: Sequence[str] = (),
    drop_rankings: Sequence[str] = (),
    add_rankings: Sequence[Ranking] = (),
    add_points: Sequence[OperatingPoint] = (),
    shape: ModelShape | None = None,
    weights: Mapping[str, Any] | None = None,
    recipe: Mapping[str, Any] | None = None,
    provenance: Mapping[str, Any] | None = None,
    alone: bool = False,
) -> None:
    """Write `source` anew with changes; what is None stays. Weights of the same precision keep their bytes.

    points: the stored points to keep, in this order; None for all. Added rankings and points replace those of
    the same name, and otherwise come last. Without a default ranking before, the first one added that is not random
    becomes it.
    shape, weights: another shape, and the weights that are other than before. alone: as for `write_model`.
    """
    old = source.description
    shape = shape or source.shape
    dropped = {source.ranking(name).name for name in drop_rankings}
    kept_rankings = [ranking for ranking in source.rankings() if ranking.name not in dropped]
    rankings = _with_added(kept_rankings, add_rankings)
    gone = {source.point(name).name for name in drop_points}
    kept_points = source.points() if points is None else [source.point(name) for name in points]
    kept_points = [point for point in kept_points if point.name not in gone]
    description = replace(
        old,
        shape=shape,
        default_ranking=default_ranking or _default_after(source, rankings, add_rankings),
        recipe=old.recipe if recipe is None else recipe,
        provenance=old.provenance if provenance is None else provenance,
    )
    own: Precision = source.precision if source.precision in PRECISIONS else "float32"
    with _naming(path):
        before, after, given = source.shape.tensor_shapes(), shape.tensor_shapes(), weights or {}
        kept_weights = [name for name, size in after.items() if name not in given and before.get(name) == size]
        same, changed = _split_by_precision(source, precision, kept_weights)
        tensors = same | encode_all(changed | _checked_weights(given, after, kept_weights), precision or own)
        _write(Path(path), description, tensors, rankings, _with_added(kept_points, add_points), alone)


def check_target(path: str | Path) -> None:
    """Complain of a path that no model file can be written to, before any work is done for it."""
    with _naming(path):
        check_container_target(Path(path))


@contextlib.contextmanager
def _naming(path: str | Path) -> Iterator[None]:
    """Put the path in front of what is wrong with the file to be written."""
    try:
        yield
    except (ModelFileError, OperatingPointError) as error:
        raise ModelFileError(f"{path}: {error}") from error.__cause__


def _write(
    path: Path,
    description: Description,
    tensors: Mapping[str, NDArray[Any]],
    rankings: Sequence[Ranking],
    points: Sequence[OperatingPoint],
    alone: bool,
) -> None:
    shape = description.shape
    for ranking in rankings:
        ranking.check(shape)
    for point in points:
        point.check(shape)
    entries = tuple(RankingEntry(r.name, r.criterion, r.seed, r.comparable) for r in rankings)
    metadata = metadata_of(replace(description, rankings=entries), [_point_entry(point, shape) for point in points])
    arrays = arrange({**tensors, **_ranking_tensors(rankings), **_point_tensors(points)})
    header = header_bytes(metadata, arrays)
    describe(*parse_header(header)[:2])  # what a reader would refuse is not written
    write_container(path, header, arrays.values(), alone=alone)


def _point_entry(point: OperatingPoint, shape: ModelShape) -> dict[str, Any]:
    return {
        "name": point.name,
        "criterion": point.criterion,
        "flops_fraction": shape.flops_fraction(point.widths),
        "preferred": point.preferred,
    }


def _ranking_tensors(rankings: Iterable[Ranking]) -> dict[str, NDArray[Any]]:
    return {
        f"rankings.{ranking.name}.{layer}": np.asarray(scores, np.float32)
        for ranking in rankings
        for layer, scores in enumerate(ranking.scores)
    }


def _point_tensors(points: Iterable[OperatingPoint]) -> dict[str, NDArray[Any]]:
    tensors: dict[str, NDArray[Any]] = {}
    for point in points:
        name = f"points.{point.name}"
        for layer, keep in enumerate(point.keep):
            tensors[f"{name}.keep.{layer}"] = keep.astype(np.int32)
            if (gates := point.gates[layer] if point.gates else None) is not None:
                tensors[f"{name}.gate.{layer}"] = np.asarray(gates, np.float32)
            if (update := point.update(layer)) is not None:
                tensors[f"{name}.update.{layer}.u"] = np.asarray(update.u, np.float32)
                tensors[f"{name}.update.{layer}.v"] = np.asarray(update.v, np.float32)
    return tensors


def _checked_weights(
    weights: Mapping[str, Any], expected: Mapping[str, tuple[int, ...]], there: Sequence[str] = ()
) -> dict[str, Floats]:
    """The weights as float32, if they are all that are expected and not there yet, of these sizes, and finite."""
    if stranger := min(set(weights) - set(expected), default=""):
        raise problem(f"weights {stranger}", f"only {', '.join(expected)}", "leave them out")
    return {name: as_floats(name, weights.get(name), size) for name, size in expected.items() if name not in there}


def _split_by_precision(
    source: ModelFile, precision: Precision | None, names: Iterable[str]
) -> tuple[dict[str, NDArray[Any]], dict[str, Floats]]:
    """Tensors that can be copied as they are stored, and weights that have to be encoded anew."""
    same = source.text_tensors()
    changed: dict[str, Floats] = {}
    for name in names:
        stored, scale = source.raw(name), source.scale(name)
        wanted = "float32" if precision == "int8" and stored.ndim == 1 else precision
        if wanted in (None, stored.dtype.name):
            same[name] = stored
            if scale is not None:
                same[f"{name}.scale"] = scale
        else:
            changed[name] = source.tensor(name)
    return same, changed


def _with_added(old: Sequence[Named], added: Sequence[Named]) -> list[Named]:
    """`old` with those of `added` in the place of their namesakes, the others behind."""
    named = {item.name: item for item in old} | {item.name: item for item in added}
    return list(named.values())


def _default_after(source: ModelFile, rankings: Sequence[Ranking], added: Sequence[Ranking]) -> str | None:
    """The default ranking of a file that had another set of them."""
    default = source.description.default_ranking
    if default is None:
        # A random ranking is for comparison: it cuts only when it is asked for.
        return next((ranking.name for ranking in added if ranking.criterion != "random"), None)
    if rankings and not _find(default, rankings):
        names = ", ".join(ranking.name for ranking in rankings)
        raise OperatingPointError(
            f"{source.path}: its default ranking '{default}' is to be dropped; "
            f"expected another of {names} as the default: name it with --default-ranking"
        )
    return default if rankings else None


def _find(name: str | None, named: Sequence[Named]) -> Named | None:
    return next((item for item in named if item.name == name), None)


def _text_tensor(data: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


def _part(name: str) -> str:
    """The part of the file that a tensor belongs to: "layers.2" for "layers.2.weight.scale"."""
    words = name.split(".")
    return ".".join(words[:2]) if words[0] == "layers" else words[0]
