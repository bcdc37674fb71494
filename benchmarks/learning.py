"""Steps of gate, update and graded training compared with a step of full training, in one run.

All use a model of ptb-qrnn's size, the same batch (40 × 70), the trainer's own step and the regularization of the
`ptb-fast` recipe. Frozen weights get no gradient, so gates and updates must cost clearly less than training all
weights. Graded training is measured with both teachers: the full width as it learns, and the model that the run started
from.

    python benchmarks/learning.py --json -o results/benchmark-learning.json
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from measuring import interleaved_seconds, make_parser, report_results
from rheostat.model.contents import add_rankings, new_contents
from rheostat.model.file import open_model
from rheostat.model.operating_point import Ranking
from rheostat.model.widths import select
from rheostat.model.writer import write_model
from rheostat.pruning.l0 import GateConfig, GateTask
from rheostat.pruning.recovery import UpdateConfig, UpdateTask
from rheostat.text.vocabulary import END_OF_LINE, UNKNOWN, Vocabulary
from rheostat.training.configuration import ModelConfig
from rheostat.training.graded import GradedConfig, GradedTask
from rheostat.training.language_model import LanguageModel
from rheostat.training.machine import keep_freed_memory
from rheostat.training.task import WeightTask
from training import VOCABULARY, Step, make_ids, make_step, read_fast_recipe

KNOB = 0.8


def make_steps(folder: Path) -> dict[str, Step]:
    """A step of every kind of training, each with its own model."""
    regularization, valid = read_fast_recipe().regularization, make_ids()[:100]
    torch.manual_seed(1)
    shape = ModelConfig().shape(VOCABULARY)
    words = Vocabulary((UNKNOWN, END_OF_LINE, *(f"w{i}" for i in range(2, VOCABULARY))))
    random = np.random.default_rng(1)
    ranking = Ranking("random", "random", tuple(random.random(m).astype(np.float32) for m in shape.hidden_sizes))
    path = folder / "model.safetensors"
    weights = LanguageModel(shape).state_dict()
    contents = new_contents(shape, words, weights, {"tokenizer": "ptb"})
    write_model(path, add_rankings(contents, [ranking]))
    file = open_model(path)
    point = select(ranking, shape, KNOB)

    def fresh() -> LanguageModel:
        return LanguageModel.from_weights(shape, file.weights())

    def write(*_: object) -> None:
        """Discard the result: a benchmark does not need it."""

    tasks = {
        "weights": WeightTask(fresh(), regularization, valid, write),
        "gates": GateTask(file, GateConfig(knob=KNOB), regularization, 1000, valid),
        "update": UpdateTask(file, point, UpdateConfig(), regularization, valid),
        "update_distilled": UpdateTask(file, point, UpdateConfig(distill=0.5), regularization, valid),
        "graded": GradedTask(fresh(), 0.4, GradedConfig(), regularization, valid, write),
        "graded_start": GradedTask(fresh(), 0.4, GradedConfig(teacher="start"), regularization, valid, write),
    }
    return {name: make_step(task, folder / name) for name, task in tasks.items()}


def measure(repeats: int, folder: Path) -> dict[str, Any]:
    seconds = interleaved_seconds(make_steps(folder), repeats)
    names = [name for name in seconds if name != "weights"]
    return {
        "knob": KNOB,
        "step_seconds": seconds,
        "step_over_full_training": {name: seconds[name] / seconds["weights"] for name in names},
        "threads": torch.get_num_threads(),
    }


def main() -> None:
    arguments = make_parser(__doc__).parse_args()
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(arguments.repeats, Path(folder))
    for name, ratio in figures["step_over_full_training"].items():
        print(f"{name}: {ratio:.2f} of a step of full training")
    report_results("learning", figures, arguments)


if __name__ == "__main__":
    main()
