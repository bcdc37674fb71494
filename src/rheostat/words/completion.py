"""Which words of a vocabulary may be suggested, and which of them begin with the typed letters.

Knows words, ids and log-probabilities; knows nothing about models, the text before the word, or how a word is shown
(see `writing`).

Never suggested: `<unk>`, `<eos>`, numbers, punctuation and other signs, and tokens that nobody would type ("@-@",
"property\\\\/casualty"). Prefixes match regardless of capitals and of the kind of apostrophe: "ga" finds "Gary", "Ga"
finds "game".

Clitics ("n't", "'s": see `text.tokenizers`) are included with `attach`, if there is a word right before the cursor.
Without a prefix they compete with whole words, because "do" can continue either way. With a prefix,
`writing.split_typed` has already decided which of the two is being typed.
"""

from __future__ import annotations

import sys
import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rheostat.errors import NotCopyable
from rheostat.text.tokenizers import PTB_NUMBER, as_tokenizer, attaches
from rheostat.text.vocabulary import SPECIAL_TOKENS, Vocabulary
from rheostat.words.hidden_words import HiddenWords, hidden_places
from rheostat.words.writing import matching_form

Numbers: TypeAlias = NDArray[np.int32]
Ids: TypeAlias = Numbers
BestWords: TypeAlias = list[tuple[int, float]]  # ids and probabilities, best first
Mask: TypeAlias = NDArray[np.bool_]

WHOLE, PART = 1, 2  # kinds of words: whole words, and parts that attach to the word before
BLOCK = 256  # values per block; at first only the largest value of each block is looked at
_MASKS_KEPT = 16  # one takes a quarter of a megabyte for the largest vocabulary
_NOT_ON_A_KEYBOARD = frozenset("@\\<>|")
_JOINERS = frozenset("\u200c\u200d")  # invisible, but many scripts need them inside words


class Candidates:
    """Some of the numbers of an index, for Python as an array and for C as an address, which is valid as long as this
    is kept. Nothing is copied.
    """

    __slots__ = ("_all", "_first", "address", "count")

    def __init__(self, numbers: Numbers, first: int, last: int, address: int) -> None:
        self._all, self._first, self.count = numbers, first, last - first
        self.address = address + first * numbers.itemsize

    @property
    def numbers(self) -> Numbers:
        return self._all[self._first : self._first + self.count]


class PrefixIndex:
    """Numbers sorted by the forms of their words. It never changes, so several threads can read it."""

    def __init__(self, pairs: Iterable[tuple[str, int]]) -> None:
        """pairs: the form of a word (`writing.matching_form`), and its number."""
        ordered = sorted(pairs)
        self.forms = [form for form, _ in ordered]
        self.numbers: Numbers = np.array([number for _, number in ordered], np.int32)
        self.all: Numbers = np.sort(self.numbers)  # ascending: arrays indexed in this order are read quickly
        self.numbers.flags.writeable = self.all.flags.writeable = False

        self._address: int = self.numbers.__array_interface__["data"][0]

    def with_prefix(self, form: str) -> Numbers:
        """The numbers of all words whose form begins with `form`, in the order of their forms."""
        first, last = self._range(form)
        return self.numbers[first:last]

    def candidates(self, form: str) -> Candidates:
        """The same."""
        return Candidates(self.numbers, *self._range(form), self._address)

    def _range(self, form: str) -> tuple[int, int]:
        first = bisect_left(self.forms, form)
        if not form:
            return 0, len(self.forms)
        following = ord(form[-1]) + 1  # the next form of the same length: all that begin with this one sort before it
        if following > sys.maxunicode:
            length = len(form)
            return first, bisect_right(self.forms, form, first, key=lambda other: other[:length])
        return first, bisect_left(self.forms, form[:-1] + chr(following), first)


def single(number: int) -> Candidates:
    """One number, as candidates."""
    numbers = np.array([number], np.int32)
    return Candidates(numbers, 0, 1, numbers.__array_interface__["data"][0])


class Best(NamedTuple):
    """Words, best first, with the model's own probabilities (not renormalised over these words)."""

    ids: NDArray[np.integer[Any]]
    probabilities: NDArray[np.float64]

    def pairs(self) -> BestWords:
        return list(zip(self.ids.tolist(), self.probabilities.tolist(), strict=True))


