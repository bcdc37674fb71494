"""What results files say about one corpus, by criterion and share, for the paper's tables and claims.

Quality comes from sweeps, cost from benches, kept filters from a model file. What was not measured is None. Knows how
files are matched with each other; verdicts are in `claims`, pictures in `figures`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from rheostat.errors import RheostatError
from rheostat.measure.results import (
    NOT_RECORDED,
    BenchRow,
    Collection,
    ModelBench,
    NGramResults,
    SweepResults,
    SweepSubject,
    SweptPoint,
)
from rheostat.report.control_points import has_borrowed_widths, is_of_another_seed, without_seed
from rheostat.report.kept_filters import POINT_BY_POINT, KeptFilters
from rheostat.report.learned import DENSE, CorpusComparison, compare, is_nearly
from rheostat.report.published import SAME_SHARE, PublishedRow, is_corpus, load_published

CLEARLY_BETTER = 0.9  # times the perplexity of n-grams: a model above that has not learned what the paper's had
# The order of preference if a share was measured more than once: all seeds of a ranking, then a single stored point.
# But a learned point comes before a cut by the ranking of its gates.
PREFERENCE = ("uniform", "path", "bits", "stored", "bare")
LEARNED_PREFERENCE = ("stored", "bare", "uniform", "path", "bits")


@dataclass(frozen=True)
class Measurement:
    """Quality at one point, mean over seeds. flops_fraction, cost: of the corpus's reference model. precision: only if
    it differs from that model's. bounds: filters and words that are read in 8 bits; None for all. control: made only to
    be compared with another point (`control_points`).
    """

    name: str
    criterion: str  # "" for the whole model, "dense" for another model
    flops_fraction: float
    widths: tuple[int, ...]
    allocation: str
    update_rank: int
    update_bytes: int
    valid_perplexity: float | None
    test_perplexity: float
    recall_at_3: float
    seeds: int
    path: Path
    precision: str = ""
    cost: float = 1.0
    bounds: tuple[int, ...] | None = None
    reconstructed: bool = False
    spread: float = 0.0  # the range of test perplexity over seeds; 0 for a single one
    valid_recall_at_3: float | None = None
    recall_spread: float = 0.0  # the range of R@3 on test text over seeds
    control: bool = False

    @property
    def updated(self) -> bool:
        return self.update_rank > 0

    @property
    def has_borrowed_widths(self) -> bool:
        """Whether the widths are those of another method's point."""
        return has_borrowed_widths(self.name)


@dataclass(frozen=True)
class Cost:
    """same_widths: measured with matrices of the same sizes and bits; otherwise at nearly the same cost."""

    row: BenchRow
    path: Path
    same_widths: bool


@dataclass(frozen=True)
class _Spread:
    """The ranges of test perplexity and R@3 over the seeds of one point."""

    share: float
    perplexity: float
    recall_at_3: float


