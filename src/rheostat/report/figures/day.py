"""The picture of a replayed day (matplotlib): knob, battery, temperature, queries and energy over time, one line per
behaviour.

Colour-blind readers can tell the colours apart, and the dashes repeat them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rheostat.governor.body import read_body
from rheostat.governor.replay import Comparison, Moment, Replay
from rheostat.report.figures.style import write_figure

# Okabe and Ito's palette, in the order of a comparison's replays.
STYLES: tuple[dict[str, Any], ...] = (
    {"color": "#0072B2", "linestyle": "-", "linewidth": 3.0, "zorder": 3},
    {"color": "#E69F00", "linestyle": "--", "linewidth": 2.2, "zorder": 2},
    {"color": "#D55E00", "linestyle": ":", "linewidth": 2.6, "zorder": 4},
)
HEAT = "#777777"
CHARGER = "#009E73"
CHARGER_LABEL = "on the charger"
FONT_SIZE = 14  # as large as a footnote at half width
Quantity = Callable[[Moment], float | None]


def draw_replay(comparison: Comparison, path: Path) -> None:
    """Draw a panel per quantity over one time axis, as PNG or SVG by the path's suffix."""
    drawings = _drawings(comparison)

    def paint(figure: Any) -> None:
        panels = figure.subplots(len(drawings), 1, sharex=True)
        for panel, draw in zip(panels, drawings, strict=True):
            draw(panel, comparison)
        unit, _ = _time_unit(comparison)
        panels[-1].set_xlabel(f"time ({unit})")
        figure.supxlabel(textwrap.fill(comparison.cost.describe(), 80), fontsize=FONT_SIZE - 3)
        for panel in panels:
            panel.grid(alpha=0.3)
            panel.margins(x=0.01)
        _draw_legend(figure, panels)

    write_figure(path, paint, height=1.8 + 2.6 * len(drawings), font_size=FONT_SIZE, dpi=110)


def _drawings(comparison: Comparison) -> list[Callable[[Any, Comparison], None]]:
    """Every panel that this day has something for."""
    moments = comparison.replays[0].moments
    drawings = [_draw_knob]
    if any(moment.level is not None for moment in moments):
        drawings.append(_draw_battery)
    if any(moment.temperature_c is not None for moment in moments):
        drawings.append(_draw_temperature)
    return [*drawings, _draw_queries, _draw_latency, _draw_energy]


def _draw_knob(axes: Any, comparison: Comparison) -> None:
    _draw_lines(axes, comparison, lambda moment: 100 * moment.knob)
    axes.set_ylabel("knob (% of FLOPs)")
    axes.set_ylim(-4, 106)


def _draw_battery(axes: Any, comparison: Comparison) -> None:
    rows, (_, seconds) = comparison.trace.rows, _time_unit(comparison)
    times = [row.time_s / seconds for row in rows]
    charging = [bool(row.battery.charging) for row in rows]
    across = axes.get_xaxis_transform()  # the whole height at any scale
    if any(charging):
        shade = {"color": CHARGER, "alpha": 0.18, "linewidth": 0}
        axes.fill_between(times, 0, 1, where=charging, step="post", transform=across, label=CHARGER_LABEL, **shade)
    _draw_lines(axes, comparison, lambda moment: None if moment.level is None else 100 * moment.level)
    axes.set_ylabel("battery (%)")
    axes.set_ylim(-4, 106)


def _draw_temperature(axes: Any, comparison: Comparison) -> None:
    body = read_body(comparison.device)
    _draw_lines(axes, comparison, lambda moment: moment.temperature_c)
    for name, begin_c, style in (("moderate", body.moderate_c, ":"), ("severe", body.severe_c, "-.")):
        axes.axhline(begin_c, color=HEAT, linewidth=1.2, linestyle=style, label=f"{name} heat: {begin_c:g} °C")
    axes.set_ylabel("temperature (°C),\nMODEL")


def _draw_queries(axes: Any, comparison: Comparison) -> None:
    _draw_lines(axes, comparison, lambda moment: moment.queries)
    axes.set_ylabel("queries served")
    _show_from_zero(axes)


def _draw_latency(axes: Any, comparison: Comparison) -> None:
    _draw_lines(axes, comparison, lambda moment: moment.latency_ms)
    for name, target in (
        ("latency target", comparison.policy.latency_p95_ms),
        ("budget", comparison.policy.latency_ms),
    ):
        if target is not None:
            axes.axhline(target, color="#000000", linewidth=1.2, linestyle="-.", label=f"{name}: {target:g} ms")
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


def _draw_legend(figure: Any, panels: Iterable[Any]) -> None:
    """Each behaviour once, then what is drawn behind them."""
    named = {label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    behaviours = len(STYLES)
    labels = [*list(named)[:behaviours], *sorted(list(named)[behaviours:])]
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
