"""From typed text to the words that a model reads, and from its words to what the user sees.

Knows characters, lines and sentences; knows nothing about ids or models, and only passes probabilities on.

Showing. Models of raw text are lower-case; capitals are restored here: the usual spelling of names, "I", the first word
of a sentence. Capitals that the user typed take precedence. Lower-case letters do not, because people often skip
capitals.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from rheostat.arguments import check_text
from rheostat.text.casing import SENTENCE_ENDS
from rheostat.text.tokenizers import attaches, clitic_length, fold, tokenize
from rheostat.words.passage import CONTEXT_LIMIT, read_words

Source = Literal["model", "user"]
Kind = Literal["completion", "correction", "typed"]
Advice = Literal["correct", "offer", "silent"]

# When to act on a suggestion, by its confidence; docs/slips.md shows this table.
CORRECT_AT = 0.8  # a finished word is replaced automatically from this confidence on
OFFER_AT = 0.02  # a suggestion is worth a place on the screen from here on
SPARE = 4  # words to ask a model for beyond k, because some look the same once they are capitalised


class Suggestion(NamedTuple):
    """A suggested word. To insert it, replace the last `replaces` characters of the text with `word`.

    probability: of the word, times that of the slips if it was typed otherwise.
    replaces: the part of the word that was typed already, or the word that it extends: "don't" replaces "do ".
    kind: it completes what was typed, corrects it, or is what was typed.
    confidence: how sure it is that this word is meant, among all that were considered; 0 for a next word.
    finished: whether the word before the cursor was taken as complete (`Predictor.correct`).
    """

    word: str
    probability: float
    source: Source = "model"
    replaces: int = 0
    kind: Kind = "completion"
    confidence: float = 0.0
    finished: bool = False

    @property
    def advice(self) -> Advice:
        """What an app should do: replace the finished word automatically, offer the suggestion, or stay silent.

        A next word is always offered: nothing was typed that it could differ from.
        """
        if self.finished and self.kind == "correction" and self.confidence >= CORRECT_AT:
            return "correct"
        return "offer" if self.confidence >= OFFER_AT or not self.confidence else "silent"

    def insert_into(self, text: str) -> str:
        """The text after accepting the suggestion, without a space after it."""
        check_text("text", text)
        kept = text[: len(text) - self.replaces]
        return kept + (" " if not self.replaces and _needs_space(kept) else "") + self.word


class Typed(NamedTuple):
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


# --- reading: the word being typed -------------------------------------------------------------------------

LONGEST_WORD = 256  # characters; no word of a vocabulary is this long
APOSTROPHES = "'\u2019\u02bc\uff07"
_JOINERS = "\u200c\u200d"  # inside words of many scripts
# Signs that can be inside words, and the ones after which a word is still unfinished.
INSIDE: Mapping[str, str] = {"words": APOSTROPHES, "wikitext": APOSTROPHES + ".", "ptb": APOSTROPHES + ".&-/"}
UNFINISHED: Mapping[str, str] = {"words": APOSTROPHES, "wikitext": APOSTROPHES, "ptb": APOSTROPHES + "&-"}


def split_typed(text: str, tokenizer: str, limit: int = CONTEXT_LIMIT) -> Typed:
    """The text before the cursor; unless it ends in white space or punctuation, its last word is unfinished."""
    typed, end, letter = find_typed(text, tokenizer)
    return typed._replace(words=read_words(text, end, letter, tokenizer, limit))


def as_context(text: str, tokenizer: str, prefix: str = "", limit: int = CONTEXT_LIMIT) -> Typed:
    """A text of whole words and, separately, the beginning of the next word."""
    return find_context(text, prefix)._replace(words=read_words(text, len(text), "", tokenizer, limit))


def find_typed(text: str, tokenizer: str) -> tuple[Typed, int, str]:
    """What `split_typed` returns except the words; where they end; and the letter after (see `passage.read_words`)."""
    start, end = _word_start(text, tokenizer), len(text)
    if start == end:
        return find_context(text), end, ""
    word = text[_visible_start(text, start) :]
    if tokenizer != "words" and (clitic := clitic_length(fold(text[start:]), tokenizer)):
        start = end - clitic
        return Typed([], text[start:], word, attaches=True), start, ""
    return Typed([], text[start:], word, starts_sentence=_starts_sentence(text, start)), start, text[start]


def find_context(text: str, prefix: str = "") -> Typed:
    """What `as_context` gives but the words."""
    starts_sentence = at_sentence_start(text)
    if prefix:
        return Typed([], prefix, prefix, starts_sentence=starts_sentence)
    ending = text[-LONGEST_WORD:]
    space = len(ending) - len(ending.rstrip(" "))
    end = len(text) - space
    follows_word = end > 0 and _is_letter(text[end - 1])
    word = text[_visible_start(text, end) : end] if follows_word else ""
    return Typed([], "", word, bool(word), space if word else 0, starts_sentence)


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
    if not before or before[-1].isspace():
        return place
    run = before.rsplit(None, 1)[-1]
    if run[0].isalnum():
        return place - len(run)
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
        word = casing.get(word) or as_first_person(word)
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
        shown = as_first_person(stem + ending)
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
        usual = casing.get(word) or as_first_person(word)
        shown[usual] = shown.get(usual, 0.0) + probability
    best = sorted(shown.items(), key=lambda pair: -pair[1])[:k]
    return [Suggestion(word, probability, "model", len(typed.prefix)) for word, probability in best]


def distinct(suggestions: Iterable[Suggestion], k: int) -> list[Suggestion]:
    """The best k; those that look the same ("game" and "Game" at the start of a sentence) are merged."""
    merged: dict[str, Suggestion] = {}
    for suggestion in suggestions:
        same = merged.get(suggestion.word)
        merged[suggestion.word] = (
            suggestion if same is None else same._replace(probability=same.probability + suggestion.probability)
        )
    return sorted(merged.values(), key=lambda suggestion: -suggestion.probability)[:k]


def as_first_person(word: str) -> str:
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
