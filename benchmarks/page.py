"""Writes docs/results/benchmarks.md from the benchmark results: every figure, with its target if it has one.

python benchmarks/page.py results -o docs/results/benchmarks.md
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rheostat.measure.results import BenchmarkResults, Results, SweepResults, TrainingResults, read_all, read_results
from rheostat.report.evidence import gather
from rheostat.report.extent import comparability

Row = tuple[str, str, str]  # what, measured, target


def training_rows(figures: Mapping[str, Any]) -> Iterator[Row]:
    for precision, ratio in sorted(figures["step_over_products"].items(), reverse=True):
        target = f"at most {figures['target'][precision]}"
        if ratio is None:
            yield f"the same in {precision}", f"not measured: {figures['bf16_not_measured']}", target
            continue
        rate = figures["products_gflops_per_second"][precision]
        what = f"ptb-qrnn, batch 40 × 70, {precision}: a full training step over its matrix products alone"
        yield f"{what} ({rate:.0f} GFLOP/s)", f"{ratio:.2f}", target
    yield "the same step with the textbook per-step loop, over ours", f"{figures['textbook_over_step']:.2f}", ""
    lstm = figures["parameters"]["awd-lstm"]
    yield f"a step of AWD-LSTM ({lstm:,} parameters), over ours", f"{figures['awd_lstm_over_step']:.2f}", ""
    yield "peak memory of a process that makes full-size training steps", f"{figures['peak_memory_mb']:,.0f} MB", ""


def evaluation_rows(figures: Mapping[str, Any]) -> Iterator[Row]:
    share = figures["evaluation_over_product_rate"]
    yield "evaluation, share of the fp32 product rate", f"{share:.0%}", "at least 60 %"
    yield "opening the model file, over safe_open and its keys", f"{figures['open_over_safe_open']:.2f}", "at most 2"
    resident, size = figures["resident_bytes_added_by_opening"], figures["file_bytes"]
    yield f"resident memory that opening a file of {size:,} bytes adds", f"{resident:,} bytes", "no weights"


def corpus_rows(figures: Mapping[str, Any]) -> Iterator[Row]:
    for size in figures["sizes"]:
        what = f"a corpus of {size['tokens']:,} tokens, token cache in place"
        seconds, memory = size["first_batch_seconds"], size["open_peak_mb"]
        yield f"{what}: first batch, from process start", f"{seconds:.2f} s", "seconds"
        yield f"{what}: peak resident memory", f"{memory:.0f} MB", "does not grow"


def curve_rows(results: TrainingResults) -> Iterator[Row]:
    progress, model = results.progress, results.model
    state = "finished" if progress.finished else f"stopped, of {model.recipe['train']['epochs']} epochs"
    done = f"{progress.step:,} steps, {progress.tokens:,} tokens, {progress.seconds / 3600:.2f} h ({state})"
    best = f"best valid perplexity {model.valid.perplexity:.1f}"
    if test := model.test:
        recall = " and ".join(f"{quality.recall_at_3:.1%}" for quality in (model.valid, test))
        best += f", test {test.perplexity:.1f}; R@3 {recall}"
    shape = model.recipe.get("model", {})
    size = f" of {shape['layers']} layers of {shape['hidden_size']} filters" if shape else ""
    yield f"training run{size} on {model.recipe['corpus']['tokenizer']} text: {done}", best, ""


def learning_rows(figures: Mapping[str, Any]) -> Iterator[Row]:
    names = {
        "gates": "a step that trains L0 gates",
        "update": f"a step that trains the update of a point at {figures['knob']:.0%}",
        "update_distilled": "the same with the full model as its teacher",
        "graded": "a step of graded training down to 40 %",
        "graded_start": "the same with the model it started from as its teacher",
    }
    for name, ratio in figures["step_over_full_training"].items():
        target = "clearly less than 1" if name in ("gates", "update") else ""
        yield f"{names[name]}, over a step of full training", f"{ratio:.2f}", target


RUNTIME_ROWS = {
    "core_over_onnx_100": "chat at 100 %: a step of the core over one of ONNX Runtime",
    "core_over_onnx_15": "the same at 15 %",
    "core_15_over_100": "chat: a step of the core at 15 % over one at 100 %",
    "suggest_15_over_100": "chat: `suggest` of one more word at 15 % over 100 %",
    "python_over_step": "chat: Python around that `suggest` over a step of the core, at 100 %",
    "suggest_over_before": "chat: that `suggest` at 100 % over that of the version before the core",
    "suggest_over_onnx": "the same over today's through ONNX Runtime",
    "letter_over_step": "chat: `complete` of one more letter, as typed, over a step of the core at 100 %",
    "letter_with_slips_over_step": "the same with slips allowed for",
    "chat_step_over_read": "chat: a step of the core over reading its bytes once",
    "ptb_step_over_read": "ptb-qrnn: a step of the core over reading its bytes once",
    "ptb_core_over_onnx": "ptb-qrnn: a step of the core over one of ONNX Runtime, one thread each",
    "ptb_core_over_onnx_two_threads": "the same with two threads each",
    "flops_r2": "chat: a step of the core against FLOPs, ten positions by widths alone: r²",
    "flops_intercept_over_full": "the same line: its value at no FLOPs over that of the full model",
    "cost_r2": "chat: a step of the core against cost, ten positions on the path of widths and bits: r²",
    "cost_intercept_over_full": "the same line: its value at no cost over that of the full model",
    "turn_over_query": "chat: turning to positions that were not visited before, one after another, over a query",
    "turn_bytes": "the same: bytes of memory for its weights",
    "turn_between_queries_over_query": "turning, each after a few queries",
    "memory_over_file": "resident memory after the first suggestion, beyond `import numpy`, over the file's bytes",
    "start_over_numpy": "process start to first suggestion over `import numpy` in a bare process",
    "checksums_ms": "of that, comparing the checksums of the bundled file, ms",
    "installed_mb": "the base package with its dependencies, MB",
    "library_kb": "the core's library, KB",
    "wasm_kb": "the core's WebAssembly module, KB",
    "chat_int8_over_fp32": "chat's test text: perplexity in int8 over fp32 arithmetic",
    "ptb_int8_over_fp32": "Penn Treebank's test text: perplexity in int8 over fp32 arithmetic",
    "log_p_difference": "fp32, core and ONNX Runtime: largest difference of log p",
    "log_p_core_error": "the same between the core and the model's equations in float64",
    "log_p_onnx_error": "the same between ONNX Runtime and the equations in float64",
    "evaluate_over_onnx": "`evaluate` in int8: seconds of the core over those of ONNX Runtime",
    "evaluate_fp32_over_onnx": "the same in fp32",
}


def runtime_rows(figures: Mapping[str, Any]) -> Iterator[Row]:
    """Rows of the groups that were measured."""
    targets = figures["targets"]
    for name, what in RUNTIME_ROWS.items():
        if name in figures:
            digits = ".4f" if "int8_over" in name or name.endswith("r2") else ".3g"
            yield what, format(figures[name], digits), targets.get(name, "")
    for percent in (100, 50, 20):
        if (same := figures.get(f"same_words_{percent}")) is not None:
            what = f"chat at {percent} %: int8's three best words are those of fp32; ONNX Runtime's int8"
            yield what, f"{same:.1%}; {figures[f'same_words_onnx_{percent}']:.1%}", targets[f"same_words_{percent}"]


def keyboard_rows(figures: Mapping[str, Any]) -> Iterator[Row]:
    targets = figures["targets"]
    what = f"the keyboard's server, {figures['typists']} typists at once"
    ratios = {
        "suggest_over_empty": "suggestions a second over the same requests to an endpoint that does nothing",
        "suggest_over_get": "the same over requests without a body",
    }
    for name, of in ratios.items():
        target = targets[name] if name == "suggest_over_empty" else ""
        yield f"{what}: {of}", f"{figures[name]:.2f}", target
    faults = f"{figures['lost']} and {figures['wrong']}"
    yield f"{what}: requests lost and answers wrong, of {figures['answers']:,}", faults, "none"
    yield f"{what}: memory it grew by", f"{figures['memory_growth_mb']:.1f} MB", targets["memory_growth_mb"]


def opened_rows(what: str, executed: Mapping[str, Any], static_flops: int) -> Iterator[Row]:
    mean, worst = executed["mean_flops"] / static_flops, executed["worst_flops"] / static_flops
    yield f"{what}: FLOPs executed over the static count, mean and worst", f"{mean:.0%} and {worst:.0%}", ""
    shares = executed["share_of_queries_by_clusters_opened"]
    opened = ", ".join(f"{share:.1%}" for share in shares.values())
    yield f"{what}: share of queries that open {', '.join(shares)} tail clusters", opened, ""


def output_layer_rows(figures: Mapping[str, Any]) -> Iterator[Row]:
    for precision, found in figures["precisions"].items():
        what = f"{precision}, {found['queries']:,} queries of {figures['corpus']} {figures['split']}"
        ratio, target = found["output_layer_whole_over_lazy"], figures["targets"][precision]
        yield f"{what}: the whole output layer over the lazy exact top three", f"{ratio:.2f}", target
        times = found["output_layer_ms"]
        keyboard = times["whole"]["mean"] / times["suggestible"]["mean"]
        yield f"{what}: the same for the best three that a keyboard may suggest", f"{keyboard:.2f}", ""
        differing = found["differing_answers"] + found["differing_timed_answers"]
        yield f"{what}: answers that differ", str(differing), "none"
        yield f"{what}: a whole query over a lazy one", f"{found['query_whole_over_lazy']:.2f}", ""
        yield from opened_rows(f"{what}, best of all words", found["all_words"], found["static_flops"])
        yield from opened_rows(f"{what}, best that may be suggested", found["suggestible_words"], found["static_flops"])
    if loaded := figures["memory_mb"]["loaded"]:
        yield "its resident memory in int8 after the first suggestion", f"{loaded:.0f} MB", ""
    yield "its first suggestion, from process start", f"{figures['first_suggestion_s']:.1f} s", ""


def quality_rows(results: SweepResults) -> Iterator[Row]:
    for row in results.rows:
        what = f"`{results.subject.model}` at {row.knob:.0%} ({row.served_by}), {row.split} text: perplexity; R@3"
        yield what, f"{row.perplexity:.1f}; {row.recall_at_3:.1%}", ""


def scale_rows(figures: Mapping[str, Any]) -> Iterator[Row]:
    yield "training wikitext103: two processes over one, tokens/s", f"{figures['two_processes_over_one']:.2f}", ""
    yield "the recipe as it is, in one process: peak memory", f"{figures['peak_memory_gb']['recipe']:.1f} GB", "24 GB"


Figures = Mapping[str, Any]
BENCHMARKS: dict[str, Callable[[Figures], Iterator[Row]]] = {
    "training": training_rows,
    "learning": learning_rows,
    "evaluation": evaluation_rows,
    "runtime": runtime_rows,
    "output-layer": output_layer_rows,
    "keyboard": keyboard_rows,
    "corpus-scale": corpus_rows,
    "scale": scale_rows,
}
FILES = (
    *("benchmark-training", "benchmark-learning", "benchmark-evaluation", "benchmark-runtime"),
    *("benchmark-output-layer", "benchmark-keyboard", "benchmark-corpus-scale"),
    *("ptb-fast", "wikitext2-smoke", "wt103-training", "wt103-split", "wt103-graded", "scale"),
)


WIKITEXT = ("wt103", "wt103-ngram", "wt103-training")


def cautions(folder: Path) -> Iterator[str]:
    """What to know before comparing a perplexity with the paper's."""
    evidence = gather(read_all([path for name in WIKITEXT if (path := folder / f"{name}.json").exists()]))
    for on in evidence.corpora:
        if sentence := comparability(on, evidence.collection.trainings):
            yield from ("", sentence)


