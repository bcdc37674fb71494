"""Words that are never suggested unless the user has learned them: slurs, profanity, misspellings, an app's own list.

Knows the package's list, files that change it, the ids of these words in a vocabulary, and which words are
misspellings of others.
Whole words are matched, ignoring case. A file of changes is text with one word per line:

    # this line is a comment
    word          also hidden
    -word         no longer hidden
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from rheostat.arguments import check_path
from rheostat.bundled import HIDDEN_WORDS
from rheostat.errors import UserWordsError
from rheostat.inputs import read_input_text
from rheostat.text.tokenizers import CLITICS, NEGATION
from rheostat.text.vocabulary import Vocabulary

HiddenWords: TypeAlias = Path | Iterable[str] | None  # a file of changes, the words themselves, or the package's list


def read_hidden_words(wish: HiddenWords = None) -> frozenset[str]:
    """The package's list; with a Path, that list changed by the file; with words, exactly these. In lower case."""
    if wish is not None and not isinstance(wish, Path):
        return frozenset(word.lower() for word in _checked(wish))
    if wish is not None:
        check_path("hidden_words", wish, UserWordsError)
    hidden, _ = _read(HIDDEN_WORDS)
    added, shown = _read(wish) if wish is not None else (frozenset(), frozenset())
    return (hidden | added) - shown


def hidden_places(vocabulary: Vocabulary, wish: HiddenWords = None) -> list[int]:
    """The ids of the hidden words in a vocabulary, ignoring case."""
    hidden = read_hidden_words(wish)
    return [place for place, word in enumerate(vocabulary.words) if word.lower() in hidden]


def _checked(wish: Iterable[str]) -> list[str]:
    """The words as a list. A str is refused: it could be meant as a path, and it is an iterable of str too."""
    remedy = 'pass Path("changes.txt") for a file of changes, or ["word", …] for the words themselves'
    if isinstance(wish, str | bytes) or not isinstance(wish, Iterable):
        raise UserWordsError(f"hidden_words is {wish!r:.40}; expected a Path or a list of words: {remedy}")
    words = list(wish)
    for word in words:
        if not isinstance(word, str):
            raise UserWordsError(f"hidden_words contains {word!r:.40}; expected a Path or a list of words: {remedy}")
    return words


def _read(path: Path) -> tuple[frozenset[str], frozenset[str]]:
    """The words that a file hides, and those that it shows again."""
    try:
        lines = read_input_text(path, "list of words").lower().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        found = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UserWordsError(
            f"{path} cannot be read ({found}); expected text, one word per line: check the path"
        ) from None
    words = {number: line.strip() for number, line in enumerate(lines, 1) if line.strip() and line.strip()[0] != "#"}
    for number, word in words.items():
        if len(word.split()) > 1 or word == "-":
            raise UserWordsError(
                f"{path}: line {number} is not one word; expected a word, or '-' and a word: correct it"
            )
    shown = frozenset(word[1:] for word in words.values() if word[0] == "-")
    return frozenset(word for word in words.values() if word[0] != "-"), shown


# --- misspellings -----------------------------------------------------------------------------------------

FREQUENT = 100  # how many times rarer a misspelling is than the word that was meant
SWAPPED_FREQUENT = 20  # the same for a short word with two letters swapped ("wierd")
LONG_FREQUENT = 2  # the same for a long word, of which few others are one edit away
RARE_FREQUENT = 200  # the same for a long word that only a list of rare words has ("belive")
LISTED_FREQUENT = 10  # the same for a contraction without its apostrophe, if a list has it too ("heres")
TOGETHER = 5  # how many times rarer a word is than the two words it consists of, if they belong apart ("alot")
LISTED_TOGETHER = 30  # the same if a list has the word ("afterall", but not "takeover")
_SHORT = 5  # letters up to which a word is only one edit away from the word that was meant
_LONG = 6  # letters from which on a word is long; from _VERY_LONG on, it may be two edits away
_VERY_LONG = 9
_ENDINGS = (*CLITICS, NEGATION, "in'")  # with which an apostrophe is right

Halves: TypeAlias = tuple[str, str]  # the two words that a word consists of


def find_misspellings(
    counts: Mapping[str, int],
    word_list: Collection[str],
    casing: Mapping[str, str] | None = None,
    pairs: Mapping[Halves, int] | None = None,
    rare: Collection[str] = (),
) -> dict[str, str]:
    """Words that are misspellings of others, each with the word or words that were meant.

    counts: how often each word of a vocabulary occurs. word_list: correct words in lower case. casing: the usual
    spelling of names, which are left alone. pairs: how often the words of `find_joined` occur as two words. rare: words
    of the list that few people know.

    A misspelling is in no word list and at most two edits or a swap away from a listed word that is a hundred times as
    frequent; short words are one edit away. A long word that begins with the same letter need only be twice as rare, if
    neither is the other with an ending; a short one with two letters swapped, twenty times. A contraction without its
    apostrophe is a misspelling too, however frequent, and so are two words in one. Of rare words, only long ones are,
    with a letter missing or too many inside and two hundred times as rare.
    """
    frequent = sorted((word for word in counts if word in word_list), key=lambda word: -counts[word])
    contractions = {word.replace("'", ""): word for word in counts if word.endswith(_ENDINGS) and "'" in word}
    joined = _joined(counts, word_list, pairs or {})
    found: dict[str, str] = {}
    for word, count in counts.items():
        letters, is_listed = word.replace("'", ""), word in word_list
        if word.endswith(_ENDINGS) or not letters.isalpha() or (casing and word in casing):
            continue
        meant = contractions.get(word)
        if meant is not None and not _lacks_apostrophe(word, meant, counts, is_listed):
            meant = None
        meant = meant or joined.get(word)
        if meant is None and len(letters) > 2 and (not is_listed or word in rare):
            meant = _meant(word, count, frequent, counts, is_rare=is_listed)
        if meant is not None:
            found[word] = meant
    return found


