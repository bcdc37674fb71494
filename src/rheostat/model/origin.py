"""Origins: how a set of weights, a ranking or an operating point was made.

The code that makes one fills in its origin; files, results and reports copy and print it. A field that is None was not
recorded, and is never guessed later. Knows facts about a run as plain values; knows nothing of files or of the running
process (`provenance.new_origin` creates an origin with its command, version and date).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rheostat.errors import RheostatError
from rheostat.tables import from_json

NOT_RECORDED = "not recorded"
LONGEST_CHAIN = 8  # linked origins; older ones are dropped, so that a file edited often stays small


@dataclass(frozen=True)
class Origin:
    """How something was made. None: not recorded. Empty text: recorded that there was none."""

    command: str | None = None
    recipe: Mapping[str, Any] | None = None  # resolved: all settings of the run, including defaults
    steps: int | None = None  # training steps; 0 if nothing was trained
    tokens_read: int | None = None  # tokens of text that were read, each counted as often as it was read
    seed: int | None = None
    corpus: str | None = None  # its name
    corpus_digest: str | None = None  # of the bytes of the text that was read
    made_from: str | None = None  # digest of the weights it was made from
    version: str | None = None  # of Rheostat
    date: str | None = None  # ISO 8601, UTC
    before: Origin | None = None  # the origin of what it was made from: weights, a ranking, or a point

    @property
    def is_recorded(self) -> bool:
        """Whether anything is known."""
        return any(getattr(self, item.name) is not None for item in fields(self))

    def after(self, before: Origin) -> Origin:
        """This origin, with `before` as the origin of what it was made from."""
        return replace(self, before=_shortened(before, LONGEST_CHAIN - 1) if before.is_recorded else None)

    def as_json(self) -> dict[str, Any]:
        """The recorded fields, ready for JSON; empty if nothing is recorded."""
        known = {item.name: value for item in fields(self) if (value := getattr(self, item.name)) is not None}
        return known | ({"before": self.before.as_json()} if self.before is not None else {})

    @classmethod
    def from_json(cls, stored: object, where: str = "origin", error: type[RheostatError] = RheostatError) -> Origin:
        """The reverse of `as_json`; keys of later versions are ignored. where, error: used if the rest is invalid."""
        return UNKNOWN_ORIGIN if stored is None else from_json(cls, stored, where, error=error, ignore_unknown=True)

    def shown(self) -> dict[str, str]:
        """Every field but the recipe as readable text, under a readable name; "not recorded" if it is None."""
        plain = {
            "command": self.command,
            "steps": _count(self.steps),
            "tokens read": _count(self.tokens_read),
            "seed": None if self.seed is None else str(self.seed),
            "corpus": self.corpus,
            "corpus digest": self.corpus_digest,
            "made from weights": self.made_from,
            "version": self.version,
            "date": self.date,
        }
        return {name: NOT_RECORDED if value is None else value or "none" for name, value in plain.items()}


UNKNOWN_ORIGIN = Origin()


def _shortened(origin: Origin, longest: int) -> Origin:
    if origin.before is None:
        return origin
    return replace(origin, before=_shortened(origin.before, longest - 1) if longest > 1 else None)


def _count(number: int | None) -> str | None:
    return None if number is None else f"{number:,}"


DIGEST_BYTES = 8


def digest_of(arrays: Iterable[NDArray[Any]] | Mapping[str, NDArray[Any]]) -> str:
    """A hexadecimal digest of the arrays in order; for a mapping, their names are included."""
    from hashlib import blake2b  # here, because a suggestion does not need it

    hash = blake2b(digest_size=DIGEST_BYTES)
    named = arrays.items() if isinstance(arrays, Mapping) else (("", array) for array in arrays)
    for name, array in named:
        hash.update(f"{name} {array.dtype.str} {array.shape} ".lstrip().encode())
        hash.update(np.ascontiguousarray(array).data)
    return hash.hexdigest()
