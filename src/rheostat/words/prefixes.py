"""Which words begin with a prefix: an index of words by the form in which they are compared.

Knows forms and numbers; the caller decides what a number means (a word's id, its place in a list).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.int64]


class PrefixIndex:
    """Numbers sorted by the forms of their words. It never changes, so several threads can read it."""

    def __init__(self, pairs: Iterable[tuple[str, int]]) -> None:
        """pairs: the form of a word (`writing.matching_form`), and its number."""
        ordered = sorted(pairs)
        self._forms = [form for form, _ in ordered]
        self._numbers: Numbers = np.array([number for _, number in ordered], np.int64)
        self.all: Numbers = np.sort(self._numbers)  # ascending: arrays indexed in this order are read quickly
        self._numbers.flags.writeable = self.all.flags.writeable = False

    def with_prefix(self, form: str) -> Numbers:
        """The numbers of all words whose form begins with `form`, in the order of their forms."""
        length = len(form)
        first = bisect_left(self._forms, form)
        return self._numbers[first : bisect_right(self._forms, form, first, key=lambda other: other[:length])]
