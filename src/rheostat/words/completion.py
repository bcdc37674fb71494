"""Which words of a vocabulary a keyboard may suggest, and which of them begin with what was typed.

Knows words, ids and log-probabilities; knows nothing of models, of the text before the word, or of how a word
is shown (`writing` does).

Never suggested: `<unk>`, `<eos>`, numbers, punctuation and other signs, and what no keyboard could insert as it
stands ("@-@", "property\\\\/casualty"). Prefixes match whatever their capitals and apostrophes: "ga" finds "Gary",
"Ga" finds "game".

Parts of words ("n't", "'s": Penn Treebank and WikiText write them as words) are asked for with `attach`, where a
word stands before the cursor. Without a prefix they then come beside the whole words, as "do" may go on either
way; behind a prefix, `writing.split_typed` has already told which of the two is being typed.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rheostat.text.tokenizers import PTB_NUMBER, as_tokenizer
from rheostat.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from rheostat.words.writing import attaches, matching_form

Ids: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

BLOCK = 256  # values of which only the largest is looked at first
_MASKS_KEPT = 16  # one of the largest vocabulary takes a quarter of a megabyte
_NOT_ON_A_KEYBOARD = frozenset("@\\<>|")
_JOINERS = frozenset("\u200c\u200d")  # invisible, but letters of many scripts need them


class Best(NamedTuple):
    """Words, best first; the probabilities are the model's own, not shared out among the words asked for."""

    ids: Ids
    probabilities: NDArray[np.float64]


class Completion:
    """The suggestible words of a vocabulary by prefix. Arrays it gives are shared and read-only; thread-safe."""

    def __init__(self, vocabulary: Vocabulary, tokenizer: str, excluded: Iterable[int] = ()) -> None:
        """excluded: ids of words that are not to be suggested, beside those that never are."""
        self._vocabulary = vocabulary
        self._tokenizer = as_tokenizer(tokenizer)
        self._excluded = frozenset(excluded)
        self._masks: OrderedDict[tuple[str, bool], Mask] = OrderedDict()
        self._lock = threading.Lock()

    def ids_with_prefix(self, prefix: str, *, attach: bool = False) -> Ids:
        """The ids of the words that begin with a prefix, in no particular order; for an empty one, of all."""
        return self._ids_with_form(matching_form(prefix), attach)

    def allowed_mask(self, prefix: str | None = None, *, attach: bool = False) -> Mask:
        """[V] whether a word may be suggested."""
        key = (matching_form(prefix or ""), attach)
        with self._lock:
            if key in self._masks:
                self._masks.move_to_end(key)
                return self._masks[key]
        ids = self._ids_with_form(*key)
        mask = np.zeros(len(self._vocabulary), np.bool_)
        mask[ids] = True
        mask.flags.writeable = False
        if len(ids):  # a prefix that matches nothing may be of any length: it is not kept
            self._keep(key, mask)
        return mask

    def kinds(self) -> NDArray[np.uint8]:
        """[V] 1 for a word that may be suggested, 2 for a part that attaches to the word before, 0 for the others."""
        whole, every = self.allowed_mask(), self.allowed_mask(attach=True)
        return np.where(whole, 1, np.where(every, 2, 0)).astype(np.uint8)

    def best(
        self, log_probabilities: NDArray[np.floating[Any]], prefix: str | None, k: int, *, attach: bool = False
    ) -> Best:
        """The k most probable words with a prefix, exactly; of equal ones the smaller id first.

        log_probabilities: [V], of the next word. A word of probability zero is no answer.
        """
        ids = self.ids_with_prefix(prefix or "", attach=attach)
        values = log_probabilities.take(ids)
        likely = _among_best(values, k)
        ids, values = ids[likely], values[likely]
        order = np.lexsort((ids, -values))[: max(0, k)]
        return Best(ids[order], np.exp(values[order].astype(np.float64)))

    def _ids_with_form(self, form: str, attach: bool) -> Ids:
        if not form:
            return self._all_words if attach else self._whole_words.all
        return (self._parts if attach else self._whole_words).with_form(form)

    def _keep(self, key: tuple[str, bool], mask: Mask) -> None:
        with self._lock:
            mask = self._masks.setdefault(key, mask)
            if len(self._masks) > _MASKS_KEPT:
                # Those without a prefix are asked for at every word: they stay.
                del self._masks[next(kept for kept in self._masks if kept[0])]

    @cached_property
    def _all_words(self) -> Ids:
        return _read_only(np.union1d(self._whole_words.all, self._parts.all))

    @cached_property
    def _whole_words(self) -> _Index:
        return self._index_of(attached=False)

    @cached_property
    def _parts(self) -> _Index:
        return self._index_of(attached=True)

    def _index_of(self, attached: bool) -> _Index:
        tokenizer = self._tokenizer
        return _Index(
            (matching_form(word), place)
            for place, word in enumerate(self._vocabulary.words)
            if place not in self._excluded
            and attaches(word, tokenizer) == attached
            and _is_suggestible(word, tokenizer)
        )


class _Index:
    """Ids in the order of the forms of their words."""

    def __init__(self, pairs: Iterable[tuple[str, int]]) -> None:
        ordered = sorted(pairs)
        self._ids: Ids = _read_only(np.array([place for _, place in ordered], np.int64))
        self.all: Ids = _read_only(np.sort(self._ids))  # ascending: numbers that stand in this order are read quickly
        self._forms = [form for form, _ in ordered]

    def with_form(self, form: str) -> Ids:
        length = len(form)
        first = bisect_left(self._forms, form)
        return self._ids[first : bisect_right(self._forms, form, first, key=lambda other: other[:length])]


def _among_best(values: NDArray[np.floating[Any]], k: int) -> Ids:
    """Places of the k largest values above -inf, with all that equal the last of them, and perhaps of a few others.

    Where k blocks have such a value, k values are as large as the k-th largest of the blocks' maxima. np.partition of
    all would take longer, and much longer where most are -inf: words of clusters that were not opened.
    """
    blocks = len(values) // BLOCK
    least = np.finfo(values.dtype).min
    if 0 < k <= blocks:
        maxima = values[: blocks * BLOCK].reshape(blocks, BLOCK).max(1)
        least = max(least, np.partition(maxima, blocks - k)[blocks - k])
    return np.flatnonzero(values >= least)


def _is_suggestible(word: str, tokenizer: str) -> bool:
    if word in SPECIAL_TOKENS or (tokenizer == "ptb" and word == PTB_NUMBER):
        return False
    if word.isalpha():
        return True
    return (
        any(map(str.isalpha, word))
        and _NOT_ON_A_KEYBOARD.isdisjoint(word)
        and all(character.isprintable() or character in _JOINERS for character in word)
    )


def _read_only(ids: Ids) -> Ids:
    ids.flags.writeable = False
    return ids
