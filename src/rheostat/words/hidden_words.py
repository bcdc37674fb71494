"""Words that are never suggested unless the user has learned them: slurs and profanity, or an application's own list.

Knows the package's list, files that change it, and the ids of these words in a vocabulary.
Whole words are matched, ignoring case. A file of changes is text with one word per line:

    # this line is a comment
    word          also hidden
    -word         no longer hidden
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from rheostat.bundled import HIDDEN_WORDS
from rheostat.errors import UserWordsError
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
