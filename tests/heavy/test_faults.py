"""Every call of every writer fails once, in turn: afterwards the old file is whole, or the new one is.

So do some of its requests for memory; `benchmarks/reliability.py faults` tries thousands.
"""

from __future__ import annotations

import importlib.util
import platform
import sys
from pathlib import Path
from typing import Any

import pytest

import faults
from rheostat.core.build import CompilerError

REQUESTS = 20  # for memory, of each writer
NEEDS = {"export": "onnx", "report": "matplotlib", "checkpoint": "torch", "log": "torch"}


def run(folder: Path, writer: str, requests: int = REQUESTS) -> list[dict[str, Any]]:
    try:
        return faults.run(folder, [writer], requests=requests)
    except CompilerError as error:
        pytest.skip(f"no C compiler: {error}"[:200])


@pytest.mark.skipif(sys.platform != "linux", reason="preloads a library, as Linux does it")
@pytest.mark.parametrize("writer", faults.WRITERS)
def test_after_every_fault_the_old_file_is_whole_or_the_new_one_is(writer: str, tmp_path: Path) -> None:
    if (needed := NEEDS.get(writer)) and not importlib.util.find_spec(needed):
        pytest.skip(f"needs {needed}")
    replaced, created = run(tmp_path, writer)
    assert replaced["problems"] + created["problems"] == []
    for entry in (replaced, created) if writer != "log" else (replaced,):  # without a log there is nothing to cut
        assert entry["calls"] >= 5, "an open, a write, a flush, a rename and the folder's flush at least"
        assert all(entry["tried"][kind] == entry["calls"] for kind in list(faults.KINDS.values())[:4])
        assert entry["tried"]["crash in the middle"] >= 1
        tried = entry["tried"].get(faults.NO_MEMORY, 0)
        assert platform.libc_ver()[0] != "glibc" or tried >= min(REQUESTS // 2, entry["requests"]) > 0


@pytest.mark.skipif(sys.platform != "linux", reason="preloads a library, as Linux does it")
def test_a_careless_writer_is_noticed(tmp_path: Path) -> None:
    replaced, _ = run(tmp_path, faults.CARELESS, requests=0)
    assert replaced["problems"]
    for fault in ("no space", "crash before", "crash in the middle", faults.NO_MEMORY):
        if fault != faults.NO_MEMORY or platform.libc_ver()[0] == "glibc":
            assert any(fault in problem for problem in replaced["problems"]), fault


@pytest.mark.skipif(sys.platform != "linux", reason="preloads a library, as Linux does it")
def test_a_stopped_run_goes_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries that are kept are not tried again, unless they are of other code or other settings."""

    def tried(requests: int, commit: str) -> int:
        monkeypatch.setattr(faults.provenance, "commit", lambda: commit)
        try:
            faults.run(tmp_path, ["search"], requests=requests, kept=tmp_path / "kept")
        except CompilerError as error:
            pytest.skip(f"no C compiler: {error}"[:200])
        return capfd.readouterr().err.count("faults: saved search")

    assert [tried(1, "a"), tried(1, "a"), tried(2, "a"), tried(2, "b")] == [2, 0, 2, 2]
    assert [tried(1, "b-dirty"), tried(1, "b-dirty")] == [2, 2]
