"""The picture of a replayed day (matplotlib): knob, latency and energy over time, one line per behaviour.

Colour-blind readers can tell the colours apart, and the dashes repeat them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rheostat.errors import MissingExtraError
from rheostat.governor.replay import Comparison, Moment, Replay

# Okabe and Ito's palette, in the order of a comparison's replays.
STYLES: tuple[dict[str, Any], ...] = (
    {"color": "#0072B2", "linestyle": "-", "linewidth": 3.0, "zorder": 3},
    {"color": "#E69F00", "linestyle": "--", "linewidth": 2.2, "zorder": 2},
    {"color": "#D55E00", "linestyle": ":", "linewidth": 2.6, "zorder": 4},
)
BATTERY = "#777777"
CHARGER = "#009E73"
LEVEL_LABEL, CHARGER_LABEL = "battery level", "on the charger"
FONT_SIZE = 14  # as large as a footnote at half width
Quantity = Callable[[Moment], float | None]


def draw_replay(comparison: Comparison, path: Path) -> None:
    """Draw three panels over one time axis, as PNG or SVG by the path's suffix."""
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("report", "Drawing") from None
    with rc_context({"font.size": FONT_SIZE, "svg.hashsalt": "rheostat"}):
        figure = Figure(figsize=(8.0, 9.6), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(3, 1, sharex=True)
        _draw_knob(panels[0], comparison)
        _draw_latency(panels[1], comparison)
        _draw_energy(panels[2], comparison)
        unit, _ = _time_unit(comparison)
        panels[-1].set_xlabel(f"time ({unit})")
        figure.supxlabel(textwrap.fill(comparison.cost.describe(), 80), fontsize=FONT_SIZE - 3)
        for panel in panels:
            panel.grid(alpha=0.3)
            panel.margins(x=0.01)
        _draw_legend(figure, panels[:2])
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)


def _draw_knob(axes: Any, comparison: Comparison) -> None:
    rows, (_, seconds) = comparison.trace.rows, _time_unit(comparison)
    times = [row.time_s / seconds for row in rows]
    levels = [None if row.battery.level is None else 100 * row.battery.level for row in rows]
    axes.plot(times, levels, color=BATTERY, linewidth=1.4, label=LEVEL_LABEL)
    charging = [bool(row.battery.charging) for row in rows]
    across = axes.get_xaxis_transform()  # the whole height at any scale
    if any(charging):
        shade = {"color": CHARGER, "alpha": 0.18, "linewidth": 0}
        axes.fill_between(times, 0, 1, where=charging, step="post", transform=across, label=CHARGER_LABEL, **shade)
    _draw_lines(axes, comparison, lambda moment: 100 * moment.knob)
    axes.set_ylabel("knob (% of FLOPs),\nbattery (%)")
    axes.set_ylim(-4, 106)


def _draw_latency(axes: Any, comparison: Comparison) -> None:
    _draw_lines(axes, comparison, lambda moment: moment.latency_ms)
    if (target := comparison.policy.latency_p95_ms) is not None:
        axes.axhline(target, color="#000000", linewidth=1.2, linestyle="-.", label=f"latency target: {target:g} ms")
    axes.set_ylabel("latency (ms/query),\nESTIMATE")
    _show_from_zero(axes)


def _draw_energy(axes: Any, comparison: Comparison) -> None:
    _draw_lines(axes, comparison, lambda moment: moment.energy_j)
    axes.set_ylabel("energy so far (J),\nESTIMATE")
    _show_from_zero(axes)


def _show_from_zero(axes: Any) -> None:
    """Start the axis at zero, with room at the top even for a nearly constant quantity."""
    axes.set_ylim(0, 1.1 * axes.dataLim.y1)


def _draw_lines(axes: Any, comparison: Comparison, quantity: Quantity) -> None:
    _, seconds = _time_unit(comparison)
    for replay, style in zip(comparison.replays, STYLES, strict=True):
        times = [moment.time_s / seconds for moment in replay.moments]
        values = _values(replay.moments, quantity)
        axes.plot(times, values, drawstyle="steps-post", label=_label(replay), **style)


def _values(moments: Sequence[Moment], quantity: Quantity) -> list[float]:
    """The quantity at every moment; a gap while prediction is off."""
    return [float("nan") if (value := quantity(moment)) is None else value for moment in moments]


def _draw_legend(figure: Any, panels: Sequence[Any]) -> None:
    """Each behaviour once, then what is drawn behind them."""
    named = {label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    labels = sorted(named, key=lambda label: label in (LEVEL_LABEL, CHARGER_LABEL))
    place = {"loc": "outside upper center", "ncols": 2, "frameon": False, "fontsize": FONT_SIZE - 1}
    figure.legend([named[label] for label in labels], labels, **place)


def _label(replay: Replay) -> str:
    totals = replay.totals
    lost = f", {totals.queries_lost:,} lost" if totals.queries_lost else ""
    return f"{replay.name}: {totals.energy_j:,.0f} J (estimate){lost}"


def _time_unit(comparison: Comparison) -> tuple[str, float]:
    """The unit of the time axis, and its length in seconds."""
    rows = comparison.trace.rows
    return ("h", 3600.0) if rows[-1].time_s - rows[0].time_s >= 3 * 3600 else ("min", 60.0)
