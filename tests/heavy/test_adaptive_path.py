"""Every way to make operating points, on a model with an adaptive softmax: the commands, then both engines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from commands import rheostat  # noqa: E402
from rheostat.model.cut import cut  # noqa: E402
from rheostat.model.file import ModelFile, open_model  # noqa: E402
from rheostat.model.knob import choose  # noqa: E402
from rheostat.model.operating_point import OperatingPoint  # noqa: E402
from rheostat.runtime.evaluation import RuntimeEvaluator  # noqa: E402
from rheostat.training.evaluation import measure_quality  # noqa: E402
from rheostat.training.language_model import LanguageModel  # noqa: E402

SPLITS = ("--set", "model.softmax_splits=[5, 9]")
SHORT = ("--recipe", "fast", "--set", "train.steps=30", "--set", "train.batch_size=4")


def both_engines(file: ModelFile, point: OperatingPoint, ids: np.ndarray) -> tuple[float, float]:
    """Perplexity of the cut model, by torch and by the runtime."""
    weights, shape = cut(file.stored_weights(), file.shape, point)
    arrays = {name: np.asarray(array, np.float32) for name, array in weights.items()}
    model = LanguageModel.from_weights(shape, arrays)
    return measure_quality(model, ids).perplexity, RuntimeEvaluator(file).quality(point, ids).perplexity


def test_criteria_gates_updates_and_graded_training_under_an_adaptive_softmax(
    recipe_file: Path, corpus_folder: Path, tmp_path: Path
) -> None:
    data, model = ("--data", corpus_folder), tmp_path / "model.safetensors"
    rheostat("train", recipe_file, *data, "-o", tmp_path / "run", *SPLITS)
    rheostat("prune", tmp_path / "run" / "model.safetensors", "--criterion", "random", "-o", model)
    rheostat("prune", model, "--criterion", "filter-norm", "-o", model)
    rheostat("prune", model, "--criterion", "mean-activation", "--share", "0.1", *data, "-o", model)
    rheostat("prune", model, "--criterion", "taylor", *data, "-o", model)
    rheostat("prune", model, "--criterion", "l0", "--knob", "0.7", *data, *SHORT, "-o", model)
    rheostat("recover", model, "--ranking", "mean-activation", "--knob", "0.7", *data, *SHORT, "-o", model)
    rheostat("recover", model, "--point", "l0-0.7", "--name", "l0-0.7-updated", *data, *SHORT, "-o", model)
    rheostat("train", recipe_file, "--from", model, *data, "-o", tmp_path / "graded", "--set", "train.graded=0.5")
    ids = np.random.default_rng(3).integers(0, 12, 300)
    with open_model(model) as file, open_model(tmp_path / "graded" / "model.safetensors") as graded:
        assert file.shape.softmax_splits == graded.shape.softmax_splits == (5, 9)
        rankings = [entry.name for entry in file.description.rankings]
        assert {"random", "filter-norm", "mean-activation", "taylor"} <= set(rankings)
        stored = [entry.name for entry in file.description.points]
        assert stored == ["l0-0.7", "mean-activation-0.7", "l0-0.7-updated"]
        points = [(file, choose(file, 0.7, ranking=name)) for name in rankings]
        points += [(file, file.point(name)) for name in stored]
        points += [(graded, choose(graded, knob)) for knob in (1.0, 0.8, 0.5)]
        for origin, point in points:
            by_torch, by_runtime = both_engines(origin, point, ids)
            assert by_runtime == pytest.approx(by_torch, rel=1e-4), point.name
