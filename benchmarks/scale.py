"""WikiText-103 across processes: one and two processes measured, eight GPUs computed.

Measured: tokens per second of the `wikitext103` recipe's trainer with one process and with two (`torchrun`, DDP),
interleaved. Computed: tokens per second, bytes exchanged per step and hours per epoch on GPUs, from the shape, the word
counts and the assumptions below. The page docs/scale.md is written from both.

    python benchmarks/scale.py --data DIR --vocabulary FILE --json -o results/scale.json --page docs/scale.md
    python benchmarks/scale.py --results results/scale.json --page docs/scale.md
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import torch

from measuring import make_parser, report_results
from rheostat.measure.results import BenchmarkResults, read_results
from rheostat.model.flops import flops_by_part
from rheostat.model.shape import ModelShape
from rheostat.recipe import read_recipe
from rheostat.tables import fill
from rheostat.training.configuration import TrainingRecipe

TRAINING_TOKENS = 103_227_021  # of WikiText-103
VOCABULARY_SIZE = 267_735
UPDATE_BYTES = 40  # per weight: clipping reads and writes its gradient, Adam reads four numbers and writes three
FEW_TEXTS = 8  # per GPU: about the recipe's batch, divided among them
GPU_GB = (8, 12, 16, 24, 48, 80)
SMALL_TEXTS, SMALL_LENGTH = 10, 70  # of the runs whose speed is compared
SMALL_BATCHES = (f"train.batch_size={SMALL_TEXTS}", f"train.sequence_length={SMALL_LENGTH}")


@dataclass(frozen=True)
class Machine:
    """What is assumed about a computer with GPUs."""

    name: str
    gpus: int
    peak: float  # FLOPs per second of one GPU in bf16, without sparsity
    utilization: float  # share of the peak that products of this shape reach
    memory: float  # bytes per second that a GPU reads or writes
    bandwidth: float  # bytes per second that each GPU can send while receiving as many


MACHINES = (
    Machine("one A100", 1, 312e12, 0.35, 1.5e12, 0.0),
    Machine("eight A100, NVLink", 8, 312e12, 0.35, 1.5e12, 200e9),
    Machine("eight A100, 100 Gb/s Ethernet", 8, 312e12, 0.35, 1.5e12, 10e9),
)


@dataclass(frozen=True)
class Projection:
    """A step on one machine, with this many texts per GPU."""

    machine: str
    gpus: int
    texts_per_gpu: int
    step_flops_per_gpu: float
    compute_seconds: float
    update_seconds: float
    exchanged_bytes_per_gpu: float
    exchange_seconds: float
    tokens_per_second: float
    hours_per_epoch: float


def training_flops_per_token(shape: ModelShape, counts: Sequence[int]) -> float:
    """The forward pass, and twice as much for the backward pass. A cluster is opened only for its own words."""
    total, parts = sum(counts), flops_by_part(shape)
    splits = (*shape.softmax_splits, shape.vocabulary_size)
    rows = splits[0] + len(shape.softmax_splits) + 0.0
    for first, last in pairwise(splits):
        rows += (last - first) * sum(counts[first:last]) / total
    layers = sum(flops for part, flops in parts.items() if part != "output")
    return 3 * (layers + 2 * rows * shape.output_size)


def project(shape: ModelShape, per_token: float, machine: Machine, texts: int, length: int) -> Projection:
    """Without overlap. DDP sends during the backward pass, so the truth lies between this and the larger of the two."""
    flops = per_token * texts * length
    compute = flops / (machine.peak * machine.utilization)
    update = UPDATE_BYTES * shape.parameters / machine.memory
    exchanged = 2 * (machine.gpus - 1) / machine.gpus * 4 * shape.parameters  # a ring: each part goes around twice
    exchange = exchanged / machine.bandwidth if machine.bandwidth else 0.0
    speed = machine.gpus * texts * length / (compute + update + exchange)
    return Projection(
        machine.name,
        machine.gpus,
        texts,
        flops,
        compute,
        update,
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
    """Measure a run, stopped after some log lines of ten steps each. If there are several, the first is a warm-up."""
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, *(launch if processes > 1 else []), "-m", "rheostat", "train", "wikitext103"]
        command += ["--data", arguments.data, "--vocabulary", arguments.vocabulary, "-o", f"{folder}/run"]
        command += ["--threads", str(max(1, arguments.threads // processes))]
        command += [part for change in ("train.random_length=false", *changes) for part in ("--set", change)]
        process, peak = psutil.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True), 0
        try:
            while len(speeds := read_speeds(Path(folder, "run", "log.jsonl"))) < lines:
                if process.poll() is not None:
                    raise SystemExit(f"training ended early with code {process.returncode}")
                peak = max(peak, resident_bytes(process))
                time.sleep(0.2)
        finally:
            kill(process)
    return Measured(statistics.median(speeds[1:] or speeds), peak)


def kill(process: psutil.Popen) -> None:
    """Kill a process and its children: torchrun's workers have their own sessions, so a group signal misses them."""
    for each in (*process.children(recursive=True), process):
        with suppress(psutil.Error):
            each.kill()
    process.wait()


