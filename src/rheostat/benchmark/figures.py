"""Pictures of results (matplotlib). Colours are told apart by colour-blind readers, and markers repeat them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

from rheostat.benchmark.learned import Comparison, with_precision
from rheostat.benchmark.results import Point, SweepResults
from rheostat.errors import MissingExtraError

# Okabe and Ito's palette
STYLES = {
    "random": ("#000000", "o"),
    "filter-norm": ("#E69F00", "s"),
    "mean-activation": ("#56B4E9", "^"),
    "taylor": ("#009E73", "D"),
    "l0": ("#D55E00", "P"),
    "graded": ("#CC79A7", "X"),
    "dense": ("#0072B2", "*"),
}
OTHER = ("#7F7F7F", "v")  # grey: every colour of the palette that shows on white has its criterion
OTHER_PRECISION = "--"  # the line of points in another precision than the reference's
FONT_SIZE = 14  # on a figure of eight inches: at half width still as large as a footnote
LARGEST_ABOVE = 60.0  # percent above the unpruned model: beyond, nobody would want to be


@contextmanager
def figure_at(path: Path, width: float = 8.0, height: float = 5.4, font_size: int = FONT_SIZE) -> Iterator[Any]:
    """An empty figure of some inches; saved as PNG or SVG by the suffix, with the same bytes on every day."""
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("report", "Drawing") from None
    with rc_context({"font.size": font_size, "axes.titlesize": font_size, "svg.hashsalt": "rheostat"}):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)


def log_perplexity(axes: Any) -> None:
    """A logarithmic axis with plain, evenly spread numbers on it."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9), numticks=30))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def draw_trade_off(results: SweepResults, path: Path) -> None:
    """Test perplexity against share of FLOPs, a line per criterion; seeds as a band."""
    with figure_at(path) as figure:
        axes = figure.subplots()
        for criterion in results.criteria:
            _draw_curve(axes, criterion, results.curve(criterion))
        _draw_stored(axes, results)
        log_perplexity(axes)
        axes.invert_xaxis()
        axes.set_xlabel("share of the whole model's FLOPs (%)")
        axes.set_ylabel(f"test perplexity ({results.precision}, log scale)")
        axes.set_title(
            f"{Path(results.subject['model']).stem} on {results.subject['corpus']}: what a smaller share costs"
        )
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=FONT_SIZE - 2)


def _draw_curve(axes: Any, criterion: str, curve: Sequence[Point]) -> None:
    colour, marker = STYLES.get(criterion, OTHER)
    points = [point for point in curve if point.values("test", "perplexity")]
    if not any(point.criterion for point in points):
        return  # the whole model alone is no curve
    shares = [100 * point.flops_fraction for point in points]
    perplexities = [point.values("test", "perplexity") for point in points]
    axes.plot(shares, [fmean(seeds) for seeds in perplexities], color=colour, marker=marker, label=criterion)
    if any(len(seeds) > 1 for seeds in perplexities):
        lowest, highest = [min(seeds) for seeds in perplexities], [max(seeds) for seeds in perplexities]
        axes.fill_between(shares, lowest, highest, color=colour, alpha=0.15, linewidth=0)


def _draw_stored(axes: Any, results: SweepResults) -> None:
    labelled: set[str] = set()
    for point in results.points:
        if point.allocation == "stored" and (seeds := point.values("test", "perplexity")):
            colour, _ = STYLES.get(point.criterion, OTHER)
            family = point.label.rpartition("-")[0]  # "taylor-searched" of "taylor-searched-0.8"
            label = None if family in labelled else f"{family} (stored points)"
            labelled.add(family)
            share = [100 * point.flops_fraction]
            axes.plot(share, seeds, marker="*", markersize=13, color=colour, linestyle="none", label=label)


def draw_learned(comparison: Comparison, path: Path) -> None:
    """Test perplexity above the unpruned model against share of FLOPs: a line a family, down to what is legible."""
    families: dict[tuple[str, str], list[tuple[float, float]]] = {}  # by precision
    for share in comparison.shares():
        above = 100 * (share.perplexity / comparison.full - 1)
        family = "searched widths" if "searched" in share.name else share.criterion
        if above <= LARGEST_ABOVE:
            families.setdefault((family, share.precision), []).append((100 * share.flops_fraction, above))
    wholes = {precision: points for (family, precision), points in families.items() if not family}
    with figure_at(path) as figure:
        axes = figure.subplots()
        for (family, precision), points in families.items():
            if not family:
                continue
            colour, marker = STYLES.get(family, OTHER)
            if family != "dense" and family != "graded":
                points = [*wholes.get(precision, ()), *points]  # cut from the unpruned model, so they begin there
            style = "none" if family == "dense" else OTHER_PRECISION if precision else "-"
            label = with_precision(family, precision)
            axes.plot(*zip(*sorted(points), strict=True), color=colour, marker=marker, linestyle=style, label=label)
        axes.axhline(0, color="#888888", linewidth=1)
        axes.invert_xaxis()
        axes.set_xlabel("share of the whole model's FLOPs (%)")
        axes.set_ylabel(f"test perplexity ({comparison.reference.precision})\nabove the unpruned model (%)")
        axes.set_title(f"Learned operating points on {comparison.reference.subject['corpus']}")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=FONT_SIZE - 2)
