"""Results of an n-gram baseline: a model without a network, measured like any other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rheostat.measure.results.shared import KeystrokeFigures, LatencyFigures, Provenance, QualityFigures
from rheostat.model.file import ModelFile
from rheostat.tables import not_stored, stored_if_set


@dataclass(frozen=True)
class NGramSubject:
    """ngrams: the number of each length. size_bytes: of the tables. training_tokens: the text that was counted, read
    once. corpus_digest: of the bytes of that text. None and empty in files from before they were recorded.
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
    corpus_digest: str = stored_if_set("")

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

    def counted_text_of(self, file: ModelFile) -> bool:
        """Whether the text that was counted is the one that a model was trained on: by its digest or, in results from
        before it was recorded, by its tokens.
        """
        if self.subject.corpus_digest:
            return self.subject.corpus_digest == file.origin.corpus_digest
        try:
            tokens = file.description.provenance["corpus"]["splits"]["train"]["tokens"]
        except (KeyError, TypeError):  # not recorded
            return False
        return tokens is not None and tokens == self.subject.training_tokens
