"""What learning bought, from several results files of one corpus: gates, updates, graded and dense models.

Everything is set beside the unpruned model that pruning began with. Nothing here is measured; `figures` draws it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rheostat.report.document import Table, rows, table_markdown
from rheostat.report.published import Table as PublishedTable
from rheostat.report.published import load_published, same_size
from rheostat.measure.results import Point, SweepResults
from rheostat.errors import RheostatError
from rheostat.recipe import read_recipe

GRADED = "graded"
WON_BACK = "What an update wins back is a share of the perplexity that cutting lost."
OUR_RECIPE = "fast"  # by which `make reproduce` trains gates and updates


@dataclass(frozen=True)
class Share:
    """A test perplexity at a share of the reference's FLOPs. precision: where it is not the reference's."""

    name: str
    criterion: str
    precision: str
    flops_fraction: float
    perplexity: float
    recall_at_3: float

    @property
    def identity(self) -> tuple[object, ...]:
        """The same point measured twice: other threads, the same digits as far as they are shown."""
        return self.name, self.criterion, round(self.flops_fraction, 4), round(self.perplexity, 2)


@dataclass(frozen=True)
class Recovery:
    """What an update won back of what cutting lost."""

    name: str
    criterion: str
    knob: float
    rank: int
    size_bytes: int
    bare: float
    updated: float
    full: float

    @property
    def won_back(self) -> float | None:
        """None where cutting lost nothing."""
        lost = self.bare - self.full
        return (self.bare - self.updated) / lost if lost > 0 else None


@dataclass(frozen=True)
class Comparison:
    """Results of one corpus: the reference is the sweep of the model that pruning began with.

    left_out: of nearly that model (`is_nearly`), which is compared with nothing.
    """

    reference: SweepResults
    others: tuple[SweepResults, ...]
    left_out: tuple[SweepResults, ...] = ()

    @property
    def full(self) -> float:
        return next(point.test_perplexity() for point in self.reference.points if not point.criterion)

    def shares(self) -> list[Share]:
        """Every point of every file that needed no update, largest first."""
        found = []
        for sweep in (self.reference, *self.others):
            scale, precision = sweep.subject["flops"] / self.reference.subject["flops"], self.other_precision(sweep)
            again = sweep is not self.reference and scale == 1 and not precision
            for point in sweep.points:
                if point.allocation == "bare" or not point.values("test", "perplexity"):
                    continue
                if point.update_rank:
                    continue  # updates have a table of their own
                if GRADED in sweep.criteria and not point.criterion:
                    point = replace(point, criterion=GRADED)
                elif not point.criterion and again:
                    continue  # the reference again, with more points stored in its file
                found.append(_share(point, sweep, scale, precision))
        different = {share.identity: share for share in reversed(found)}  # a stored point may be in several files
        return sorted(different.values(), key=lambda share: (-round(share.flops_fraction, 2), share.perplexity))

    def other_precision(self, sweep: SweepResults) -> str:
        """Of a sweep, where it is not the reference's."""
        return "" if sweep.precision == self.reference.precision else sweep.precision

    def recoveries(self) -> list[Recovery]:
        found = []
        for sweep in (self.reference, *self.others):
            bare = {point.label: point for point in sweep.points if point.allocation == "bare"}
            updated = [point for point in sweep.points if point.allocation == "stored" and point.label in bare]
            found += [_recovery(point, bare[point.label], self.full) for point in updated]
        return sorted(found, key=lambda r: (-r.knob, r.criterion, r.rank))


def compare(sweeps: Iterable[SweepResults]) -> list[Comparison]:
    """Sweeps by corpus; the reference is a model that was pruned and is not graded, if there is one."""
    groups: dict[str, list[SweepResults]] = {}
    for sweep in sweeps:
        groups.setdefault(sweep.subject["corpus"], []).append(sweep)
    return [_comparison(group) for group in groups.values()]


def _comparison(group: Sequence[SweepResults]) -> Comparison:
    candidates = [sweep for sweep in group if GRADED not in sweep.criteria] or [
        sweep for sweep in group if any(not point.criterion for point in sweep.points)
    ]
    if not candidates:
        raise RheostatError(
            f"{group[0].path} holds a graded model and no other file its origin; give the sweep of that model too"
        )
    reference = _reference([sweep for sweep in candidates if sweep.criteria] or candidates)
    others = [sweep for sweep in group if sweep is not reference]
    left_out = tuple(sweep for sweep in others if is_nearly(sweep.subject, reference.subject))
    return Comparison(reference, tuple(sweep for sweep in others if sweep not in left_out), left_out)


def _reference(candidates: Sequence[SweepResults]) -> SweepResults:
    """The largest; of those of one size, the one with most points."""
    largest = max(sweep.subject["flops"] for sweep in candidates)
    of_its_size = [sweep for sweep in candidates if same_size(sweep.subject["flops"], largest)]
    return max(of_its_size, key=lambda sweep: (len(sweep.points), sweep.subject["flops"]))


