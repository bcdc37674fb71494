"""The first five lines of a report: what was measured, the best points, what they cost, and what is missing.

Knows which points are worth a line; the numbers come from `evidence`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rheostat.errors import counted
from rheostat.measure.results import NOT_RECORDED
from rheostat.report.document import NOT_MEASURED, files
from rheostat.report.evidence import CorpusEvidence, Evidence, Measurement
from rheostat.report.kept_filters import KeptFilters
from rheostat.report.learned import DENSE
from rheostat.report.paper_tables import three_digits

WITHIN = 0.10  # a point is good if its perplexity is this close to that of the whole model of its own weights
ON_TEST = "chosen on test text, for want of validation figures"


@dataclass(frozen=True)
class Candidate:
    """A point with the whole model of its own weights. times: how many times its perplexity, on the text that the point
    is chosen on.
    """

    point: Measurement
    whole: Measurement
    times: float
    on_valid: bool


def summary_lines(evidence: Evidence, kept: KeptFilters | None = None) -> tuple[str, ...]:
    return (
        f"Measured: {_joined(_measured(evidence))}.",
        f"Whole models: {_joined(_whole(on) for on in evidence.corpora)}.",
        f"Best points, the cheapest within {WITHIN:.0%} of the perplexity of their own whole model, chosen on "
        f"validation text where it was measured: {_joined(_best_text(on) for on in evidence.corpora)}.",
        f"What they cost: {_joined(_cost(on) for on in evidence.corpora)}.",
        f"Missing: {_joined(_missing(evidence, kept), 'nothing that this report looks for')}.",
    )


def whole_model(on: CorpusEvidence) -> Measurement | None:
    """The reference model at full size, or the graded model itself."""
    own = (one for one in on.measurements if on.reference and one.path == on.reference.path)
    return on.full or next((one for one in own if one.flops_fraction == 1), None)


def best_point(on: CorpusEvidence) -> Candidate | None:
    """The point of the smallest cost, in FLOPs and bits, that is good enough; another model is no point of this one. Of
    equally cheap ones, those that validation text can choose come first.
    """
    points = [one for one in on.without_controls if one.criterion not in ("", DENSE) and one.cost < 1]
    found = [_candidate(one, whole) for one in points if (whole := on.whole_of(one))]
    good = (one for one in found if one.times <= 1 + WITHIN)
    return min(good, key=lambda one: (round(one.point.cost, 2), not one.on_valid, one.times), default=None)


def _candidate(point: Measurement, whole: Measurement) -> Candidate:
    """A point without figures on validation text, or whose whole model has none, can only be chosen on test text."""
    if point.valid_perplexity is None or whole.valid_perplexity is None:
        return Candidate(point, whole, point.test_perplexity / whole.test_perplexity, False)
    return Candidate(point, whole, point.valid_perplexity / whole.valid_perplexity, True)


def _joined(parts: Iterator[str], nothing: str = NOT_MEASURED) -> str:
    return "; ".join(parts) or nothing


def _measured(evidence: Evidence) -> Iterator[str]:
    collection = evidence.collection
    for on in evidence.corpora:
        yield f"{counted(len(on.measurements), 'point')} on {on.corpus}"
    for number, what in (
        (sum(len(bench.rows) for bench in collection.benches), "timed point"),
        (len(collection.ngrams), "n-gram model"),
        (len(collection.days), "replayed day"),
        (len(collection.trainings), "training run"),
        (len(collection.benchmarks), "program benchmark"),
    ):
        if number:
            yield counted(number, what)


def _whole(on: CorpusEvidence) -> str:
    whole = whole_model(on)
    if whole is None or on.reference is None:
        return f"{on.corpus} {NOT_MEASURED}"
    return (
        f"`{on.reference.subject.model}` has a test perplexity of {whole.test_perplexity:.2f} and R@3 "
        f"{whole.recall_at_3:.1%} on {on.corpus}"
    )


def _best_text(on: CorpusEvidence) -> str:
    best = best_point(on)
    if best is None:
        return f"none on {on.corpus}"
    point, whole = best.point, best.whole.test_perplexity
    return (
        f"`{point.name}`{' with update' if point.updated else ''} at {point.cost:.1%} of the cost on {on.corpus}, test "
        f"perplexity {point.test_perplexity:.2f} ({point.test_perplexity / whole - 1:+.1%} from its own {whole:.2f}; "
        f"{files([point.path])}{'' if best.on_valid else f'; {ON_TEST}'})"
    )


def _cost(on: CorpusEvidence) -> str:
    best = best_point(on)
    cost, whole = on.cost_of(best.point) if best else None, on.cost(1.0)
    if cost is None or whole is None:
        return f"{on.corpus} {NOT_MEASURED}"
    times = f"{three_digits(cost.row.latency_ms)} instead of {three_digits(whole.row.latency_ms)} ms/query"
    energy, full = cost.row.measured_mj, whole.row.measured_mj
    if energy is None or full is None:
        return f"{times}, energy {NOT_MEASURED} on {on.corpus}"
    return f"{times}, energy {three_digits(energy)} mJ instead of {three_digits(full)} on {on.corpus}"


def _missing(evidence: Evidence, kept: KeptFilters | None) -> Iterator[str]:
    if untimed := [on.corpus for on in evidence.corpora if on.bench is None]:
        yield f"time and energy on {', '.join(untimed)}"
    if not any(bench.has_measured_energy for bench in evidence.collection.benches):
        yield "energy, which no meter measured"
    if kept is None:
        yield "which filters are cut (no model file given)"
    silent = [sweep for sweep in evidence.collection.sweeps if sweep.subject.origins.weights == NOT_RECORDED]
    if silent:
        yield f"how the weights of {counted(len(silent), 'swept model')} were made (not recorded)"
