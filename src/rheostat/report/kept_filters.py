"""Which filters of a model file each criterion keeps at some shares of the FLOPs, and the corner of the weights that
the paper's weight picture shows.

Knows the file and the knob; `figures.weights` draws the picture, `claims` counts filters dropped in common.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rheostat.errors import RheostatError
from rheostat.model.file import ModelFile, open_model
from rheostat.model.knob import choose, stored_at
from rheostat.model.operating_point import OperatingPoint, full_point
from rheostat.model.shape import QRNN_GATES
from rheostat.report.published import WeightPicture, load_published

# From top to bottom as in the paper; criteria that are not in the paper come last.
ORDER = ("random", "filter-norm", "mean-activation", "l0")
# Criteria that learn every point separately: the paper means these points, not the ranking by gates.
POINT_BY_POINT = ("l0",)


@dataclass(frozen=True)
class KeptFilters:
    """points: by criterion and share, if the model has them. corner: [z, f, o][filters, elements] of one layer."""

    path: Path
    flops: int
    layer: int
    shares: tuple[float, ...]
    criteria: tuple[str, ...]
    points: Mapping[tuple[str, float], OperatingPoint]
    corner: NDArray[np.float32]

    def dropped(self, criterion: str, share: float) -> set[tuple[int, int]] | None:
        """Layer and index of each filter that is not kept."""
        point = self.points.get((criterion, share))
        if point is None:
            return None
        sizes = self._sizes()
        kept = {(layer, int(index)) for layer, keep in enumerate(point.keep) for index in keep}
        return {(layer, index) for layer, size in enumerate(sizes) for index in range(size)} - kept

    def _sizes(self) -> tuple[int, ...]:
        return next(point.widths for (_, share), point in self.points.items() if share == 1)


def read_kept_filters(path: Path, picture: WeightPicture | None = None) -> KeptFilters:
    """All criteria of a model file, at the shares of the paper's weight picture."""
    picture = picture or load_published().picture
    with open_model(path) as file:
        if file.shape.cell != "qrnn":
            raise RheostatError(f"{path} has cell '{file.shape.cell}'; expected qrnn, the only one that can be cut")
        criteria = _criteria(file)
        points = {
            (criterion, share): point
            for criterion in criteria
            for share in picture.flops_fractions
            if (point := _point(file, criterion, share)) is not None
        }
        corner = _corner(file, picture)
        flops = file.shape.flops
    return KeptFilters(path, flops, picture.layer, picture.flops_fractions, criteria, points, corner)


def _criteria(file: ModelFile) -> tuple[str, ...]:
    found = {entry.criterion for entry in file.description.rankings}
    found |= {entry.criterion for entry in file.description.points}
    if not found:
        raise RheostatError(f"{file.path} has no ranking and no point; add one with: rheostat prune")
    return (*(name for name in ORDER if name in found), *sorted(found - set(ORDER)))


def _point(file: ModelFile, criterion: str, share: float) -> OperatingPoint | None:
    """The point by the criterion's ranking, else its stored point: the same kind at all shares, so that they are
    comparable. None if it has neither.
    """
    if share == 1:
        return full_point(file.shape)
    rankings = [entry.name for entry in file.description.rankings if entry.criterion == criterion]
    if rankings and criterion not in POINT_BY_POINT:
        return choose(file, share, ranking=rankings[0])
    return stored_at(file, share, criterion)


def _corner(file: ModelFile, picture: WeightPicture) -> NDArray[np.float32]:
    weight = file.tensor(f"layers.{picture.layer}.weight")
    rows, columns = weight.shape
    stacked = weight.reshape(QRNN_GATES, rows // QRNN_GATES, columns)  # z, f, o
    return np.array(stacked[:, : picture.filters, : picture.elements])
