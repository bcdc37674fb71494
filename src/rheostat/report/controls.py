"""What makes the difference: controls that separate the effect of a method from the effects that come with it.

A control is a list of measurements that differ in one thing. They are recognised by the names that reproduce.toml gives
their points and files. What is not measured yet says so, and a difference counts only if it is larger than the spread
between seeds. Knows names and verdicts; numbers come from `evidence`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rheostat.report.claims import NO_DIFFERENCE
from rheostat.report.document import Block, Paragraph, Section, Table, files, rows
from rheostat.report.evidence import CorpusEvidence, Evidence, Measurement

NOT_YET = "not measured yet"
CORPUS = "ptb"


@dataclass(frozen=True)
class Case:
    """One side of a control. names: a pattern for the names of its points or, with a slash, of its files' stems."""

    what: str
    names: str
    without_update: bool = False  # also a point that has an update, measured without it
    cut_by_ranking: bool = False  # only points that a ranking cuts, with the same share of every layer


@dataclass(frozen=True)
class Control:
    title: str
    question: str
    cases: tuple[Case, ...]
    judged: bool = True  # whether the best case is compared with the others


CRITERIA = ("random", "filter-norm", "mean-activation", "taylor")


def _uniform(share: float) -> Control:
    return Control(
        f"Uniform widths, {share:.0%}",
        "Every layer keeps the same share of its filters. Which criterion is best?",
        tuple(Case(name, rf"{CORPUS}/{name}-{share:g}", cut_by_ranking=True) for name in CRITERIA),
    )


def _at_widths(title: str, widths: str, own: str, share: float) -> Control:
    cases = [Case(name, rf"{name}(-\d+)?-at-{re.escape(widths)}") for name in CRITERIA]
    return Control(
        f"{title}, {share:.0%}",
        "All criteria have the same widths. Which one is best?",
        (*cases, Case(own, re.escape(widths), without_update=True)),
    )


CONTROLS = (
    *(_uniform(share) for share in (0.8, 0.6)),
    *(_at_widths("Widths of L0", f"l0-{share:g}", "l0, with its gates", share) for share in (0.8, 0.6)),
    *(
        _at_widths("Searched widths", f"taylor-searched-{share:g}", "taylor, as searched", share)
        for share in (0.8, 0.6)
    ),
    Control(
        "Equal budget",
        "Does a graded model gain from grading, or only from more training?",
        (
            Case("the whole model, trained for as many more steps", "ptb-continued/full"),
            Case("the same, with the teacher", "ptb-continued-taught/(full|graded-1)"),
            Case("one width of 60 %, all weights fine-tuned with the teacher", "ptb-one-width/.*0.6"),
            Case("graded, at 60 %", "ptb-graded/graded.*0.6"),
            Case("graded from a reconstructed start, at 60 %", "ptb-graded-reconstructed/graded.*0.6"),
        ),
        judged=False,
    ),
    Control(
        "Reconstruction with other methods, 60%",
        "Does reconstruction improve points that have gates or an update?",
        (
            Case("l0, with its gates", "l0-0.6", without_update=True),
            Case("l0, with its gates, reconstructed", "l0-0.6-reconstructed", without_update=True),
            Case("l0, with an update", "l0-0.6-updated"),
            Case("l0, reconstructed, with an update", "l0-0.6-reconstructed-updated"),
            Case("taylor by error, reconstructed, with an update", "taylor-by-error-0.6-updated"),
        ),
    ),
    Control(
        "Updates at equal steps",
        "How much more does a matrix recover than gates or biases alone, without a teacher?",
        (
            Case("nothing", "random-1-0.8", without_update=True),
            Case("biases only", "random-1-0.8-bias-untaught"),
            Case("gates only", "random-1-0.8-gate-untaught"),
            *(Case(f"rank {rank}", f"random-1-0.8-rank-{rank}-untaught") for rank in (1, 4, 16)),
        ),
    ),
    Control(
        "Updates at equal steps, with the teacher",
        "How much more does a matrix recover than gates or biases alone?",
        (
            Case("nothing", "random-1-0.8", without_update=True),
            Case("biases only", "random-1-0.8-bias"),
            Case("gates only", "random-1-0.8-gate"),
            Case("rank 1", "random-1-0.8"),
            Case("rank 4", "random-1-0.8-rank-4"),
            Case("rank 16", "random-1-0.8-rank-16"),
        ),
    ),
    Control(
        "The paper's own schedule",
        "Is an update trained on the paper's schedule better than one trained for minutes?",
        (
            Case("10 epochs of NT-ASGD", "random-1-0.8-paper"),
            Case("250 steps with the teacher", "random-1-0.8"),
        ),
        judged=False,
    ),
    Control(
        "Seeds",
        "How much do results vary from seed to seed?",
        (
            Case("l0 at 80 %, three seeds", r"ptb-l0-seed-\d/l0-0.8"),
            Case("update of random at 80 %, three seeds", r"random-1-0.8-seed-\d"),
            Case("graded at 60 %, three seeds", r"ptb-graded-seed-\d/graded.*0.6"),
        ),
        judged=False,
    ),
    Control(
        "A dense model of 60 %",
        "What perplexity does a dense model of that size reach?",
        (
            Case("trained from scratch for 6 epochs, too few for a fair comparison", "ptb-dense-60/.*"),
            Case("trained from scratch for as many epochs as the reference", "ptb-dense-60-long/.*"),
            Case("graded, at 60 %", "ptb-graded/graded.*0.6"),
        ),
        judged=False,
    ),
)


