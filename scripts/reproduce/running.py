"""Runs the stale steps one by one. Each writes a log; the state file is written before and after each.

A step that was killed, or whose runner was killed, is not recorded as done: it runs again, or resumes if it can.
"""

from __future__ import annotations

import datetime
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Protocol

from reproduce.plan import Judge, Judgement, Status
from reproduce.records import Digests, Record
from reproduce.steps import Command, ReproduceError, Step

PROGRAMS = {"python": (sys.executable,), "rheostat": (sys.executable, "-m", "rheostat")}
POLL_SECONDS = 0.5
GRACE_SECONDS = 60.0  # for a command to save its work after Ctrl-C
TAIL_BYTES = 4096
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Screen(Protocol):
    """Where progress is shown."""

    def begin(self, step: Step, reason: str) -> None: ...

    def running(self, seconds: float, last_line: str) -> None: ...

    def end(self, step: Step, outcome: str) -> None: ...


class StepFailedError(Exception):
    """A command of a step failed; the message says which and how."""


@dataclass
class Summary:
    """Names of the steps by outcome; skipped and blocked steps with the reason."""

    made: list[str] = field(default_factory=list)
    fresh: list[str] = field(default_factory=list)
    adopted: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    blocked: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


class Runner:
    def __init__(self, judge: Judge, folder: Path, screen: Screen) -> None:
        """folder: for logs and the lock."""
        self.judge, self.folder, self.screen = judge, folder, screen
        self.workflow, self.state = judge.workflow, judge.state

    def run(self, steps: Sequence[Step]) -> Summary:
        """Run what is stale. A failed step stops only the steps that depend on it."""
        summary, found, begun = Summary(), dict[str, Judgement](), time.monotonic()
        with _lock(self.folder) as lock:
            for step in steps:
                found[step.name] = self._settle(step, found, summary, lock)
            self.state.save()  # digests of files that were only read
        summary.seconds = time.monotonic() - begun
        return summary

    def _settle(self, step: Step, found: Mapping[str, Judgement], summary: Summary, lock: int) -> Judgement:
        """Carry out a judgement; returns the new judgement, which later steps use."""
        judgement = self.judge.judge(step, found)
        if judgement.status is Status.RUN:
            return self._make(step, judgement, summary, lock)
        if judgement.status is Status.ADOPT:
            self.state.succeed(step.name, replace(self._asked(step), outputs=self.judge.outputs(step), adopted=True))
            summary.adopted.append(step.name)
        elif judgement.status is Status.SKIP:
            summary.skipped[step.name] = judgement.reason
        elif judgement.status is Status.BLOCKED:
            summary.blocked[step.name] = judgement.reason
        else:
            summary.fresh.append(step.name)
        self.screen.begin(step, "")
        self.screen.end(step, f"{judgement.status}{f': {judgement.reason}' if judgement.reason else ''}")
        return judgement

    def _make(self, step: Step, judgement: Judgement, summary: Summary, lock: int) -> Judgement:
        self.screen.begin(step, judgement.reason)
        begun = time.monotonic()
        try:
            self._carry_out(step, judgement.resume, lock)
        except StepFailedError as error:
            summary.failed[step.name] = str(error)
            self.screen.end(step, f"failed: {error}")
            return Judgement(Status.BLOCKED, f"{step.name} failed")
        except KeyboardInterrupt:
            self.screen.end(step, f"interrupted after {clock(time.monotonic() - begun)}")
            raise
        summary.made.append(step.name)
        self.screen.end(step, f"done in {clock(time.monotonic() - begun)}")
        return Judgement(Status.FRESH)

    def _carry_out(self, step: Step, may_resume: bool, lock: int) -> None:
        resume = may_resume and self._can_resume(step)
        asked, before = self._asked(step), self.judge.outputs(step)
        unrecorded = step.name not in self.state.started and step.name not in self.state.done
        self.state.begin(step.name, asked)
        if not resume:
            self._clear(step, is_ours=not unrecorded)
        for path in step.outputs:
            self.workflow.path(path).parent.mkdir(parents=True, exist_ok=True)
        begun = time.monotonic()
        with (self.folder / f"{step.name}.log").open("ab") as log:
            for command in self._commands(step, resume):
                self._call(command, log, lock)
        outputs = self._written(step)
        self.state.succeed(
            step.name,
            replace(
                asked,
                outputs=outputs,
                date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                seconds=round(time.monotonic() - begun, 1),
                # Its outputs were already finished, so results made from them are still valid.
                adopted=resume and unrecorded and not step.measures and outputs == before,
            ),
        )

    def _asked(self, step: Step) -> Record:
        return Record(self.judge.command(step), self.judge.inputs(step))

    def _can_resume(self, step: Step) -> bool:
        return step.resumable and (step.checkpoint is None or self.workflow.path(step.checkpoint).exists())

    def _clear(self, step: Step, is_ours: bool) -> None:
        """Remove what an earlier run left unfinished, or finished from other inputs.

        is_ours: a run of this step is recorded. Otherwise somebody else made the files, and they are moved aside.
        """
        for partial in step.partial:
            path = self.workflow.path(partial)
            if not is_ours and os.path.lexists(path):
                aside = self.folder / "set-aside" / f"{step.name}-{time.time_ns()}"
                aside.mkdir(parents=True)
                shutil.move(path, aside / path.name)
                self.screen.running(0.0, f"moved {partial}, which no recorded run made, to {aside}")
            elif path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def _commands(self, step: Step, resume: bool) -> list[Command]:
        commands = list(step.commands)
        if resume and step.resume:
            commands[0] = step.resume
        return [tuple(self.workflow.fill(word) for word in self.judge.expand(step, command)) for command in commands]

    def _written(self, step: Step) -> Digests:
        outputs = self.judge.outputs(step)
        if missing := [path for path, digest in outputs.items() if digest is None]:
            raise StepFailedError(f"its command succeeded but did not write {missing[0]}")
        return outputs

    def _call(self, command: Command, log: IO[bytes], lock: int) -> None:
        """Run one command to its end; its output goes to the log."""
        log.write(f"$ {' '.join(command)}\n".encode())
        log.flush()
        words = [*PROGRAMS.get(command[0], (command[0],)), *command[1:]]
        # In its own process group, so that Ctrl-C reaches it only once, from here. It inherits the lock, so a command
        # that outlives a killed runner keeps the next runner from starting.
        try:
            process = subprocess.Popen(
                words,
                cwd=self.workflow.root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,
                pass_fds=(lock,),
            )
        except OSError as error:
            raise StepFailedError(f"cannot run {words[0]}: {error.strerror}") from None
        try:
            self._watch(process, Path(log.name))
        except BaseException:
            _stop(process)
            raise
        if process.returncode:
            raise StepFailedError(f"{_ending(process.returncode)}{_last_error_line(Path(log.name))}; see {log.name}")

    def _watch(self, process: subprocess.Popen[bytes], log: Path) -> None:
        begun = time.monotonic()
        while True:
            with suppress(subprocess.TimeoutExpired):
                process.wait(POLL_SECONDS)
                return
            self.screen.running(time.monotonic() - begun, last_line(log))


def clock(seconds: float) -> str:
    """12:03 or 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def last_line(log: Path) -> str:
    """The last line that a command has written so far, without colours."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL_BYTES))
        text = CONTROL.sub("", file.read().decode(errors="replace"))
    lines = [line.strip() for line in re.split(r"[\r\n]", text) if line.strip()]
    return "" if not lines or lines[-1].startswith("$ ") else lines[-1]


def _last_error_line(log: Path) -> str:
    line = last_line(log)
    return f": {line}" if line else ""


def _ending(code: int) -> str:
    if code < 0:
        with suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
    return f"exit {code}"


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Let a command save its work as after Ctrl-C; kill it if that takes too long."""
    for sign, patience in ((signal.SIGINT, GRACE_SECONDS), (signal.SIGKILL, None)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            process.wait(patience)
            return


@contextmanager
def _lock(folder: Path) -> Iterator[int]:
    """Allow only one runner at a time, including commands that a killed runner left behind."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ReproduceError(
                f"another run holds {file.name}, or a command that it started is still running; wait for it, or end it"
            ) from None
        yield file.fileno()
