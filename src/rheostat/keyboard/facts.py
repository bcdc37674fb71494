"""Facts about the model for the page: its size, the range of its knob, and its curve if one was measured.

Knows model files and results files of sweeps. The caller provides the energy of a query, and says whether it was
measured or estimated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import rheostat
from rheostat.governor.policy import Policy
from rheostat.keyboard import browser_runtime
from rheostat.keyboard.positions import Positions
from rheostat.measure.results import read_sweep
from rheostat.measure.results.sweep import TEST, TEXT
from rheostat.model.file import ModelFile
from rheostat.model.operating_point import FULL
from rheostat.tables import to_json

Json = dict[str, Any]
SPLITS = (TEST, TEXT, "valid")  # in order of preference; a single file is measured as "text"


@dataclass(frozen=True)
class Energy:
    """The energy of a query. query_mj: from its FLOPs and the bytes it reads. note: where the figure comes from."""

    kind: Literal["estimate", "measured"]
    note: str
    query_mj: Callable[[int, int], float]


def model_facts(positions: Positions, policy: Policy, energy: Energy | None, curve: list[Json] | None) -> Json:
    """The answer of `GET /api/model`."""
    file = positions.file
    shape, description = file.shape, file.description
    return {
        "name": file.path.stem,
        "rheostat": rheostat.__version__,
        "tokenizer": file.tokenizer,
        "vocabulary_size": shape.vocabulary_size,
        "shape": {"cell": shape.cell, **shape.as_json()},
        "parameters": shape.parameters,
        "flops": shape.flops,
        "file_bytes": file.file_bytes,
        "precision": positions.precision,
        "knob": {"smallest": positions.smallest / 100, "largest": 1.0, "step": 0.01},
        "points": [
            {"name": point.name, "criterion": point.criterion, "flops_fraction": point.flops_fraction}
            for point in description.points
        ],
        "curve": curve,
        "energy": {"kind": energy.kind, "note": energy.note} if energy else None,
        "policy": asdict(policy),
        "browser_runtime": browser_runtime.installed_version(),
    }


def curve_of(file: ModelFile, results: Path | None = None) -> list[Json] | None:
    """Perplexity by share of the FLOPs, from a sweep's results or from the model file; None if neither has it."""
    rows: Any = _sweep_rows(results, file) if results else file.description.provenance.get("curve")
    points = _points_of(rows) if isinstance(rows, list) else []
    return points if len(points) > 1 else None


def _sweep_rows(path: Path, file: ModelFile) -> list[Json]:
    """What a sweep measured of the points that the knob serves, on the first of SPLITS that it has."""
    labels = {FULL, file.description.default_ranking, *(point.name for point in file.description.points)}
    ours = [row for row in read_sweep(path).rows if row.label in labels and row.allocation != "bare"]
    split = next((split for split in SPLITS if any(row.split == split for row in ours)), None)
    return [to_json(row) for row in ours if row.split == split]


def _points_of(rows: Iterable[Any]) -> list[Json]:
    """The best perplexity at each percentage, from small shares to large; invalid rows are left out."""
    best: dict[float, float] = {}
    for row in rows:
        if not isinstance(row, Mapping):
            continue
        share, perplexity = _positive(row.get("flops_fraction", row.get("knob"))), _positive(row.get("perplexity"))
        if share and perplexity:
            share = round(share, 2)
            best[share] = min(perplexity, best.get(share, math.inf))
    return [{"flops_fraction": share, "perplexity": best[share]} for share in sorted(best)]


def _positive(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value < math.inf else None
