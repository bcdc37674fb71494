"""Writing a model file: contents are checked, then written completely or not at all.

Nothing is written that a reader would refuse. Knows how rankings, points and the description become tensors and
metadata; `description` knows which tensors a file needs, `container` the bytes, `contents` the edits.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rheostat.errors import ModelFileError, OperatingPointError
from rheostat.model.container import arrange, header_with_checksums, parse_header, write_container
from rheostat.model.container import check_target as check_container_target
from rheostat.model.contents import Contents
from rheostat.model.counts import counts_tensors
from rheostat.model.description import describe, metadata_of
from rheostat.model.names import HIDDEN, KNOWN, moment_tensors, point_tensors, scores_name
from rheostat.model.operating_point import OperatingPoint, Ranking
from rheostat.model.path import check_path, path_tensors
from rheostat.model.planes import as_planes
from rheostat.model.reconstruction import Reconstruction


def write_model(path: str | Path, contents: Contents, *, alone: bool = False) -> None:
    """Write a model file; if that fails, the old file is untouched. The same contents always give the same bytes.

    alone: no other process writes this file, so a half-written one left by a crash is removed.
    """
    with _errors_with_path(path):
        for ranking in contents.rankings:
            ranking.check(contents.shape)
        for point in contents.points:
            point.check(contents.shape)
        if contents.ordered is not None:
            check_path(contents.knob_path, contents.shape)
        tensors = {**_weight_tensors(contents), **contents.words, **path_tensors(contents.knob_path, contents.shape)}
        tensors |= _reconstruction_tensors(contents.reconstruction)
        if contents.counts is not None:
            contents.counts.check(contents.shape.vocabulary_size)
        tensors |= counts_tensors(contents.counts)
        arrays = arrange(tensors | _ranking_tensors(contents.rankings) | _point_tensors(contents.points))
        header = header_with_checksums(_metadata(contents), arrays)
        if contents.ordered is not None:
            _check_order(contents)
        describe(*parse_header(header)[:2])  # raises if a reader would refuse the file
        write_container(Path(path), header, arrays.values(), alone=alone)


def check_target(path: str | Path) -> None:
    """Raise ModelFileError if no model file can be written to this path. Call this before any work."""
    with _errors_with_path(path):
        check_container_target(Path(path))


def _check_order(contents: Contents) -> None:
    """What a reader of an ordered file checks when it uses it."""
    for ranking in contents.rankings:
        if ranking.name == contents.ordered:
            ranking.check_order()


@contextlib.contextmanager
def _errors_with_path(path: str | Path) -> Iterator[None]:
    """Within the block, errors become ModelFileErrors that start with the path."""
    try:
        yield
    except (ModelFileError, OperatingPointError) as error:
        raise ModelFileError(f"{path}: {error}") from error.__cause__


def _metadata(contents: Contents) -> dict[str, str]:
    return metadata_of(
        contents.shape,
        text=contents.text,
        rankings=[_ranking_entry(ranking) for ranking in contents.rankings],
        default_ranking=contents.default_ranking,
        ordered=contents.ordered,
        reconstruction=_reconstruction_entry(contents.reconstruction),
        points=[_point_entry(point, contents) for point in contents.points],
        recipe=contents.recipe,
        provenance=contents.provenance,
        origin=contents.origin.as_json(),
        is_newer=contents.counts is not None or not contents.words.keys().isdisjoint((HIDDEN, KNOWN)),
    )


def _ranking_entry(ranking: Ranking) -> dict[str, Any]:
    return {
        "name": ranking.name,
        "criterion": ranking.criterion,
        "seed": ranking.seed,
        "comparable": ranking.comparable,
        "origin": ranking.origin.as_json(),
    }


def _point_entry(point: OperatingPoint, contents: Contents) -> dict[str, Any]:
    return {
        "name": point.name,
        "criterion": point.criterion,
        "flops_fraction": contents.shape.flops_fraction(point.widths),
        "preferred": point.preferred,
        "origin": point.origin.as_json(),
        "reconstructed": point.reconstruction is not None,
    }


def _reconstruction_entry(reconstruction: Reconstruction | None) -> dict[str, Any]:
    if reconstruction is None:
        return {}
    return {"ranking": reconstruction.ranking, "origin": reconstruction.origin.as_json()}


def _reconstruction_tensors(reconstruction: Reconstruction | None) -> dict[str, NDArray[Any]]:
    tensors: dict[str, NDArray[Any]] = {}
    for layer, moments in enumerate(reconstruction.layers if reconstruction else ()):
        names = moment_tensors(layer)
        tensors |= {names.mean: moments.mean, names.spread: moments.spread, names.factor: moments.factor}
    return tensors


def _weight_tensors(contents: Contents) -> Mapping[str, NDArray[Any]]:
    """Weights as they are; those of an ordered int8 file in planes."""
    if contents.ordered is None or contents.precision != "int8":
        return contents.weights
    return as_planes(contents.weights, contents.shape, contents.bits)


def _ranking_tensors(rankings: Iterable[Ranking]) -> dict[str, NDArray[Any]]:
    return {
        scores_name(ranking.name, layer): np.asarray(scores, np.float32)
        for ranking in rankings
        for layer, scores in enumerate(ranking.scores)
    }


def _point_tensors(points: Iterable[OperatingPoint]) -> dict[str, NDArray[Any]]:
    tensors: dict[str, NDArray[Any]] = {}
    for point in points:
        for layer, keep in enumerate(point.keep):
            names = point_tensors(point.name, layer)
            tensors[names.keep] = keep.astype(np.int32)
            if (gates := point.gates[layer] if point.gates else None) is not None:
                tensors[names.gate] = np.asarray(gates, np.float32)
            if (update := point.update(layer)) is not None:
                tensors[names.u] = np.asarray(update.u, np.float32)
                tensors[names.v] = np.asarray(update.v, np.float32)
            if (bias := point.bias(layer)) is not None:
                tensors[names.bias] = np.asarray(bias, np.float32)
    return tensors
