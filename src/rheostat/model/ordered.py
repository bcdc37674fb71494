"""Ordered files: filters of every layer in the order of a ranking, best first, so a position is one width per layer.

`order_filters` makes contents ordered, to be written as a model file; `ordered_bytes` makes such bytes in memory from
any weights. The core opens both: it reads the description's `format_version`, `cell`, `shape` and `ordered`, the
weights, the vocabulary and the path. Tensor names come from `names`, keys from `description`; core/rheostat.h says how
the core runs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rheostat.errors import OperatingPointError
from rheostat.model.container import LENGTH_BYTES, LINE_BYTES, arrange, header_bytes
from rheostat.model.contents import Contents, set_default_ranking
from rheostat.model.counts import Counts, counts_tensors
from rheostat.model.cut import reorder, reorder_point, reorder_ranking
from rheostat.model.description import metadata_of
from rheostat.model.names import VOCABULARY, is_scale_name, scale_name
from rheostat.model.operating_point import Ranking
from rheostat.model.path import SMALLEST, KnobPath, known_down_to, path_along, path_tensors
from rheostat.model.planes import as_planes
from rheostat.model.precision import dequantize, quantize, widen
from rheostat.model.shape import ModelShape
from rheostat.text.vocabulary import Vocabulary

Arrays = Mapping[str, NDArray[Any]]


def order_filters(contents: Contents, ranking: str | None = None, smallest: float | None = None) -> Contents:
    """The same model with its filters in the order of a ranking, which becomes the default, and with its path.

    ranking: a name; without one, the default. All weights, scores and points move along and keep their values.
    smallest: the share of the cost where the path ends; without one, where the ranking was graded or measured to.
    """
    if ranking is not None:
        contents = set_default_ranking(contents, ranking)
    by = next((entry for entry in contents.rankings if entry.name == contents.default_ranking), None)
    if by is None:
        names = ", ".join(entry.name for entry in contents.rankings) or "none"
        raise OperatingPointError(
            f"the file has no default ranking to order by; its rankings: {names}; "
            "name the default ranking, or make one with rheostat prune"
        )
    if contents.reconstruction is not None:
        raise OperatingPointError(
            "the file has a reconstruction, so the weights of its positions differ and cannot be served in order: "
            "do not order it, or drop the reconstruction"
        )
    if not by.is_in_order:
        contents = _moved(contents, by)
        by = reorder_ranking(by, by)
    if smallest is None:
        smallest = known_down_to(by.criterion, contents.recipe, contents.provenance) or SMALLEST
    return replace(contents, ordered=by.name, knob_path=path_along(by, contents.shape, smallest))


def _moved(contents: Contents, by: Ranking) -> Contents:
    return replace(
        contents,
        weights=reorder(contents.weights, contents.shape, by),
        rankings=tuple(reorder_ranking(ranking, by) for ranking in contents.rankings),
        points=tuple(reorder_point(point, contents.shape, by) for point in contents.points),
    )


def ordered_bytes(
    weights: Arrays,
    shape: ModelShape,
    vocabulary: Vocabulary,
    precision: Literal["fp32", "int8"] = "int8",
    *,
    order: str = "as stored",
    path: KnobPath = (),
    bits: int = 8,
    counts: Counts | None = None,
) -> NDArray[np.uint8]:
    """The bytes of an ordered model with nothing but what the core reads. It may be one that was cut.

    weights: those of `shape` by name, of any stored precision (`{name}.scale` beside int8); `cut.reorder` puts their
    filters in order. order: the name of the ranking. path: positions of that ranking, the largest first. bits:
    4 leaves out the lower planes.
    """
    words = {VOCABULARY: np.frombuffer(vocabulary.to_bytes(), np.uint8)}
    prepared = as_precision(weights, precision)
    planes = as_planes(prepared, shape, bits) if precision == "int8" else prepared
    arrays = arrange(planes | words | path_tensors(path, shape) | counts_tensors(counts))
    header = header_bytes(metadata_of(shape, ordered=order), arrays)
    start_bytes = np.frombuffer(len(header).to_bytes(LENGTH_BYTES, "little") + header, np.uint8)
    parts = [start_bytes, *(array.reshape(-1).view(np.uint8) for array in arrays.values())]
    room = np.empty(sum(map(len, parts)) + LINE_BYTES, np.uint8)
    start = -room.ctypes.data % LINE_BYTES
    whole = room[start : start + len(room) - LINE_BYTES]
    np.concatenate(parts, out=whole)
    return whole


def as_precision(weights: Arrays, precision: str) -> dict[str, NDArray[Any]]:
    """Weights of any stored precision as float32, or as int8 with row scales; what fits already is not copied."""
    prepared: dict[str, NDArray[Any]] = {}
    for name, array in weights.items():
        scale = weights.get(scale_name(name))
        if is_scale_name(name):
            continue
        if array.ndim == 2 and precision == "int8":
            integers = (array, scale) if scale is not None else quantize(widen(array))
            prepared[name], prepared[scale_name(name)] = integers
        else:
            prepared[name] = widen(array) if scale is None else dequantize(array, scale)
    return prepared
