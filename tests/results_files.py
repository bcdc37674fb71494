"""Small results files for the tests, in the form that the program writes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MACHINE = {"processor": "p", "cores": 2, "system": "s"}
SOURCE = {"command": "rheostat", "rheostat": "0", "commit": None, "date": "now", "python": "3", "machine": MACHINE}
FLOPS = 47_990_000  # of the paper's model of Penn Treebank
WIKITEXT_FLOPS = 307_190_400
UPDATE = {"update_rank": 1, "update_bytes": 72_428}
SILENT = {
    "governors": [],
    "frequencies_mhz": None,
    "temperatures_c": {},
    "throttle_events": None,
    "slowed_down": None,
    "load_average": None,
}

JsonObject = dict[str, Any]


def write_results_json(path: Path, kind: str, contents: JsonObject) -> Path:
    """A file of a kind, in the current version."""
    path.write_text(json.dumps({"kind": kind, "version": 1, "provenance": SOURCE, **contents}))
    return path


def row(label: str, criterion: str, knob: float, split: str, perplexity: float, **more: Any) -> JsonObject:
    figures = {"flops_fraction": knob - 0.001, "widths": [1], "perplexity": perplexity, "recall_at_3": 0.4}
    figures |= {"recall_at_1": 0.2, "recall_at_5": 0.5, "tokens": 100}
    names = {"label": label, "criterion": criterion, "seed": None, "knob": knob, "split": split}
    return names | {"allocation": "uniform"} | figures | more


def typed(saved_share: float, needed: int = 100, words: int = 20, fewest: int | None = 20) -> JsonObject:
    """Keystrokes of a row. fewest: the limit; None in files from before it was counted."""
    counts = {"keystrokes_typed": round((1 - saved_share) * needed), "keystrokes_needed": needed}
    counts |= {} if fewest is None else {"keystrokes_fewest": fewest}
    return {"keystrokes": counts | {"keystrokes_saved_share": saved_share, "words": words, "taken": 9}}


def write_sweep(
    path: Path, rows: Sequence[JsonObject], model: str = "m", flops: int = FLOPS, corpus: str = "ptb", **more: Any
) -> Path:
    subject = {"model": model, "corpus": corpus, "flops": flops, **more}
    return write_results_json(path, "sweep", {"subject": subject, "rows": list(rows)})


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


PAPERS_UPDATE: JsonObject = {
    "update": {"what": "update", "rank": 1, "start": "normal", "distill": 0.0},
    "train": {"epochs": 10, "steps": 0, "optimizer": "nt-asgd", "learning_rate": 30.0, "nonmonotone_interval": 3},
}
WIKITEXT_UPDATE: JsonObject = {
    **PAPERS_UPDATE,
    "train": {"epochs": 10, "steps": 2000, "optimizer": "adam", "learning_rate": 5e-3, "nonmonotone_interval": 5},
}
FAST_UPDATE: JsonObject = {
    "update": {"what": "update", "rank": 1, "start": "zero", "distill": 0.5},
    "train": {"epochs": 10, "steps": 250, "optimizer": "adam", "learning_rate": 0.02, "nonmonotone_interval": 5},
}


def update_origins(rows: Sequence[JsonObject], recipe: JsonObject, steps: int = 250) -> JsonObject:
    """For the subject of a sweep: how all updates of its rows were trained."""
    names = [one["label"] for one in rows if one.get("update_rank")]
    return {"origins": {"points": {name: {"recipe": recipe, "steps": steps} for name in names}}}


def bench_row(share: float, latency_ms: float, energy_mj: float | None = None, **more: Any) -> JsonObject:
    energy = {"meter": "m", "covers": "c", "energy_mj": energy_mj, "estimate": False, "resolved": True}
    energy["interval_mj"] = None if energy_mj is None else [energy_mj, energy_mj]
    return {
        "label": f"{share:g}",
        "knob": share,
        "point": "full" if share == 1 else f"random-{share:g}",
        "ranking": None if share == 1 else "random",
        "criterion": "" if share == 1 else "random",
        "flops": round(share * FLOPS),
        "executed_flops": {"mean": share * FLOPS, "worst": round(share * FLOPS)},
        "flops_fraction": share,
        "widths": [int(100 * share)],
        "bytes_read": 10,
        "latency_ms": latency_ms,
        "interval_ms": [latency_ms, latency_ms],
        "p95_ms": latency_ms,
        "queries": 9,
        "resident_bytes": None,
        "model_bytes": None,
        "energy": energy | more.pop("energy", {}),
    } | more


def bench_subject(
    model: str = "m", flops: int = FLOPS, corpus: str = "ptb", trained: bool = True, engine: str = "core"
) -> JsonObject:
    made = {"precision": "int8", "threads": 1, "queries": 9, "warm_up": 1, "cpus": None, "pinned": False}
    named = {"model": model, "corpus": corpus, "flops": flops, "trained": trained}
    return {**named, "meter": "none", "engine": engine, **made}


def bench_part(subject: JsonObject, rows: Sequence[JsonObject], *r_squared: float | None) -> JsonObject:
    """What a bench found about one model."""
    latency, energy = r_squared or (None, None)
    return {"subject": subject, "fit": {"latency_r_squared": latency, "energy_r_squared": energy}, "rows": list(rows)}


def write_bench(
    path: Path,
    rows: Sequence[JsonObject],
    r_squared: tuple[float | None, float | None] = (None, None),
    model: str = "m",
    flops: int = FLOPS,
    corpus: str = "ptb",
    engine: str = "core",
    weights: str = "",
    **more: Any,
) -> Path:
    machine = {"before": SILENT, "after": SILENT, "throttled": None}
    subject = bench_subject(model, flops, corpus, engine=engine) | {"weights": weights}
    part = bench_part(subject, rows, *r_squared)
    return write_results_json(path, "bench", {"interval": "95 %", "machine": machine, **part, **more})


def write_ngram(path: Path, test_perplexity: float, corpus: str = "ptb", **more: Any) -> Path:
    """An n-gram baseline."""
    figures = {"recall_at_1": 0.1, "recall_at_3": 0.2, "recall_at_5": 0.3, "tokens": 100}
    rows = [{"split": split, "perplexity": test_perplexity, **figures} for split in ("valid", "test")]
    subject = {"model": "5-gram", "corpus": corpus, "order": 5, "smoothing": "modified Kneser–Ney"}
    subject |= {"vocabulary_size": 10, "ngrams": [10, 20], "size_bytes": 100, "queries": 9}
    latency = {"latency_ms": 1.0, "interval_ms": [1.0, 1.0], "p95_ms": 1.0, "queries": 9}
    keystrokes = typed(0.4)["keystrokes"]
    if "training_tokens" in more:
        subject["training_tokens"] = more.pop("training_tokens")
    contents = {"subject": subject, "rows": rows, "latency": latency, "keystrokes": keystrokes, **more}
    return write_results_json(path, "ngram", contents)
