"""The parts of a model's card that are not typed by hand: its figures, and the text that it was trained on.

python benchmarks/card.py src/rheostat/bundled/chat.safetensors results/talk-path.json [results of baselines …]
python benchmarks/card.py models/talk-base-fp16.safetensors results/talk-training.json

Replaces what is between the marks of the card beside the model file. Figures come from the model file and from results
files: a sweep, whose n-gram baselines of the same text come below it, or the curve of a training run. Those of another
training text are left out. A model that was trained on a corpus of several parts also needs the marks of the training
text: its card must have the source, licence and attribution of each part, and the names of those of the corpus "talk"
that were not there.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rheostat.measure.results import NGramResults, SweepResults, TrainingResults, read_all
from rheostat.measure.results.files import Collection
from rheostat.model.file import ModelFile, open_model
from rheostat.model.knob import PATH
from rheostat.model.origin import Origin
from rheostat.report.document import Table, rows, table_markdown
from rheostat.text.mixture import talk_parts
from rheostat.text.sources import TALK

FIGURES = ("<!-- figures: written by benchmarks/card.py -->", "<!-- end of figures -->")
TRAINING_TEXT = ("<!-- training text: written by benchmarks/card.py -->", "<!-- end of training text -->")
STATED = ("source", "licence", "attribution")


class CardError(Exception):
    """What a user can fix, in one line."""


def facts(file: ModelFile) -> Table:
    """What the file says about itself."""
    description, shape = file.description, file.shape
    recipe, provenance = description.recipe, description.provenance
    texts, smallest = provenance["corpus"]["splits"], recipe["train"]["graded"]
    known = file.known_words
    share = "cost" if recipe.get("graded", {}).get("bits") else "FLOPs"
    cells = [
        ["file", f"{file.file_bytes / 1e6:.2f} MB, weights in {file.precision}"],
        ["shape", f"{shape.cell}, layers {', '.join(map(str, shape.hidden_sizes))}, embedding {shape.embedding_size}"],
        ["vocabulary", f"{shape.vocabulary_size:,} words"],
        ["parameters, FLOPs per query", f"{shape.parameters:,}, {shape.flops:,}"],
        ["text", ", ".join(f"{name} {split['tokens']:,} tokens" for name, split in texts.items())],
        ["unknown words in the test text", f"{texts['test']['unknown_rate']:.1%}"],
        ["misspellings hidden, other words known", f"{len(file.hidden_words):,}, {known.count if known else 0:,}"],
        ["seeds", f"text {recipe['corpus']['seed']}, training {recipe['train']['seed']}"],
        ["graded down to", f"{smallest:.0%} of the {share}" if smallest else "not graded: only whole, no knob"],
        ["last command", f"`{provenance['command']}`"],
        ["commit, date", f"{provenance['commit']}, {provenance['date']}"],
    ]
    return Table(("", ""), "ll", rows(cells))


def figures(sweep: SweepResults, ngrams: Sequence[NGramResults]) -> Table:
    """Quality on the whole test text, at every knob position and for the n-grams."""
    along = PATH if PATH in sweep.criteria else sweep.criteria[0]
    measured = [
        (f"knob at {p.cost:.0%}", p.perplexity, p.recall_at_3, p.keystrokes_saved_share)
        for p in sweep.test_figures(along)
    ]
    measured += [
        (one.name, one.test_perplexity, one.test_recall, one.keystrokes.keystrokes_saved_share) for one in ngrams
    ]
    cells = [
        [name, f"{perplexity:.1f}", f"{recall:.1%}", "" if saved is None else f"{saved:.1%}"]
        for name, perplexity, recall, saved in measured
    ]
    return Table(("", "test perplexity", "R@3", "keystrokes saved"), "lrrr", rows(cells))


def training_figures(file: ModelFile, training: TrainingResults) -> Table:
    """How far a run went, and what it reached."""
    done, model = training.progress, training.model
    passes = done.tokens / file.description.provenance["corpus"]["splits"]["train"]["tokens"]
    ended = "finished" if done.finished else "not finished"
    cells = [["trained", f"{done.step:,} steps, {done.seconds / 3600:.1f} hours, {ended}"]]
    cells += [["tokens read", f"{done.tokens / 1e6:.1f} million, {passes:.2f} passes over the training text"]]
    for name, quality in (("validation", model.valid), ("test", model.test)):
        if quality:
            cells += [[f"{name} text", f"perplexity {quality.perplexity:.1f}, R@3 {quality.recall_at_3:.1%}"]]
    return Table(("", ""), "ll", rows(cells))


def figure_section(file: ModelFile, found: Collection) -> Iterator[str]:
    yield table_markdown(facts(file))
    for training in found.trainings:
        yield table_markdown(training_figures(file, training))
        rounded = f"Measured on the weights before they were rounded to {file.precision}."
        yield f"{rounded} From `results/{training.path.name}`."
    for sweep in found.sweeps[:1]:
        yield table_markdown(figures(sweep, found.ngrams))
        typed = sweep.subject.typed_words
        yield (
            f"On the test text of {sweep.subject.corpus}, in {sweep.precision}"
            + (f"; keystrokes over its first {typed:,} words." if typed else ".")
            + f" From {', '.join(f'`results/{one.path.name}`' for one in (sweep, *found.ngrams))}."
        )


def training_parts(file: ModelFile) -> list[Mapping[str, Any]]:
    """The parts of all texts that the weights were trained on, with what must be said about each.

    Those of the last run, and of the runs whose weights it started from. A recipe of an earlier version, or one that
    only names "talk", has no attributions: they are those of the recipe `talk`.
    """
    known = {part.name: {key: getattr(part, key) for key in STATED} for part in talk_parts()}
    found: dict[str, Mapping[str, Any]] = {}
    for recipe in (file.description.recipe, *recipes_of(file.origin)):
        for part in recipe.get("corpus", {}).get("parts", ()):
            stated = part if part.get("attribution") else {**part, **known.get(part["name"], {})}
            if not (stated.get("attribution") and stated.get("licence")):
                raise CardError(f"the part {part['name']} has no attribution or licence; add both to its recipe")
            found.setdefault(part["name"], stated)
    return list(found.values())


def recipes_of(origin: Origin | None) -> Iterator[Mapping[str, Any]]:
    while origin is not None:
        if origin.recipe:
            yield origin.recipe
        origin = origin.before


def text_section(parts: Sequence[Mapping[str, Any]], corpus: str) -> Iterator[str]:
    cells = [
        [part["name"], f"{part['weight']:g}", part["source"], part["licence"], part["attribution"]] for part in parts
    ]
    head = ("part", "weight", "source", "licence", "attribution")
    yield table_markdown(Table(head, "lrlll", rows(cells)))
    yield "The weight is how often one pass reads the part."
    read = {part["name"] for part in parts}
    if corpus == TALK and (missing := [part.name for part in talk_parts() if part.name not in read]):
        yield (
            f"Not read, because their files were missing: {', '.join(missing)}. What is said about them elsewhere on "
            "this card does not apply."
        )


def of_same_text(found: Collection, file: ModelFile) -> Collection:
    """Without n-gram models of another text than the model was trained on; each is named."""
    same = [one for one in found.ngrams if one.counted_text_of(file)]
    for one in found.ngrams:
        if one not in same:
            print(f"{one.path}: counted another text than the model was trained on; left out", file=sys.stderr)
    return replace(found, ngrams=tuple(same))


def replaced(card: str, marks: tuple[str, str], paragraphs: Iterator[str]) -> str:
    """The card with these paragraphs between the marks."""
    begin, end = marks
    before, _, rest = card.partition(begin)
    _, mark, after = rest.partition(end)
    if not mark:
        raise CardError(f"the card lacks the marks {begin} and {end}; add them where the text belongs")
    return before + "\n\n".join([begin, *paragraphs, end]) + after


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("results", type=Path, nargs="+")
    arguments = parser.parse_args()
    path = arguments.model.with_suffix(".md")
    found = read_all(arguments.results)
    try:
        with open_model(arguments.model) as file:
            section = figure_section(file, of_same_text(found, file))
            card = replaced(path.read_text(encoding="utf-8"), FIGURES, section)
            if parts := training_parts(file):
                corpus = file.description.provenance["corpus"]["name"]
                card = replaced(card, TRAINING_TEXT, text_section(parts, corpus))
    except CardError as error:
        parser.error(f"{path}: {error}")
    path.write_text(card, encoding="utf-8")


if __name__ == "__main__":
    main()
