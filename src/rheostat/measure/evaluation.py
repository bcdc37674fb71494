"""Quality of a model at one operating point on a text: perplexity, recall and, on request, keystroke savings.

Knows which texts to measure and how to describe a result; the arithmetic is in `runtime.evaluation` and `metrics`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rheostat.arguments import checked
from rheostat.errors import CorpusError, OperatingPointError, RheostatWarning
from rheostat.measure.keystrokes import KeystrokeCount, keystroke_savings
from rheostat.measure.results.sweep import TEST, TEXT
from rheostat.measure.texts import read_text
from rheostat.metrics import Quality
from rheostat.model import knob as knob_positions
from rheostat.model.file import ModelFile, open_model
from rheostat.model.precision import Precision
from rheostat.runtime.engine import Cache, EngineName
from rheostat.runtime.evaluation import RuntimeEvaluator
from rheostat.runtime.predictor import Predictor
from rheostat.text.corpus import CorpusConfig, Split, load_split
from rheostat.text.sources import divide, is_named
from rheostat.text.token_cache import hash_text, open_cache

TYPED_WORDS = 2000

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Evaluation:
    """Quality at one point. ranking: what the point was cut by; None for the whole model and for a stored point.

    split: "text" for a single file. engine: what ran the model. keystrokes: None if no typing was simulated.
    """

    model: str
    split: str
    precision: Precision
    engine: EngineName
    point: str
    ranking: str | None
    flops_fraction: float
    cost: float
    quality: Quality
    keystrokes: KeystrokeCount | None = None

    @property
    def served_by(self) -> str:
        """What was measured, in words."""
        by = self.ranking is not None and not self.is_on_path
        return f"{self.point}, by the ranking {self.ranking}" if by else self.point

    @property
    def is_on_path(self) -> bool:
        """Whether the knob changed bits as well as widths."""
        return self.cost != self.flops_fraction

    def as_json(self) -> dict[str, Any]:
        where = {"point": self.point, "ranking": self.ranking, "split": self.split}
        typing = {"keystrokes": self.keystrokes.as_json()} if self.keystrokes else {}
        found = {**self.quality.as_json(), "flops_fraction": self.flops_fraction, "cost": self.cost}
        by = {"precision": self.precision, "engine": self.engine}
        return {**found, **where, **by, "model": self.model, **typing}


@checked
def evaluate(
    model: str | Path,
    *,
    data: str | Path,
    split: str | None = None,
    knob: float = 1.0,
    criterion: str | None = None,
    ranking: str | None = None,
    point: str | None = None,
    precision: Precision = "fp32",
    threads: int = 0,
    keystrokes: bool = False,
    words: int = TYPED_WORDS,
    engine: EngineName | None = None,
    counts: bool = True,
    cache: Cache | None = None,
    progress: Progress = lambda label, share: None,
) -> Evaluation:
    """Measure perplexity and recall of a model on a text, at any knob position.

    data: a folder with train, valid and test text, one text file, "chat" or "talk". split: of a folder; "test" if
    left out. criterion, ranking, point: cut by these instead of what the knob serves. keystrokes: also simulate typing
    the first words of the test text. threads, engine, counts, cache: as for `load`. progress: label, share done.
    """
    if keystrokes and (criterion or ranking):
        raise OperatingPointError(
            "keystrokes are counted at the knob's own point; leave out the criterion and the ranking"
        )
    with open_model(model) as file:
        chosen = knob_positions.choose(file, knob, criterion=criterion, ranking=ranking, point=point)
        ((name, text),) = read_splits(file, data, None if split is None else [split], [TEST], progress).items()
        evaluator = RuntimeEvaluator(file, precision, threads, engine, counts, cache)
        quality = evaluator.quality(chosen, text.ids, lambda share: progress("evaluating", share))
    saved = None
    if keystrokes:
        options: dict[str, Any] = {"engine": evaluator.engine, "counts": counts, "cache": cache}
        predictor = Predictor(model, knob, point=point, precision=precision, threads=threads, **options)
        typed = read_text(str(data), predictor.tokenizer, words)
        saved = keystroke_savings(predictor, typed, words, progress=lambda share: progress("typing", share))
    return Evaluation(
        model=str(model),
        split=name,
        precision=precision,
        engine=evaluator.engine,
        point=chosen.name,
        ranking=chosen.ranking,
        flops_fraction=chosen.flops_fraction,
        cost=chosen.cost,
        quality=quality,
        keystrokes=saved,
    )


def read_splits(
    file: ModelFile,
    data: str | Path,
    wanted: Sequence[str] | None,
    default: Sequence[str],
    progress: Progress = lambda label, share: None,
) -> dict[str, Split]:
    """The texts to measure on, as ids in a model's vocabulary. A single file is one split, called "text"."""
    config = CorpusConfig(tokenizer=file.tokenizer)

    def read(split: str, label: str) -> Split:
        return load_split(data, split, config, file.vocabulary, progress=lambda _, share: progress(label, share))

    if is_single_text(data):
        if wanted:
            raise CorpusError(
                f"{data} is one text file, which has no split {' or '.join(wanted)}; "
                "leave out the split, or give a folder with train, valid and test text"
            )
        _warn_of_training_text(file, Path(data))
        return {TEXT: read(TEST, f"reading {Path(data).name}")}
    return {name: read(name, f"reading {name}") for name in wanted or default}


def is_single_text(data: str | Path) -> bool:
    return not is_named(data) and Path(data).is_file()


def _warn_of_training_text(file: ModelFile, text: Path) -> None:
    """Warn if the model was trained on this file: most of it is then training text."""
    corpus = file.description.provenance.get("corpus")
    if not isinstance(corpus, dict) or not corpus.get("split_rule") or file.origin.corpus_digest is None:
        return  # not trained on a single file, or not recorded
    try:
        parts = divide(text)
    except CorpusError:
        return  # too short to have been divided
    if hash_text(parts.paths["train"], open_cache(), None) == file.origin.corpus_digest:
        warnings.warn(
            f"the model was trained on most of {text.name}, so these figures are too good; for the held-out part, "
            f"name the folder {parts.folder}",
            RheostatWarning,
            stacklevel=3,
        )
