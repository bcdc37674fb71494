"""The paper's tables in our numbers: each of its rows as published, and below it what we have measured.

Knows the columns; quality and cost are asked of `evidence`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rheostat.benchmark.document import NOT_MEASURED, Row, Table, files
from rheostat.benchmark.evidence import CorpusEvidence, Cost, Measurement, cost_in
from rheostat.benchmark.published import Row as PublishedRow
from rheostat.benchmark.published import Table as PublishedTable
from rheostat.benchmark.results import BenchRow

PUBLISHED, OURS = "published", "ours"
NEARLY = "≈ "  # before a cost of the same share but other widths
HEADER = (
    *("#", "method", "whose", "valid perplexity", "test perplexity", "above its full model", "R@3"),
    *("FLOPs", "ms/query", "mJ/query", "with update: test", "with update: R@3", "from"),
)
ALIGN = "rllrrrrrrrrrl"


@dataclass(frozen=True)
class Ours:
    """What we have for one row of the paper; None where it was not measured."""

    plain: Measurement | None
    updated: Measurement | None
    cost: Cost | None

    @property
    def paths(self) -> list[Path]:
        return [found.path for found in (self.plain, self.updated, self.cost) if found is not None]


def paper_table(table: PublishedTable, on: CorpusEvidence) -> Table:
    rows: list[Row] = []
    for row in table.rows:
        rows.append(_published_line(row, table.full.test_perplexity))
        rows.append(_our_line(row, find_ours(row, on), on.full))
    return Table(HEADER, ALIGN, tuple(rows))


def find_ours(row: PublishedRow, on: CorpusEvidence) -> Ours:
    """Our measurements for a row: by criterion and share, or by the name of a baseline's model file."""
    if row.criterion is None and row.flops_fraction is None:
        bench = on.baseline_bench(row)
        return Ours(on.baseline(row), None, cost_in(bench, 1.0) if bench else None)
    share = row.flops_fraction
    assert share is not None  # a pruned row has one
    if row.criterion is None:
        return Ours(on.full, None, on.cost(share))
    plain = on.at(row.criterion, share)
    updated = on.at(row.criterion, share, with_update=True)
    found = plain or updated
    return Ours(plain, updated, on.cost(found.flops_fraction, found.widths) if found else on.cost(share))


def show_latency(row: BenchRow) -> str:
    return _three_digits(row.latency_ms)


def show_energy(row: BenchRow) -> str:
    """Never a number without saying what it is."""
    if row.energy_mj is None:
        return NOT_MEASURED
    shown = _three_digits(row.energy_mj)
    if row.estimate:
        return f"{shown} (estimate)"
    return shown if row.resolved else f"{shown} (not resolved)"


def _published_line(row: PublishedRow, full: float) -> Row:
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
        "" if row.latency_ms is None else _three_digits(row.latency_ms),
        "" if row.energy_mj is None else _three_digits(row.energy_mj),
        f"{update.test_perplexity:.1f}" if update else "",
        f"{update.recall_at_3:.1%}" if update else "",
        "the paper",
    )
    return Row(tuple(cells), PUBLISHED)


def _our_line(row: PublishedRow, ours: Ours, full: Measurement | None) -> Row:
    plain, updated, cost = ours.plain, ours.updated, ours.cost
    pruned = row.criterion is not None
    near = "" if cost is None or cost.same_widths else NEARLY
    share = plain or updated
    own_share = share.flops_fraction if share and row.flops_fraction else cost.row.flops_fraction if cost else None
    cells: Sequence[str] = (
        "",
        "",
        OURS,
        NOT_MEASURED if plain is None or plain.valid_perplexity is None else f"{plain.valid_perplexity:.2f}",
        NOT_MEASURED if plain is None else f"{plain.test_perplexity:.2f}",
        f"{plain.test_perplexity / full.test_perplexity - 1:+.1%}" if pruned and plain and full else "",
        NOT_MEASURED if plain is None else f"{plain.recall_at_3:.2%}",
        "" if own_share is None or row.flops_fraction is None else f"{own_share:.1%}",
        NOT_MEASURED if cost is None else near + show_latency(cost.row),
        NOT_MEASURED if cost is None else (near if cost.row.energy_mj is not None else "") + show_energy(cost.row),
        *_updated_cells(updated, pruned),
        files(ours.paths),
    )
    return Row(tuple(cells), OURS)


def _updated_cells(updated: Measurement | None, pruned: bool) -> tuple[str, str]:
    if not pruned:
        return "", ""
    if updated is None:
        return NOT_MEASURED, NOT_MEASURED
    return f"{updated.test_perplexity:.2f}", f"{updated.recall_at_3:.2%}"


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
