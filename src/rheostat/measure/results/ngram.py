"""Results of an n-gram baseline: a model without a network, measured like any other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rheostat.measure.results.shared import KeystrokeFigures, LatencyFigures, Provenance, QualityFigures
from rheostat.tables import not_stored, stored_if_set


@dataclass(frozen=True)
class NGramSubject:
    """ngrams: the number of each length. size_bytes: of the tables. training_tokens: the text that was counted, read
    once; None in files from before it was recorded.
    """

    model: str
    corpus: str
    order: int
    smoothing: str
    vocabulary_size: int
    ngrams: tuple[int, ...]
    size_bytes: int
    queries: int
    training_tokens: int | None = stored_if_set(None)

    @property
    def megabytes(self) -> float:
        return self.size_bytes / 1e6


@dataclass(frozen=True, kw_only=True)
class SplitQuality(QualityFigures):
    split: str


@dataclass(frozen=True)
class NGramResults:
    """kenlm_perplexity: of the test text, from an independent program; None if it was not used."""

    kind: ClassVar[str] = "ngram"

    provenance: Provenance
    subject: NGramSubject
    rows: tuple[SplitQuality, ...]
    latency: LatencyFigures
    keystrokes: KeystrokeFigures
    kenlm_perplexity: float | None = None
    path: Path = not_stored(Path())  # noqa: RUF009

    def __post_init__(self) -> None:
        if missing := {"valid", "test"} - {row.split for row in self.rows}:
            raise ValueError(f"has no row for the split {min(missing)}")

    def quality(self, split: str) -> SplitQuality:
        return next(row for row in self.rows if row.split == split)

    @property
    def test_perplexity(self) -> float:
        return self.quality("test").perplexity

    @property
    def valid_perplexity(self) -> float:
        return self.quality("valid").perplexity

    @property
    def test_recall(self) -> float:
        """R@3."""
        return self.quality("test").recall_at_3

    @property
    def name(self) -> str:
        return f"{self.subject.model}, {self.subject.smoothing}"
