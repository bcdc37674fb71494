"""Memory used by a program that runs a model, measured in a separate process that does nothing else.

    python -m rheostat.measure.resident_memory '{"path": …, "knob": …, "texts": […], …}'

prints the resident bytes before the model was opened and after the queries.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rheostat.model.precision import Precision
from rheostat.runtime.engine import EngineName

PATIENCE_S = 300


@dataclass(frozen=True)
class ResidentMemory:
    """resident_bytes: of the whole process, including libraries. model_bytes: what the model added."""

    resident_bytes: int
    model_bytes: int


def resident_memory(
    path: Path,
    knob: float | None,
    point: str | None,
    precision: Precision,
    threads: int,
    texts: list[str],
    engine: EngineName | None = None,
) -> ResidentMemory | None:
    """Memory of a process after suggestions for these texts at one operating point; None if it could not run."""
    task = {
        "path": str(path),
        "knob": knob,
        "point": point,
        "precision": precision,
        "threads": threads,
        "texts": texts,
        "engine": engine,
    }
    command = [sys.executable, "-m", "rheostat.measure.resident_memory", json.dumps(task)]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        before, after = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return ResidentMemory(after, after - before)


def measure_resident_bytes(task: dict[str, Any]) -> tuple[int, int]:
    import psutil

    from rheostat.runtime.predictor import Predictor

    process = psutil.Process()
    before = process.memory_info().rss
    knob = 1.0 if task["knob"] is None else task["knob"]
    options = {name: task[name] for name in ("point", "precision", "threads", "engine")}
    predictor = Predictor(task["path"], knob, **options)
    for text in task["texts"]:
        predictor.suggest(text)
    gc.collect()
    return before, process.memory_info().rss


if __name__ == "__main__":
    print(json.dumps(measure_resident_bytes(json.loads(sys.argv[1]))))
