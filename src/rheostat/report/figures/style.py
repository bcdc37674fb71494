"""Pictures of sweeps (matplotlib), and what all pictures share: colours that colour-blind readers can distinguish, and
a marker for each.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from rheostat.durable import replacing
from rheostat.errors import MissingExtraError
from rheostat.measure.results import SweepResults, SweptPoint
from rheostat.measure.results.sweep import RECONSTRUCTED
from rheostat.model.reconstruction import BY_ERROR
from rheostat.report.learned import CorpusComparison, with_precision
from rheostat.report.training_free import plain_criterion

# Okabe and Ito's palette
STYLES = {
    "random": ("#000000", "o"),
    "filter-norm": ("#E69F00", "s"),
    "mean-activation": ("#56B4E9", "^"),
    "taylor": ("#009E73", "D"),
    "l0": ("#D55E00", "P"),
    "graded": ("#CC79A7", "X"),
    "dense": ("#0072B2", "p"),
    # Not from the palette, whose colours are all taken.
    "path": ("#B00020", "h"),
    "bits": ("#5B3A8C", "<"),
}
OTHER = ("#7F7F7F", "v")  # grey, because every palette colour that is visible on white belongs to a criterion
UPDATED = "*"  # the mark of points with an update, in the colour of their criterion
WHOLE = {"color": "#000000", "marker": "H", "markersize": 9}
MARK_SIZE, STEP_ASIDE = 0.04, 0.02  # as shares of a picture's width and height
ASIDE = "Marks of stored points that would overlap are drawn side by side, around their true position."
OTHER_PRECISION = "--"  # the line style for a precision other than the reference's
RECONSTRUCTED_LINE, BY_ERROR_LINE = ":", "-."  # without training: widths of the ranking, widths by the error
FONT_SIZE = 14  # on a figure of eight inches: as large as a footnote at half width
MOST_DRAWINGS = 6  # of one picture
LARGEST_ABOVE = 60.0  # percent above the unpruned model; worse models are useless


def write_figure(
    path: Path,
    paint: Callable[[Any], None],
    *,
    width: float = 8.0,
    height: float = 5.4,
    font_size: int = FONT_SIZE,
    dpi: int = 150,
) -> None:
    """Write a picture as PNG or SVG by the suffix, with the same bytes every time. paint: fills an empty figure.

    If memory runs out, the libraries below matplotlib leave out letters or a whole label, or move things, without an
    error. So a picture is drawn again, from the start, until two drawings in a row agree.
    """
    try:
        from matplotlib import font_manager, rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("report", "Drawing", error) from None

    loaded_fonts = getattr(font_manager, "_get_font", None)  # no public function forgets them

    def drawn() -> bytes:
        if loaded_fonts is not None:  # else a font that was loaded without enough memory would stay so
            loaded_fonts.cache_clear()
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        paint(figure)
        file = io.BytesIO()  # no file is open while drawing
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(file, format=path.suffix.removeprefix("."), dpi=dpi, metadata=metadata)
        return file.getvalue()

    with rc_context({"font.size": font_size, "axes.titlesize": font_size, "svg.hashsalt": "rheostat"}):
        picture, last = drawn(), b""
        for _ in range(MOST_DRAWINGS - 1):
            picture, last = drawn(), picture
            if picture == last:
                break
        else:
            raise MemoryError
    with replacing(path) as file:
        file.write(picture)


def log_perplexity(axes: Any) -> None:
    """A logarithmic axis with plain, evenly spaced numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9), numticks=30))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def mark(criterion: str, *, updated: bool = False, hollow: bool = False) -> dict[str, Any]:
    """The style of a criterion's points: a star for an update, hollow if they are not part of its line."""
    colour, marker = style_of(criterion)
    if updated:
        return {"color": colour, "marker": UPDATED, "markersize": 12, "markeredgecolor": "#000000"}
    face = "#ffffff" if hollow else colour
    return {"color": colour, "marker": marker, "markersize": 8, "markerfacecolor": face, "markeredgewidth": 1.5}


