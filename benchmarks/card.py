"""Writes the figures of the bundled model's card from its file and from results files; none is typed by hand.

python benchmarks/card.py src/rheostat/bundled/chat.safetensors results/chat.json [results of baselines …]

Replaces the text between the two marks of the card next to the model file. Baselines are n-grams of the same text;
their rows come below the model's.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from rheostat.measure.results import NGramResults, SweepResults, read_all
from rheostat.model.file import ModelFile, open_model
from rheostat.report.document import Table, rows, table_markdown

BEGIN, END = "<!-- figures: written by benchmarks/card.py -->", "<!-- end of figures -->"


def facts(file: ModelFile) -> Table:
    """What the file says about itself."""
    description, shape = file.description, file.shape
    recipe, provenance = description.recipe, description.provenance
    texts = provenance["corpus"]["splits"]
    cells = [
        ["file", f"{file.file_bytes / 1e6:.2f} MB, weights in {file.precision}"],
        ["shape", f"{shape.cell}, layers {', '.join(map(str, shape.hidden_sizes))}, embedding {shape.embedding_size}"],
        ["vocabulary", f"{shape.vocabulary_size:,} words"],
        ["parameters, FLOPs per query", f"{shape.parameters:,}, {shape.flops:,}"],
        ["text", ", ".join(f"{name} {split['tokens']:,} tokens" for name, split in texts.items())],
        ["unknown words in the test text", f"{texts['test']['unknown_rate']:.1%}"],
        ["seeds", f"text {recipe['corpus']['seed']}, training {recipe['train']['seed']}"],
        ["graded down to", f"{recipe['train']['graded']:.0%} of the FLOPs"],
        ["last command", f"`{provenance['command']}`"],
        ["commit, date", f"{provenance['commit']}, {provenance['date']}"],
    ]
    return Table(("", ""), "ll", rows(cells))


def figures(sweep: SweepResults, ngrams: Sequence[NGramResults]) -> Table:
    """Quality on the whole test text, at every knob position and for the n-grams."""
    measured = [
        (f"knob at {p.flops_fraction:.0%}", p.perplexity, p.recall_at_3, p.keystrokes_saved_share)
        for p in sweep.test_figures(sweep.criteria[0])
    ]
    measured += [
        (one.name, one.test_perplexity, one.test_recall, one.keystrokes.keystrokes_saved_share) for one in ngrams
    ]
    cells = [
        [name, f"{perplexity:.1f}", f"{recall:.1%}", "" if saved is None else f"{saved:.1%}"]
        for name, perplexity, recall, saved in measured
    ]
    return Table(("", "test perplexity", "R@3", "keystrokes saved"), "lrrr", rows(cells))


def section(file: ModelFile, sweep: SweepResults, ngrams: Sequence[NGramResults]) -> Iterator[str]:
    yield table_markdown(facts(file))
    yield table_markdown(figures(sweep, ngrams))
    typed = sweep.subject.typed_words
    yield (
        f"On the test text of {sweep.subject.corpus}, in {sweep.precision}"
        + (f"; keystrokes over its first {typed:,} words." if typed else ".")
        + f" From {', '.join(f'`results/{one.path.name}`' for one in (sweep, *ngrams))}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("results", type=Path, nargs="+")
    arguments = parser.parse_args()
    card = arguments.model.with_suffix(".md")
    before, _, rest = card.read_text(encoding="utf-8").partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        parser.error(f"{card} lacks the marks {BEGIN} and {END}")
    found = read_all(arguments.results)
    with open_model(arguments.model) as file:
        parts = [BEGIN, *section(file, found.sweeps[0], found.ngrams), END]
    card.write_text(before + "\n\n".join(parts) + after, encoding="utf-8")


if __name__ == "__main__":
    main()
