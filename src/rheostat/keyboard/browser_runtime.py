"""ONNX Runtime for browsers, next to the page: whether it is installed, and how to install it.

    python -m rheostat.keyboard.browser_runtime

fetches one pinned version from npm, checks its contents and unpacks the few files that the page needs. `make web` runs
this. The files are not in the repository, because they are larger than everything else in it.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from rheostat.errors import RheostatError

PACKAGE = "onnxruntime-web"
VERSION = "1.30.0"
INTEGRITY = "sha512-q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="
FILES = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
FOLDER = Path(__file__).parent / "static" / "runtime"


def installed_version(folder: Path = FOLDER) -> str | None:
    """The installed version; None if it is missing or incomplete."""
    marker = folder / "VERSION"
    complete = marker.is_file() and all((folder / name).is_file() for name in FILES)
    return marker.read_text(encoding="utf-8").strip() if complete else None


def install(folder: Path = FOLDER) -> None:
    """Fetch the pinned version with npm into a folder, unless it is there already."""
    if installed_version(folder) == VERSION:
        return
    npm = shutil.which("npm")
    if npm is None:
        raise RheostatError("npm was not found; expected it on the PATH: install Node.js, then run make web again")
    with tempfile.TemporaryDirectory() as temporary:
        archive = _fetch(npm, Path(temporary))
        check_integrity(archive)
        unpack(archive, folder)


def check_integrity(archive: Path, expected: str = INTEGRITY) -> None:
    """Raise RheostatError unless the archive has the pinned contents."""
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if f"sha512-{digest}" != expected:
        raise RheostatError(f"{archive.name} has sha512-{digest:.16}…; expected {expected:.23}…: do not use this file")


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the files that the page needs. VERSION is written last, so a partial installation does not count."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "VERSION").unlink(missing_ok=True)
    with tarfile.open(archive) as package:
        for name in FILES:
            member = package.extractfile(f"package/dist/{name}")
            assert member is not None  # the contents are pinned
            (folder / name).write_bytes(member.read())
    (folder / "VERSION").write_text(VERSION + "\n", encoding="utf-8")


def _fetch(npm: str, folder: Path) -> Path:
    command = [npm, "pack", f"{PACKAGE}@{VERSION}", "--silent"]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=600)
    except subprocess.SubprocessError as error:
        said = str(getattr(error, "stderr", "") or error).strip().splitlines()
        raise RheostatError(
            f"npm could not fetch {PACKAGE} {VERSION} ({said[-1] if said else error!r:.200}); check the network"
        ) from None
    return folder / f"{PACKAGE}-{VERSION}.tgz"


def main() -> None:
    try:
        install()
    except RheostatError as error:
        sys.exit(f"error: {error}")
    print(f"{PACKAGE} {VERSION} is in {FOLDER}")


if __name__ == "__main__":
    main()
