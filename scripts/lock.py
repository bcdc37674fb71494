"""python scripts/lock.py [-o FILE]: requirements-dev.lock, the exact packages for development, with hashes.

Asks pip what it would install for the extras below, without installing it. torch and what only it needs are left out:
the build that fits differs from machine to machine, and pyproject.toml pins its version. Hashes are of the files that
pip chose here (Python and platform are named in the file); names of hosts and paths are not written.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
EXTRAS = ("onnx", "train", "report", "keyboard", "chat", "dev")
LEFT_OUT = ("energy", "ngram")  # the tests do without zeus, and kenlm is built from source
OURS, TORCH = "rheostat", "torch"


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Lock the packages of the development environment.", epilog="example: python scripts/lock.py"
    )
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "requirements-dev.lock")
    asked = parser.parse_args()
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    done = subprocess.run([*command, f"{ROOT}[{','.join(EXTRAS)}]"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"lock: pip failed: {done.stderr.strip().splitlines()[-1]}")
    lines = locked(json.loads(done.stdout)["install"])
    asked.out.write_text("\n".join([*heading(here()), *lines]) + "\n")
    print(f"{asked.out}: {len(lines)} packages")
    return 0


def here() -> str:
    """The Python and the platform that files are chosen for."""
    return f"{'.'.join(platform.python_version_tuple()[:2])} on {platform.system()} {platform.machine()}"


def heading(place: str) -> list[str]:
    return [
        "# Written by scripts/lock.py; do not edit. The packages with which the tests pass, with hashes of their files",
        f"# for Python {place}: the base install and the extras {', '.join(EXTRAS)}.",
        f"# The extras {' and '.join(LEFT_OUT)} are not in it. torch is installed separately, in the version that",
        "# pyproject.toml names:",
        "#     pip install torch==VERSION && pip install --no-deps --require-hashes -r requirements-dev.lock",
    ]


def locked(packages: list[dict[str, Any]]) -> list[str]:
    """One line per package: name, version, and the hash of its file."""
    lines = []
    for package in packages:
        name, version = package["metadata"]["name"].lower().replace("_", "-"), package["metadata"]["version"]
        if name in (OURS, TORCH):
            continue
        digest = package["download_info"]["archive_info"]["hashes"]["sha256"]
        lines.append(f"{name}=={version} --hash=sha256:{digest}")
    return sorted(lines)


if __name__ == "__main__":
    sys.exit(main())
