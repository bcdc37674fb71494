"""How text becomes the words of a model and back, written down for other programs: rules, tables and test vectors.

An exported folder carries this as JSON. The rules are prose, the tables and vectors come from the code that runs here
(`text.tokenizers`, `words.writing`), so they cannot drift from it. Knows what an application has to do itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rheostat.text.casing import SENTENCE_ENDS
from rheostat.text.tokenizers import (
    ABBREVIATIONS,
    AFTER_APOSTROPHE,
    CLITICS,
    FOLDED_CHARACTERS,
    NEGATED,
    PTB_CLITICS,
    PTB_SIGNS,
    WIKITEXT_JOINTS,
)
from rheostat.text.vocabulary import END_OF_LINE, NUMBER, UNKNOWN
from rheostat.words.passage import context_words
from rheostat.words.writing import (
    APOSTROPHES,
    BETWEEN_SENTENCES,
    INSIDE,
    NO_SPACE_BEHIND,
    UNFINISHED,
    Suggestion,
    compose,
    split_typed,
)

FORMAT_VERSION = 1
# Regular expressions for other programs, in the syntax of Java and ICU: what `text.tokenizers` and `words.writing` do
# in the tokenizer `words`. JavaScript writes \u{…} for \x{…} and needs the flag u. No $: before a last line end, it
# matches in some languages.
_LETTER = r"[\p{L}\p{N}\p{M}\u200c\u200d]"
_SIGN = (
    r"[^\p{L}\p{N}\p{Z}\p{Cc}\u200c\u200d]"
    r"[\u0300-\u036f\u20d0-\u20ff\ufe00-\ufe0f\x{1f3fb}-\x{1f3ff}\x{e0020}-\x{e007f}]*"
)
PIECE = (
    r"\p{Nd}+(?:[.,:]\p{Nd}+)*(?:(?:[sS\u017f][tT]|[nN][dD]|[rR][dD]|[tT][hH]|'?[sS\u017f])(?![\p{L}\p{N}])|\ufe0f?\u20e3)?"
    rf"|[\p{{L}}\p{{N}}]{_LETTER}*(?:'{_LETTER}+)*"
    r"|\.\.+|\n|_|[\x{1f1e6}-\x{1f1ff}]{2}"
    rf"|{_SIGN}(?:\u200d{_SIGN})*"
)
PREFIX = r"[\p{L}\p{N}][\p{L}\p{N}\p{M}\u200c\u200d']*(?![\s\S])"
_SHARED = (
    f"A text starts on a new line: its words begin with {END_OF_LINE}, and every line end is an {END_OF_LINE}.",
    "First replace characters by the table `folded`.",
    f"A word that is not in the vocabulary is {UNKNOWN}.",
)
_NOT_SPECIFIED = (
    "Not specified: the rules above are not all. Use a model with the tokenizer `words` in an app. The tables and "
    "vectors are there for those who port `text/tokenizers.py`, which defines this tokenizer."
)
RULES: Mapping[str, tuple[str, ...]] = {
    "words": (
        *_SHARED,
        "The pieces of a text are the matches of `patterns.piece`, from left to right; what lies between them is left "
        "out. The next rules say the same in words, and which word a piece is.",
        f"A line ends at U+000A, and nowhere else. It is {END_OF_LINE}, but left out right after another one, so blank "
        "lines count as one line end. Other white space (U+000D and U+2028 too) and control characters only separate "
        "pieces.",
        "A word is a letter or digit, followed by letters, digits, combining marks, U+200C and U+200D, "
        "with single apostrophes between two of them. It is in lower case. An apostrophe at its end is a sign.",
        f"A piece that begins with a decimal digit is {NUMBER}: digits, with single dots, commas or colons between "
        "them, and an ending st, nd, rd, th, s or 's in any case if no letter or digit follows it, or the sign of a "
        "keycap (U+20E3). A letter right after it begins a piece of its own: 3x is two.",
        "Two or more full stops in a row are one piece: '...'.",
        "An emoji is one piece with all that modifies it: accents, variation selectors, skin tones, tags, and other "
        "emoji joined to it by U+200D. A flag, two regional indicators, is one piece.",
        "Every other sign, the underscore too, is a piece of its own.",
    ),
    "ptb": (
        *_SHARED,
        "Lower case; most punctuation is left out; a number is N.",
        "Endings of the table `clitics` are words of their own: do n't, it 's.",
        "Abbreviations of the table `abbreviations` keep their full stop.",
        _NOT_SPECIFIED,
    ),
    "wikitext": (
        *_SHARED,
        "Case is kept and punctuation is separate; signs between letters or digits become those of the table `joints`.",
        "An apostrophe and what follows it inside a word is a word of its own: don 't.",
        _NOT_SPECIFIED,
    ),
}
PREFIX_RULE = (
    "The word being typed is the run of letters, digits, marks and the signs `inside` at the end of the text; at its "
    "end also those of `unfinished`. It starts with a letter or digit. It is the prefix: for `words`, the match of "
    "`patterns.prefix` in the folded text.",
    "The pieces that end before the prefix are read. A number that runs into it is not: It's 5.30 has the prefix 30, "
    "and only it's is read.",
    "A word matches if it begins with the prefix, both in lower case and with plain apostrophes.",
    "After white space or any other sign there is no prefix, and the next word is suggested.",
)
CASING_RULE = (
    "Show a word in its usual spelling if `casing.txt` has one; 'i' and words that begin with \"i'\" get a capital.",
    "At the start of a line or sentence, a word in lower case gets a capital.",
    "A sentence starts after a sign of `sentence_ends`, or two full stops or more, with nothing but white space and "
    "signs of `between_sentences` after it; and where the line so far has no letter or digit.",
    "A full stop does not end a sentence after a word of `abbreviations` (in any case), after a single letter other "
    "than I, and after single letters with full stops between them: Mr., J., U.S., e.g. The word is what follows "
    "the last of - / & : , or an apostrophe inside it.",
    "Capitals that were typed win: letter by letter; if two letters or more were typed, all of them capitals, the "
    "whole word is in capitals.",
    "If the prefix has a typographic apostrophe (U+2019), the word gets them too.",
)
INSERT_RULE = (
    "Replace the prefix by the word. Without a prefix, put a space before the word, but not at the start of a text, "
    "after white space, after a sign of `no_space_behind`, or after a straight quote that comes right after one of "
    "these.",
)
HIDDEN_RULE = (
    "Suggest a word only if its byte in `suggestible.bin` is 1, or 2 right after a word. 0 marks special words, "
    "numbers, signs, slurs, profanity and misspellings, unless the user has taught it.",
)
_TEXTS = (
    "Hey, are you",
    "Hey,are you",
    "don't don’t DON'T",
    "well... ok…",
    "a..b ....",
    "It's 5.30pm, no. 7",
    "1,000 people (and 2 dogs)!",
    "1st 2ND 3rds 3x b2b 90s 1990's .5",
    "dogs' rock 'n' roll",
    "role-playing and/or not",
    "first line\nsecond line\n\nthird",
    "\n\nfirst\n \nlast\n",
    "one\r\ntwo\rthree\u2028four",
    "snake_case __",
    "naïve café ÉTÉ",
    "cafe\u0301 हिन्दी",
    "soft\u00adhyphen zero\u200bwidth",
    "ok👍🏽 ❤️❤ 1️⃣",
    "👨\u200d👩\u200d👧 🇩🇪🇫🇷",
    "@sam #tag c++ http://a.b/c",
    "  two  spaces ",
    "Mr. Smith's U.S. trip",
    "",
)
_TYPED = (
    "Hey, are yo",
    "Hey, ",
    "Hey,",
    "I don",
    "I don'",
    "I don’t",
    "see you at the Ga",
    "well-kn",
    "GA",
    "He said. th",
    "(th",
    "It's 5.30",
    "rock 'n",
    "first\nsec",
    "first\n",
    "Mr. Sm",
    "the U.S. an",
    "snake_ca",
    "ok👍 th",
    "cafe\u0301",
    "हिन्",
)
_SHOWN = (
    ("", "hello"), ("Hey, ", "hello"), ("He said. ", "there"), ("(", "see"), ("one\n", "two"), ("👍 ", "see"),
    ("GA", "game"), ("Ga", "game"), ("gA", "game"), ("G", "game"), ("and ", "i"), ("and I", "i'm"), ("I don’", "don't"),
    ("Mr. ", "he"), ("ex-Mr. ", "he"), ("the U.S. ", "army"), ("e.g. ", "this"), ("etc.) ", "and"), ("Ph.D. ", "and"),
    ("So did I. ", "now"), ("chapter 7. ", "now"), ("wait… ", "now"), ("wait.. ", "now"), ('She said "no." ', "then"),
    ("Yes! :) ", "see"), ("ok 👍 ", "see"),
)  # fmt: skip
_INSERTED = ("", "see ", "see yo", "see you.", "(", "well-", 'she said "', '"', 'a "b"', "@", "👍")


def describe_text(tokenizer: str, casing: Mapping[str, str]) -> dict[str, Any]:
    """The rules, tables and vectors for a model. casing: the usual spelling of its words."""
    return {
        "format": "rheostat-text",
        "format_version": FORMAT_VERSION,
        "tokenizer": tokenizer,
        "rules": list(RULES[tokenizer]),
        "prefix_rule": list(PREFIX_RULE),
        "patterns": {"piece": PIECE, "prefix": PREFIX} if tokenizer == "words" else {},
        "casing_rule": list(CASING_RULE),
        "insert_rule": list(INSERT_RULE),
        "hidden_rule": list(HIDDEN_RULE),
        "tables": _tables(tokenizer),
        "vectors": {
            "words": [{"text": text, "words": context_words(text, tokenizer)} for text in _TEXTS],
            "typed": [_typed(text, tokenizer) for text in _TYPED],
            "shown": [
                {"text": text, "word": word, "shown": _suggest(word, text, tokenizer, casing).word}
                for text, word in _SHOWN
            ],
            "inserted": [
                {"text": text, "word": "you", "inserted": _suggest("you", text, tokenizer, casing).insert_into(text)}
                for text in _INSERTED
            ],
        },
    }


def _suggest(word: str, text: str, tokenizer: str, casing: Mapping[str, str]) -> Suggestion:
    return compose(word, 0.0, split_typed(text, tokenizer), casing, tokenizer=tokenizer)


def _typed(text: str, tokenizer: str) -> dict[str, Any]:
    typed = split_typed(text, tokenizer)
    return {"text": text, "words": typed.words, "prefix": typed.prefix, "starts_sentence": typed.starts_sentence}


def _tables(tokenizer: str) -> dict[str, Any]:
    tables: dict[str, Any] = {
        "folded": FOLDED_CHARACTERS,
        "apostrophes": APOSTROPHES,
        "inside": INSIDE[tokenizer],
        "unfinished": UNFINISHED[tokenizer],
        "sentence_ends": sorted(SENTENCE_ENDS),
        "between_sentences": sorted(BETWEEN_SENTENCES),
        "no_space_behind": sorted(NO_SPACE_BEHIND),
        "abbreviations": sorted(ABBREVIATIONS),
    }
    if tokenizer == "ptb":
        tables |= {"clitics": PTB_CLITICS, "signs": PTB_SIGNS, "negated": sorted(NEGATED)}
    if tokenizer == "wikitext":
        tables |= {"clitics": CLITICS, "after_apostrophe": AFTER_APOSTROPHE, "joints": WIKITEXT_JOINTS}
    return tables
