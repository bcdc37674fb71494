"""Text to measure with: the test text of a corpus, or a few dozen sentences that come with the package.

Knows lines and how they are typed; knows nothing of models. A prepared corpus (Penn Treebank, WikiText) is already
split into words; everything else is text as people write it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from itertools import cycle, islice
from pathlib import Path

from rheostat.errors import CorpusError, visible
from rheostat.inputs import open_input
from rheostat.text.corpus import CorpusConfig, is_written_here, locate_splits
from rheostat.text.sources import find_split
from rheostat.text.tokenizers import (
    CLITICS,
    NEGATION,
    WIKITEXT_JOINTS,
    Tokenizer,
    spellings,
    split_at_ascii_white_space,
    tokenize,
)

SAMPLE = "sample"
LINE_END = "\n"
MESSAGE = 128  # pieces after which a new text starts, like a user's next message

# How prepared words are written: parts attached to the previous word or to the next one, and WikiText's joints.
_JOIN_BEFORE = frozenset([NEGATION, *CLITICS, "'t", "'", ",", ".", ";", ":", "!", "?", ")", "%"])
_JOIN_NEXT = frozenset("($£€")
_SIGN_OF_JOINT = {joint: sign for sign, joint in WIKITEXT_JOINTS.items()}


@dataclass(frozen=True)
class Text:
    """Lines to type. prepared: whether they are already split into words."""

    name: str
    tokenizer: Tokenizer
    lines: tuple[str, ...]
    prepared: bool

    def pieces(self) -> list[str]:
        """The words that a model reads one by one, and line ends; what it would read as several words is dropped."""
        pieces: list[str] = []
        for line in self.lines:
            words = [word for word in self._words(line) if len(tokenize(word, self.tokenizer)) == 1]
            pieces += [*words, LINE_END] if words else []
        return pieces

    def typed_words(self) -> list[str]:
        """What a person types between spaces, and line ends."""
        words: list[str] = []
        for line in self.lines:
            words += [*(_joined(split_at_ascii_white_space(line)) if self.prepared else line.split()), LINE_END]
        return words

    def _words(self, line: str) -> list[str]:
        if self.prepared:
            return split_at_ascii_white_space(line)
        return spellings(line) if self.tokenizer == "words" else tokenize(line, self.tokenizer)


def read_text(data: str | None, how: Tokenizer | CorpusConfig, words: int) -> Text:
    """The first lines of a test text, up to at least this number of words; all of it if it has fewer.

    data: a folder with a test text, a text file, "chat" or "talk"; None for the sentences that come with the package.
    how: the tokenizer, or the `[corpus]` table of a recipe, whose parts may then be in the folder.
    """
    config = CorpusConfig(tokenizer=how) if isinstance(how, str) else how
    tokenizer = config.tokenizer
    if data is None:
        lines = resources.files("rheostat.measure").joinpath("sample.txt").read_text(encoding="utf-8").splitlines()
        return Text(SAMPLE, tokenizer, tuple(lines), prepared=False)
    path = locate_splits(data, config)["test"] if is_written_here(data, config) else find_split(data, "test")
    lines = _first_lines(path, words)
    if not lines:
        raise CorpusError(f"{path} is empty or has only white space; expected text: give another file")
    return Text(visible(Path(data).name), tokenizer, tuple(lines), prepared=tokenizer != "words")


def messages(pieces: list[str], openings: list[str]) -> Iterator[str]:
    """An endless stream of texts, each one piece longer than the last, until the next message starts.

    A predictor answers at once for a text that it has already read. So every message starts with a different word, or
    several (`openings`): however often the pieces repeat, each text is new and costs reading one word.
    """
    flow, number = cycle(pieces), 0
    while True:
        text = ""
        for piece in (*_opening(number, openings), *islice(flow, MESSAGE)):
            text = text.rstrip(" ") + LINE_END if piece == LINE_END else f"{text}{piece} "
            yield text
        number += 1


def _opening(number: int, openings: list[str]) -> list[str]:
    """The digits of the message number as words, last digit first, so that the first word always changes."""
    if len(openings) == 1:
        return openings * (1 + number % MESSAGE)
    digits = [openings[number % len(openings)]]
    while number := number // len(openings):
        digits.append(openings[number % len(openings)])
    return digits


def _first_lines(path: Path, words: int) -> list[str]:
    lines, count = [], 0
    try:
        with io.TextIOWrapper(open_input(path), encoding="utf-8-sig") as file:
            for line in file:
                if stripped := line.strip():
                    lines.append(stripped)
                    count += len(stripped.split())
                if count >= words:
                    break
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CorpusError(f"{path} cannot be read ({reason}); expected text in UTF-8: give another file") from None
    return lines


def _joined(words: list[str]) -> list[str]:
    """Prepared words as they are written: "do n't" as "don't", "role @-@ playing" as "role-playing"."""
    written: list[str] = []
    joins = False
    for word in words:
        joint = _SIGN_OF_JOINT.get(word)
        if written and (joins or joint or word in _JOIN_BEFORE):
            written[-1] += joint or word
        else:
            written.append(joint or word)
        joins = joint is not None or word in _JOIN_NEXT
    return written
