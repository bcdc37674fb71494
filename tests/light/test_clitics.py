"""The clitic rules are defined once; the tokenizers, typed text and the page follow them."""

from __future__ import annotations

import pytest

from rheostat.text.tokenizers import CLITICS, NEGATED, PTB_CLITICS, attaches, clitic_length, ptb_clitic, tokenize
from rheostat.words.writing import split_typed


@pytest.mark.parametrize("clitic", PTB_CLITICS)
def test_a_clitic_is_a_separate_token_and_attaches(clitic: str) -> None:
    word = f"could{clitic}"
    assert tokenize(word, "ptb") == ["could", clitic]
    assert ptb_clitic(word) == clitic and attaches(clitic, "ptb")
    assert not attaches("could", "ptb") and not attaches(clitic, "words")


@pytest.mark.parametrize("stem", sorted(NEGATED))
def test_after_a_negated_verb_the_negation_is_being_typed(stem: str) -> None:
    typed = split_typed(f"they {stem}n'", "ptb")
    assert typed.prefix == "n'" and typed.attaches and typed.words[-1] == stem


@pytest.mark.parametrize("clitic", CLITICS)
def test_the_beginning_of_a_clitic_is_its_prefix(clitic: str) -> None:
    for length in range(1, len(clitic) + 1):
        assert clitic_length("they" + clitic[:length], "ptb") == length


def test_raw_text_has_no_clitics() -> None:
    assert clitic_length("don't", "words") == 0 and tokenize("don't", "words") == ["don't"]


def test_wikitext_splits_at_every_apostrophe() -> None:
    assert clitic_length("don't", "wikitext") == 2 and attaches("'Brien", "wikitext") and not attaches("'", "wikitext")