def style_of(criterion: str) -> tuple[str, str]:
    """Colour and marker: a criterion keeps them whatever is done to its points, and however its widths are chosen."""
    return STYLES.get(plain_criterion(criterion), OTHER)


def line_of(criterion: str, precision: str = "") -> str:
    """The style of a criterion's line."""
    if RECONSTRUCTED in criterion:
        return BY_ERROR_LINE if BY_ERROR in criterion else RECONSTRUCTED_LINE
    return OTHER_PRECISION if precision else "-"


def stored_name(criterion: str, updated: bool) -> str:
    """The name of points that are not part of a criterion's line."""
    if criterion == "bits":
        return "4 bits alone"
    return f"{criterion} with update" if updated else f"{criterion}, stored points"


def with_budget(name: str, budget: str) -> str:
    """The name of another model's points, with how long it was trained, where that is known."""
    return f"{name} ({budget})" if budget else name


Place = tuple[float, float]  # cost, perplexity


def side_by_side(series: Sequence[Sequence[Place]], shown: Iterable[Place]) -> list[list[Place]]:
    """The same places, moved apart if they belong to different series and would overlap. shown: all places."""
    width, height = _extent(shown)
    crowds: list[list[tuple[int, Place]]] = []
    for one, place in sorted(((one, place) for one, places in enumerate(series) for place in places), key=_perplexity):
        near = (crowd for crowd in crowds if any(_touch(place, other, width, height) for _, other in crowd))
        crowd = next(near, None)
        if crowd is None:
            crowds.append([(one, place)])
        else:
            crowd.append((one, place))
    moved: list[list[Place]] = [[] for _ in series]
    for crowd in crowds:
        steps = _steps(sorted({one for one, _ in crowd}))
        for one, (cost, perplexity) in crowd:
            moved[one].append((cost + steps[one] * STEP_ASIDE * width, perplexity))
    return moved


def _perplexity(found: tuple[int, Place]) -> float:
    return found[1][1]


def _extent(places: Iterable[Place]) -> tuple[float, float]:
    """The range of costs, and of the logarithms of perplexities."""
    costs, perplexities = zip(*places, strict=True)
    return max(costs) - min(costs), math.log(max(perplexities) / min(perplexities))


def _touch(one: Place, other: Place, width: float, height: float) -> bool:
    across, along = abs(one[0] - other[0]), abs(math.log(one[1] / other[1]))
    return across <= MARK_SIZE * width and along <= MARK_SIZE * height


def _steps(members: Sequence[int]) -> dict[int, int]:
    """Steps to both sides of the meeting point, which is left free for lines; a single mark stays in place."""
    if len(members) == 1:
        return {members[0]: 0}
    half = len(members) // 2
    return {one: at - half + (at >= half) for at, one in enumerate(members)}


def has_trade_off(results: SweepResults) -> bool:
    """Whether there is more to draw than one point."""
    return sum(map(_is_drawn, results.points)) > 1


def _is_drawn(point: SweptPoint) -> bool:
    return point.allocation != "bare" and point.is_tested


def draw_trade_off(results: SweepResults, path: Path) -> None:
    """Test perplexity against share of cost: one line per criterion, a band for seeds, marks for stored points."""

    def paint(figure: Any) -> None:
        axes = figure.subplots()
        curves = {criterion: _curve(results, criterion) for criterion in results.criteria}
        for criterion, curve in curves.items():
            if curve:
                _draw_curve(axes, criterion, curve)
        if not any(curves.values()):
            _draw_whole(axes, results)
        _draw_stored(axes, results)
        log_perplexity(axes)
        axes.invert_xaxis()
        axes.set_xlabel("share of the whole model's cost (%)")
        axes.set_ylabel(f"test perplexity ({results.precision}, log scale)")
        axes.set_title(f"{Path(results.subject.model).stem} on {results.subject.corpus}: perplexity against cost")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=FONT_SIZE - 2)

    write_figure(path, paint)


