"""The curve of a training run as a results file: every log line, the model's figures, and its making.

python benchmarks/training_curve.py runs/ptb-fast --data DIR -o results/ptb-fast.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rheostat.model.file import open_model
from rheostat.model.operating_point import full_point
from rheostat.provenance import provenance
from rheostat.text.corpus import CorpusConfig, load_split
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


def test_quality(folder: RunFolder, data: str) -> dict[str, Any]:
    keep_freed_memory()
    with open_model(folder.model) as file:
        text = load_split(data, "test", CorpusConfig(tokenizer=file.tokenizer), file.vocabulary)
        return PointEvaluator(file).quality(full_point(file.shape), text.ids).as_json()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", type=Path, help="the folder of a run")
    parser.add_argument("--data", help="measure the model on the test text of this corpus too")
    parser.add_argument("-o", "--out", type=Path, required=True)
    arguments = parser.parse_args()
    folder = RunFolder(arguments.run)
    with open_model(folder.model) as file:
        making = file.description.provenance["run"]
        model = {"recipe": file.description.recipe, "run": making, "valid": making["valid"]}
    if arguments.data:
        model["test"] = test_quality(folder, arguments.data)
    finished = folder.load()["progress"]
    progress = {key: finished[key] for key in ("epoch", "step", "tokens", "seconds", "finished")}
    contents = {"kind": "training", "provenance": provenance(), "model": model, "progress": progress, **curve(folder)}
    arguments.out.write_text(json.dumps(contents, indent=1) + "\n")
    print(json.dumps({**progress, "valid": model["valid"], "test": model.get("test")}))


if __name__ == "__main__":
    main()
