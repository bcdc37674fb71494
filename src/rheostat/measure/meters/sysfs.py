"""Numbers and words in the kernel's files, and what to say of those that cannot be read."""

from __future__ import annotations

import re
from pathlib import Path

from rheostat.errors import MeterError

SYSTEM_ROOT = Path("/sys")


def read_integer(path: Path) -> int:
    text = _read(path)
    try:
        return int(text)
    except ValueError:
        raise MeterError(f"{path} says {text!r}; expected a whole number") from None


def read_word(path: Path) -> str:
    """The file's text, or nothing if there is none to read."""
    try:
        return _read(path)
    except MeterError:
        return ""


def in_order(paths: list[Path]) -> list[Path]:
    """By the numbers in their names, so that 10 comes after 9."""
    return sorted(paths, key=lambda path: [int(part) for part in re.findall(r"\d+", path.name)])


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except PermissionError:
        raise MeterError(f"{path} is not readable for this user; run as root or: sudo chmod a+r {path}") from None
    except OSError as error:
        raise MeterError(f"{path} cannot be read ({error.strerror})") from None
