"""Origins: how a set of weights, a ranking or an operating point came about.

Whatever makes one fills in its origin; files, results and reports copy and print it. A field that is None was not
recorded, and nothing fills it in later by guessing. Knows facts about a run as plain values; knows nothing of files,
and nothing of the process that runs (`provenance.new_origin` starts an origin with what that knows).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from rheostat.errors import RheostatError
from rheostat.tables import from_json

NOT_RECORDED = "not recorded"
LONGEST_CHAIN = 8  # origins behind one another; older ones are dropped, so that a file edited often stays small


@dataclass(frozen=True)
class Origin:
    """How something was made. None: not recorded. An empty text: there was none, and that is known."""

    command: str | None = None
    recipe: Mapping[str, Any] | None = None  # resolved: every choice of the run, defaults included
    steps: int | None = None  # training steps; 0 for what is not trained
    tokens_read: int | None = None  # tokens of text that it was made from, each counted as often as it was read
    seed: int | None = None
    corpus: str | None = None  # its name
    corpus_digest: str | None = None  # of the bytes of the text that was read
    made_from: str | None = None  # digest of the weights that it was made from
    version: str | None = None  # of Rheostat
    date: str | None = None  # ISO 8601, UTC
    before: Origin | None = None  # of what it was made from: weights, a ranking, or a point

    @property
    def is_recorded(self) -> bool:
        """Whether anything is known."""
        return any(getattr(self, item.name) is not None for item in fields(self))

    def after(self, before: Origin) -> Origin:
        """This origin, with `before` as that of what it was made from."""
        return replace(self, before=_shortened(before, LONGEST_CHAIN - 1) if before.is_recorded else None)

    def as_json(self) -> dict[str, Any]:
        """What is recorded, ready for JSON; empty if nothing is."""
        known = {item.name: value for item in fields(self) if (value := getattr(self, item.name)) is not None}
        return known | ({"before": self.before.as_json()} if self.before is not None else {})

    @classmethod
    def from_json(cls, stored: object, where: str = "origin", error: type[RheostatError] = RheostatError) -> Origin:
        """What `as_json` wrote; keys of later versions are ignored. where, error: for what is raised about the rest."""
        return UNKNOWN_ORIGIN if stored is None else from_json(cls, stored, where, error=error, ignore_unknown=True)

    def shown(self) -> dict[str, str]:
        """Every field but the recipe as text for people, by its name in plain words; "not recorded" if it is None."""
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
