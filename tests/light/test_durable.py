"""A file is either replaced completely or left as it was."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from models import write_tiny
from rheostat.durable import obstacle, replacing
from rheostat.errors import ModelFileError, RheostatError
from rheostat.measure.results import write_results
from rheostat.model.file import open_model
from rheostat.model.writer import check_target, write_model


@pytest.mark.parametrize("alone", [False, True])
def test_a_failed_block_leaves_the_old_file_and_nothing_else(tmp_path: Path, alone: bool) -> None:
    path = tmp_path / "file"
    for before in (None, b"before"):
        if before:
            path.write_bytes(before)
        with pytest.raises(OSError, match="full"), replacing(path, alone=alone) as file:
            file.write(b"half of")
            raise OSError("full")
        assert [found.read_bytes() for found in tmp_path.iterdir()] == ([before] if before else [])


def test_a_sole_writer_removes_what_a_crash_left_behind(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with replacing(path, alone=True) as file:
        (half_written,) = tmp_path.iterdir()
        file.write(b"whole")
    half_written.write_bytes(b"of a crash")
    with replacing(path, alone=True) as file:
        file.write(b"whole again")
    assert list(tmp_path.iterdir()) == [path] and path.read_bytes() == b"whole again"


def make_folder(path: Path) -> None:
    path.mkdir()
    (path / "file").write_bytes(b"inside")


def make_socket(path: Path) -> None:
    # A socket's path must be short; the path of a test's folder may be too long.
    here = Path.cwd()
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path.name)
    os.chdir(here)


OBSTACLES = {"a folder": make_folder, "a named pipe": os.mkfifo, "a socket": make_socket}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
@pytest.mark.parametrize("kind", OBSTACLES)
def test_nothing_but_a_regular_file_is_replaced(tmp_path: Path, kind: str) -> None:
    path, link = tmp_path / "there", tmp_path / "link"
    OBSTACLES[kind](path)
    link.symlink_to(path)
    before = path.stat()
    for target in (path, link):
        with pytest.raises(FileExistsError, match=f"it is {kind}, not a regular file"), replacing(target):
            pytest.fail("work was begun for a file that cannot be written")
        with pytest.raises(RheostatError, match=f"it is {kind}, not a regular file"):
            write_results(target, {})
        with pytest.raises(ModelFileError, match=f"found {kind}; expected a regular file"):
            check_target(target)
    assert path.stat() == before and sorted(tmp_path.iterdir()) == [link, path]


def test_a_device_is_refused_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a file that looks like a device: replacing a real one would break the machine that runs the test."""
    device, model = tmp_path / "null", write_tiny(tmp_path / "tiny.safetensors")
    device.write_bytes(b"of a device")
    look = os.stat

    def fake(path: str | Path, **options: bool) -> os.stat_result:
        found = look(path, **options)
        mode = stat.S_IFCHR | 0o666 if Path(path) == device else found.st_mode
        return os.stat_result((mode, *found[1:]))

    monkeypatch.setattr(os, "stat", fake)
    assert obstacle(device) == "a device" and obstacle(model) is None and obstacle(tmp_path / "none") is None
    with pytest.raises(FileExistsError, match="it is a device"), replacing(device) as file:
        file.write(b"replaced")
    with open_model(model) as source, pytest.raises(ModelFileError, match="found a device; expected a regular file"):
        write_model(device, source.contents())
    assert device.read_bytes() == b"of a device"


@pytest.mark.skipif(os.name != "posix", reason="no permissions")
def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    path.chmod(0o640)
    with replacing(path) as file:
        file.write(b"after")
    assert path.read_bytes() == b"after" and stat.S_IMODE(path.stat().st_mode) == 0o640