@dataclass(frozen=True)
class CorpusEvidence:
    """All measurements on one corpus. comparable: points of the reference model's own weights. controls: of the same
    weights, and used only to see what chance does; `report.controls` compares them.
    """

    corpus: str
    comparison: CorpusComparison | None
    measurements: tuple[Measurement, ...]
    comparable: tuple[Measurement, ...]
    benches: tuple[ModelBench, ...]
    baselines: tuple[Measurement, ...]
    baseline_benches: tuple[ModelBench, ...]
    ngrams: tuple[NGramResults, ...] = ()
    kept: KeptFilters | None = None
    controls: tuple[Measurement, ...] = ()

    @property
    def without_controls(self) -> tuple[Measurement, ...]:
        """All measurements that a table or a picture may show."""
        return tuple(one for one in self.measurements if not one.control)

    @property
    def reference(self) -> SweepResults | None:
        return self.comparison.reference if self.comparison else None

    @property
    def flops(self) -> int | None:
        """FLOPs of a query of the whole model."""
        known = self.reference or self.bench
        return known.subject.flops if known else None

    @property
    def full(self) -> Measurement | None:
        return next((one for one in self.comparable if not one.criterion), None)

    @property
    def beats_ngrams(self) -> bool:
        """Whether the whole model is clearly better than the n-grams of the same text; True if none were measured."""
        if self.full is None or not self.ngrams:
            return True
        return self.full.test_perplexity < CLEARLY_BETTER * min(one.test_perplexity for one in self.ngrams)

    @property
    def bench(self) -> ModelBench | None:
        """The first bench with measured energy, else the first."""
        return next((bench for bench in self.benches if bench.has_measured_energy), next(iter(self.benches), None))

    @property
    def cost_benches(self) -> list[ModelBench]:
        """The benches of a table: that bench, and those with the same machine, precision, engine, threads and meter."""
        chosen = self.bench
        if chosen is None:
            return []
        return [chosen, *(one for one in self.benches if one is not chosen and _setup(one) == _setup(chosen))]

    def of_one_setup(self) -> CorpusEvidence:
        """The same with comparable benches only, for a table that has our model and baselines: times of two engines, or
        of other numbers of threads, do not belong in one column.

        A bench with measured energy comes first, then one whose points are interleaved with a baseline.
        """
        beside = {one.path for one in self.baseline_benches if one not in self.benches}
        of_corpus = [one for one in self.baseline_benches if is_corpus(one.subject.corpus, self.corpus)]
        chosen = max(
            self.benches or of_corpus, key=lambda one: (one.has_measured_energy, one.path in beside), default=None
        )
        if chosen is None:
            return self
        own, others = (
            tuple(one for one in benches if _setup(one) == _setup(chosen))
            for benches in (self.benches, self.baseline_benches)
        )
        first = sorted(own, key=lambda one: one is not chosen)
        return replace(self, benches=tuple(first), baseline_benches=others)

    def at(self, criterion: str, share: float, *, with_update: bool = False) -> Measurement | None:
        """The point of a criterion at a share, with widths of its own. with_update: a point with an update of rank 1,
        as in the paper.
        """
        found = [one for one in self._own(criterion, with_update) if abs(one.flops_fraction - share) < SAME_SHARE]
        return min(
            found,
            key=lambda one: (_preference(criterion, one), abs(one.flops_fraction - share)),
            default=None,
        )

    def pair_at(self, criterion: str, share: float) -> tuple[Measurement | None, Measurement | None]:
        """The point of a criterion at a share, without and with an update. Points that are learned one by one differ
        from run to run, so there both are the same point of the same file.
        """
        plain, updated = self.at(criterion, share), self.at(criterion, share, with_update=True)
        if plain is None or updated is None or criterion not in POINT_BY_POINT:
            return plain, updated
        same = (plain.path, plain.widths) == (updated.path, updated.widths)
        return (plain if same else self.without_update(updated)), updated

    def without_update(self, updated: Measurement) -> Measurement | None:
        """The same point of the same file, measured without its update."""
        bare = (one for one in self.comparable if one.allocation == "bare")
        return next((one for one in bare if (one.name, one.path) == (updated.name, updated.path)), None)

    def whole_of(self, one: Measurement) -> Measurement | None:
        """The whole model of a point's own weights: as its file measured it, else the reference."""
        same_file = [other for other in self.measurements if other.path == one.path and not other.updated]
        whole = (other for other in same_file if other.criterion in ("", DENSE) or other.cost == 1)
        return next(whole, self.full if one in self.comparable else None)

    def spread_at(self, share: float) -> float:
        """The largest range over seeds that was measured at a share, the effect of chance there; 0 if none was."""
        return max((one.perplexity for one in self._spreads if abs(one.share - share) < SAME_SHARE), default=0.0)

    def recall_spread_at(self, share: float) -> float:
        """The same for R@3."""
        return max((one.recall_at_3 for one in self._spreads if abs(one.share - share) < SAME_SHARE), default=0.0)

    @cached_property
    def _spreads(self) -> list[_Spread]:
        known = (*self.comparable, *self.controls)
        seeds: dict[tuple[object, ...], list[Measurement]] = {}
        for one in known:
            if is_of_another_seed(one.path.stem, one.name):
                seeds.setdefault(_but_for_the_seed(one), []).append(one)
        return [_spread_of(one, seeds.get(_but_for_the_seed(one), ())) for one in known]

    def at_widths(self, criterion: str, widths: tuple[int, ...], *, with_update: bool = False) -> Measurement | None:
        """The point of a criterion with exactly these widths."""
        return next((one for one in self._of(criterion, with_update) if one.widths == widths), None)

    def of_all_widths(self, criterion: str, *, with_update: bool = False) -> list[Measurement]:
        """The points of a criterion, largest first; one for each list of widths."""
        preferred = sorted(self._own(criterion, with_update), key=lambda one: _preference(criterion, one))
        different = {one.widths: one for one in reversed(preferred)}
        return sorted(different.values(), key=lambda one: -one.flops_fraction)

    def shares(self, criterion: str, *, with_update: bool = False) -> list[float]:
        """The shares at which a criterion was measured with widths of its own, largest first."""
        return sorted({round(one.flops_fraction, 2) for one in self._own(criterion, with_update)}, reverse=True)

    def _of(self, criterion: str, with_update: bool) -> list[Measurement]:
        rank = int(with_update)
        return [one for one in self.comparable if one.criterion == criterion and one.update_rank == rank]

    def _own(self, criterion: str, with_update: bool) -> list[Measurement]:
        return [one for one in self._of(criterion, with_update) if not one.has_borrowed_widths]

    def ranking_origin(self, one: Measurement) -> object:
        """How the ranking of a point was made, as its file records; None if it is not recorded."""
        known = self.subject_of(one).origins.rankings.get(one.name)
        return None if known == NOT_RECORDED else known

    def subject_of(self, one: Measurement) -> SweepSubject:
        """The model that a measurement is of, as its results file describes it."""
        assert self.comparison is not None  # there are no measurements without
        return self.comparison.sweep(one.path).subject

    def recovered(self, criterion: str) -> list[tuple[Measurement, Measurement]]:
        """Points of a criterion, without and with their update of rank 1."""
        return [(bare, one) for one in self._of(criterion, True) if (bare := self.without_update(one))]

    def cost(self, share: float, widths: Sequence[int] = (), bounds: tuple[int, ...] | None = None) -> Cost | None:
        """The cost of a point with these widths and bits, else at the same share: matrices decide what it costs."""
        found = [cost for bench in self.cost_benches if (cost := cost_in(bench, share, widths, bounds))]
        return next((cost for cost in found if cost.same_widths), next(iter(found), None))

    @property
    def cut_off(self) -> float | None:
        """The perplexity above which points are left out: the same multiple of the full model's as in the paper."""
        published = load_published()
        theirs = published.table("ptb").full.test_perplexity
        return self.full.test_perplexity * published.cut_offs.figure_test_perplexity / theirs if self.full else None

    def cost_of(self, one: Measurement) -> Cost | None:
        """The cost of a measured point; for another model, only if it has a comparable bench itself."""
        if one.criterion != DENSE:
            return self.cost(one.cost, one.widths, one.bounds)
        named = [bench for bench in self.baseline_benches if bench.subject.model == one.name]
        own = (bench for bench in named if self.bench and _setup(bench) == _setup(self.bench))
        return next((cost for bench in own if (cost := cost_in(bench, 1.0))), None)

    def baseline(self, row: PublishedRow) -> Measurement | None:
        return next((one for one in self.baselines if row.is_name_of(one.name)), None)

    def baseline_bench(self, row: PublishedRow) -> ModelBench | None:
        return next((one for one in self.baseline_benches if row.is_name_of(one.subject.model)), None)

    def other_baselines(self, rows: Sequence[PublishedRow]) -> list[tuple[Measurement | None, ModelBench | None]]:
        """Quality and cost of baselines that are in none of these rows, matched by the model's name."""
        others = [one for one in self.baseline_benches if one not in self.benches]
        benches = {one.subject.model: one for one in others if is_corpus(one.subject.corpus, self.corpus)}
        qualities = {one.name: one for one in self.baselines}
        names = [name for name in {**qualities, **benches} if not any(row.is_name_of(name) for row in rows)]
        return [(qualities.get(name), benches.get(name)) for name in names]


