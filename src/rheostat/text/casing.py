"""The usual spelling of words that are not normally in lower case: collected from raw text, stored in the model file.

Knows spellings; knows nothing of ids, files or models.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rheostat.text.tokenizers import spellings
from rheostat.text.vocabulary import Vocabulary, decode_lines

SENTENCE_ENDS = frozenset({".", "!", "?", "...", "。", "！", "？", "।", "؟"})


_MINIMUM_COUNT = 3  # a rarer spelling is ignored


_SPELLINGS_PER_WORD = 8  # limits memory: a word of n letters has 2ⁿ spellings


def collect_casing(lines: Iterable[str], vocabulary: Vocabulary) -> dict[str, str]:
    """The usual spelling of each vocabulary word that raw text does not mostly write in lower case.

    Words at the start of a line or sentence, and lines all in capitals, say nothing about spelling and are not counted.
    """
    counts: dict[str, dict[str, int]] = {}
    for line in lines:
        if line.isupper():
            continue
        for spelling in _inside_sentences(spellings(line)):
            word = spelling.lower()
            if word not in vocabulary.index:
                continue
            seen = counts.setdefault(word, {})
            if spelling in seen or len(seen) < _SPELLINGS_PER_WORD:
                seen[spelling] = seen.get(spelling, 0) + 1
    usual = {word: max(seen, key=lambda spelling: (seen[spelling], spelling == word)) for word, seen in counts.items()}
    return {
        word: spelling
        for word, spelling in sorted(usual.items())
        if spelling != word and counts[word][spelling] >= _MINIMUM_COUNT
    }


def _inside_sentences(pieces: Iterable[str]) -> Iterator[str]:
    """The words that do not start a sentence."""
    begins = True
    for piece in pieces:
        if piece in SENTENCE_ENDS:
            begins = True
        elif piece[0].isalnum():
            if not begins:
                yield piece
            begins = False


def casing_to_bytes(casing: Mapping[str, str]) -> bytes:
    """The bytes stored in the model file: UTF-8, one spelling per line, sorted by word.

    The word itself is not stored, because it is the spelling in lower case. Entries where it is not are left out.
    """
    lines = [spelling for word, spelling in sorted(casing.items()) if spelling.lower() == word != spelling]
    return "\n".join(lines).encode()


def casing_from_bytes(data: bytes) -> dict[str, str]:
    """The reverse of `casing_to_bytes`; raises ValueError for bytes it cannot have written."""
    text = decode_lines(data, "the casing").removesuffix("\n")
    lines = text.split("\n") if text else []
    casing = {spelling.lower(): spelling for spelling in lines}
    if "" in casing:
        raise ValueError(f"line {lines.index('') + 1} of the casing is empty; expected one spelling per line")
    if len(casing) != len(lines):
        raise ValueError(f"the casing has {len(lines)} spellings of only {len(casing)} words; expected one per word")
    return casing
