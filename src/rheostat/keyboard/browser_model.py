"""The model as the browser gets it: one file for the core, and what a query costs at each position of its knob.

An ordered file in the wanted precision is sent as it is; any other is put in order in memory, as the runtime does.
The knob then turns inside that file. Positions are whole percentages of the default ranking: a stored point with its
own filters is served by the server only. Knows files and operating points; knows nothing of HTTP or the page.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rheostat.model.cut import reorder
from rheostat.model.file import ModelFile
from rheostat.model.knob import can_serve, choose, unmeasured_warning
from rheostat.model.operating_point import OperatingPoint
from rheostat.model.ordered import ordered_bytes
from rheostat.model.path import SMALLEST, KnobPath, path_along, position_of
from rheostat.model.precision import Precision
from rheostat.model.widths import select

SMALLEST_PERCENT = 5  # below this, no model is useful
NAME = "model.safetensors"


@dataclass(frozen=True, eq=False)
class BrowserModel:
    """The bytes of an ordered file, and the positions of its path. mapped: the file that the bytes are mapped from."""

    contents: NDArray[np.uint8]
    path: KnobPath
    mapped: ModelFile | None = None

    def check(self) -> None:
        """Raise ModelFileError if the mapped file was changed or cut short. Call it before reading the contents."""
        if self.mapped is not None:
            self.mapped.check_unchanged()

    def pieces(self, size: int) -> Iterator[bytes]:
        """Copies of the contents, `size` bytes each. The file is checked before each, as it may change meanwhile."""
        for start in range(0, len(self.contents), size):
            self.check()
            yield self.contents[start : start + size].tobytes()

    @cached_property
    def address(self) -> str:
        """Changes with the contents, so a browser that has them need not ask again."""
        self.check()
        return f"{NAME}?v={hashlib.blake2b(self.contents.data, digest_size=8).hexdigest()}"


def browser_model(file: ModelFile, precision: Precision) -> BrowserModel | None:
    """The model for the browser; None if the core cannot run it."""
    if file.shape.cell != "qrnn":
        return None
    if file.ordered is not None and file.precision == precision:
        file.check_scales()
        file.ranking()  # checks that the filters are in its order
        return BrowserModel(file.mapped_bytes(), file.knob_path(), file)
    weights, shape = file.stored_weights(), file.shape
    path: KnobPath
    order, path = "as stored", (position_of(choose(file)),)
    if file.description.default_ranking is not None:
        ranking = file.ranking()
        weights, order = reorder(weights, shape, ranking), ranking.name
        path = path_along(ranking, shape, SMALLEST)
    counts = file.counts()
    made = ordered_bytes(weights, shape, file.vocabulary, precision, order=order, path=path, counts=counts)
    return BrowserModel(made, path)


def browser_positions(file: ModelFile) -> list[dict[str, Any]]:
    """What the page needs to know of each percentage, from the smallest to the whole model. FLOPs are of one query."""
    found = []
    for percent in range(smallest_percent(file, stored=False), 101):
        point = _point(file, percent / 100)
        found.append({
            "percent": percent,
            "point": point.name,
            "widths": list(point.widths),
            "cost": point.cost,
            "flops": point.cut_shape(file.shape).flops,
            "flops_fraction": point.flops_fraction,
            "warning": unmeasured_warning(file, point),
        })  # fmt: skip
    return found


def smallest_percent(file: ModelFile, *, stored: bool = True) -> int:
    """The lowest position that the file can serve; it can serve every higher one too. stored: stored points count."""
    if not stored and file.description.default_ranking is None:
        return 100
    low, high = SMALLEST_PERCENT, 100
    while low < high:
        middle = (low + high) // 2
        if can_serve(file, middle / 100):
            high = middle
        else:
            low = middle + 1
    return high


def _point(file: ModelFile, knob: float) -> OperatingPoint:
    """What the knob selects, or if that is a point with filters of its own, a cut by the default ranking."""
    point = choose(file, knob)
    if knob == 1 or point.ranking == file.description.default_ranking:
        return point
    return select(file.ranking(), file.shape, knob)
