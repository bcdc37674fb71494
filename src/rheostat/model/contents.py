"""The contents of a model file as a value, and its edits: each takes contents and returns new contents.

    write_model(path, add_points(file.contents(), [point]))

An edit leaves everything else unchanged, down to the bytes of stored weights. An ordered file stays ordered unless the
edit changes its default ranking or what its positions cost; `ordered.order_filters` orders it again. Keys of the
description without an edit here (`recipe`, `provenance`, `origin`, …) are changed with `dataclasses.replace`. Knows
values; `file` reads them, `writer` writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rheostat.errors import OperatingPointError
from rheostat.model.container import problem
from rheostat.model.counts import Counts
from rheostat.model.names import CASING, VOCABULARY, scale_name
from rheostat.model.operating_point import RANDOM, Floats, OperatingPoint, Ranking
from rheostat.model.origin import UNKNOWN_ORIGIN, Origin
from rheostat.model.path import KnobPath, without_bounds
from rheostat.model.planes import coarse, matrix_sizes
from rheostat.model.precision import StoredPrecision, as_floats, decode, encode_all, is_stored_as, precision_of
from rheostat.model.reconstruction import Reconstruction
from rheostat.model.shape import CLUSTERS, ModelShape
from rheostat.text.casing import casing_to_bytes
from rheostat.text.vocabulary import Vocabulary

Named = TypeVar("Named", Ranking, OperatingPoint)


@dataclass(frozen=True, eq=False)
class Contents:
    """The contents of a model file, checked when written.

    weights: as stored, by the names in `shape.tensor_shapes`, with row scales for int8.
    words: the bytes of `vocabulary` and, if the file has them, of `casing`, `hidden` and `known`.
    """

    shape: ModelShape
    weights: Mapping[str, NDArray[Any]]
    words: Mapping[str, NDArray[Any]]
    text: Mapping[str, Any] = field(default_factory=dict)
    rankings: tuple[Ranking, ...] = ()
    points: tuple[OperatingPoint, ...] = ()
    default_ranking: str | None = None
    recipe: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    origin: Origin = UNKNOWN_ORIGIN  # of the weights
    ordered: str | None = None  # the default ranking, if the filters stand in its order
    knob_path: KnobPath = ()  # of an ordered file
    reconstruction: Reconstruction | None = None
    bits: int = 8  # 4: an ordered int8 file without its lower planes
    counts: Counts | None = None

    @property
    def precision(self) -> StoredPrecision | None:
        """The precision of all matrices; None if they differ."""
        matrices = [name for name, size in self.shape.tensor_shapes().items() if len(size) == 2]
        return precision_of(self.weights[name].dtype.name for name in matrices)


def new_contents(
    shape: ModelShape,
    vocabulary: Vocabulary,
    weights: Mapping[str, Any],
    text: Mapping[str, Any],
    casing: Mapping[str, str] | None = None,
    precision: StoredPrecision = "fp32",
) -> Contents:
    """A model without rankings or points.

    weights: NumPy or torch arrays by the names in `shape.tensor_shapes`. In int8, matrices are symmetric with one scale
    per row, and biases stay fp32.
    """
    if len(vocabulary) != shape.vocabulary_size:
        raise problem(
            f"a vocabulary of {len(vocabulary)} words",
            f"{shape.vocabulary_size} as in the shape",
            "give the model's own",
        )
    words = {VOCABULARY: np.frombuffer(vocabulary.to_bytes(), np.uint8)}
    if casing and (spellings := casing_to_bytes(casing)):
        words[CASING] = np.frombuffer(spellings, np.uint8)
    return Contents(shape, encode_all(_checked(weights, shape.tensor_shapes()), precision), words, text)


# Weights


def convert(contents: Contents, precision: StoredPrecision) -> Contents:
    """All weights in another precision; weights already stored in it keep their bytes."""
    same: dict[str, NDArray[Any]] = {}
    changed: dict[str, Floats] = {}
    for name in contents.shape.tensor_shapes():
        if is_stored_as(contents.weights[name], precision):
            same |= _stored(contents, name)
        else:
            changed[name] = decode(contents.weights[name], contents.weights.get(scale_name(name)))
    bits = contents.bits if precision == "int8" and not changed else 8
    path = contents.knob_path if precision == "int8" else without_bounds(contents.knob_path, contents.shape)
    return replace(contents, weights=same | encode_all(changed, precision), bits=bits, knob_path=path)


def keep_upper_planes(contents: Contents) -> Contents:
    """Four bits everywhere: the values and the answers of the knob at 4 bits, in about half the bytes.

    The path keeps its widths; its costs are shares of this smaller model's.
    """
    if contents.ordered is None or contents.precision != "int8":
        raise problem("a model that is not ordered int8", "planes to choose from", "order it, in int8")
    names = [name for name in matrix_sizes(contents.shape) if name != CLUSTERS]
    weights = dict(contents.weights) | {name: coarse(contents.weights[name]) for name in names}
    path = without_bounds(contents.knob_path, contents.shape)
    return replace(contents, weights=weights, knob_path=path, bits=4)


def replace_weights(contents: Contents, shape: ModelShape, weights: Mapping[str, Any]) -> Contents:
    """A new shape, with the weights that it changes, stored in the precision of the others.

    The result is not ordered, since the positions of the path no longer cost the same.
    """
    before, after = contents.shape.tensor_shapes(), shape.tensor_shapes()
    kept = [name for name, size in after.items() if name not in weights and before.get(name) == size]
    same = {key: array for name in kept for key, array in _stored(contents, name).items()}
    return replace(
        _without_order(contents),
        shape=shape,
        weights=same | encode_all(_checked(weights, after, kept), contents.precision or "fp32"),
    )


def _stored(contents: Contents, name: str) -> dict[str, NDArray[Any]]:
    """A weight tensor as stored, with its scales if it has them."""
    names = (name, scale_name(name))
    return {key: contents.weights[key] for key in names if key in contents.weights}


def _checked(
    weights: Mapping[str, Any], expected: Mapping[str, tuple[int, ...]], present: Sequence[str] = ()
) -> dict[str, Floats]:
    """The weights as float32. They must be exactly those expected and not present yet, of these sizes, and finite."""
    if stranger := min(set(weights) - set(expected), default=""):
        raise problem(f"weights {stranger}", f"only {', '.join(expected)}", "leave them out")
    return {name: as_floats(name, weights.get(name), size) for name, size in expected.items() if name not in present}


# Rankings


def add_rankings(contents: Contents, added: Sequence[Ranking]) -> Contents:
    """Add rankings; each replaces the one of the same name, or comes last.

    If there is no default ranking, the first added one that is not random becomes it: a random ranking is for
    comparison, and is used only when asked for.
    """
    chosen = next((ranking.name for ranking in added if ranking.criterion != RANDOM), None)
    names = [ranking.name for ranking in added]
    contents = _without_order(contents) if contents.ordered in names else contents
    return replace(
        drop_reconstruction(contents) if _reconstructed_by(contents) in names else contents,
        rankings=_with_added(contents.rankings, added),
        default_ranking=contents.default_ranking or chosen,
    )


def drop_rankings(contents: Contents, names: Sequence[str]) -> Contents:
    """Drop rankings. The default can be dropped only together with all others, or once another is the default."""
    dropped = [_find("ranking", name, contents.rankings).name for name in names]
    left = tuple(ranking for ranking in contents.rankings if ranking.name not in dropped)
    if left and contents.default_ranking in dropped:
        raise OperatingPointError(
            f"ranking '{contents.default_ranking}' is the default and cannot be dropped; "
            f"choose another default ranking first, one of {_names(left)}"
        )
    if contents.default_ranking in dropped:
        contents = replace(_without_order(contents), default_ranking=None)
    contents = drop_reconstruction(contents) if _reconstructed_by(contents) in dropped else contents
    return replace(contents, rankings=left)


def set_default_ranking(contents: Contents, name: str) -> Contents:
    """Make this the ranking that the knob uses."""
    chosen = _find("ranking", name, contents.rankings).name
    return replace(contents if contents.ordered == chosen else _without_order(contents), default_ranking=chosen)


def _without_order(contents: Contents) -> Contents:
    """The filters stay where they are; the file no longer states their order, and has no planes."""
    return replace(contents, ordered=None, knob_path=(), bits=8)


# Reconstruction


def set_reconstruction(contents: Contents, reconstruction: Reconstruction) -> Contents:
    """Cut every position with this reconstruction. Points that were cut with an older one are dropped.

    The result is not ordered: the weights of its positions differ, so none can be served from another's.
    """
    return replace(_without_order(drop_reconstruction(contents)), reconstruction=reconstruction)


def drop_reconstruction(contents: Contents) -> Contents:
    """Drop the reconstruction, and the points that need it."""
    left = tuple(point for point in contents.points if point.reconstruction is None)
    return replace(contents, reconstruction=None, points=left)


def _reconstructed_by(contents: Contents) -> str | None:
    return contents.reconstruction.ranking if contents.reconstruction else None


# Points


def add_points(contents: Contents, added: Sequence[OperatingPoint]) -> Contents:
    """Add points; each replaces the one of the same name, or comes last."""
    return replace(contents, points=_with_added(contents.points, added))


def keep_points(contents: Contents, names: Sequence[str]) -> Contents:
    """Keep only these points, in this order."""
    return replace(contents, points=tuple(_find("point", name, contents.points) for name in names))


def drop_points(contents: Contents, names: Sequence[str]) -> Contents:
    """Drop points."""
    dropped = [_find("point", name, contents.points).name for name in names]
    return replace(contents, points=tuple(point for point in contents.points if point.name not in dropped))


def _with_added(old: Sequence[Named], added: Sequence[Named]) -> tuple[Named, ...]:
    named = {item.name: item for item in old} | {item.name: item for item in added}
    return tuple(named.values())


def _find(what: str, name: str, items: Sequence[Named]) -> Named:
    for item in items:
        if item.name == name:
            return item
    raise OperatingPointError(f"found no {what} '{name}'; the model has: {_names(items)}; name one of these")


def _names(items: Iterable[Ranking | OperatingPoint]) -> str:
    return ", ".join(item.name for item in items) or "none"
