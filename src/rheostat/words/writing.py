"""From typed text to the words that a model reads, and from its words to what the user sees.

Knows characters, lines and sentences; knows nothing about ids or models, and only passes probabilities on.

Reading. A text starts on a new line, so its words begin with `<eos>`, and every further line end is an `<eos>` too, as
in the corpora (`rheostat.text.corpus`: blank lines count, except in raw text). Only the end of a long text is read: at
most `limit` words, and usually at least half as many. The start of this window moves in large steps as the text grows.
If it were always the last `limit` words, each new word would drop the first one, and no earlier state could be reused.

Showing. Models of raw text are lower-case; capitals are restored here: the usual spelling of names, "I", the first word
of a sentence. Capitals that the user typed take precedence. Lower-case letters do not, because people often skip
capitals.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from rheostat.text.casing import SENTENCE_ENDS
from rheostat.text.clitics import attaches, clitic_length
from rheostat.text.tokenizers import fold, tokenize
from rheostat.text.vocabulary import END_OF_LINE

CONTEXT_LIMIT = 512  # words

Source = Literal["model", "user"]


@dataclass(frozen=True)
class Suggestion:
    """A suggested word. To insert it, replace the last `replaces` characters of the text with `word`.

    replaces: the part of the word that was typed already, or the word that it extends: "don't" replaces "do ".
    """

    word: str
    probability: float
    source: Source = "model"
    replaces: int = 0

    def insert_into(self, text: str) -> str:
        """The text after accepting the suggestion, without a space after it."""
        kept = text[: len(text) - self.replaces]
        return kept + (" " if not self.replaces and _needs_space(kept) else "") + self.word


@dataclass(frozen=True)
class Typed:
    """The text before the cursor, split into its parts.

    words: what the model has to read, with `<eos>` and without the prefix.
    prefix: the typed part of the next word, as it was typed; empty between words.
    word: the visible word at the cursor, which ends with the prefix: "don'" with the prefix "n'" for a model that
        reads "do n't"; "well-kn" with the prefix "kn".
    attaches: whether a clitic, which attaches to the word before, can come next (see `completion`).
    space: the number of spaces between `word` and the cursor.
    """

    words: list[str]
    prefix: str = ""
    word: str = ""
    attaches: bool = False
    space: int = 0
    starts_sentence: bool = False


# --- reading: text -> words --------------------------------------------------------------------------------

CHARACTERS_PER_WORD = 16  # generous: even half of it, the least that is kept, is longer than words are
BLOCK = 256  # characters that are tokenised together, only once as the text grows
_BLOCKS_KEPT = 2048  # for all texts; a few kilobytes each. While a word is typed, the text before it is tokenised once
_PIECES_KEPT = 4096  # of text between white space; a hundred bytes each
_WHITE_SPACE = re.compile(r"\s")
NUMBER_SIGNS = ("No.", "no.")  # "No. 5" is the only case in which a word depends on what follows a space


def context_words(text: str, tokenizer: str, limit: int = CONTEXT_LIMIT) -> list[str]:
    """The last words of a text, at most `limit`; if that is the whole text, an `<eos>` comes first."""
    return _read(text, len(text), "", tokenizer, limit)


def _read(text: str, end: int, letter: str, tokenizer: str, limit: int) -> list[str]:
    """The words before `end`. letter: the first letter of the word being typed there, which is not included.

    Punctuation may depend on the word after it: "role-p" is role @-@ p, while "role-" is role and a dash.
    """
    start = _steady_start(end, limit * CHARACTERS_PER_WORD)
    if start:
        start = _break_behind(text, start, min(end, start + BLOCK)) or start
    words = [] if start else [END_OF_LINE]
    borders = _block_borders(text, start, end)
    for begin, border in pairwise(borders):
        words += _split_lines(text[begin:border], tokenizer)
    words += _split_lines(text[borders[-1] : end] + letter, tokenizer)
    if tokenizer == "words" and text.find("\n", start, end) >= 0:
        words = _without_blank_lines(words)
    if letter:
        words.pop()
    return words[_steady_start(len(words), limit) :]


def _steady_start(length: int, limit: int) -> int:
    """Where to start to leave at most `limit`: 0, or a place that moves in steps of half the limit."""
    step = max(1, limit // 2)
    return -(-(length - limit) // step) * step if length > limit else 0


def _block_borders(text: str, start: int, end: int) -> list[int]:
    """Where blocks start: near multiples of their size, so all but the last stay the same as the text grows."""
    borders = [start]
    while (place := (borders[-1] // BLOCK + 1) * BLOCK) < end:
        border = _break_behind(text, place, end)
        if border is None:
            break
        borders.append(border)
    return borders


def _break_behind(text: str, place: int, end: int) -> int | None:
    """The first white space from `place` on where the text can be cut without changing a word."""
    for found in _WHITE_SPACE.finditer(text, place, end):
        if not text.endswith(NUMBER_SIGNS, 0, found.start()):
            return found.start()
    return None


@lru_cache(_BLOCKS_KEPT)
def _split_lines(text: str, tokenizer: str) -> tuple[str, ...]:
    """The words of a piece of text, with an `<eos>` for each line end."""
    first, *others = text.split("\n")
    words = _line_words(first, tokenizer)
    for line in others:
        words.append(END_OF_LINE)
        words += _line_words(line, tokenizer)
    return tuple(words)


def _line_words(line: str, tokenizer: str) -> list[str]:
    """The words of a line. In raw text no word depends on what is beyond white space, and most pieces are known."""
    if tokenizer != "words":
        return tokenize(line, tokenizer)
    words: list[str] = []
    for piece in line.split():
        words += _piece_words(piece)
    return words


@lru_cache(_PIECES_KEPT)
def _piece_words(piece: str) -> tuple[str, ...]:
    return tuple(tokenize(piece, "words"))


def _without_blank_lines(words: list[str]) -> list[str]:
    return words[:1] + [word for before, word in pairwise(words) if not before == word == END_OF_LINE]


# --- reading: the word being typed -------------------------------------------------------------------------

LONGEST_WORD = 256  # characters; no word of a vocabulary is this long
APOSTROPHES = "'\u2019\u02bc\uff07"
_JOINERS = "\u200c\u200d"  # inside words of many scripts
# Signs that can be inside words, and the ones after which a word is still unfinished.
INSIDE: Mapping[str, str] = {"words": APOSTROPHES, "wikitext": APOSTROPHES + ".", "ptb": APOSTROPHES + ".&-/"}
UNFINISHED: Mapping[str, str] = {"words": APOSTROPHES, "wikitext": APOSTROPHES, "ptb": APOSTROPHES + "&-"}


def split_typed(text: str, tokenizer: str, limit: int = CONTEXT_LIMIT) -> Typed:
    """The text before the cursor; unless it ends in white space or punctuation, its last word is unfinished."""
    start, end = _word_start(text, tokenizer), len(text)
    if start == end:
        return as_context(text, tokenizer, limit=limit)
    word = text[_visible_start(text, start) :]
    if clitic := clitic_length(fold(text[start:]), tokenizer):
        start = end - clitic
        return Typed(_read(text, start, "", tokenizer, limit), text[start:], word, attaches=True)
    words = _read(text, start, text[start], tokenizer, limit)
    return Typed(words, text[start:], word, starts_sentence=_starts_sentence(text, start))


def as_context(text: str, tokenizer: str, prefix: str = "", limit: int = CONTEXT_LIMIT) -> Typed:
    """A text of whole words and, separately, the beginning of the next word."""
    words = context_words(text, tokenizer, limit)
    starts_sentence = at_sentence_start(text)
    if prefix:
        return Typed(words, prefix, prefix, starts_sentence=starts_sentence)
    ending = text[-LONGEST_WORD:]
    space = len(ending) - len(ending.rstrip(" "))
    end = len(text) - space
    follows_word = end > 0 and _is_letter(text[end - 1])
    word = text[_visible_start(text, end) : end] if follows_word else ""
    return Typed(words, "", word, bool(word), space if word else 0, starts_sentence)


def matching_form(word: str) -> str:
    """The form in which a word is compared with what is typed: without capitals, with plain apostrophes."""
    if word.isascii() and word.islower():  # most words are, and need no copy
        return word
    return fold(word).lower().replace("ς", "σ")


def _is_letter(character: str) -> bool:
    return character.isalnum() or character in _JOINERS or unicodedata.category(character)[0] == "M"


def _word_start(text: str, tokenizer: str) -> int:
    """Where the word at the end of the text starts; the end of the text if there is none."""
    inside, unfinished = INSIDE[tokenizer], UNFINISHED[tokenizer]
    start = end = len(text)
    for place in range(end - 1, max(-1, end - 1 - LONGEST_WORD), -1):
        character = text[place]
        if character.isalnum() and character not in APOSTROPHES:
            start = place  # a word starts with a letter or digit, not with a combining mark
        elif not (_is_letter(character) or character in (unfinished if place == end - 1 else inside)):
            break
    return start


def _visible_start(text: str, place: int) -> int:
    """Where the run of characters without white space before `place` starts, not counting opening quotes."""
    begin = max(0, place - LONGEST_WORD)
    before = text[begin:place]
    run = before.split()[-1] if before and not before[-1].isspace() else ""
    opening = next((count for count, character in enumerate(run) if character.isalnum()), len(run))
    return place - len(run) + opening


# --- showing: words -> text --------------------------------------------------------------------------------

SENTENCE_LOOK_BACK = 64  # characters; if they contain no word, the next one starts a sentence too
BETWEEN_SENTENCES = frozenset("\"'”’»›)]}“‘„«‹([{*_")  # can come between a full stop and the next word
NO_SPACE_BEHIND = frozenset("-/‐–—([{“‘„«‹¿¡@#$£€_\\")


def at_sentence_start(text: str) -> bool:
    """Whether the next word starts a line or a sentence. A full stop after "Mr" or "U.S" does not end one."""
    return _starts_sentence(text, len(text))


def _starts_sentence(text: str, end: int) -> bool:
    before = text[max(0, end - SENTENCE_LOOK_BACK) : end]
    written = before.rstrip()
    if not written or "\n" in before[len(written) :]:
        return True
    if _is_letter(written[-1]) or written[-1] == ",":
        return False
    line = written.rpartition("\n")[2]
    for token in reversed(tokenize(line, "wikitext")):
        if token in SENTENCE_ENDS or not token.strip("."):
            return True
        if token not in BETWEEN_SENTENCES:
            break
    return not any(map(str.isalnum, line))


def present(
    word: str,
    casing: Mapping[str, str],
    *,
    tokenizer: str,
    at_sentence_start: bool = False,
    prefix: str = "",
) -> str:
    """A word of the model as it is shown. casing: the usual spelling of words, as in the model file."""
    if tokenizer != "wikitext":  # that one keeps capitals itself
        word = casing.get(word) or _as_first_person(word)
    if at_sentence_start and word == word.lower():
        word = word[:1].title() + word[1:]  # not upper(): that is another letter in some scripts
    return _with_capitals_of(fold(prefix), word)


def compose(
    word: str,
    probability: float,
    typed: Typed,
    casing: Mapping[str, str],
    *,
    tokenizer: str,
) -> Suggestion:
    """A word of the model as a suggestion for a text."""
    if typed.attaches and attaches(word, tokenizer):
        stem = typed.word[: len(typed.word) - len(typed.prefix)]
        ending = word.upper() if len(stem) > 1 and stem.isupper() and tokenizer == "ptb" else word
        shown = _as_first_person(stem + ending)
        replaces = len(typed.word) + typed.space
    else:
        shown = present(
            word,
            casing,
            tokenizer=tokenizer,
            at_sentence_start=typed.starts_sentence,
            prefix=typed.prefix,
        )
        replaces = len(typed.prefix)
    if "’" in typed.prefix:
        shown = shown.replace("'", "’")
    return Suggestion(shown, probability, "model", replaces)


def compose_best(
    words: Iterable[tuple[str, float]], typed: Typed, casing: Mapping[str, str], k: int, *, tokenizer: str
) -> list[Suggestion]:
    """The k best of these words of the model, as suggestions: what `compose` and `distinct` give, but sooner.

    Usually nothing was typed that has a capital, no sentence starts and no clitic is in sight: then a word is shown in
    its usual spelling, and only the k best become suggestions.
    """
    plain = not typed.starts_sentence and typed.prefix == typed.prefix.lower() and typed.prefix.isascii()
    if not plain or tokenizer == "wikitext" or (typed.attaches and tokenizer != "words"):  # raw text has no clitics
        return distinct([compose(word, p, typed, casing, tokenizer=tokenizer) for word, p in words], k)
    shown: dict[str, float] = {}
    for word, probability in words:
        usual = casing.get(word) or _as_first_person(word)
        shown[usual] = shown.get(usual, 0.0) + probability
    best = sorted(shown.items(), key=lambda pair: -pair[1])[:k]
    return [Suggestion(word, probability, "model", len(typed.prefix)) for word, probability in best]


def distinct(suggestions: Iterable[Suggestion], k: int) -> list[Suggestion]:
    """The best k; those that look the same ("game" and "Game" at the start of a sentence) are merged."""
    merged: dict[str, Suggestion] = {}
    for suggestion in suggestions:
        same = merged.get(suggestion.word)
        merged[suggestion.word] = (
            suggestion if same is None else replace(same, probability=same.probability + suggestion.probability)
        )
    return sorted(merged.values(), key=lambda suggestion: -suggestion.probability)[:k]


def _as_first_person(word: str) -> str:
    """English "i" and "i'm" with their capital."""
    is_first_person = word[:1] == "i" and (len(word) == 1 or word[1] in APOSTROPHES)
    return f"I{word[1:]}" if is_first_person else word


def _with_capitals_of(prefix: str, word: str) -> str:
    """The word with the capitals that were typed; all in capitals if everything typed is."""
    letters = [character for character in prefix if character.isalpha()]
    if not any(map(str.isupper, letters)) or len(matching_form(prefix)) != len(prefix):
        return word
    if len(letters) > 1 and all(map(str.isupper, letters)):
        return word.upper()
    beginning = [typed if typed.isupper() else own for typed, own in zip(prefix, word, strict=False)]
    return "".join(beginning) + word[len(beginning) :]


def _needs_space(text: str) -> bool:
    if not text or text[-1].isspace() or text[-1] in NO_SPACE_BEHIND:
        return False
    # A straight quote opens after white space and closes otherwise.
    return not (text[-1] in "\"'" and (len(text) == 1 or text[-2].isspace() or text[-2] in NO_SPACE_BEHIND))
