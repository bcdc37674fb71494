"""Writes the curve of a training run as a results file: every log line, the model's quality, and its recipe.

python benchmarks/training_curve.py runs/ptb-fast --data DIR -o results/ptb-fast.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rheostat.measure.results import Provenance, QualityFigures, TrainingResults, write_results
from rheostat.measure.results.benchmark import TrainingLine, TrainingOutcome, TrainingProgress, ValidationLine
from rheostat.model.file import open_model
from rheostat.model.operating_point import full_point
from rheostat.tables import fill, from_json, to_json
from rheostat.text.corpus import CorpusConfig, load_split
from rheostat.training.evaluation import PointEvaluator
from rheostat.training.machine import keep_freed_memory
from rheostat.training.run_folder import RunFolder


def curve(folder: RunFolder) -> dict[str, list[dict[str, Any]]]:
    """Log lines by event, without the event's name."""
    lines: dict[str, list[dict[str, Any]]] = {}
    for line in folder.log.read_text().splitlines():
        entry = json.loads(line)
        lines.setdefault(entry.pop("event"), []).append(entry)
    return lines


def test_quality(folder: RunFolder, data: str) -> QualityFigures:
    keep_freed_memory()
    with open_model(folder.model) as file:
        config = fill(CorpusConfig, file.description.recipe["corpus"], "corpus")
        text = load_split(data, "test", config, file.vocabulary)
        return QualityFigures.of(PointEvaluator(file).quality(full_point(file.shape), text.ids))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", type=Path, help="the folder of a run")
    parser.add_argument("--data", help="also measure the model on the test text of this corpus")
    parser.add_argument("-o", "--out", type=Path, required=True)
    arguments = parser.parse_args()
    folder = RunFolder(arguments.run)
    with open_model(folder.model) as file:
        recipe, run = file.description.recipe, file.description.provenance["run"]
    tested = test_quality(folder, arguments.data) if arguments.data else None
    model = TrainingOutcome(recipe, run, from_json(QualityFigures, run["valid"], "valid"), tested)
    lines, state = curve(folder), folder.load()["progress"]
    known = ("epoch", "step", "tokens", "seconds", "finished")
    progress = from_json(TrainingProgress, {key: state[key] for key in known}, "progress")
    results = TrainingResults(
        Provenance.of_this_process(),
        model,
        progress,
        tuple(from_json(TrainingLine, line, "train") for line in lines.get("train", ())),
        tuple(from_json(ValidationLine, line, "valid") for line in lines.get("valid", ())),
    )
    write_results(arguments.out, results)
    print(json.dumps({**to_json(progress), "valid": to_json(model.valid), "test": to_json(model.test)}))


if __name__ == "__main__":
    main()
