"""Results of the benchmarks in `benchmarks/` and of training runs.

Each benchmark names its own figures; only the envelope is typed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from rheostat.measure.results.shared import Provenance, QualityFigures
from rheostat.tables import not_stored


@dataclass(frozen=True)
class BenchmarkResults:
    """name: of the benchmark. figures: numbers, texts and lists by name, nested freely."""

    kind: ClassVar[str] = "benchmark"

    provenance: Provenance
    name: str
    figures: Mapping[str, Any]
    path: Path = not_stored(Path())  # noqa: RUF009

    @property
    def numbers(self) -> dict[str, float]:
        """Every number by its path, such as `sizes.0.tokens`."""
        return _numbers(self.figures)


def _numbers(value: Any, place: str = "") -> dict[str, float]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {place: value}
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    found: dict[str, float] = {}
    for key, item in items:
        found |= _numbers(item, f"{place}.{key}" if place else str(key))
    return found


@dataclass(frozen=True)
class TrainingOutcome:
    """recipe, run: as in the model file. test: None if the test text was not measured."""

    recipe: Mapping[str, Any]
    run: Mapping[str, Any]
    valid: QualityFigures
    test: QualityFigures | None = None


@dataclass(frozen=True)
class TrainingProgress:
    epoch: int
    step: int
    tokens: int
    seconds: float
    finished: bool


@dataclass(frozen=True)
class TrainingLine:
    """A line of the training log."""

    step: int
    epoch: int
    seconds: float
    loss: float
    rate: float
    tokens_per_second: float


@dataclass(frozen=True, kw_only=True)
class ValidationLine(QualityFigures):
    """A line of the training log about the validation text."""

    step: int
    epoch: int
    seconds: float
    loss: float
    averaged_steps: int


@dataclass(frozen=True)
class TrainingResults:
    """The curve of a training run."""

    kind: ClassVar[str] = "training"

    provenance: Provenance
    model: TrainingOutcome
    progress: TrainingProgress
    train: tuple[TrainingLine, ...]
    valid: tuple[ValidationLine, ...]
    path: Path = not_stored(Path())  # noqa: RUF009