def controls_section(evidence: Evidence) -> Iterator[Section]:
    """Every control, with what has been measured of it."""
    on = evidence.on(CORPUS)
    if on.full is None:
        return
    spread = seed_spread(on)
    known = f"{spread:.2f}" if spread is not None else NOT_YET
    text = (
        "Each table varies one thing. It shows test perplexity, and how far that is above the whole model of the same "
        "sweep. A verdict needs a difference larger than the spread between seeds (the largest range "
        f"of three: {known}), or than the range of the random rankings in the same table; otherwise it says "
        f"“{NO_DIFFERENCE}”. Every control has its step in `reproduce.toml`; not run: {_not_run(on)}."
    )
    blocks: list[Block] = [Paragraph(text)]
    for control in CONTROLS:
        found = [(case, matching(on, case)) for case in control.cases]
        judged_by = _spread_within(found, spread)
        blocks += [Paragraph(f"**{control.title}.** {control.question} {verdict(control, found, judged_by)}")]
        cells = [[case.what, *_cells(points, on)] for case, points in found]
        blocks.append(Table(("what", "test perplexity", "above its whole model", "from"), "lrrl", rows(cells)))
    yield Section("What makes the difference", tuple(blocks))


def matching(on: CorpusEvidence, case: Case) -> list[Measurement]:
    """The measurements that a case names."""
    pattern = re.compile(case.names)
    by_file = "/" in case.names
    named = [one for one in on.measurements if pattern.fullmatch(_name(one) if by_file else one.name)]
    if case.cut_by_ranking:
        return [one for one in named if one.allocation == "uniform"]
    fitting = [one for one in named if (not one.updated if case.without_update else one.allocation != "bare")]
    return list({(one.name, round(one.test_perplexity, 2)): one for one in fitting}.values())  # one point, two files


def _name(one: Measurement) -> str:
    place = "full" if not one.criterion else f"{one.criterion}-{one.flops_fraction:.2g}"
    return f"{one.path.stem}/{place}"


def seed_spread(on: CorpusEvidence) -> float | None:
    """The largest range of test perplexity among seeds; None if no seeds were measured."""
    seeds = next(control for control in CONTROLS if control.title == "Seeds")
    ranges = [_range(points) for case in seeds.cases if len(points := matching(on, case)) > 1]
    return max(ranges, default=None)


def _spread_within(found: Sequence[tuple[Case, Sequence[Measurement]]], spread: float | None) -> float | None:
    """The largest range known: between seeds of training, or between rankings of different seeds in this table."""
    ranges = [one.spread for _, points in found for one in points if one.spread]
    return max([*ranges, *([] if spread is None else [spread])], default=None)


def _not_run(on: CorpusEvidence) -> str:
    """The cases without a measurement, by control."""
    missing = []
    for control in CONTROLS:
        cases = [case.what for case in control.cases if not matching(on, case)]
        if cases:
            everything = len(cases) == len(control.cases)
            missing.append(control.title if everything else f"{control.title} ({', '.join(cases)})")
    return "; ".join(missing) or "nothing"


def _range(points: Sequence[Measurement]) -> float:
    values = [one.test_perplexity for one in points]
    return max(values) - min(values)


def verdict(control: Control, found: Sequence[tuple[Case, Sequence[Measurement]]], spread: float | None) -> str:
    """Which case is best, if that can be said."""
    means = sorted((_mean(points), case.what) for case, points in found if points)
    missing = len(found) - len(means)
    if not means:
        return f"{NOT_YET.capitalize()}."
    if not control.judged or len(means) < 2:
        return f"{missing} of {len(found)} {NOT_YET}." if missing else ""
    (best, name), (second, other) = means[:2]
    still = f" {missing} of {len(found)} {NOT_YET}." if missing else ""
    if spread is None:
        return f"No verdict: the spread between seeds is {NOT_YET}.{still}"
    if second - best <= spread:
        return f"{NO_DIFFERENCE.capitalize()} between {name} and {other} ({second - best:.2f}).{still}"
    return f"Best: {name}, by {second - best:.2f}.{still}"


def _mean(points: Sequence[Measurement]) -> float:
    return sum(one.test_perplexity for one in points) / len(points)


def _cells(points: Sequence[Measurement], on: CorpusEvidence) -> tuple[str, str, str]:
    if not points:
        return NOT_YET, "", ""
    bases = {one.path: one.test_perplexity for one in on.measurements if not one.criterion}
    whole = on.full.test_perplexity if on.full else points[0].test_perplexity
    above = sum(one.test_perplexity / bases.get(one.path, whole) for one in points) / len(points) - 1
    several = f" (range {_range(points):.2f} of {len(points)})" if len(points) > 1 else ""
    return f"{_mean(points):.2f}{several}", f"{above:+.1%}", files(one.path for one in points)
