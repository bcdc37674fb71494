"""Writing files that survive a power cut. Knows names and bytes, not what they mean."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@contextlib.contextmanager
def replacing(path: Path, *, alone: bool = False, mode: int | None = None) -> Iterator[BinaryIO]:
    """A file that replaces `path` when the block ends. If the block fails, the old file is left unchanged.

    Only a regular file is ever replaced; anything else (see `obstacle`) is an OSError.
    alone: no other process writes this file, so a half-written one left by a crash is overwritten.
    mode: permissions; by default those of the old file, or the usual ones if the file is new.
    """
    target = Path(os.path.realpath(path))
    if found := obstacle(target):
        raise FileExistsError(errno.EEXIST, f"it is {found}, not a regular file", str(path))
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


def obstacle(path: Path) -> str | None:
    """What prevents a file from being written here, such as "a folder" or "a device"; None if nothing does.

    A regular file is no obstacle, since it can be replaced. Links are followed. Commands check this before they start
    work, so that hours of training are not lost to a path that cannot be written.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    return None if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "something else")


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk, so that new names survive a crash. Does nothing if folders cannot be opened."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
