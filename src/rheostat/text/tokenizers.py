"""Splitting typed text into the words that a model was trained on.

Knows characters; knows nothing of ids, files, corpora or models. Every function takes linear time for any text: no
regular expression below scans a run of characters more than once.

Three tokenizers:

    ptb        Penn Treebank as prepared by Mikolov: lower case, numbers are N, no punctuation, "do n't", "it 's"
    wikitext   WikiText: case kept, punctuation separate, "role @-@ playing", "1 @,@ 000", "don 't"
    words      raw text of any language: lower case, apostrophes inside words, numbers are <num>

Only typographic apostrophes, the ellipsis and invisible characters are normalised: "é" as one character and "é" as two
are different words. Languages written without spaces are not segmented.

Clitics are parts of words that prepared corpora write as separate words: "do n't", "it 's", "don 't". They are listed
only here. Raw text (the tokenizer "words") has none: it keeps them inside words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Literal, cast, get_args

from rheostat.text.vocabulary import NUMBER

Tokenizer = Literal["ptb", "wikitext", "words"]

TOKENIZERS: tuple[str, ...] = get_args(Tokenizer)

PTB_NUMBER = "N"

NEGATION = "n't"
CLITICS = ("'s", "'re", "'ve", "'ll", "'d", "'m")
PTB_CLITICS = (NEGATION, *CLITICS)
# What can follow a separate apostrophe in prepared text: the endings, and the second halves of "n't" and "'n'".
AFTER_APOSTROPHE = (*(clitic[1:] for clitic in CLITICS), "t", "n")
# Words before "n't" in Penn Treebank: "ca n't", "wo n't". Someone who typed "can'" can only be typing "can't".
NEGATED = frozenset([
    "ai", "are", "ca", "could", "did", "do", "does", "had", "has", "have", "is", "might", "must", "need",
    "should", "was", "were", "wo", "would",
])  # fmt: skip


def as_tokenizer(name: str) -> Tokenizer:
    """The name of a tokenizer, as found in a file or a recipe; ValueError if it does not exist."""
    if name not in TOKENIZERS:
        raise ValueError(f"the tokenizer {name!r} is not known; expected one of {', '.join(TOKENIZERS)}")
    return cast(Tokenizer, name)


# str.split() would also split at these, but in pre-tokenised corpora some of them are parts of words.
_OTHER_WHITE_SPACE = re.compile("[\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")

_BETWEEN_ASCII_WHITE_SPACE = re.compile(r"[^ \t\n\r\v\f]+")

_DOTS = re.compile(r"\.\.+")
FOLDED_CHARACTERS = {
    "’": "'", "ʼ": "'", "＇": "'", "…": "...",
    "\u00ad": "", "\u200b": "", "\u2060": "", "\ufeff": "",  # invisible, not part of any word
}  # fmt: skip
_FOLDING = str.maketrans(FOLDED_CHARACTERS)
ABBREVIATIONS = frozenset([
    "mr", "mrs", "ms", "dr", "st", "jr", "sr", "prof", "rev", "gen", "col", "lt", "sgt", "capt", "adm", "gov",
    "rep", "sen", "sens", "messrs", "inc", "corp", "co", "cos", "ltd", "bros", "cie", "vs", "etc", "nos",
    "jan", "feb", "aug", "sept", "oct", "nov", "dec", "ala", "ariz", "calif", "colo", "conn", "fla", "ga",
    "ill", "ind", "kan", "ky", "mass", "md", "mich", "minn", "neb", "nev", "okla", "ore", "pa", "tenn", "va",
    "wash", "wis", "op", "pp",
])  # fmt: skip

# In Penn Treebank, "5 %" is "N N" and "£ 5" is "# N".
PTB_SIGNS = {"$": "$", "#": "#", "&": "&", "£": "#", "%": PTB_NUMBER}

_PTB_NUMERIC = re.compile(r"[\d.,:/-]+")

_WIKITEXT_PARTS = re.compile(r"(?<=\d)[.,](?=\d)|[-/&:,]|'?(?:[^-/&:,'.]|(?<!\d)\.|\.(?!\d))+")
WIKITEXT_JOINTS = {"-": "@-@", ",": "@,@", ".": "@.@"}  # how a sign inside a word is written there


def split_at_ascii_white_space(text: str) -> list[str]:
    """Split at spaces, tabs and line ends only; U+00A0, U+2028 and the like are parts of words."""
    if text.isascii() and text.isprintable():
        return text.split()
    return _BETWEEN_ASCII_WHITE_SPACE.findall(text) if _OTHER_WHITE_SPACE.search(text) else text.split()


def tokenize(text: str, tokenizer: str) -> list[str]:
    """Typed text as the words that a model with this tokenizer was trained on, without `<eos>`.

    A line end is ordinary white space: callers that want an `<eos>` there split the text into lines first.
    """
    return _TOKENIZE[as_tokenizer(tokenizer)](text)


def spellings(text: str) -> list[str]:
    """Raw text as the pieces of the "words" tokenizer, with words and numbers in their original spelling."""
    text = fold(text)
    if "_" in text:  # regular expressions count it as a letter
        text = text.replace("_", " _ ")
    if ".." in text:
        text = _DOTS.sub(" ... ", text)
    return _raw_pattern(_marks_for(text)).findall(text)


def fold(text: str) -> str:
    """Replace typographic apostrophes and ellipses with plain ones, and remove invisible characters."""
    return text if text.isascii() else text.translate(_FOLDING)


def _tokenize_raw(text: str) -> list[str]:
    if text.isalpha() and text.isascii():  # most pieces of a text; the first suggestion often needs no pattern
        return [text.lower()]
    # Lower-casing each piece, not the whole text, makes the result match the keys of the casing.
    return [NUMBER if piece[0].isdecimal() else piece.lower() for piece in spellings(text)]


def _prepared_pieces(text: str) -> list[tuple[str, str, str, str]]:
    text = fold(text)
    return _prepared_pattern(_marks_for(text)).findall(text)


def _tokenize_ptb(text: str) -> list[str]:
    tokens: list[str] = []
    for part, word, stop, sign in _prepared_pieces(text):
        if word:
            tokens += _ptb_words(word, stop)
        elif part:
            tokens.append(part.lower())
        elif sign in PTB_SIGNS:
            tokens.append(PTB_SIGNS[sign])
    return tokens


def _ptb_words(word: str, stop: str) -> Iterator[str]:
    if _PTB_NUMERIC.fullmatch(word) or word == PTB_NUMBER:
        yield PTB_NUMBER
        return
    word = word.lower()
    if word == "cannot":
        yield from ("can", "not")
        return
    clitic = ptb_clitic(word)
    if stem := word.removesuffix(clitic):
        yield stem.replace("\\", "").replace("/", "\\/") + (stop if _is_abbreviation(stem) and not clitic else "")
    if clitic:
        yield clitic


def _tokenize_wikitext(text: str) -> list[str]:
    tokens: list[str] = []
    for part, word, stop, sign in _prepared_pieces(text):
        if not word:
            tokens.append(part or sign)
            continue
        pieces = _WIKITEXT_PARTS.findall(word)
        tokens += [WIKITEXT_JOINTS.get(piece, piece) for piece in pieces]
        if stop and _is_abbreviation(pieces[-1]):
            tokens[-1] += stop
        elif stop:
            tokens.append(stop)
    return tokens


def _is_abbreviation(word: str) -> bool:
    """Whether a full stop after a word is part of it, as in "Mr.", "U.S." or an initial; but "I." ends a sentence."""
    if len(word) == 1:
        return word.isalpha() and word not in "iI"
    return word.lower() in ABBREVIATIONS or all(len(letter) == 1 for letter in word.split("."))


_TOKENIZE: Mapping[str, Callable[[str], list[str]]] = {
    "ptb": _tokenize_ptb,
    "wikitext": _tokenize_wikitext,
    "words": _tokenize_raw,
}


@cache
def _raw_pattern(marks: str) -> re.Pattern[str]:
    """A number, a word, or one sign; an emoji with all its modifiers is one sign.

    Possessive groups would give the same result, but Python before 3.11.5 misreads them (gh-106052).
    """
    letter = rf"[\w{marks}\u200c\u200d]"
    modified = r"[\u0300-\u036f\u20d0-\u20ff\ufe00-\ufe0f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]*+"
    sign = r"[^\w\s\x00-\x1f\x7f-\x9f\u200c\u200d]"
    return re.compile(
        r"\d++(?:[.,:]\d++)*(?:(?i:st|nd|rd|th|'?s)(?!\w)|\ufe0f?\u20e3)?"  # 1,000  7:30  3rd  90s  a keycap
        rf"|\w{letter}*+(?:'{letter}++)*"
        r"|\.\.\."
        r"|[\U0001f1e6-\U0001f1ff]{2}"  # a flag is two letters
        rf"|{sign}{modified}(?:\u200d{sign}{modified})*"
    )


@cache
def _prepared_pattern(marks: str) -> re.Pattern[str]:
    """Text as in prepared corpora. Groups: separate part of a word, word, full stop after it, sign."""
    letter = rf"[\w{marks}]"
    joint = r"(?:[.'&-]|\\?/|(?<=\d)[,:](?=\d))"
    clitic = rf"(?<!\w)'(?:(?i:{'|'.join(AFTER_APOSTROPHE)})|\d\ds)(?!\w)|(?:(?<=s)|(?<!\S))'(?!\S)"
    number = r"(?<!\w)[Nn]o\.(?=\s?[\dN])"
    return re.compile(
        rf"(<unk>|{clitic}|{number})"
        rf"|({letter}++\$?+(?:{joint}{letter}++)*)(\.(?!\.))?"
        r"|(@[-,.]@|\.\.++|--++|[^\s\x00-\x1f\x7f-\x9f])"
    )


def _marks_for(text: str) -> str:
    return "" if text.isascii() else _marks()


@cache
def _marks() -> str:
    """Combining marks as a character class: many scripts need them, but `re` does not count them as letters.

    Ranges can include letters, which belong to words anyway, so that there are fewer ranges to search.
    """
    ranges: list[str] = []
    start, has_mark = 0, False
    for code in range(0x300, 0x1F000):  # all marks, except variants of rare Han characters
        character = chr(code)
        is_mark = unicodedata.category(character)[0] == "M"
        if is_mark or character.isalnum():
            start, has_mark = start or code, has_mark or is_mark
        elif start:
            if has_mark:
                ranges.append(f"{chr(start)}-{chr(code - 1)}")
            start, has_mark = 0, False
    return "".join(ranges)


# Clitics; words have plain apostrophes (`fold`)


def attaches(word: str, tokenizer: str) -> bool:
    """Whether a vocabulary word is written without a space before it: "n't", "'s", "'Brien"."""
    if tokenizer == "ptb":
        return word in PTB_CLITICS
    return tokenizer == "wikitext" and len(word) > 1 and word[0] == "'" and word[1].isalpha()


def ptb_clitic(word: str) -> str:
    """The clitic at the end of a lower-case word; empty if there is none."""
    return next((clitic for clitic in PTB_CLITICS if word.endswith(clitic)), "")


def clitic_length(word: str, tokenizer: str) -> int:
    """How many characters at the end of a typed word start a clitic, which the model reads as a separate word."""
    stem, apostrophe, rest = word.rpartition("'")
    if tokenizer == "words" or not apostrophe:
        return 0
    if tokenizer == "wikitext":
        return 1 + len(rest)
    ending = (apostrophe + rest).lower()
    negated = stem[-1:] in ("n", "N") and (ending == "'t" or (ending == "'" and stem[:-1].lower() in NEGATED))
    if negated:
        return 1 + len(ending)
    return len(ending) if any(clitic.startswith(ending) for clitic in CLITICS) else 0
