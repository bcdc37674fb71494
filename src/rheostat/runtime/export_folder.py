"""The folder of an export: which files it may have, and how it replaces an earlier one as a whole.

An earlier export is replaced only once the new one is complete, whatever engine either is for. A folder with anything
else in it is left alone. Knows names; `export` and `onnx.graph_files` know what the files contain.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from rheostat.durable import STALE_SECONDS, copy_ownership, exchange, obstacle, sweep
from rheostat.errors import ExportError, RheostatError
from rheostat.inputs import read_input
from rheostat.tables import decode_json

FORMAT = "rheostat-export"
FORMAT_VERSION = 1

MANIFEST = "manifest.json"
TEXT = "text.json"
VOCABULARY = "vocabulary.txt"
CASING = "casing.txt"
SUGGESTIBLE = "suggestible.bin"
MODEL = "model.safetensors"  # for the core
STEP, SEQUENCE = "step.onnx", "sequence.onnx"  # for ONNX Runtime
FILES = frozenset({MANIFEST, TEXT, VOCABULARY, CASING, SUGGESTIBLE, MODEL, STEP, SEQUENCE})


def replaceable(folder: Path) -> Path:
    """The folder with its whole path; raises ExportError unless nothing is there, or only an earlier export."""
    folder = folder.absolute()  # gives "." a name
    if not os.path.lexists(folder):
        return folder
    if folder.is_symlink() or not folder.is_dir():
        raise _refuse(folder, "is not a folder")
    names = {path.name for path in folder.iterdir()}
    if names and not _is_export(folder / MANIFEST):
        raise _refuse(folder, "contains files that are not an earlier export")
    if strangers := sorted(names - FILES):
        raise _refuse(folder, f"contains {strangers[0]!r:.60}, which is not part of an export")
    if not folder.stat().st_mode & 0o222 or not os.access(folder, os.W_OK):
        raise _refuse(folder, "is read-only")
    for name in sorted(names):
        if found := obstacle(folder / name):
            raise _refuse(folder, f"contains {name}, which is {found}")
    return folder


def _is_export(manifest: Path) -> bool:
    try:
        described = decode_json(read_input(manifest, "manifest of an export"))
    except (OSError, RheostatError):
        return False
    return isinstance(described, dict) and described.get("format") == FORMAT


def _refuse(folder: Path, why: str) -> ExportError:
    return ExportError(f"{folder} {why}; expected a new folder, or an earlier export to replace: choose another folder")


@contextlib.contextmanager
def written(folder: Path) -> Iterator[Path]:
    """A temporary folder next to `folder` to write into; it replaces `folder` on success and is deleted on failure."""
    partial = folder.with_name(f".{folder.name}.{os.urandom(8).hex()}.partial")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _tidy(folder)
        partial.mkdir()
        yield partial
        _put_in_place(partial, folder)
    except OSError as error:
        found = error.strerror or str(error)
        raise ExportError(
            f"{folder} could not be written ({found}); expected a writable place: choose another folder"
        ) from error
    finally:
        _delete(partial)


def _put_in_place(partial: Path, folder: Path) -> None:
    if not folder.exists():
        partial.rename(folder)
        return
    replaceable(folder)  # again, because it may have changed since
    for path in partial.iterdir():
        copy_ownership(folder / path.name, path)
    copy_ownership(folder, partial)
    if exchange(partial, folder):
        return  # `partial` is the old folder now, and is deleted
    # Not every system can swap two folders. A kill between these two leaves the old one beside it, for `_tidy`.
    aside = partial.with_suffix(".old")
    folder.rename(aside)
    try:
        partial.rename(folder)
    except OSError:
        aside.rename(folder)
        raise
    _delete(aside)


def _tidy(folder: Path) -> None:
    """Put back an export that a kill left moved aside, and delete old half-written ones; only those of this folder."""
    for path in sorted(folder.parent.glob(".*.*")):
        found = re.fullmatch(re.escape(f".{folder.name}.") + r"[0-9a-f]{16}\.(partial|old)", path.name)
        if not found or path.is_symlink() or not path.is_dir():
            continue
        is_old = time.time() - path.stat().st_mtime > STALE_SECONDS
        if is_old:
            sweep(path)  # a model file that a kill left half written
        if not {one.name for one in path.iterdir()} <= FILES:
            continue
        if found[1] == "old" and not os.path.lexists(folder):
            path.rename(folder)
        elif is_old:
            _delete(path)


def _delete(folder: Path) -> None:
    """Delete a folder that an export made. Anything that is not part of an export stays, and its folder with it."""
    for _ in range(2):  # once more if there was no memory for it
        with contextlib.suppress(OSError, MemoryError):
            for name in FILES:
                (folder / name).unlink(missing_ok=True)
            folder.rmdir()
            return
