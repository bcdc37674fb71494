"""The curve of a training run as a results file: every log line, the model's figures on valid and test, and its making.

python benchmarks/training_curve.py runs/ptb-fast --data DIR -o results/ptb-fast.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rheostat.corpus import CorpusConfig, load_split
from rheostat.model_file import open_model
from rheostat.operating_point import full_point
from rheostat.provenance import provenance
from rheostat.training.evaluation import PointEvaluator
from rheostat.training.machine import keep_freed_memory
from rheostat.training.run_folder import RunFolder


def curve(folder: RunFolder) -> dict[str, list[dict[str, Any]]]:
    """Log lines by event, with the event's name taken out."""
    lines: dict[str, list[dict[str, Any]]] = {}
    for line in folder.log.read_text().splitlines():
        entry = json.loads(line)
        lines.setdefault(entry.pop("event"), []).append(entry)
    return lines


def qualities(folder: RunFolder, data: str) -> dict[str, Any]:
    keep_freed_memory()
    with open_model(folder.model) as file:
        evaluator, point = PointEvaluator(file), full_point(file.shape)
        config = CorpusConfig(tokenizer=file.tokenizer)
        return {
            split: evaluator.quality(point, load_split(data, split, config, file.vocabulary).ids).as_json()
            for split in ("valid", "test")
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", type=Path, help="the folder of a run")
    parser.add_argument("--data", required=True)
    parser.add_argument("-o", "--out", type=Path, required=True)
    arguments = parser.parse_args()
    folder = RunFolder(arguments.run)
    with open_model(folder.model) as file:
        origin = {"recipe": file.description.recipe, "run": file.description.provenance["run"]}
    finished = folder.load()["progress"]
    progress = {key: finished[key] for key in ("epoch", "step", "tokens", "seconds", "finished")}
    figures = {"model": {**origin, **qualities(folder, arguments.data)}, "progress": progress, **curve(folder)}
    contents = {"kind": "training", "provenance": provenance(), **figures}
    arguments.out.write_text(json.dumps(contents, indent=1) + "\n")
    print(json.dumps({**progress, **{split: figures["model"][split] for split in ("valid", "test")}}))


if __name__ == "__main__":
    main()
