"""The paper's claims, judged by our results: one small function per kind of check.

Every function returns facts: a comparison that holds, fails or could not be made, with the deciding numbers and the
files they come from. Claims are data (`published`); numbers come from `evidence`. Estimates decide nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from itertools import combinations, groupby, pairwise, permutations
from pathlib import Path
from typing import Any, Literal, cast

from rheostat.measure.results import BenchRow, ModelBench
from rheostat.measure.results.bench import r_squared_interval, rows_to_fit
from rheostat.report import published_claims as checks
from rheostat.report.document import NOT_MEASURED, Table, TableRow, files
from rheostat.report.evidence import CorpusEvidence, Evidence, Measurement
from rheostat.report.extent import update_departure
from rheostat.report.kept_filters import POINT_BY_POINT
from rheostat.report.published import PublishedRow, load_published
from rheostat.report.published_claims import Claim

Verdict = Literal["confirmed", "contradicted", "partly", "not comparable", "not measured"]
SIGNS = {True: "✓", False: "✗", None: "–"}
NOT_COMPARABLE = "≠"
NEAR_PUBLISHED = 1.1  # times the published full model: above it, a number of perplexity is about another model
BYTES_PER_KB = 1000
TOO_FEW_TO_FIT = "measured at fewer than three points"
NO_DIFFERENCE = "no difference seen"
BY_ARITHMETIC = "by arithmetic on shapes"
TESTED = "tested only: R@3 loses a smaller share than perplexity gains"
BEATEN = "our model does not clearly beat n-grams"
LAZY = (
    "a lazy output layer: how much of it is computed depends on how certain the model is; the paper computes all of it"
)


@dataclass(frozen=True)
class Fact:
    """holds: None if it was not measured, or not comparable. topic: consecutive facts with the same topic are shown
    together. reasons: why numbers that were measured say nothing about the claim.
    """

    holds: bool | None
    text: str
    paths: tuple[Path, ...] = ()
    topic: str = ""
    reasons: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert self.holds is None or self.comparable

    @property
    def comparable(self) -> bool:
        return not self.reasons

    @property
    def shown(self) -> str:
        sign = SIGNS[self.holds] if self.comparable else NOT_COMPARABLE
        why = f" ({'; '.join(self.reasons)})" if self.reasons else ""
        return f"{sign} {self.text}{why}"

    def without_verdict(self, *reasons: str) -> Fact:
        """The same numbers without a verdict, if there are reasons; what was not measured needs none."""
        if not reasons or (self.holds is None and self.comparable):
            return self
        return replace(self, holds=None, reasons=(*self.reasons, *reasons))


@dataclass(frozen=True)
class Judgement:
    claim: Claim
    verdict: Verdict
    facts: tuple[Fact, ...]


def judge_all(evidence: Evidence) -> list[Judgement]:
    return [judge(claim, evidence) for claim in load_published().claims]


def judge(claim: Claim, evidence: Evidence) -> Judgement:
    facts = tuple(dict.fromkeys(fact for check in claim.checks for fact in _facts(check, evidence)))
    return Judgement(claim, verdict_of(facts), facts)


def _facts(check: checks.Check, evidence: Evidence) -> Iterator[Fact]:
    """The facts of a check, corpus by corpus; a model that does not clearly beat n-grams decides nothing."""
    corpora: tuple[checks.Corpus, ...] = getattr(check, "corpora", ())
    parts: list[Any] = [replace(cast(Any, check), corpora=(one,)) for one in corpora] or [check]
    for part, corpus in zip(parts, corpora or [getattr(check, "corpus", None)], strict=True):
        doubtful = corpus is not None and not evidence.on(corpus).beats_ngrams
        reasons = (BEATEN,) if doubtful else ()
        yield from (fact.without_verdict(*reasons) for fact in check_facts(part, evidence))


def verdict_of(facts: Sequence[Fact]) -> Verdict:
    """Confirmed if everything was measured and holds, contradicted if nothing measured holds, else partly."""
    measured = [fact.holds for fact in facts if fact.holds is not None]
    if not measured:
        return "not measured" if all(fact.comparable for fact in facts) else "not comparable"
    if not any(measured):
        return "contradicted"
    return "confirmed" if all(measured) and len(measured) == len(facts) else "partly"


def claims_table(judgements: Sequence[Judgement]) -> Table:
    rows = [TableRow(tuple(_cells(one)), one.verdict) for one in judgements]
    header = ("verdict", "claim", "where in the paper", "the numbers that decide it", "its own tables", "from")
    return Table(header, "llllll", tuple(rows), judged=True)


def _cells(judgement: Judgement) -> Iterator[str]:
    claim, facts = judgement.claim, judgement.facts
    own = {"confirm": "confirm it", "contradict": "contradict it", "silent": "are silent"}
    yield judgement.verdict
    yield claim.sentence
    yield claim.where
    yield "\n".join(_lines(facts)) or f"– {NOT_MEASURED}"
    yield own[claim.own_tables]
    yield files(path for fact in facts for path in fact.paths)


def _lines(facts: Sequence[Fact]) -> Iterator[str]:
    """One line per fact, or one for all facts of a topic."""
    for topic, group in groupby(facts, key=lambda fact: fact.topic):
        texts = [fact.shown for fact in group]
        yield from [f"{topic}: {', '.join(texts)}"] if topic else texts


# ------------------------------------------------------------------------------------------------ kinds of checks


def _absent(corpus: str) -> Fact:
    """One line for a corpus that was not measured at all."""
    return Fact(None, f"{corpus}: {NOT_MEASURED}")


@singledispatch
def check_facts(check: object, evidence: Evidence) -> list[Fact]:
    """What our results say about one check."""
    raise AssertionError(f"no judge for {check}")


@check_facts.register
def _(check: checks.Better, evidence: Evidence) -> list[Fact]:
    return [
        fact
        for corpus in check.corpora
        for with_update in check.with_update
        for other in check.than
        for fact in _comparison_facts(check, evidence.on(corpus), corpus, other, with_update)
    ]


def _comparison_facts(
    check: checks.Better, on: CorpusEvidence, corpus: str, other: str, with_update: bool
) -> Iterator[Fact]:
    """One fact per share at which both were measured and at least one would be in the paper's figure.

    A criterion that chooses widths too is also judged at its own widths, which the other one is given.
    """
    if not on.comparable:
        yield _absent(corpus)
        return
    what = f"{corpus}, {check.criterion} against {other}{' with update' if with_update else ''}"
    if check.tolerance:
        what += f", {check.tolerance:.0%} allowed"
    own = check.criterion in POINT_BY_POINT
    found = 0
    for share in on.shares(check.criterion, with_update=with_update):
        mine = on.at(check.criterion, share, with_update=with_update)
        theirs = on.at(other, share, with_update=with_update)
        if mine and theirs and _is_shown(on, mine, theirs):
            found += 1
            yield _compare_pair(check, on, mine, theirs, f"{what}, each at its own widths" if own else what)
    if not found:
        yield Fact(None, f"{what}: {NOT_MEASURED}")
    elif own:
        yield from _at_equal_widths(check, on, other, with_update, what)


def _at_equal_widths(
    check: checks.Better, on: CorpusEvidence, other: str, with_update: bool, what: str
) -> Iterator[Fact]:
    topic, found = f"{what}, at equal widths", False
    for mine in on.of_all_widths(check.criterion, with_update=with_update):
        theirs = on.at_widths(other, mine.widths, with_update=with_update)
        if theirs and _is_shown(on, mine, theirs):
            found = True
            yield _compare_pair(check, on, mine, theirs, topic)
    if not found:
        yield Fact(None, f"{topic}: {NOT_MEASURED}")


def _is_shown(on: CorpusEvidence, mine: Measurement, theirs: Measurement) -> bool:
    return min(mine.test_perplexity, theirs.test_perplexity) <= (math.inf if on.cut_off is None else on.cut_off)


def _compare_pair(check: checks.Better, on: CorpusEvidence, mine: Measurement, theirs: Measurement, topic: str) -> Fact:
    """Holds or fails only by more than the spread between seeds, also where a tolerance moves the limit."""
    text = f"{mine.test_perplexity:.2f} / {theirs.test_perplexity:.2f} at {mine.flops_fraction:.0%}"
    paths, spread = (mine.path, theirs.path), on.spread_at(mine.flops_fraction)
    limit = theirs.test_perplexity * (1 + check.tolerance)
    if abs(mine.test_perplexity - limit) > spread:
        fact = Fact(mine.test_perplexity <= limit, text, paths, topic)
    else:
        fact = _no_difference(text, spread, paths, topic, f"from the limit of {limit:.2f}" if check.tolerance else "")
    return _about_updates(fact, on, mine, theirs)


def _about_updates(fact: Fact, on: CorpusEvidence, *points: Measurement) -> Fact:
    """The rule for all that a claim says about updates: those trained otherwise than the paper's decide nothing."""
    return fact.without_verdict(*dict.fromkeys(why for one in points if (why := update_departure(on, one))))


