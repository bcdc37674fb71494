"""Pictures of the cost of quality (matplotlib): the trade-off over FLOPs, time and energy, and the fit of a bench.

Only measured points are drawn; estimated energy is labelled as an estimate and never fitted. Legible at half width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rheostat.measure.results import BenchRow, ModelBench, NGramResults
from rheostat.measure.results.bench import rows_to_fit
from rheostat.measure.results.sweep import RECONSTRUCTED
from rheostat.report.evidence import CorpusEvidence, Measurement
from rheostat.report.figures.style import (
    BY_ERROR_LINE,
    FONT_SIZE,
    RECONSTRUCTED_LINE,
    Place,
    line_of,
    log_perplexity,
    mark,
    side_by_side,
    stored_name,
    with_budget,
    write_figure,
)
from rheostat.report.learned import DENSE, with_precision
from rheostat.report.training_free import (
    FROM_ERROR,
    UNIFORM,
    TrainingFreeLine,
    best_line,
    cut_alone,
    reconstructed_lines,
)

FREE_STYLES: dict[str, Any] = {UNIFORM: RECONSTRUCTED_LINE, FROM_ERROR: BY_ERROR_LINE}  # other widths are single marks
FRONT = {"color": "#999999", "linewidth": 7, "alpha": 0.45, "zorder": 1}
LINE = "#0072B2"
NGRAM = "#555555"
OTHER_BITS = "#777777"
ABOVE_NGRAMS = 1.03
FEWEST_TO_FIT = 3
MOST_ABOVE = 50.0  # percent above the whole model; worse points are not shown


@dataclass(frozen=True)
class Family:
    """Points that share a colour and a line. name: a criterion, and what distinguishes these points from its others."""

    name: str
    criterion: str
    precision: str
    updated: bool
    joined: bool
    points: tuple[Measurement, ...]


@dataclass(frozen=True)
class Panel:
    label: str
    cost: Callable[[Measurement], float | None]
    is_latency: bool = False


@dataclass(frozen=True)
class Line:
    """y = intercept + slope · x, by least squares."""

    slope: float
    intercept: float

    def written(self, unit: str) -> str:
        """The line as text, for a cost against millions of FLOPs."""
        sign = "+" if self.slope >= 0 else "−"
        return f"{self.intercept:.3g} {unit} {sign} {abs(self.slope):.3g} {unit} per million FLOPs"


def families(on: CorpusEvidence) -> list[Family]:
    """Measurements by criterion and precision; seeds and bare points are already part of their criterion.

    Of the points without training, only the best line is included; all of them are in a separate panel
    (`_draw_training_free`). Controls are not drawn.
    """
    best = best_line(on)
    groups: dict[tuple[str, str, bool, bool, str], list[Measurement]] = {}
    wholes = {one.precision: one for one in reversed(on.measurements) if not one.criterion}
    for one in on.without_controls:
        if one.reconstructed and (best is None or one not in best.points):
            continue
        if one.criterion and one.allocation != "bare" and not one.has_borrowed_widths:
            stored = one.allocation == "bits" or (one.allocation == "stored" and _has_ranking(on, one))
            budget = on.comparison.budget(one.path) if one.criterion == DENSE and on.comparison else ""
            groups.setdefault((one.criterion, one.precision, one.updated, stored, budget), []).append(one)
    found = []
    for (criterion, precision, updated, stored, budget), points in sorted(groups.items()):
        joined = not updated and not stored and criterion != DENSE
        whole = wholes.get(precision)
        start = [whole] if whole and joined and not any(one.cost == 1 for one in points) else []
        ordered = sorted([*start, *points], key=lambda one: -one.cost)
        name = with_precision(stored_name(criterion, updated) if updated or stored else criterion, precision)
        name = with_budget(name, budget)
        found.append(Family(name, criterion, precision, updated, joined, tuple(ordered)))
    return found


def _has_ranking(on: CorpusEvidence, one: Measurement) -> bool:
    return any(other.criterion == one.criterion and other.allocation == "uniform" for other in on.measurements)


def pareto_front(points: Sequence[tuple[float, float, float]], largest: float | None = None) -> list[Place]:
    """The front of points (cost, valid perplexity, test perplexity): chosen on valid, drawn on test, cheapest first.

    Choosing on the text that is drawn would prefer whatever was lucky there.
    """
    front: list[tuple[float, float, float]] = []
    for cost, valid, test in sorted(points):
        if (largest is None or test <= largest) and (not front or valid < front[-1][1]):
            front.append((cost, valid, test))
    return [(cost, test) for cost, _, test in front]


def front_points(on: CorpusEvidence, panel: Panel) -> list[tuple[float, float, float]]:
    """What the front is chosen from: points of the reference model's own weights, since other weights are another
    model, and only those that were measured on both texts.
    """
    return [
        (cost, one.valid_perplexity, one.test_perplexity)
        for one in on.comparable
        if one.criterion != DENSE and one.valid_perplexity is not None and (cost := panel.cost(one)) is not None
    ]


def largest_shown(on: CorpusEvidence) -> float | None:
    """A little above the n-grams, since a worse model is useless; without such a bound, the paper's cut-off."""
    bound = bound_by_ngrams(on)
    return on.cut_off if bound is None else bound