@dataclass(frozen=True)
class Evidence:
    """All evidence for a report."""

    collection: Collection
    corpora: tuple[CorpusEvidence, ...]
    notes: tuple[str, ...] = ()

    def energy_bench(self, sweep: SweepResults) -> ModelBench | None:
        """The bench for keystrokes saved per joule: the first with energy for a model with the sweep's FLOPs and
        precision. None for a sweep without simulated typing.
        """
        if all(point.keystrokes_saved_share is None for point in sweep.points):
            return None
        wanted = sweep.subject.flops, sweep.precision
        benches = (one for one in self.collection.benches if (one.subject.flops, one.subject.precision) == wanted)
        return next((bench for bench in benches if bench.has_measured_energy), None)

    def on(self, corpus: str) -> CorpusEvidence:
        """The evidence for a corpus of the paper; empty if nothing was measured."""
        for one in self.corpora:
            if is_corpus(one.corpus, corpus):
                return one
        benches = tuple(bench for bench in self.collection.benches if is_corpus(bench.subject.corpus, corpus))
        own = tuple(bench for bench in benches if not _is_baseline(bench, corpus))
        ngrams = tuple(one for one in self.collection.ngrams if is_corpus(one.subject.corpus, corpus))
        return CorpusEvidence(corpus, None, (), (), own, (), benches, ngrams)


