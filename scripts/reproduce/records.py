"""What is known about past runs: digests of files, and one record per step in a state file. Decides nothing."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from reproduce.steps import ReproduceError

STATE_VERSION = 1
BLOCK_BYTES = 1 << 20
SETTLED_SECONDS = 2.0  # a file modified more recently could change again without a new time stamp

Digests = dict[str, str | None]  # by path as the workflow names it; None: missing


@dataclass
class Record:
    """A step that succeeded or was started: its command and its inputs."""

    command: list[list[str]]
    inputs: Digests
    outputs: Digests = field(default_factory=dict)
    date: str = ""
    seconds: float = 0.0
    adopted: bool = False  # not run on this machine: the outputs already existed and were trusted


class DigestCache:
    """Digests of files and folders. A file is read again only if its size or modification time has changed."""

    def __init__(self, known: dict[str, list[Any]] | None = None) -> None:
        self.known = known or {}

    def of(self, path: Path) -> str | None:
        """None if missing. For a folder: of its files and their names, without hidden and compiled files."""
        if path.is_dir():
            return self._of_folder(path)
        return self._of_file(path) if path.is_file() else None

    def _of_folder(self, folder: Path) -> str:
        total = blake2b(digest_size=16)
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            name = file.relative_to(folder)
            if not any(part.startswith(".") or part == "__pycache__" for part in name.parts):
                total.update(f"{name.as_posix()}\0{self._of_file(file)}\0".encode())
        return total.hexdigest()

    def _of_file(self, file: Path) -> str:
        facts, name = file.stat(), str(file.resolve())
        seen = [facts.st_size, facts.st_mtime_ns]
        if (known := self.known.get(name)) and known[:2] == seen:
            return str(known[2])
        digest = _digest_bytes(file)
        if time.time() - facts.st_mtime > SETTLED_SECONDS:
            self.known[name] = [*seen, digest]
        return digest


def _digest_bytes(file: Path) -> str:
    total = blake2b(digest_size=16)
    with file.open("rb") as bytes_of:
        while block := bytes_of.read(BLOCK_BYTES):
            total.update(block)
    return total.hexdigest()


class State:
    """The state file. `done`: steps that succeeded. `started`: steps that started and have not succeeded since."""

    def __init__(self, file: Path) -> None:
        self.file = file
        contents = _read(file)
        self.done = {name: Record(**record) for name, record in contents.get("done", {}).items()}
        self.started = {name: Record(**record) for name, record in contents.get("started", {}).items()}
        self.digests = DigestCache(contents.get("digests"))

    def begin(self, name: str, record: Record) -> None:
        """Record that a step starts: until it succeeds, its outputs are not trusted."""
        self.done.pop(name, None)
        self.started[name] = record
        self.save()

    def succeed(self, name: str, record: Record) -> None:
        self.started.pop(name, None)
        self.done[name] = record
        self.save()

    def save(self) -> None:
        """Replace the file atomically."""
        contents = {
            "version": STATE_VERSION,
            "done": {name: asdict(record) for name, record in self.done.items()},
            "started": {name: asdict(record) for name, record in self.started.items()},
            "digests": self.digests.known,
        }
        self.file.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.file.with_name(f".{self.file.name}.partial")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(contents, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.file)


def _read(file: Path) -> dict[str, Any]:
    try:
        contents = json.loads(file.read_text(encoding="utf-8"))
        if contents["version"] != STATE_VERSION:
            raise ReproduceError(f"{file} has version {contents['version']}; expected {STATE_VERSION}: delete it")
        for record in (*contents["done"].values(), *contents["started"].values()):
            Record(**record)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReproduceError(
            f"{file} cannot be read ({error}); delete it, and steps are judged by the files that exist"
        ) from None
    return dict(contents)


def changed(before: Digests, now: Digests) -> list[str]:
    """The paths whose digests differ."""
    return [path for path in _union(before, now) if before.get(path) != now.get(path)]


def _union(before: Iterable[str], now: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*now, *before]))