def _no_difference(text: str, spread: float, paths: tuple[Path, ...], topic: str = "", what: str = "") -> Fact:
    """Two numbers that differ by no more than those of two seeds do. what: what the first one hardly differs from."""
    seen = f"{NO_DIFFERENCE} {what}".strip()
    return Fact(None, text, paths, topic, (f"{seen}: seeds differ by {spread:.2f}",))


@check_facts.register
def _(check: checks.Trade, evidence: Evidence) -> list[Fact]:
    on = evidence.on(check.corpus)
    mine, full = on.at(check.criterion, check.flops_fraction, with_update=check.with_update), on.full
    what = f"{check.corpus}, {check.criterion} at {check.flops_fraction:.0%}"
    if mine is None or full is None:
        return [Fact(None, f"{what}: {NOT_MEASURED}")]
    increase = mine.test_perplexity / full.test_perplexity - 1
    numbers = f"{full.test_perplexity:.2f} → {mine.test_perplexity:.2f} test perplexity, {increase:+.0%}"
    within = increase <= check.perplexity_increase + check.tolerance
    text = f"{what}: {numbers}, claimed {check.perplexity_increase:+.0%}"
    rise = Fact(within, text, (full.path, mine.path))
    reasons = _other_base(f"a rise of {check.perplexity_increase:.0%}", check.corpus, full)
    return [rise.without_verdict(*reasons), _saved(check, on, mine, what)]


