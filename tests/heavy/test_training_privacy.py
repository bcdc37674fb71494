"""Training sends nothing, and writes its run, the token cache and torch's empty folder for compiled code."""

from __future__ import annotations

from pathlib import Path

from egress import run


def test_training_sends_nothing_and_writes_only_its_run_and_the_documented_caches(
    tmp_path: Path, corpus_folder: Path, recipe_file: Path
) -> None:
    out, settings = tmp_path / "run", ("--set", "train.epochs=1")
    egress, process = run(
        tmp_path / "watched", "-m", "rheostat", "train", recipe_file, "--data", corpus_folder, "-o", out, *settings
    )
    assert not egress.sockets
    assert {name.split()[-1] for name in egress.processes} <= {"git"}  # asks which commit the source tree is of
    cache, temporary = process.folder / "home" / ".cache", process.folder / "tmp"
    assert egress.written_outside(out, cache / "rheostat", temporary) in ([], [cache])
    assert {found.name for found in cache.iterdir()} == {"rheostat"}
    left = [found for found in temporary.rglob("*") if found.is_file()]
    assert not left, "torch makes an empty folder there; anything else has to be documented"
