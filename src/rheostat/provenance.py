"""Where a result comes from: command, version, date and machine, for results files, model files and origins."""

from __future__ import annotations

import datetime
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import rheostat
from rheostat.errors import visible
from rheostat.model.origin import Origin


def provenance() -> dict[str, Any]:
    """Command, version, commit, date and machine of this process."""
    return {
        "command": command_line(),
        "rheostat": rheostat.__version__,
        "commit": commit(),
        "date": _now(),
        "python": platform.python_version(),
        "machine": machine(),
    }


def new_origin() -> Origin:
    """A new origin with this process's command, version and date. The caller adds what else is known."""
    return Origin(command=command_line(), version=rheostat.__version__, date=_now())


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def command_line() -> str:
    """The command as a person would type it, with the program's name instead of its installed path.

    Results are published, so a path says nothing about this machine or its user: it is relative to the working folder
    if it is near, else only its end is shown. A name that is not UTF-8 is shown with escapes.
    """
    program = Path(sys.argv[0]).name if sys.argv else ""
    given = map(_public_path, sys.argv[1:])
    return visible(shlex.join(["rheostat" if program in ("__main__.py", "rheostat") else program, *given]))


def public_command(command: str) -> str:
    """A command that was recorded earlier, with its paths as `command_line` shows them."""
    try:
        return shlex.join(map(_public_path, shlex.split(command)))
    except ValueError:  # an open quotation mark
        return command


def _public_path(argument: str) -> str:
    if not Path(argument).is_absolute() or argument.startswith("/usr/"):
        return argument
    try:
        near = Path(os.path.relpath(argument))
    except ValueError:  # another drive of Windows
        near = Path("..", "..", Path(argument).name)
    return str(near) if near.parts[:2] != ("..", "..") else f".../{near.name}"


def machine() -> dict[str, Any]:
    """Processor, cores and system of this machine."""
    return {"processor": _processor(), "cores": os.cpu_count(), "system": f"{platform.system()} {platform.machine()}"}


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("model name", "Model")):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def commit() -> str | None:
    """The commit of the source tree this package runs from; None for an installed package."""
    try:
        found = _git("describe", "--always", "--abbrev=12")
        # Not `describe --dirty`, which writes into the repository. What commands write does not change the program.
        written = (":(exclude,top)results", ":(exclude,top)docs")
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", ":/", *written)
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{found}-dirty" if found and changed else found or None


def _git(*arguments: str) -> str:
    """What git says about the source tree, without taking a lock or writing anything."""
    answer = subprocess.run(
        ["git", "--no-optional-locks", *arguments],
        cwd=Path(__file__).resolve().parent,
        capture_output=True,
        text=True,
        timeout=10,
        check=True,
    )
    return answer.stdout.strip()