def dense_update_seconds(shape: ModelShape, threads: int) -> float:
    """Seconds for clipping and an Adam step on the embedding, whose gradient is dense for every batch."""
    torch.set_num_threads(threads)
    embedding = torch.zeros(shape.vocabulary_size, shape.embedding_size, requires_grad=True)
    embedding.grad = torch.ones_like(embedding)
    adam, seconds = torch.optim.Adam([embedding], foreach=True), []
    for _ in range(4):
        start = time.perf_counter()
        torch.nn.utils.clip_grad_norm_([embedding], 0.25)
        adam.step()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:])


def resident_bytes(process: psutil.Process) -> int:
    total = 0
    for each in (process, *process.children(recursive=True)):
        with suppress(psutil.Error):
            total += each.memory_info().rss
    return total


def read_speeds(log: Path) -> list[float]:
    """Tokens per second, as logged by the run so far."""
    if not log.exists():
        return []
    whole = log.read_text().rpartition("\n")[0]
    return [line["tokens_per_second"] for line in map(json.loads, whole.splitlines()) if line["event"] == "train"]


def read_counts(path: Path, special_counts: Mapping[str, int]) -> list[int]:
    """Word counts in order of id, most frequent first. special_counts: for special tokens that the file lacks."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return sorted([*(int(line.rsplit(" ", 1)[1]) for line in lines), *special_counts.values()], reverse=True)


PAGE = """# Training at the scale of WikiText-103

<!-- Written by benchmarks/scale.py. -->

```sh
rheostat train wikitext103 --data DIR --vocabulary FILE -o runs/wt103
```

