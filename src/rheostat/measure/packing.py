"""A changed copy of a model file: another precision or default ranking, fewer points, hidden words, a measured curve.

The edits themselves are in `model.contents`. This module is in `measure` because it can store what a sweep measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rheostat.arguments import checked
from rheostat.errors import RheostatError
from rheostat.measure.results import SweepResults, read_sweep_of
from rheostat.measure.results.sweep import family_of
from rheostat.model.contents import (
    Contents,
    convert,
    drop_points,
    drop_rankings,
    keep_points,
    keep_upper_planes,
    set_default_ranking,
)
from rheostat.model.contents import drop_reconstruction as without_reconstruction
from rheostat.model.file import ModelFile, open_model
from rheostat.model.knob import PATH
from rheostat.model.names import HIDDEN, KNOWN
from rheostat.model.ordered import order_filters
from rheostat.model.path import has_bounds
from rheostat.model.precision import StoredPrecision
from rheostat.model.summary import summarize
from rheostat.model.writer import check_target, write_model
from rheostat.text.corpus import CorpusConfig, load_split
from rheostat.text.known_words import KnownWords, select_known
from rheostat.text.vocabulary import Vocabulary
from rheostat.words.hidden_words import Halves, find_joined, find_misspellings, read_word_list
from rheostat.words.slips import is_inflected


@checked
def pack(
    model: str | Path,
    out: str | Path,
    *,
    precision: StoredPrecision | None = None,
    default_ranking: str | None = None,
    points: Sequence[str] | None = None,
    drop_points: Sequence[str] = (),
    drop_rankings: Sequence[str] = (),
    results: str | Path | None = None,
    order: bool = False,
    bits: int | None = None,
    drop_reconstruction: bool = False,
    drop_counts: bool = False,
    word_lists: Sequence[str | Path] = (),
    misspellings: str | Path | None = None,
    known_words: Sequence[str | Path] = (),
    data: str | Path | None = None,
) -> dict[str, Any]:
    """Write a changed copy of a model file to `out`, and return its summary, as `summarize` does.

    precision: "fp32", "fp16" or "int8"; None keeps it. points: the only ones to keep, in this order; None keeps all.
    results: the results file of a sweep of this model, whose curve is stored for the keyboard page. order: put the
    filters in the order of the default ranking, and store the path of the knob. bits: 4 keeps the upper planes of an
    ordered int8 file only, and answers as the knob at 4 bits. drop_reconstruction: leave out the reconstruction and the
    points that need it. drop_counts: leave out the counts. word_lists: lists of correct words; misspellings of frequent
    words that none of them has are stored as hidden: they stay readable and are never suggested. misspellings: a list
    of words to hide as well. known_words: lists of correct words; those that the vocabulary does not have are stored as
    known, in place of what the file has, and are not corrected. Words that only word_lists have are then rare, and some
    are hidden as misspellings after all. data: the training corpus, to count words in.
    Everything else stays as it is; weights whose precision does not change keep their bytes.
    """
    check_target(out)
    with open_model(model) as source:
        contents = _edited(source.contents(), precision, default_ranking, points, drop_points, drop_rankings)
        contents = without_reconstruction(contents) if drop_reconstruction else contents
        contents = contents if results is None else _with_curve(contents, read_sweep_of(source, Path(results)))
        if drop_counts:
            contents = replace(contents, counts=None)
        if word_lists or misspellings is not None:
            contents = _with_hidden(contents, _hidden(source, word_lists, misspellings, known_words, data))
        if known_words:
            contents = _with_known(contents, _known(source, known_words))
        contents = order_filters(contents) if order else contents
        write_model(out, contents if bits is None else _in_bits(contents, bits))
    with open_model(Path(out).absolute()) as packed:  # a bare name could be that of a bundled model
        return summarize(packed)


def _in_bits(contents: Contents, bits: int) -> Contents:
    if bits not in (4, 8):
        raise RheostatError(f"bits is {bits!r}; expected 4, for the upper planes alone, or 8, for what the file has")
    if bits > contents.bits:
        raise RheostatError("the file has 4 bits, and 8 were asked for; expected a file of 8 bits: pack the original")
    return keep_upper_planes(contents) if bits == 4 else contents


def _edited(
    contents: Contents,
    precision: StoredPrecision | None,
    default_ranking: str | None,
    points: Sequence[str] | None,
    dropped_points: Sequence[str],
    dropped_rankings: Sequence[str],
) -> Contents:
    if precision is not None:
        contents = convert(contents, precision)
    if default_ranking is not None:
        contents = set_default_ranking(contents, default_ranking)
    if points is not None:
        contents = keep_points(contents, points)
    return drop_points(drop_rankings(contents, dropped_rankings), dropped_points)


def _hidden(
    file: ModelFile,
    word_lists: Sequence[str | Path],
    misspellings: str | Path | None,
    known_words: Sequence[str | Path],
    data: str | Path | None,
) -> list[str]:
    """The words of the vocabulary to hide, in the order of their ids."""
    listed = frozenset() if misspellings is None else read_word_list(Path(misspellings))
    hidden = {word for word in file.vocabulary.words if word in listed}
    if word_lists:
        if data is None:
            raise RheostatError("a word list needs the training corpus, to count words in; give it as data")
        known, common = _words_of(word_lists), _words_of(known_words)
        ids = load_split(data, "train", CorpusConfig(tokenizer=file.tokenizer), file.vocabulary).ids
        numbers = np.bincount(ids, minlength=len(file.vocabulary)).tolist()
        counts = dict(zip(file.vocabulary.words, numbers, strict=True))
        pairs = _count_pairs(ids, file.vocabulary, {halves for _, halves in find_joined(counts, known)})
        hidden |= set(find_misspellings(counts, known, file.casing, pairs, known - common if common else ()))
    return [word for word in file.vocabulary.words if word in hidden]


def _words_of(lists: Sequence[str | Path], *, keep_case: bool = False) -> frozenset[str]:
    return frozenset[str]().union(*(read_word_list(Path(path), keep_case=keep_case) for path in lists))


def _count_pairs(ids: NDArray[np.integer[Any]], vocabulary: Vocabulary, pairs: Iterable[Halves]) -> dict[Halves, int]:
    """How often each of these pairs of words occurs in a text."""
    size, index = len(vocabulary), vocabulary.index
    keys = {index[first] * size + index[second]: (first, second) for first, second in pairs}
    numbers = ids.astype(np.int64)
    text = numbers[:-1] * size + numbers[1:]
    found, counts = np.unique(text[np.isin(text, list(keys))], return_counts=True)
    return {keys[key]: count for key, count in zip(found.tolist(), counts.tolist(), strict=True)}


def _with_hidden(contents: Contents, words: Sequence[str]) -> Contents:
    others = {name: array for name, array in contents.words.items() if name != HIDDEN}
    stored = {HIDDEN: np.frombuffer("\n".join(words).encode(), np.uint8)} if words else {}
    return replace(contents, words=others | stored)


def _known(file: ModelFile, lists: Sequence[str | Path]) -> KnownWords:
    """The words of these lists that the vocabulary does not have. With an ending, it need not: that costs even less."""
    listed = _words_of(lists, keep_case=True)
    vocabulary = file.vocabulary.index
    words = [word for word in select_known(listed, vocabulary) if not is_inflected(word, vocabulary)]
    if not words:
        raise RheostatError(
            "the lists of known words have no word that the vocabulary lacks; expected some: check them"
        )
    return KnownWords.of(words)


def _with_known(contents: Contents, known: KnownWords) -> Contents:
    return replace(contents, words={**contents.words, KNOWN: np.frombuffer(known.to_bytes(), np.uint8)})


def _with_curve(contents: Contents, results: SweepResults) -> Contents:
    """The contents with what a sweep measured along the path or the default ranking in their provenance."""
    criteria = {ranking.name: ranking.criterion for ranking in contents.rankings}
    along = PATH if has_bounds(contents.knob_path) else criteria.get(contents.default_ranking or "", "")
    family = family_of(along, along != PATH and contents.reconstruction is not None)
    curve = results.test_figures(family)
    return replace(contents, provenance={**contents.provenance, "curve": [asdict(one) for one in curve]})
