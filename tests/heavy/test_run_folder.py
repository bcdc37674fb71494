"""The folder of a run on a disk that is full."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from rheostat.errors import CheckpointError
from rheostat.training.run_folder import RunFolder

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_one_clear_error(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.log = FULL
    with pytest.raises(CheckpointError, match="No space left on device; make room"):
        folder.append_log({"step": 1})
