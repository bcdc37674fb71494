"""The settings of a training run, as the dataclasses that a recipe fills. They check their values and do no more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from rheostat.model.clusters import query_splits
from rheostat.model.shape import MOST_LAYERS, Cell, ModelShape
from rheostat.text.corpus import CorpusConfig
from rheostat.training.graded import GradedConfig
from rheostat.training.regularization import RegularizationConfig

# Numbers of `[train]` that must be finite and not negative.
NOT_NEGATIVE = (
    "steps",
    "minutes",
    "seed",
    "decay_factor",
    "weight_decay",
    "clip",
    "nonmonotone_interval",
    "average_from",
    "patience",
    "checkpoint_minutes",
)

Optimizer = Literal["nt-asgd", "sgd", "adam", "adamw"]


@dataclass(frozen=True)
class ModelConfig:
    """The `[model]` table: all sizes except the vocabulary's, which depends on the corpus."""

    cell: Cell = "qrnn"
    embedding_size: int = 400  # 0 = as wide as the layers
    layers: int = 4
    hidden_size: int = 1550  # of every layer but the last, which is as wide as the embedding
    windows: tuple[int, ...] = (2,)  # of the first layers; 1 for the rest
    softmax_splits: tuple[int, ...] = ()  # first word id of each tail cluster; empty = a plain softmax
    softmax_tails: int = (
        0  # instead of splits: the number of tail clusters, split where a query is expected to be fastest
    )
    parameters: int = 0  # if given, hidden_size is the largest with at most this many parameters in the model

    def __post_init__(self) -> None:
        if self.layers > MOST_LAYERS:
            raise ValueError(f"layers is {self.layers}; expected at most {MOST_LAYERS}")
        if min(self.layers, self.hidden_size, *self.windows) < 1 or self.embedding_size < 0:
            raise ValueError("layers, hidden_size and windows must be at least 1, embedding_size at least 0")
        if len(self.windows) > self.layers:
            raise ValueError(f"windows names {len(self.windows)} layers; the model has {self.layers}")
        if self.softmax_splits and self.softmax_tails:
            raise ValueError("softmax_splits and softmax_tails are both given; expected one: leave the other out")

    def with_splits(self, counts: Sequence[int]) -> ModelConfig:
        """The same model, with splits chosen for these word counts if the recipe only gives their number."""
        if not self.softmax_tails:
            return self
        if not self.embedding_size:
            raise ValueError("softmax_tails without an embedding_size; expected one: splits depend on it")
        splits = query_splits(counts, self.embedding_size, self.softmax_tails)
        return replace(self, softmax_splits=splits, softmax_tails=0)

    def shape(self, vocabulary_size: int) -> ModelShape:
        """The shape of this model with a vocabulary of this size; ValueError if it is not valid."""
        shape = self._solved(vocabulary_size)
        shape.check()
        return shape

    def _solved(self, vocabulary_size: int) -> ModelShape:
        """The shape with the given hidden size, or with the one that fits the number of parameters."""
        if any(not 0 < split < vocabulary_size for split in self.softmax_splits):
            raise ValueError(
                f"softmax_splits {self.softmax_splits} are not all inside a vocabulary of {vocabulary_size}"
            )
        if not self.parameters:
            return self._shape(vocabulary_size, self.hidden_size)
        low, high = 1, self.parameters  # the largest width that fits, by bisection: parameters grow with it
        if self._shape(vocabulary_size, low).parameters > self.parameters:
            raise ValueError(f"no hidden size is small enough for {self.parameters:,} parameters")
        while low < high:
            middle = (low + high + 1) // 2
            fits = self._shape(vocabulary_size, middle).parameters <= self.parameters
            low, high = (middle, high) if fits else (low, middle - 1)
        return self._shape(vocabulary_size, low)

    def _shape(self, vocabulary_size: int, hidden_size: int) -> ModelShape:
        embedding_size = self.embedding_size or hidden_size
        return ModelShape(
            vocabulary_size=vocabulary_size,
            embedding_size=embedding_size,
            hidden_sizes=(hidden_size,) * (self.layers - 1) + (embedding_size,),
            windows=self.windows + (1,) * (self.layers - len(self.windows)),
            softmax_splits=self.softmax_splits,
            cell=self.cell,
        )


@dataclass(frozen=True)
class TrainConfig:
    """The `[train]` table: how the weights are trained."""

    epochs: int = 10
    steps: int = 0  # if given, the run ends after this many steps, whatever `epochs` says
    minutes: float = 0.0  # if given, the run ends after this time, and the schedule follows the clock
    batch_size: int = 20  # texts read side by side, over all processes
    sequence_length: int = 70  # steps of back-propagation
    random_length: bool = True  # vary it: half with probability 0.05, then Normal(·, 5); rate scaled with it
    optimizer: Optimizer = "adamw"
    learning_rate: float = 3e-3
    schedule: Literal["constant", "one-cycle"] = "constant"
    warmup: float = 0.25  # one-cycle: share of the run during which the rate rises
    decay_epochs: tuple[int, ...] = ()  # the rate is multiplied by decay_factor after each of these epochs
    decay_factor: float = 0.1
    weight_decay: float = 0.0
    clip: float = 0.25  # largest norm of the gradient; 0 = no limit
    nonmonotone_interval: int = 5  # nt-asgd: evaluations without improvement before averaging starts
    average_from: float = 1.0  # share of the run after which weights are averaged, with any optimizer
    patience: int = 0  # stop once validation has stalled for this many evaluations; 0 = never
    precision: Literal["fp32", "bf16", "bf16-always"] = (
        "fp32"  # bf16: only if faster on this machine; bf16-always: even if slower
    )
    graded: float = 0.0  # train every prefix of filters down to this share of the cost; 0 = the full width only
    seed: int = 1
    checkpoint_minutes: float = 5.0

    def __post_init__(self) -> None:
        if min(self.epochs, self.batch_size, self.sequence_length) < 1:
            raise ValueError("epochs, batch_size and sequence_length must be at least 1")
        if self.steps and self.minutes:
            raise ValueError("steps and minutes are both given; expected one: leave the other out")
        if not 0 < self.learning_rate < math.inf:
            raise ValueError(f"learning_rate is {self.learning_rate}; expected a positive number")
        for name in NOT_NEGATIVE:
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} is {value}; expected 0 or more")
        if not 0 <= self.warmup < 1:
            raise ValueError(f"warmup is {self.warmup}; expected a share of the run in [0, 1)")
        if not 0 <= self.graded < 1:
            raise ValueError(f"graded is {self.graded}; expected the smallest share of the cost to train, or 0")


@dataclass(frozen=True)
class TrainingRecipe:
    """All tables of a recipe for `rheostat train`."""

    data: str = ""  # the corpus to use when none is given: a folder, "chat" or "talk"
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    graded: GradedConfig = field(default_factory=GradedConfig)
    regularization: RegularizationConfig = field(default_factory=RegularizationConfig)
