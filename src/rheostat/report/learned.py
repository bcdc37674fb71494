"""The gains from learning, from several results files on one corpus: gates, updates, graded and other models.

Everything is compared with the unpruned model that pruning started from. Measures nothing; `figures` draws the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rheostat.errors import RheostatError
from rheostat.measure.results import BenchSubject, SweepResults, SweepSubject, SweptPoint
from rheostat.report.control_points import has_borrowed_widths, is_control_file, is_control_point
from rheostat.report.document import Table, files, prose, rows, table_markdown, unique_labels
from rheostat.report.origins import budget_beside, origins_of, origins_table
from rheostat.report.published import PublishedTable, load_published, same_size

GRADED = "graded"
DENSE = "dense"  # the criterion of another model, whole
RECOVERED = (
    "“Recovered” is the share of the perplexity lost by cutting that an update wins back. How our updates were trained "
    "is listed under “How models were made”; the two shares are comparable only if it was the paper's own schedule."
)


@dataclass(frozen=True)
class Share:
    """A test perplexity at a share of the reference's FLOPs. precision: only if it differs from the reference's.

    stored: whether it is a stored point. file: the results file it comes from. budget: of another model, how long it
    was trained.
    """

    name: str
    criterion: str
    precision: str
    flops_fraction: float
    perplexity: float
    recall_at_3: float
    stored: bool
    file: str
    budget: str = ""

    @property
    def has_borrowed_widths(self) -> bool:
        """Whether the widths are those of another method's point."""
        return has_borrowed_widths(self.name)

    @property
    def identity(self) -> tuple[object, ...]:
        """Equal for the same point measured twice: the digits shown do not depend on the number of threads."""
        return self.name, self.criterion, round(self.flops_fraction, 4), round(self.perplexity, 2)


@dataclass(frozen=True)
class Recovery:
    """How much of what cutting lost an update recovered. file: the results file it comes from."""

    name: str
    criterion: str
    knob: float
    rank: int
    size_bytes: int
    bare: float
    updated: float
    full: float
    file: str

    @property
    def recovered_share(self) -> float | None:
        """The share recovered; None if cutting lost nothing."""
        lost = self.bare - self.full
        return (self.bare - self.updated) / lost if lost > 0 else None


@dataclass(frozen=True)
class CorpusComparison:
    """Results on one corpus. reference: the sweep of the model that pruning started from.

    left_out: sweeps of nearly the same model (`is_nearly`), which are not compared.
    """

    reference: SweepResults
    others: tuple[SweepResults, ...]
    left_out: tuple[SweepResults, ...] = ()

    @property
    def full(self) -> float:
        return next(point.test_perplexity() for point in self.reference.points if not point.criterion)

    def is_of_reference(self, sweep: SweepResults) -> bool:
        """Whether a sweep measured the reference's own weights, in its precision: by the digest of the weights. Where
        that was not recorded, a model of the same FLOPs that is not graded counts as the same.
        """
        mine, theirs = self.reference.subject, sweep.subject
        if sweep is self.reference:
            return True
        if theirs.flops != mine.flops or self.other_precision(sweep):
            return False
        return theirs.weights == mine.weights if theirs.weights and mine.weights else GRADED not in sweep.criteria

    def criterion_of(self, point: SweptPoint, sweep: SweepResults) -> str:
        """What a point was chosen by; nothing for the reference's whole model. A point of another model has the name of
        its file in it: it belongs on no line of the reference's.
        """
        same_size = sweep.subject.flops == self.reference.subject.flops
        if GRADED in sweep.criteria and (point.criterion or same_size):
            return point.criterion or GRADED
        if self.is_of_reference(sweep) or (same_size and self.other_precision(sweep)):
            return point.criterion
        return f"{point.criterion} ({sweep.path.stem})" if point.criterion else DENSE

    def is_control(self, point: SweptPoint, sweep: SweepResults) -> bool:
        """Whether a point is a control, which is compared in "What makes the difference" only."""
        of_control = sweep is not self.reference and is_control_file(sweep.path.stem)
        return of_control or is_control_point(point.label)

    @property
    def shown(self) -> tuple[SweepResults, ...]:
        """The sweeps that have points to show: all but those of controls."""
        return (self.reference, *(sweep for sweep in self.others if not is_control_file(sweep.path.stem)))

    def shares(self) -> list[Share]:
        """Every point without an update, from all files, largest first; no controls."""
        found = []
        for sweep in (self.reference, *self.others):
            scale, precision = sweep.subject.flops / self.reference.subject.flops, self.other_precision(sweep)
            again = sweep is not self.reference and self.is_of_reference(sweep)
            for point in sweep.points:
                if point.allocation in ("bare", "path", "bits") or not point.is_tested:
                    continue  # bits are not learned: see `cost_sections.bits_sections`
                if point.update_rank or self.is_control(point, sweep):
                    continue  # updates have their own table, controls their own section
                criterion = self.criterion_of(point, sweep)
                if not criterion and again:
                    continue  # the reference again, from a file with more stored points
                found.append(_share(point, criterion, sweep, scale, precision, self.budget(sweep.path)))
        different = {share.identity: share for share in reversed(found)}  # a stored point can be in several files
        return sorted(different.values(), key=lambda share: (-round(share.flops_fraction, 2), share.perplexity))

    def budget(self, path: Path) -> str:
        """How long the model of a sweep was trained, and how long the reference; empty if that is not known."""
        return budget_beside(self.sweep(path).subject, self.reference.subject)

    def sweep(self, path: Path) -> SweepResults:
        """The sweep of a results file."""
        return next(one for one in (self.reference, *self.others) if one.path == path)

    def other_precision(self, sweep: SweepResults) -> str:
        """The precision of a sweep; empty if it is the reference's."""
        return "" if sweep.precision == self.reference.precision else sweep.precision

    def recoveries(self) -> list[Recovery]:
        found = []
        for sweep in (self.reference, *self.others):
            bare = {point.label: point for point in sweep.points if point.allocation == "bare"}
            stored = [point for point in sweep.points if point.allocation == "stored" and point.label in bare]
            updated = [point for point in stored if not self.is_control(point, sweep)]
            found += [_recovery(point, bare[point.label], self.full, sweep.path.name) for point in updated]
        return sorted(found, key=lambda r: (-r.knob, r.criterion, r.rank))


