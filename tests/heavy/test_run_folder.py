"""The run folder: what it refuses, and a full disk."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from rheostat.errors import CheckpointError
from rheostat.training.run_folder import RunFolder

FULL = Path("/dev/full")


@pytest.mark.parametrize("resume", [False, True])
def test_a_model_without_a_checkpoint_is_neither_resumed_nor_overwritten(tmp_path: Path, resume: bool) -> None:
    folder = RunFolder(tmp_path)
    folder.model.touch()
    with pytest.raises(CheckpointError, match="holds a model and no checkpoint; remove it, or choose another -o"):
        folder.create(resume)


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_one_clear_error(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.log = FULL
    with pytest.raises(CheckpointError, match="No space left on device; free some space"):
        folder.append_log({"step": 1})
