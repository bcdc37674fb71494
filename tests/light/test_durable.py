"""Files are there as a whole or as they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from rheostat.durable import replacing


@pytest.mark.parametrize("alone", [False, True])
def test_a_block_that_fails_leaves_what_was_there_and_nothing_else(tmp_path: Path, alone: bool) -> None:
    path = tmp_path / "file"
    for before in (None, b"before"):
        if before:
            path.write_bytes(before)
        with pytest.raises(OSError, match="full"), replacing(path, alone=alone) as file:
            file.write(b"half of")
            raise OSError("full")
        assert [found.read_bytes() for found in tmp_path.iterdir()] == ([before] if before else [])


def test_one_who_writes_alone_clears_away_what_a_crash_left(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with replacing(path, alone=True) as file:
        (half_written,) = tmp_path.iterdir()
        file.write(b"whole")
    half_written.write_bytes(b"of a crash")
    with replacing(path, alone=True) as file:
        file.write(b"whole again")
    assert list(tmp_path.iterdir()) == [path] and path.read_bytes() == b"whole again"
