"""From typed text to the words a model reads, and from its words to what a user sees."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rheostat.text.tokenizers import TOKENIZERS, tokenize
from rheostat.text.vocabulary import END_OF_LINE
from rheostat.words.passage import context_words, read_on, read_words
from rheostat.words.writing import (
    Suggestion,
    Typed,
    as_context,
    at_sentence_start,
    compose,
    compose_best,
    distinct,
    present,
    split_typed,
)

PIECES = [
    "a",
    "Mr.",
    "No.",
    "5",
    "N",
    "don't",
    "dogs'",
    "'s",
    "x-y",
    "1,000",
    "\n",
    " ",
    "\n\n",
    "!",
    "🙂",
    "שלום",
    "\x07",
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=150).map(" ".join)
ANYTHING = st.text(st.characters(exclude_categories=()), max_size=60)
NASTY = {
    "a megabyte of words": "hello there, " * 80_000,
    "a megabyte of lines": "hi\n" * 350_000,
    "a megabyte of one word": "a" * 1_000_000,
    "a megabyte of spaces": " " * 1_000_000,
    "a megabyte of control characters": "\x00\x1b\x07" * 330_000,
    "a megabyte of emoji": "👩‍👩‍👧" * 200_000,
    "a megabyte of combining marks": "e" + "\u0301" * 1_000_000,
    "a megabyte of apostrophes": "'" * 1_000_000,
    "a megabyte of numbers": "No. 5 " * 170_000,
    "right to left": "שלום עולם " * 100_000,
    "half characters": "\ud800 \udc00" * 300_000,
}


def everything(text: str, tokenizer: str) -> list[str]:
    """All words of a text in the form of the corpora: an `<eos>` for the line before, and one for each line end."""
    words = [END_OF_LINE]
    for place, line in enumerate(text.split("\n")):
        if place and not (tokenizer == "words" and words[-1] == END_OF_LINE):
            words.append(END_OF_LINE)
        words += tokenize(line, tokenizer)
    return words


# --- reading: text -> words


def test_a_text_begins_after_an_end_of_line() -> None:
    assert context_words("", "words") == [END_OF_LINE]
    assert context_words("See you", "words") == [END_OF_LINE, "see", "you"]


def test_line_ends_are_read_and_blank_lines_as_in_the_corpora() -> None:
    assert context_words("hi\n\nyou\n", "words") == [END_OF_LINE, "hi", END_OF_LINE, "you", END_OF_LINE]
    assert context_words("hi\n\nyou\n", "wikitext") == [END_OF_LINE, "hi", END_OF_LINE, END_OF_LINE, "you", END_OF_LINE]


@given(st.one_of(TEXTS, ANYTHING), st.sampled_from(TOKENIZERS))
@example("x " * 127 + "No. 5", "ptb")  # a block would end after "No."
@example("x " * 126 + "y No. 5", "wikitext")
def test_a_text_within_the_limit_is_read_as_a_whole(text: str, tokenizer: str) -> None:
    assert context_words(text, tokenizer) == everything(text, tokenizer)


@given(TEXTS, st.sampled_from(TOKENIZERS), st.integers(1, 40))
def test_a_long_text_is_read_from_its_last_words(text: str, tokenizer: str, limit: int) -> None:
    words = context_words(text, tokenizer, limit)
    every = everything(text, tokenizer)
    assert len(words) <= limit
    assert every[len(every) - len(words) :] == words


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("word", ["word", "a", "incomprehensibilities", "🙂"])
def test_at_least_a_quarter_of_the_limit_is_read_of_a_long_text(tokenizer: str, word: str) -> None:
    for count in range(1000, 1100):
        if tokenizer == "ptb" and word == "🙂":  # it ignores signs
            continue
        assert len(context_words(f"{word} " * count, tokenizer, 64)) >= 16


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("word", ["word", "a", "incomprehensible"])
def test_reading_starts_at_the_same_place_while_a_long_text_grows(tokenizer: str, word: str) -> None:
    text, before, moves = "", [END_OF_LINE], 0
    for number in range(600):
        text += f"{word}{number} "
        for typed in (split_typed(text, tokenizer, 64), split_typed(text + "x", tokenizer, 64)):
            moves += typed.words[: len(before)] != before
            before = typed.words
    assert 0 < moves <= 600 / 16


@pytest.mark.parametrize("text", NASTY.values(), ids=NASTY.keys())
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_any_text_is_read_in_bounded_time(text: str, tokenizer: str) -> None:
    """Tests how much is read, which needs no clock."""
    typed = split_typed(text, tokenizer)
    assert len(typed.words) <= 512
    assert len(typed.prefix) <= len(typed.word) <= 600
    assert len(as_context(text, tokenizer).words) <= 512
    at_sentence_start(text)


@given(st.one_of(TEXTS, ANYTHING), st.sampled_from(TOKENIZERS))
def test_words_and_prefix_are_all_of_the_text(text: str, tokenizer: str) -> None:
    typed = split_typed(text, tokenizer)
    assert text.endswith(typed.word + " " * typed.space)
    assert typed.word.endswith(typed.prefix)
    if not typed.prefix:
        assert typed.words == everything(text, tokenizer)


GROWING = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([*PIECES, "", "No.", "t", "\t", "it's"])), max_size=60)


@given(GROWING, st.sampled_from(TOKENIZERS), st.integers(1, 40), st.booleans())
@example([(0, "No."), (0, " "), (0, "5")], "ptb", 20, False)
@example([(0, "hi"), (0, "\n"), (0, "\n"), (0, "you")], "words", 20, False)
def test_a_text_that_grows_or_shrinks_is_read_as_from_the_start(
    steps: list[tuple[int, str]], tokenizer: str, limit: int, letters: bool
) -> None:
    """Keeps the words of the last passage by themselves, as a history keeps its node."""
    text, passage, before = "", None, list[str]()
    for removed, added in steps:
        text = text[: len(text) - removed] + added
        growth = read_on(passage, text, len(text), "t" if letters else "", tokenizer, limit)
        words = [*(before if growth.follows else ()), *growth.words]
        assert words == read_words(text, len(text), "t" if letters else "", tokenizer, limit)
        passage = growth.passage
        before = words[: (len(before) if growth.follows else 0) + growth.passed] if passage else []


def test_a_text_that_grew_by_a_word_is_not_read_from_the_start() -> None:
    text = "see you at the gate " * 30
    growth = read_on(None, text, len(text), "", "words", 512)
    assert not growth.follows
    for word in ("and", "then", "we", "go"):
        text += f"{word} "
        growth = read_on(growth.passage, text, len(text), "", "words", 512)
        assert growth.follows
        assert len(growth.words) <= 2


# --- reading: the word being typed


@pytest.mark.parametrize(
    ("tokenizer", "text", "words", "prefix"),
    [
        ("words", "see you at the ga", "see you at the", "ga"),
        ("words", "see you at the ", "see you at the", ""),
        ("words", "see you!", "see you !", ""),
        ("words", 'he said "he', 'he said "', "he"),
        ("words", "I don", "i", "don"),
        ("words", "I don'", "i", "don'"),
        ("words", "I don’t", "i", "don’t"),
        ("words", "well-kn", "well -", "kn"),
        ("words", "'he", "'", "he"),
        ("words", "at 7:3", "at", "3"),
        ("words", "one\ntw", f"one {END_OF_LINE}", "tw"),
        ("words", "naïve cafe\u0301", "naïve", "cafe\u0301"),
        ("words", "مرحبا بال", "مرحبا", "بال"),
        ("words", "🙂", "🙂", ""),
        ("wikitext", "a role-pl", "a role @-@", "pl"),
        ("wikitext", "a role-", "a role -", ""),
        ("wikitext", "the U.S", "the", "U.S"),
        ("wikitext", "1,0", "1 @,@", "0"),
        ("wikitext", "I don't", "I don", "'t"),
        ("wikitext", "O'Br", "O", "'Br"),
        ("ptb", "a long-t", "a", "long-t"),
        ("ptb", "a long-", "a", "long-"),
        ("ptb", "the u.s", "the", "u.s"),
        ("ptb", "I don'", "i do", "n'"),
        ("ptb", "I DON'T", "i do", "N'T"),
        ("ptb", "the man'", "the man", "'"),
        ("ptb", "it'l", "it", "'l"),
        ("ptb", "Mr. O'Br", "mr.", "O'Br"),
        ("ptb", "costs $5", "costs $", "5"),
    ],
)
def test_the_unfinished_word_is_the_prefix(tokenizer: str, text: str, words: str, prefix: str) -> None:
    typed = split_typed(text, tokenizer)
    assert (" ".join(typed.words[1:]), typed.prefix) == (words, prefix)


def test_the_words_read_stay_the_same_while_a_word_is_typed() -> None:
    for tokenizer in TOKENIZERS:
        read = [split_typed("the long-t"[:end], tokenizer).words for end in range(5, 9)]
        assert all(words == read[0] for words in read), tokenizer


def test_a_text_given_as_context_has_no_unfinished_word() -> None:
    assert as_context("see you at the", "words").words == [END_OF_LINE, "see", "you", "at", "the"]
    typed = as_context("see you at the", "words", prefix="ga")
    assert (typed.words, typed.prefix) == ([END_OF_LINE, "see", "you", "at", "the"], "ga")


# --- showing: words -> text


@pytest.mark.parametrize("text", [
    "", " ", "Hi.", "Hi. ", "Hi! ", "Hi?! ", "Hi\n", 'He said "Hi." ', "Hi. (",
    "Well... ", "Well.... ", "- ", "\n“", "I did. So did I. ", "好。",
])  # fmt: skip
def test_sentences_begin_here(text: str) -> None:
    assert at_sentence_start(text)


@pytest.mark.parametrize("text", [
    "Hi", "Hi ", "Hi, ", "Mr. ", "the U.S. ", "at 5 p.m. ", "J. ", "see: ", "he (", "a - ", "Hi 🙂 ", "x\ny ",
])  # fmt: skip
def test_sentences_do_not_begin_here(text: str) -> None:
    assert not at_sentence_start(text)


CASING = {"london": "London", "iphone": "iPhone", "ok": "OK", "mcdonald's": "McDonald's"}


@pytest.mark.parametrize(
    ("word", "prefix", "shown"),
    [
        ("game", "", "game"),
        ("game", "ga", "game"),
        ("game", "Ga", "Game"),
        ("game", "G", "Game"),
        ("game", "GA", "GAME"),
        ("game", "gA", "gAme"),
        ("london", "", "London"),
        ("london", "lon", "London"),
        ("london", "LON", "LONDON"),
        ("iphone", "iPh", "iPhone"),
        ("iphone", "Ip", "IPhone"),
        ("android", "aND", "aNDroid"),
        ("mcdonald's", "McD", "McDonald's"),
        ("ok", "", "OK"),
        ("i", "", "I"),
        ("i'm", "", "I'm"),
        ("i'm", "i’", "I'm"),
        ("in", "", "in"),
        ("straße", "STR", "STRASSE"),
    ],
)
def test_words_are_shown_with_their_capitals(word: str, prefix: str, shown: str) -> None:
    assert present(word, CASING, tokenizer="words", prefix=prefix) == shown


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("game", "Game"),
        ("iphone", "iPhone"),
        ("i", "I"),
        ("'80s", "'80s"),
        ("élan", "Élan"),
        ("ǆep", "ǅep"),
        ("🙂", "🙂"),
    ],
)
def test_the_first_word_of_a_sentence_has_a_capital(word: str, shown: str) -> None:
    assert present(word, CASING, tokenizer="words", at_sentence_start=True) == shown


def test_a_model_that_keeps_case_is_shown_as_it_is() -> None:
    assert present("i", {}, tokenizer="wikitext") == "i"
    assert present("Game", {}, tokenizer="wikitext", prefix="ga") == "Game"
    assert present("game", {}, tokenizer="wikitext", prefix="GA") == "GAME"


@given(ANYTHING, ANYTHING.filter(bool), st.booleans())
def test_anything_can_be_shown(prefix: str, word: str, start: bool) -> None:
    shown = present(word, {}, tokenizer="words", at_sentence_start=start, prefix=prefix)
    assert shown.casefold() == word.casefold() or shown.lower() != word.lower()
    assert shown


def accept(text: str, word: str, tokenizer: str) -> str:
    return compose(word, 0.5, split_typed(text, tokenizer), CASING, tokenizer=tokenizer).insert_into(text)


@pytest.mark.parametrize(
    ("tokenizer", "text", "word", "after"),
    [
        ("words", "see you at the ga", "game", "see you at the game"),
        ("words", "see you at the ", "game", "see you at the game"),
        ("words", "See you! ", "when", "See you! When"),
        ("words", "See you!", "when", "See you! When"),
        ("words", "", "hello", "Hello"),
        ("words", 'she said "', "hello", 'she said "hello'),
        ("words", 'she said "no"', "and", 'she said "no" and'),
        ("words", "well-", "known", "well-known"),
        ("words", "well-kn", "known", "well-known"),
        ("words", "I don’", "don't", "I don’t"),
        ("ptb", "I do ", "n't", "I don't"),
        ("ptb", "I do ", "it", "I do it"),
        ("ptb", "I don'", "n't", "I don't"),
        ("ptb", "DO ", "n't", "DON'T"),
        ("ptb", "i ", "'m", "I'm"),
        ("ptb", "it’", "'s", "it’s"),
        ("ptb", "the market  ", "'s", "the market's"),
        ("wikitext", "I don ", "'t", "I don't"),
        ("wikitext", "Mr. O'Br", "'Brien", "Mr. O'Brien"),
        ("wikitext", "a role-pl", "playing", "a role-playing"),
    ],
)
def test_suggestions_are_inserted_with_the_right_spaces(tokenizer: str, text: str, word: str, after: str) -> None:
    assert accept(text, word, tokenizer) == after


@pytest.mark.parametrize("text", ["", "Hi. ", "Hi\n", "(", "Hi, "])
def test_parts_of_words_attach_to_words_only(text: str) -> None:
    assert not split_typed(text, "ptb").attaches
    assert split_typed("do ", "ptb").attaches


def test_a_suggestion_can_be_inserted_after_a_text_without_a_trailing_space() -> None:
    typed = as_context("see you at the", "words")
    assert compose("game", 0.5, typed, {}, tokenizer="words").insert_into("see you at the") == "see you at the game"


def test_suggestions_that_look_the_same_are_merged() -> None:
    typed = Typed([END_OF_LINE], starts_sentence=True)
    both = [compose(word, p, typed, {}, tokenizer="wikitext") for word, p in (("An", 0.4), ("The", 0.3), ("the", 0.2))]
    assert [(s.word, round(s.probability, 6)) for s in distinct(both, 3)] == [("The", 0.5), ("An", 0.4)]
    assert distinct(both, 1)[0].word == "The"
    assert distinct([], 3) == []


def test_a_suggestion_has_a_source() -> None:
    assert Suggestion("same", 0.21) == Suggestion("same", 0.21, source="model", replaces=0)


WORDS = ("i", "i'm", "game", "gary", "n't", "'s", "the", "Game", "été", "iphone")


@given(
    words=st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from([0.5, 0.25, 0.125, 0.0625])), max_size=8),
    prefix=st.sampled_from(["", "g", "G", "GA", "don’", "é", "i'"]),
    attaches=st.booleans(),
    starts_sentence=st.booleans(),
    tokenizer=st.sampled_from(TOKENIZERS),
    k=st.integers(1, 8),
)
def test_the_best_words_are_composed_as_single_ones_are(
    words: list[tuple[str, float]], prefix: str, attaches: bool, starts_sentence: bool, tokenizer: str, k: int
) -> None:
    typed = Typed([], prefix, "do" + prefix, attaches, 0, starts_sentence)
    casing = {"gary": "Gary", "iphone": "iPhone"}
    one_by_one = [compose(word, p, typed, casing, tokenizer=tokenizer) for word, p in words]
    assert compose_best(words, typed, casing, k, tokenizer=tokenizer) == distinct(one_by_one, k)
