"""The speed of evaluation relative to the machine's fp32 matrix products, and the cost of opening a model file.

python benchmarks/evaluation.py --model FILE --json -o results/benchmark-evaluation.json
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import psutil
import safetensors
import torch

from measuring import interleaved_seconds, make_parser, report_results
from rheostat.model.file import open_model
from rheostat.model.operating_point import full_point
from rheostat.training.evaluation import STRETCH, PointEvaluator, measure_quality
from rheostat.training.machine import keep_freed_memory


def measure_opening(path: Path, repeats: int = 300) -> dict[str, float]:
    """open_model against safe_open and its keys, and the resident memory that opening adds."""

    def ours() -> None:
        with open_model(path):
            pass

    def theirs() -> None:
        with safetensors.safe_open(path, "numpy") as file:
            list(file.keys())

    ours()
    process = psutil.Process()
    before = process.memory_info().rss
    with open_model(path):
        opened = process.memory_info().rss
    seconds = interleaved_seconds({"open_model": ours, "safe_open": theirs}, repeats, quiet=True)
    return {
        "open_over_safe_open": seconds["open_model"] / seconds["safe_open"],
        "open_model_ms": 1e3 * seconds["open_model"],
        "safe_open_ms": 1e3 * seconds["safe_open"],
        "resident_bytes_added_by_opening": opened - before,
        "file_bytes": path.stat().st_size,
    }


def measure_evaluation(path: Path, repeats: int) -> dict[str, float]:
    """Evaluation on a text, against the same FLOPs as plain products of the model's largest layer."""
    keep_freed_memory()
    with open_model(path) as file:
        shape, model = file.shape, PointEvaluator(file).model(full_point(file.shape))
    tokens = 4 * STRETCH
    ids = np.random.default_rng(1).integers(0, shape.vocabulary_size, tokens + 1)
    rows, columns = max(shape.matrix_shape(layer) for layer in range(len(shape.hidden_sizes)))
    inputs, weight = torch.randn(STRETCH, columns), torch.randn(rows, columns)
    outputs = torch.empty(STRETCH, rows)
    products = round(tokens * shape.flops / (2 * STRETCH * rows * columns))

    def multiply() -> None:
        for _ in range(products):
            torch.mm(inputs, weight.t(), out=outputs)

    def run() -> None:
        measure_quality(model, ids)

    seconds = interleaved_seconds({"evaluation": run, "products": multiply}, repeats)
    rate = tokens * shape.flops / seconds["evaluation"]
    product_rate = products * 2 * STRETCH * rows * columns / seconds["products"]
    return {
        "evaluation_over_product_rate": rate / product_rate,
        "evaluation_gflops_per_second": rate / 1e9,
        "product_gflops_per_second": product_rate / 1e9,
        "tokens_per_second": tokens / seconds["evaluation"],
    }


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--model", type=Path, required=True)
    arguments = parser.parse_args()
    figures = {
        **measure_opening(arguments.model),
        **measure_evaluation(arguments.model, arguments.repeats),
        "threads": torch.get_num_threads(),
    }
    print(f"evaluation: {figures['evaluation_over_product_rate']:.0%} of the rate of plain products", file=sys.stderr)
    print(f"opening: {figures['open_over_safe_open']:.2f} times safe_open", file=sys.stderr)
    report_results("evaluation", figures, arguments)


if __name__ == "__main__":
    main()