def _other_base(what: str, corpus: checks.Corpus, full: Measurement) -> tuple[str, ...]:
    """Why a number of perplexity (a limit or a rise) says nothing about our points: it is for a better whole model.
    Which of two points of one model is better can be judged whatever the model.
    """
    published = load_published().table(corpus).full.test_perplexity
    if full.test_perplexity <= NEAR_PUBLISHED * published:
        return ()
    return (f"{what} is for a full model of {published:g}, ours has {full.test_perplexity:.2f}",)


def _saved(check: checks.Trade, on: CorpusEvidence, mine: Measurement, what: str) -> Fact:
    cost, whole = on.cost(mine.flops_fraction, mine.widths), on.cost(1.0)
    energy, full_energy = (one.row.measured_mj if one else None for one in (cost, whole))
    if energy is None or full_energy is None or cost is None:
        return Fact(None, f"{what}: energy {NOT_MEASURED}")
    saved = 1 - energy / full_energy
    text = f"{what}: {full_energy:.3g} → {energy:.3g} mJ/query, {saved:.0%} saved, claimed {check.energy_saved:.0%}"
    return Fact(saved >= check.energy_saved - check.tolerance, text, (cost.path,))


@check_facts.register
def _(check: checks.RegainsMore, evidence: Evidence) -> list[Fact]:
    facts = []
    for corpus in check.corpora:
        on = evidence.on(corpus)
        for other in check.than:
            missing = Fact(None, f"{corpus}, {check.criterion} against {other}: {NOT_MEASURED}")
            facts += list(_regained(corpus, on, check.criterion, other)) or [
                missing if on.comparable else _absent(corpus)
            ]
    return facts


def _regained(corpus: str, on: CorpusEvidence, criterion: str, other: str) -> Iterator[Fact]:
    """One fact per share at which both have a point that was measured without and with its update."""
    for share in on.shares(criterion, with_update=True):
        updated = [on.at(name, share, with_update=True) for name in (criterion, other)]
        found = [(bare, one) for one in updated if one and (bare := on.without_update(one))]
        if len(found) < len(updated):
            continue
        own, theirs = (bare.test_perplexity - one.test_perplexity for bare, one in found)
        text = f"{corpus}, {criterion} against {other} at {share:.0%}: {own:.2f} / {theirs:.2f} points regained"
        paths, spread = tuple(one.path for _, one in found), on.spread_at(share)
        fact = Fact(own > theirs, text, paths)
        if abs(own - theirs) <= spread:
            fact = _no_difference(text, spread, paths)
        yield _about_updates(fact, on, *(one for _, one in found))


