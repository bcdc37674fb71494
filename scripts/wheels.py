"""python scripts/wheels.py [-o FOLDER] [--arm FOLDER] [--only x86_64|aarch64]: the command behind `make wheels`.

Builds a wheel per platform of rheostat/core/build.py's WHEELS, compiled by its pinned zig. Each is built twice, from an
unpacked sdist in two folders, and the bytes must be equal. Each is then installed with its dependencies into a fresh
environment, and answers a query there: x86-64 on this machine, aarch64 under QEMU (scripts/arm/prepare). The answers
must be the same. Progress goes to stderr, the result to stdout as JSON. hatch_build.py defines what is built.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import runpy
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[1]
BUILD = runpy.run_path(str(ROOT / "src" / "rheostat" / "core" / "build.py"))
PLATFORMS: Mapping[str, str] = {name.partition("manylinux_2_17_")[2]: name for name in BUILD["WHEELS"]}
QUERY = ("-m", "rheostat", "suggest", "see you at the", "--knob", "0.5", "--json")
KERNELS = ("-c", "import json; from rheostat.core.library import kernels; print(json.dumps(kernels()))")
# The caller's environment, without settings that lead to this source tree or to another core.
OUR_SETTINGS = ("PYTHONPATH", "RHEOSTAT_CORE", "RHEOSTAT_WHEEL", "VIRTUAL_ENV", "CC")


def main(arguments: Sequence[str] | None = None) -> int:
    what = "Build wheels for Linux twice, compare their bytes and run them in fresh environments."
    asked = make_parser("wheels.py", what).parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="rheostat-wheels-") as folder:
        sdist = build_sdist(Path(folder))
        made = [make(name, sdist, asked.out, asked.arm) for name in asked.only or PLATFORMS]
    answers = {json.dumps(entry.pop("answer"), sort_keys=True) for entry in made}
    if len(answers) > 1:
        fail(f"the wheels answer {' '.join(QUERY[2:])} differently: {'; '.join(sorted(answers))}")
    print(json.dumps({"wheels": made, "query": " ".join(QUERY[2:]), "answer": json.loads(answers.pop())}, indent=2))
    return 0


def make_parser(script: str, description: str) -> argparse.ArgumentParser:
    """The options that all scripts share that build wheels."""
    example = f"example: python scripts/{script} -o dist --only x86_64"
    parser = argparse.ArgumentParser(description=description, epilog=example)
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "dist", help="where the files go (default: dist)")
    parser.add_argument(
        "--arm", type=Path, default=ROOT / ".arm", help="where QEMU and an arm64 Python are kept (default: .arm)"
    )
    parser.add_argument("--only", action="append", choices=PLATFORMS, help="only this processor; can be repeated")
    return parser


def fail(text: str) -> NoReturn:
    sys.exit(f"wheels: {text}")


def say(text: str) -> None:
    print(f"wheels: {text}", file=sys.stderr)


def run(*command: str | Path, cwd: Path, **settings: str) -> str:
    """The output of a program that sees only what it is given of this source tree."""
    environment = {name: value for name, value in os.environ.items() if name not in OUR_SETTINGS} | settings
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        fail(f"{' '.join(map(str, command))[:200]} failed: {' '.join(last)}")
    return done.stdout


def build_sdist(folder: Path) -> Path:
    """The source of all wheels: the tree as it is now, without what git ignores."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=ROOT)
    (sdist,) = folder.iterdir()
    return sdist


def make(processor: str, sdist: Path, out: Path, arm: Path) -> dict[str, Any]:
    """One wheel, built, compared, put in its place and run; what was found."""
    folder = sdist.parent / processor
    wheel = build_twice(PLATFORMS[processor], sdist, folder)
    entry: dict[str, Any] = {
        "file": wheel.name,
        "bytes": wheel.stat().st_size,
        "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "identical_builds": 2,
    }
    if processor == "aarch64":
        say("installing and running the aarch64 wheel under QEMU")
        site, python, settings = install_under_qemu(wheel, arm)
    else:
        say("installing and running the wheel on this machine")
        site, python, settings = install_here(wheel, folder / "environment")
    entry["installed_mb"] = round(sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) / 1e6, 1)
    entry["library_kb"] = round((site / "rheostat" / "core" / "librheostat.so").stat().st_size / 1e3, 1)
    entry["kernels"] = json.loads(run(python, *KERNELS, cwd=folder, **settings))
    answer = json.loads(run(python, *QUERY, cwd=folder, **settings))
    entry["answer"] = {key: answer[key] for key in ("cost", "executed_flops", "suggestions")}  # all but times
    out.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(wheel, out / wheel.name)
    return entry


def build_twice(name: str, sdist: Path, folder: Path) -> Path:
    """The wheel of a platform, built from the sdist in two folders with the same bytes."""
    say(f"building {name}, twice")
    wheels: list[Path] = []
    for place in ("first", "second"):
        with tarfile.open(sdist) as archive:
            archive.extractall(folder / place, filter="data")
        (source,) = (folder / place).iterdir()
        out = folder / f"{place}-wheel"
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", out, cwd=source, RHEOSTAT_WHEEL=name)
        wheels += out.iterdir()
    if wheels[0].read_bytes() != wheels[1].read_bytes():
        fail(f"two builds of {wheels[0].name} differ; expected the same bytes: does C name its folder or the time?")
    return wheels[0]


def install_here(wheel: Path, folder: Path) -> tuple[Path, Path, dict[str, str]]:
    """A fresh environment with the wheel: its packages, its Python, and the settings to run it with."""
    if (found := (platform.system(), platform.machine())) != ("Linux", "x86_64"):
        fail(f"this machine is {' '.join(found)}; expected Linux x86_64: the wheels are run as well as built")
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=wheel.parent)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", wheel, cwd=wheel.parent)
    (site,) = (folder / "lib").glob("python*/site-packages")
    return site, python, {}


def install_under_qemu(wheel: Path, arm: Path) -> tuple[Path, Path, dict[str, str]]:
    run(ROOT / "scripts" / "arm" / "prepare", arm, sys.executable, wheel, cwd=ROOT)
    site = arm.resolve() / "wheel"
    return site, arm.resolve() / "python", {"ARM_SITE": str(site)}


if __name__ == "__main__":
    sys.exit(main())
