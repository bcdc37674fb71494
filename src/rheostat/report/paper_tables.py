"""The paper's tables 1 and 2 with our measurements: each row as published, and ours below it. Baselines that are not
in the paper come last.

Knows the columns; quality and cost come from `evidence`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rheostat.measure.results import BenchRow, ModelBench, NGramResults, TrainingResults
from rheostat.report.document import NOT_MEASURED, Table, TableRow, files
from rheostat.report.evidence import CorpusEvidence, Cost, Measurement, cost_in
from rheostat.report.extent import extent_of
from rheostat.report.published import PublishedRow, PublishedTable

PUBLISHED, OURS = "published", "ours"
NOT_TRAINED = "not trained"
NEARLY = "≈ "  # precedes a cost measured at the same share with other widths
HEADER = (
    *("#", "method", "whose", "valid perplexity", "test perplexity", "above its full model", "R@3"),
    *("FLOPs", "ms/query", "mJ/query", "with update: test", "with update: R@3", "from"),
)
ALIGN = "rllrrrrrrrrrl"


@dataclass(frozen=True)
class Ours:
    """Our measurements for one row of the paper; None if not measured.

    trained: False for a model of which only the cost was measured.
    """

    plain: Measurement | None
    updated: Measurement | None
    cost: Cost | None
    trained: bool = True

    @property
    def paths(self) -> list[Path]:
        return [found.path for found in (self.plain, self.updated, self.cost) if found is not None]


def paper_table(table: PublishedTable, on: CorpusEvidence, trainings: Sequence[TrainingResults] = ()) -> Table:
    """All times are of one engine and number of threads, except those of n-grams, which run on no engine."""
    on = on.of_one_setup()
    rows: list[TableRow] = []
    extent = extent_of(table, on, trainings).short
    for row in table.rows:
        rows.append(_published_line(row, table.full.test_perplexity))
        rows.append(_our_line(row, find_ours(row, on), on, extent if row is table.full else ""))
    rows += [_baseline_line(*found, on) for found in on.other_baselines(table.rows)]
    rows += [_ngram_line(one) for one in on.ngrams]
    return Table(HEADER, ALIGN, tuple(rows))


def find_ours(row: PublishedRow, on: CorpusEvidence) -> Ours:
    """Our measurements for a row: by criterion and share, or by the name of a baseline's model file."""
    if row.criterion is None and row.flops_fraction is None:
        bench = on.baseline_bench(row)
        return Ours(
            on.baseline(row), None, cost_in(bench, 1.0) if bench else None, bench is None or bench.subject.trained
        )
    share = row.flops_fraction
    assert share is not None  # a pruned row has one
    if row.criterion is None:
        return Ours(on.full, None, on.cost(share))
    plain, updated = on.pair_at(row.criterion, share)
    found = plain or updated
    return Ours(plain, updated, on.cost(found.flops_fraction, found.widths) if found else on.cost(share))


def seeds_sentence(table: PublishedTable, on: CorpusEvidence) -> str:
    """A sentence that says which of our rows are means over seeds; empty if none is."""
    sentences = []
    for row in table.pruned():
        ours = find_ours(row, on)
        if ours.plain is None or ours.plain.seeds == 1:
            continue
        sentences.append(f" {row.method} is the mean of {ours.plain.seeds} seeds{_updated_seeds(ours.updated, on)}.")
    return "".join(dict.fromkeys(sentences))


def _updated_seeds(updated: Measurement | None, on: CorpusEvidence) -> str:
    if updated is None:
        return ""
    bare = on.without_update(updated)
    cut = f", {bare.test_perplexity:.2f} without it" if bare else ""
    return f", and with update of {updated.seeds} (`{updated.name}`{cut})"


def show_latency(row: BenchRow) -> str:
    return three_digits(row.latency_ms)


def show_energy(row: BenchRow) -> str:
    """The energy, marked if it is an estimate or not resolved."""
    if row.energy_mj is None:
        return NOT_MEASURED
    shown = three_digits(row.energy_mj)
    if row.energy.estimate:
        return f"{shown} (estimate)"
    return shown if row.energy.resolved else f"{shown} (not resolved)"


