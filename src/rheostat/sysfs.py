"""Reading the kernel's files under /sys: the numbers and words in them, and why they cannot be read.

The only place that opens them. Knows files and which batteries are the machine's own; `governor.readers`, `machine` and
the meters know what the numbers mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from rheostat.errors import MeterError

SYSTEM_ROOT = Path("/sys")


def read_integer(path: Path) -> int:
    """The whole number in a file; raises MeterError if there is none."""
    text = _read(path)
    try:
        return int(text)
    except ValueError:
        raise MeterError(f"{path} says {text!r}; expected a whole number") from None


def read_word(path: Path) -> str:
    """The file's text; empty if the file cannot be read."""
    try:
        return _read(path)
    except MeterError:
        return ""


def find_integer(path: Path) -> int | None:
    """The whole number in a file; None if there is none."""
    try:
        return int(read_word(path))
    except ValueError:
        return None


def find_integers(paths: Iterable[Path]) -> list[int]:
    """The whole numbers in these files, in order; files without one are skipped."""
    return [value for value in map(find_integer, sorted(paths)) if value is not None]


def in_order(paths: Iterable[Path]) -> list[Path]:
    """Paths sorted by the numbers in their names, so that 10 comes after 9."""
    return sorted(paths, key=lambda path: [int(part) for part in re.findall(r"\d+", path.name)])


def own_batteries(system_root: Path = SYSTEM_ROOT) -> list[Path]:
    """The folders of the batteries that feed this machine, not those of a mouse or a headset (scope "Device")."""
    supplies = sorted((system_root / "class" / "power_supply").glob("*"))
    return [one for one in supplies if read_word(one / "type") == "Battery" and read_word(one / "scope") != "Device"]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except PermissionError:
        raise MeterError(f"{path} is not readable for this user; run as root or: sudo chmod a+r {path}") from None
    except OSError as error:
        raise MeterError(f"{path} cannot be read ({error.strerror})") from None
