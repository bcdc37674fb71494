"""The folder of a run: checkpoint, log and model. Killing the run at any moment does not damage them.

A checkpoint is written to a temporary file, flushed to disk and renamed, so there is always a complete one. A run
writes its first before its first step, so that whatever a kill leaves behind can be resumed. When a run is resumed, the
log is truncated to the checkpoint, so no step is logged twice.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import torch
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from rheostat.durable import obstacle, replacing
from rheostat.errors import CheckpointError, RheostatError, RheostatWarning, show
from rheostat.inputs import open_input
from rheostat.tables import decode_json

CHECKPOINT_VERSION = 1
MOST_THREADS = 4096
_PARTS: dict[str, type] = {
    "recipe": dict,
    "progress": dict,
    "threads": int,
    "parameters": dict,
    "optimizer": dict,
    "average": dict,
    "log_tokens": int,
    "ranks": list,
}


class RunFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoint = path / "checkpoint.pt"
        self.log = path / "log.jsonl"
        self.model = path / "model.safetensors"

    def create(self, resume: bool) -> None:
        """Create the folder; refuse to overwrite another run unless it is being resumed."""
        self.check(resume)
        self.make()

    def check(self, resume: bool) -> None:
        """Raise CheckpointError if a run cannot start here, or cannot be resumed. Writes nothing."""
        if self.path.exists() and not self.path.is_dir():
            raise CheckpointError(f"{self.path} is a file; expected a folder for the run: choose another")
        for file in (self.checkpoint, self.log, self.model):
            if found := obstacle(file):
                raise CheckpointError(f"{file} is {found}; expected a file of a run: choose another folder")
        if self.checkpoint.exists():
            if not resume and not self._is_unused():
                raise CheckpointError(f"{self.path} already holds a run; resume it, or choose another folder")
        elif left := [name for name, file in (("model", self.model), ("log", self.log)) if file.exists()]:
            raise CheckpointError(
                f"{self.path} holds a {left[0]} and no checkpoint; remove it, or choose another folder"
            )
        elif resume:
            raise CheckpointError(f"{self.path} holds no checkpoint to resume from; start a new one")

    def make(self) -> None:
        """Create the folder. Done when there is something to put into it, so that an error leaves no empty one."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(f"cannot create {self.path}: {error.strerror}") from None

    def _is_unused(self) -> bool:
        """Whether the run that is here ended before its first step was saved: nothing is lost by starting again."""
        try:
            return not self.model.exists() and self.load()["progress"]["step"] == 0
        except (CheckpointError, KeyError, TypeError):
            return False

    def remove(self) -> None:
        """Delete what a run writes here, and the folder if that leaves it empty. Nothing else is deleted.

        The folder is renamed first, so that a kill leaves the whole run, or nothing under this name. What it leaves is
        deleted by the next call.
        """
        doomed = RunFolder(self.path.with_name(f".{self.path.name}.old"))
        doomed._delete()
        files, events = self._files()
        known = {*files, *events, self.path / "tensorboard"}
        if all(entry in known for entry in self.path.rglob("*")):
            with contextlib.suppress(OSError):  # it is deleted where it is
                self.path.rename(doomed.path)
        doomed._delete()
        self._delete()

    def _files(self) -> tuple[list[Path], list[Path]]:
        """What a run writes here, and its curves."""
        files = [self.checkpoint, self.log, self.model]
        partial = [file.with_name(f".{file.name}.partial") for file in files]
        return [*files, *partial], list((self.path / "tensorboard").glob("events.out.tfevents.*"))

    def _delete(self) -> None:
        files, events = self._files()
        with contextlib.suppress(OSError):  # a folder that holds something else stays
            for file in (*files, *events):
                file.unlink(missing_ok=True)
            if (self.path / "tensorboard").is_dir():
                (self.path / "tensorboard").rmdir()
            self.path.rmdir()

    def save(self, contents: dict[str, Any]) -> None:
        """Replace the checkpoint atomically."""
        try:
            with replacing(self.checkpoint, alone=True) as file:
                torch.save({"checkpoint_version": CHECKPOINT_VERSION, **contents}, file)
        except (OSError, RuntimeError) as error:  # torch reports a failed write as a RuntimeError
            cause: BaseException | None = error
            while cause is not None and not isinstance(cause, OSError):
                cause = cause.__cause__ or cause.__context__
            why = (cause.strerror if isinstance(cause, OSError) else None) or "it could not be written"
            raise CheckpointError(
                f"cannot write {self.checkpoint}: {why}; the previous one is intact: free some space, then resume"
            ) from None

    def load(self) -> dict[str, Any]:
        """Load the checkpoint, and compare its checksums. Only plain data and tensors are read; no code is run."""
        try:
            with open_input(self.checkpoint) as file:
                wrong = _damaged_entry(file)
                file.seek(0)
                contents: Any = None if wrong else torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises many kinds for a damaged file
            raise CheckpointError(
                f"{self.checkpoint} cannot be read ({type(error).__name__}); start a new run"
            ) from None
        if wrong:
            raise self.damaged(f"the checksum of {show(wrong)} does not match; expected it as when it was written")
        if not isinstance(contents, dict):
            raise self.damaged(f"it holds {show(type(contents).__name__)}; expected a dict")
        version = contents.get("checkpoint_version")
        if not isinstance(version, int) or version != CHECKPOINT_VERSION:
            raise CheckpointError(
                f"{self.checkpoint} has version {show(version)}; this program reads {CHECKPOINT_VERSION}"
            )
        for name, kind in _PARTS.items():
            if not isinstance(contents.get(name), kind) or isinstance(contents[name], bool):
                found = type(contents.get(name)).__name__
                raise self.damaged(f"{name} is of type {found}; expected {kind.__name__}")
        if not 1 <= contents["threads"] <= MOST_THREADS:
            raise self.damaged(f"it names {contents['threads']} threads; expected 1 to {MOST_THREADS}")
        return contents

    def damaged(self, what: str) -> CheckpointError:
        return CheckpointError(f"{self.checkpoint} is damaged: {what}; start a new run")

    @contextlib.contextmanager
    def restoring(self) -> Iterator[None]:
        """Within the block, whatever a damaged checkpoint causes becomes a CheckpointError."""
        try:
            yield
        except RheostatError as error:
            raise self.damaged(str(error)) from None
        except Exception as error:  # torch raises many kinds for tensors that do not fit
            raise self.damaged(f"{type(error).__name__}: {str(error)[:200]}") from None

    def cut_log(self, step: int) -> None:
        """Remove what was logged after `step`, because the resumed run logs it again; and damaged lines."""
        if not self.log.exists():
            return
        with _logging(self.log):
            lines = self.log.read_bytes().splitlines()
            steps = [_step_of(line) for line in lines]
            with replacing(self.log, alone=True) as file:
                pairs = zip(lines, steps, strict=True)
                file.writelines(line + b"\n" for line, logged in pairs if logged is not None and logged <= step)
        if damaged := steps[:-1].count(None):  # a kill can leave the last line incomplete
            warnings.warn(
                f"{self.log}: {damaged} of {len(lines)} lines were removed, because they are damaged; "
                "the checkpoint is intact, and the run resumes from it",
                RheostatWarning,
                stacklevel=2,
            )

    def append_log(self, entry: dict[str, Any]) -> None:
        with _logging(self.log), self.log.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def curves(self, first_step: int) -> Curves:
        """The curves of this run for TensorBoard, which hides values logged earlier from `first_step` on."""
        return Curves(self.path / "tensorboard", first_step)