def _lacks_apostrophe(word: str, contraction: str, counts: Mapping[str, int], is_listed: bool) -> bool:
    """Whether a word is a contraction without its apostrophe. Short words on a list are words ("ill", not "cant")."""
    if is_listed and len(word) < _SHORT and not contraction.endswith(NEGATION):
        return False
    return counts[contraction] >= counts[word] * (LISTED_FREQUENT if is_listed else 1)


def find_joined(counts: Mapping[str, int], word_list: Collection[str]) -> list[tuple[str, Halves]]:
    """Words that consist of two listed words of the vocabulary, with these two."""
    halves = counts.keys() & set(word_list)
    return [
        (word, (word[:place], word[place:]))
        for word in counts
        if word.isalpha()
        for place in range(1, len(word))
        if word[:place] in halves and word[place:] in halves and (place > 1 or word[0] in "ai")
    ]


def _joined(counts: Mapping[str, int], word_list: Collection[str], pairs: Mapping[Halves, int]) -> dict[str, str]:
    """Words that should be two, with these two: as two they are much more frequent."""
    found: dict[str, str] = {}
    for word, halves in find_joined(counts, word_list) if pairs else ():
        is_listed = word in word_list
        least = counts[word] * (LISTED_TOGETHER if is_listed else TOGETHER)
        if len(word) >= (_LONG if is_listed else 4) and pairs.get(halves, 0) >= max(1, least):
            found[word] = " ".join(halves)
    return found


def _meant(word: str, count: int, frequent: Iterable[str], counts: Mapping[str, int], *, is_rare: bool) -> str | None:
    """The most frequent word that this is a misspelling of."""
    for other in frequent:
        if counts[other] < LONG_FREQUENT * count:
            return None
        ratio = counts[other] / max(count, 1)
        if len(other) > 2 and (_is_rare_misspelled if is_rare else _is_misspelled)(word, other, ratio):
            return other
    return None


def _is_misspelled(word: str, other: str, ratio: float) -> bool:
    """Whether a word is a misspelling of another that is `ratio` times as frequent."""
    if ratio >= FREQUENT:
        return is_near(word, other, 1 if len(word) <= _SHORT else 2)
    if word[0] != other[0] or abs(len(word) - len(other)) > 2:
        return False
    if len(word) < _LONG:
        is_swapped = sorted(word) == sorted(other) and is_near(word, other, 1)
        return len(word) == _SHORT and ratio >= SWAPPED_FREQUENT and is_swapped
    return not _is_other_form(word, other) and is_near(word, other, 2 if len(word) >= _VERY_LONG else 1)


def _is_rare_misspelled(word: str, other: str, ratio: float) -> bool:
    """The same for a word that a list of rare words has."""
    if ratio < RARE_FREQUENT or len(word) < _LONG or word[0] != other[0] or len(word) == len(other):
        return False
    return not _is_other_form(word, other) and is_near(word, other, 1)


def _is_other_form(word: str, other: str) -> bool:
    """Whether one word is the other with an ending or a prefix; a doubled last letter is neither ("usefull")."""
    short, long = sorted((word, other), key=len)
    is_longer = long.startswith(short) or long.endswith(short)
    return short != long and is_longer and word != other + other[-1]


def is_near(word: str, other: str, most: int) -> bool:
    """Whether at most `most` edits make one word the other. A letter more, less or changed is one; so is a swap."""
    if abs(len(word) - len(other)) > most:
        return False
    before: list[int] = []
    row = list(range(len(other) + 1))
    for number, letter in enumerate(word, 1):
        new = [number]
        for place, theirs in enumerate(other, 1):
            cost = min(row[place] + 1, new[-1] + 1, row[place - 1] + (letter != theirs))
            if number > 1 and place > 1 and letter == other[place - 2] and word[number - 2] == theirs:
                cost = min(cost, before[place - 2] + 1)
            new.append(cost)
        if min(new) > most:
            return False
        before, row = row, new
    return row[-1] <= most


def read_word_list(path: Path, *, keep_case: bool = False) -> frozenset[str]:
    """The words of a list: one per line, or "wrong->right" as in codespell's dictionary. In lower case by default."""
    try:
        text = read_input_text(path, "list of words")
    except (OSError, UnicodeDecodeError) as error:
        found = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UserWordsError(f"{path} cannot be read ({found}); expected one word per line: check the path") from None
    lines = (text if keep_case else text.lower()).splitlines()
    words = frozenset(line.partition("->")[0].strip().replace("’", "'") for line in lines) - {""}
    if not words:
        raise UserWordsError(f"{path} has no words; expected one word per line: check the path")
    return words
