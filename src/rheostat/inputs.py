"""Reading files that a user names: only regular files, and only as large as their kind may be.

Opening a named pipe would wait forever, and a device such as /dev/zero never ends. Knows paths and bytes, not what they
mean: anything else is an OSError, whose `strerror` completes a message like "cannot be read (…)". Model files have
limits of their own (`model.container`).
"""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path
from typing import BinaryIO, Literal

InputKind = Literal[
    "results file",
    "recipe or policy",
    "recorded day",
    "power trace",
    "list of words",
    "user words",
    "memory",
    "saved search",
    "manifest of an export",
    "part of a mixture",
]
# Far above any file that is meant to be read, and small enough to be read whole. docs/pipeline.md states them too.
LARGEST_BYTES: dict[InputKind, int] = {
    "results file": 64 << 20,
    "recipe or policy": 1 << 20,
    "recorded day": 64 << 20,
    "power trace": 512 << 20,
    "list of words": 64 << 20,
    "user words": 32 << 20,
    "memory": 64 << 20,
    "saved search": 64 << 20,
    "manifest of an export": 1 << 20,
    "part of a mixture": 4 << 30,
}
PIECE = 1 << 20  # bytes that are read at once
# Without O_NONBLOCK, opening a named pipe would wait for a writer. Windows has no such flag.
OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_input(path: Path) -> BinaryIO:
    """A regular file, opened to read its bytes. For texts, which are read piece by piece and may have any size."""
    return open(path, "rb", opener=_open_regular)


def read_input(path: Path, kind: InputKind) -> bytes:
    """All bytes of a file of this kind; an OSError if it is larger than such files may be."""
    most, pieces = LARGEST_BYTES[kind], list[bytes]()
    with open_input(path) as file:
        size = os.fstat(file.fileno()).st_size
        # In pieces, since files that the system makes up, such as those in /proc, have no size.
        while size <= most and (piece := file.read(PIECE)):
            pieces.append(piece)
            size = max(size, sum(map(len, pieces)))
    if size > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes, the most of a {kind}", str(path))
    return b"".join(pieces)


def read_input_text(path: Path, kind: InputKind) -> str:
    """A file of this kind as text in UTF-8, with or without a byte-order mark; line ends become "\\n"."""
    return io.TextIOWrapper(io.BytesIO(read_input(path, kind)), encoding="utf-8-sig").read()


def kind_of(mode: int) -> str | None:
    """What something with this mode is if it is not a regular file, such as "a named pipe"; None if it is one."""
    return None if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "something else")


def _open_regular(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | OPEN_FLAGS)
    if found := kind_of(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileExistsError(errno.EEXIST, f"it is {found}, not a regular file", str(path))
    return descriptor
