"""What one user's writing has taught: decayed counts of phrases up to three words, in a small file of theirs.

Knows words, counts, times and the file; knows nothing about models. `runtime.remembering` mixes it into a model's
probabilities and decides what was meant.

The file is private (only its owner can read it), bounded, and holds nothing but counts: no sentences, no order beyond
three words. Words are learned in memory and written together: every `FLUSH_WORDS` words, and when the memory is closed.
A write locks the file, reads it again, adds what this process has learned and replaces it as a whole. So several
processes can share one file, and a kill at any moment leaves the old file or the new one. While words are learned, it
is written in a thread of its own: a large file takes a tenth of a second, and typing does not wait for it. If that
fails, a warning says so; `flush` and `close` raise.

    {"format": "rheostat-memory", "format_version": 1, "generation": 0,
     "phrases": [{"words": "see you soon", "count": 1.5, "time": 1767225600, "recent": [[29453760, 1.0]]}, …]}

generation: how often something was forgotten. A process that finds another one than its own drops what it has not
written yet: it may be what was to be forgotten, and the file does not say what that was. While it suggests words, it
looks at the file every `LOOK_SECONDS`, so what was forgotten elsewhere is soon gone here too.
time: of the count, in seconds since 1970; it halves every `HALF_LIFE_SECONDS`. recent: what was added in the last hour,
by the minute, so that this hour can be forgotten.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import threading
import time
import unicodedata
import warnings
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rheostat.arguments import check_path, check_text, checked, shown
from rheostat.errors import NotCopyable, RheostatWarning, UserWordsError
from rheostat.inputs import read_input
from rheostat.text.vocabulary import END_OF_LINE
from rheostat.words.user_words import check_word, locked_file, write_private
from rheostat.words.writing import matching_form

FORMAT = "rheostat-memory"
FORMAT_VERSION = 1
LONGEST_PHRASE = 3  # words
LIMIT_BYTES = 1 << 20  # of the file
HALF_LIFE_SECONDS = 60 * 24 * 3600.0
RECENT_MINUTES = 60
SETTLE_SECONDS = 3600.0  # counts are decayed this often, at least
FLUSH_WORDS = 20
LOOK_SECONDS = 1.0
FLUSH_WORDS_WITHOUT_FILE = 1000  # then it only drops what exceeds the limit, and takes as long as writing
LEAST_COUNT = 0.05  # decayed below this, a phrase is dropped
NEW_WORD_COUNT = 1.5  # a word that the model does not know is suggested from here on: when it was written twice
MOST_DOUBTFUL = 1000  # words that may be slips and were seen once
# How much the counts are trusted, by the words before the next one: none, one, two. A share of the probability goes to
# the counts; half of it once that many words were seen after this context. Tuned on senders of validation text, but for
# the last pair: with it, a phrase that was written three times comes first.
SHARES = (0.05, 0.12, 0.25)
HALF_TRUSTED = (140.0, 15.0, 2.0)
_LARGEST_COUNT = 2.0**53
BYTES_PER_PHRASE = 80  # beside its words, in JSON
BYTES_PER_MINUTE = 30  # of what is recent

Phrase: TypeAlias = tuple[str, ...]
_Minutes: TypeAlias = dict[Phrase, dict[int, float]]  # what was added to a phrase, by the minute
_Stamp: TypeAlias = tuple[int, ...] | None  # the same as long as a file is; None if there is none


class MemoryShare(NamedTuple):
    """What the memory says about the next word: p = of_model · p(model) + per_count · (its count) + longer[word].

    words, counts: of all single words, in the same order. As long as words are only added, the list stays the same.
    single: the same counts by word. longer: what the words before add.
    """

    of_model: float
    per_count: float
    words: Sequence[str]
    counts: NDArray[np.float64]
    single: Mapping[str, float]
    longer: Mapping[str, float]

    @property
    def extra(self) -> dict[str, float]:
        """What is added to the model's share, word by word."""
        pairs = zip(self.words, self.counts.tolist(), strict=False)
        single = {word: self.per_count * count for word, count in pairs if count > 0.0}
        return single | {word: single.get(word, 0.0) + p for word, p in self.longer.items()}


