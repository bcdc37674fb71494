"""Sections of the report about cost and use: benches, n-grams, what is cut, and replayed days.

Knows the columns and captions; `sections` puts them in order, `figures` draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from rheostat.errors import counted
from rheostat.governor.trace import Trace
from rheostat.measure.results import (
    BenchRow,
    BenchSubject,
    GovernResults,
    MachineStates,
    ModelBench,
    NGramResults,
    engine_title,
)
from rheostat.measure.results.bench import PacedFigures, r_squared_interval, rows_to_fit
from rheostat.report.claims import TOO_FEW_TO_FIT
from rheostat.report.document import NOT_MEASURED, Paragraph, Picture, Section, Table, files, rows, unique_labels
from rheostat.report.evidence import CorpusEvidence, Measurement
from rheostat.report.figures.costs import draw_fit, energy_line, latency_line
from rheostat.report.figures.day import draw_replay
from rheostat.report.figures.weights import draw_weights
from rheostat.report.govern import HEADINGS, battery_percent, figures
from rheostat.report.kept_filters import KeptFilters
from rheostat.report.paper_tables import NOT_TRAINED, show_energy, show_latency, three_digits
from rheostat.report.published import load_published
from rheostat.report.typed import OLDER_SENTENCE, is_older, limit_text, saved_text

METHODS = ("pruning alone", "quantisation alone", "path")
SAME_BYTES = 0.015  # of the cost, between points that are compared at equal bytes
NOT_REPORTED = "not reported"
COLD = "cold"  # queries that come one at a time, after a pause
REPORT = "report"  # the stem of the page, and the start of its pictures' names


def bench_sections(benches: Sequence[ModelBench]) -> Iterator[Section]:
    for bench in benches:
        if bench.is_beside:
            continue
        beside = [one for one in benches if one.is_beside and one.path == bench.path]
        picture = Picture(
            f"{REPORT}-fit-{bench.path.stem}",
            f"Latency of a query against its FLOPs, {bench.subject.model}",
            f"{_fit_sentence(bench)} From `{bench.path.name}`.",
            partial(draw_fit, bench),
        )
        paced = next((row.paced for one in (bench, *beside) for row in one.rows if row.paced), None)
        intro = Paragraph(f"{bench_subject(bench)}. {_paced_sentence(paced)}From `{bench.path.name}`.")
        yield Section(f"FLOPs, time and energy: {bench.path.stem}", (intro, picture, _bench_table(bench, beside)))


def bench_subject(bench: ModelBench) -> str:
    subject, machine = bench.subject, bench.provenance.machine
    return (
        f"{subject.model} in {subject.precision}, {engine_note(subject)}, on {machine.processor}, "
        f"{subject.queries} queries per point, meter: {subject.meter}; {_machine_state(bench.machine)}"
    )


def engine_note(subject: BenchSubject) -> str:
    """What ran the queries. Times on ONNX Runtime say nothing about the core, so that is said."""
    threads = f"{subject.threads} thread{'' if subject.threads == 1 else 's'}"
    other = "" if subject.engine == "core" else ", not on the core"
    return f"measured on {engine_title(subject.engine)} with {threads}{other}"


def _machine_state(states: MachineStates) -> str:
    """What could have disturbed a bench."""
    loads = states.load_averages
    load = NOT_REPORTED if loads is None else "{:.1f} before and {:.1f} after".format(*loads)
    clock = {True: "throttled", False: "not throttled", None: NOT_REPORTED}[states.throttled]
    return f"load average {load}, CPU governor {', '.join(states.after.governors) or NOT_REPORTED}, clock {clock}"


def _paced_sentence(paced: PacedFigures | None) -> str:
    """How queries were asked as a keyboard asks them; all points of a bench are asked alike."""
    if paced is None:
        return ""
    return (
        f"{COLD.capitalize()}: one query every {1e3 * paced.pause_s:g} ms, with cold caches, {paced.queries} per "
        "point, as a keyboard asks; the other times are of queries back to back. "
    )


def _fit_sentence(bench: ModelBench) -> str:
    claimed, points = load_published().linearity, len(rows_to_fit(bench.rows))
    parts = []
    for name, unit, line, r_squared, theirs in (
        ("Latency", "ms", latency_line(bench), bench.fit.latency_r_squared, claimed.latency_r_squared),
        ("Energy", "mJ", energy_line(bench), bench.fit.energy_r_squared, claimed.energy_r_squared),
    ):
        if line is None or r_squared is None:
            parts.append(f"{name}: no fit, {TOO_FEW_TO_FIT}.")
            continue
        low, high = r_squared_interval(r_squared, points)
        parts.append(
            f"{name}: {line.written(unit)}, r² = {r_squared:.3f} ({low:.2f} to {high:.2f}; published {theirs})."
        )
    if points < len(bench.rows):
        in_8_bits = f"{counted(points, 'point')} with all weights in 8 bits"
        parts.append(f"Only {in_8_bits} can be fitted: fewer bits save time, but no FLOPs.")
    return " ".join(parts)


def _bench_table(bench: ModelBench, beside: Sequence[ModelBench]) -> Table:
    """The FLOPs of models beside the first are shares of the first model's."""
    whole = bench.subject.flops
    with_paced = any(row.paced for one in (bench, *beside) for row in one.rows)
    labelled = [(row.label, row.served_by, row) for row in bench.rows]
    labelled += [(_model_name(one), row.served_by, row) for one in beside for row in one.rows]
    labels = unique_labels([label for label, _, _ in labelled], [by for _, by, _ in labelled])
    cells = [
        [
            label,
            row.served_by,
            f"{row.cost * row.flops / row.flops_fraction / whole:.1%}",
            f"{row.flops / whole:.1%}",
            f"{row.flops / 1e6:.1f}",
            f"{row.bytes_read / 1e6:.1f}",
            NOT_MEASURED if row.resident_bytes is None else f"{row.resident_bytes / 1e6:.0f}",
            show_latency(row),
            f"{row.interval_ms[0]:.3g}–{row.interval_ms[1]:.3g}",
            f"{row.p95_ms:.3g}",
            *(_paced_cells(row) if with_paced else ()),
            show_energy(row),
            _energy_interval(row),
        ]
        for label, (_, _, row) in zip(labels, labelled, strict=True)
    ]
    header = ("point", "served by", "cost", "FLOPs", "million FLOPs", "MB read", "MB held")
    cold = (f"{COLD}: ms/query", f"{COLD}: p95 ms") if with_paced else ()
    columns = (*header, "ms/query", "95 % interval", "p95 ms", *cold, "mJ/query", "95 % interval, mJ")
    return Table(columns, "ll" + "r" * (len(columns) - 2), rows(cells))


