"""The n-gram baseline on a corpus, measured like a model: quality, keystrokes saved, bytes and milliseconds.

Knows how the baseline replaces a `Predictor`; the n-gram model itself is in `ngram`.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rheostat.arguments import check_whole, checked
from rheostat.errors import MissingExtraError, RecipeError, RheostatError
from rheostat.measure.keystrokes import keystroke_savings
from rheostat.measure.latency import MOST_QUERIES, Queries, latency_figures, measure_latencies, opening_words
from rheostat.measure.ngram import NGramModel, estimate, write_arpa
from rheostat.measure.results import (
    KeystrokeFigures,
    LatencyFigures,
    NGramResults,
    NGramSubject,
    Provenance,
    QualityFigures,
    SplitQuality,
    check_results_target,
    write_results,
)
from rheostat.measure.texts import Text, read_text
from rheostat.metrics import MOST_TOKENS, RECALL_AT, Quality, QualityCount, perplexity, read_stream
from rheostat.recipe import read_recipe
from rheostat.tables import fill
from rheostat.text.corpus import Corpus, CorpusConfig, Split, load_corpus, load_split
from rheostat.text.vocabulary import Vocabulary
from rheostat.words.completion import Completion
from rheostat.words.writing import SPARE, Suggestion, Typed, as_context, compose, distinct, split_typed

SPLITS = ("valid", "test")
SAME_PERPLEXITY = 1e-4  # relative: kenlm reads seven digits and rounds to 32 bits

Progress = Callable[[str, float], None]


class NGramPredictor:
    """Suggestions from an n-gram model, in the form that a `Predictor` gives."""

    def __init__(self, model: NGramModel, vocabulary: Vocabulary, tokenizer: str, casing: Mapping[str, str]) -> None:
        self._model, self._vocabulary, self._tokenizer, self._casing = model, vocabulary, tokenizer, casing
        self._completion = Completion(vocabulary, tokenizer)
        self._limit = 2 * model.order  # the most words read from the end of a text; sometimes only half as many

    def suggest(self, text: str, k: int = 3) -> list[Suggestion]:
        """The k most probable words after a text of whole words."""
        return self._suggest(as_context(text, self._tokenizer, limit=self._limit), k)

    def complete(self, text: str, k: int = 3) -> list[Suggestion]:
        """The same for the text before the cursor, whose last word can be unfinished."""
        return self._suggest(split_typed(text, self._tokenizer, self._limit), k)

    def _suggest(self, typed: Typed, k: int) -> list[Suggestion]:
        context, words = self._vocabulary.encode(typed.words), self._vocabulary.words
        if typed.prefix:  # few words match, and they can be improbable, so the sorted lists do not help
            scores = self._model.log_probabilities(context)
            ids, probabilities = self._completion.best(scores, typed.prefix, k + SPARE, attach=typed.attaches)
        else:
            allowed = self._completion.allowed_mask(attach=typed.attaches)
            ids, probabilities = self._model.best(context, k + SPARE, allowed)
        found = zip(ids.tolist(), probabilities.tolist(), strict=True)
        shown = [compose(words[i], p, typed, self._casing, tokenizer=self._tokenizer) for i, p in found]
        return distinct(shown, k)


@dataclass(frozen=True)
class NGramConfig:
    """typed_words: how many words of the test text to type. check: whether to compare with kenlm."""

    order: int = 5
    queries: int = 350
    warm_up: int = 20
    typed_words: int = 2000
    check: bool = False

    def __post_init__(self) -> None:
        check_whole("queries", self.queries, 2, MOST_QUERIES)
        check_whole("warm_up", self.warm_up, 0, MOST_QUERIES)


@checked
def measure_ngram(
    recipe: str,
    *,
    data: str | None = None,
    text: str | Path | None = None,
    order: int = 5,
    queries: int = 350,
    warm_up: int = 20,
    words: int = 2000,
    check: bool = False,
    out: str | Path | None = None,
    arpa: str | Path | None = None,
    vocabulary: str | Path | None = None,
    progress: Progress = lambda label, share: None,
    on_results: Callable[[NGramResults], None] = lambda results: None,
) -> NGramResults:
    """Estimate an n-gram model on a corpus and measure it like any other model.

    recipe: of a model on the same words, by name or path. data: a folder with train, valid and test text, one text
    file, which is divided, "chat" or "talk"; the recipe's own corpus if left out. text: a text file to measure on in
    place of the test split. order: length of the longest n-grams. queries: number of timed queries. words: number of
    words of the test text to type. check: compare the test perplexity with kenlm's. out: the results file to write;
    arpa: the model, in the ARPA format. vocabulary: a file with one word and its count per line, if the model to
    compare with was trained with one. on_results: called before anything is written, so that results are not lost if
    the file cannot be written.
    """
    config = NGramConfig(order, queries, warm_up, words, check)
    target, arpa_file = (None if one is None else check_results_target(one) for one in (out, arpa))
    tables = read_recipe(recipe)
    source = data or tables.get("data")
    if not source:
        raise RecipeError("no corpus: the recipe names none; give data: a folder, 'chat' or 'talk'")
    words_as = fill(CorpusConfig, tables.get("corpus", {}), "corpus")
    words_from = None if vocabulary is None else Path(vocabulary)
    corpus = load_corpus(source, words_as, vocabulary_file=words_from, progress=progress)
    if text is not None:
        words_as = replace(words_as, parts=())  # one file, whatever the training text is made of
        held_out = load_split(text, "test", words_as, corpus.vocabulary)
        corpus = replace(corpus, name=Path(text).stem, splits={**corpus.splits, "test": held_out})
    unseen = text or corpus.divided_in or source  # of one file, the test part: the rest was trained on
    typed = read_text(str(unseen), words_as, max(config.typed_words, config.queries + config.warm_up))
    model, results = measure_on_corpus(corpus, typed, config, progress)
    on_results(results)
    if target is not None:
        write_results(target, results)
    if arpa_file is not None:
        write_arpa(model, corpus.vocabulary.words, arpa_file)
    return results


def measure_on_corpus(
    corpus: Corpus, text: Text, config: NGramConfig, progress: Progress = lambda label, share: None
) -> tuple[NGramModel, NGramResults]:
    """Estimate a model on the training text and measure it. text: the test text as typed."""
    progress("counting n-grams", 0.0)
    model = estimate(corpus.splits["train"].ids, len(corpus.vocabulary), config.order)
    qualities = {}
    for number, name in enumerate(SPLITS):

        def show(share: float, before: float = 0.1 + 0.35 * number, label: str = f"evaluating {name}") -> None:
            progress(label, before + 0.35 * share)

        qualities[name] = ngram_quality(model, corpus.splits[name], show)
    checked = _check_with_kenlm(model, corpus, qualities["test"].perplexity) if config.check else None
    predictor = NGramPredictor(model, corpus.vocabulary, corpus.tokenizer, corpus.casing)
    latency = _latency(predictor, corpus, text, config)
    saved = keystroke_savings(predictor, text, config.typed_words, progress=lambda s: progress("typing", 0.8 + 0.2 * s))
    subject = NGramSubject(
        model=f"{config.order}-gram",
        corpus=corpus.name,
        order=config.order,
        smoothing="modified Kneser–Ney",
        vocabulary_size=len(corpus.vocabulary),
        ngrams=tuple(model.counts),
        size_bytes=model.size_bytes,
        queries=config.queries,
        training_tokens=len(corpus.splits["train"].ids),
        corpus_digest=corpus.splits["train"].digest or "",
    )
    return model, NGramResults(
        provenance=Provenance.of_this_process(),
        subject=subject,
        rows=tuple(SplitQuality(split=name, **asdict(QualityFigures.of(one))) for name, one in qualities.items()),
        latency=latency,
        keystrokes=KeystrokeFigures.of(saved),
        kenlm_perplexity=checked,
    )


def ngram_quality(model: NGramModel, split: Split, progress: Callable[[float], None] = lambda share: None) -> Quality:
    """Perplexity and recall on a split, measured as for every model."""
    count, most, length = QualityCount(), max(RECALL_AT), model.order - 1

    def predict(context: list[int], tokens: NDArray[np.int64], following: NDArray[np.int64]) -> list[int]:
        found = []
        for token, word in zip(tokens.tolist(), following.tolist(), strict=True):
            context = [*context, token][-length:] if length else []
            found.append(model.rank(context, word, most))
        own, above = zip(*found, strict=True)
        count.add_ranked(np.array(own), np.array(above))
        return context

    start: list[int] = []
    read_stream(split.ids, MOST_TOKENS, start, predict, progress)
    return count.quality()


def _latency(predictor: NGramPredictor, corpus: Corpus, text: Text, config: NGramConfig) -> LatencyFigures:
    queries = Queries("n-gram", predictor, text.pieces(), opening_words(corpus.vocabulary, text))
    (turns,) = measure_latencies([queries], config.queries, config.warm_up)
    return latency_figures(turns)


def _check_with_kenlm(model: NGramModel, corpus: Corpus, found: float) -> float:
    """kenlm's test perplexity, which must be the same."""
    theirs = kenlm_perplexity(model, corpus)
    if not math.isclose(theirs, found, rel_tol=SAME_PERPLEXITY):
        raise RheostatError(
            f"the test perplexity is {found}, but kenlm finds {theirs} with the same n-grams: one of them is wrong, "
            "so nothing was written"
        )
    return theirs


def kenlm_perplexity(model: NGramModel, corpus: Corpus) -> float:
    """Test perplexity according to kenlm, as an independent check with the same n-grams."""
    try:
        import kenlm
    except ImportError as error:
        raise MissingExtraError("ngram", "Checking with kenlm", error) from None
    words = corpus.vocabulary.words
    stream = [words[i] for i in np.asarray(corpus.splits["test"].ids).tolist()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.arpa"
        write_arpa(model, words, path)
        settings = kenlm.Config()
        settings.show_progress, settings.arpa_complain = False, kenlm.ARPALoadComplain.NONE
        other = kenlm.Model(str(path), settings)
    before, after = kenlm.State(), kenlm.State()
    other.NullContextWrite(before)  # the first word is given and has no context
    loss = 0.0
    for place, word in enumerate(stream):
        score = other.BaseScore(before, word, after)
        loss -= score * math.log(10) if place else 0.0
        before, after = after, before
    return perplexity(loss / (len(stream) - 1))
