"""What makes the difference: controls that separate the effect of a method from the effects that come with it.

A control is a list of measurements that differ in one thing. They are recognised by the names that reproduce.toml gives
their points and files. What is not measured yet says so. There is a verdict only if all cases were measured, and a
difference counts only if it is larger than the range over seeds. Knows names and verdicts; numbers come from
`evidence`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rheostat.report.claims import NO_DIFFERENCE
from rheostat.report.control_points import is_of_another_seed
from rheostat.report.document import Block, Paragraph, Section, Table, files, rows
from rheostat.report.evidence import CorpusEvidence, Evidence, Measurement
from rheostat.report.learned import DENSE

NOT_YET = "not measured yet"
CORPUS = "ptb"


@dataclass(frozen=True)
class Case:
    """One side of a control. names: a pattern for the names of its points or, with a slash, of its files' stems.

    first: of a case with several seeds, the pattern for the point of the first one, which is no control itself.
    """

    what: str
    names: str
    first: str = ""
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


def _at_widths(title: str, widths: str, own: str, share: float, unlike: str = "") -> Control:
    """unlike: how the point that the widths come from differs from the others in more than its criterion."""
    cases = [Case(name, rf"{name}(-\d+)?-at-{re.escape(widths)}") for name in CRITERIA]
    return Control(
        f"{title}, {share:.0%}",
        f"All criteria have the same widths. {unlike}Which one is best?",
        (*cases, Case(own, re.escape(widths), without_update=True)),
    )


def _searched(share: float, unlike: str = "") -> Control:
    return _at_widths(
        "Searched widths", f"taylor-searched-{share:g}", "taylor, by the ranking of the search", share, unlike
    )


def _combined(share: float, *updated: Case) -> Control:
    """updated: cases with an update on top, as far as they have steps of their own."""
    searched = f"taylor-at-taylor-searched-{share:g}"
    return Control(
        f"Reconstruction with other methods, {share:.0%}",
        "Does reconstruction improve points that have gates, searched widths or an update?",
        (
            Case("l0, with its gates", f"l0-{share:g}", without_update=True),
            Case("l0, with its gates, reconstructed", f"l0-{share:g}-reconstructed", without_update=True),
            Case("taylor at searched widths", searched),
            Case("taylor at searched widths, reconstructed", f"{searched}-reconstructed"),
            Case("taylor by error, reconstructed", f"ptb-reconstruction/taylor-by-error, reconstructed-{share:g}"),
            Case("taylor by error, reconstructed, with an update", f"taylor-by-error-{share:g}-updated"),
            *updated,
        ),
    )


SEARCHED_BY = "The widths were searched with another ranking of taylor, from 25 % of the training text instead of 2 %. "
SHARES = (0.8, 0.6, 0.5, 0.4)
CONTROLS = (
    *(_uniform(share) for share in SHARES),
    *(_at_widths("Widths of L0", f"l0-{share:g}", "l0, with its gates", share) for share in SHARES),
    *(_searched(share, SEARCHED_BY if share > 0.5 else "") for share in SHARES),
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
    _combined(0.8, Case("l0, with an update", "l0-0.8-updated")),
    _combined(
        0.6,
        Case("l0, with an update", "l0-0.6-updated"),
        Case("l0, reconstructed, with an update", "l0-0.6-reconstructed-updated"),
    ),
    _combined(0.5),
    _combined(0.4),
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
            Case("l0 at 80 %", r"ptb-l0-seed-\d/l0-0.8", first="l0-0.8"),
            Case("update of random at 80 %", r"random-1-0.8-seed-\d", first="random-1-0.8"),
            Case("graded at 60 %", r"ptb-graded-seed-\d/graded.*0.6", first="ptb-graded/graded.*0.6"),
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
    whole = on.full.test_perplexity
    text = (
        "Each table varies one thing. It shows test perplexity, and how far that is above the reference, the whole "
        f"model that pruning started from ({whole:.2f}), also where a case has other weights. There is a verdict only "
        "if all of a table was measured. It needs a difference larger than the largest range over seeds that was "
        "measured at the same share of FLOPs: seeds of rankings, gates or updates. Otherwise it says "
        f"“{NO_DIFFERENCE}”. Every control has its step in `reproduce.toml`; not run: {_not_run(on)}."
    )
    blocks: list[Block] = [Paragraph(text)]
    for control in CONTROLS:
        found = [(case, matching(on, case)) for case in control.cases]
        blocks += [Paragraph(f"**{control.title}.** {control.question} {verdict(control, found, spread(on, found))}")]
        cells = [[case.what, *_cells(points, whole)] for case, points in found]
        header = ("what", "test perplexity", f"above the reference ({whole:.2f})", "from")
        blocks.append(Table(header, "lrrl", rows(cells)))
    yield Section("What makes the difference", tuple(blocks))


def matching(on: CorpusEvidence, case: Case) -> list[Measurement]:
    """The measurements that a case names; of several seeds, none if there is only the first."""
    found = _named(on, case.names, case)
    return [*_named(on, case.first, case), *found] if case.first and found else found


def _named(on: CorpusEvidence, names: str, case: Case) -> list[Measurement]:
    pattern, by_file = re.compile(names), "/" in names
    if by_file:
        named = [one for one in on.measurements if pattern.fullmatch(_name(one))]
    else:  # a point of that name in the file of another seed is another point
        named = [one for one in on.measurements if pattern.fullmatch(one.name)]
        named = [one for one in named if not is_of_another_seed(one.path.stem, "")]
    if case.cut_by_ranking:
        return [one for one in named if one.allocation == "uniform"]
    fitting = [one for one in named if (not one.updated if case.without_update else one.allocation != "bare")]
    return list({_identity(one): one for one in fitting}.values())


def _identity(one: Measurement) -> tuple[object, ...]:
    """Equal for one point in two files, but not for two seeds that happen to have the same perplexity."""
    seed = one.path.stem if is_of_another_seed(one.path.stem, "") else ""
    return one.name, seed, round(one.test_perplexity, 2)


def _name(one: Measurement) -> str:
    place = "full" if one.criterion in ("", DENSE) else f"{one.criterion}-{one.flops_fraction:.2g}"
    return f"{one.path.stem}/{place}"


def spread(on: CorpusEvidence, found: Sequence[tuple[Case, Sequence[Measurement]]]) -> float:
    """The largest range over seeds at the shares of some cases, and within the cases themselves; 0 if none is known."""
    shares = {one.flops_fraction for _, points in found for one in points}
    ranges = [_range(points) for _, points in found if points]
    return max([*ranges, *(on.spread_at(share) for share in shares)], default=0.0)


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


def verdict(control: Control, found: Sequence[tuple[Case, Sequence[Measurement]]], by_chance: float) -> str:
    """Which case is best, if that can be said. by_chance: the range over seeds; 0 if it is not known."""
    means = sorted((_mean(points), case.what) for case, points in found if points)
    missing = len(found) - len(means)
    if not means:
        return f"{NOT_YET.capitalize()}."
    if missing:
        return f"{'No verdict: ' if control.judged else ''}{missing} of {len(found)} {NOT_YET}."
    if not control.judged:
        return ""
    if not by_chance:
        return f"No verdict: the range over seeds at this share is {NOT_YET}."
    (best, name), (second, other) = means[:2]
    numbers = f"{second - best:.2f}; seeds differ by {by_chance:.2f}"
    if second - best <= by_chance:
        return f"{NO_DIFFERENCE.capitalize()} between {name} and {other} ({numbers})."
    return f"Best: {name} ({numbers})."


def _mean(points: Sequence[Measurement]) -> float:
    return sum(one.test_perplexity for one in points) / len(points)


def _cells(points: Sequence[Measurement], whole: float) -> tuple[str, str, str]:
    if not points:
        return NOT_YET, "", ""
    seeds = max(len(points), *(one.seeds for one in points))
    several = f" (range {max(_range(points), *(one.spread for one in points)):.2f} of {seeds})" if seeds > 1 else ""
    mean = _mean(points)
    return f"{mean:.2f}{several}", f"{mean / whole - 1:+.1%}", files(one.path for one in points)
