"""The run folder: what it refuses, and a full disk."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

pytest.importorskip("torch")

from rheostat.errors import CheckpointError
from rheostat.training.run_folder import RunFolder

FULL = Path("/dev/full")


@pytest.mark.parametrize("resume", [False, True])
def test_a_model_without_a_checkpoint_is_neither_resumed_nor_overwritten(tmp_path: Path, resume: bool) -> None:
    folder = RunFolder(tmp_path)
    for file, name in ((folder.log, "log"), (folder.model, "model")):
        file.write_bytes(b"mine")
        with pytest.raises(
            CheckpointError, match=f"holds a {name} and no checkpoint; remove it, or choose another folder"
        ):
            folder.create(resume)
        assert file.read_bytes() == b"mine"


@pytest.mark.parametrize("name", ["checkpoint.pt", "log.jsonl", "model.safetensors"])
def test_only_regular_files_are_written_to(tmp_path: Path, name: str) -> None:
    """A pipe would keep the run waiting forever."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("no named pipes")
    os.mkfifo(tmp_path / name)
    with pytest.raises(CheckpointError):
        RunFolder(tmp_path).create(resume=False)
    assert stat.S_ISFIFO((tmp_path / name).stat().st_mode)


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_one_clear_error(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.log = FULL
    with pytest.raises(CheckpointError, match="No space left on device; free some space"):
        folder.append_log({"step": 1})
