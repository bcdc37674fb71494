"""From typed text to the words that a model reads: lines, the last words of a long text, and texts that grow.

Knows characters and lines; the word at the cursor is handled by `writing`.

Reading. A text starts on a new line, so its words begin with `<eos>`, and every further line end is an `<eos>` too, as
in the corpora (`rheostat.text.corpus`: blank lines count, except in raw text). Only the end of a long text is read: at
most `limit` words, and usually at least half as many. The start of this window moves in large steps as the text grows.
If it were always the last `limit` words, each new word would drop the first one, and no earlier state could be reused.

Growing. A text that was read before up to a white space (a `Passage`) and is longer now is read on from there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from rheostat.text.tokenizers import tokenize
from rheostat.text.vocabulary import END_OF_LINE

CONTEXT_LIMIT = 512  # words
CHARACTERS_PER_WORD = 16  # generous: even half of it, the least that is kept, is longer than words are
BLOCK = 256  # characters that are tokenised together, only once as the text grows
_BLOCKS_KEPT = 2048  # for all texts; a few kilobytes each. While a word is typed, the text before it is tokenised once
_PIECES_KEPT = 4096  # of text between white space; a hundred bytes each
_WHITE_SPACE = re.compile(r"\s")
NUMBER_SIGNS = ("No.", "no.")  # "No. 5" is the only case in which a word depends on what follows a space
LONGEST_NUMBER_SIGN = 3


def context_words(text: str, tokenizer: str, limit: int = CONTEXT_LIMIT) -> list[str]:
    """The last words of a text, at most `limit`; if that is the whole text, an `<eos>` comes first."""
    return read_words(text, len(text), "", tokenizer, limit)


def read_words(text: str, end: int, letter: str, tokenizer: str, limit: int) -> list[str]:
    """The words before `end`. letter: the first letter of the word being typed there, which is not included.

    Punctuation may depend on the word after it: "role-p" is role @-@ p, while "role-" is role and a dash.
    """
    words = _all_words(text, _start(text, end, limit), end, letter, tokenizer)
    return words[_steady_start(len(words), limit) :]


def _all_words(text: str, start: int, end: int, letter: str, tokenizer: str) -> list[str]:
    words = [] if start else [END_OF_LINE]
    borders = _block_borders(text, start, end)
    for begin, border in pairwise(borders):
        words += _split_lines(text[begin:border], tokenizer)
    words += _split_lines(text[borders[-1] : end] + letter, tokenizer)
    if tokenizer == "words" and text.find("\n", start, end) >= 0:
        words = _without_blank_lines(words)
    if letter:
        words.pop()
    return words


def _start(text: str, end: int, limit: int) -> int:
    start = _steady_start(end, limit * CHARACTERS_PER_WORD)
    return _break_after(text, start, min(end, start + BLOCK)) or start if start else 0


# --- texts that grow ---------------------------------------------------------------------------------------


class Passage(NamedTuple):
    """How far a text was read: up to the white space at `border`.

    from_place, characters: where the text must still have which characters, those that decide where reading starts
        included. words: up to the border, `first` of them before the limit. ends_line: the last one is `<eos>`.
    """

    start: int
    from_place: int
    characters: str
    border: int
    words: int
    first: int
    ends_line: bool


class Growth(NamedTuple):
    """Words of a text: those that follow a passage, or all of them.

    passage: to read on from next time; None for a text that cannot be cut. passed: how many of the words are in it.
    """

    words: Sequence[str]
    follows: bool
    passage: Passage | None
    passed: int


def read_on(before: Passage | None, text: str, end: int, letter: str, tokenizer: str, limit: int) -> Growth:
    """What `read_words` reads; of a text that begins with a passage read before, only the words after it."""
    if before is not None and (growth := _follow(before, text, end, letter, tokenizer, limit)) is not None:
        return growth
    asked, start = _steady_start(end, limit * CHARACTERS_PER_WORD), _start(text, end, limit)
    border = _last_break(text, start, end)
    stable = _all_words(text, start, border, "", tokenizer)
    ends_line = bool(stable) and stable[-1] == END_OF_LINE
    words = [*stable, *_words_after(text, border, end, letter, tokenizer, ends_line)]
    count, first = len(stable), _steady_start(len(words), limit)
    if count <= first or (asked and not text[start].isspace()):  # a white space to start at may still come
        return Growth(words[first:], False, None, 0)
    place = max(0, asked - LONGEST_NUMBER_SIGN)
    passage = Passage(asked, place, text[place : border + (border > start)], border, count, first, ends_line)
    return Growth(words[first:], False, passage, count - first)


def _follow(before: Passage, text: str, end: int, letter: str, tokenizer: str, limit: int) -> Growth | None:
    """The words after a passage; None if the text does not begin with it or has to be read from elsewhere."""
    start, place, characters, border, count, first, ends_line = before
    if end < border or not text.startswith(characters, place):
        return None
    if start != _steady_start(end, limit * CHARACTERS_PER_WORD):
        return None
    further = _last_break(text, border, end)
    words: Sequence[str] = ()
    if further > border:
        words = _words_after(text, border, further, "", tokenizer, ends_line)
        ends_line = words[-1] == END_OF_LINE if words else ends_line
    passed = len(words)
    words = (*words, *_words_after(text, further, end, letter, tokenizer, ends_line))
    if _steady_start(count + len(words), limit) != first:
        return None
    if further > border:
        before = Passage(start, place, text[place : further + 1], further, count + passed, first, ends_line)
    return Growth(words, True, before, passed)


def _words_after(text: str, border: int, end: int, letter: str, tokenizer: str, ends_line: bool) -> Sequence[str]:
    """The words between a border and `end`. ends_line: whether the word before the border is `<eos>`."""
    words = _split_lines(text[border:end] + letter, tokenizer)
    if letter:
        words = words[:-1]
    if tokenizer == "words" and END_OF_LINE in words:
        return _without_blank_lines([END_OF_LINE if ends_line else "", *words])[1:]
    return words


def _last_break(text: str, start: int, end: int) -> int:
    """The last space or line end after `start` where the text can be cut without changing a word; else `start`."""
    found = max(text.rfind(" ", start, end), text.rfind("\n", start, end))
    return start if found < 0 or text.endswith(NUMBER_SIGNS, 0, found) else found


def _steady_start(length: int, limit: int) -> int:
    """Where to start to leave at most `limit`: 0, or a place that moves in steps of half the limit."""
    step = max(1, limit // 2)
    return -(-(length - limit) // step) * step if length > limit else 0


def _block_borders(text: str, start: int, end: int) -> list[int]:
    """Where blocks start: near multiples of their size, so all but the last stay the same as the text grows."""
    borders = [start]
    while (place := (borders[-1] // BLOCK + 1) * BLOCK) < end:
        border = _break_after(text, place, end)
        if border is None:
            break
        borders.append(border)
    return borders


def _break_after(text: str, place: int, end: int) -> int | None:
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
