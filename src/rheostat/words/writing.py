"""From typed text to the words that a model should read, and from its words to what a user should see.

Knows characters, lines and sentences; knows nothing of ids, probabilities beyond carrying them, or models.

Reading. A text begins where a line ends, so its words begin with `<eos>`, and every further line end is one
too, as in the corpora (`rheostat.text.corpus`: blank lines count, except in raw text). Of a long text only the end
is read: at most `limit` words, and as a rule at least half as many. The place where reading begins stays the
same while the text grows, and moves on in large steps: with exactly the last `limit` words, each further word
would drop the first one, and nothing that was read before could be used again.

Showing. Models of raw text are lower-case; capitals come back here: the usual spelling of names, "I", the
first word of a sentence. Capitals that the user typed win over all of them. Small letters do not: they are
what one types without thinking.
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
from rheostat.text.tokenizers import fold, tokenize
from rheostat.text.vocabulary import END_OF_LINE

DEFAULT_LIMIT = 512  # words

Source = Literal["model", "user"]


@dataclass(frozen=True)
class Suggestion:
    """A word to offer. To insert it, put `word` in the place of the last `replaces` characters of the text.

    replaces: what was typed of the word already, or the word that it extends: "don't" replaces "do ".
    """

    word: str
    probability: float
    source: Source = "model"
    replaces: int = 0

    def insert_into(self, text: str) -> str:
        """The text after accepting the suggestion, without a space behind it."""
        kept = text[: len(text) - self.replaces]
        return kept + (" " if not self.replaces and _needs_space(kept) else "") + self.word


@dataclass(frozen=True)
class Typed:
    """A text as it stands before the cursor.

    words: what the model has to read, `<eos>` included, the prefix not.
    prefix: what is typed of the next word, as it is typed; empty between words.
    word: the visible word that the cursor is in or right behind, the prefix being its end: "don'", of which
        "n'" is the prefix to a model that reads "do n't"; "well-kn" with the prefix "kn".
    attaches: whether a part that attaches to the word before can come next (see `completion`).
    space: how many characters of white space lie between `word` and the cursor.
    """

    words: list[str]
    prefix: str = ""
    word: str = ""
    attaches: bool = False
    space: int = 0
    starts_sentence: bool = False


# --- reading: text -> words --------------------------------------------------------------------------------

_CHARACTERS_PER_WORD = 16  # generous: half of it, which is the least that is kept, is still more than words take
_BLOCK = 256  # characters that are tokenised together, and only once while a text grows
_BLOCKS_KEPT = 2048  # of all texts; a few kilobytes each. While a word is typed, the text before it is read once
_WHITE_SPACE = re.compile(r"\s")
_NUMBER_SIGNS = ("No.", "no.")  # "No. 5" is the one case in which a word depends on what is behind a space


def context_words(text: str, tokenizer: str, limit: int = DEFAULT_LIMIT) -> list[str]:
    """The words of the end of a text, at most `limit`; all of them, after an `<eos>`, if there are no more."""
    return _read(text, len(text), "", tokenizer, limit)


def _read(text: str, end: int, letter: str, tokenizer: str, limit: int) -> list[str]:
    """The words before `end`. letter: the first one of the word being typed there, which is not among them.

    The signs before a word may depend on it: "role-p" is role @-@ p, while "role-" is role and a dash.
    """
    start = _steady_start(end, limit * _CHARACTERS_PER_WORD)
    if start:
        start = _break_behind(text, start, min(end, start + _BLOCK)) or start
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
    """Where to begin so that at most `limit` are left: 0, or a place that moves in steps of half of it."""
    step = max(1, limit // 2)
    return -(-(length - limit) // step) * step if length > limit else 0


def _block_borders(text: str, start: int, end: int) -> list[int]:
    """Where blocks begin: near multiples of their size, so that all but the last stay the same."""
    borders = [start]
    while (place := (borders[-1] // _BLOCK + 1) * _BLOCK) < end:
        border = _break_behind(text, place, end)
        if border is None:
            break
        borders.append(border)
    return borders


def _break_behind(text: str, place: int, end: int) -> int | None:
    """The first white space from `place` on at which the text can be cut without changing a word."""
    for found in _WHITE_SPACE.finditer(text, place, end):
        if not text.endswith(_NUMBER_SIGNS, 0, found.start()):
            return found.start()
    return None


@lru_cache(_BLOCKS_KEPT)
def _split_lines(text: str, tokenizer: str) -> tuple[str, ...]:
    """The words of a piece of text, an `<eos>` for each line end in it."""
    first, *others = text.split("\n")
    words = tokenize(first, tokenizer)
    for line in others:
        words.append(END_OF_LINE)
        words += tokenize(line, tokenizer)
    return tuple(words)


def _without_blank_lines(words: list[str]) -> list[str]:
    return words[:1] + [word for before, word in pairwise(words) if not before == word == END_OF_LINE]


# --- reading: the word being typed -------------------------------------------------------------------------

_LONGEST_WORD = 256  # characters that are looked at; no word of a vocabulary is as long
_APOSTROPHES = "'\u2019\u02bc\uff07"
_JOINERS = "\u200c\u200d"  # inside words of many scripts
# Signs that are inside words, and those of them behind which a word is not yet finished.
_INSIDE: Mapping[str, str] = {"words": _APOSTROPHES, "wikitext": _APOSTROPHES + ".", "ptb": _APOSTROPHES + ".&-/"}
_UNFINISHED: Mapping[str, str] = {"words": _APOSTROPHES, "wikitext": _APOSTROPHES, "ptb": _APOSTROPHES + "&-"}
_CLITICS = ("'s", "'re", "'ve", "'ll", "'d", "'m")
_NEGATED = frozenset([
    "ai", "are", "ca", "could", "did", "do", "does", "had", "has", "have", "is", "might", "must", "need",
    "should", "was", "were", "wo", "would",
])  # fmt: skip


def split_typed(text: str, tokenizer: str, limit: int = DEFAULT_LIMIT) -> Typed:
    """A text as a keyboard has it: unless it ends in white space or punctuation, its last word is unfinished."""
    start, end = _word_start(text, tokenizer), len(text)
    if start == end:
        return as_context(text, tokenizer, limit=limit)
    word = text[_visible_start(text, start) :]
    if clitic := _clitic_length(text[start:], tokenizer):
        start = end - clitic
        return Typed(_read(text, start, "", tokenizer, limit), text[start:], word, attaches=True)
    words = _read(text, start, text[start], tokenizer, limit)
    return Typed(words, text[start:], word, starts_sentence=_starts_sentence(text, start))


def as_context(text: str, tokenizer: str, prefix: str = "", limit: int = DEFAULT_LIMIT) -> Typed:
    """A text of whole words, and apart from it the beginning of the next word."""
    words = context_words(text, tokenizer, limit)
    starts_sentence = at_sentence_start(text)
    if prefix:
        return Typed(words, prefix, prefix, starts_sentence=starts_sentence)
    ending = text[-_LONGEST_WORD:]
    space = len(ending) - len(ending.rstrip(" "))
    end = len(text) - space
    follows_word = end > 0 and _is_letter(text[end - 1])
    word = text[_visible_start(text, end) : end] if follows_word else ""
    return Typed(words, "", word, bool(word), space if word else 0, starts_sentence)


def attaches(word: str, tokenizer: str) -> bool:
    """Whether a word of a vocabulary is written without a space before it: "n't", "'s", "'Brien"."""
    if tokenizer == "ptb":
        return word == "n't" or word in _CLITICS
    return tokenizer == "wikitext" and len(word) > 1 and word[0] == "'" and word[1].isalpha()


def matching_form(word: str) -> str:
    """A word as it is compared with what is typed: whatever its capitals and apostrophes."""
    if word.isascii() and word.islower():  # most are, and no second copy of them is held
        return word
    return fold(word).lower().replace("ς", "σ")


def _is_letter(character: str) -> bool:
    return character.isalnum() or character in _JOINERS or unicodedata.category(character)[0] == "M"


def _word_start(text: str, tokenizer: str) -> int:
    """Where the word begins that the text ends in; the end of the text if it does not end in one."""
    inside, unfinished = _INSIDE[tokenizer], _UNFINISHED[tokenizer]
    start = end = len(text)
    for place in range(end - 1, max(-1, end - 1 - _LONGEST_WORD), -1):
        character = text[place]
        if character.isalnum() and character not in _APOSTROPHES:
            start = place  # a word begins with a letter or digit, not with what modifies one
        elif not (_is_letter(character) or character in (unfinished if place == end - 1 else inside)):
            break
    return start


def _visible_start(text: str, place: int) -> int:
    """Where the run of characters without white space around `place` begins, opening quotes left out."""
    begin = max(0, place - _LONGEST_WORD)
    before = text[begin:place]
    run = before.split()[-1] if before and not before[-1].isspace() else ""
    opening = next((count for count, character in enumerate(run) if character.isalnum()), len(run))
    return place - len(run) + opening


def _clitic_length(word: str, tokenizer: str) -> int:
    """How many characters at the end of a typed word begin a part that the model reads as a word of its own."""
    if tokenizer == "words":
        return 0
    word = fold(word)
    stem, apostrophe, rest = word.rpartition("'")
    if not apostrophe:
        return 0
    if tokenizer == "wikitext":
        return 1 + len(rest)
    ending = (apostrophe + rest).lower()
    negated = stem[-1:] in ("n", "N") and (ending == "'t" or (ending == "'" and stem[:-1].lower() in _NEGATED))
    if negated:
        return 1 + len(ending)
    return len(ending) if any(clitic.startswith(ending) for clitic in _CLITICS) else 0


# --- showing: words -> text --------------------------------------------------------------------------------

_SENTENCE_LOOK_BACK = 64  # characters, without a word in which the next one begins a sentence too
_BETWEEN_SENTENCES = frozenset("\"'”’»›)]}“‘„«‹([{*_")  # may stand between a full stop and the next word
_NO_SPACE_BEHIND = frozenset("-/‐–—([{“‘„«‹¿¡@#$£€_\\")


def at_sentence_start(text: str) -> bool:
    """Whether the next word begins a line or a sentence. A full stop after "Mr" or "U.S" ends none."""
    return _starts_sentence(text, len(text))


def _starts_sentence(text: str, end: int) -> bool:
    before = text[max(0, end - _SENTENCE_LOOK_BACK) : end]
    written = before.rstrip()
    if not written or "\n" in before[len(written) :]:
        return True
    if _is_letter(written[-1]) or written[-1] == ",":
        return False
    line = written.rpartition("\n")[2]
    for token in reversed(tokenize(line, "wikitext")):
        if token in SENTENCE_ENDS or not token.strip("."):
            return True
        if token not in _BETWEEN_SENTENCES:
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


def distinct(suggestions: Iterable[Suggestion], k: int) -> list[Suggestion]:
    """The best k, those that look the same ("game" and "Game" at the start of a sentence) being one."""
    merged: dict[str, Suggestion] = {}
    for suggestion in suggestions:
        same = merged.get(suggestion.word)
        merged[suggestion.word] = (
            suggestion if same is None else replace(same, probability=same.probability + suggestion.probability)
        )
    return sorted(merged.values(), key=lambda suggestion: -suggestion.probability)[:k]


def _as_first_person(word: str) -> str:
    """English "i" and "i'm" with their capital."""
    is_first_person = word[:1] == "i" and (len(word) == 1 or word[1] in _APOSTROPHES)
    return f"I{word[1:]}" if is_first_person else word


def _with_capitals_of(prefix: str, word: str) -> str:
    """The word with the capitals that were typed, and all in capitals if all that was typed is."""
    letters = [character for character in prefix if character.isalpha()]
    if not any(map(str.isupper, letters)) or len(matching_form(prefix)) != len(prefix):
        return word
    if len(letters) > 1 and all(map(str.isupper, letters)):
        return word.upper()
    beginning = [typed if typed.isupper() else own for typed, own in zip(prefix, word, strict=False)]
    return "".join(beginning) + word[len(beginning) :]


def _needs_space(text: str) -> bool:
    if not text or text[-1].isspace() or text[-1] in _NO_SPACE_BEHIND:
        return False
    # A straight quote opens if it stands behind white space, and closes otherwise.
    return not (text[-1] in "\"'" and (len(text) == 1 or text[-2].isspace() or text[-2] in _NO_SPACE_BEHIND))
