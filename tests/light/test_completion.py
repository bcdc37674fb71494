"""Which words of a vocabulary begin with a prefix, and the best of them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import shared_model
from rheostat.model.file import open_model
from rheostat.text.tokenizers import attaches, tokenize
from rheostat.text.vocabulary import END_OF_LINE, NUMBER, UNKNOWN, Vocabulary
from rheostat.words.completion import Completion
from rheostat.words.writing import matching_form

WORDS = st.text(st.sampled_from("abAB'’éÉßσςİ1-.@\\"), min_size=1, max_size=4)


class WordCompletion(Completion):
    """The completion of a vocabulary of these words; returns words instead of ids."""

    def __init__(self, words: tuple[str, ...], tokenizer: str) -> None:
        self.vocabulary = Vocabulary((UNKNOWN, END_OF_LINE, *words))
        super().__init__(self.vocabulary, tokenizer)


def completion(*words: str, tokenizer: str = "words") -> WordCompletion:
    return WordCompletion(words, tokenizer)


def found(own: WordCompletion, prefix: str, attach: bool = False) -> set[str]:
    return {own.vocabulary.words[place] for place in own.ids_with_prefix(prefix, attach=attach)}


def test_words_with_a_prefix_are_found() -> None:
    own = completion("game", "gap", "go", "again", "g")
    assert found(own, "ga") == {"game", "gap"}
    assert found(own, "g") == {"game", "gap", "go", "g"}
    assert found(own, "gapx") == set()
    assert found(own, "") == {"game", "gap", "go", "again", "g"}


def test_small_and_capital_letters_are_the_same() -> None:
    assert found(completion("game"), "Ga") == {"game"}
    cased = completion("game", "Game", "GA", tokenizer="wikitext")
    assert found(cased, "ga") == found(cased, "GA") == {"game", "Game", "GA"}


def test_typographic_apostrophes_are_straight_ones() -> None:
    assert found(completion("don't", "dont"), "don’") == {"don't"}


def test_tokens_that_nobody_would_type_are_never_suggested() -> None:
    own = completion(NUMBER, "a", ",", "...", "🙂")
    assert found(own, "") == {"a"}
    assert found(completion("N", "n", "mgm\\/ua", "\\*", "$", tokenizer="ptb"), "") == {"n"}
    assert found(completion("@-@", "@,@", "a", "U.S.", "\ufeff", tokenizer="wikitext"), "") == {"a", "U.S."}
    assert found(own, "<") == set()


def test_excluded_words_are_never_suggested() -> None:
    own = Completion(Vocabulary((UNKNOWN, END_OF_LINE, "good", "goods")), "words", excluded=[3])
    assert own.ids_with_prefix("goo").tolist() == [2]
    assert own.allowed_mask().tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    ("tokenizer", "parts", "alone"),
    [("ptb", {"n't", "'s"}, {"'80s", "no"}), ("wikitext", {"'t", "'Brien"}, {"'80s", "no"})],
)
def test_parts_of_words_come_only_after_words(tokenizer: str, parts: set[str], alone: set[str]) -> None:
    own = completion(*sorted(parts | alone), tokenizer=tokenizer)
    assert found(own, "") == alone
    assert found(own, "", attach=True) == alone | parts
    assert found(own, "n") == {"no"}
    assert found(own, "'", attach=True) == {part for part in parts if part.startswith("'")}


@given(st.lists(WORDS, unique=True), WORDS, st.sampled_from(["words", "ptb", "wikitext"]), st.booleans())
def test_prefixes_find_the_same_words_as_a_full_search(
    words: list[str], prefix: str, tokenizer: str, attach: bool
) -> None:
    own = completion(*words, tokenizer=tokenizer)
    form = matching_form(prefix)
    every = found(own, "", attach=True)
    assert every <= set(words)
    expected = {word for word in every if matching_form(word).startswith(form) and attaches(word, tokenizer) == attach}
    if form:
        assert found(own, prefix, attach) == expected


@given(
    st.lists(WORDS, unique=True, min_size=1),
    st.sampled_from([None, "a", "A", "ab"]),
    st.integers(0, 5),
    st.integers(0, 9),
)
def test_the_best_words_are_those_of_a_full_sort(words: list[str], prefix: str | None, k: int, seed: int) -> None:
    own = completion(*words)
    generator = np.random.default_rng(seed)
    scores = generator.integers(-3, 0, len(words) + 2).astype(np.float32)  # many are equal
    allowed = np.flatnonzero(own.allowed_mask(prefix))
    expected = sorted(allowed.tolist(), key=lambda place: (-scores[place], place))[:k]
    ids, probabilities = own.best(scores, prefix, k)
    assert ids.tolist() == expected
    np.testing.assert_allclose(probabilities, np.exp(scores[expected].astype(float)))


@pytest.mark.parametrize("known", [1.0, 0.5, 0.002, 0.0])
@pytest.mark.parametrize("k", [1, 3, 8, 40, 5000])
def test_the_best_words_are_right_even_if_most_are_unknown(known: float, k: int) -> None:
    words = ["".join(letters) for letters in product("abcdefghijklmn", repeat=3)]
    own, generator = completion(*words), np.random.default_rng(k)
    for _ in range(5):
        scores = generator.integers(-40, 0, len(words) + 2).astype(np.float32)  # many are equal
        scores[generator.random(len(scores)) >= known] = -np.inf
        wanted = [i for i in np.lexsort((np.arange(len(scores)), -scores)) if i > 1 and scores[i] > -np.inf][:k]
        assert own.best(scores, None, k).ids.tolist() == wanted


def test_masks_agree_with_ids_and_cannot_be_changed() -> None:
    own = completion("game", "gap", "n't", tokenizer="ptb")
    assert own.allowed_mask("ga").tolist() == [False, False, True, True, False]
    assert own.allowed_mask(None).tolist() == own.allowed_mask("").tolist() == [False, False, True, True, False]
    assert own.allowed_mask(None, attach=True).tolist() == [False, False, True, True, True]
    assert own.allowed_mask() is own.allowed_mask(None)
    for array in (own.allowed_mask(), own.ids_with_prefix("ga"), own.ids_with_prefix("")):
        assert not array.flags.writeable


def test_a_prefix_of_a_million_letters_matches_nothing() -> None:
    own = completion("game")
    prefix = "g" * 1_000_000
    assert not own.allowed_mask(prefix).any()
    assert not len(own.ids_with_prefix(prefix))
    assert not len(own.best(np.zeros(3, np.float32), prefix, 3)[0])


def test_typing_a_suggestion_gives_the_word_back() -> None:
    """Otherwise a model would read something other than what it suggested."""
    with open_model(shared_model()) as file:
        own, words = Completion(file.vocabulary, file.tokenizer), file.vocabulary.words
    suggested = [words[place] for place in own.ids_with_prefix("")]
    changed = [word for word in suggested if tokenize(word, "ptb") != [word]]
    assert len(suggested) > 9_900
    assert len(changed) < 20, changed
