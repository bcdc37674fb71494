"""Results files for the tests: small ones, in the form that the program writes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ORIGIN = {"command": "rheostat", "commit": None, "date": "now", "machine": {"processor": "p", "cores": 2}}
FLOPS = 47_990_000  # of the paper's model of Penn Treebank
WIKITEXT_FLOPS = 307_190_400
UPDATE = {"update_rank": 1, "update_bytes": 72_428}

JsonObject = dict[str, Any]


def row(label: str, criterion: str, knob: float, split: str, perplexity: float, **more: Any) -> JsonObject:
    figures = {"flops_fraction": knob - 0.001, "widths": [1], "perplexity": perplexity, "recall_at_3": 0.4}
    return (
        {"label": label, "criterion": criterion, "knob": knob, "split": split, "allocation": "uniform"} | figures | more
    )


def write_sweep(
    path: Path, rows: Sequence[JsonObject], model: str = "m", flops: int = FLOPS, corpus: str = "ptb", **more: Any
) -> Path:
    subject = {"model": model, "corpus": corpus, "flops": flops, **more}
    contents = {"kind": "sweep", "subject": subject, "provenance": ORIGIN, "rows": list(rows)}
    path.write_text(json.dumps(contents))
    return path


def full(perplexity: float = 70.0, **more: Any) -> JsonObject:
    return row("full", "", 1.0, "test", perplexity, flops_fraction=1.0, **more)


def ranked(criterion: str, knob: float, perplexity: float, **more: Any) -> JsonObject:
    return row(criterion, criterion, knob, "test", perplexity, **more)


def recovered(criterion: str, knob: float, before: float, after: float, **more: Any) -> list[JsonObject]:
    """A point without its update and with it."""
    name = f"{criterion}-{knob}-updated"
    return [
        row(name, criterion, knob, "test", before, allocation="bare", **more),
        row(name, criterion, knob, "test", after, allocation="stored", **(UPDATE | more)),
    ]


def bench_row(share: float, latency_ms: float, energy_mj: float | None = None, **more: Any) -> JsonObject:
    energy = {"estimate": False, "resolved": True, "interval_mj": energy_mj and [energy_mj, energy_mj]}
    return {
        "label": f"{share:g}",
        "criterion": "",
        "flops": round(share * FLOPS),
        "flops_fraction": share,
        "widths": [int(100 * share)],
        "bytes_read": 10,
        "latency_ms": latency_ms,
        "interval_ms": [latency_ms, latency_ms],
        "p95_ms": latency_ms,
        "energy_mj": energy_mj,
        "energy": energy | more.pop("energy", {}),
    } | more


def write_bench(
    path: Path,
    rows: Sequence[JsonObject],
    r_squared: tuple[float | None, float | None] = (None, None),
    model: str = "m",
    flops: int = FLOPS,
    corpus: str = "ptb",
    **more: Any,
) -> Path:
    subject = {"model": model, "corpus": corpus, "flops": flops, "precision": "int8", "threads": 1, "queries": 9}
    fit = {"latency_r_squared": r_squared[0], "energy_r_squared": r_squared[1]}
    subject["meter"] = "none"
    contents = {"kind": "bench", "subject": subject, "provenance": ORIGIN, "fit": fit, "rows": list(rows), **more}
    path.write_text(json.dumps(contents))
    return path
