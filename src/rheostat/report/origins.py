"""How weights, rankings and points were made, in words, as results files copied it from model files.

Nothing is guessed: what a file does not record is "not recorded". For a few such weights and updates it is known from
elsewhere (`known_weights.toml`, `known_updates.toml`); that is added, with its source.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TypeVar

from rheostat.measure.results import NOT_RECORDED, OriginJson, Origins, SweepSubject
from rheostat.model.origin import Origin
from rheostat.report.document import Table, rows
from rheostat.tables import from_json

SOURCE = "`docs/baselines.md`"  # says where the known weights come from
UPDATES_SOURCE = "`docs/paper-map.md`"  # says how the known updates were trained

T = TypeVar("T")


@dataclass(frozen=True)
class OriginLine:
    """what: everything in a results file that was made in the same way, such as all rankings without an origin."""

    path: Path
    model: str
    what: str
    made: str


@dataclass(frozen=True)
class KnownWeights:
    """Weights whose file does not record how they were made. made: in words."""

    name: str
    epochs: int
    made: str


@dataclass(frozen=True)
class KnownUpdates:
    """Updates whose files do not record how they were trained. teacher: whether the full model taught them."""

    name: str
    steps: int
    teacher: bool


@dataclass(frozen=True)
class UpdateTable:
    """The part of a recovery recipe's `[update]` table that says what an update learned from."""

    what: str = ""
    distill: float = 0.0


@dataclass(frozen=True)
class TrainTable:
    """The part of its `[train]` table that is its schedule."""

    optimizer: str = ""
    epochs: int = 0
    steps: int = 0  # 0: as many as the epochs have
    minutes: float = 0.0
    learning_rate: float = 0.0
    nonmonotone_interval: int = 0


@dataclass(frozen=True)
class UpdateRecipe:
    update: UpdateTable = UpdateTable()
    train: TrainTable = TrainTable()


def update_recipe(origin: Origin, where: str) -> UpdateRecipe:
    """How an update was trained, as its origin records it. where: for an error."""
    return from_json(UpdateRecipe, origin.recipe, where, ignore_unknown=True)


@functools.cache
def known_weights() -> Mapping[str, KnownWeights]:
    """By the digest of the weights."""
    return _known(KnownWeights, "known_weights.toml")


@functools.cache
def known_updates() -> Mapping[str, KnownUpdates]:
    """By the digest of the weights that the updates belong to."""
    return _known(KnownUpdates, "known_updates.toml")


def _known(kind: type[T], name: str) -> dict[str, T]:
    text = resources.files("rheostat.report").joinpath(name).read_text(encoding="utf-8")
    return {digest: from_json(kind, one, digest) for digest, one in tomllib.loads(text).items()}


def known_of(weights: OriginJson, digest: str) -> KnownWeights | None:
    """What is known about weights whose own file does not record it."""
    return known_weights().get(digest) if weights == NOT_RECORDED else None


def budget_beside(subject: SweepSubject, reference: SweepSubject) -> str:
    """How long a model was trained, and how long the reference, in a few words; empty if that is not known."""
    known, theirs = (known_of(one.origins.weights, one.weights) for one in (subject, reference))
    if known:
        return f"{known.epochs} epochs" + (f"; the reference had {theirs.epochs}" if theirs else "")
    weights = subject.origins.weights
    return f"{weights['steps']:,} steps" if not isinstance(weights, str) and weights.get("steps") else ""


def origins_of(path: Path, model: str, origins: Origins, digest: str = "") -> list[OriginLine]:
    """One line per way in which something in a results file was made. digest: of the weights."""
    by_making: dict[str, dict[str, list[str]]] = {}
    kinds = {
        "weights": {"": _weights_text(origins.weights, digest)},
        "ranking": {name: origin_text(one) for name, one in origins.rankings.items()},
        "point": {name: origin_text(one) for name, one in origins.points.items()},
    }
    for kind, named in kinds.items():
        for name, made in named.items():
            by_making.setdefault(made, {}).setdefault(kind, []).append(name)
    return [OriginLine(path, model, _what(found), made) for made, found in by_making.items()]


def _weights_text(weights: OriginJson, digest: str) -> str:
    known = known_of(weights, digest)
    return f"{NOT_RECORDED} in the file; {SOURCE} says: {known.made}" if known else origin_text(weights)


def _what(names: Mapping[str, Sequence[str]]) -> str:
    parts = [f"{kind}{'s' if len(found) > 1 else ''} {', '.join(found)}".strip() for kind, found in names.items()]
    return "; ".join(parts)


def origin_text(stored: OriginJson) -> str:
    """One line about how something was made; the resolved recipe stays in the model file."""
    if isinstance(stored, str):
        return stored
    shown = Origin.from_json(stored).shown()
    command = shown.pop("command")
    known = [f"{name} {value}" for name, value in shown.items() if value != NOT_RECORDED]
    return "; ".join([f"`{command}`" if command != NOT_RECORDED else f"command {NOT_RECORDED}", *known])


def origins_table(lines: Sequence[OriginLine]) -> Table:
    cells = [[f"`{one.path.name}`", f"`{one.model}`", one.what, one.made] for one in lines]
    return Table(("file", "model", "what", "how it was made"), "llll", rows(cells))
