"""WikiText-103 across processes: one against two as measured, and what eight GPUs would do, computed.

Measured: tokens a second of the `wikitext103` recipe's trainer with one process and with two (`torchrun`, DDP), in
turns. Computed: tokens a second, bytes exchanged a step and hours an epoch on GPUs, from the shape, the counts of the
words and the assumptions below. The page docs/scale.md is written from both.

    python benchmarks/scale.py --data DIR --vocabulary FILE --json -o results/scale.json --page docs/scale.md
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from measuring import hand_over, make_parser
from rheostat.recipe import fill, read_recipe
from rheostat.shape import ModelShape
from rheostat.training.configuration import TrainingRecipe

TRAINING_TOKENS = 103_227_021  # of WikiText-103
VOCABULARY_SIZE = 267_735
SMALL_BATCHES = ("train.batch_size=10", "train.sequence_length=70")  # of the runs whose speed is compared


@dataclass(frozen=True)
class Machine:
    """What is assumed of a computer with GPUs."""

    name: str
    gpus: int
    peak: float  # FLOPs a second of one GPU in bf16, without sparsity
    utilization: float  # share of the peak that products of this shape reach
    bandwidth: float  # bytes a second that each GPU can send while it receives as many


MACHINES = (
    Machine("one A100", 1, 312e12, 0.35, 0.0),
    Machine("eight A100, NVLink", 8, 312e12, 0.35, 200e9),
    Machine("eight A100, 100 Gb/s Ethernet", 8, 312e12, 0.35, 10e9),
)


@dataclass(frozen=True)
class Projection:
    """A step on one machine, with as many texts for each GPU."""

    machine: str
    gpus: int
    texts_per_gpu: int
    step_flops_per_gpu: float
    compute_seconds: float
    exchanged_bytes_per_gpu: float
    exchange_seconds: float
    tokens_per_second: float
    hours_per_epoch: float


def training_flops_per_token(shape: ModelShape, counts: Sequence[int]) -> float:
    """Forward, and two as much going back; a cluster of the output layer is opened for its own words only."""
    total, parts = sum(counts), shape.flops_by_part()
    splits = (*shape.softmax_splits, shape.vocabulary_size)
    rows = splits[0] + len(shape.softmax_splits) + 0.0
    for first, last in pairwise(splits):
        rows += (last - first) * sum(counts[first:last]) / total
    layers = sum(flops for part, flops in parts.items() if part != "output")
    return 3 * (layers + 2 * rows * shape.output_size)


def project(shape: ModelShape, per_token: float, machine: Machine, texts: int, length: int) -> Projection:
    """Nothing overlaps: DDP sends while it goes back, so that the truth lies between this and the larger of the two."""
    flops = per_token * texts * length
    compute = flops / (machine.peak * machine.utilization)
    exchanged = 2 * (machine.gpus - 1) / machine.gpus * 4 * shape.parameters  # a ring: each part goes round twice
    exchange = exchanged / machine.bandwidth if machine.bandwidth else 0.0
    speed = machine.gpus * texts * length / (compute + exchange)
    return Projection(
        machine.name,
        machine.gpus,
        texts,
        flops,
        compute,
        exchanged,
        exchange,
        speed,
        TRAINING_TOKENS / speed / 3600,
    )


@dataclass(frozen=True)
class Measured:
    tokens_per_second: float
    peak_bytes: int  # of all its processes together


def measure(processes: int, arguments: argparse.Namespace, changes: Sequence[str], lines: int) -> Measured:
    """A run that is stopped when it has logged so many times ten steps; of several, the first does not count."""
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, *(launch if processes > 1 else []), "-m", "rheostat", "train", "wikitext103"]
        command += ["--data", arguments.data, "--vocabulary", arguments.vocabulary, "-o", f"{folder}/run"]
        command += ["--threads", str(arguments.threads // processes)]
        command += [part for change in ("train.random_length=false", *changes) for part in ("--set", change)]
        process, peak = psutil.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True), 0
        try:
            while len(speeds := read_speeds(Path(folder, "run", "log.jsonl"))) < lines:
                if process.poll() is not None:
                    raise SystemExit(f"training ended by itself with {process.returncode}")
                peak = max(peak, resident_bytes(process))
                time.sleep(0.2)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return Measured(statistics.median(speeds[1:] or speeds), peak)


def resident_bytes(process: psutil.Process) -> int:
    total = 0
    for each in (process, *process.children(recursive=True)):
        with suppress(psutil.Error):
            total += each.memory_info().rss
    return total


def read_speeds(log: Path) -> list[float]:
    """Tokens a second, as the run has logged them so far."""
    if not log.exists():
        return []
    whole = log.read_text().rpartition("\n")[0]
    return [line["tokens_per_second"] for line in map(json.loads, whole.splitlines()) if line["event"] == "train"]


def read_counts(path: Path) -> list[int]:
    """Of the words, in the order of their ids: most frequent first."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return sorted((int(line.rsplit(" ", 1)[1]) for line in lines), reverse=True)


