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
    compose,
    split_typed,
)

FORMAT_VERSION = 1
_SHARED = (
    f"A text starts on a new line: its words begin with {END_OF_LINE}, and every line end is an {END_OF_LINE}.",
    "First replace characters by the table `folded`.",
    f"A word that is not in the vocabulary is {UNKNOWN}.",
)
RULES: Mapping[str, tuple[str, ...]] = {
    "words": (
        *_SHARED,
        "Blank lines count as one line end.",
        "A word is a run of letters, digits and combining marks, with single apostrophes between two of them. It is in "
        "lower case.",
        f"A piece that begins with a digit is {NUMBER}: digits, with single dots, commas or colons between them, and "
        "an ending st, nd, rd, th, s or 's; a word that begins right after it is a separate piece.",
        "Two or more full stops in a row are one piece: '...'. Every other sign, the underscore too, is a piece of its "
        "own.",
    ),
    "ptb": (
        *_SHARED,
        "Lower case; most punctuation is left out; a number is N.",
        "Endings of the table `clitics` are words of their own: do n't, it 's.",
        "Abbreviations of the table `abbreviations` keep their full stop.",
    ),
    "wikitext": (
        *_SHARED,
        "Case is kept and punctuation is separate; signs between letters or digits become those of the table `joints`.",
        "An apostrophe and what follows it inside a word is a word of its own: don 't.",
    ),
}
PREFIX_RULE = (
    "The word being typed is the run of letters, digits, marks and the signs `inside` at the end of the text; at its "
    "end also those of `unfinished`. It starts with a letter or digit. It is the prefix; the words before it are read.",
    "A word matches if it begins with the prefix, both in lower case and with plain apostrophes.",
    "After white space or any other sign there is no prefix, and the next word is suggested.",
)
CASING_RULE = (
    "Show a word in its usual spelling if `casing.txt` has one; 'i' and words that begin with \"i'\" get a capital.",
    "At the start of a line, and after a sign of `sentence_ends` with nothing but signs of `between_sentences` after "
    "it, a word in lower case gets a capital.",
    "Capitals that were typed win: letter by letter, and the whole word if two letters or more were typed in capitals.",
)
HIDDEN_RULE = (
    "Suggest a word only if its byte in `suggestible.bin` is 1, or 2 right after a word. 0 marks special words, "
    "numbers, signs, slurs and profanity, unless the user has taught it.",
)
_TEXTS = (
    "Hey, are you",
    "Hey,are you",
    "don't don’t DON'T",
    "well... ok…",
    "It's 5.30pm, no. 7",
    "1,000 people (and 2 dogs)!",
    "role-playing and/or not",
    "first line\nsecond line\n\nthird",
    "snake_case",
    "naïve café",
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
)
_SHOWN = (("", "hello"), ("Hey, ", "hello"), ("He said. ", "there"), ("GA", "game"), ("Ga", "game"))


def describe_text(tokenizer: str, casing: Mapping[str, str]) -> dict[str, Any]:
    """The rules, tables and vectors for a model. casing: the usual spelling of its words."""
    return {
        "format": "rheostat-text",
        "format_version": FORMAT_VERSION,
        "tokenizer": tokenizer,
        "rules": list(RULES[tokenizer]),
        "prefix_rule": list(PREFIX_RULE),
        "casing_rule": list(CASING_RULE),
        "hidden_rule": list(HIDDEN_RULE),
        "tables": _tables(tokenizer),
        "vectors": {
            "words": [{"text": text, "words": context_words(text, tokenizer)} for text in _TEXTS],
            "typed": [_typed(text, tokenizer) for text in _TYPED],
            "shown": [
                {"text": text, "word": word, "shown": compose(word, 0.0, typed, casing, tokenizer=tokenizer).word}
                for text, word in _SHOWN
                for typed in [split_typed(text, tokenizer)]
            ],
        },
    }


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
    }
    if tokenizer == "ptb":
        tables |= {"clitics": PTB_CLITICS, "signs": PTB_SIGNS, "abbreviations": sorted(ABBREVIATIONS)}
        tables["negated"] = sorted(NEGATED)
    if tokenizer == "wikitext":
        tables |= {"clitics": CLITICS, "after_apostrophe": AFTER_APOSTROPHE, "joints": WIKITEXT_JOINTS}
    return tables
