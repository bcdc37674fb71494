"""How weights, rankings and points were made, in words, as results files copied it from model files.

Nothing is guessed: what a file does not record is "not recorded".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rheostat.measure.results import NOT_RECORDED, OriginJson, Origins
from rheostat.model.origin import Origin
from rheostat.report.document import Table, rows


@dataclass(frozen=True)
class OriginLine:
    """what: everything in a results file that was made in the same way, such as all rankings without an origin."""

    path: Path
    model: str
    what: str
    made: str


def origins_of(path: Path, model: str, origins: Origins) -> list[OriginLine]:
    """One line per way in which something in a results file was made."""
    by_making: dict[str, dict[str, list[str]]] = {}
    kinds: dict[str, Mapping[str, OriginJson]]
    kinds = {"weights": {"": origins.weights}, "ranking": origins.rankings, "point": origins.points}
    for kind, named in kinds.items():
        for name, origin in named.items():
            by_making.setdefault(origin_text(origin), {}).setdefault(kind, []).append(name)
    return [OriginLine(path, model, _what(found), made) for made, found in by_making.items()]


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