def bound_by_ngrams(on: CorpusEvidence) -> float | None:
    """A little above the n-grams; None without n-grams, or if the whole model is worse and would not be drawn."""
    if not on.ngrams:
        return None
    bound = ABOVE_NGRAMS * max(one.test_perplexity for one in on.ngrams)
    wholes = [one.test_perplexity for one in on.measurements if one.cost == 1 and one.criterion != DENSE]
    return bound if not wholes or min(wholes) <= bound else None


def panels(on: CorpusEvidence) -> list[Panel]:
    """Always share of cost; also time and energy if a bench measured at least two distinct points."""
    chosen = [Panel("share of the whole model's cost (%)", lambda one: 100 * one.cost)]
    if on.bench is None:
        return chosen
    where = f"{on.bench.subject.precision} on {on.bench.provenance.machine.processor}"
    estimate = ", ESTIMATE" if on.bench.has_estimated_energy else ""
    for label, quantity, is_latency in (
        (f"latency (ms/query), {where}", lambda row: row.latency_ms, True),
        (
            f"energy (mJ/query{estimate}), {where}",
            lambda row: row.energy_mj if row.energy.estimate else row.measured_mj,
            False,
        ),
    ):
        panel = Panel(label, _cost_of(on, quantity), is_latency)
        if len({cost for one in on.without_controls if (cost := panel.cost(one)) is not None}) > 1:
            chosen.append(panel)
    return chosen


def _cost_of(on: CorpusEvidence, quantity: Callable[[BenchRow], float | None]) -> Callable[[Measurement], float | None]:
    def cost_of(one: Measurement) -> float | None:
        found = on.cost_of(one)
        return quantity(found.row) if found else None

    return cost_of


def draw_costs(on: CorpusEvidence, path: Path) -> None:
    """Test perplexity against every known cost: one line per criterion, with the Pareto front behind them."""
    chosen, largest = panels(on), largest_shown(on)
    free = reconstructed_lines(on)

    def paint(figure: Any) -> None:
        all_axes = np.atleast_1d(figure.subplots(len(chosen) + bool(free), 1))
        if free:
            _draw_training_free(all_axes[-1], on, free)
            all_axes = all_axes[:-1]
        for panel, axes in zip(chosen, all_axes, strict=True):
            timed = [one for one in on.ngrams if panel.is_latency and _same_machine(one, on.bench)]
            others = [(one.latency.latency_ms, one.test_perplexity) for one in timed]
            _draw_panel(axes, panel, families(on), others, largest, pareto_front(front_points(on, panel), largest))
            axes.set_ylabel(f"test perplexity\n({precision_of(on)}, log scale)")
            for ngram in on.ngrams:
                _draw_ngram(axes, ngram, ngram in timed)
            _bound(axes, largest)
        all_axes[0].set_title(model_and_corpus(on))
        handles, labels = all_axes[0].get_legend_handles_labels()
        style = {"ncols": 2, "frameon": False, "fontsize": FONT_SIZE - 2, "handlelength": 3}
        figure.legend(handles, labels, loc="outside upper center", **style)

    write_figure(path, paint, height=2.0 + 5.0 * (len(chosen) + bool(free)))


