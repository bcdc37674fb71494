"""What several kinds of results have in common: where they come from, quality figures, and how a model was made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Self, TypeAlias

from rheostat.measure.keystrokes import KeystrokeCount
from rheostat.metrics import Quality
from rheostat.model.file import ModelFile
from rheostat.model.origin import Origin
from rheostat.provenance import provenance, public_command
from rheostat.runtime.engine import EngineName
from rheostat.tables import from_json, stored_if_set

NOT_RECORDED: Final = "not recorded"
_ENGINE_TITLES: dict[EngineName | None, str] = {"core": "the core", "onnx": "ONNX Runtime", None: "torch"}
# How weights, a ranking or a point was made, as stored in the model file.
OriginJson: TypeAlias = Mapping[str, Any] | Literal["not recorded"]


def check_flops(flops: int) -> None:
    """Results compare FLOPs by their ratio."""
    if flops <= 0:
        raise ValueError(f"has {flops} FLOPs; expected a number above 0")


@dataclass(frozen=True)
class RecordedMachine:
    processor: str
    cores: int | None
    system: str


@dataclass(frozen=True)
class Provenance:
    """Where a file comes from: the last command, the program's version and commit, the date and the machine."""

    command: str
    rheostat: str
    commit: str | None
    date: str
    python: str
    machine: RecordedMachine

    @classmethod
    def of_this_process(cls) -> Self:
        return from_json(cls, provenance(), "provenance")


@dataclass(frozen=True)
class Origins:
    """How a model's weights, and the measured rankings and points, were made. By name."""

    weights: OriginJson = NOT_RECORDED
    rankings: Mapping[str, OriginJson] = field(default_factory=dict)
    points: Mapping[str, OriginJson] = field(default_factory=dict)

    @classmethod
    def of(cls, file: ModelFile, rankings: Iterable[str] = (), points: Iterable[str] = ()) -> Self:
        """Copy origins from a model file; what it does not record is "not recorded"."""
        description = file.description
        by_ranking = {entry.name: origin_json(entry.origin) for entry in description.rankings}
        by_point = {entry.name: origin_json(entry.origin) for entry in description.points}
        return cls(
            origin_json(description.origin),
            {name: by_ranking[name] for name in dict.fromkeys(rankings)},
            {name: by_point[name] for name in dict.fromkeys(points)},
        )

    def with_those_of(self, other: Origins) -> Origins:
        """These origins, plus those that only `other` has."""
        rankings, points = {**other.rankings, **self.rankings}, {**other.points, **self.points}
        return Origins(self.weights, rankings, points)


def is_measured_model(file: ModelFile, weights: str, flops: int, whole_widths: Iterable[tuple[int, ...]]) -> bool:
    """Whether this model was measured: by its weights or, in results from before they were recorded, by its size.

    whole_widths: of the measured points that were not cut.
    """
    if weights:
        return weights == file.weights_digest()
    return flops == file.shape.flops and set(whole_widths) <= {tuple(file.shape.hidden_sizes)}


def engine_title(engine: EngineName | None) -> str:
    """What ran a model, in words. None: torch, before the runtime existed."""
    return _ENGINE_TITLES[engine]


def origin_json(origin: Origin) -> OriginJson:
    """An origin for a results file, which is published: older model files recorded paths of their machine."""
    return _with_public_paths(origin).as_json() if origin.is_recorded else NOT_RECORDED


def _with_public_paths(origin: Origin) -> Origin:
    return replace(
        origin,
        command=public_command(origin.command) if origin.command else origin.command,
        before=_with_public_paths(origin.before) if origin.before else None,
    )


@dataclass(frozen=True, kw_only=True)
class QualityFigures:
    """How well a text was predicted. tokens: predictions made."""

    perplexity: float
    recall_at_1: float
    recall_at_3: float
    recall_at_5: float
    tokens: int

    def __post_init__(self) -> None:
        if not self.perplexity > 0:
            raise ValueError(f"has perplexity {self.perplexity}; expected a number above 0")

    @classmethod
    def of(cls, quality: Quality) -> QualityFigures:
        return from_json(QualityFigures, quality.as_json(), "quality")


@dataclass(frozen=True)
class KeystrokeFigures:
    """Keystrokes for a text, with and without suggestions."""

    keystrokes_typed: int
    keystrokes_needed: int
    keystrokes_saved_share: float
    words: int
    taken: int
    keystrokes_fewest: int | None = stored_if_set(None)  # if every word were offered before its first letter

    @classmethod
    def of(cls, count: KeystrokeCount) -> Self:
        return from_json(cls, count.as_json(), "keystrokes")

    @property
    def count(self) -> KeystrokeCount:
        fewest = self.keystrokes_fewest or 0
        return KeystrokeCount(self.keystrokes_typed, self.keystrokes_needed, self.words, self.taken, fewest=fewest)


@dataclass(frozen=True, kw_only=True)
class LatencyFigures:
    """Latency of the queries at one point. interval_ms: of the median, by bootstrap over turns."""

    latency_ms: float  # median
    interval_ms: tuple[float, float]
    p95_ms: float
    queries: int
