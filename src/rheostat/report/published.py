"""What others have published, to compare our results with: the paper's figures and claims, and other sources.

The figures are in `published.json`, transcribed once and compared with the paper by a test; this module gives
them types. It knows nothing of our own results and does no arithmetic: the report says whether a claim holds.

It also says which table and which row a model and a share of ours are compared with.

Units as everywhere: fractions 0–1, ms and mJ a query (the paper's second table is in s and J).
A figure that a source does not give is None.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from importlib import resources
from typing import Literal

from rheostat.model.shape import ModelShape
from rheostat.tables import from_json

Criterion = Literal["l0", "random", "filter-norm", "mean-activation"]
Corpus = Literal["ptb", "wikitext103", "wikitext2"]
Model = Literal["ptb-qrnn", "wt103-qrnn"]
Verdict = Literal["confirm", "contradict", "silent"]

SAME_SHARE = 0.02  # shares of FLOPs this close count as the same: the paper compares 69 % with 70 %
SAME_SIZE = 0.01  # models within this share of their FLOPs count as one size: output clusters cost a little

# ---------------------------------------------------------------------------------------- tables and figures


@dataclass(frozen=True)
class Paper:
    title: str
    authors: tuple[str, ...]


@dataclass(frozen=True)
class Updated:
    """A row's figures after its single-rank update."""

    test_perplexity: float
    recall_at_3: float


@dataclass(frozen=True)
class PublishedRow:
    """One line of a table. Without a criterion the model is unpruned; the paper's own has all its FLOPs."""

    row: int
    method: str  # as printed there
    criterion: Criterion | None
    valid_perplexity: float
    test_perplexity: float
    recall_at_3: float | None
    flops_fraction: float | None
    latency_ms: float | None
    energy_mj: float | None
    with_update: Updated | None

    @property
    def is_baseline(self) -> bool:
        """Of another kind of model."""
        return self.criterion is None and self.flops_fraction is None

    def is_name_of(self, model: str) -> bool:
        """`awd-lstm.safetensors` is our AWD-LSTM."""
        return "-".join(self.method.lower().split()) in model.lower()


@dataclass(frozen=True)
class PublishedTable:
    number: int
    label: str  # in the LaTeX source
    corpus: Corpus
    model: Model
    rows: tuple[PublishedRow, ...]

    @property
    def full(self) -> PublishedRow:
        """The paper's own model, unpruned."""
        return next(row for row in self.rows if row.flops_fraction == 1)

    def beside(self, criterion: str | None, share: float) -> PublishedRow | None:
        """The row of a criterion (of the paper's own model for none) nearest to a share of FLOPs that is the same."""
        shares = [(row.flops_fraction, row) for row in self.rows if row.criterion == criterion]
        gaps = [(abs(theirs - share), row) for theirs, row in shares if theirs is not None]
        gap, nearest = min(gaps, key=lambda pair: pair[0], default=(SAME_SHARE, None))
        return nearest if gap < SAME_SHARE else None

    def is_baseline(self, model: str) -> bool:
        """Whether a model of ours is named after a baseline."""
        return any(row.is_baseline and row.is_name_of(model) for row in self.rows)

    def pruned(self, criterion: Criterion | None = None) -> tuple[PublishedRow, ...]:
        """The pruned rows, of one criterion or of all."""
        return tuple(row for row in self.rows if row.criterion and criterion in (None, row.criterion))


@dataclass(frozen=True)
class CutOffs:
    """Test perplexities above which the paper leaves results out."""

    figure_test_perplexity: float
    table_test_perplexity: float


@dataclass(frozen=True)
class Headline:
    """The paper's one-sentence result, rounded: its table has slightly less saved for slightly more."""

    corpus: Corpus
    criterion: Criterion
    flops_fraction: float
    energy_saved: float
    perplexity_increase: float


@dataclass(frozen=True)
class Linearity:
    """Pearson's r² of a query's latency and energy with its FLOPs."""

    latency_r_squared: float
    energy_r_squared: float


@dataclass(frozen=True)
class Storage:
    """Kilobytes a model file grows by; of an update, an upper bound."""

    model: Model
    update_kb_below: float
    mean_activation_kb: float
    gates_kb_per_point: float
    filter_norm_kb: float
    random_kb: float


@dataclass(frozen=True)
class WeightPicture:
    """The weight picture: `filters` rows each of z, f and o by `elements` columns, per operating point."""

    model: Model
    layer: int
    filters: int
    elements: int
    flops_fractions: tuple[float, ...]


# ------------------------------------------------------------------------------------------- how it was done


@dataclass(frozen=True)
class CorpusSize:
    """Rounded, as the paper gives it."""

    name: Corpus
    train_tokens: int
    valid_tokens: int
    test_tokens: int
    vocabulary_size: int
    out_of_vocabulary: float


@dataclass(frozen=True)
class ModelSize:
    """As the text has it; in truth the last layer is as wide as the embedding."""

    name: Model
    corpus: Corpus
    hidden_sizes: tuple[int, ...]
    embedding_size: int
    windows: tuple[int, ...]
    adaptive_softmax: bool  # in training only


@dataclass(frozen=True)
class Penalty:
    """The strength λ that led to about this share of FLOPs."""

    model: Model
    flops_fraction: float
    strength: float