def rows_of(results: Results) -> Iterator[Row]:
    match results:
        case BenchmarkResults():
            return BENCHMARKS[results.name](results.figures)
        case TrainingResults():
            return curve_rows(results)
        case SweepResults():
            return quality_rows(results)
    raise SystemExit(f"{results.path} has the kind {results.kind}, which has no rows here")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    arguments = parser.parse_args()
    lines = [
        "# Benchmarks",
        "",
        "Generated by `benchmarks/page.py` from the files named. Machines are shared and noisy, so ratios are of",
        "medians within one run, in which all sides are interleaved. Where queries differ in what they compute (the",
        "lazy output layer), ratios are of means. A target that was missed stays beside its figure.",
        "",
        "| what | measured | target | file |",
        "|---|---:|---:|---|",
    ]
    machines, on_onnx = set(), []
    for name in FILES:
        path = arguments.results / f"{name}.json"
        if path.exists():
            results = read_results(path)
            rows = rows_of(results)
            lines += [f"| {what} | {measured} | {target} | `{path.name}` |" for what, measured, target in rows]
            if isinstance(results, BenchmarkResults) and results.figures.get("engine") == "onnx":
                on_onnx.append(f"`{path.name}`")
            machine = results.provenance.machine
            machines.add(f"{machine.processor}, {machine.cores} cores, {machine.system}")
    lines += ["", f"Measured on: {'; '.join(sorted(machines))}.", *cautions(arguments.results)]
    if on_onnx:
        lines += ["", f"Queries ran on ONNX Runtime, not on the core, in {', '.join(on_onnx)}."]
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