@check_facts.register
def _(check: checks.UpdateHelps, evidence: Evidence) -> list[Fact]:
    facts = []
    for corpus in check.corpora:
        on = evidence.on(corpus)
        for criterion in check.criteria:
            pairs = on.recovered(criterion)
            missing = Fact(None, f"{corpus}, {criterion}: {NOT_MEASURED}") if on.comparable else _absent(corpus)
            facts += [_helped(corpus, on, bare, updated) for bare, updated in pairs] or [missing]
    return facts


def _helped(corpus: str, on: CorpusEvidence, bare: Measurement, updated: Measurement) -> Fact:
    numbers = f"{bare.test_perplexity:.2f} → {updated.test_perplexity:.2f}"
    text = f"{corpus}, {bare.criterion} at {bare.flops_fraction:.0%}: {numbers}"
    fact = Fact(updated.test_perplexity < bare.test_perplexity, text, (updated.path,))
    return _about_updates(fact, on, updated)


@check_facts.register
def _(check: checks.UpdateBelow, evidence: Evidence) -> list[Fact]:
    corpus = next(table.corpus for table in load_published().tables if table.model == check.model)
    on, facts = evidence.on(corpus), []
    for criterion in sorted({one.criterion for one in on.comparable}):
        if found := on.at(criterion, check.flops_fraction, with_update=True):
            size = found.update_bytes / BYTES_PER_KB
            text = f"{check.model}, {found.name}: {size:.1f} kB {BY_ARITHMETIC}, claimed below {check.kilobytes:g}"
            facts.append(Fact(size < check.kilobytes, text, (found.path,)))
    return facts or [Fact(None, f"{check.model} at {check.flops_fraction:.0%}: {NOT_MEASURED}")]


@check_facts.register
def _(check: checks.RecallFallsLess, evidence: Evidence) -> list[Fact]:
    on = evidence.on(check.corpus)
    mine, full = on.at(check.criterion, check.flops_fraction), on.full
    what = f"{check.corpus}, {check.criterion} at {check.flops_fraction:.0%}"
    if mine is None or full is None:
        return [Fact(None, f"{what}: {NOT_MEASURED}")]
    rise = mine.test_perplexity / full.test_perplexity - 1
    fall = 1 - mine.recall_at_3 / full.recall_at_3
    recall = f"R@3 {-fall:+.1%} of its value ({full.recall_at_3:.1%} → {mine.recall_at_3:.1%})"
    return [Fact(fall < rise, f"{what}: {recall}, perplexity {rise:+.1%}; {TESTED}", (full.path, mine.path))]


@check_facts.register
def _(check: checks.OrdersDiffer, evidence: Evidence) -> list[Fact]:
    on = evidence.on(check.corpus)
    if not on.comparable:
        return [_absent(check.corpus)]
    first, second = (on.at(one.criterion, one.flops_fraction) for one in (check.lower_perplexity, check.higher_recall))
    papers = (
        _order(check.corpus, on, first, second) if first and second else Fact(None, f"the paper's pair {NOT_MEASURED}")
    )
    return [papers, _clearest_order(check.corpus, on)]


def _clearest_order(corpus: str, on: CorpusEvidence) -> Fact:
    """The pair that differs most on validation text, judged on test text: the best of many there would hold by luck."""
    own = (one for one in on.comparable if one.valid_recall_at_3 is not None and not one.has_borrowed_widths)
    known = [one for one in own if _is_shown(on, one, one)]
    if not known:
        return Fact(None, f"{corpus}, a pair chosen on validation text: {NOT_MEASURED}")
    gaps = {(one, other): _gaps_on_valid(one, other) for one, other in permutations(known, 2)}
    pairs = [pair for pair, (perplexity, recall) in gaps.items() if _differ(on, *pair, perplexity, recall)]
    clearest = max(pairs, key=lambda pair: gaps[pair][1], default=None)
    if clearest is None:
        return Fact(False, f"{corpus}: no pair among {len(known)} points on validation text", (known[0].path,))
    return _order(f"{corpus}, chosen on validation text", on, *clearest)


def _gaps_on_valid(first: Measurement, second: Measurement) -> tuple[float, float]:
    """By how much the second has the higher perplexity and the higher recall."""
    assert first.valid_perplexity is not None and second.valid_perplexity is not None
    assert first.valid_recall_at_3 is not None and second.valid_recall_at_3 is not None
    return second.valid_perplexity - first.valid_perplexity, second.valid_recall_at_3 - first.valid_recall_at_3


