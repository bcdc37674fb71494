"""Does memory grow with the corpus, and how long until the first batch?

Makes one text of 1 million and one of 100 million tokens (words from a Zipf distribution), fills the token cache with
each, then opens each from the cache in a fresh process and takes 20 batches [70, 40] as a trainer does. Prints a table,
and with `--json` one JSON object as the last line. Every stage runs in its own process, so peak memory is per stage.
Files written by one stage are still in the system's file cache for the next.

    python benchmarks/corpus_scale.py --tokens 2000000 --json
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Only the stages import numpy and rheostat: on Linux, the peak memory of a process includes that of the process that
# started it.

SMALL_TOKENS = 1_000_000
WORDS_PER_LINE = 24  # plus an <eos>
VOCABULARY_SIZE = 50_000
BATCHES, STEPS, BATCH_SIZE = 20, 70, 40


def main() -> None:
    options = read_options()
    if options.stage:
        print(json.dumps(STAGES[options.stage](Path(options.folder), options.tokens, options.started)))
        return
    sizes = sorted({SMALL_TOKENS, options.tokens})
    with tempfile.TemporaryDirectory(dir=options.folder or None) as folder:
        rows = [measure(Path(folder) / str(tokens), tokens) for tokens in sizes]
    print_table(rows)
    from measuring import report_results

    report_results("corpus-scale", {"sizes": rows}, options)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=100_000_000, help="tokens of the large corpus")
    parser.add_argument("--folder", default="", help="where to put it temporarily: 10 bytes per token")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("-o", "--out", help="write the JSON object to this file")
    parser.add_argument("--stage", help=argparse.SUPPRESS)
    parser.add_argument("--started", type=float, default=0.0, help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(folder: Path, tokens: int) -> dict[str, Any]:
    folder.mkdir()
    made = run_stage("make", folder, tokens)
    encoded = run_stage("encode", folder, tokens)
    opened = run_stage("open", folder, tokens)
    return {
        "tokens": encoded["tokens"],
        "vocabulary_size": encoded["vocabulary_size"],
        "text_mb": made["text_mb"],
        "encode_seconds": encoded["seconds"],
        "encode_tokens_per_second": encoded["tokens"] / encoded["seconds"],
        "encode_peak_mb": encoded["peak_mb"],
        "first_batch_seconds": opened["first_batch_seconds"],
        "batches": BATCHES,
        "batch_ms": opened["batch_ms"],
        "open_peak_mb": opened["peak_mb"],
    }


def run_stage(stage: str, folder: Path, tokens: int) -> dict[str, Any]:
    print(f"{stage} {tokens:,} tokens …", file=sys.stderr)
    command = [sys.executable, __file__, "--stage", stage, "--folder", str(folder), "--tokens", str(tokens)]
    answer = subprocess.run([*command, "--started", repr(time.time())], check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(answer.stdout)
    return result


def print_table(rows: list[dict[str, Any]]) -> None:
    print(f"{'tokens':>12} {'encode s':>9} {'tokens/s':>11} {'encode MB':>9} {'1st batch s':>11} {'open MB':>8}")
    for row in rows:
        print(
            f"{row['tokens']:>12,} {row['encode_seconds']:>9.1f} {row['encode_tokens_per_second']:>11,.0f} "
            f"{row['encode_peak_mb']:>9.0f} {row['first_batch_seconds']:>11.2f} {row['open_peak_mb']:>8.0f}"
        )


# --- the stages, each in its own process


def make(folder: Path, tokens: int, started: float) -> dict[str, Any]:
    """Three texts: most of the tokens for training, the rest for validation and test."""
    held_out = min(100_000, tokens // 20)
    for seed, (name, count) in enumerate({"train": tokens, "valid": held_out, "test": held_out}.items()):
        with (folder / f"{name}.txt").open("wb") as file:
            file.writelines(zipf_text(count // (WORDS_PER_LINE + 1), seed))
    return {"text_mb": (folder / "train.txt").stat().st_size / 1e6, "seconds": time.time() - started}


def zipf_text(lines: int, seed: int) -> Iterator[bytes]:
    """Lines of words whose frequency is 1 / rank, in pieces of up to 20,000 lines."""
    import numpy as np

    words = [f"w{rank:x}" for rank in range(VOCABULARY_SIZE - 2)]
    share = np.cumsum(1 / np.arange(1, len(words) + 1))
    source = np.random.default_rng(seed)
    while lines:
        piece = min(lines, 20_000)
        ranks = np.searchsorted(share, source.random(piece * WORDS_PER_LINE) * share[-1]).tolist()
        drawn = map(words.__getitem__, ranks)
        yield "".join(f"{' '.join(line)}\n" for line in zip(*[drawn] * WORDS_PER_LINE, strict=True)).encode()
        lines -= piece


def encode(folder: Path, tokens: int, started: float) -> dict[str, Any]:
    """The first start: count words, build the vocabulary, fill the cache."""
    from rheostat.text.corpus import CorpusConfig, load_corpus

    corpus = load_corpus(folder, CorpusConfig("wikitext"), cache_directory=folder / "cache")
    return {
        "tokens": corpus.splits["train"].tokens,
        "vocabulary_size": len(corpus.vocabulary),
        "seconds": time.time() - started,
        "peak_mb": peak_memory_mb(),
    }


def open_and_take_batches(folder: Path, tokens: int, started: float) -> dict[str, Any]:
    """Every later start: open the cache, take batches."""
    import numpy as np

    from rheostat.text.corpus import CorpusConfig, load_corpus

    ids = load_corpus(folder, CorpusConfig("wikitext"), cache_directory=folder / "cache").splits["train"].ids
    columns = len(ids) // BATCH_SIZE
    streams = ids[: columns * BATCH_SIZE].reshape(BATCH_SIZE, columns)  # a view of the memory map
    taken: list[float] = []
    for batch in range(BATCHES):
        ids_of_batch = np.ascontiguousarray(streams[:, batch * STEPS : (batch + 1) * STEPS].T)
        assert ids_of_batch.shape == (STEPS, BATCH_SIZE)
        taken.append(time.time() - started)
    return {
        "first_batch_seconds": taken[0],
        "batch_ms": 1000 * (taken[-1] - taken[0]) / (BATCHES - 1),
        "peak_mb": peak_memory_mb(),
    }


def peak_memory_mb() -> float:
    """Peak resident memory of this process so far; touched pages of the memory map count too."""
    import resource  # not on Windows

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


STAGES = {"make": make, "encode": encode, "open": open_and_take_batches}


if __name__ == "__main__":
    main()
