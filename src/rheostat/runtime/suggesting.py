"""From a text to suggestions, at one operating point: completing, correcting, and the words of the user.

Knows the words of a model and of its user, and how reading, completing, explaining, remembering and presenting fit
together; each has its own module. Which point answers is decided by `turning`.
"""

from __future__ import annotations

from collections.abc import Container
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rheostat.arguments import check_whole
from rheostat.errors import NotCopyable
from rheostat.model.file import ModelFile
from rheostat.runtime.arguments import LARGEST_K
from rheostat.runtime.engine import Reading
from rheostat.runtime.points import Serving
from rheostat.runtime.reading import Reader
from rheostat.text.vocabulary import SPECIAL_TOKENS
from rheostat.words.completion import BestWords, complete_without, single
from rheostat.words.hidden_words import HiddenWords
from rheostat.words.user_words import UserWords
from rheostat.words.writing import (
    LONGEST_WORD,
    SPARE,
    Suggestion,
    Typed,
    compose_best,
    distinct,
    find_typed,
    matching_form,
)

if TYPE_CHECKING:
    from rheostat.core.word_tree import TypedWord
    from rheostat.runtime.explaining import Explainer, Keys, Taps
    from rheostat.runtime.remembering import Corrections, Mixed, WordPlaces
    from rheostat.words.memory import Memory


class Lexicon(NotCopyable):
    """The words of one model and its user: which may be suggested, and how they are written.

    All predictors of a model share it. slips: whether letters may have been typed wrong.
    """

    def __init__(
        self,
        file: ModelFile,
        user_words: UserWords,
        hidden_words: HiddenWords,
        context: int,
        slips: bool,
        memory: Memory | None,
    ) -> None:
        self.user_words, self.slips, self.memory = user_words, slips, memory
        self.vocabulary, self.tokenizer, self.casing = file.vocabulary, file.tokenizer, file.casing
        self.is_lazy = bool(file.shape.softmax_splits)
        self.has_look_alikes = self.tokenizer == "wikitext"  # "game" and "Game" are two words of such a model
        self.unknown = single(self.vocabulary.unknown_id)
        self.completion = complete_without(self.vocabulary, self.tokenizer, hidden_words, file.hidden_words)
        self.known_words: Container[str] = file.known_words or ()
        self.reader = Reader(self.vocabulary, self.tokenizer, context)

    @cached_property
    def explainer(self) -> Explainer:
        from rheostat.runtime.explaining import Explainer  # here, since `suggest` does without it

        return Explainer(self.completion, self.vocabulary, self.known_words)

    @cached_property
    def corrections(self) -> Corrections:
        """What was corrected automatically, for the memory."""
        from rheostat.runtime.remembering import Corrections  # here, since only a memory needs it

        return Corrections()

    def is_own(self, typed: Typed) -> bool:
        """Whether this is a word that only the user can have meant: a taught one, or one that is never suggested.

        A misspelling is not: nobody means to write it. "well-known" is taught as a whole.
        """
        place = self.vocabulary.index.get(matching_form(typed.prefix))
        is_hidden = place is not None and not self.completion.allowed_mask()[place]
        is_meant = is_hidden and place not in self.completion.misspelt
        return is_meant or any(map(self.user_words.knows, (typed.prefix, typed.word)))

    def is_correct(self, word: str) -> bool:
        """Whether a word is correct, as far as is known: taught, of the vocabulary, with an ending, or a known word.

        A hidden word is not: more often than not, it is a slip.
        """
        from rheostat.words.slips import is_inflected  # here, since `suggest` does without it

        form, index = matching_form(word), self.vocabulary.index
        if word in SPECIAL_TOKENS or self.user_words.knows(form):
            return True
        if (place := index.get(word)) is not None:
            return bool(self.completion.allowed_mask(attach=True)[place])
        return is_inflected(form, index) or form in self.known_words

    def named(self, best: BestWords) -> list[tuple[str, float]]:
        """The most probable words by their names."""
        names = self.vocabulary.words
        return [(names[place], probability) for place, probability in best]