def _differ(
    on: CorpusEvidence, first: Measurement, second: Measurement, perplexity: float, recall: float
) -> bool | None:
    """Whether the lower perplexity goes with the lower recall, given how much higher both are at the second point;
    None if one of the differences is within the range over seeds.
    """
    gaps = list(zip((perplexity, recall), _spreads(on, first, second), strict=True))
    if any(gap < -spread for gap, spread in gaps):
        return False
    return True if all(gap > spread for gap, spread in gaps) else None


def _spreads(on: CorpusEvidence, *points: Measurement) -> tuple[float, float]:
    """The ranges of perplexity and of recall over seeds, at the shares of some points."""
    shares = [one.flops_fraction for one in points]
    return max(map(on.spread_at, shares)), max(map(on.recall_spread_at, shares))


def _order(corpus: str, on: CorpusEvidence, first: Measurement, second: Measurement) -> Fact:
    perplexity, recall = second.test_perplexity - first.test_perplexity, second.recall_at_3 - first.recall_at_3
    texts = [
        f"{_called(one)} at {one.flops_fraction:.0%} has {one.test_perplexity:.2f}, R@3 {one.recall_at_3:.2%}"
        for one in (first, second)
    ]
    text, paths = f"{corpus}: {'; '.join(texts)}", (first.path, second.path)
    holds = _differ(on, first, second, perplexity, recall)
    if holds is not None:
        return Fact(holds, text, paths)
    by_chance, recall_by_chance = _spreads(on, first, second)
    seeds = f"seeds differ by {by_chance:.2f} and {recall_by_chance:.2%}"
    return Fact(None, text, paths, reasons=(f"{NO_DIFFERENCE}: {seeds}",))


def _called(one: Measurement) -> str:
    """The criterion, but the name of a stored point, unless the criterion has only such points."""
    return one.criterion if one.allocation == "uniform" or one.criterion in POINT_BY_POINT else one.name


@check_facts.register
def _(check: checks.Linear, evidence: Evidence) -> list[Fact]:
    facts = []
    name = {"latency_ms": "latency", "energy_mj": "energy"}[check.metric]
    for bench in (one for one in evidence.collection.benches if not one.is_beside):
        found = bench.fit.latency_r_squared if check.metric == "latency_ms" else bench.fit.energy_r_squared
        where = f"{bench.subject.model} on {bench.provenance.machine.processor}"
        if found is None:
            facts.append(Fact(None, f"{name} of {where}: {TOO_FEW_TO_FIT}", (bench.path,)))
        else:
            fact = _linear(check, found, bench, f"{name} of {where}")
            facts.append(fact.without_verdict(*_lazy_reasons(bench, evidence)))
    return facts or [Fact(None, f"{name}: {NOT_MEASURED}")]


def _linear(check: checks.Linear, found: float, bench: ModelBench, what: str) -> Fact:
    points = len(rows_to_fit(bench.rows))
    low, high = r_squared_interval(found, points)
    numbers = f"r² = {found:.3f} ({low:.2f} to {high:.2f}) with executed FLOPs over {points} points"
    holds = linearity_of(found, points, check.r_squared)
    reasons = ("too few points to tell",) if holds is None else ()
    return Fact(holds, f"{what}: {numbers}, claimed {check.r_squared}", (bench.path,), reasons=reasons)


def linearity_of(found: float, points: int, claimed: float) -> bool | None:
    """Whether r² is as large as claimed; False if even its interval is not, None in between. All are compared as
    printed, with the digits that the paper gives.
    """
    digits = len(f"{claimed}".partition(".")[2])
    _, high = r_squared_interval(found, points)
    if round(found, digits) >= claimed:
        return True
    return None if round(high, digits) >= claimed else False


def _is_lazy(row: BenchRow) -> bool:
    """Whether queries left a part of the output layer closed."""
    return row.executed_flops.mean < row.flops


def _lazy_reasons(bench: ModelBench, evidence: Evidence) -> tuple[str, ...]:
    """Why times of a lazy output layer say nothing about the paper's; more so if the model is not certain of much."""
    if not any(_is_lazy(row) for row in bench.rows):
        return ()
    return (LAZY,) if evidence.on(bench.subject.corpus).beats_ngrams else (LAZY, BEATEN)


