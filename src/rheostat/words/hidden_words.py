"""Words that are never suggested unless the user has learnt them: slurs and profanity, or what an application names.

Knows the package's list, files that change it, and which ids of a vocabulary that means.
Words are matched as wholes, whatever their capitals. A file of changes is text, a word a line:

    # this line is a comment
    word          hidden too
    -word         not hidden any more
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from rheostat.bundled import HIDDEN_WORDS
from rheostat.errors import UserWordsError
from rheostat.text.vocabulary import Vocabulary

HiddenWords: TypeAlias = str | Path | Iterable[str] | None


def read_hidden_words(wish: HiddenWords = None) -> frozenset[str]:
    """The package's list; with a path, the list as that file changes it; with words, exactly these. In lower case."""
    if wish is not None and not isinstance(wish, str | Path):
        return frozenset(word.lower() for word in wish)
    hidden, _ = _read(HIDDEN_WORDS)
    added, shown = _read(Path(wish)) if wish is not None else (frozenset(), frozenset())
    return (hidden | added) - shown


def hidden_places(vocabulary: Vocabulary, wish: HiddenWords = None) -> list[int]:
    """The ids of those words of a vocabulary, whatever their capitals."""
    hidden = read_hidden_words(wish)
    return [place for place, word in enumerate(vocabulary.words) if word.lower() in hidden]


def _read(path: Path) -> tuple[frozenset[str], frozenset[str]]:
    """The words of a file to hide, and those to show."""
    try:
        lines = path.read_text(encoding="utf-8-sig").lower().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        found = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UserWordsError(f"{path} cannot be read ({found}); expected text, a word a line: check the path") from None
    words = {number: line.strip() for number, line in enumerate(lines, 1) if line.strip() and line.strip()[0] != "#"}
    for number, word in words.items():
        if len(word.split()) > 1 or word == "-":
            raise UserWordsError(f"{path}: line {number} is not one word; expected a word, or '-' and a word: mend it")
    shown = frozenset(word[1:] for word in words.values() if word[0] == "-")
    return frozenset(word for word in words.values() if word[0] != "-"), shown