def _paced_cells(row: BenchRow) -> tuple[str, str]:
    if row.paced is None:
        return NOT_MEASURED, NOT_MEASURED
    return three_digits(row.paced.latency_ms), f"{row.paced.p95_ms:.3g}"


def _energy_interval(row: BenchRow) -> str:
    interval = row.energy.interval_mj
    return f"{interval[0]:.3g}–{interval[1]:.3g}" if interval else ""


def _model_name(bench: ModelBench) -> str:
    return f"`{bench.subject.model}`" + ("" if bench.subject.trained else f" ({NOT_TRAINED})")


def bits_sections(on: CorpusEvidence) -> Iterator[Section]:
    """Quantisation against pruning: one section for every sweep that followed a path."""
    for file in dict.fromkeys(one.path for one in on.measurements if one.allocation == "path"):
        measured = [one for one in on.measurements if one.path == file]
        whole = next((one for one in measured if one.cost == 1), None)
        if whole is None:
            continue
        text = Paragraph(
            f"Test perplexity of {Path(file).stem} on {on.corpus}, and how much more it is than the whole model's "
            f"({whole.test_perplexity:.2f}). Pruning alone leaves out filters and reads all weights in 8 bits; "
            "quantisation alone keeps all filters and reads all weights in 4 bits; the path does both, in the order "
            f"that a search on validation text found. A share of the cost is a share of the matrices' bytes. From "
            f"`{Path(file).name}`."
        )
        tables = (_at_equal_bytes(measured, whole), *_at_equal_times(on, measured, whole))
        yield Section(f"Quantisation against pruning: {Path(file).stem}", (text, *tables))


def _at_equal_bytes(measured: Sequence[Measurement], whole: Measurement) -> Table:
    """One row for each position of the path, with the points that cost as much or a little less."""
    cells = []
    for one in _of_kind(measured, "path"):
        beside = [_closest(_of_kind(measured, kind), one.cost) for kind in ("uniform", "bits")]
        cells.append([f"{one.cost:.1%}", *(_above(other, whole) for other in (*beside, one))])
    return Table(("share of the bytes", *METHODS), "rrrr", rows(cells))


def _at_equal_times(on: CorpusEvidence, measured: Sequence[Measurement], whole: Measurement) -> Iterator[Table]:
    """The same by time: the best measured point of each method that takes no longer than a position of the path."""
    times = [(one, cost.row.latency_ms) for one in measured if (cost := on.cost_of(one)) and cost.same_widths]
    cells = []
    for limit in sorted({ms for one, ms in times if one.allocation == "path"}, reverse=True):
        fast = [one for one, ms in times if ms <= limit]
        best = [
            min(_of_kind(fast, kind), key=lambda one: one.test_perplexity, default=None)
            for kind in ("uniform", "bits", "path")
        ]
        cells.append([three_digits(limit), *(_above(one, whole) for one in best)])
    if cells:
        yield Table(("ms/query, at most", *METHODS), "rrrr", rows(cells))


def _of_kind(measured: Sequence[Measurement], kind: str) -> list[Measurement]:
    """Points of one method, largest first."""
    return sorted((one for one in measured if one.allocation == kind and one.cost < 1), key=lambda one: -one.cost)


def _closest(points: Sequence[Measurement], cost: float) -> Measurement | None:
    near = [one for one in points if abs(one.cost - cost) < SAME_BYTES]
    return min(near, key=lambda one: abs(one.cost - cost), default=None)


