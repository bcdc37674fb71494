"""Days of a device: battery, charger, heat, power saver and typing over time, as CSV files.

    time_s,level,charging,queries,busy,power_w,ambient_c,power_saver,foreground
    0,1.0,0,0,1,0.4,22,0,1
    60,0.998,0,4,1,1.2,22,0,1

queries: typed since the previous row. The other columns are optional. busy: how many times slower than idle the device
was in that time. power_w: what it drew without the model. ambient_c: the air around it. heat: the thermal state it
reported, for a day without power_w. power_saver, foreground: 0 or 1. An empty cell of the last three is unknown. Lines
that begin with # are notes: where the day comes from, such as the script that generated it. Knows only the file;
`replay` runs a recorded day under a behaviour.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rheostat.errors import RheostatError, shorten
from rheostat.governor.device import HEATS, Battery, Heat
from rheostat.inputs import read_input_text

REQUIRED = ("time_s", "level", "charging", "queries")
OPTIONAL = ("busy", "power_w", "ambient_c", "heat", "power_saver", "foreground")
AMBIENT_C = 25.0
LARGEST = 1e12  # in any column; the sums of a day stay finite
TRUTHS = {"1": True, "true": True, "0": False, "false": False}


@dataclass(frozen=True)
class Row:
    time_s: float
    battery: Battery
    queries: int
    busy: float = 1.0
    power_w: float | None = None
    ambient_c: float = AMBIENT_C
    heat: Heat | None = None
    power_saver: bool | None = None
    foreground: bool | None = None


@dataclass(frozen=True)
class Trace:
    """A day: rows in order of time, at least one. note: where it comes from, in the file's own words."""

    name: str
    rows: tuple[Row, ...]
    note: str = ""

    @property
    def hours(self) -> float:
        return (self.rows[-1].time_s - self.rows[0].time_s) / 3600


def read_trace(path: Path) -> Trace:
    """Read a trace file; errors name the file and the line."""
    try:
        lines = list(csv.reader(io.StringIO(read_input_text(path, "recorded day"))))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise RheostatError(f"cannot read the trace {path}: {reason}; expected a UTF-8 CSV file") from None
    rows = tuple(_rows(path, lines))
    if not rows:
        raise RheostatError(f"{path} has no rows; expected at least one below {','.join(REQUIRED)}")
    notes = [",".join(cells).removeprefix("#").strip() for cells in lines if _is_note(cells)]
    return Trace(path.stem, rows, " ".join(notes))


def _is_note(cells: Sequence[str]) -> bool:
    return bool(cells) and cells[0].startswith("#")


def _rows(path: Path, lines: Sequence[list[str]]) -> Iterator[Row]:
    header: list[str] | None = None
    previous_s = -math.inf
    for line, cells in enumerate(lines, start=1):
        if not cells or _is_note(cells):
            continue
        where = f"{path}, line {line}"
        if header is None:
            header = _checked_header(where, cells)
            continue
        row = _row(where, header, cells)
        if row.time_s <= previous_s:
            raise RheostatError(f"{where}: time_s is {row.time_s:g} after {previous_s:g}; expected rising times")
        previous_s = row.time_s
        yield row


def _checked_header(where: str, cells: Sequence[str]) -> list[str]:
    names = [cell.strip() for cell in cells]
    known = set(REQUIRED) | set(OPTIONAL)
    if len(set(names)) != len(names) or not set(REQUIRED) <= set(names) <= known:
        raise RheostatError(
            f"{where}: the columns are {shorten(','.join(names), 200)}; expected {','.join(REQUIRED)} and "
            f"optionally {','.join(OPTIONAL)}"
        )
    return names


def _row(where: str, header: Sequence[str], cells: Sequence[str]) -> Row:
    if len(cells) != len(header):
        raise RheostatError(f"{where}: {len(cells)} values; expected {len(header)}, one for each column")
    values = dict(zip(header, (cell.strip() for cell in cells), strict=True))
    level = _number(where, values, "level", 0, 1)
    queries = _number(where, values, "queries", 0)
    if queries != int(queries):
        raise RheostatError(f"{where}: queries is {queries:g}; expected a whole number")
    busy = _number(where, values, "busy", 0) if "busy" in values else 1.0
    if busy == 0:
        raise RheostatError(f"{where}: busy is 0; expected a number above 0: 1 is an idle device")
    return Row(
        _number(where, values, "time_s"),
        Battery(level, _truth(where, values, "charging")),
        int(queries),
        busy,
        power_w=_number(where, values, "power_w", 0) if "power_w" in values else None,
        ambient_c=_number(where, values, "ambient_c", -50, 80) if "ambient_c" in values else AMBIENT_C,
        heat=_heat(where, values.get("heat", "")),
        power_saver=_truth(where, values, "power_saver") if values.get("power_saver") else None,
        foreground=_truth(where, values, "foreground") if values.get("foreground") else None,
    )


def _number(
    where: str, values: Mapping[str, str], name: str, least: float = -math.inf, most: float = math.inf
) -> float:
    try:
        value = float(values[name])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise RheostatError(f"{where}: {name} is '{shorten(values[name])}'; expected a number")
    if abs(value) > LARGEST:
        raise RheostatError(f"{where}: {name} is {value:g}; expected a number of at most {LARGEST:g}")
    if not least <= value <= most:
        bounds = f"from {least:g} to {most:g}" if most < math.inf else f"of {least:g} or more"
        raise RheostatError(f"{where}: {name} is {value:g}; expected a number {bounds}")
    return value


def _truth(where: str, values: Mapping[str, str], name: str) -> bool:
    text = values[name]
    if text.lower() not in TRUTHS:
        raise RheostatError(f"{where}: {name} is '{shorten(text)}'; expected 0 or 1")
    return TRUTHS[text.lower()]


def _heat(where: str, text: str) -> Heat | None:
    found: Heat | None = next((heat for heat in HEATS if heat == text.lower()), None)
    if text and found is None:
        raise RheostatError(f"{where}: heat is '{shorten(text)}'; expected one of {', '.join(HEATS)}")
    return found
