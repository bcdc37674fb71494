"""Pictures of results (matplotlib). Colours are told apart by colour-blind readers, and markers repeat them."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

from rheostat.benchmark.learned import Comparison
from rheostat.benchmark.report import SweepResults
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
OTHER = ("#0072B2", "v")


LARGEST_ABOVE = 60.0  # percent above the unpruned model: beyond, nobody would want to be


def _new_figure() -> tuple[Any, Any]:
    """A figure and its axes."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("report", "Drawing") from None
    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots()


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)


def draw_trade_off(results: SweepResults, path: Path) -> None:
    """Test perplexity against share of FLOPs, a line per criterion; seeds as a band."""
    figure, axes = _new_figure()
    from matplotlib.ticker import ScalarFormatter

    for criterion in results.criteria:
        colour, marker = STYLES.get(criterion, OTHER)
        points = [point for point in results.curve(criterion) if point.values("test", "perplexity")]
        shares = [100 * point.flops_fraction for point in points]
        perplexities = [point.values("test", "perplexity") for point in points]
        axes.plot(shares, [fmean(seeds) for seeds in perplexities], color=colour, marker=marker, label=criterion)
        if any(len(seeds) > 1 for seeds in perplexities):
            lowest, highest = [min(seeds) for seeds in perplexities], [max(seeds) for seeds in perplexities]
            axes.fill_between(shares, lowest, highest, color=colour, alpha=0.15, linewidth=0)
    labelled: set[str] = set()
    for point in results.points:
        if point.allocation == "stored" and (seeds := point.values("test", "perplexity")):
            colour, _ = STYLES.get(point.criterion, OTHER)
            family = point.rows[0]["label"].rpartition("-")[0]  # "taylor-searched" of "taylor-searched-0.8"
            label = None if family in labelled else f"{family} (stored points)"
            labelled.add(family)
            share = [100 * point.flops_fraction]
            axes.plot(share, seeds, marker="*", markersize=13, color=colour, linestyle="none", label=label)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.yaxis.set_minor_formatter(ScalarFormatter())
    axes.tick_params(axis="y", which="minor", labelsize=8)
    axes.invert_xaxis()
    axes.set_xlabel("share of the whole model's FLOPs (%)")
    axes.set_ylabel("test perplexity (log scale)")
    title = f"{Path(results.subject['model']).stem} on {results.subject['corpus']}: what a smaller share costs"
    axes.set_title(title)
    axes.grid(alpha=0.3, which="both")
    axes.legend(frameon=False)
    _save(figure, path)


def draw_learned(comparison: Comparison, path: Path) -> None:
    """Test perplexity above the unpruned model against share of FLOPs: a line a family, down to what is legible."""
    figure, axes = _new_figure()
    families: dict[str, list[tuple[float, float]]] = {}
    for share in comparison.shares():
        above = 100 * (share.perplexity / comparison.full - 1)
        family = "searched widths" if "searched" in share.name else share.criterion
        if above <= LARGEST_ABOVE:
            families.setdefault(family, []).append((100 * share.flops_fraction, above))
    whole = families.pop("", [])
    for family, points in families.items():
        colour, marker = STYLES.get(family, OTHER)
        if family != "dense" and family != "graded":
            points = [*whole, *points]  # cut from the unpruned model, so they begin there
        style = "none" if family == "dense" else "-"
        axes.plot(*zip(*sorted(points), strict=True), color=colour, marker=marker, linestyle=style, label=family)
    axes.axhline(0, color="#888888", linewidth=1)
    axes.invert_xaxis()
    axes.set_xlabel("share of the whole model's FLOPs (%)")
    axes.set_ylabel("test perplexity above the unpruned model (%)")
    axes.set_title(f"Learned operating points on {comparison.reference.subject['corpus']}")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    _save(figure, path)