def _above(one: Measurement | None, whole: Measurement) -> str:
    if one is None:
        return NOT_MEASURED
    return f"{one.test_perplexity:.2f} ({one.test_perplexity / whole.test_perplexity - 1:+.1%})"


def ngram_sections(ngrams: Sequence[NGramResults]) -> Iterator[Section]:
    if not ngrams:
        return
    cells = [
        [
            one.subject.corpus,
            one.name,
            f"{one.valid_perplexity:.2f}",
            f"{one.test_perplexity:.2f}",
            NOT_MEASURED if one.kenlm_perplexity is None else f"{one.kenlm_perplexity:.2f}",
            f"{one.test_recall:.2%}",
            saved_text([one.keystrokes]),
            limit_text(one.keystrokes),
            f"{one.keystrokes.words:,}",
            f"{one.subject.size_bytes / 1e6:.1f}",
            three_digits(one.latency.latency_ms),
            files([one.path]),
        ]
        for one in ngrams
    ]
    older = f" {OLDER_SENTENCE}" if any(is_older(one.keystrokes) for one in ngrams) else ""
    header = ("corpus", "model", "valid perplexity", "test perplexity", "test, by kenlm", "test R@3")
    more = ("keystrokes saved", "at most", "words typed", "MB", "ms/query", "from")
    text = Paragraph(
        "N-gram models with the vocabulary of the networks, measured in the same way. No n-gram is pruned, and "
        "probabilities have 32 bits. The three best words are exact: they come from sorted lists of what followed the "
        "last words, without searching the vocabulary. “By kenlm”: the perplexity that kenlm, an independent program, "
        "computes from the same n-grams. Keystrokes saved are over the first words of the test text; “at most” is the "
        f"share that could be saved, every word being taken with its first keystroke.{older}"
    )
    yield Section("N-gram models, for comparison", (text, Table((*header, *more), "llrrrrrrrrrl", rows(cells))))


def weights_sections(kept: KeptFilters | None) -> Iterator[Section]:
    if kept is None:
        return
    filters, elements = kept.corner.shape[1:]
    picture = Picture(
        f"{REPORT}-weights",
        f"Weights of layer {kept.layer + 1} at shares of FLOPs, one row per criterion, with the cut filters blank",
        f"Layer {kept.layer + 1} of `{kept.path.name}`. From top to bottom: the first {filters} filters of z, f and o. "
        f"From left to right: the first {elements} elements of each. White filters are cut; black is a weight of zero. "
        "The layer reads the embedding, which keeps its columns.",
        partial(draw_weights, kept),
    )
    yield Section("What each criterion cuts", (picture,))


def day_section(day: GovernResults, benches: Sequence[ModelBench] = ()) -> Section:
    """benches: to say on which machine the costs of the day were measured."""
    comparison = day.comparison
    cells = [[replay.name, *figures(replay.totals)] for replay in comparison.replays]
    header = ("behaviour", *(heading.replace("ESTIMATE", "estimate") for heading in HEADINGS))
    note = f" ({day.trace.note})" if day.trace.note else ""
    text = (
        f"The day `{comparison.trace.name}`{note}, {_duration(comparison.trace)}. Device: {comparison.device}, with a "
        f"battery of {day.body.battery_wh:g} Wh. The governor spends {comparison.energy_saved:.0%} less energy than "
        f"a knob that is always full, which is {battery_percent(comparison.battery_saved)} of the battery."
        f"{_targets(day)} {comparison.cost.describe()}.{_cost_machine(day, benches)} "
        "The temperature is modelled (one body that cools in air), not "
        f"measured. From `{day.path.name}`."
    )
    picture = Picture(
        f"{REPORT}-day-{day.path.stem}",
        f"Knob, battery, temperature and queries over the day {comparison.trace.name}, one line per behaviour",
        f"Knob, battery, temperature and queries over the day. From `{day.path.name}`.",
        partial(draw_replay, comparison),
    )
    title = f"The governor's day: {comparison.trace.name}"
    return Section(title, (Paragraph(text), Table(header, "l" + "r" * len(HEADINGS), rows(cells)), picture))


def _cost_machine(day: GovernResults, benches: Sequence[ModelBench]) -> str:
    """Where a bench measured the costs: seldom on the device of the day."""
    cost = day.comparison.cost
    if not cost.points:
        return ""
    used = next((one for one in benches if one.path.name == cost.latency_source), None)
    where = f"`{used.subject.model}` on {used.provenance.machine.processor}" if used else "the machine of that bench"
    return f" These are the costs of {where}, not of this device; only the battery and the heat are the device's."


def _duration(trace: Trace) -> str:
    minutes = (trace.rows[-1].time_s - trace.rows[0].time_s) / 60
    return f"{minutes / 60:.3g} h" if minutes >= 120 else f"{minutes:.0f} min"


def _targets(day: GovernResults) -> str:
    target = day.policy.latency_p95_ms
    text = "" if target is None else f" The policy asks for 95 % of the queries within {target:g} ms."
    for one in day.budgets:
        unit = "ms for the median query" if one.budget == "latency_ms" else "mJ for the mean query"
        text += f" The budget is {one.asked:g} {unit}; {one.got:.4g} was used ({one.got_over_asked:.1%})."
    return text