@dataclass
class _Count:
    count: float  # at `time`, without what is recent
    time: float
    recent: dict[int, float] = field(default_factory=dict)  # minute: count

    def at(self, now: float) -> float:
        added = sum(self.recent.values())
        if not self.count:  # all of it is recent
            return added
        return self.count * math.exp2(min(0.0, self.time - now) / HALF_LIFE_SECONDS) + added

    def settle(self, now: float) -> None:
        """Decay the count to now, and add what is no longer recent."""
        oldest = int(now // 60) - RECENT_MINUTES
        old = sum(count for minute, count in self.recent.items() if minute < oldest)
        self.count = self.count * math.exp2(min(0.0, self.time - now) / HALF_LIFE_SECONDS) + old
        self.time = now
        self.recent = {minute: count for minute, count in self.recent.items() if minute >= oldest}


class _Index:
    """Counts by the words before, as of a time, with what was learned since."""

    def __init__(self, counts: Mapping[Phrase, _Count], now: float) -> None:
        self.time = now
        self.following: dict[Phrase, dict[str, float]] = {}
        self.totals: dict[Phrase, float] = {}
        self.words: list[str] = []  # the keys of following[()]
        for phrase, entry in counts.items():
            self.add(phrase, entry.at(now))

    def add(self, phrase: Phrase, by: float) -> None:
        context, word = phrase[:-1], phrase[-1]
        following = self.following.setdefault(context, {})
        if not context and word not in following:
            self.words.append(word)
        following[word] = following.get(word, 0.0) + by
        self.totals[context] = self.totals.get(context, 0.0) + by


class Memory(NotCopyable):
    """The phrases of one user; safe to use from several threads and processes.

    Without a path, they last as long as the object. Beyond `limit_bytes`, the rarest phrases are dropped.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        limit_bytes: int = LIMIT_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if path is not None:
            check_path("the memory", path, UserWordsError)
        self.path = None if path is None else Path(os.path.realpath(path))
        self.limit_bytes = max(1000, limit_bytes)
        self._clock = clock
        self._writing = threading.RLock()  # the file; taken before the other lock
        self._lock = threading.RLock()  # all below
        self._writer: threading.Thread | None = None
        self._pending: _Minutes = {}
        self._doubtful: dict[Phrase, None] = {}  # the oldest first
        self._learned = 0
        self.version = 0  # changes with every change of the counts
        self._looked, self._stamp = time.monotonic(), _stamp_of(self.path)
        self._counts, self._generation = ({}, 0) if self.path is None else _read(self.path)
        self._index = _Index(self._counts, self._clock())
        _open_memories.add(self)

    # Learning

    @checked
    def learn(self, words: Sequence[str], before: Sequence[str] = ()) -> None:
        """Count words in the order in which they were written. before: up to two words in front of them."""
        self._add(words, before, 1.0)

    @checked
    def unlearn(self, words: Sequence[str], before: Sequence[str] = ()) -> None:
        """Take back what `learn` counted, because the words were changed or deleted later."""
        self._add(words, before, -1.0)

    @checked
    def was_seen(self, words: Sequence[str]) -> bool:
        """Note words that may be a slip. True if they were noted before: slips seldom repeat.

        They are kept as long as this object, and never stored.
        """
        piece = tuple(words)
        with self._lock:
            if piece in self._doubtful:
                return True
            self._doubtful[piece] = None
            if len(self._doubtful) > MOST_DOUBTFUL:
                del self._doubtful[next(iter(self._doubtful))]
            return False

    def _add(self, words: Sequence[str], before: Sequence[str], by: float) -> None:
        words = tuple(words)
        flow, now = [*tuple(before)[-(LONGEST_PHRASE - 1) :], *words], self._clock()
        minute = int(now // 60)
        with self._lock:
            for place in range(len(flow) - len(words), len(flow)):
                if not _is_word(flow[place]):
                    continue
                for length in range(1, min(LONGEST_PHRASE, place + 1) + 1):
                    learned = {tuple(flow[place - length + 1 : place + 1]): {minute: by}}
                    _add_minutes(self._pending, learned)
                    _add_counts(self._counts, learned, now, self._index)
            self._learned += len(words)
            self.version += 1
            is_due = self._learned >= (FLUSH_WORDS_WITHOUT_FILE if self.path is None else FLUSH_WORDS)
        if is_due and self.path is None:
            self.flush()
        elif is_due:
            with self._lock:
                self._learned = 0
            self._in_background(self.flush)

    def _in_background(self, act: Callable[[], None]) -> None:
        with self._lock:
            if self._writer is not None and self._writer.is_alive():
                return  # what it does not write now is written next time
            self._writer = threading.Thread(target=self._try, args=(act,), name="rheostat-memory", daemon=False)
            if threading.main_thread().is_alive():
                with contextlib.suppress(RuntimeError):  # no threads here
                    self._writer.start()
                    return
        self._try(act)  # also while the program ends, when nobody waits for a thread

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except (UserWordsError, MemoryError) as error:
            said = str(error) or "there is not enough memory"
            warnings.warn(RheostatWarning(f"{said}; what was learned is kept, and written later"), stacklevel=2)

    def flush(self) -> None:
        """Write what was learned since the last time. Without a path, nothing is written."""
        with self._writing:
            with self._lock:
                self._learned = 0
            if self._pending:
                self._change(lambda counts: None)

    close = flush

    # Reading

    def share(self, before: Sequence[str]) -> MemoryShare:
        """What the counts say about the word after these words."""
        given: object = before  # callers may not check their types
        if not isinstance(given, Sequence) or isinstance(given, str | bytes):
            raise UserWordsError(f"before is {shown(given)}; expected a list of words")
        self._look_at_file()
        with self._lock:
            if (now := self._clock()) - self._index.time > SETTLE_SECONDS:
                self._index = _Index(self._counts, now)
            index = self._index
            if index.totals.get((), 0.0) <= 0.0:
                return MemoryShare(1.0, 0.0, (), np.zeros(0), {}, {})
            of_model, parts = 1.0, list[tuple[Phrase, float]]()
            for length in range(min(LONGEST_PHRASE, len(before) + 1)):
                context = tuple(before[len(before) - length :])
                seen = index.totals.get(context, 0.0)
                if seen > 0.0:
                    share = SHARES[length] * seen / (seen + HALF_TRUSTED[length])
                    parts = [(other, weight * (1.0 - share)) for other, weight in parts] + [(context, share / seen)]
                    of_model *= 1.0 - share
            (_, per_count), *others = parts
            longer: dict[str, float] = defaultdict(float)
            for context, weight in others:
                for word, count in index.following[context].items():
                    if count > 0.0:
                        longer[word] += weight * count
            single = index.following[()]
            counts = np.fromiter(single.values(), np.float64, len(single))
            return MemoryShare(of_model, per_count, index.words, counts, single, dict(longer))

    def _look_at_file(self) -> None:
        """Read the file again, in the background, if another process has changed it."""
        if self.path is None or (now := time.monotonic()) - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        if (stamp := _stamp_of(self.path)) != self._stamp:
            self._stamp = stamp  # a file that cannot be read is tried once
            self._in_background(lambda: self._change(lambda counts: None, writes=False))

    def count(self, *words: str) -> float:
        """How often a phrase was written, decayed."""
        for word in words:
            check_text("a word", word)
        with self._lock:
            entry = self._counts.get(words)
            return entry.at(self._clock()) if entry else 0.0

    def phrases(self) -> list[tuple[str, float]]:
        """All phrases with their counts, the most frequent first."""
        now = self._clock()
        with self._lock:
            found = [(" ".join(phrase), entry.at(now)) for phrase, entry in self._counts.items()]
        return sorted((one for one in found if one[1] > 0), key=lambda one: (-one[1], one[0]))

    def __len__(self) -> int:
        return len(self._counts)

    # Forgetting

    def forget(self, word: str) -> int:
        """Forget a word and every phrase with it, in any spelling; return how many phrases that were."""
        check_word(word)
        form = _any_spelling(word)
        return self._remove(lambda phrase: form in map(_any_spelling, phrase))

    def forget_last_hour(self) -> int:
        """Take back what was counted in the last hour; return how many phrases lost a count."""
        lost = 0

        def change(counts: dict[Phrase, _Count]) -> None:
            nonlocal lost
            lost = sum(1 for entry in counts.values() if entry.recent)
            for entry in counts.values():
                entry.recent = {}

        with self._lock:
            self._doubtful = {}
        self._change(change, forgets=True)
        return lost

    def clear(self) -> None:
        """Forget everything."""
        self._remove(lambda phrase: True)

    def _remove(self, goes: Callable[[Phrase], bool]) -> int:
        removed = 0

        def change(counts: dict[Phrase, _Count]) -> None:
            nonlocal removed
            gone = [phrase for phrase in counts if goes(phrase)]
            removed = len(gone)
            for phrase in gone:
                del counts[phrase]

        with self._lock:
            self._doubtful = {}
        self._change(change, forgets=True)
        return removed

    # The file

    def to_json(self) -> str:
        """All counts, in the format of the file."""
        with self._lock:
            return _to_json(self._counts, self._generation)

    @checked
    def export(self, path: str | Path) -> None:
        """Write all counts to another file, in the same format and readable by its owner only."""
        target = Path(os.path.realpath(path))
        if target == self.path:
            self.flush()
            return
        with locked_file(target):
            write_private(target, self.to_json())

    def _change(
        self, change: Callable[[dict[Phrase, _Count]], None], *, forgets: bool = False, writes: bool = True
    ) -> None:
        """Apply a change to the counts as they are stored now, with what is pending.

        With a file, words can be learned and counts read in the meantime. Without `writes`, the file is only read.
        """
        with self._writing, locked_file(self.path), self._lock if self.path is None else contextlib.nullcontext():
            taken: _Minutes = {}
            try:
                with self._lock:
                    taken, self._pending = self._pending, taken
                now = self._clock()
                counts, generation, stamp = self._counts, self._generation, _stamp_of(self.path)
                if self.path is not None:
                    counts, generation = _read(self.path)
                    if generation == self._generation:
                        _add_counts(counts, taken, now)
                for entry in counts.values():
                    entry.settle(now)
                change(counts)
                counts = _most_frequent(counts, now, self.limit_bytes)
                index = _Index(counts, now)
                if self.path is not None and writes:
                    write_private(self.path, _to_json(counts, generation + forgets))
                    stamp = _stamp_of(self.path)
            except BaseException:
                with self._lock:
                    _add_minutes(self._pending, taken)
                raise
            with self._lock:
                if generation != self._generation:
                    self._doubtful, self._pending, taken = {}, {}, {}
                _add_counts(counts, self._pending, now, index)
                if not writes:
                    _add_minutes(self._pending, taken)
                self._counts, self._index = counts, index
                self._generation, self._stamp = generation + forgets, stamp
                self.version += 1

    def _after_fork(self) -> None:
        """In the new process: leave what was not written yet to the process that learned it."""
        self._pending, self._learned, self._writer = {}, 0, None


# A forked process has one thread, so a lock that another thread held would never be released there. The thread that
# forks therefore takes all locks first.
_open_memories: weakref.WeakSet[Memory] = weakref.WeakSet()
_at_fork: list[Memory] = []


def _before_fork() -> None:
    _at_fork[:] = sorted(_open_memories, key=id)
    for memory in _at_fork:
        memory._writing.acquire()
        memory._lock.acquire()


def _after_fork(in_child: bool) -> None:
    for memory in _at_fork:
        if in_child:
            memory._after_fork()
        memory._lock.release()
        memory._writing.release()
    _at_fork.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=lambda: _after_fork(False), after_in_child=lambda: _after_fork(True)
    )


def _add_minutes(some: _Minutes, more: _Minutes) -> None:
    for phrase, minutes in more.items():
        known = some.setdefault(phrase, {})
        for minute, by in minutes.items():
            known[minute] = known.get(minute, 0.0) + by


def _add_counts(counts: dict[Phrase, _Count], learned: _Minutes, now: float, index: _Index | None = None) -> None:
    """index: the same counts by the words before, to be changed too."""
    for phrase, minutes in learned.items():
        recent = counts.setdefault(phrase, _Count(0.0, now)).recent
        for minute, by in minutes.items():
            recent[minute] = recent.get(minute, 0.0) + by
            if index is not None:
                index.add(phrase, by)


def show_phrase(phrase: str) -> str:
    """A phrase as people read it: the end of a line is a sign, as on the page."""
    return phrase.replace(END_OF_LINE, "¶")


def _any_spelling(word: str) -> str:
    """The same for "don't" and "Don’t", and for "é" as one character and as two."""
    return unicodedata.normalize("NFC", matching_form(word))


def _is_word(word: str) -> bool:
    return word != END_OF_LINE and not word.startswith("<") and any(map(str.isalpha, word)) and _can_be_written(word)


def _can_be_written(word: str) -> bool:
    """Whether a word can be stored; a lone surrogate cannot."""
    try:
        return bool(word.encode())
    except UnicodeEncodeError:
        return False


def _most_frequent(counts: dict[Phrase, _Count], now: float, limit_bytes: int) -> dict[Phrase, _Count]:
    """The phrases that fit into the limit, rare and old ones dropped first."""
    ranked = sorted(
        (-often, len(phrase), phrase) for phrase, entry in counts.items() if (often := entry.at(now)) >= LEAST_COUNT
    )
    kept: dict[Phrase, _Count] = {}
    used = 100
    for _, _, phrase in ranked:
        entry = counts[phrase]
        used += len(json.dumps(" ".join(phrase), ensure_ascii=False).encode()) + BYTES_PER_PHRASE
        used += BYTES_PER_MINUTE * len(entry.recent)
        if used > limit_bytes:
            break
        kept[phrase] = entry
    return kept


def _to_json(counts: Mapping[Phrase, _Count], generation: int) -> str:
    phrases: Iterable[dict[str, Any]] = (
        {
            "words": " ".join(phrase),
            "count": round(entry.count, 4),
            "time": int(entry.time),
            "recent": [[minute, count] for minute, count in sorted(entry.recent.items())],
        }
        for phrase, entry in sorted(counts.items())
    )
    lines = ",\n".join(json.dumps(phrase, ensure_ascii=False, separators=(",", ":")) for phrase in phrases)
    head = f'{{"format": "{FORMAT}", "format_version": {FORMAT_VERSION}, "generation": {generation}'
    return f'{head}, "phrases": [\n{lines}\n]}}\n'


def _stamp_of(path: Path | None) -> _Stamp:
    try:
        status = None if path is None else path.stat()
    except OSError:
        return None
    return status and (status.st_ino, status.st_mtime_ns, status.st_size)


def _read(path: Path) -> tuple[dict[Phrase, _Count], int]:
    """The counts in a file, and its generation; nothing without a file."""
    try:
        data = read_input(path, "memory")
    except FileNotFoundError:
        return {}, 0
    except FileExistsError as error:
        raise UserWordsError(f"{path} cannot be read: {error.strerror}; expected a memory file: name a file") from None
    except OSError as error:
        raise UserWordsError(
            f"{path} cannot be read ({error.strerror}); expected a memory file: check its permissions"
        ) from None
    remedy = "repair it, or move it away to start over; it was not changed"
    try:
        content = json.loads(data.decode())
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or content.get("format") != FORMAT or not isinstance(content.get("phrases"), list):
        raise UserWordsError(f'{path} is not a memory file; expected JSON with "format": "{FORMAT}": {remedy}')
    if content.get("format_version") != FORMAT_VERSION:
        found = repr(content.get("format_version"))[:40]
        raise UserWordsError(f"{path} has format version {found}; expected {FORMAT_VERSION}: update rheostat")
    generation = content.get("generation", 0)
    if type(generation) is not int or not 0 <= generation < _LARGEST_COUNT:
        raise UserWordsError(f"{path} has the generation {generation!r:.40}; expected a whole number: {remedy}")
    counts: dict[Phrase, _Count] = {}
    for place, entry in enumerate(content["phrases"], 1):
        parsed = _parse(entry)
        if parsed is None or parsed[0] in counts:
            raise UserWordsError(
                f"{path}: phrase {place} is {entry!r:.60}; expected words, a count and a time: {remedy}"
            )
        counts[parsed[0]] = parsed[1]
    return counts, generation


def _parse(entry: Any) -> tuple[Phrase, _Count] | None:
    match entry:
        case {
            "words": str(words),
            "count": int() | float() as count,
            "time": int() | float() as then,
            "recent": list(rows),
        }:
            phrase = tuple(words.split(" "))
            numbers = [count, then]
            recent: dict[int, float] = {}
            for row in rows:
                match row:
                    case [int(minute), int() | float() as added]:
                        recent[minute] = added
                        numbers += [minute, added]
                    case _:
                        return None
            if not 1 <= len(phrase) <= LONGEST_PHRASE or not all(map(_can_be_written, phrase)):
                return None
            if not all(abs(number) < _LARGEST_COUNT for number in numbers):  # false for NaN
                return None
            return phrase, _Count(float(count), float(then), {minute: float(by) for minute, by in recent.items()})
    return None