PAGE = """# Training at the scale of WikiText-103

<!-- Written by benchmarks/scale.py. -->

The recipe `wikitext103` is the paper's second model: {layers} filters, {parameters:,} parameters, {vocabulary:,}
words under a tied adaptive softmax. `rheostat train wikitext103 --data DIR --vocabulary FILE -o runs/wt103` trains it
in one process; [training.md](training.md#several-processes-and-machines) has the `torchrun` commands for several.

## What a step costs

* **Products.** {per_token:.0f} MFLOPs a token, forward and back. A tail cluster is opened only for the tokens that
  lie in it; opening all of them for every token would be {all_open:.0f} MFLOPs.
* **The embedding.** Its rows are also the output layer's, which has a gradient for all of them. Looking words up adds
  to that gradient the rows of the words in the batch and nothing else.
* **Memory.** Weights, gradient and Adam's two moments take {memory:.1f} GB in float32. The logits of a batch never
  exist as a whole (`training/cross_entropy.py`). The recipe as it is was seen to take {peak_recipe:.1f} GB here.

## Measured: one process and two

Two processes on the same cores as one, with half the texts and half the threads each, take turns with it ({rounds}
rounds; `{options}`). Two reach {ratio:.2f} times the tokens a second of one: what DDP costs where there is nothing to
gain. They take {peak_two:.1f} GB of memory together, one takes {peak_one:.1f} GB. More machines than one were not
measured.

## Computed: eight GPUs

{table}

Assumptions: bf16 products reach {utilization:.0%} of a GPU's {peak:.0f} TFLOPs; gradients are exchanged in float32 by
a ring all-reduce, in which each GPU sends 2 (n - 1) / n times their bytes; NVLink sends 200 GB/s from each GPU,
Ethernet 10 GB/s; nothing overlaps, although DDP sends while it goes back; an epoch is the {tokens:,} tokens of the
whole training text. The recipe's own batch is 60 texts; more texts a step need a learning rate found anew.
"""


def page(figures: dict[str, Any], shape: ModelShape) -> str:
    head = "| machine | texts per GPU | compute a step | bytes a GPU sends | exchange | tokens/s | hours an epoch |\n"
    rows = [
        f"| {row['machine']} | {row['texts_per_gpu']} | {1e3 * row['compute_seconds']:.0f} ms "
        f"| {row['exchanged_bytes_per_gpu'] / 1e9:.2f} GB | {1e3 * row['exchange_seconds']:.0f} ms "
        f"| {row['tokens_per_second']:,.0f} | {row['hours_per_epoch']:.2f} |"
        for row in figures["projections"]
    ]
    return PAGE.format(
        layers=" ".join(map(str, shape.hidden_sizes)),
        parameters=shape.parameters,
        vocabulary=shape.vocabulary_size,
        per_token=figures["training_flops_per_token"] / 1e6,
        all_open=3 * shape.flops / 1e6,
        memory=16 * shape.parameters / 1e9,
        peak_recipe=figures["peak_memory_gb"]["recipe"],
        peak_one=figures["peak_memory_gb"]["1"],
        peak_two=figures["peak_memory_gb"]["2"],
        rounds=figures["rounds"],
        options=figures["options"],
        ratio=figures["two_processes_over_one"],
        table=head + "|---|--:|--:|--:|--:|--:|--:|\n" + "\n".join(rows),
        utilization=MACHINES[0].utilization,
        peak=MACHINES[0].peak / 1e12,
        tokens=TRAINING_TOKENS,
    )


def main() -> None:
    parser = make_parser(__doc__)
    parser.set_defaults(repeats=2)
    parser.add_argument("--data", required=True, help="a folder with WikiText-103, or part of it")
    parser.add_argument("--vocabulary", required=True, help="its words with their counts")
    parser.add_argument("--lines", type=int, default=2, help="of the log, of ten steps each, that count")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--page", type=Path, help="write the page here")
    arguments = parser.parse_args()
    recipe = fill(TrainingRecipe, read_recipe("wikitext103", []))
    shape = recipe.model.shape(VOCABULARY_SIZE)
    per_token = training_flops_per_token(shape, read_counts(Path(arguments.vocabulary)))
    texts, length = recipe.train.batch_size, recipe.train.sequence_length
    projections = [project(shape, per_token, machine, texts, length) for machine in MACHINES]
    projections += [project(shape, per_token, machine, 8, length) for machine in MACHINES[1:]]
    runs: dict[int, list[Measured]] = {1: [], 2: []}
    for _ in range(arguments.repeats):
        for processes, found in runs.items():
            found.append(measure(processes, arguments, SMALL_BATCHES, 1 + arguments.lines))
    speeds = {processes: [run.tokens_per_second for run in found] for processes, found in runs.items()}
    whole = measure(1, arguments, [], 1)
    figures = {
        "training_flops_per_token": per_token,
        "tokens_per_second": speeds,
        "two_processes_over_one": statistics.median(speeds[2]) / statistics.median(speeds[1]),
        "rounds": arguments.repeats,
        "options": " ".join(SMALL_BATCHES),
        "peak_memory_gb": {
            "recipe": whole.peak_bytes / 1e9,
            **{str(processes): max(run.peak_bytes for run in found) / 1e9 for processes, found in runs.items()},
        },
        "projections": [asdict(projection) for projection in projections],
    }
    if arguments.page:
        arguments.page.write_text(page(figures, shape), encoding="utf-8")
    hand_over(figures, arguments)


if __name__ == "__main__":
    main()