class Completion(NotCopyable):
    """The suggestible words of a vocabulary by prefix. The arrays it returns are shared and read-only; thread-safe."""

    def __init__(
        self, vocabulary: Vocabulary, tokenizer: str, excluded: Iterable[int] = (), misspelt: Iterable[int] = ()
    ) -> None:
        """Ids of further words that are never suggested. misspelt: those of them that nobody means to write."""
        self._vocabulary = vocabulary
        self._tokenizer = as_tokenizer(tokenizer)
        self.misspelt = frozenset(misspelt)
        self._excluded = self.misspelt.union(excluded)
        self._masks: OrderedDict[tuple[str, bool], Mask] = OrderedDict()
        self._without_prefix: list[Mask | None] = [None, None]  # by `attach`
        self._lock = threading.Lock()

    def ids_with_prefix(self, prefix: str, *, attach: bool = False) -> Ids:
        """The ids of the words that begin with a prefix, in no particular order; all ids for an empty prefix."""
        return self._ids_with_form(matching_form(prefix), attach)

    def candidates(self, prefix: str, *, attach: bool = False) -> Candidates:
        """The same for a prefix that is not empty, without touching the ids."""
        return (self._parts if attach else self._whole_words).candidates(matching_form(prefix))

    def allowed_mask(self, prefix: str | None = None, *, attach: bool = False) -> Mask:
        """[V] whether a word may be suggested."""
        if not prefix and (mask := self._without_prefix[attach]) is not None:  # every word needs these
            return mask
        key = (matching_form(prefix or ""), attach)
        with self._lock:
            if key in self._masks:
                self._masks.move_to_end(key)
                return self._masks[key]
        if not prefix:
            return self._mask_without_prefix(attach)
        ids = self._ids_with_form(*key)
        mask = np.zeros(len(self._vocabulary), np.bool_)
        mask[ids] = True
        mask.flags.writeable = False
        if len(ids):  # a prefix that matches nothing is not kept: it can have any length
            self._keep(key, mask)
        return mask

    def _mask_without_prefix(self, attach: bool) -> Mask:
        """Needs no index, so the first suggestion does without one."""
        words, tokenizer = self._vocabulary.words, self._tokenizer
        # Nearly all words are letters alone and may be suggested; only the others have to be looked at.
        mask = np.fromiter(map(str.isalpha, words), np.bool_, len(words))
        for place in [*np.flatnonzero(~mask).tolist(), *self._vocabulary.encode([PTB_NUMBER])]:
            word = words[place]
            mask[place] = (attach or not attaches(word, tokenizer)) and _is_suggestible(word, tokenizer)
        mask[list(self._excluded)] = False
        mask.flags.writeable = False
        self._without_prefix[attach] = mask
        return mask

    def kinds(self) -> NDArray[np.uint8]:
        """[V] WHOLE for a word that may be suggested, PART for one that attaches to the word before, 0 otherwise."""
        whole, every = self.allowed_mask(), self.allowed_mask(attach=True)
        return np.where(whole, WHOLE, np.where(every, PART, 0)).astype(np.uint8)

    def whole_words(self) -> tuple[list[str], Ids]:
        """The forms of all words but clitics, sorted, and their ids."""
        return self._whole_words.forms, self._whole_words.numbers

    def best(
        self, log_probabilities: NDArray[np.floating[Any]], prefix: str | None, k: int, *, attach: bool = False
    ) -> Best:
        """The k most probable words with a prefix, by log p of every word [V]."""
        return most_probable(log_probabilities, self.ids_with_prefix(prefix or "", attach=attach), k)

    def _ids_with_form(self, form: str, attach: bool) -> Ids:
        if not form:
            return self._all_words if attach else self._whole_words.all
        return (self._parts if attach else self._whole_words).with_prefix(form)

    def _keep(self, key: tuple[str, bool], mask: Mask) -> None:
        with self._lock:
            mask = self._masks.setdefault(key, mask)
            if len(self._masks) > _MASKS_KEPT:
                self._masks.popitem(last=False)

    @cached_property
    def _all_words(self) -> Ids:
        return _read_only(np.flatnonzero(self.allowed_mask(attach=True)).astype(np.int32))

    @cached_property
    def _whole_words(self) -> PrefixIndex:
        return self._index_of(attached=False)

    @cached_property
    def _parts(self) -> PrefixIndex:
        return self._index_of(attached=True)

    def _index_of(self, attached: bool) -> PrefixIndex:
        tokenizer = self._tokenizer
        return PrefixIndex(
            (matching_form(word), place)
            for place, word in enumerate(self._vocabulary.words)
            if place not in self._excluded
            and attaches(word, tokenizer) == attached
            and _is_suggestible(word, tokenizer)
        )


def most_probable(log_probabilities: NDArray[np.floating[Any]], ids: NDArray[np.integer[Any]], k: int) -> Best:
    """The k most probable of these words, exactly; of equal ones the smaller id comes first.

    log_probabilities: [V], of the next word. Words of probability zero are left out.
    """
    values = log_probabilities.take(ids)
    likely = _among_best(values, k)
    ids, values = ids[likely], values[likely]
    order = np.lexsort((ids, -values))[: max(0, k)]
    return Best(ids[order], np.exp(values[order].astype(np.float64)))


def _among_best(values: NDArray[np.floating[Any]], k: int) -> NDArray[np.int64]:
    """Indices of the k largest values above -inf, of all values equal to the last of them, and perhaps a few others.

    If k blocks have such a value, at least k values reach the k-th largest of the blocks' maxima. np.partition of all
    values would be slower, and much slower if most of them are -inf (words of closed clusters).
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


def complete_without(
    vocabulary: Vocabulary, tokenizer: str, hidden_words: HiddenWords, misspellings: Iterable[str]
) -> Completion:
    """The words that may be suggested: without hidden words and the misspellings that a model file lists."""
    hidden = hidden_places(vocabulary, hidden_words)
    misspelt = {vocabulary.index[word] for word in misspellings if word in vocabulary.index}
    return Completion(vocabulary, tokenizer, hidden, misspelt.difference(hidden))