def is_nearly(subject: Mapping[str, Any], reference: Mapping[str, Any]) -> bool:
    """Whether a model is the reference but for a detail, such as other clusters of the output layer: of its size, with
    other FLOPs, and not named as a baseline.
    """
    flops, whole = subject["flops"], reference["flops"]
    table = load_published().table_of(reference["corpus"])
    return flops != whole and same_size(flops, whole) and not (table and table.is_baseline(subject["model"]))


def _share(point: Point, sweep: SweepResults, scale: float, precision: str) -> Share:
    name = point.label if point.allocation == "stored" else point.criterion
    if not point.criterion:
        name = "whole model" if scale == 1 else f"dense model of that size, from scratch ({sweep.path.stem})"
    recall = point.values("test", "recall_at_3")
    criterion = point.criterion or ("" if scale == 1 else "dense")
    quality = point.test_perplexity(), sum(recall) / len(recall)
    return Share(with_precision(name, precision), criterion, precision, scale * point.flops_fraction, *quality)


def with_precision(name: str, precision: str) -> str:
    """The name of something, with its precision where that is another than the reference's."""
    return f"{name}, {precision}" if precision else name


def _recovery(updated: Point, bare: Point, full: float) -> Recovery:
    before, after = bare.test_perplexity(), updated.test_perplexity()
    rank, size = updated.update_rank, updated.update_bytes
    return Recovery(updated.label, updated.criterion, updated.knob, rank, size, before, after, full)


def learned_page(comparison: Comparison, picture: str | None) -> str:
    """A Markdown page: shares, what updates won back, where it comes from."""
    subject = comparison.reference.subject
    files = ", ".join(f"`{sweep.path.name}`" for sweep in (comparison.reference, *comparison.others))
    parts = [
        f"# Learned operating points on {subject['corpus']}",
        f"Generated by `rheostat report` from {files}. Test perplexity, and how far it lies above the unpruned "
        f"{subject['model']}, at shares of that model's FLOPs. The best at each share comes first.",
    ]
    if picture:
        parts.append(f"![Perplexity above the unpruned model against share of FLOPs]({picture})")
    parts.append(table_markdown(shares_table(comparison)))
    if comparison.recoveries():
        parts += ["## Updates", f"{WON_BACK} {otherwise_trained()}"]
        parts.append(table_markdown(recoveries_table(comparison)))
    for sweep in (comparison.reference, *comparison.others):
        origin = sweep.provenance
        commit = origin["commit"] or "unknown"
        parts.append(f"`{sweep.path.name}`: `{origin['command']}`, commit {commit}, {origin['date']}.")
    return "\n\n".join(parts) + "\n"


def otherwise_trained() -> str:
    """Why our updates are no repetition of the paper's."""
    taught = read_recipe(OUR_RECIPE, stage="recover")["update"]["distill"]
    return (
        "A results file does not say how gates and updates were trained. Those of this project were trained as the "
        f"commands of `make reproduce` say, not by the paper's schedule: by the recipe `{OUR_RECIPE}`, in few steps, "
        f"an update with the full model's distribution as {taught:.0%} of its target. So what an update wins back is "
        "not like for like."
    )


def shares_table(comparison: Comparison) -> Table:
    cells = [
        [
            f"{share.flops_fraction:.1%}",
            share.name,
            f"{share.perplexity:.2f}",
            f"{share.perplexity / comparison.full - 1:+.1%}",
            f"{share.recall_at_3:.2%}",
        ]
        for share in comparison.shares()
    ]
    return Table(("FLOPs", "by", "test perplexity", "above unpruned", "test R@3"), "rlrrr", rows(cells))


def recoveries_table(comparison: Comparison) -> Table:
    subject, recoveries = comparison.reference.subject, comparison.recoveries()
    published = load_published().table_beside(subject["corpus"], subject["model"], subject["flops"])
    beside = [
        published_recovery(published, found.criterion, found.knob) if published and found.rank == 1 else None
        for found in recoveries
    ]
    with_paper = any(theirs is not None for theirs in beside)
    cells = []
    for found, theirs in zip(recoveries, beside, strict=True):
        cells.append(
            [
                found.name,
                f"{found.knob:.1%}",
                str(found.rank),
                f"{found.size_bytes:,}",
                f"{found.bare:.2f}",
                f"{found.updated:.2f}",
                "" if found.won_back is None else f"{found.won_back:.0%}",
                *(["" if theirs is None else f"{theirs:.0%}"] if with_paper else []),
            ]
        )
    header = ("point", "FLOPs", "rank", "bytes", "cut", "with update", "won back")
    columns = (*header, *(["paper: won back"] if with_paper else []))
    return Table(columns, "l" + "r" * (len(columns) - 1), rows(cells))


def published_recovery(table: PublishedTable, criterion: str, share: float) -> float | None:
    """The part of what cutting lost that the paper's update won back, at a share of FLOPs; None where it has none."""
    row = table.beside(criterion, share)
    if row is None or row.with_update is None:
        return None
    lost = row.test_perplexity - table.full.test_perplexity
    return (row.test_perplexity - row.with_update.test_perplexity) / lost