The recipe `wikitext103` is the paper's second model: {layers} filters, {parameters:,} parameters, {vocabulary:,}
words under a tied adaptive softmax. The command above trains it in one process. The `torchrun` commands for several are
in [training](training.md#several-processes-and-machines).

## What a step costs

* **Products.** {per_token:.0f} MFLOPs per token, forward and backward. A tail cluster is opened only for the tokens in
  it; opening all clusters for every token would take {all_open:.0f} MFLOPs.
* **The embedding.** Looking up words gives a gradient only to the rows of the words in the batch. But the same matrix
  is the output layer, and a softmax gives a gradient to every row of a cluster that the batch opens. A batch of {batch}
  tokens opens all of them, so the gradient is dense. Clipping and Adam process {embedding:,} numbers, which took
  {dense:.2f} s here, {dense_share:.1%} of a step of the recipe.
* **Memory.** Weights, gradient and Adam's two moments take {memory:.1f} GB in fp32. The full logits of a batch are
  never stored (`training/cross_entropy.py`). In its first steps the unchanged recipe took {peak_recipe:.1f} GB here,
  Python and torch included. It fits a computer with 24 GB, and the same tensors fit a GPU with {gpu} GB. We had no GPU
  to check.

## Measured: one process and two

Two processes ran on the same cores as one, with half the texts and half the threads each. The two set-ups were
interleaved ({rounds} rounds; `{options}`).

* Two processes reach {ratio:.2f} times the tokens per second of one. This is the cost of DDP without any gain: each
  process clips and updates all weights, and {gradients:.2f} GB of gradients are exchanged for every {small} tokens,
  {rarer:.0f} times as often per token as with the recipe's own batch.
* Two processes take {peak_two:.1f} GB of memory together, one takes {peak_one:.1f} GB.
* One process reached {speed:,.0f} tokens/s, and {speed_recipe:,.0f} with the recipe's own batch.

Several machines were not measured.

## Computed: eight GPUs

These rows assume `--set train.precision=bf16` and, for eight GPUs, `--set train.batch_size=` the number of texts of all
GPUs together. It must be a multiple of the number of processes; the recipe has {texts}.

{table}

Assumptions:

* Products in bf16 reach {utilization:.0%} of a GPU's {peak:.0f} TFLOPs, with {texts} texts per GPU and with {few}. The
  recipe's own precision is fp32, which an A100 computes at a sixteenth of that peak.
* Clipping and Adam move {update_bytes} bytes per weight at {gpu_memory:.1f} TB/s. Pooling, softmax and reading the
  corpus cost nothing compared with the products.
* Gradients are exchanged in fp32 by a ring all-reduce: each of n GPUs sends 2 (n - 1) / n times their bytes. All
  gradients are dense (see the embedding above).
* NVLink sends 200 GB/s from each GPU. On Ethernet each GPU has 100 Gb/s of its own, of which 10 GB/s are used.
* Computation and exchange do not overlap. In fact DDP sends during the backward pass, so the true time lies between
  this sum and the larger of the two.
* An epoch is the {tokens:,} tokens of the whole training text. More texts per step need a newly tuned learning rate.
"""


def page(figures: dict[str, Any], shape: ModelShape) -> str:
    heads = (
        "machine",
        "texts per GPU",
        "texts in all",
        "compute",
        "update",
        "bytes sent per GPU",
        "exchange",
        "tokens/s",
        "hours per epoch",
    )
    rows = [
        (
            row["machine"],
            f"{row['texts_per_gpu']}",
            f"{row['gpus'] * row['texts_per_gpu']}",
            f"{1e3 * row['compute_seconds']:.0f} ms",
            f"{1e3 * row['update_seconds']:.0f} ms",
            f"{row['exchanged_bytes_per_gpu'] / 1e9:.2f} GB",
            f"{1e3 * row['exchange_seconds']:.0f} ms",
            f"{row['tokens_per_second']:,.0f}",
            f"{row['hours_per_epoch']:.2f}",
        )
        for row in figures["projections"]
    ]
    lines = [heads, ("---", *("--:" for _ in heads[1:])), *rows]
    return PAGE.format(
        layers=" ".join(map(str, shape.hidden_sizes)),
        parameters=shape.parameters,
        vocabulary=shape.vocabulary_size,
        per_token=figures["training_flops_per_token"] / 1e6,
        all_open=3 * shape.flops / 1e6,
        batch=f"{figures['recipe_batch_tokens']:,}",
        embedding=shape.vocabulary_size * shape.embedding_size,
        dense=figures["dense_update_seconds"],
        dense_share=figures["dense_update_seconds"]
        * figures["recipe_tokens_per_second"]
        / figures["recipe_batch_tokens"],
        gpu=next(size for size in GPU_GB if size > figures["peak_memory_gb"]["recipe"]),
        gradients=4 * shape.parameters / 1e9,
        small=SMALL_TEXTS * SMALL_LENGTH,
        rarer=figures["recipe_batch_tokens"] / (SMALL_TEXTS * SMALL_LENGTH),
        texts=figures["projections"][0]["texts_per_gpu"],
        few=FEW_TEXTS,
        speed=statistics.median(figures["tokens_per_second"]["1"]),
        speed_recipe=figures["recipe_tokens_per_second"],
        memory=16 * shape.parameters / 1e9,
        peak_recipe=figures["peak_memory_gb"]["recipe"],
        peak_one=figures["peak_memory_gb"]["1"],
        peak_two=figures["peak_memory_gb"]["2"],
        rounds=figures["rounds"],
        options=figures["options"],
        ratio=figures["two_processes_over_one"],
        table="\n".join(f"| {' | '.join(cells)} |" for cells in lines),
        utilization=MACHINES[0].utilization,
        peak=MACHINES[0].peak / 1e12,
        update_bytes=UPDATE_BYTES,
        gpu_memory=MACHINES[0].memory / 1e12,
        tokens=TRAINING_TOKENS,
    )


def measure_all(arguments: argparse.Namespace, recipe: TrainingRecipe, shape: ModelShape) -> dict[str, Any]:
    per_token = training_flops_per_token(shape, read_counts(Path(arguments.vocabulary), recipe.corpus.special_counts))
    texts, length = recipe.train.batch_size, recipe.train.sequence_length
    projections = [project(shape, per_token, machine, texts, length) for machine in MACHINES]
    projections += [project(shape, per_token, machine, FEW_TEXTS, length) for machine in MACHINES[1:]]
    runs: dict[int, list[Measured]] = {1: [], 2: []}
    for _ in range(arguments.repeats):
        for processes, found in runs.items():
            found.append(measure(processes, arguments, SMALL_BATCHES, 1 + arguments.lines))
    speeds = {str(processes): [run.tokens_per_second for run in found] for processes, found in runs.items()}
    whole = measure(1, arguments, [], 1)
    return {
        "training_flops_per_token": per_token,
        "tokens_per_second": speeds,
        "two_processes_over_one": statistics.median(speeds["2"]) / statistics.median(speeds["1"]),
        "recipe_tokens_per_second": whole.tokens_per_second,
        "recipe_batch_tokens": texts * length,
        "dense_update_seconds": dense_update_seconds(shape, arguments.threads),
        "rounds": arguments.repeats,
        "options": " ".join(SMALL_BATCHES),
        "peak_memory_gb": {
            "recipe": whole.peak_bytes / 1e9,
            **{str(processes): max(run.peak_bytes for run in found) / 1e9 for processes, found in runs.items()},
        },
        "projections": [asdict(projection) for projection in projections],
    }


def main() -> None:
    parser = make_parser(__doc__)
    parser.set_defaults(repeats=2)
    parser.add_argument("--data", help="a folder with WikiText-103, or part of it")
    parser.add_argument("--vocabulary", help="its words with their counts")
    parser.add_argument("--lines", type=int, default=2, help="how many log lines, of ten steps each, to count")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--page", type=Path, help="write the page here")
    parser.add_argument("--results", type=Path, help="results of an earlier run: only write the page from them")
    arguments = parser.parse_args()
    recipe = fill(TrainingRecipe, read_recipe("wikitext103", []))
    shape = recipe.model.shape(VOCABULARY_SIZE)
    if arguments.results:
        results = read_results(arguments.results)
        if not isinstance(results, BenchmarkResults):
            parser.error(f"{arguments.results} has the kind {results.kind}; expected a benchmark")
        figures = dict(results.figures)
    elif arguments.data and arguments.vocabulary:
        figures = measure_all(arguments, recipe, shape)
        report_results("scale", figures, arguments)
    else:
        parser.error("--data and --vocabulary are needed to measure")
    if arguments.page:
        arguments.page.write_text(page(figures, shape), encoding="utf-8")


if __name__ == "__main__":
    main()