def compare(sweeps: Iterable[SweepResults]) -> list[CorpusComparison]:
    """Sweeps by corpus; the reference is preferably a model that was pruned and is not graded."""
    groups: dict[str, list[SweepResults]] = {}
    for sweep in sweeps:
        groups.setdefault(sweep.subject.corpus, []).append(sweep)
    return [_comparison(group) for group in groups.values()]


def _comparison(group: Sequence[SweepResults]) -> CorpusComparison:
    main = [sweep for sweep in group if not is_control_file(sweep.path.stem)] or group
    candidates = [sweep for sweep in main if GRADED not in sweep.criteria] or [
        sweep for sweep in main if any(not point.criterion for point in sweep.points)
    ]
    if not candidates:
        raise RheostatError(
            f"{group[0].path} holds only a graded model; expected also the model it was made from: "
            "give the sweep of that model as well"
        )
    reference = _reference([sweep for sweep in candidates if sweep.criteria] or candidates)
    others = [sweep for sweep in group if sweep is not reference]
    left_out = tuple(sweep for sweep in others if is_nearly(sweep.subject, reference.subject))
    return CorpusComparison(reference, tuple(sweep for sweep in others if sweep not in left_out), left_out)


def _reference(candidates: Sequence[SweepResults]) -> SweepResults:
    """The largest model; among models of the same size, the one with the most points that are only cut."""
    largest = max(sweep.subject.flops for sweep in candidates)
    of_its_size = [sweep for sweep in candidates if same_size(sweep.subject.flops, largest)]

    def rank(sweep: SweepResults) -> tuple[int, int]:
        return sum(not point.reconstructed for point in sweep.points), sweep.subject.flops

    return max(of_its_size, key=rank)


def is_nearly(subject: SweepSubject | BenchSubject, reference: SweepSubject) -> bool:
    """Whether a model differs from the reference only in a detail, such as the clusters of the output layer: the same
    size, slightly different FLOPs, and not named after a baseline.
    """
    flops, whole = subject.flops, reference.flops
    table = load_published().table_of(reference.corpus)
    return flops != whole and same_size(flops, whole) and not (table and table.is_baseline(subject.model))


def _share(point: SweptPoint, criterion: str, sweep: SweepResults, scale: float, precision: str, budget: str) -> Share:
    """budget: how long the model of the sweep was trained, for another model than the reference."""
    name = criterion or "whole model"
    if criterion == DENSE:
        name = f"another model, whole ({', '.join(filter(None, (sweep.path.stem, budget)))})"
    elif point.allocation == "stored":
        name = point.label + criterion.removeprefix(point.criterion)  # of another model: with the name of its file
    return Share(
        name=with_precision(name, precision),
        criterion=criterion,
        precision=precision,
        flops_fraction=scale * point.flops_fraction,
        perplexity=point.test_perplexity(),
        recall_at_3=point.test_recall(),
        stored=point.allocation == "stored",
        file=sweep.path.stem,
        budget="" if point.criterion or scale == 1 else budget,
    )


