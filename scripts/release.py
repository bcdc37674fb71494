"""python scripts/release.py [-o FOLDER] [--only x86_64|aarch64]: the command behind `make release`.

Builds the sdist twice and the wheels as scripts/wheels.py does (each twice), compares their bytes, installs the sdist
and every wheel into fresh environments, where each answers a query, and writes SHA256SUMS beside them. The tree must be
committed, and the version must have its section in CHANGELOG.md. Nothing is uploaded.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import wheels

ROOT = Path(__file__).parents[1]
SUMS = "SHA256SUMS"


def main(arguments: Sequence[str] | None = None) -> int:
    what = "Build a release twice, compare the bytes, run it in fresh environments, and write checksums."
    parser = wheels.make_parser("release.py", what)
    parser.add_argument("--try-out", action="store_true", help="also build a tree with uncommitted changes")
    asked = parser.parse_args(arguments)
    version = _version()
    if not asked.try_out:
        _check_tree(version)
    with tempfile.TemporaryDirectory(prefix="rheostat-release-") as place:
        sdist = build_sdist_twice(Path(place))
        made = [wheels.make(name, sdist, asked.out, asked.arm) for name in asked.only or wheels.PLATFORMS]
        answers = {json.dumps(entry.pop("answer"), sort_keys=True) for entry in made}
        answers.add(json.dumps(_answer_of(sdist, Path(place)), sort_keys=True))
        if len(answers) > 1:
            wheels.fail(f"the files answer differently: {'; '.join(sorted(answers))}")
        shutil.copyfile(sdist, asked.out / sdist.name)
    files = sorted([sdist.name, *(entry["file"] for entry in made)])
    sums = [f"{hashlib.sha256((asked.out / name).read_bytes()).hexdigest()}  {name}" for name in files]
    (asked.out / SUMS).write_text("\n".join(sums) + "\n")
    print(json.dumps({"version": version, "files": files, "wheels": made, "sums": str(asked.out / SUMS)}, indent=2))
    return 0


def _version() -> str:
    text = (ROOT / "src" / "rheostat" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    assert found
    return found[1]


def _check_tree(version: str) -> None:
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True).stdout
    if changed:
        count = len(changed.splitlines())
        wheels.fail(f"{count} files are not committed; expected a clean tree: commit or remove them")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## \[?{re.escape(version)}\]?( |$)", changelog, re.MULTILINE):
        wheels.fail(f"CHANGELOG.md has no section {version}; expected one: rename 'Unreleased'")


def build_sdist_twice(folder: Path) -> Path:
    """The sdist, built twice with the same bytes."""
    made: list[Path] = []
    for name in ("first", "second"):
        (folder / name).mkdir()
        made.append(wheels.build_sdist(folder / name))
        time.sleep(1.1)  # so that a time in the archive would differ
    if made[0].read_bytes() != made[1].read_bytes():
        wheels.fail(f"two builds of {made[0].name} differ; expected the same bytes: is a time or a folder in it?")
    kept = folder / "sdist"
    kept.mkdir()
    return Path(shutil.copy(made[0], kept))


def _answer_of(sdist: Path, folder: Path) -> dict[str, Any]:
    """What the sdist, installed from source into a fresh environment, answers."""
    wheels.say("installing and running the sdist")
    _, python, settings = wheels.install_here(sdist, folder / "from-source")
    answer = json.loads(wheels.run(python, *wheels.QUERY, cwd=folder, **settings))
    return {key: answer[key] for key in ("cost", "executed_flops", "suggestions")}


if __name__ == "__main__":
    sys.exit(main())