def _curve(results: SweepResults, criterion: str) -> list[SweptPoint]:
    """The points of a curve, whole model first; empty if there is only the whole model."""
    points = [point for point in results.curve(criterion) if _is_drawn(point)]
    return points if any(point.criterion for point in points) else []


def _draw_curve(axes: Any, criterion: str, points: Sequence[SweptPoint]) -> None:
    shares = [100 * point.cost for point in points]
    perplexities = [point.values("test", "perplexity") for point in points]
    values = [fmean(seeds) for seeds in perplexities]
    axes.plot(shares, values, label=criterion, linestyle=line_of(criterion), **mark(criterion))
    if any(len(seeds) > 1 for seeds in perplexities):
        lowest, highest = [min(seeds) for seeds in perplexities], [max(seeds) for seeds in perplexities]
        axes.fill_between(shares, lowest, highest, color=mark(criterion)["color"], alpha=0.15, linewidth=0)


def _draw_whole(axes: Any, results: SweepResults) -> None:
    """The whole model, if no curve starts there."""
    for point in results.points:
        if not point.criterion and _is_drawn(point):
            share, perplexity = _place(point)
            axes.plot([share], [perplexity], linestyle="none", label="whole model", **WHOLE)


def _draw_stored(axes: Any, results: SweepResults) -> None:
    families: dict[tuple[str, bool], list[Place]] = {}
    drawn = [point for point in results.points if _is_drawn(point)]
    for point in drawn:
        if point.allocation in ("stored", "bits"):
            families.setdefault((point.criterion, point.update_rank > 0), []).append(_place(point))
    if not families:
        return
    names = sorted(families, key=lambda family: stored_name(*family))
    moved = side_by_side([families[name] for name in names], map(_place, drawn))
    for (criterion, updated), places in zip(names, moved, strict=True):
        look = mark(criterion, updated=updated, hollow=True)
        axes.plot(*zip(*places, strict=True), linestyle="none", label=stored_name(criterion, updated), **look)


def _place(point: SweptPoint) -> Place:
    return 100 * point.cost, point.test_perplexity()


def draw_learned(comparison: CorpusComparison, path: Path) -> None:
    """Test perplexity above the unpruned model against share of FLOPs: one line per family, up to a legible limit."""
    families: dict[tuple[str, str, str], list[tuple[float, float]]] = {}  # by precision and budget
    shares = comparison.shares()
    ranked = {share.criterion for share in shares if not share.stored}
    for share in shares:
        above = 100 * (share.perplexity / comparison.full - 1)
        # If a criterion also has a ranking, its stored points have other widths, so they get a separate line.
        apart = share.stored and share.criterion in ranked
        family = stored_name(share.criterion, updated=False) if apart else share.criterion
        if above <= LARGEST_ABOVE and not share.has_borrowed_widths:  # those are on no line of their own
            same = families.setdefault((family, share.precision, share.budget), [])
            same.append((100 * share.flops_fraction, above))
    wholes = {precision: points for (family, precision, _), points in families.items() if not family}

    def paint(figure: Any) -> None:
        axes = figure.subplots()
        for (family, precision, budget), points in families.items():
            if not family:
                continue
            colour, marker = style_of(family)
            if family != "dense" and family != "graded":
                points = [*wholes.get(precision, ()), *points]  # cut from the unpruned model, so the line starts there
            style = "none" if family == "dense" else line_of(family, precision)
            label = with_budget(with_precision(family, precision), budget)
            axes.plot(*zip(*sorted(points), strict=True), color=colour, marker=marker, linestyle=style, label=label)
        axes.axhline(0, color="#888888", linewidth=1)
        axes.invert_xaxis()
        axes.set_xlabel("share of the whole model's cost (%)")
        axes.set_ylabel(f"test perplexity ({comparison.reference.precision})\nabove the unpruned model (%)")
        axes.set_title(f"Learned operating points on {comparison.reference.subject.corpus}")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=FONT_SIZE - 2)

    write_figure(path, paint)