@dataclass(frozen=True)
class L0Training:
    gamma: float
    zeta: float
    beta: float
    optimizer: str
    learning_rate: float
    steps: int
    weight_decay: float
    penalties: tuple[Penalty, ...]


@dataclass(frozen=True)
class ActivationPass:
    """How much of the training text, from its start, the mean activations are taken over."""

    model: Model
    training_share: float


@dataclass(frozen=True)
class PublishedUpdateTraining:
    model: Model
    initial_deviation: float
    optimizer: str
    epochs: int | None
    steps: int | None
    learning_rate: float | None
    non_monotone_interval: int | None


@dataclass(frozen=True)
class MeasurementSetup:
    board: str
    meter: str
    meter_hz: float
    queries: int
    idle_subtracted: bool


@dataclass(frozen=True)
class Setup:
    corpora: tuple[CorpusSize, ...]
    models: tuple[ModelSize, ...]
    l0: L0Training
    mean_activation: tuple[ActivationPass, ...]
    update: tuple[PublishedUpdateTraining, ...]
    measurement: MeasurementSetup


# ------------------------------------------------------------------------------------------- claims in words


@dataclass(frozen=True)
class ClaimedPoint:
    criterion: Criterion
    flops_fraction: float


@dataclass(frozen=True)
class Trade:
    """Against the full model, at least this share of energy is saved for at most this rise of perplexity.

    Both may miss by `tolerance`: the paper's own round numbers do.
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
    """At the same share of FLOPs the criterion has a lower test perplexity than each of the others.

    Must hold on every corpus and for every value of `with_update`; up to 1 + tolerance times theirs will do.
    Shares within 0.02 are the same: the paper compares 69 % with 70 %.
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
    """The numbers of an update at this share of FLOPs, as 32-bit floats, take fewer kilobytes."""

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
    """The first point has the lower test perplexity, the second the higher recall."""

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
    """A statement of the paper, in our words. It holds where all its checks do; with none it stays unchecked.

    own_tables: what the paper's own tables say of it, read as the checks read it.
    """

    id: str
    sentence: str
    where: str
    own_tables: Verdict
    checks: tuple[Check, ...]


# ---------------------------------------------------------------------------------- what is not in the paper


@dataclass(frozen=True)
class CurvePoint:
    fraction: float  # of what the curve's axis names
    perplexity: float


@dataclass(frozen=True)
class Curve:
    """axis: `recurrent-flops` leaves the output layer out of the FLOPs, which our knob counts in."""

    name: str
    corpus: Corpus
    axis: Literal["recurrent-flops"]
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True)
class TrainedModel:
    name: str
    corpus: Corpus
    fine_tuned: bool  # by the second run of ASGD
    valid_perplexity: float
    test_perplexity: float


@dataclass(frozen=True)
class OtherSource:
    id: str
    what: str
    source: str
    curves: tuple[Curve, ...]
    models: tuple[TrainedModel, ...]

    def curve(self, name: str) -> Curve:
        return next(curve for curve in self.curves if curve.name == name)


@dataclass(frozen=True)
class Published:
    """The whole data file."""

    paper: Paper
    tables: tuple[PublishedTable, ...]
    cut_offs: CutOffs
    headline: Headline
    linearity: Linearity
    storage: tuple[Storage, ...]
    picture: WeightPicture
    setup: Setup
    claims: tuple[Claim, ...]
    other_sources: tuple[OtherSource, ...]

    def table(self, corpus: Corpus) -> PublishedTable:
        return next(table for table in self.tables if table.corpus == corpus)

    def table_of(self, corpus: str) -> PublishedTable | None:
        """The table of the corpus that a folder's name is one of."""
        return next((table for table in self.tables if is_corpus(corpus, table.corpus)), None)

    def table_beside(self, corpus: str, model: str, flops: int) -> PublishedTable | None:
        """The table whose figures a model of ours may be compared with: of its corpus, and of its shape."""
        table = self.table_of(corpus)
        if table is None or table.is_baseline(model) or not same_size(flops, self.flops(table.model)):
            return None
        return table

    def flops(self, model: Model) -> int:
        """Of a query of the paper's model, unpruned."""
        size = next(one for one in self.setup.models if one.name == model)
        vocabulary_size = next(one.vocabulary_size for one in self.setup.corpora if one.name == size.corpus)
        hidden_sizes = (*size.hidden_sizes[:-1], size.embedding_size)
        return ModelShape(vocabulary_size, size.embedding_size, hidden_sizes, size.windows).flops

    def other(self, source_id: str) -> OtherSource:
        return next(source for source in self.other_sources if source.id == source_id)


def same_size(flops: int, other: int) -> bool:
    return abs(flops / other - 1) < SAME_SIZE


def is_corpus(name: str, corpus: str) -> bool:
    """Whether a folder's name is one of a corpus: `wikitext-103-part` is of `wikitext103`."""
    signs, wanted = ("".join(filter(str.isalnum, text.lower())) for text in (name, corpus))
    return signs.startswith(wanted)


# --------------------------------------------------------------------------------------------------- loading


@functools.cache
def load_published() -> Published:
    """The figures shipped with this package."""
    text = resources.files("rheostat.report").joinpath("published.json").read_text(encoding="utf-8")
    return from_json(Published, json.loads(text), "published.json")