def gather(collection: Collection, kept: KeptFilters | None = None) -> Evidence:
    """Sort results by corpus; a group without a model to compare with is left out, with a note."""
    groups: dict[str, list[SweepResults]] = {}
    for sweep in collection.sweeps:
        groups.setdefault(sweep.subject.corpus, []).append(sweep)
    corpora, notes = [], []
    for group in groups.values():
        try:
            (comparison,) = compare(group)
        except RheostatError as error:
            notes.append(str(error))
            continue
        corpora.append(_on_corpus(comparison, collection, kept))
        notes += [_left_out(sweep, comparison.reference) for sweep in comparison.left_out]
    return Evidence(collection, tuple(corpora), tuple(notes))


def _preference(criterion: str, one: Measurement) -> int:
    order = LEARNED_PREFERENCE if criterion in POINT_BY_POINT else PREFERENCE
    return order.index(one.allocation)


def _but_for_the_seed(one: Measurement) -> tuple[object, ...]:
    """What two points have in common that differ in nothing but the seed."""
    return without_seed(one.name), one.criterion, one.allocation, one.update_rank


def _spread_of(one: Measurement, seeds: Iterable[Measurement]) -> _Spread:
    """The larger one of the range within a measurement and that over the same point of other seeds."""
    points = [one, *(other for other in seeds if abs(other.flops_fraction - one.flops_fraction) < SAME_SHARE)]
    perplexities, recalls = [each.test_perplexity for each in points], [each.recall_at_3 for each in points]
    return _Spread(
        one.flops_fraction,
        max(one.spread, max(perplexities) - min(perplexities)),
        max(one.recall_spread, max(recalls) - min(recalls)),
    )


def _left_out(sweep: SweepResults, reference: SweepResults) -> str:
    return (
        f"`{sweep.path.name}`, whose model has nearly the FLOPs of `{reference.path.name}`'s and is neither that model "
        "nor named after a baseline; it has its own page"
    )


