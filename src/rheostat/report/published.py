"""Published figures to compare our results with: the paper's figures and claims, and other sources.

The figures are in `published.json`, transcribed once and compared with the paper by a test; this module gives them
types. It also finds the table and the row to compare with a model and a share of ours. Knows nothing of our own results

and does no arithmetic: `claims` decides whether a claim holds.

Units as everywhere: fractions 0–1, ms and mJ per query (the paper's second table is in s and J).
A figure that a source does not give is None.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from importlib import resources
from typing import Literal

from rheostat.model.shape import ModelShape
from rheostat.report.published_claims import Claim, Corpus, Criterion, Model
from rheostat.tables import from_json

SAME_SHARE = 0.02  # shares of FLOPs this close count as the same: the paper compares 69 % with 70 %
SAME_SIZE = 0.01  # models whose FLOPs differ by less than this share have the same size: output clusters cost a little

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
    """One row of a table. Without a criterion, the model is unpruned; the paper's own model then has all its FLOPs."""

    row: int
    method: str  # as printed in the table
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
        """Whether the row is about another kind of model."""
        return self.criterion is None and self.flops_fraction is None

    def is_name_of(self, model: str) -> bool:
        """Whether a model file of ours is named after this row: `awd-lstm.safetensors` is our AWD-LSTM."""
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
        """The row of a criterion (None: the paper's unpruned model) nearest to a share of FLOPs, if close enough."""
        shares = [(row.flops_fraction, row) for row in self.rows if row.criterion == criterion]
        gaps = [(abs(theirs - share), row) for theirs, row in shares if theirs is not None]
        gap, nearest = min(gaps, key=lambda pair: pair[0], default=(SAME_SHARE, None))
        return nearest if gap < SAME_SHARE else None

    def is_baseline(self, model: str) -> bool:
        """Whether a model of ours is named after a baseline."""
        return any(row.is_baseline and row.is_name_of(model) for row in self.rows)

    def pruned(self) -> tuple[PublishedRow, ...]:
        """The pruned rows of all criteria."""
        return tuple(row for row in self.rows if row.criterion)


@dataclass(frozen=True)
class CutOffs:
    """Test perplexities above which the paper leaves results out."""

    figure_test_perplexity: float
    table_test_perplexity: float


@dataclass(frozen=True)
class Headline:
    """The paper's one-sentence result, rounded: its table has slightly smaller savings at slightly more perplexity."""

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
    """Kilobytes added to a model file; for an update, an upper bound."""

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
    """As stated in the text; in fact the last layer is as wide as the embedding."""

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
    """The share of the training text, from its start, that mean activations are computed on."""

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


# ---------------------------------------------------------------------------------- what is not in the paper


@dataclass(frozen=True)
class CurvePoint:
    fraction: float  # of the quantity on the curve's axis
    perplexity: float


@dataclass(frozen=True)
class Curve:
    """axis: `recurrent-flops` does not count the output layer, unlike our knob."""

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
        """The table for the corpus that a folder is named after."""
        return next((table for table in self.tables if is_corpus(corpus, table.corpus)), None)

    def table_beside(self, corpus: str, model: str, flops: int) -> PublishedTable | None:
        """The table to compare a model of ours with: for the same corpus and shape."""
        table = self.table_of(corpus)
        if table is None or table.is_baseline(model) or not same_size(flops, self.flops(table.model)):
            return None
        return table

    def flops(self, model: Model) -> int:
        """FLOPs of a query of the paper's unpruned model."""
        size = next(one for one in self.setup.models if one.name == model)
        vocabulary_size = next(one.vocabulary_size for one in self.setup.corpora if one.name == size.corpus)
        hidden_sizes = (*size.hidden_sizes[:-1], size.embedding_size)
        return ModelShape(vocabulary_size, size.embedding_size, hidden_sizes, size.windows).flops

    def other(self, source_id: str) -> OtherSource:
        return next(source for source in self.other_sources if source.id == source_id)


def same_size(flops: int, other: int) -> bool:
    return abs(flops / other - 1) < SAME_SIZE


def is_corpus(name: str, corpus: str) -> bool:
    """Whether a folder is named after a corpus: `wikitext-103-part` is named after `wikitext103`."""
    signs, wanted = ("".join(filter(str.isalnum, text.lower())) for text in (name, corpus))
    return signs.startswith(wanted)


# --------------------------------------------------------------------------------------------------- loading


@functools.cache
def load_published() -> Published:
    """The figures that come with this package."""
    text = resources.files("rheostat.report").joinpath("published.json").read_text(encoding="utf-8")
    return from_json(Published, json.loads(text), "published.json")
