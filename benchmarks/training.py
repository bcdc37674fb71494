"""A full training step of ptb-qrnn (batch 40 × 70) compared with its matrix products alone, in one run.

It is also compared with the textbook per-step loop and with an AWD-LSTM of the same size, and its peak memory is
measured. The step is the trainer's own, with the regularization and optimizer of the `ptb-fast` recipe. The sides are
interleaved and medians are taken, so load affects them equally.

    python benchmarks/training.py --json -o results/benchmark-training.json
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from measuring import interleaved_seconds, make_parser, report_results
from rheostat.model.shape import ModelShape
from rheostat.recipe import read_recipe
from rheostat.tables import fill
from rheostat.training.configuration import ModelConfig, TrainingRecipe
from rheostat.training.language_model import LanguageModel
from rheostat.training.machine import keep_freed_memory, usable_precision
from rheostat.training.run_folder import RunFolder
from rheostat.training.session import make_fabric
from rheostat.training.task import Task, WeightTask
from rheostat.training.trainer import Trainer

VOCABULARY = 10_000
BATCH, LENGTH = 40, 70
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
TARGETS = {"fp32": 1.3, "bf16": 1.8}
Step = Callable[[], None]
AWD_LSTM = ModelConfig(cell="lstm", layers=3, hidden_size=1150, windows=())


class Silence:
    """A reporter that reports nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


def read_fast_recipe() -> TrainingRecipe:
    recipe = fill(TrainingRecipe, read_recipe("ptb-fast", ["train.random_length=false", "train.epochs=1000"]))
    assert (recipe.train.batch_size, recipe.train.sequence_length) == (BATCH, LENGTH)
    return recipe


def make_ids() -> np.ndarray:
    """Random text."""
    return np.random.default_rng(1).integers(0, VOCABULARY, BATCH * (LENGTH * 400 + 1), dtype=np.int32)


def make_step(task: Task, folder: Path) -> Step:
    """One step of the trainer on random text."""
    run_folder = RunFolder(folder)
    run_folder.create(resume=False)
    trainer = Trainer(task, make_ids(), read_fast_recipe().train, run_folder, make_fabric(), Silence(), {})
    trainer._open_logs()
    return trainer._step


def make_weight_step(model: ModelConfig, precision: str, folder: Path) -> tuple[Step, LanguageModel]:
    """A step that trains all weights, and its model."""
    torch.manual_seed(1)
    network = LanguageModel(model.shape(VOCABULARY))
    regularization = read_fast_recipe().regularization
    task = WeightTask(network, regularization, make_ids()[:100], lambda *_: None, precision)
    return make_step(task, folder), network


def make_products(shape: ModelShape, dtype: torch.dtype) -> Callable[[], None]:
    """The matrix products of one step and nothing else: forward, gradient of the input, gradient of the weights."""
    matrices = [size for name, size in shape.tensor_shapes().items() if name.startswith("layers.") and len(size) == 2]
    matrices.append((shape.vocabulary_size, shape.output_size))
    tokens, operands = BATCH * LENGTH, []
    for rows, columns in matrices:
        inputs, weight = torch.randn(tokens, columns, dtype=dtype), torch.randn(rows, columns, dtype=dtype)
        outputs = torch.empty(tokens, rows, dtype=dtype)
        operands.append((inputs, weight, outputs, torch.empty_like(inputs), torch.empty_like(weight)))

    def run() -> None:
        for inputs, weight, outputs, input_gradient, weight_gradient in operands:
            torch.mm(inputs, weight.t(), out=outputs)
            torch.mm(outputs, weight, out=input_gradient)
            torch.mm(outputs.t(), inputs, out=weight_gradient)

    return run


def textbook(step: Callable[[], None], network: LanguageModel) -> Callable[[], None]:
    """The same step with the textbook loop instead of the pooling kernel."""

    def run() -> None:
        for layer in network.layers:
            layer.scan = "textbook"
        try:
            step()
        finally:
            for layer in network.layers:
                layer.scan = "auto"

    return run


def bf16_refusal() -> str | None:
    """Why bf16 is not measured (products fail, or are emulated and take minutes); None if it is measured."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        usable_precision("bf16", torch.device("cpu"))
    return str(caught[0].message) if caught else None


def measure(repeats: int, folder: Path) -> dict[str, Any]:
    qrnn_step, network = make_weight_step(ModelConfig(), "fp32", folder / "fp32")
    lstm_step, lstm = make_weight_step(AWD_LSTM, "fp32", folder / "lstm")
    shape, products = network.shape, make_products(network.shape, torch.float32)
    loop = textbook(qrnn_step, network)
    functions = {"step": qrnn_step, "products": products, "textbook": loop, "awd_lstm": lstm_step}
    seconds = {"fp32": interleaved_seconds(functions, repeats)}
    refusal = bf16_refusal()
    if not refusal:
        step, _ = make_weight_step(ModelConfig(), "bf16", folder / "bf16")
        functions = {"step": step, "products": make_products(shape, torch.bfloat16)}
        seconds["bf16"] = interleaved_seconds(functions, repeats)
    fp32 = seconds["fp32"]
    flops = 3 * BATCH * LENGTH * shape.flops
    return {
        "step_over_products": {"bf16": None}
        | {name: values["step"] / values["products"] for name, values in seconds.items()},
        "bf16_not_measured": refusal,
        "target": TARGETS,
        "textbook_over_step": fp32["textbook"] / fp32["step"],
        "awd_lstm_over_step": fp32["awd_lstm"] / fp32["step"],
        "parameters": {"ptb-qrnn": shape.parameters, "awd-lstm": lstm.shape.parameters},
        "seconds": seconds,
        "products_gflops_per_second": {name: flops / values["products"] / 1e9 for name, values in seconds.items()},
        "tokens_per_second": {name: BATCH * LENGTH / values["step"] for name, values in seconds.items()},
    }


def peak_memory_mb(folder: Path) -> float:
    """Peak memory of a process that makes three full-size steps and nothing else."""
    step, _ = make_weight_step(ModelConfig(), "fp32", folder / "memory")
    for _ in range(3):
        step()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--memory-only", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.memory_only:
            print(json.dumps(peak_memory_mb(Path(folder))))
            return
        command = [sys.executable, __file__, "--memory-only"]
        memory = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])
        figures = measure(arguments.repeats, Path(folder))
    figures = {**figures, "peak_memory_mb": memory, "threads": torch.get_num_threads()}
    for precision, ratio in figures["step_over_products"].items():
        if ratio is None:
            print(f"{precision}: not measured ({figures['bf16_not_measured']})")
            continue
        print(f"{precision}: a step takes {ratio:.2f} times its products (target {TARGETS[precision]})")
    print(f"textbook loop: {figures['textbook_over_step']:.2f} steps of ours")
    print(
        f"AWD-LSTM, {figures['parameters']['awd-lstm']:,} parameters: {figures['awd_lstm_over_step']:.2f} steps of ours"
    )
    print(f"peak memory of a process that trains: {memory:,.0f} MB")
    report_results("training", figures, arguments)


if __name__ == "__main__":
    main()