def _published_line(row: PublishedRow, full: float) -> TableRow:
    update = row.with_update
    cells: Sequence[str] = (
        str(row.row),
        row.method,
        PUBLISHED,
        f"{row.valid_perplexity:.1f}",
        f"{row.test_perplexity:.1f}",
        f"{row.test_perplexity / full - 1:+.1%}" if row.criterion else "",
        "" if row.recall_at_3 is None else f"{row.recall_at_3:.1%}",
        "" if row.flops_fraction is None else f"{row.flops_fraction:.0%}",
        "" if row.latency_ms is None else three_digits(row.latency_ms),
        "" if row.energy_mj is None else three_digits(row.energy_mj),
        f"{update.test_perplexity:.1f}" if update else "",
        f"{update.recall_at_3:.1%}" if update else "",
        "the paper",
    )
    return TableRow(tuple(cells), PUBLISHED)


def _our_line(row: PublishedRow, ours: Ours, on: CorpusEvidence, extent: str = "") -> TableRow:
    plain, updated, cost, full = ours.plain, ours.updated, ours.cost, on.full
    pruned = row.criterion is not None
    share = _own_share(plain or updated, cost.row.flops if cost else None, on)
    valid, test, recall = _quality_cells(plain, ours.trained)
    cells: Sequence[str] = (
        "",
        "",
        f"{OURS} ({extent})" if extent else OURS,
        valid,
        test,
        f"{plain.test_perplexity / full.test_perplexity - 1:+.1%}" if pruned and plain and full else "",
        recall,
        "" if share is None else f"{share:.1%}",
        *_cost_cells(cost),
        *_updated_cells(updated, pruned),
        files(ours.paths),
    )
    return TableRow(tuple(cells), OURS)


def _baseline_line(plain: Measurement | None, bench: ModelBench | None, on: CorpusEvidence) -> TableRow:
    """The row of a model that is not in the paper."""
    cost = cost_in(bench, 1.0) if bench else None
    name = plain.name if plain else bench.subject.model if bench else ""
    share = _own_share(plain, bench.subject.flops if bench else None, on)
    valid, test, recall = _quality_cells(plain, bench is None or bench.subject.trained)
    quality = (valid, test, "", recall, "" if share is None else f"{share:.1%}")
    used = files(found.path for found in (plain, cost) if found is not None)
    budget = on.comparison.budget(plain.path) if plain and on.comparison else ""
    named = f"`{name}`" + (f" ({budget})" if budget else "")
    return TableRow(("", named, OURS, *quality, *_cost_cells(cost), *_updated_cells(None, False), used), OURS)


def _own_share(found: Measurement | None, flops: int | None, on: CorpusEvidence) -> float | None:
    """Share of the whole model's FLOPs, from the sweep, else from a bench."""
    if found:
        return found.flops_fraction
    return flops / on.flops if flops and on.flops else None


def _ngram_line(one: NGramResults) -> TableRow:
    """An n-gram model has no matrices, so no FLOPs."""
    quality = (f"{one.valid_perplexity:.2f}", f"{one.test_perplexity:.2f}", "", f"{one.test_recall:.2%}", "")
    cost = (three_digits(one.latency.latency_ms), NOT_MEASURED)
    return TableRow(("", one.name, OURS, *quality, *cost, *_updated_cells(None, False), files([one.path])), OURS)


def _quality_cells(plain: Measurement | None, trained: bool) -> tuple[str, str, str]:
    """Perplexity on valid and test, and R@3."""
    absent = NOT_MEASURED if trained else NOT_TRAINED
    if plain is None:
        return absent, absent, absent
    valid = absent if plain.valid_perplexity is None else f"{plain.valid_perplexity:.2f}"
    return valid, f"{plain.test_perplexity:.2f}", f"{plain.recall_at_3:.2%}"


def _cost_cells(cost: Cost | None) -> tuple[str, str]:
    if cost is None:
        return NOT_MEASURED, NOT_MEASURED
    near = "" if cost.same_widths else NEARLY
    return near + show_latency(cost.row), (near if cost.row.energy_mj is not None else "") + show_energy(cost.row)


def _updated_cells(updated: Measurement | None, pruned: bool) -> tuple[str, str]:
    if not pruned:
        return "", ""
    if updated is None:
        return NOT_MEASURED, NOT_MEASURED
    return f"{updated.test_perplexity:.2f}", f"{updated.recall_at_3:.2%}"


def three_digits(value: float) -> str:
    """Three significant digits, but always all digits before the decimal point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