def _draw_training_free(axes: Any, on: CorpusEvidence, free: Sequence[TrainingFreeLine]) -> None:
    """Every criterion without training, as percent above the whole model: cut alone, and reconstructed."""
    whole = on.full
    assert whole is not None  # only the reference's own weights are reconstructed

    def percent(points: Sequence[Measurement]) -> tuple[list[float], list[float]]:
        above = [100 * (one.test_perplexity / whole.test_perplexity - 1) for one in points]
        return [100 * one.cost for one in points], above

    for line in free:
        style = FREE_STYLES.get(line.widths, "none")
        look = mark(line.criterion, hollow=style == "none")
        label = f"{line.criterion}, {RECONSTRUCTED}, widths {line.widths}"
        points = line.points if style == "none" else (whole, *line.points)
        axes.plot(*percent(points), linestyle=style, label=label, **look)
        plain = [found for one in line.points if (found := cut_alone(on, one))]
        if line.widths == UNIFORM and plain:
            label = f"{line.criterion}, cut alone"
            axes.plot(*percent([whole, *plain]), color=look["color"], linewidth=1, label=label)
    axes.set_ylim(-1, MOST_ABOVE)
    axes.invert_xaxis()
    axes.set_xlabel("share of the whole model's cost (%): nothing is trained")
    axes.set_ylabel("test perplexity\nabove the whole model (%)")
    axes.grid(alpha=0.3)
    axes.legend(handles=_training_free_legend(free), frameon=False, fontsize=FONT_SIZE - 3, loc="upper right")


def _training_free_legend(free: Sequence[TrainingFreeLine]) -> list[Any]:
    """Colours for criteria, line styles for widths: one entry for each instead of one for each pair."""
    from matplotlib.lines import Line2D

    criteria = sorted({line.criterion for line in free})
    handles: list[Any] = [Line2D([], [], linestyle="none", label=name, **mark(name)) for name in criteria]
    handles.append(Line2D([], [], color=NGRAM, linewidth=1, label="cut alone, uniform widths"))
    names = {UNIFORM: f"{RECONSTRUCTED}, uniform widths", FROM_ERROR: f"{RECONSTRUCTED}, widths by error"}
    kinds = {line.widths for line in free}
    handles += [
        Line2D([], [], color=NGRAM, linewidth=2, linestyle=FREE_STYLES[kind], label=name)
        for kind, name in names.items()
        if kind in kinds
    ]
    if kinds - set(names):
        label = f"{RECONSTRUCTED}, other widths"
        handles.append(Line2D([], [], color=NGRAM, linestyle="none", marker="o", markerfacecolor="none", label=label))
    return handles


def model_and_corpus(on: CorpusEvidence) -> str:
    """The model and the corpus of these points."""
    return f"{Path(on.reference.subject.model).stem} on {on.corpus}" if on.reference else on.corpus


def precision_of(on: CorpusEvidence) -> str:
    """The precision in which perplexity was measured, unless the name of a family says otherwise."""
    assert on.reference is not None  # nothing is drawn without measurements
    return on.reference.precision


def _draw_panel(
    axes: Any,
    panel: Panel,
    groups: Sequence[Family],
    others: Sequence[Place],
    largest: float | None,
    front: Sequence[Place],
) -> None:
    """others: what else will be drawn into the panel."""
    places = {family: found for family in groups if (found := _places(panel, family))}
    everything = [*others, *(place for found in places.values() for place in found)]
    shown = [place for place in everything if largest is None or place[1] <= largest] or everything
    for family, drawn in _moved_apart(places, shown).items():
        style = "none" if not family.joined else line_of(family.criterion, family.precision)
        look = mark(family.criterion, updated=family.updated, hollow=not family.joined)
        axes.plot(*zip(*drawn, strict=True), linestyle=style, label=family.name, **look)
    if front:
        # In steps: between two points of the front, a budget buys the cheaper one.
        axes.plot(*zip(*front, strict=True), drawstyle="steps-post", label="Pareto front", **FRONT)
    log_perplexity(axes)
    axes.invert_xaxis()
    axes.set_xlabel(panel.label)
    axes.grid(alpha=0.3)


def _places(panel: Panel, family: Family) -> list[Place]:
    return [(cost, one.test_perplexity) for one in family.points if (cost := panel.cost(one)) is not None]


def _moved_apart(places: Mapping[Family, list[Place]], shown: Sequence[Place]) -> dict[Family, list[Place]]:
    """Single marks are moved apart if they would hide each other; lines stay."""
    loose = [family for family in places if not family.joined]
    moved = side_by_side([places[family] for family in loose], shown) if loose else []
    return {**places, **dict(zip(loose, moved, strict=True))}


def _same_machine(one: NGramResults, bench: ModelBench | None) -> bool:
    return bench is not None and one.provenance.machine == bench.provenance.machine


