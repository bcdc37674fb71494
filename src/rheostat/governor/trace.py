"""Recorded days: battery, charger and typing over time, as CSV files.

    time_s,level,charging,queries,busy
    0,1.0,0,0,1
    60,0.998,0,4,1

queries: typed since the previous row. busy (optional): how many times slower than idle the device was in that time.
Knows only the file; `replay` runs a recorded day under a behaviour.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rheostat.errors import RheostatError
from rheostat.governor.battery import Battery

REQUIRED = ("time_s", "level", "charging", "queries")
OPTIONAL = ("busy",)
TRUTHS = {"1": True, "true": True, "0": False, "false": False}


@dataclass(frozen=True)
class Row:
    time_s: float
    battery: Battery
    queries: int
    busy: float = 1.0


@dataclass(frozen=True)
class Trace:
    """A recorded day: rows in order of time, at least one."""

    name: str
    rows: tuple[Row, ...]


def read_trace(path: Path) -> Trace:
    """Read a trace file; errors name the file and the line."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = tuple(_rows(path, csv.reader(file)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise RheostatError(f"cannot read the trace {path}: {reason}; expected a UTF-8 CSV file") from None
    if not rows:
        raise RheostatError(f"{path} has no rows; expected at least one below {','.join(REQUIRED)}")
    return Trace(path.stem, rows)


def _rows(path: Path, reader: Iterator[list[str]]) -> Iterator[Row]:
    header: list[str] | None = None
    previous_s = -math.inf
    for line, cells in enumerate(reader, start=1):
        if not cells:
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
            f"{where}: the columns are {','.join(names)}; expected {','.join(REQUIRED)} and optionally "
            f"{','.join(OPTIONAL)}"
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
    battery = Battery(level, _truth(where, values["charging"]))
    return Row(_number(where, values, "time_s"), battery, int(queries), busy)


def _number(
    where: str, values: Mapping[str, str], name: str, least: float = -math.inf, most: float = math.inf
) -> float:
    try:
        value = float(values[name])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise RheostatError(f"{where}: {name} is '{values[name]}'; expected a number")
    if not least <= value <= most:
        bounds = f"from {least:g} to {most:g}" if most < math.inf else f"of {least:g} or more"
        raise RheostatError(f"{where}: {name} is {value:g}; expected a number {bounds}")
    return value


def _truth(where: str, text: str) -> bool:
    if text.lower() not in TRUTHS:
        raise RheostatError(f"{where}: charging is '{text}'; expected 0 or 1")
    return TRUTHS[text.lower()]
