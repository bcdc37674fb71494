"""Results of a sweep: quality of one model at many operating points."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

from rheostat.errors import OperatingPointError
from rheostat.measure.results.shared import (
    KeystrokeFigures,
    Origins,
    Provenance,
    QualityFigures,
    check_flops,
    is_measured_model,
)
from rheostat.model.file import ModelFile
from rheostat.model.flops import CostShare
from rheostat.model.operating_point import FULL
from rheostat.runtime.engine import EngineName
from rheostat.tables import not_stored, stored_if_set

Allocation = Literal["uniform", "stored", "bare", "path", "bits"]
Figure = Literal["perplexity", "recall_at_3"]
TEST = "test"
RECONSTRUCTED = "reconstructed"
TEXT = "text"  # the split name of a single file, which is measured whole


@dataclass(frozen=True)
class SweepSubject:
    """What was measured. weights: digest of the model's weights; empty in files from before it was recorded.

    engine: what ran the model; None if torch did, before the runtime existed.

    typed_words: how many words of the test text were typed; None if no typing was simulated. Origins do not count when
    subjects are compared, because a point can be learned again.
    """

    model: str
    corpus: str
    flops: int
    weights: str = ""
    precision: str = "fp32"
    engine: EngineName | None = None
    typed_words: int | None = None
    origins: Origins = field(default_factory=Origins, compare=False)

    def __post_init__(self) -> None:
        check_flops(self.flops)


@dataclass(frozen=True, kw_only=True)
class SweepRow(QualityFigures, CostShare):
    """One measurement. label: the name of the ranking or stored point; "full" for the whole model.

    allocation: "uniform" = cut by the ranking; "stored" = the point of that name; "bare" = the same without its update;
    "path" = a position of the path, in widths and bits; "bits" = the whole model in 4 bits.
    digest: of the point; empty in files from before it was recorded.
    """

    label: str
    criterion: str
    seed: int | None
    knob: float
    split: str
    allocation: Allocation
    digest: str = ""
    flops_fraction: float
    widths: tuple[int, ...]
    bounds: tuple[int, ...] | None = stored_if_set(None)  # filters and words that are read in 8 bits; None: all
    cost_fraction: float | None = stored_if_set(None)  # FLOPs weighted by bits; None: the same as flops_fraction
    update_bytes: int = 0
    update_rank: int = 0
    keystrokes: KeystrokeFigures | None = None
    reconstructed: bool = stored_if_set(False)  # what the point drops is guessed from what it keeps

    @property
    def family(self) -> str:
        """The curve that the row belongs to."""
        return family_of(self.criterion, self.reconstructed)

    @property
    def served_by(self) -> str:
        """What was measured, in words."""
        if self.label == FULL:
            return "whole model"
        if self.allocation in ("path", "bits"):
            return "the path" if self.allocation == "path" else "the whole model in 4 bits"
        if self.allocation == "uniform":
            return f"ranking {self.label}"
        return f"stored point {self.label}" + (" without its update" if self.allocation == "bare" else "")


def family_of(criterion: str, reconstructed: bool) -> str:
    """A criterion with reconstruction has its own curve, separate from the criterion alone."""
    return f"{criterion}, {RECONSTRUCTED}" if reconstructed and criterion else criterion


@dataclass(frozen=True)
class TestFigures(CostShare):
    """Figures of one point on the test text. keystrokes_saved_share: None if nothing was typed."""

    __test__: ClassVar[bool] = False  # tells pytest that this is not a test

    flops_fraction: float
    perplexity: float
    recall_at_3: float
    keystrokes_saved_share: float | None
    cost_fraction: float | None = None  # where bits make it less than flops_fraction


@dataclass(frozen=True)
class SweptPoint:
    """Measurements at one place on the curve; several if the criterion has several rankings (seeds)."""

    criterion: str  # "" for the whole model
    knob: float
    allocation: Allocation
    rows: tuple[SweepRow, ...]

    def values(self, split: str, figure: Figure) -> list[float]:
        """The values of a figure on a split. A single text counts as the test text."""
        wanted = (TEST, TEXT) if split == TEST else (split,)
        return [getattr(row, figure) for row in self.rows if row.split in wanted]

    def mean(self, split: str, figure: Figure) -> float | None:
        """The mean over seeds; None if the split was not measured."""
        values = self.values(split, figure)
        return statistics.fmean(values) if values else None

    def spread(self, split: str, figure: Figure) -> float:
        """The range over seeds; 0 if there is one, or none."""
        values = self.values(split, figure)
        return max(values) - min(values) if values else 0.0

    @property
    def is_tested(self) -> bool:
        return bool(self.values(TEST, "perplexity"))

    def test_perplexity(self) -> float:
        """Mean over seeds."""
        return statistics.fmean(self.values(TEST, "perplexity"))

    def test_recall(self) -> float:
        """R@3, mean over seeds."""
        return statistics.fmean(self.values(TEST, "recall_at_3"))

    @property
    def typed(self) -> list[KeystrokeFigures]:
        """Keystrokes of the rows whose text was typed."""
        return [row.keystrokes for row in self.rows if row.keystrokes]

    @property
    def keystrokes_saved_share(self) -> float | None:
        """Share of keystrokes saved on the test text, mean over seeds; None if it was not typed."""
        return statistics.fmean(one.keystrokes_saved_share for one in self.typed) if self.typed else None

    def keystrokes_saved_per_joule(self, query_mj: float) -> float | None:
        """Keystrokes saved per joule if a query costs `query_mj`; mean over seeds, None if the text was not typed."""
        return statistics.fmean(one.count.saved_per_joule(query_mj) for one in self.typed) if self.typed else None

    @property
    def label(self) -> str:
        return self.rows[0].label

    @property
    def flops_fraction(self) -> float:
        return statistics.fmean(row.flops_fraction for row in self.rows)

    @property
    def cost(self) -> float:
        """The share of the whole model's cost; of the FLOPs, where bits are equal everywhere."""
        return statistics.fmean(row.cost for row in self.rows)

    @property
    def bounds(self) -> tuple[int, ...] | None:
        return self.rows[0].bounds

    @property
    def widths(self) -> tuple[int, ...]:
        return self.rows[0].widths

    @property
    def reconstructed(self) -> bool:
        return self.rows[0].reconstructed

    @property
    def update_rank(self) -> int:
        return self.rows[0].update_rank

    @property
    def update_bytes(self) -> int:
        return self.rows[0].update_bytes


