"""The paper's weight picture (matplotlib): a corner of the first layer's weights at each share, one row per criterion.

From top to bottom: the first filters of z, f and o. From left to right: their first elements. Cut filters are blank
(white). The first layer reads the embedding, which keeps all its columns, so only rows are cut. Black is zero, so blank
is never mistaken for a small weight; colour-blind readers can tell negative from positive.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rheostat.report.figures.style import write_figure
from rheostat.report.kept_filters import KeptFilters

NEGATIVE, ZERO, POSITIVE, BLANK = "#56B4E9", "#000000", "#F0A500", "#ffffff"
FONT_SIZE = 22  # the figure is wide: as large as a footnote at half width
LARGEST_SHARE = 0.97  # of the weights fit the colour scale; otherwise one large weight would make all others black
PANEL = 2.1  # inches


def draw_weights(kept: KeptFilters, path: Path) -> None:
    width, height = 1.4 + PANEL * len(kept.shares), 2.4 + PANEL * len(kept.criteria)

    def paint(figure: Any) -> None:
        grid = figure.subplots(len(kept.criteria), len(kept.shares), squeeze=False)
        limit = float(np.quantile(np.abs(kept.corner), LARGEST_SHARE)) or 1.0
        image = None
        for criterion, line in zip(kept.criteria, grid, strict=True):
            line[0].set_ylabel(criterion, fontsize=FONT_SIZE - 2)
            for share, axes in zip(kept.shares, line, strict=True):
                image = _draw_corner(axes, kept, criterion, share, limit) or image
                axes.tick_params(axis="y", labelleft=axes is line[0])
        for share, top, bottom in zip(kept.shares, grid[0], grid[-1], strict=True):
            top.set_title(f"{share:.0%}")
            bottom.set_xlabel(f"elements 1–{kept.corner.shape[-1]}", fontsize=FONT_SIZE - 4)
        figure.suptitle("share of the whole model's FLOPs")
        bar = figure.colorbar(image, ax=grid, location="bottom", shrink=0.7, aspect=40, pad=0.02, extend="both")
        bar.set_label("weight (no unit); white: the filter is cut", fontsize=FONT_SIZE - 2)

    write_figure(path, paint, width=width, height=height, font_size=FONT_SIZE)


def masked_corner(kept: KeptFilters, criterion: str, share: float) -> NDArray[np.float32] | None:
    """[3 · filters, elements], NaN where the filter is cut; None if there is no point at that share."""
    point = kept.points.get((criterion, share))
    if point is None:
        return None
    corner = kept.corner.copy()
    cut = np.setdiff1d(np.arange(corner.shape[1]), point.keep[kept.layer])
    corner[:, cut] = np.nan
    return corner.reshape(-1, corner.shape[2])


def _draw_corner(axes: Any, kept: KeptFilters, criterion: str, share: float, limit: float) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    axes.set_xticks([])
    axes.set_yticks([])
    corner = masked_corner(kept, criterion, share)
    if corner is None:
        axes.text(0.5, 0.5, "no point\nhere", ha="center", va="center", transform=axes.transAxes)
        axes.set_aspect("equal")
        return None
    colours = LinearSegmentedColormap.from_list("weights", [NEGATIVE, ZERO, POSITIVE]).with_extremes(bad=BLANK)
    shown = {"cmap": colours, "vmin": -limit, "vmax": limit, "interpolation": "nearest"}
    image = axes.imshow(corner, aspect=corner.shape[1] / corner.shape[0], **shown)
    _mark_gates(axes, len(corner))
    return image


def _mark_gates(axes: Any, rows: int) -> None:
    """Where z, f and o begin."""
    axes.set_yticks([rows * (part + 0.5) / 3 - 0.5 for part in range(3)], ["z", "f", "o"])
    axes.tick_params(axis="y", length=0, labelsize=FONT_SIZE - 4)
    for part in (1, 2):
        axes.axhline(rows * part / 3 - 0.5, color="#999999", linewidth=0.8)
