"""A changed copy of a model file: another precision, another default ranking, fewer points, or a measured curve.

The edits themselves are in `model.contents`. This module is in `measure` because it can store what a sweep measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rheostat.arguments import checked
from rheostat.errors import RheostatError
from rheostat.measure.results import read_sweep
from rheostat.measure.results.sweep import family_of
from rheostat.model.contents import (
    Contents,
    convert,
    drop_points,
    drop_rankings,
    keep_points,
    keep_upper_planes,
    set_default_ranking,
)
from rheostat.model.contents import drop_reconstruction as without_reconstruction
from rheostat.model.file import open_model
from rheostat.model.knob import PATH
from rheostat.model.ordered import order_filters
from rheostat.model.path import has_bounds
from rheostat.model.precision import Precision
from rheostat.model.summary import summarize
from rheostat.model.writer import check_target, write_model


@checked
def pack(
    model: str | Path,
    out: str | Path,
    *,
    precision: Precision | None = None,
    default_ranking: str | None = None,
    points: Sequence[str] | None = None,
    drop_points: Sequence[str] = (),
    drop_rankings: Sequence[str] = (),
    results: str | Path | None = None,
    order: bool = False,
    bits: int | None = None,
    drop_reconstruction: bool = False,
) -> dict[str, Any]:
    """Write a changed copy of a model file to `out`, and return its summary, as `summarize` does.

    precision: "fp32", "fp16" or "int8"; None keeps it. points: the only ones to keep, in this order; None keeps all.
    results: the results file of a sweep of this model, whose curve is stored for the keyboard page. order: put the
    filters in the order of the default ranking, and store the path of the knob. bits: 4 keeps the upper planes of an
    ordered int8 file only, and answers as the knob at 4 bits. drop_reconstruction: leave out the reconstruction and the
    points that need it. Everything else stays as it is; weights whose precision does not change keep their bytes.
    """
    check_target(out)
    with open_model(model) as source:
        contents = _edited(source.contents(), precision, default_ranking, points, drop_points, drop_rankings)
        contents = without_reconstruction(contents) if drop_reconstruction else contents
        contents = contents if results is None else _with_curve(contents, Path(results))
        contents = order_filters(contents) if order else contents
        write_model(out, contents if bits is None else _in_bits(contents, bits))
    with open_model(Path(out).absolute()) as packed:  # a bare name could be that of a bundled model
        return summarize(packed)


def _in_bits(contents: Contents, bits: int) -> Contents:
    if bits not in (4, 8):
        raise RheostatError(f"bits is {bits!r}; expected 4, for the upper planes alone, or 8, for what the file has")
    if bits > contents.bits:
        raise RheostatError("the file has 4 bits, and 8 were asked for; expected a file of 8 bits: pack the original")
    return keep_upper_planes(contents) if bits == 4 else contents


def _edited(
    contents: Contents,
    precision: Precision | None,
    default_ranking: str | None,
    points: Sequence[str] | None,
    dropped_points: Sequence[str],
    dropped_rankings: Sequence[str],
) -> Contents:
    if precision is not None:
        contents = convert(contents, precision)
    if default_ranking is not None:
        contents = set_default_ranking(contents, default_ranking)
    if points is not None:
        contents = keep_points(contents, points)
    return drop_points(drop_rankings(contents, dropped_rankings), dropped_points)


def _with_curve(contents: Contents, results: Path) -> Contents:
    """The contents with what a sweep measured along the path or the default ranking in their provenance."""
    criteria = {ranking.name: ranking.criterion for ranking in contents.rankings}
    along = PATH if has_bounds(contents.knob_path) else criteria.get(contents.default_ranking or "", "")
    family = family_of(along, along != PATH and contents.reconstruction is not None)
    curve = read_sweep(results).test_figures(family)
    return replace(contents, provenance={**contents.provenance, "curve": [asdict(one) for one in curve]})
