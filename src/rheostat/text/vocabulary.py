"""Words and their ids.

Knows words; knows nothing of files, counts or models. Text is split into words by `tokenizers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat

UNKNOWN = "<unk>"
END_OF_LINE = "<eos>"
NUMBER = "<num>"
SPECIAL_TOKENS = (UNKNOWN, END_OF_LINE, NUMBER)


@dataclass(frozen=True)
class Vocabulary:
    """The words of a model; a word's id is its place in `words`. An unusable list raises ValueError."""

    words: tuple[str, ...]
    index: Mapping[str, int] = field(init=False, repr=False, compare=False)
    unknown_id: int = field(init=False, repr=False, compare=False)
    end_id: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        index = dict(zip(self.words, range(len(self.words)), strict=True))
        _check_words(self.words, index)
        object.__setattr__(self, "index", index)
        object.__setattr__(self, "unknown_id", index[UNKNOWN])
        object.__setattr__(self, "end_id", index[END_OF_LINE])

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, words: Iterable[str]) -> list[int]:
        """The ids of words; a word outside the vocabulary gets the id of `<unk>`."""
        return list(map(self.index.get, words, repeat(self.unknown_id)))

    def to_bytes(self) -> bytes:
        """The bytes stored in the model file: UTF-8, one word per line, no newline after the last."""
        return "\n".join(self.words).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Vocabulary:
        """The reverse of `to_bytes`; one newline after the last word is accepted."""
        # Not splitlines(): words can contain other characters that Unicode counts as line ends.
        return cls(tuple(decode_lines(data, "the vocabulary").removesuffix("\n").split("\n")))


def _check_words(words: Sequence[str], index: Mapping[str, int]) -> None:
    if "" in index:
        raise ValueError(f"line {words.index('') + 1} of the vocabulary is empty; expected one word per line")
    if len(index) != len(words):
        place = next(place for place, word in enumerate(words) if index[word] != place)
        raise ValueError(
            f"the vocabulary has {words[place]!r} twice, at lines {place + 1} and {index[words[place]] + 1}"
        )
    for special in (UNKNOWN, END_OF_LINE):
        if special not in index:
            raise ValueError(f"the vocabulary of {len(words)} words lacks {special}; every model needs it")
    if "\n" in "".join(words):
        raise ValueError("the vocabulary has a word with a newline in it; words are stored one per line")


def decode_lines(data: bytes, what: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{what} is not UTF-8 at line {line} (byte {error.start})") from None