def with_precision(name: str, precision: str) -> str:
    """A name, with the precision if it differs from the reference's."""
    return f"{name}, {precision}" if precision else name


def _recovery(updated: SweptPoint, bare: SweptPoint, full: float, file: str) -> Recovery:
    before, after = bare.test_perplexity(), updated.test_perplexity()
    rank, size = updated.update_rank, updated.update_bytes
    return Recovery(updated.label, updated.criterion, updated.knob, rank, size, before, after, full, file)


def learned_page(comparison: CorpusComparison, picture: str | None, caution: str = "") -> str:
    """A Markdown page: shares, gains from updates, how models were made, where the numbers come from.

    caution: what to know before comparing with the paper.
    """
    subject = comparison.reference.subject
    sweeps = comparison.shown
    parts = [
        f"# Learned operating points on {prose(subject.corpus)}",
        prose(
            f"Generated by `rheostat report` from {files(sweep.path for sweep in sweeps)}. Test perplexity, and how "
            f"far it is above the unpruned {subject.model}, at shares of that model's FLOPs. The best at each share "
            "comes first."
        ),
        *([prose(caution)] if caution else []),
    ]
    if picture:
        parts.append(f"![Perplexity above the unpruned model against share of FLOPs]({picture})")
    parts.append(table_markdown(shares_table(comparison)))
    if comparison.recoveries():
        parts += ["## Updates", RECOVERED, table_markdown(recoveries_table(comparison))]
    made = [
        line
        for sweep in sweeps
        for line in origins_of(sweep.path, sweep.subject.model, sweep.subject.origins, sweep.subject.weights)
    ]
    parts += ["## How models were made", table_markdown(origins_table(made))]
    for sweep in sweeps:
        source = sweep.provenance
        made_by = f"`{source.command}`, commit {source.commit or 'unknown'}, {source.date}"
        parts.append(prose(f"{files([sweep.path])}: {made_by}."))
    return "\n\n".join(parts) + "\n"


def shares_table(comparison: CorpusComparison) -> Table:
    shares = comparison.shares()
    alike = [f"{share.name} at {share.flops_fraction:.1%}" for share in shares]
    cells = [
        [
            f"{share.flops_fraction:.1%}",
            share.name if alike.count(one) == 1 else f"{share.name} ({share.file})",
            f"{share.perplexity:.2f}",
            f"{share.perplexity / comparison.full - 1:+.1%}",
            f"{share.recall_at_3:.2%}",
        ]
        for share, one in zip(shares, alike, strict=True)
    ]
    return Table(("FLOPs", "method", "test perplexity", "above unpruned", "test R@3"), "rlrrr", rows(cells))


def recoveries_table(comparison: CorpusComparison) -> Table:
    subject, recoveries = comparison.reference.subject, comparison.recoveries()
    published = load_published().table_beside(subject.corpus, subject.model, subject.flops)
    beside = [
        published_recovery(published, found.criterion, found.knob) if published and found.rank == 1 else None
        for found in recoveries
    ]
    with_paper = any(theirs is not None for theirs in beside)
    names = unique_labels([found.name for found in recoveries], [found.file for found in recoveries])
    cells = []
    for name, found, theirs in zip(names, recoveries, beside, strict=True):
        cells.append(
            [
                name,
                f"{found.knob:.1%}",
                str(found.rank),
                f"{found.size_bytes:,}",
                f"{found.bare:.2f}",
                f"{found.updated:.2f}",
                "" if found.recovered_share is None else f"{found.recovered_share:.0%}",
                *(["" if theirs is None else f"{theirs:.0%}"] if with_paper else []),
            ]
        )
    header = ("point", "FLOPs", "rank", "bytes", "cut", "with update", "recovered")
    columns = (*header, *(["paper: recovered"] if with_paper else []))
    return Table(columns, "l" + "r" * (len(columns) - 1), rows(cells))


def published_recovery(table: PublishedTable, criterion: str, share: float) -> float | None:
    """The share of what cutting lost that the paper's update recovered, at a share of FLOPs; None without an update."""
    row = table.beside(criterion, share)
    if row is None or row.with_update is None:
        return None
    lost = row.test_perplexity - table.full.test_perplexity
    return (row.test_perplexity - row.with_update.test_perplexity) / lost
