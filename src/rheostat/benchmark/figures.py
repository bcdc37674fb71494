"""Pictures of results (matplotlib). Colours are told apart by colour-blind readers, and markers repeat them."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

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
}
OTHER = ("#0072B2", "v")


def draw_trade_off(results: SweepResults, path: Path) -> None:
    """Test perplexity against share of FLOPs, a line per criterion; seeds as a band."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import ScalarFormatter
    except ImportError:
        raise MissingExtraError("report", "Drawing") from None
    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
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
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
