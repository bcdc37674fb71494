"""Watching what a process sends and writes: by an audit hook of Python, and by strace if it is installed.

A watched process has a home of its own, empty at first. Where the system allows it, it also has no network but its own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

WATCH = Path(__file__).parent / "watch"
# ONNX Runtime reports nothing on a build server, so a watched process must look like one of a user's machine.
BUILD_SERVER = {"CI", "GITHUB_ACTIONS", "TF_BUILD", "ORT_DISABLE_TELEMETRY"}
OURS = {"RHEOSTAT_CACHE", "TORCHINDUCTOR_CACHE_DIR"}  # folders that this process has set for itself
HOMES = {
    "HOME": "home",
    "USERPROFILE": "home",
    "XDG_CACHE_HOME": "home/.cache",
    "XDG_CONFIG_HOME": "home/.config",
    "XDG_DATA_HOME": "home/.local/share",
    "XDG_STATE_HOME": "home/.local/state",
    "APPDATA": "home/AppData/Roaming",
    "LOCALAPPDATA": "home/AppData/Local",
    "TMPDIR": "tmp",
    "TEMP": "tmp",
    "TMP": "tmp",
}
CALLS = "socket,connect,bind,sendto,sendmsg,sendmmsg,open,openat,creat,mkdir,mkdirat,rename,renameat,renameat2"
KERNEL = ("/dev/", "/proc/", "/sys/")  # no files: nothing is kept there


@dataclass(frozen=True)
class Egress:
    """What a process did. sockets: every address it used or asked for. writes: every path it wrote, or tried to."""

    sockets: frozenset[str]
    writes: frozenset[Path]
    processes: frozenset[str]
    notes: Path  # of the watch itself

    def written_outside(self, *folders: Path) -> list[Path]:
        """Paths that are not in one of these folders, which the user named, nor a cache of compiled Python."""
        real = [Path(os.path.realpath(folder)) for folder in folders]
        return sorted(
            path
            for path in self.writes
            if not str(path).startswith(KERNEL)
            and "__pycache__" not in path.parts
            and path != self.notes
            and not any(Path(os.path.realpath(path)).is_relative_to(folder) for folder in real)
        )


@dataclass(frozen=True)
class Watched:
    """A command to run, the environment to run it in, and where the notes about it are."""

    command: list[str]
    environment: dict[str, str]
    folder: Path

    def home(self) -> set[str]:
        """Everything in the home folder and the folder for temporary files."""
        roots = (self.folder / "home", self.folder / "tmp")
        return {found.relative_to(self.folder).as_posix() for root in roots for found in root.rglob("*")}

    def egress(self) -> Egress:
        """What the process did, once it has ended."""
        notes = (self.folder / "notes").read_text(encoding="utf-8").splitlines()
        lines = [line.split("\t") for line in notes]
        sockets = {" ".join(rest) for kind, *rest in lines if kind == "socket"}
        writes = {Path(rest[0]) for kind, *rest in lines if kind == "write"}
        processes = {" ".join(rest) for kind, *rest in lines if kind == "process"}
        trace = self.folder / "trace"
        for call in trace.read_text(encoding="utf-8", errors="replace").splitlines() if trace.exists() else ():
            if (address := _address(call)) is not None:
                sockets.add(address)
            elif (path := _written(call)) is not None:
                writes.add(path)
        return Egress(frozenset(sockets), frozenset(writes), frozenset(processes), self.folder / "notes")


def watched(folder: Path, *arguments: object, alone: bool = True) -> Watched:
    """A Python with these arguments, watched. alone: without a network, where the system allows that."""
    for name in ("home", "tmp", "work"):
        (folder / name).mkdir(parents=True)
    environment = {name: value for name, value in os.environ.items() if name not in BUILD_SERVER | OURS}
    environment |= {name: str(folder / place) for name, place in HOMES.items()}
    paths = [str(WATCH), environment.get("PYTHONPATH", "")]
    environment |= {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "EGRESS_LOG": str(folder / "notes")}
    command = [sys.executable, *map(str, arguments)]
    if can_trace():
        noted = f"-f -qq -y -s 4096 -e trace={CALLS} -o".split()
        command = ["strace", *noted, str(folder / "trace"), *command]
    return Watched([*(no_network() if alone else ()), *command], environment, folder)


def run(
    folder: Path, *arguments: object, alone: bool = True, text: str | None = None, seconds: float = 300
) -> tuple[Egress, Watched]:
    """Run a Python to its end, in a folder that is not the user's home."""
    process = watched(folder, *arguments, alone=alone)
    done = subprocess.run(
        process.command,
        env=process.environment,
        cwd=folder / "work",
        input=text,
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    assert done.returncode == 0, done.stderr
    return process.egress(), process


@cache
def can_trace() -> bool:
    """Whether strace is here and may be used."""
    return shutil.which("strace") is not None and _works(["strace", "-qq", "-e", "trace=none", "true"])


@cache
def no_network() -> tuple[str, ...]:
    """The words before a command that leave it without a network; none where the system does not allow that."""
    for way in (("unshare", "-n"), ("unshare", "-rn")):
        if shutil.which("unshare") and _works([*way, "true"]):
            return way
    return ()


def _works(command: Sequence[str]) -> bool:
    return subprocess.run(command, capture_output=True, timeout=30).returncode == 0


def _address(call: str) -> str | None:
    """The address of a call about a socket that reaches beyond this machine's processes."""
    if not re.search(r"\b(socket|connect|bind|sendto|sendmsg|sendmmsg)\(", call):
        return None
    return call.partition(" ")[2] if re.search(r"AF_INET6?\b|AF_PACKET|sin6?_addr", call) else None


def _written(call: str) -> Path | None:
    """The path of a call that writes, creates or renames."""
    if re.search(r"\b(open|openat)\(", call) and not re.search(r"O_WRONLY|O_RDWR|O_CREAT", call):
        return None
    if not (found := re.search(r"\b(open|openat|creat|mkdir|mkdirat|rename|renameat2?)\((.*)", call)):
        return None
    folder = re.match(r"AT_FDCWD<([^>]*)>|\d+<([^>]*)>", found[2])
    names = re.findall(r'"((?:[^"\\]|\\.)*)"', found[2])
    return Path((folder[1] or folder[2]) if folder else "/") / names[-1] if names else None
