"""Writing files that survive a power cut. Knows names and bytes, not what they mean."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from rheostat.inputs import kind_of

READ_ONLY = "a read-only file"
STALE_SECONDS = 86_400  # a half-written file that has not changed for this long was left by a crash
_PARTIAL = re.compile(r"\.rheostat-[0-9a-f]{16}\.partial")
_LONGEST_NAME = 120
_HERE, _SWAP = -100, 2  # AT_FDCWD; RENAME_EXCHANGE on Linux and RENAME_SWAP on macOS


@contextlib.contextmanager
def replacing(path: Path, *, alone: bool = False, mode: int | None = None) -> Iterator[BinaryIO]:
    """A file that replaces `path` when the block ends. If the block fails, the old file is left unchanged.

    Only a regular file that may be written is ever replaced; anything else (see `obstacle`) is an OSError. The new file
    has the old one's permissions and, as far as the system allows it, its owner and group.
    alone: no other process writes this file, so a half-written one left by a crash is overwritten.
    mode: permissions; by default those of the old file, or the usual ones if the file is new.
    """
    target = Path(os.path.realpath(path))
    if found := obstacle(target):
        if found == READ_ONLY:
            raise PermissionError(errno.EACCES, "it is read-only", str(path))
        raise FileExistsError(errno.EEXIST, f"it is {found}, not a regular file", str(path))
    sweep(target.parent)
    temporary = target.with_name(f".{target.name}.partial" if alone else _partial_name())
    try:
        if alone:
            temporary.unlink(missing_ok=True)
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode or 0o666)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        copy_ownership(target, temporary, mode)
        temporary.replace(target)
        sync_folder(target.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def copy_ownership(old: Path, new: Path, mode: int | None = None) -> None:
    """Give a new file or folder the owner, the group and, unless `mode` is given, the permissions of an old one."""
    try:
        before, after = old.stat(), new.stat()
    except FileNotFoundError:
        return
    if hasattr(os, "chown"):
        for owner, group in ((before.st_uid, -1), (-1, before.st_gid)):
            if owner not in (-1, after.st_uid) or group not in (-1, after.st_gid):
                with contextlib.suppress(PermissionError):  # only the system's administrator may give files away
                    os.chown(new, owner, group)
    if mode is None:
        new.chmod(stat.S_IMODE(before.st_mode))


def obstacle(path: Path) -> str | None:
    """What prevents a file from being written here, such as "a folder" or "a read-only file"; None if nothing does.

    A regular file that may be written is no obstacle, since it can be replaced. Links are followed. Commands check this
    before they start work, so that hours of training are not lost to a path that cannot be written.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    if found := kind_of(mode):
        return found
    # The mode as well: to the system's administrator, every file may be written.
    return None if mode & 0o222 and os.access(path, os.W_OK) else READ_ONLY


def try_writing(path: Path) -> None:
    """Raise OSError if no file can be created where this one belongs, or where its folders would be created.

    Only an attempt tells: permissions do not bind the system's administrator, and a disk may be read-only.
    """
    folder = Path(os.path.realpath(path)).parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    temporary = folder / _partial_name()
    try:
        temporary.open("xb").close()
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def failure(path: Path, error: OSError) -> str:
    """Why a file could not be written, in words."""
    for folder in path.parents:
        with contextlib.suppress(OSError):
            if stat.S_ISREG(folder.stat().st_mode):
                return f"{folder} is a file, not a folder"
    return error.strerror or str(error)


def old_file(path: Path) -> str:
    """What to add to an error of writing: that the old file is intact, if there is one."""
    return "; the old file is intact" if os.path.lexists(path) else ""


def _partial_name() -> str:
    return f".rheostat-{os.urandom(8).hex()}.partial"


def sweep(folder: Path) -> None:
    """Delete the half-written files that crashes left here: only those that `replacing` named, and only old ones."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _PARTIAL.fullmatch(entry.name):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and time.time() - status.st_mtime > STALE_SECONDS:
                    with contextlib.suppress(OSError):  # another process was quicker
                        Path(entry.path).unlink()


def file_name(text: str) -> str:
    """A file name made from data, such as the name of a corpus. It is one name: it cannot lead out of its folder.

    Usual names stay as they are. In others, signs with a meaning to a file system become "-", and a checksum keeps two
    different names different.
    """
    safe = re.sub(r"[^\w.+@%=,~ -]", "-", text, flags=re.ASCII).lstrip(". -")
    if safe == text and 0 < len(safe) <= _LONGEST_NAME:
        return safe
    return f"{safe[: _LONGEST_NAME - 9]}-{zlib.crc32(text.encode(errors='surrogatepass')):08x}".lstrip("-")


def exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step, so that a kill leaves both; False if this system or file system cannot."""
    import ctypes
    import sys

    library = ctypes.CDLL(None, use_errno=True) if os.name == "posix" else None
    names = os.fsencode(one), os.fsencode(other)
    try:
        if library is not None and sys.platform == "darwin":
            return int(library.renamex_np(*names, _SWAP)) == 0
        if library is not None:
            return int(library.renameat2(_HERE, names[0], _HERE, names[1], _SWAP)) == 0
    except AttributeError:  # a C library without the call
        pass
    return False


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk, so that new names survive a crash. Does nothing if folders cannot be opened."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
