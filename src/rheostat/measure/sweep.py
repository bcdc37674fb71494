"""A grid of operating points, measured one by one into a results file that can be gone on with at any time.

Knows the grid and the file; how a point is measured is given to it. Each finished point is written at once, so that a
sweep that was killed loses nothing but the point it was at.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rheostat.errors import RheostatError
from rheostat.measure.results import write_results
from rheostat.measure.typing_simulator import KeystrokeCount
from rheostat.metrics import Quality
from rheostat.model import knob as knob_positions
from rheostat.model.file import ModelFile
from rheostat.model.operating_point import FULL, OperatingPoint
from rheostat.provenance import provenance


@dataclass(frozen=True)
class Cell:
    """One measurement of the grid. label: the ranking's or the stored point's name; "full" for the whole model."""

    label: str
    criterion: str
    seed: int | None
    knob: float
    split: str
    allocation: str = "uniform"  # "stored": the point of that name; "bare": the same without its update
    digest: str = ""  # of the point: what was measured under this name may have been learned anew since

    def is_of(self, row: Mapping[str, Any]) -> bool:
        """Whether a row is what this was, or is, measured as. A stored point is known by its name alone."""
        same = (row["label"], row["split"], row["allocation"]) == (self.label, self.split, self.allocation)
        return same and (self.allocation != "uniform" or row["knob"] == self.knob)

    def identified(self, file: ModelFile) -> Cell:
        return replace(self, digest=self.point_of(file).digest)

    def point_of(self, file: ModelFile) -> OperatingPoint:
        """The point that is to be measured."""
        if self.allocation == "stored":
            return file.point(self.label)
        if self.allocation == "bare":
            return replace(file.point(self.label), updates=None)
        return knob_positions.choose(file, self.knob, ranking=None if self.label == FULL else self.label)


@dataclass(frozen=True)
class Measured:
    """What was found at a point. keystrokes: None where nothing was typed."""

    point: OperatingPoint
    quality: Quality
    keystrokes: KeystrokeCount | None = None


Measure = Callable[[Cell, Callable[[float], None]], Measured]


class ResultsFile:
    """Rows of measurements with where they come from, as JSON; replaced as a whole after every row."""

    def __init__(self, path: Path, subject: Mapping[str, Any], *, resume: bool = True) -> None:
        """resume: keep the rows that are in the file already; without it, they are replaced."""
        self.path, self.subject = path, dict(subject)
        self.rows: list[dict[str, Any]] = []
        if resume and path.exists():
            self._load()

    def _load(self) -> None:
        try:
            contents = json.loads(self.path.read_text(encoding="utf-8"))
            found, self.rows = contents["subject"], contents["rows"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RheostatError(f"{self.path} is not a results file of a sweep ({error}); choose another -o") from None
        if found != self.subject:
            raise RheostatError(
                f"{self.path} holds results of {found}; these would be of {self.subject}: choose another -o, "
                "or delete it to measure anew"
            )

    def has(self, cell: Cell) -> bool:
        return any(cell.is_of(row) and row.get("digest", "") == cell.digest for row in self.rows)

    def measured_as(self, cell: Cell) -> dict[str, Any] | None:
        """What was found for the same filters on the same text under another name; only a bare point may have it.

        Without its update a point is often what a ranking or another point has already been measured as. Keystrokes
        are not taken over: nobody types at a bare point.
        """
        if cell.allocation != "bare" or not cell.digest:
            return None
        left_out = {*asdict(cell), "keystrokes"}
        for row in self.rows:
            if (row.get("digest"), row["split"]) == (cell.digest, cell.split):
                return {key: value for key, value in row.items() if key not in left_out}
        return None

    def add(self, cell: Cell, row: Mapping[str, Any]) -> None:
        """Takes the place of the row of a point that had this name before."""
        self.rows = [before for before in self.rows if not cell.is_of(before)] + [dict(row)]
        contents = {"kind": "sweep", "subject": self.subject, "provenance": provenance(), "rows": self.rows}
        write_results(self.path, contents)


def sweep(
    cells: Sequence[Cell], measure: Measure, results: ResultsFile, progress: Callable[[str, float], None]
) -> Iterator[dict[str, Any]]:
    """Measure the cells that are not in the results yet; yields each new row. progress: label and share of it all."""
    left = [cell for cell in cells if not results.has(cell)]
    # A point costs what its knob says, so that the bar moves evenly.
    total, done = sum(cell.knob for cell in cells), sum(cell.knob for cell in cells if results.has(cell))
    for cell in left:
        label = f"{cell.label} {cell.knob:.0%} {cell.split}"

        def show(share: float, label: str = label, cell: Cell = cell, before: float = done) -> None:
            progress(label, (before + share * cell.knob) / total)

        show(0.0)
        if (found := results.measured_as(cell)) is None:
            found = _found(measure(cell, show))
        row = {**asdict(cell), **found}
        results.add(cell, row)
        done += cell.knob
        yield row
    progress("done", 1.0)


def _found(measured: Measured) -> dict[str, Any]:
    """What a row says besides its cell."""
    found = {
        "flops_fraction": measured.point.flops_fraction,
        "widths": list(measured.point.widths),
        "update_bytes": measured.point.update_bytes,
        "update_rank": measured.point.update_rank,
        **measured.quality.as_json(),
    }
    return {**found, "keystrokes": measured.keystrokes.as_json()} if measured.keystrokes else found
