"""The n-gram baseline on a corpus: what it predicts, what it saves, what it takes, by the measures of every model.

Knows how the baseline stands in for a `Predictor`, and what its results file holds; the model itself is in `ngram`.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rheostat.errors import MissingExtraError, RheostatError
from rheostat.measure.keystrokes import keystroke_savings
from rheostat.measure.latency import BenchConfig, Latency, Queries, measure_latencies, opening_words
from rheostat.measure.ngram import NGramModel, estimate, write_arpa
from rheostat.measure.texts import Text
from rheostat.metrics import Quality, perplexity
from rheostat.provenance import provenance
from rheostat.runtime.evaluation import stream_quality, stretch_size
from rheostat.runtime.predictor import SPARE
from rheostat.text.corpus import Corpus, Split
from rheostat.words.completion import Completion
from rheostat.words.writing import Suggestion, Typed, as_context, compose, distinct, split_typed

SPLITS = ("valid", "test")
SAME_PERPLEXITY = 1e-4  # how far another tool's may be away: it reads seven digits, and rounds to 32 bits

Progress = Callable[[str, float], None]


class NGramPredictor:
    """Suggestions of an n-gram model, as a `Predictor` gives them."""

    def __init__(self, model: NGramModel, corpus: Corpus) -> None:
        self._model, self._corpus = model, corpus
        self._completion = Completion(corpus.vocabulary, corpus.tokenizer)
        self._limit = 2 * model.order  # of a longer text as many words are read, or half of them

    def suggest(self, text: str, k: int = 3) -> list[Suggestion]:
        """The k most probable words after a text of whole words."""
        return self._suggest(as_context(text, self._corpus.tokenizer, limit=self._limit), k)

    def complete(self, text: str, k: int = 3) -> list[Suggestion]:
        """The same for a text as it stands before the cursor: its last word may be unfinished."""
        return self._suggest(split_typed(text, self._corpus.tokenizer, self._limit), k)

    def _suggest(self, typed: Typed, k: int) -> list[Suggestion]:
        context, words = self._corpus.vocabulary.encode(typed.words), self._corpus.vocabulary.words
        if typed.prefix:  # few words have it, and they may be improbable: the lists are of no use
            scores = self._model.log_probabilities(context)
            ids, probabilities = self._completion.best(scores, typed.prefix, k + SPARE, attach=typed.attaches)
        else:
            allowed = self._completion.allowed_mask(attach=typed.attaches)
            ids, probabilities = self._model.best(context, k + SPARE, allowed)
        found = zip(ids.tolist(), probabilities.tolist(), strict=True)
        casing, tokenizer = self._corpus.casing, self._corpus.tokenizer
        return distinct([compose(words[i], p, typed, casing, tokenizer=tokenizer) for i, p in found], k)


@dataclass(frozen=True)
class NGramConfig:
    """typed_words: how many words of the test text are typed for keystroke savings."""

    order: int = 5
    queries: int = 350
    warm_up: int = 20
    typed_words: int = 2000
    check: bool = False  # whether kenlm is asked too


def measure(
    corpus: Corpus, text: Text, config: NGramConfig, progress: Progress = lambda label, share: None
) -> tuple[NGramModel, dict[str, Any]]:
    """Estimate a model on the training text and measure it; with the contents of a results file."""
    progress("counting n-grams", 0.0)
    model = estimate(corpus.splits["train"].ids, len(corpus.vocabulary), config.order)
    rows = []
    for number, name in enumerate(SPLITS):

        def show(share: float, before: float = 0.1 + 0.35 * number, label: str = f"evaluating {name}") -> None:
            progress(label, before + 0.35 * share)

        rows.append({"split": name, **evaluate(model, corpus.splits[name], show).as_json()})
    checked = {"kenlm_perplexity": kenlm_perplexity(model, corpus)} if config.check else {}
    if checked and not math.isclose(checked["kenlm_perplexity"], rows[-1]["perplexity"], rel_tol=SAME_PERPLEXITY):
        raise RheostatError(
            f"the test perplexity is {rows[-1]['perplexity']}; kenlm finds {checked['kenlm_perplexity']} with the same "
            "n-grams: one of the two is wrong, so nothing was written"
        )
    predictor = NGramPredictor(model, corpus)
    latency = _latency(predictor, corpus, text, config)
    saved = keystroke_savings(predictor, text, config.typed_words, progress=lambda s: progress("typing", 0.8 + 0.2 * s))
    subject = {
        "model": f"{config.order}-gram",
        "corpus": corpus.name,
        "order": config.order,
        "smoothing": "modified Kneser–Ney",
        "vocabulary_size": len(corpus.vocabulary),
        "ngrams": model.counts,
        "size_bytes": model.size_bytes,
        "queries": config.queries,
    }
    contents = {"kind": "ngram", "subject": subject, "provenance": provenance(), "rows": rows, **checked}
    return model, {**contents, "latency": asdict(latency), "keystrokes": saved.as_json()}


def evaluate(model: NGramModel, split: Split, progress: Callable[[float], None] = lambda share: None) -> Quality:
    """Perplexity and recall on a split, by the protocol of every model."""
    context: list[int] = []
    return stream_quality(model.read, context, stretch_size(model.vocabulary_size), split.ids, progress)


def _latency(predictor: NGramPredictor, corpus: Corpus, text: Text, config: NGramConfig) -> Latency:
    queries = Queries("n-gram", predictor, text.pieces(), opening_words(corpus.vocabulary, text))
    bench = BenchConfig(queries=config.queries, warm_up=config.warm_up)
    (turns,) = measure_latencies([queries], bench, lambda label, share: None)
    return Latency.of(turns)


def kenlm_perplexity(model: NGramModel, corpus: Corpus) -> float:
    """Test perplexity as kenlm finds it: an independent reading of the same n-grams."""
    try:
        import kenlm
    except ImportError:
        raise MissingExtraError("ngram", "Checking with kenlm") from None
    words = corpus.vocabulary.words
    stream = [words[i] for i in np.asarray(corpus.splits["test"].ids).tolist()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.arpa"
        write_arpa(model, words, path)
        settings = kenlm.Config()
        settings.show_progress, settings.arpa_complain = False, kenlm.ARPALoadComplain.NONE
        other = kenlm.Model(str(path), settings)
    before, after = kenlm.State(), kenlm.State()
    other.NullContextWrite(before)  # nothing stands before the first word, which is given
    loss = 0.0
    for place, word in enumerate(stream):
        score = other.BaseScore(before, word, after)
        loss -= score * math.log(10) if place else 0.0
        before, after = after, before
    return perplexity(loss / (len(stream) - 1))
