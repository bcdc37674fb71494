"""The paper's claims as data: the kinds of checks that a claim consists of.

Knows what a check says; `claims` judges it by our results, `published` loads all claims from `published.json`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Criterion = Literal["l0", "random", "filter-norm", "mean-activation"]
Corpus = Literal["ptb", "wikitext103", "wikitext2"]
Model = Literal["ptb-qrnn", "wt103-qrnn"]
OwnTables = Literal["confirm", "contradict", "silent"]


@dataclass(frozen=True)
class ClaimedPoint:
    criterion: Criterion
    flops_fraction: float


@dataclass(frozen=True)
class Trade:
    """Compared with the full model, at least this share of energy is saved for at most this rise in perplexity.

    Both can be off by `tolerance`, as the paper's own rounded numbers are.
    """

    kind: Literal["trade"]
    corpus: Corpus
    criterion: Criterion
    flops_fraction: float
    with_update: bool
    energy_saved: float
    perplexity_increase: float
    tolerance: float


@dataclass(frozen=True)
class Better:
    """At the same share of FLOPs, the criterion has a lower test perplexity than each of the others.

    Must hold on every corpus and for every value of `with_update`; up to 1 + tolerance times the others' is accepted.
    Shares within 0.02 count as the same: the paper compares 69 % with 70 %.
    """

    kind: Literal["better"]
    criterion: Criterion
    than: tuple[Criterion, ...]
    corpora: tuple[Corpus, ...]
    with_update: tuple[bool, ...]
    tolerance: float


@dataclass(frozen=True)
class RegainsMore:
    """On every corpus, an update lowers the criterion's test perplexity by more points than the others'."""

    kind: Literal["regains-more"]
    criterion: Criterion
    than: tuple[Criterion, ...]
    corpora: tuple[Corpus, ...]


@dataclass(frozen=True)
class UpdateHelps:
    """At every point of these criteria and corpora, test perplexity is lower with the update than without."""

    kind: Literal["update-helps"]
    criteria: tuple[Criterion, ...]
    corpora: tuple[Corpus, ...]


@dataclass(frozen=True)
class UpdateBelow:
    """An update at this share of FLOPs takes fewer kilobytes than this, as 32-bit floats."""

    kind: Literal["update-below"]
    model: Model
    flops_fraction: float
    kilobytes: float


@dataclass(frozen=True)
class RecallFallsLess:
    """From the full model to this point, recall falls by a smaller share than perplexity rises by."""

    kind: Literal["recall-falls-less"]
    corpus: Corpus
    criterion: Criterion
    flops_fraction: float


@dataclass(frozen=True)
class OrdersDiffer:
    """The first point has the lower test perplexity, but the second has the higher recall."""

    kind: Literal["orders-differ"]
    corpus: Corpus
    lower_perplexity: ClaimedPoint
    higher_recall: ClaimedPoint


@dataclass(frozen=True)
class Linear:
    """Over all points measured on one machine, r² of the metric with FLOPs is at least this."""

    kind: Literal["linear"]
    metric: Literal["latency_ms", "energy_mj"]
    r_squared: float


@dataclass(frozen=True)
class LatencyAbove:
    kind: Literal["latency-above"]
    corpus: Corpus
    flops_fraction: float
    latency_ms: float


@dataclass(frozen=True)
class FullModelBetter:
    """The unpruned model has a lower test perplexity than these rows of the corpus's table."""

    kind: Literal["full-model-better"]
    corpus: Corpus
    than_rows: tuple[int, ...]


@dataclass(frozen=True)
class WithinCutOff:
    """Every pruned row of the corpora's tables, before its update, has at most this test perplexity."""

    kind: Literal["within-cut-off"]
    corpora: tuple[Corpus, ...]
    test_perplexity: float


@dataclass(frozen=True)
class DroppedStayDropped:
    """Of the filters dropped at one share of FLOPs, at least `share` are dropped at the next smaller one too.

    The paper says "largely"; the number is ours.
    """

    kind: Literal["dropped-stay-dropped"]
    corpus: Corpus
    criterion: Criterion
    flops_fractions: tuple[float, ...]
    share: float


@dataclass(frozen=True)
class DroppedDiffer:
    """At each share of FLOPs, any two criteria have less than `share` of their dropped filters in common.

    The paper says "differently"; the number is ours.
    """

    kind: Literal["dropped-differ"]
    corpus: Corpus
    criteria: tuple[Criterion, ...]
    flops_fractions: tuple[float, ...]
    share: float


Check = (
    Trade
    | Better
    | RegainsMore
    | UpdateHelps
    | UpdateBelow
    | RecallFallsLess
    | OrdersDiffer
    | Linear
    | LatencyAbove
    | FullModelBetter
    | WithinCutOff
    | DroppedStayDropped
    | DroppedDiffer
)


@dataclass(frozen=True)
class Claim:
    """A statement from the paper, in our words. It holds if all its checks do; without checks it is not judged.

    own_tables: the verdict of the paper's own tables, judged by the same checks.
    """

    id: str
    sentence: str
    where: str
    own_tables: OwnTables
    checks: tuple[Check, ...]
