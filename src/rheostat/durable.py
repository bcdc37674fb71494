"""Files that survive a power cut. Knows names and bytes; what is written is the business of others."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def replacing(path: Path, *, alone: bool = False, mode: int | None = None) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` when the block ends; when it fails, what was there stays.

    alone: nobody else writes this file meanwhile, so that what a crash left half-written is found and overwritten.
    mode: permissions; as they were, or as new files have them, if not given.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name if alone else os.urandom(8).hex()}.partial")
    try:
        if alone:
            temporary.unlink(missing_ok=True)
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode or 0o666)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is None and target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        temporary.replace(target)
        sync_folder(target.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make a new name in a folder last, where the system lets a folder be opened for that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
