"""Known words: correct words that are not in a model's vocabulary ("latte"), so that nobody corrects them.

They are a Bloom filter, about a byte per word: a word sets a few bits, and is known if all of its bits are set. A known
word is always found; about one in fifty other words is found by chance. The words themselves cannot be listed.

    4 bytes    how many words it was made of, little-endian
    1 byte     places: how many bits a word sets
    3 bytes    0
    the rest   the bits, the lowest of each byte first

A word is its UTF-8 bytes in lower case, with plain apostrophes. `_hash` gives two 32-bit numbers a and b of it, b made
odd; its bits are (a + i·b mod 2³²) mod bits, i from 0. Knows words and bytes; `words.slips` owns the price, and
`keyboard/static/known_words.js` reads the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Container, Iterable, Iterator
from typing import Self

import numpy as np

BITS_PER_WORD = 8
PLACES = 5  # with eight bits per word, six find no fewer other words
MOST_PLACES = 16
MOST_BYTES = 1 << 24
HEADER_BYTES = 8
LEAST_LETTERS = 3
POSSESSIVE = "'s"
SEEDS = (0x811C9DC5, 0x5BD1E995)  # of the two hashes; the first is FNV-1a's own

_HEADER = struct.Struct("<IB3s")


class KnownWords:
    """The known words of a model file. Never changes, so several threads can ask it."""

    def __init__(self, stored: bytes) -> None:
        """stored: the bytes described above; ValueError says what is wrong with them."""
        if not HEADER_BYTES < len(stored) <= MOST_BYTES:
            raise ValueError(f"known words in {len(stored):,} bytes")
        self.count, self._places, rest = _HEADER.unpack_from(stored)
        if not self.count or not 1 <= self._places <= MOST_PLACES or any(rest):
            raise ValueError(f"{self.count:,} known words with {self._places} places each")
        self._bits = stored[HEADER_BYTES:]
        filled = int.from_bytes(self._bits, "little").bit_count()
        if not 0 < filled <= self.count * self._places:
            raise ValueError(f"{filled:,} bits of {self.count:,} known words")

    @classmethod
    def of(cls, words: Collection[str]) -> Self:
        """The known words that a file can store; made of words in lower case."""
        size = max(1, -(-len(words) * BITS_PER_WORD // 8))
        bits = np.zeros(8 * size, np.uint8)
        for word in words:
            bits[list(_places(word, 8 * size, PLACES))] = 1
        return cls(_HEADER.pack(len(words), PLACES, b"") + np.packbits(bits, bitorder="little").tobytes())

    def to_bytes(self) -> bytes:
        """The bytes to store."""
        return _HEADER.pack(self.count, self._places, b"") + self._bits

    def __contains__(self, form: object) -> bool:
        """Whether a word in lower case is known; "latte's" if "latte" is."""
        if not isinstance(form, str) or len(form) < LEAST_LETTERS:
            return False
        bits, word = self._bits, form.removesuffix(POSSESSIVE)
        return all(bits[place >> 3] >> (place & 7) & 1 for place in _places(word, 8 * len(bits), self._places))


def select_known(listed: Iterable[str], vocabulary: Container[str]) -> list[str]:
    """The words of a list that are worth storing: in lower case, of letters, and not in the vocabulary.

    Names are left out, since a capital protects them, and possessives, which are looked up without their ending.
    """
    fit = {word for word in listed if len(word) >= LEAST_LETTERS and word == word.lower() and _has_only_letters(word)}
    return sorted(word for word in fit if word not in vocabulary and not word.endswith(POSSESSIVE))


def _has_only_letters(word: str) -> bool:
    return all(map(str.isalpha, word.split("'")))  # apostrophes inside are fine


def _places(word: str, bits: int, count: int) -> Iterator[int]:
    """The bits of a word."""
    data = word.encode(errors="replace")
    first, step = _hash(data, SEEDS[0]), _hash(data, SEEDS[1]) | 1
    return (((first + number * step) & 0xFFFFFFFF) % bits for number in range(count))


def _hash(data: bytes, seed: int) -> int:
    """FNV-1a from a seed; then the last steps of MurmurHash3, since FNV's low bits depend on few others."""
    number = seed
    for byte in data:
        number = (number ^ byte) * 0x01000193 & 0xFFFFFFFF
    number = (number ^ number >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    number = (number ^ number >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return number ^ number >> 16
