"""How far our models and updates were trained, and on how much of the paper's text: whether figures can be compared.

The owner of these sentences, which stand wherever our figures are beside the paper's. Everything comes from results
files; how weights were made is in `origins`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rheostat.measure.results import NOT_RECORDED, SweepSubject, TrainingResults
from rheostat.model.origin import Origin
from rheostat.report.evidence import CorpusEvidence, Evidence, Measurement
from rheostat.report.origins import SOURCE, UpdateRecipe, known_of, known_updates, update_recipe
from rheostat.report.published import PublishedTable, PublishedUpdateTraining, load_published

WHOLE_TEXT = 0.9  # of the paper's training tokens, which are rounded and leave out line ends
SAME_PERPLEXITY = 1e-4  # relative: a model measured again
OTHERWISE = "not on the paper's schedule"
UNKNOWN_UPDATE = "how the update was trained is not recorded"


@dataclass(frozen=True)
class Extent:
    """How far our model was trained, as far as results files say. share: of the paper's training text."""

    tokens_read: int | None = None
    steps: int | None = None
    training_tokens: int | None = None
    share: float | None = None
    path: Path | None = None  # of the training run, if the model file does not say it itself

    @property
    def passes(self) -> float | None:
        if not self.tokens_read or not self.training_tokens:
            return None
        return self.tokens_read / self.training_tokens

    @property
    def is_part(self) -> bool:
        """Whether it is known that the text was only a part of the paper's."""
        return self.share is not None and self.share < WHOLE_TEXT

    @property
    def short(self) -> str:
        """For the row of the whole model; empty if nothing is known or all of the text was read."""
        part = f"{self.share:.1%} of the text" if self.is_part else ""
        passes = f"{self.passes:.2f} passes" if self.passes is not None else ""
        return ", ".join(filter(None, (part, passes)))


def extent_of(table: PublishedTable, on: CorpusEvidence, trainings: Sequence[TrainingResults]) -> Extent:
    """From the origin of the weights; else from the training run whose model has the same test perplexity."""
    if on.reference is None or on.full is None:
        return Extent()
    counted = next((one.subject.training_tokens for one in on.ngrams if one.subject.training_tokens), None)
    theirs = next((one.train_tokens for one in load_published().setup.corpora if one.name == table.corpus), None)
    share = counted / theirs if counted and theirs else None
    weights = on.reference.subject.origins.weights
    if not isinstance(weights, str):
        return Extent(weights.get("tokens_read"), weights.get("steps"), counted, share)
    for one in trainings:
        test = one.model.test
        if test and math.isclose(test.perplexity, on.full.test_perplexity, rel_tol=SAME_PERPLEXITY):
            return Extent(one.progress.tokens, one.progress.step, counted, share, one.path)
    return Extent(None, None, counted, share)


def update_departure(on: CorpusEvidence, one: Measurement) -> str:
    """Why the update of a point says nothing about what the paper's updates do: how it was trained instead. Empty for
    the paper's own schedule, and without an update.
    """
    if not one.updated:
        return ""
    subject = on.subject_of(one)
    stored = subject.origins.points.get(one.name, NOT_RECORDED)
    if isinstance(stored, str):
        known = known_updates().get(subject.weights)
        return _departure(known.steps, known.teacher) if known else UNKNOWN_UPDATE
    origin = Origin.from_json(stored)
    if origin.recipe is None:
        return UNKNOWN_UPDATE
    recipe, table = update_recipe(origin, f"{one.path}: recipe of {one.name}"), load_published().table_of(on.corpus)
    if any(table and item.model == table.model and _follows(recipe, item) for item in load_published().setup.update):
        return ""
    return _departure(origin.steps, recipe.update.distill > 0)


def _follows(recipe: UpdateRecipe, theirs: PublishedUpdateTraining) -> bool:
    """Whether this is the paper's schedule, as far as the paper gives it, with the word alone as the target."""
    update, train = recipe.update, recipe.train
    length = (None, train.steps) if train.steps else (train.epochs, None)
    return (
        (update.what, update.distill, train.minutes) == ("update", 0.0, 0.0)
        and (train.optimizer, *length) == (theirs.optimizer, theirs.epochs, theirs.steps)
        and theirs.learning_rate in (None, train.learning_rate)
        and theirs.non_monotone_interval in (None, train.nonmonotone_interval)
    )


def _departure(steps: int | None, teacher: bool) -> str:
    return f"trained{f' for {steps:,} steps' if steps else ''}{' with a teacher' if teacher else ''}, {OTHERWISE}"


def training_sentence(table: PublishedTable, on: CorpusEvidence, trainings: Sequence[TrainingResults] = ()) -> str:
    """How far our model was trained, as files record; and whether it can be compared with the paper's."""
    if on.reference is None:
        return ""
    extent = extent_of(table, on, trainings)
    known = [
        f"{extent.steps:,} steps" if extent.steps else "",
        f"{extent.tokens_read:,} tokens read" if extent.tokens_read else "",
        f"{extent.passes:.2f} passes over its text" if extent.passes else "",
    ]
    if any(known):
        by = f" (`{extent.path.name}`, whose model has the same test perplexity)" if extent.path else ""
        sentence = f" Our model was trained for {', '.join(filter(None, known))}{by}."
    elif isinstance(on.reference.subject.origins.weights, str):
        sentence = f" How far our model was trained is not recorded in its file{_known_making(on.reference.subject)}."
    else:
        sentence = " Our model was trained for a time that is not recorded."
    if comparison := comparability(on, trainings):
        return f"{sentence} {comparison}"
    if on.ngrams and on.full:
        best = min(one.test_perplexity for one in on.ngrams)
        sentence += f" It beats n-grams of the same text: {on.full.test_perplexity:.1f} against {best:.1f}."
    return sentence


def _known_making(subject: SweepSubject) -> str:
    known = known_of(subject.origins.weights, subject.weights)
    return f"; {SOURCE} says: {known.made}" if known else ""


def comparability(on: CorpusEvidence, trainings: Sequence[TrainingResults] = ()) -> str:
    """Why our figures on this corpus should not be compared with the paper's: text, passes and n-grams.

    Empty if nothing speaks against it, or if the paper has no figures for this corpus.
    """
    table = load_published().table_of(on.corpus)
    if table is None or on.reference is None:
        return ""
    extent = extent_of(table, on, trainings)
    if on.corpus == table.corpus and not extent.is_part and on.beats_ngrams:
        return ""
    parts = []
    if on.corpus != table.corpus or extent.is_part:
        share = f"{extent.share:.1%}" if extent.share else "a part"
        passes = f", and our model read it {extent.passes:.2f} times" if extent.passes else ""
        parts.append(f"our corpus `{on.corpus}` has {share} of the training text of {table.corpus}{passes}")
    if on.ngrams and on.full:
        best = min(on.ngrams, key=lambda one: one.test_perplexity)
        theirs, ours = (f"{one.test_perplexity:.1f}" for one in (best, on.full))
        name = f"a {best.subject.model} of the same text"
        parts.append(f"{name} has a test perplexity of {theirs}, our whole model {ours}")
    reasons = "; ".join(parts)
    verdict = (
        "compare only how far a point is above its own whole model"
        if on.beats_ngrams
        else "not comparable with the paper's figures"
    )
    return f"{reasons[:1].upper()}{reasons[1:]}: {verdict}."


def comparability_on(evidence: Evidence, corpus: str) -> str:
    """The same for a corpus of these results, by its name."""
    found = (comparability(on, evidence.collection.trainings) for on in evidence.corpora if on.corpus == corpus)
    return next(found, "")