class Suggester(NotCopyable):
    """The suggestions of one predictor, at whichever point serves it."""

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._last_mixed: Mixed | None = None
        self._places: WordPlaces | None = None

    def suggest(self, serving: Serving, typed: Typed, text: str, end: int, letter: str, k: int) -> list[Suggestion]:
        """The k most probable words. letter: after the words that end at `end` (see `passage.read_words`)."""
        if type(k) is not int or not 1 <= k <= LARGEST_K:
            check_whole("k", k, 1, LARGEST_K)
        lexicon = self._lexicon
        # A lazy output layer may open more clusters for every further word: spare words are requested only if needed.
        wanted = k + (SPARE if lexicon.has_look_alikes and not lexicon.is_lazy else 0)
        mask = None if typed.prefix else lexicon.completion.allowed_mask(attach=typed.attaches)
        reading, best = lexicon.reader.read(serving, text, end, letter, wanted, mask)
        if lexicon.memory is not None and (mixed := self._mixed(serving, reading, text, end, letter)):
            return self._remembered(mixed, serving, reading, typed, k)
        if best is None:
            best = self._best(serving, reading, typed, wanted, mask)
        found = compose_best(lexicon.named(best), typed, lexicon.casing, wanted, tokenizer=lexicon.tokenizer)
        if len(found) < k and len(best) == wanted:  # some of them look the same
            best = self._best(serving, reading, typed, k + SPARE, mask)
            found = compose_best(lexicon.named(best), typed, lexicon.casing, k + SPARE, tokenizer=lexicon.tokenizer)
        taught = self._taught(serving, reading, typed, k) if len(lexicon.user_words) else None
        return distinct([*found, *taught], k) if taught else found[:k]

    def complete(self, serving: Serving, text: str, k: int, taps: Taps | None, layout: str) -> list[Suggestion]:
        """The k most probable words for a text whose last word may be unfinished."""
        lexicon, explainer = self._lexicon, self._lexicon.explainer
        typed, end, letter = find_typed(text, lexicon.tokenizer)
        keys = explainer.keys(layout, taps, typed.prefix)
        if lexicon.slips and not typed.attaches and explainer.can_explain(typed.prefix):
            if type(k) is not int or not 1 <= k <= LARGEST_K:
                check_whole("k", k, 1, LARGEST_K)
            return self._explain(serving, typed, text, end, letter, k, keys)
        return self.suggest(serving, typed, text, end, letter, k)

    def correct(
        self, serving: Serving, text: str, k: int, taps: Taps | None, layout: str, slips: bool
    ) -> list[Suggestion]:
        """What the last word of a text may have been meant to be, now that it is finished; best first.

        slips: as of the lexicon; a memory looks for slips in any case.
        """
        check_whole("k", k, 1, LARGEST_K)
        lexicon, explainer = self._lexicon, self._lexicon.explainer
        typed, end, letter = find_typed(text, lexicon.tokenizer)
        keys = explainer.keys(layout, taps, typed.prefix)
        if not typed.prefix:
            return []
        can_slip = slips and not typed.attaches and explainer.can_explain(typed.prefix)
        if not can_slip or lexicon.is_own(typed):
            return [Suggestion(typed.prefix, 1.0, "model", len(typed.prefix), "typed", 1.0, True)]
        return self._explain(serving, typed, text, end, letter, k, keys, finished=True)

    def _best(
        self, serving: Serving, reading: Reading, typed: Typed, k: int, mask: NDArray[np.bool_] | None
    ) -> BestWords:
        if mask is not None:
            return serving.engine.best(reading, k, mask=mask)
        candidates = self._lexicon.completion.candidates(typed.prefix, attach=typed.attaches)
        return serving.engine.best(reading, k, candidates=candidates)

    def _remembered(self, mixed: Mixed, serving: Serving, reading: Reading, typed: Typed, k: int) -> list[Suggestion]:
        """The best words with the memory's share, and those that only the memory or the user knows."""
        lexicon = self._lexicon
        best = lexicon.completion.best(mixed.scores, typed.prefix, k + SPARE, attach=typed.attaches).pairs()
        found = compose_best(lexicon.named(best), typed, lexicon.casing, k + SPARE, tokenizer=lexicon.tokenizer)
        own = [] if typed.attaches and typed.prefix else mixed.suggestions(typed.prefix, k)
        own += self._taught(serving, reading, typed, k) if len(lexicon.user_words) else []
        return distinct([*found, *own], k)

    def _mixed(self, serving: Serving, reading: Reading, text: str, end: int, letter: str, *more: str) -> Mixed | None:
        """The probabilities with the memory's share; None without a memory, or while it is empty.

        more: words after the text.
        """
        memory = self._lexicon.memory
        if memory is None or not len(memory):
            return None
        words = [*self._lexicon.reader.words_before(text, end, letter), *more]
        mixed = self._last_mixed
        if mixed is None or not mixed.is_for(reading, words, memory.version):
            from rheostat.runtime.remembering import Mixed, WordPlaces

            self._places = self._places or WordPlaces(self._lexicon.vocabulary)
            mixed = self._last_mixed = Mixed(serving.engine, reading, self._places, memory, words)
        return mixed

    def _explain(
        self,
        serving: Serving,
        typed: Typed,
        text: str,
        end: int,
        letter: str,
        k: int,
        keys: Keys,
        finished: bool = False,
    ) -> list[Suggestion]:
        """The words that best explain what was typed, with what was typed among them."""
        lexicon, explainer, reader = self._lexicon, self._lexicon.explainer, self._lexicon.reader
        reading, _ = reader.read(serving, text, end, letter, 1, None)
        mixed = self._mixed(serving, reading, text, end, letter)
        word = explainer.begin(serving.engine, reading, mixed)
        if word is None:
            return self.suggest(serving, typed, text, end, letter, k)

        def after(first: str) -> TypedWord | None:
            reading = reader.read_words(serving, [*reader.words_before(text, end, letter), first])
            return explainer.begin(serving.engine, reading, self._mixed(serving, reading, text, end, letter, first))

        wanted = k + (SPARE if lexicon.has_look_alikes else 1)
        form = matching_form(typed.prefix)
        found, literal = explainer.explain(word, form, wanted, keys, after, finished, mixed)
        casing, tokenizer = lexicon.casing, lexicon.tokenizer
        if finished:
            before = text[max(0, end - LONGEST_WORD) : end]
            return explainer.compose(
                found, literal, typed, casing, k, tokenizer=tokenizer, finished=True, before=before
            )
        own = self._taught(serving, reading, typed, k) if len(lexicon.user_words) else []
        own += [one for one in mixed.suggestions(typed.prefix, k) if one.word != form] if mixed else []
        return explainer.compose(found, literal, typed, casing, k, tokenizer=tokenizer, own=own)

    def _taught(self, serving: Serving, reading: Reading, typed: Typed, k: int) -> list[Suggestion]:
        """The user's own words: the best is as probable as an unknown word, older and rarer ones less."""
        words = self._lexicon.user_words.with_prefix(typed.prefix, k)
        if not words or (typed.attaches and typed.prefix):
            return []
        ((_, unknown),) = serving.engine.best(reading, 1, candidates=self._lexicon.unknown)
        first = words[0].score
        return [
            Suggestion(word.word, unknown * 2.0 ** (word.score - first), "user", len(typed.prefix)) for word in words
        ]
