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

from rheostat.bundled import HIDDEN_WORDS
from rheostat.errors import UserWordsError
from rheostat.text.tokenizers import CLITICS, NEGATION
from rheostat.text.vocabulary import Vocabulary

HiddenWords: TypeAlias = Path | Iterable[str] | None  # a file of changes, the words themselves, or the package's list


def read_hidden_words(wish: HiddenWords = None) -> frozenset[str]:
    """The package's list; with a Path, that list changed by the file; with words, exactly these. In lower case."""
    if wish is not None and not isinstance(wish, Path):
        return frozenset(word.lower() for word in _checked(wish))
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
        lines = path.read_text(encoding="utf-8-sig").lower().splitlines()
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
_SHORT = 5  # letters up to which a word is only one edit away from the word that was meant
_ENDINGS = (*CLITICS, NEGATION, "in'")  # with which an apostrophe is right


def find_misspellings(
    counts: Mapping[str, int], word_list: Collection[str], casing: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Words that are misspellings of others, each with the word that was meant.

    counts: how often each word of a vocabulary occurs. word_list: correct words in lower case. casing: the usual
    spelling of names, which are left alone.

    A misspelling is in no word list and at most two edits or a swap away from a listed word that is a hundred times as
    frequent; short words are one edit away. A contraction without its apostrophe is one too, however frequent.
    """
    frequent = sorted((word for word in counts if word in word_list), key=lambda word: -counts[word])
    contractions = {word.replace("'", ""): word for word in counts if word.endswith(_ENDINGS) and "'" in word}
    found: dict[str, str] = {}
    for word, count in counts.items():
        letters = word.replace("'", "")
        is_listed = word in word_list or word.endswith(_ENDINGS)
        if is_listed or not letters.isalpha() or len(letters) < 3 or (casing and word in casing):
            continue
        meant = contractions.get(word)
        if meant is None or counts[meant] < count:
            meant = _meant(word, count, frequent, counts)
        if meant is not None:
            found[word] = meant
    return found


def _meant(word: str, count: int, frequent: Iterable[str], counts: Mapping[str, int]) -> str | None:
    most = 1 if len(word) <= _SHORT else 2
    for other in frequent:
        if counts[other] < FREQUENT * count:
            return None
        if len(other) > 2 and is_near(word, other, most):
            return other
    return None


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


def read_word_list(path: Path) -> frozenset[str]:
    """The words of a list in lower case: one per line, or "wrong->right" as in codespell's dictionary."""
    try:
        lines = path.read_text(encoding="utf-8-sig").lower().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        found = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UserWordsError(f"{path} cannot be read ({found}); expected one word per line: check the path") from None
    return frozenset(line.partition("->")[0].strip().replace("’", "'") for line in lines) - {""}