@check_facts.register
def _(check: checks.LatencyAbove, evidence: Evidence) -> list[Fact]:
    cost = evidence.on(check.corpus).cost(check.flops_fraction)
    if cost is None:
        return [Fact(None, f"{check.corpus}, latency: {NOT_MEASURED}")]
    latency = cost.row.latency_ms
    text = f"{check.corpus}: {latency:.3g} ms/query, claimed above {check.latency_ms:g}"
    return [Fact(None, text, (cost.path,), reasons=("on another machine", *((LAZY,) if _is_lazy(cost.row) else ())))]


@check_facts.register
def _(check: checks.FullModelBetter, evidence: Evidence) -> list[Fact]:
    """Compared with models that we measured ourselves, because published figures come from other training."""
    on, rows = evidence.on(check.corpus), load_published().table(check.corpus).rows
    return [_against_baseline(check.corpus, on, row) for row in rows if row.row in check.than_rows]


def _against_baseline(corpus: str, on: CorpusEvidence, row: PublishedRow) -> Fact:
    full, theirs = on.full, on.baseline(row)
    if full is None or theirs is None:
        return Fact(None, f"{corpus}, {row.method} (published {row.test_perplexity:g}): ours {NOT_MEASURED}")
    numbers = f"{full.test_perplexity:.2f} / {theirs.test_perplexity:.2f}"
    holds = full.test_perplexity < theirs.test_perplexity
    return Fact(holds, f"{corpus}, QRNN against {row.method}: {numbers}", (full.path, theirs.path))


@check_facts.register
def _(check: checks.WithinCutOff, evidence: Evidence) -> list[Fact]:
    return [
        _within(check.test_perplexity, corpus, evidence.on(corpus), row)
        for corpus in check.corpora
        for row in load_published().table(corpus).pruned()
    ]


def _within(limit: float, corpus: checks.Corpus, on: CorpusEvidence, row: PublishedRow) -> Fact:
    assert row.criterion is not None and row.flops_fraction is not None  # a pruned row has both
    what = f"{corpus}, {row.criterion} at {row.flops_fraction:.0%}"
    mine, full = on.at(row.criterion, row.flops_fraction), on.full
    if mine is None or full is None:
        return Fact(None, f"{what}: {NOT_MEASURED}") if on.comparable else _absent(corpus)
    above = mine.test_perplexity / full.test_perplexity - 1
    text = f"{what}: {mine.test_perplexity:.2f}, {above:+.0%} from our full model, published {row.test_perplexity:g}"
    fact = Fact(mine.test_perplexity <= limit, text, (mine.path,))
    return fact.without_verdict(*_other_base(f"a limit of {limit:g}", corpus, full))


@check_facts.register
def _(check: checks.DroppedStayDropped, evidence: Evidence) -> list[Fact]:
    on = evidence.on(check.corpus)
    what = f"{check.corpus}, {check.criterion}"
    if on.kept is None:
        return [Fact(None, f"{what}: {NOT_MEASURED} (no model file given)")]
    facts = []
    for high, low in pairwise(check.flops_fractions):
        first, second = on.kept.dropped(check.criterion, high), on.kept.dropped(check.criterion, low)
        where = f"{what} from {high:.0%} to {low:.0%}"
        if not first or not second:
            facts.append(Fact(None, f"{where}: no points in the model"))
        else:
            share = len(first & second) / len(first)
            text = f"{where}: {share:.0%} of the dropped stay dropped (wanted {check.share:.0%})"
            facts.append(Fact(share >= check.share, text, (on.kept.path,)))
    return facts


@check_facts.register
def _(check: checks.DroppedDiffer, evidence: Evidence) -> list[Fact]:
    on = evidence.on(check.corpus)
    if on.kept is None:
        return [Fact(None, f"{check.corpus}: {NOT_MEASURED} (no model file given)")]
    facts = []
    for share in check.flops_fractions:
        dropped = {name: found for name in check.criteria if (found := on.kept.dropped(name, share))}
        common = [
            (len(first & second) / min(len(first), len(second)), f"{one} and {other}")
            for (one, first), (other, second) in combinations(dropped.items(), 2)
        ]
        if not common:
            facts.append(Fact(None, f"{check.corpus} at {share:.0%}: no two criteria in the model"))
            continue
        most, names = max(common)
        lacking = set(check.criteria) - set(dropped)
        text = f"{check.corpus} at {share:.0%}: at most {most:.0%} of the dropped in common ({names})"
        facts.append(Fact(most < check.share, text, (on.kept.path,)))
        facts += [Fact(None, f"{check.corpus} at {share:.0%}, {name}: no point in the model") for name in lacking]
    return facts
