"""Words that the user has taught, in a small file.

Knows words, how often and when they were used, and the file; knows nothing about models or vocabularies. The file is
private: only its owner can read it. Every change locks it, reads it again, changes one word and replaces the whole
file. So several processes can share one file, a word that one of them forgets stays forgotten, and a crash leaves
either the old file or the new one. A file that cannot be parsed is an error and is never overwritten.

    {"format": "rheostat-user-words", "format_version": 1,
     "words": [{"word": "Rheostat", "count": 2, "last_used": 1767225600.0}, …]}      last_used: seconds since 1970
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from heapq import nlargest
from pathlib import Path
from typing import Any, NoReturn

from rheostat.arguments import check_path, check_text, check_whole, checked
from rheostat.durable import replacing
from rheostat.errors import NotCopyable, UserWordsError
from rheostat.inputs import read_input
from rheostat.words.completion import PrefixIndex
from rheostat.words.writing import matching_form

FORMAT = "rheostat-user-words"
FORMAT_VERSION = 1
DEFAULT_LIMIT = 10_000  # words
LONGEST_WORD = 100  # characters
# Doubling how often a word was used counts as much as using it this much more recently.
DOUBLING_SECONDS = 14 * 24 * 3600.0
_LARGEST_COUNT = 2**53
_JOINERS = frozenset("\u200c\u200d")  # invisible, but letters of many scripts and emoji need them


@dataclass(frozen=True)
class UserWord:
    """A word as it was learned. count: how often it was learned or used; last_used: seconds since 1970."""

    word: str
    count: int
    last_used: float

    @property
    def score(self) -> float:
        """How often and how recently the word was used; higher is suggested first. It does not change with time."""
        return math.log2(1 + self.count) + self.last_used / DOUBLING_SECONDS


class UserWords(NotCopyable):
    """The user's words; safe to use from several threads and processes.

    Without a path, they last as long as the object. Beyond `limit` words, the least recently used are dropped.
    """

    def __init__(
        self, path: str | Path | None = None, *, limit: int = DEFAULT_LIMIT, clock: Callable[[], float] = time.time
    ) -> None:
        if path is not None:
            check_path("the file of words", path, UserWordsError)
        self.path = None if path is None else Path(os.path.realpath(path))  # so links are kept
        check_whole("limit", limit, 0)
        self.limit = max(1, limit)
        self._clock = clock
        self._lock = threading.Lock()
        self._index = _WordList(())
        self.load()

    def load(self) -> None:
        """Read the file again, in case another program changed it; without a file there are no words."""
        if self.path is not None:
            with self._lock:
                self._index = _WordList(_read(self.path).values())

    def learn(self, word: str) -> UserWord:
        """Learn a word; learning it again counts as a use. Case matters: "Polish" is not "polish"."""
        check_word(word)

        def change(words: dict[str, UserWord]) -> None:
            before = words.get(word)
            words[word] = UserWord(word, min(before.count + 1, _LARGEST_COUNT) if before else 1, self._clock())

        return self._change(change, keep=word)[word]

    def forget(self, word: str) -> bool:
        """Remove a word, spelled as it was learned; return whether it was there."""
        if not isinstance(word, str):
            _refuse(f"the word {_show(word)}", "a str", "give the word as text")
        was_there = False

        def change(words: dict[str, UserWord]) -> None:
            nonlocal was_there
            was_there = words.pop(word, None) is not None

        self._change(change)
        return was_there

    def clear(self) -> None:
        """Remove all words."""
        self._change(lambda words: words.clear())

    @checked
    def merge(self, path: str | Path) -> int:
        """Add the words of an exported file, keeping the larger count and the later use; return how many were new."""
        added = _read(Path(path), must_exist=True)
        new = 0

        def change(words: dict[str, UserWord]) -> None:
            nonlocal new
            new = len(added.keys() - words.keys())
            for word, other in added.items():
                own = words.get(word, other)
                words[word] = UserWord(word, max(own.count, other.count), max(own.last_used, other.last_used))

        self._change(change)
        return new

    def words(self) -> list[UserWord]:
        """All words, best first."""
        return list(self._index.ranked)

    def with_prefix(self, prefix: str, limit: int = 3) -> list[UserWord]:
        """The best words that begin with `prefix`, ignoring case; with an empty prefix, the best of all words."""
        check_text("prefix", prefix)
        check_whole("limit", limit, 0)
        return self._index.best(matching_form(prefix), limit)

    def knows(self, word: str) -> bool:
        """Whether a word was taught, ignoring case."""
        check_text("word", word)
        form = matching_form(word)
        return any(matching_form(known.word) == form for known in self._index.best(form, self.limit))

    def to_json(self) -> str:
        """All words, in the format of the file."""
        return _to_json(self._index.ranked)

    @checked
    def export(self, path: str | Path) -> None:
        """Write all words to another file, in the same format and readable by its owner only."""
        target = Path(os.path.realpath(path))
        with locked_file(target):
            write_private(target, self.to_json())

    def __len__(self) -> int:
        return len(self._index.ranked)

    def __contains__(self, word: object) -> bool:
        return word in self._index.by_word

    def _change(self, change: Callable[[dict[str, UserWord]], None], keep: str = "") -> Mapping[str, UserWord]:
        """Apply a change to the words as they are stored now; another process may have changed them.

        keep: a word that is never dropped. If the clock was set back, the newest word would look old.
        """
        with self._lock, locked_file(self.path):
            before = dict(self._index.by_word) if self.path is None else _read(self.path)
            words = dict(before)
            change(words)
            changed = words != before
            newest = nlargest(self.limit, words.values(), key=lambda word: (word.word == keep, word.last_used))
            index = _WordList(newest)
            if self.path is not None and changed:
                write_private(self.path, _to_json(index.ranked))
            self._index = index
        return index.by_word


def check_word(word: str) -> None:
    """Raise UserWordsError unless this can be learned as a word."""
    if not isinstance(word, str):
        _refuse(f"the word {_show(word)}", "a str", "give the word as text")
    if not word:
        _refuse("an empty word", "at least one character")
    if len(word) > LONGEST_WORD:
        _refuse(f"a word of {len(word)} characters", f"at most {LONGEST_WORD}")
    for character in word:
        if character.isspace():
            _refuse(f"white space in {_show(word)}", "one word", "learn its words one by one")
        if unicodedata.category(character) in ("Cc", "Cf", "Cs") and not _may_be_invisible(character):
            _refuse(f"the control character {character!a} in {_show(word)}", "visible characters")


def _may_be_invisible(character: str) -> bool:
    return character in _JOINERS or "\U000e0020" <= character <= "\U000e007f"  # the range is for flags of regions


def _refuse(found: str, expected: str, remedy: str = "leave it out") -> NoReturn:
    raise UserWordsError(f"found {found}; expected {expected}; {remedy}")


def _show(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


class _WordList:
    """Words sorted by form and by score. It never changes, so readers need no lock."""

    def __init__(self, words: Iterable[UserWord]) -> None:
        self.ranked = sorted(words, key=lambda word: (-word.score, word.word))
        self.by_word = {word.word: word for word in self.ranked}
        self._ranks = PrefixIndex((matching_form(word.word), rank) for rank, word in enumerate(self.ranked))

    def best(self, form: str, limit: int) -> list[UserWord]:
        if not form:
            return self.ranked[: max(0, limit)]
        ranks = sorted(self._ranks.with_prefix(form).tolist())
        return [self.ranked[rank] for rank in ranks[: max(0, limit)]]


# --- the file ----------------------------------------------------------------------------------------------


def _to_json(words: Iterable[UserWord]) -> str:
    content = {"format": FORMAT, "format_version": FORMAT_VERSION, "words": [asdict(word) for word in words]}
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _read(path: Path, *, must_exist: bool = False) -> dict[str, UserWord]:
    try:
        data = read_input(path, "user words")
    except FileNotFoundError as error:
        if must_exist:
            raise _unusable(path, "no such file", "an exported file of words", "check the path") from error
        return {}
    except FileExistsError as error:
        raise _unusable(path, str(error.strerror).removeprefix("it is "), "a file of words", "name a file") from error
    except OSError as error:
        found = f"a file that cannot be read ({error.strerror})"
        raise _unusable(path, found, "a file of words that can be read", "check its permissions") from error
    return _parse(path, data)


def _parse(path: Path, data: bytes) -> dict[str, UserWord]:
    try:
        content = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise _unusable(path, f"something that is not JSON ({_show(str(error))})", "a file of words") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise _unusable(path, "JSON that is not a file of words", f'an object with "format": "{FORMAT}"')
    version = content.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        raise _unusable(path, f"format version {_show(version)}", str(FORMAT_VERSION), "update rheostat")
    if not isinstance(content.get("words"), list):
        raise _unusable(path, 'no list "words"', "one")
    words = [_parse_word(path, place, entry) for place, entry in enumerate(content["words"], 1)]
    by_word = {word.word: word for word in words}
    if len(by_word) != len(words):
        raise _unusable(path, f"{len(words)} entries for {len(by_word)} words", "one for each")
    return by_word


def _parse_word(path: Path, place: int, entry: Any) -> UserWord:
    match entry:
        case {"word": str(word), "count": int(count), "last_used": int() | float() as last_used}:
            in_range = 1 <= count <= _LARGEST_COUNT and abs(last_used) <= _LARGEST_COUNT  # false for NaN
            if in_range and not isinstance(count, bool) and not isinstance(last_used, bool):
                try:
                    check_word(word)
                except UserWordsError as error:
                    raise UserWordsError(f"{path}: entry {place}: {error}") from None
                return UserWord(word, count, float(last_used))
    raise _unusable(path, f"{_show(entry)} as entry {place}", "a word, a count of at least 1 and a time")


def _unusable(
    path: Path, found: str, expected: str, remedy: str = "repair it, or move it away to start over; it was not changed"
) -> UserWordsError:
    return UserWordsError(f"{path}: found {found}; expected {expected}; {remedy}")


def write_private(path: Path, text: str) -> None:
    """Replace a file that only its owner can read, or leave it as it was. The caller holds the lock."""
    try:
        with replacing(path, alone=True, mode=0o600) as file:
            file.write(text.encode())
    except OSError as error:
        raise _cannot_write(path, error) from error


def _cannot_write(path: Path, error: OSError) -> UserWordsError:
    found = f"a file that cannot be written ({error.strerror})"
    return _unusable(
        path, found, "a writable folder with free space", "free some or choose another; it was not changed"
    )


@contextlib.contextmanager
def locked_file(path: Path | None) -> Iterator[None]:
    """Keep other processes from changing the file, with a lock on a small file next to it."""
    if path is None:
        yield
        return
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _cannot_write(path, error) from error
    try:
        _lock_descriptor(descriptor)
        yield
    finally:
        os.close(descriptor)  # releases the lock


if sys.platform == "win32":
    import msvcrt

    def _lock_descriptor(descriptor: int) -> None:
        while True:
            with contextlib.suppress(OSError):  # after ten attempts of a second each
                msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
                return
else:
    import fcntl

    def _lock_descriptor(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