@dataclass(frozen=True)
class SweepResults:
    """Quality of one model at many points. path: where it was read from."""

    kind: ClassVar[str] = "sweep"

    provenance: Provenance
    subject: SweepSubject
    rows: tuple[SweepRow, ...]
    path: Path = not_stored(Path())  # noqa: RUF009

    @cached_property
    def points(self) -> tuple[SweptPoint, ...]:
        """Rows grouped by criterion and knob position; stored points by name."""
        groups: dict[tuple[str, float, Allocation, str], list[SweepRow]] = {}
        for row in self.rows:
            criterion = "" if row.label == FULL else row.family
            label = "" if row.allocation == "uniform" else row.label
            groups.setdefault((criterion, row.knob, row.allocation, label), []).append(row)
        return tuple(SweptPoint(*key[:3], tuple(rows)) for key, rows in groups.items())

    @property
    def typed(self) -> list[KeystrokeFigures]:
        """Keystrokes of all points."""
        return [one for point in self.points for one in point.typed]

    def curve(self, criterion: str) -> list[SweptPoint]:
        """Uniform points of a criterion, whole model first."""
        chosen = [p for p in self.points if p.allocation in ("uniform", "path") and p.criterion in (criterion, "")]
        return sorted(chosen, key=lambda point: -point.knob)

    def widths_of(self, name: str) -> tuple[int, ...]:
        """How many filters of each layer a measured point keeps: a stored one, or of a ranking as in "taylor-0.6"."""
        known = {
            row.label if row.allocation in ("stored", "bare") else f"{row.label}-{row.knob:g}": row for row in self.rows
        }
        if name not in known:
            raise OperatingPointError(
                f"{self.path} has no point {name!r:.90}; expected one of {', '.join(sorted(known)) or 'no points'}"
            )
        return known[name].widths

    def test_figures(self, criterion: str) -> list[TestFigures]:
        """Figures on the test text for each point of a curve, whole model first."""
        return [
            TestFigures(
                point.flops_fraction,
                point.test_perplexity(),
                point.test_recall(),
                point.keystrokes_saved_share,
                None if point.bounds is None else point.cost,
            )
            for point in self.curve(criterion)
            if point.is_tested
        ]

    def is_of(self, file: ModelFile) -> bool:
        """Whether this model was measured."""
        whole = (row.widths for row in self.rows if row.label == FULL)
        return is_measured_model(file, self.subject.weights, self.subject.flops, whole)

    @property
    def precision(self) -> str:
        return self.subject.precision

    @property
    def criteria(self) -> list[str]:
        return sorted({point.criterion for point in self.points} - {""})
