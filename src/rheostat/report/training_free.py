"""Reconstruction, without training: its results for every criterion and every kind of widths.

Knows which measurements belong to one line: the same criterion, and widths chosen in the same way. Numbers come from
`evidence`; `figures.costs` draws the lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rheostat.errors import counted
from rheostat.measure.results.sweep import RECONSTRUCTED
from rheostat.model.reconstruction import BY_ERROR
from rheostat.report.control_points import AT
from rheostat.report.document import NOT_MEASURED, Paragraph, Section, Table, TableRow, files
from rheostat.report.evidence import CorpusEvidence, Measurement
from rheostat.report.published import SAME_SHARE

UNIFORM, FROM_ERROR, SEARCHED, OF_POINT = "uniform", "by error", "searched", "as "
SEARCHED_NAME, SUFFIX = "-searched-", f"-{RECONSTRUCTED}"


@dataclass(frozen=True)
class TrainingFreeLine:
    """Measurements of one criterion with widths of one kind, by share of the FLOPs; largest first."""

    criterion: str
    widths: str
    points: tuple[Measurement, ...]

    def at(self, share: float) -> Measurement | None:
        near = [one for one in self.points if abs(one.flops_fraction - share) < SAME_SHARE]
        return min(near, key=lambda one: abs(one.flops_fraction - share), default=None)

    @property
    def name(self) -> str:
        return f"{self.criterion}, widths {self.widths}"


def plain_criterion(criterion: str) -> str:
    """What the filters were chosen by, without how their widths were chosen and what was done afterwards."""
    return criterion.removesuffix(f", {RECONSTRUCTED}").removesuffix(BY_ERROR)


def widths_of(one: Measurement) -> str:
    """How the widths of a point were chosen, as far as its names say."""
    if BY_ERROR in one.criterion:
        return FROM_ERROR
    if one.allocation == "uniform":
        return UNIFORM
    owner = one.name.removesuffix(SUFFIX).partition(AT)[2] or one.name
    if SEARCHED_NAME in owner:
        return SEARCHED
    return f"{OF_POINT}{plain_criterion(owner.rpartition('-')[0])}" if one.has_borrowed_widths else "its own"


def reconstructed_lines(on: CorpusEvidence) -> list[TrainingFreeLine]:
    """Reconstructed points of the reference's own weights, without updates."""
    groups: dict[tuple[str, str], list[Measurement]] = {}
    for one in on.comparable:
        if one.reconstructed and not one.updated:
            groups.setdefault((plain_criterion(one.criterion), widths_of(one)), []).append(one)
    ordered = {key: sorted(points, key=lambda one: -one.flops_fraction) for key, points in groups.items()}
    return [TrainingFreeLine(*key, tuple(points)) for key, points in sorted(ordered.items())]


def cut_alone(on: CorpusEvidence, one: Measurement) -> Measurement | None:
    """The same criterion at the same widths, not reconstructed; from the same ranking if that was measured."""
    alike = [
        other
        for other in (*on.comparable, *on.controls)
        if not other.reconstructed
        and not other.updated
        and other.widths == one.widths
        and plain_criterion(other.criterion) == plain_criterion(one.criterion)
    ]
    mine = on.ranking_origin(one)
    same = [other for other in alike if other.path == one.path or (mine and on.ranking_origin(other) == mine)]
    return next(iter(same or alike), None)


def whole_lines(on: CorpusEvidence) -> list[TrainingFreeLine]:
    """The lines that were measured at the most shares, which can be compared with each other."""
    found = [line for line in reconstructed_lines(on) if len(line.points) > 1]
    most = max((len(line.points) for line in found), default=0)
    return [line for line in found if len(line.points) == most]


def best_line(on: CorpusEvidence) -> TrainingFreeLine | None:
    """The line without training that loses least, on average over its shares. It is chosen on test text, so what it
    loses is the least of several: wherever it is shown, that must be said (`chosen_among`).
    """
    return min(whole_lines(on), key=lambda line: sum(one.test_perplexity for one in line.points), default=None)


def chosen_among(on: CorpusEvidence) -> str:
    """What the best line was chosen among, in words."""
    return f"the best of {counted(len(whole_lines(on)), 'line')} over the same shares, chosen on the test text itself"


def training_free_sections(on: CorpusEvidence) -> Iterator[Section]:
    """A table of all lines; nothing if nothing was reconstructed."""
    full, found = on.full, reconstructed_lines(on)
    if full is None or not found:
        return
    shares = sorted({round(one.flops_fraction, 1) for line in found for one in line.points}, reverse=True)
    rows = []
    for line in found:
        cells, used = [line.criterion, line.widths], list(line.points)
        for share in shares:
            one = line.at(share)
            plain = cut_alone(on, one) if one else None
            cells += [_above(plain, full), _shown(one, full)]
            used += [plain] if plain else []
        rows.append(TableRow((*cells, files(one.path for one in used))))
    pairs = [(f"{share:.0%}, cut alone", f"{share:.0%}, {RECONSTRUCTED}") for share in shares]
    header = ("criterion", "widths", *(name for pair in pairs for name in pair), "from")
    text = Paragraph(
        "Nothing is trained: the outputs of dropped filters are approximated by a linear function of the kept ones, "
        "which is folded into the next matrix, so FLOPs stay the same (`rheostat reconstruct`). The table shows test "
        f"perplexity on {on.corpus}, and how far it is above the whole model's {full.test_perplexity:.2f}. Widths: "
        f"{UNIFORM} keeps the same share of every layer; {FROM_ERROR} is computed from the error that dropping each "
        f"filter causes on the calibration text; {SEARCHED} was found layer by layer on validation text, without "
        f"reconstruction; “{OF_POINT.strip()} …” are those of another method's point. Cut alone: the same criterion at "
        "the same widths without reconstruction, by the same ranking if that was measured; else by the criterion's "
        "ranking in another file, or the mean over its seeds. "
        f"{_best_sentence(on, full, shares)}"
    )
    align = "ll" + "rr" * len(shares) + "l"
    yield Section(f"Reconstruction, without training: {on.corpus}", (text, Table(header, align, tuple(rows))))


def _best_sentence(on: CorpusEvidence, full: Measurement, shares: list[float]) -> str:
    best = best_line(on)
    if best is None:
        return ""
    numbers = [f"{_above(found, full)} at {share:.0%}" for share in shares if (found := best.at(share))]
    return f"The line “{best.name}” is {chosen_among(on)}: {', '.join(numbers)}."


def _above(one: Measurement | None, full: Measurement) -> str:
    return NOT_MEASURED if one is None else f"{one.test_perplexity / full.test_perplexity - 1:+.1%}"


def _shown(one: Measurement | None, full: Measurement) -> str:
    return NOT_MEASURED if one is None else f"{one.test_perplexity:.2f} ({_above(one, full)})"
