"""Operating points as files that a browser can run: folders of `rheostat export`, written on request.

Knows folders and how many to keep. docs/export.md describes a folder; this module adds `position.json`, the cost of a
query.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rheostat.keyboard.positions import Position, Positions
from rheostat.runtime.onnx.export import CASING, GRAPHS, MANIFEST, SUGGESTIBLE, VOCABULARY, write_export

KEPT = 6  # folders
POSITION = "position.json"
NAMES = frozenset({MANIFEST, VOCABULARY, CASING, GRAPHS["step"], SUGGESTIBLE, POSITION})


@dataclass(frozen=True)
class Exported:
    """A file of an export. etag: a hash of its contents, so a browser fetches them only once."""

    contents: bytes
    etag: str


class Exports:
    """Exports by percent of the FLOPs, in a folder that `close` deletes. Safe to use from several threads."""

    def __init__(self, positions: Positions, describe: Callable[[Position], dict[str, Any]], kept: int = KEPT) -> None:
        """describe: returns the contents of `position.json` for a position."""
        self._positions, self._describe, self._limit = positions, describe, kept
        self._root: Path | None = None  # created when needed: a server that fails to start leaves nothing behind
        self._folders: OrderedDict[int, Path] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, percent: int, name: str) -> Exported | None:
        """A file of a position; None if the model has no such file. The first call for a position exports it."""
        with self._lock:
            path = self._folder(percent) / name
            contents = path.read_bytes() if name in NAMES and path.is_file() else None
        return None if contents is None else Exported(contents, _etag(contents))

    def close(self) -> None:
        with self._lock:
            if self._root is not None:
                shutil.rmtree(self._root, ignore_errors=True)
            self._root = None
            self._folders.clear()

    def _folder(self, percent: int) -> Path:
        if percent not in self._folders:
            self._folders[percent] = self._write(percent)
            if len(self._folders) > self._limit:
                shutil.rmtree(self._folders.popitem(last=False)[1], ignore_errors=True)
        self._folders.move_to_end(percent)
        return self._folders[percent]

    def _write(self, percent: int) -> Path:
        if self._root is None:
            self._root = Path(tempfile.mkdtemp(prefix="rheostat-keyboard-"))
        positions, folder = self._positions, self._root / str(percent)
        position = positions.open(percent)
        write_export(positions.file, position.predictor.point, folder, positions.precision, positions.hidden_words)
        (folder / POSITION).write_text(json.dumps(self._describe(position)), encoding="utf-8")
        return folder


def _etag(contents: bytes) -> str:
    return f'"{hashlib.sha256(contents).hexdigest()[:32]}"'
