"""Words and ids, typed text as words, and the usual spelling of words."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from corpora import data_folder
from rheostat.text.casing import casing_from_bytes, casing_to_bytes, collect_casing
from rheostat.text.tokenizers import TOKENIZERS, spellings, split_at_ascii_white_space, tokenize
from rheostat.text.vocabulary import END_OF_LINE, NUMBER, SPECIAL_TOKENS, UNKNOWN, Vocabulary

WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), min_size=1)


def words(text: str) -> str:
    return " ".join(tokenize(text, "words"))


# --- words <-> ids


def test_the_id_of_a_word_is_its_line_number() -> None:
    vocabulary = Vocabulary(("the", UNKNOWN, "cat", END_OF_LINE))
    assert len(vocabulary) == 4
    assert (vocabulary.unknown_id, vocabulary.end_id) == (1, 3)
    assert vocabulary.encode(["cat", "the", "dog", END_OF_LINE]) == [2, 0, 1, 3]


def test_stored_vocabulary_has_one_word_per_line() -> None:
    assert Vocabulary(("é", UNKNOWN, END_OF_LINE)).to_bytes() == "é\n<unk>\n<eos>".encode()


@given(st.lists(WORDS, unique=True).map(lambda some: [*dict.fromkeys([UNKNOWN, *some, END_OF_LINE])]))
@example(["\u2028", UNKNOWN, "a\x1cb", "\x85", END_OF_LINE, "\r"])
def test_vocabulary_survives_storing(some: list[str]) -> None:
    vocabulary = Vocabulary(tuple(some))
    assert Vocabulary.from_bytes(vocabulary.to_bytes()) == vocabulary
    assert Vocabulary.from_bytes(vocabulary.to_bytes() + b"\n") == vocabulary


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"<unk>\n\xff\n<eos>", "not UTF-8 at line 2"),
        (b"<unk>\nthe\nthe\n<eos>", "'the' twice, at lines 2 and 3"),
        (b"<unk>\n\n<eos>", "line 2 of the vocabulary is empty"),
        (b"<unk>\n<eos>\n\n", "line 3 of the vocabulary is empty"),
        (b"", "line 1 of the vocabulary is empty"),
        (b"the\n<eos>", "lacks <unk>"),
        (b"the\n<unk>", "lacks <eos>"),
    ],
)
def test_every_broken_vocabulary_has_its_own_message(data: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Vocabulary.from_bytes(data)


def test_a_word_with_a_newline_is_refused() -> None:
    with pytest.raises(ValueError, match="newline"):
        Vocabulary((UNKNOWN, END_OF_LINE, "a\nb"))


def test_a_quarter_of_a_million_words_load() -> None:
    data = "\n".join([UNKNOWN, END_OF_LINE, *map(str, range(267_733))]).encode()
    assert len(Vocabulary.from_bytes(data)) == 267_735


# --- raw text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See you at the Gate!", "see you at the gate !"),
        ("I can't, it's John's", "i can't , it's john's"),
        ("I can’t — really…", "i can't — really ..."),
        ("wait.. what....", "wait ... what ..."),
        ("'quoted' parents' rock'n'roll", "' quoted ' parents ' rock'n'roll"),
        ("12 3.5 1,000 1,000,000.50 7:30", "<num> <num> <num> <num> <num>"),
        ("at 7pm, 10km, 3D", "at <num> pm , <num> km , <num> d"),
        ("the 3rd of the 90s, the 80's", "the <num> of the <num> , the <num>"),
        ("$5 or 5% of 24/7", "$ <num> or <num> % of <num> / <num>"),
        ("mp3 h2o gr8", "mp3 h2o gr8"),
        ("٣ 人 12人", "<num> 人 <num> 人"),
        ("snake_case well-known a@b", "snake _ case well - known a @ b"),
        ("<unk> <eos> <num>", "< unk > < eos > < num >"),
        ("Ünïcödé ÇA İstanbul", "ünïcödé ça i̇stanbul"),
        ("हिन्दी में", "हिन्दी में"),
        ("cafe\u0301 می‌خواهم", "cafe\u0301 می‌خواهم"),
        ("co\u00adoperate\u200b \ufeff", "cooperate"),
        ("👍🏽👍 ❤️ 👨‍👩‍👧 🇩🇪🇫🇷 1️⃣", "👍🏽 👍 ❤️ 👨‍👩‍👧 🇩🇪 🇫🇷 <num>"),
        ("a\x00b\x1cc\xa0d\u2028e", "a b c d e"),
        ("", ""),
        (" \t\n", ""),
    ],
)
def test_raw_text_as_words(text: str, expected: str) -> None:
    assert words(text) == expected


@given(st.text(st.characters()))
def test_tokens_have_no_white_space_and_are_never_empty(text: str) -> None:
    for tokenizer in TOKENIZERS:
        for token in tokenize(text, tokenizer):
            assert token.split() == [token]


@given(st.text(st.characters()))
@example("ΑΣ'Α ΣΣ İI ǅ")
def test_words_stay_the_same_when_tokenised_again(text: str) -> None:
    tokens = [token for token in tokenize(text, "words") if token != NUMBER]
    assert [token for word in tokens for token in tokenize(word, "words")] == tokens


@given(st.text(st.characters()))
def test_typed_text_cannot_contain_special_tokens(text: str) -> None:
    numbers = sum(piece[0].isdecimal() for piece in spellings(text))
    tokens = tokenize(text, "words")
    assert tokens.count(NUMBER) == numbers
    assert not {UNKNOWN, END_OF_LINE} & set(tokens)


def test_an_unknown_tokenizer_is_named() -> None:
    with pytest.raises(ValueError, match="'bpe' is not known; expected one of ptb, wikitext, words"):
        tokenize("text", "bpe")


HOSTILE = [
    *(
        "a",
        "é",
        "1,",
        "1.1-",
        "1:",
        "1st",
        "a'",
        "'",
        ".",
        "-",
        "a-",
        "<unk>",
        "<",
        "\u0301",
        "é\u0301",
        "n't",
    ),
    *(
        "👨\u200d",
        "\u200d",
        "🇩",
        " ",
        "\n",
        "\\/",
        "a\\/",
        "_",
        "@-",
        "a$",
        "N.",
        "#\ufe0f\u20e3",
        "Σ",
        "\0",
        "no.",
    ),
]


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_time_is_linear_in_any_text(tokenizer: str) -> None:
    for unit in HOSTILE:
        text = unit * (300_000 // len(unit)) + "x"
        start = time.process_time()
        tokenize(text, tokenizer)
        # about 0.02 s of CPU time, but hours if it were quadratic: this detects a hang and measures nothing
        assert time.process_time() - start < 20, repr(unit)


# --- text in the form of prepared corpora


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I don't, it's we're I'll can't", "i do n't it 's we 're i 'll ca n't"),
        ("He cannot. “Really?”", "he can not really"),
        ("It fell 5% to $1.5 billion (£3,000)", "it fell N N to $ N billion # N"),
        ("Mr. Smith of the U.S. and J. P. Morgan & Co.", "mr. smith of the u.s. and j. p. morgan & co."),
        ("So do I. The end.", "so do i the end"),
        ("the funds' 30-day rate in the '80s, 1980s", "the funds ' 30-day rate in the '80s 1980s"),
        ("AT&T and 1/2 of property/casualty", "at&t and N of property\\/casualty"),
        ("No, No. 5", "no no. N"),
        ("a <unk> of N", "a <unk> of N"),
    ],
)
def test_text_in_the_form_of_penn_treebank(text: str, expected: str) -> None:
    assert " ".join(tokenize(text, "ptb")) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A role-playing game.", "A role @-@ playing game ."),
        ("1,000 and 3.5, or $14,000.50", "1 @,@ 000 and 3 @.@ 5 , or $ 14 @,@ 000 @.@ 50"),
        ("The game's players' can’t", "The game 's players ' can 't"),
        ("Mr. O'Brien of the U.S. Army (No. 5)", "Mr. O 'Brien of the U.S. Army ( No. 5 )"),
        ('"Wait..." – 94% / Media.Vision', '" Wait ... " – 94 % / Media.Vision'),
        ("a <unk> @-@ like 1 @,@ 000", "a <unk> @-@ like 1 @,@ 000"),
    ],
)
def test_text_in_the_form_of_wikitext(text: str, expected: str) -> None:
    assert " ".join(tokenize(text, "wikitext")) == expected


@pytest.mark.parametrize(
    ("folder", "file", "tokenizer", "share"),
    [("ptb", "ptb.test.txt", "ptb", 0.995), ("wikitext-2", "valid.txt", "wikitext", 0.98)],
)
def test_prepared_text_that_is_typed_stays_the_same(folder: str, file: str, tokenizer: str, share: float) -> None:
    lines = (data_folder(folder) / file).read_text(encoding="utf-8").split("\n")
    same = sum(tokenize(line, tokenizer) == split_at_ascii_white_space(line) for line in lines)
    assert same / len(lines) >= share


def test_prepared_lines_are_split_at_ascii_white_space_only() -> None:
    line = " a\u00a0b \t c\u2028d\x1ce\u3000 Don't <unk> 1,000\r"
    expected = ["a\u00a0b", "c\u2028d\x1ce\u3000", "Don't", UNKNOWN, "1,000"]
    assert split_at_ascii_white_space(line) == expected


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_prepared_lines_are_split_like_bytes(line: str) -> None:
    assert split_at_ascii_white_space(line) == [word.decode() for word in line.encode().split()]


# --- casing

CHAT = [
    "Hi, I am in London. I like it",
    "is London big? I mean London.",
    "I AM IN LONDON",
    "so I Like it",
    "I can like",
]
CHAT_WORDS = Vocabulary((*SPECIAL_TOKENS, "i", "london", "like", "is", "so", "it"))


def test_casing_is_the_usual_spelling_inside_sentences() -> None:
    # "I" begins a sentence in two of five places; for "London", the line in capitals does not count.
    assert collect_casing(CHAT + CHAT, CHAT_WORDS) == {"i": "I", "london": "London"}


def test_rare_spellings_and_words_outside_the_vocabulary_get_no_casing() -> None:
    assert collect_casing(CHAT, CHAT_WORDS) == {"london": "London"}
    assert collect_casing(["see Rome"] * 9, CHAT_WORDS) == {}


def test_casing_needs_a_majority() -> None:
    vocabulary = Vocabulary((UNKNOWN, END_OF_LINE, "may"))
    assert collect_casing(["it May", "it may"] * 5, vocabulary) == {}
    assert collect_casing(["it May", "it may"] * 5 + ["it May"], vocabulary) == {"may": "May"}


def test_memory_for_spellings_is_bounded() -> None:
    vocabulary = Vocabulary((UNKNOWN, END_OF_LINE, "a" * 12))
    wild = [f"x {''.join('aA'[number >> bit & 1] for bit in range(12))}" for number in range(4096)]
    assert collect_casing(wild, vocabulary) == {}


def test_stored_casing_has_one_spelling_per_line() -> None:
    assert casing_to_bytes({"london": "London", "i": "I"}) == b"I\nLondon"
    assert casing_from_bytes(b"I\nLondon\n") == {"i": "I", "london": "London"}
    assert casing_from_bytes(b"") == {}


@given(st.lists(WORDS))
@example(["ΑΣ", "İ", "ǅ", "ẞ", "straße"])
def test_casing_survives_storing(some: list[str]) -> None:
    casing = {spelling.lower(): spelling for spelling in some if spelling.lower() != spelling}
    assert casing_from_bytes(casing_to_bytes(casing)) == casing


def test_spellings_of_another_word_are_not_stored() -> None:
    assert casing_to_bytes({"london": "Paris", "is": "is", "rome": "Rome"}) == b"Rome"


@pytest.mark.parametrize(
    ("data", "complaint"),
    [(b"I\n\xff", "not UTF-8"), (b"I\n\nOK", "line 2"), (b"OK\nOk", "2 spellings of only 1")],
)
def test_every_broken_casing_has_its_own_message(data: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        casing_from_bytes(data)
