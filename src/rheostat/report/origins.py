"""How weights, rankings and points were made, in words: what results files have copied from model files.

Nothing is guessed: what a file does not record is "not recorded".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rheostat.measure.results import NOT_RECORDED, OriginJson, Origins
from rheostat.model.origin import Origin
from rheostat.report.document import Table, rows


@dataclass(frozen=True)
class OriginLine:
    """names: of what was made in the same way, such as all rankings of a file whose origin is not recorded."""

    path: Path
    model: str
    names: tuple[str, ...]
    made: str


def origins_of(path: Path, model: str, origins: Origins) -> list[OriginLine]:
    """A line for each way in which something in a results file was made."""
    named: dict[str, OriginJson] = {"weights": origins.weights}
    named |= {f"ranking {name}": origin for name, origin in origins.rankings.items()}
    named |= {f"point {name}": origin for name, origin in origins.points.items()}
    by_making: dict[str, list[str]] = {}
    for name, origin in named.items():
        by_making.setdefault(origin_text(origin), []).append(name)
    return [OriginLine(path, model, tuple(names), made) for made, names in by_making.items()]


def origin_text(stored: OriginJson) -> str:
    """One line about how something was made; the resolved recipe stays in the model file."""
    if isinstance(stored, str):
        return stored
    shown = Origin.from_json(stored).shown()
    command = shown.pop("command")
    known = [f"{name} {value}" for name, value in shown.items() if value != NOT_RECORDED]
    return "; ".join([f"`{command}`" if command != NOT_RECORDED else f"command {NOT_RECORDED}", *known])


def origins_table(lines: Sequence[OriginLine]) -> Table:
    cells = [[f"`{one.path.name}`", f"`{one.model}`", ", ".join(one.names), one.made] for one in lines]
    return Table(("file", "model", "what", "how it was made"), "llll", rows(cells))
