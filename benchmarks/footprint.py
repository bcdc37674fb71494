"""What whole processes and installed packages take: time to the first suggestion, memory, bytes on disk."""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

from measuring import Figures, interleaved_seconds
from rheostat.bundled import model_path
from rheostat.core.build import FOLDER
from rheostat.model.file import open_model

FIRST = "import rheostat, sys; rheostat.load(sys.argv[1]).suggest(sys.argv[2])"
MEMORY = """
import sys
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
import numpy
before = resident()
import rheostat
predictor = rheostat.load(sys.argv[1])
predictor.suggest(sys.argv[2])
print(resident() - before)
"""


TEXT = "see you at the"


def measure_processes(options: argparse.Namespace) -> Figures:
    """Whole processes: from nothing to the first suggestion, and what stays in memory."""
    model = model_path()
    seconds, memory = run_processes(model, max(5, options.turns // 10))
    figures = {"start_over_numpy": seconds["first"] / seconds["numpy"], "start_ms": 1000 * seconds["first"]}
    figures["checksums_ms"] = 1000 * checksum_seconds(model, max(9, options.turns // 10))
    if memory is not None:
        figures |= {"memory_over_file": memory / model.stat().st_size, "memory_mb": memory / 1e6}
    return figures


def checksum_seconds(model: Path, turns: int) -> float:
    """What comparing all checksums of a file adds to opening it. The system has the file in memory."""

    def open_file(verify: bool) -> None:
        with open_model(model) as file:
            if verify:
                file.verify()

    sides = {"opened": lambda: open_file(False), "compared": lambda: open_file(True)}
    seconds = interleaved_seconds(sides, turns, quiet=True)
    return seconds["compared"] - seconds["opened"]


def run_processes(model: Path, turns: int) -> tuple[Figures, float | None]:
    """Seconds to import NumPy, and to a first suggestion; and the bytes of memory that this takes beyond NumPy."""
    with tempfile.TemporaryDirectory() as folder:
        # Modules must be compiled, as those of installed packages are: the first turn does this.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}

        def start(script: str) -> Callable[[], str]:
            command = [sys.executable, "-c", script, str(model), TEXT]
            return lambda: subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout

        seconds = interleaved_seconds({"numpy": start("import numpy"), "first": start(FIRST)}, turns, quiet=True)
        has_memory = Path("/proc/self/statm").exists()
        memory = statistics.median(int(start(MEMORY)()) for _ in range(9)) if has_memory else None
    return seconds, memory


def measure_sizes(options: argparse.Namespace) -> Figures:
    """The base package with all that it needs, as installed here; the library, and the module for browsers."""
    package = sum(path.stat().st_size for path in FOLDER.parent.rglob("*") if is_shipped(path))
    others = sum(distribution_bytes(name) for name in requirements("rheostat"))
    library = next(path for path in FOLDER.iterdir() if path.suffix in (".so", ".dylib", ".dll"))
    figures = {"installed_mb": (package + others) / 1e6, "library_kb": library.stat().st_size / 1e3}
    if (module := FOLDER / "rheostat.wasm").exists():
        figures["wasm_kb"] = module.stat().st_size / 1e3
    return figures


def is_shipped(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


def requirements(name: str, seen: set[str] | None = None) -> Iterator[str]:
    """The names of the distributions that one needs without extras, and what those need."""
    seen = seen if seen is not None else set()
    for wish in metadata.requires(name) or []:
        needed = re.split(r"[^A-Za-z0-9._-]", wish)[0].lower()
        if "extra ==" in wish or needed in seen:
            continue
        try:
            metadata.distribution(needed)
        except metadata.PackageNotFoundError:
            continue  # for another system
        seen.add(needed)
        yield needed
        yield from requirements(needed, seen)


def distribution_bytes(name: str) -> int:
    files = metadata.distribution(name).files or []
    found = (Path(str(file.locate())) for file in files)
    return sum(path.stat().st_size for path in found if path.is_file() and "__pycache__" not in path.parts)