def _setup(bench: ModelBench) -> tuple[object, ...]:
    """What must be equal for two times to be comparable."""
    subject = bench.subject
    return bench.provenance.machine, subject.precision, subject.engine, subject.threads, subject.meter


def cost_in(
    bench: ModelBench, share: float, widths: Sequence[int] = (), bounds: tuple[int, ...] | None = None
) -> Cost | None:
    """share: of the cost. A point with rows in 4 bits is matched only with such points."""
    alike = [row for row in bench.rows if (row.bounds is None) == (bounds is None)]
    for row in alike:
        if widths and (row.widths, row.bounds) == (tuple(widths), bounds):
            return Cost(row, bench.path, True)
    near = [row for row in alike if abs(row.cost - share) < SAME_SHARE]
    nearest = min(near, key=lambda row: abs(row.cost - share), default=None)
    return Cost(nearest, bench.path, nearest.cost == share == 1) if nearest else None


def _on_corpus(comparison: CorpusComparison, collection: Collection, kept: KeptFilters | None) -> CorpusEvidence:
    reference, benches = comparison.reference, collection.benches
    sweeps = (reference, *comparison.others)
    flops = reference.subject.flops
    own = [sweep for sweep in sweeps if comparison.is_of_reference(sweep)]
    found = {sweep.path: _measurements(sweep, comparison) for sweep in sweeps}
    of_own_weights = [one for sweep in own for one in found[sweep.path]]
    others = [one for sweep in sweeps if sweep not in own for one in found[sweep.path]]
    return CorpusEvidence(
        corpus=reference.subject.corpus,
        comparison=comparison,
        measurements=tuple(one for sweep in sweeps for one in found[sweep.path]),
        comparable=tuple(one for one in of_own_weights if not one.control),
        benches=tuple(bench for bench in benches if bench.subject.flops == flops),
        baselines=tuple(one for one in others if one.criterion == DENSE and not one.control),
        baseline_benches=tuple(
            bench
            for bench in benches
            if bench.subject.flops != flops and not is_nearly(bench.subject, reference.subject)
        ),
        ngrams=tuple(one for one in collection.ngrams if one.subject.corpus == reference.subject.corpus),
        kept=kept if kept and kept.flops == flops else None,
        controls=tuple(one for one in of_own_weights if one.control),
    )


def _measurements(sweep: SweepResults, comparison: CorpusComparison) -> list[Measurement]:
    return [_measurement(point, sweep, comparison) for point in sweep.points if point.is_tested]


def _measurement(point: SweptPoint, sweep: SweepResults, comparison: CorpusComparison) -> Measurement:
    scale = sweep.subject.flops / comparison.reference.subject.flops
    criterion = comparison.criterion_of(point, sweep)
    return Measurement(
        name=sweep.subject.model if criterion == DENSE else point.label,
        criterion=criterion,
        flops_fraction=scale * point.flops_fraction,
        widths=point.widths,
        allocation=point.allocation,
        update_rank=0 if point.allocation == "bare" else point.update_rank,
        update_bytes=point.update_bytes,
        valid_perplexity=point.mean("valid", "perplexity"),
        test_perplexity=point.test_perplexity(),
        recall_at_3=point.test_recall(),
        seeds=len(point.values("test", "perplexity")),
        path=sweep.path,
        precision=comparison.other_precision(sweep),
        cost=scale * point.cost,
        bounds=point.bounds,
        reconstructed=point.reconstructed,
        spread=point.spread("test", "perplexity"),
        valid_recall_at_3=point.mean("valid", "recall_at_3"),
        recall_spread=point.spread("test", "recall_at_3"),
        control=comparison.is_control(point, sweep),
    )


def _is_baseline(bench: ModelBench, corpus: str) -> bool:
    table = load_published().table_of(corpus)
    return table is not None and table.is_baseline(bench.subject.model)