def _draw_ngram(axes: Any, one: NGramResults, with_latency: bool) -> None:
    """A line, since an n-gram model has no FLOPs and no knob; with a mark on it if its time is comparable."""
    label = f"{one.subject.model} (no network)"
    axes.axhline(one.test_perplexity, color=NGRAM, linestyle="--", linewidth=2, label=label, zorder=1)
    if with_latency:
        axes.plot(
            [one.latency.latency_ms], [one.test_perplexity], color=NGRAM, marker="d", markersize=11, linestyle="none"
        )


def _bound(axes: Any, largest: float | None) -> None:
    """Show nothing above `largest`, which is never below the whole model (`largest_shown`)."""
    low, high = axes.get_ylim()
    if largest is not None and low < largest < high:
        axes.set_ylim(low, largest)


# ------------------------------------------------------------------------------------------------- fit of a bench


def fit_line(xs: Sequence[float], ys: Sequence[float]) -> Line | None:
    """The least-squares line; None for fewer than three distinct x, because any two points lie on a line."""
    if len(set(xs)) < FEWEST_TO_FIT:
        return None
    slope, intercept = np.polyfit(xs, ys, 1)
    return Line(float(slope), float(intercept))


def latency_line(bench: ModelBench) -> Line | None:
    """In ms per million FLOPs."""
    rows = rows_to_fit(bench.rows)
    return fit_line(_executed_millions(rows), [row.latency_ms for row in rows])


def energy_line(bench: ModelBench) -> Line | None:
    """In mJ per million FLOPs; None unless energy was measured at all points."""
    rows = rows_to_fit(bench.rows)
    values = [row.measured_mj for row in rows]
    if any(value is None for value in values):
        return None
    return fit_line(_executed_millions(rows), [value for value in values if value is not None])


def _executed_millions(rows: Sequence[BenchRow]) -> list[float]:
    """What a query executes, not its static count: a lazy output layer leaves clusters closed."""
    return [row.executed_flops.mean / 1e6 for row in rows]


def draw_fit(bench: ModelBench, path: Path) -> None:
    """Latency, and energy if it was measured, against FLOPs: points with their intervals, and the fitted line."""
    measured = all(row.measured_mj is not None for row in bench.rows)

    def paint(figure: Any) -> None:
        all_axes = np.atleast_1d(figure.subplots(2 if measured else 1, 1, sharex=True))
        latencies = [(row.latency_ms, row.interval_ms) for row in bench.rows]
        _draw_fit_panel(all_axes[0], bench, latencies, latency_line(bench), bench.fit.latency_r_squared, "ms")
        all_axes[0].set_ylabel("latency (ms/query)")
        if measured:
            energies = [(row.energy_mj or 0.0, row.energy.interval_mj) for row in bench.rows]
            _draw_fit_panel(all_axes[1], bench, energies, energy_line(bench), bench.fit.energy_r_squared, "mJ")
            all_axes[1].set_ylabel("energy above idle (mJ/query)")
        all_axes[-1].set_xlabel("executed FLOPs of a query (millions)")

    write_figure(path, paint, height=9.6 if measured else 5.2)


Interval = tuple[float, float] | None


def _draw_fit_panel(
    axes: Any,
    bench: ModelBench,
    measured: Sequence[tuple[float, Interval]],
    line: Line | None,
    r_squared: float | None,
    unit: str,
) -> None:
    flops = np.array(_executed_millions(bench.rows))
    values = np.array([value for value, _ in measured])
    # A bootstrap interval does not always contain the median.
    bounds = np.array([interval or (value, value) for value, interval in measured]).T
    errors = np.maximum(0, [values - bounds[0], bounds[1] - values])
    if line is not None:
        ends = np.array([0.0, flops.max()])
        label = line.written(unit)
        if r_squared is not None:
            label += f", r² = {r_squared:.3f}"
        axes.plot(ends, line.intercept + line.slope * ends, color=LINE, linewidth=2, label=label)
    fitted = rows_to_fit(bench.rows)
    is_fitted = np.array([row in fitted for row in bench.rows])
    for chosen, style, label in (
        (is_fitted, {"color": "#000000"}, "points, 95 % interval"),
        (~is_fitted, {"color": OTHER_BITS, "markerfacecolor": "none"}, "some weights in 4 bits: not in the line"),
    ):
        if chosen.any():
            parts: Any = {"fmt": "o", "capsize": 4, "markersize": 8, "label": label, **style}
            axes.errorbar(flops[chosen], values[chosen], errors[:, chosen], **parts)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="lower right", fontsize=FONT_SIZE - 2)