class Curves:
    """An event file for TensorBoard. torch's own writer runs in a thread, where a full disk prints a traceback."""

    def __init__(self, folder: Path, first_step: int) -> None:
        seconds, nanoseconds = divmod(time.time_ns(), 10**9)  # TensorBoard reads files in the order of their names
        name = f"events.out.tfevents.{seconds:010d}.{platform.node()}.{nanoseconds:09d}.{os.getpid()}"
        self._path = folder / name
        with _logging(self._path):
            folder.mkdir(exist_ok=True)
        start = SessionLog(status=SessionLog.START)
        self._append(Event(wall_time=time.time(), step=first_step, file_version="brain.Event:2"))
        self._append(Event(wall_time=time.time(), step=first_step, session_log=start))

    def add(self, values: Mapping[str, float], step: int) -> None:
        """Add one value to each of these curves."""
        points = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._append(Event(wall_time=time.time(), step=step, summary=Summary(value=points)))

    def _append(self, event: Any) -> None:
        record = BytesIO()
        RecordWriter(record).write(event.SerializeToString())
        with _logging(self._path), self._path.open("ab") as file:
            file.write(record.getvalue())


def _damaged_entry(file: BinaryIO) -> str | None:
    """The first entry of a checkpoint whose checksum does not match. It is a zip file; torch does not compare them."""
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        # As torch writes them. Small files that unpack to gigabytes are not read.
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            raise zipfile.BadZipFile("it has compressed entries")
        if sum(entry.file_size for entry in entries) > os.fstat(file.fileno()).st_size:
            raise zipfile.BadZipFile("its entries overlap")
        return archive.testzip()


@contextlib.contextmanager
def _logging(path: Path) -> Iterator[None]:
    """Report a full disk in one line: the checkpoint is complete, so the run can be resumed."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(f"cannot write {path}: {error.strerror}; free some space, then resume the run") from None


def _step_of(line: bytes) -> int | None:
    """The step of a line of the log; None if the line is damaged."""
    try:
        entry = decode_json(line)
    except RheostatError:
        return None
    step = entry.get("step") if isinstance(entry, dict) else None
    return step if type(step) is int else None
