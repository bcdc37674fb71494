"""A file is either replaced completely or left as it was."""

from __future__ import annotations

import errno
import os
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from models import write_tiny
from results_files import full, write_sweep
from rheostat.cli import app
from rheostat.durable import STALE_SECONDS, exchange, file_name, obstacle, replacing
from rheostat.errors import ModelFileError, RheostatError
from rheostat.measure.ngram import estimate, write_arpa
from rheostat.measure.results import check_results_target, read_sweep, write_results
from rheostat.model.file import open_model
from rheostat.model.writer import check_target, write_model
from rheostat.words.memory import Memory
from rheostat.words.user_words import UserWords


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


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
@pytest.mark.parametrize("command", ["ngram ptb --data none --arpa", "typing chat --data none --page"])
def test_a_pipe_is_refused_before_the_work(command: str, tmp_path: Path) -> None:
    """A corpus that is not there would be the first error of the work."""
    os.mkfifo(tmp_path / "pipe")
    result = CliRunner().invoke(app, [*command.split(), str(tmp_path / "pipe")])
    assert isinstance(result.exception, RheostatError)
    assert str(result.exception).startswith(f"cannot write {tmp_path / 'pipe'}: it is a named pipe, not a regular file")


COMMANDS = {
    "bench": "rheostat.measure.bench.bench_positions_of",
    "sweep": "rheostat.measure.sweep.measure_cells",
    "typing": "rheostat.measure.typing.open_model",
    "prune": "rheostat.cli.prune.labelled_share",
    "reconstruct": "rheostat.pruning.reconstruction.calibrate",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_cannot_be_created_is_refused_before_the_work(
    tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*_: object, **__: object) -> None:
        pytest.fail("work was begun for a file that cannot be written")

    monkeypatch.setattr(COMMANDS[command], work)
    model, text, file = write_tiny(tmp_path / "tiny.safetensors"), tmp_path / "text.txt", tmp_path / "file"
    text.write_text("a b c\n" * 99)
    file.write_text("")
    answer = CliRunner().invoke(app, [command, str(model), "--data", str(text), "-o", str(file / "out")])
    assert isinstance(answer.exception, RheostatError), answer.output
    assert "file is a file, not a folder" in str(answer.exception) and "old file" not in str(answer.exception)
    with monkeypatch.context() as patch:  # even if permissions say otherwise, as on a read-only disk
        patch.setattr(Path, "open", refuse)
        answer = CliRunner().invoke(app, [command, str(model), "--data", str(text), "-o", str(tmp_path / "new")])
        assert isinstance(answer.exception, RheostatError) and "Read-only file system" in str(answer.exception)
        assert "old file" not in str(answer.exception)


def refuse(path: Path, mode: str = "r", *_: object, **__: object) -> None:
    assert mode == "xb"
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_refused_before_the_work(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    for check in (check_results_target, check_target):
        with pytest.raises(RheostatError, match="Permission denied"):
            check(tmp_path / "out")


def test_trying_leaves_nothing_behind(tmp_path: Path) -> None:
    check_results_target(tmp_path / "new" / "folder" / "out.json")
    check_target(tmp_path / "out")
    assert not list(tmp_path.iterdir())


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


@pytest.mark.skipif(not hasattr(os, "chown") or os.geteuid() != 0, reason="only the administrator gives files away")
def test_a_replaced_file_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    os.chown(path, 4321, 8765)
    path.chmod(0o640)
    with replacing(path) as file:
        file.write(b"after")
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (4321, 8765, 0o640)


def writers(folder: Path) -> dict[str, Callable[[Path], object]]:
    """Everything in the package that writes one file, each as a function of its path."""
    model = write_tiny(folder / "tiny.safetensors")
    sweep = read_sweep(write_sweep(folder / "sweep.json", [full()]))
    words, memory = UserWords(folder / "w.json"), Memory(folder / "m.json")
    words.learn("word")

    def write_copy(path: Path) -> None:
        with open_model(model) as source:
            write_model(path, source.contents())

    def teach(path: Path) -> None:
        UserWords(path).learn("another")

    return {
        "model": write_copy,
        "results": lambda path: write_results(path, sweep),
        "user words": lambda path: words.export(path),
        "taught words": teach,
        "memory": lambda path: memory.export(path),
        "n-grams": lambda path: write_arpa(estimate(np.array([2, 3, 2, 3, 1], np.int32), 4, 2), make_words(), path),
    }


def make_words() -> list[str]:
    return ["<unk>", "<eos>", "a", "b"]


@pytest.mark.parametrize("writer", ["model", "results", "user words", "taught words", "memory", "n-grams"])
def test_no_writer_replaces_a_read_only_file_or_anything_but_a_file(tmp_path: Path, writer: str) -> None:
    write = writers(tmp_path)[writer]
    target = tmp_path / "there"
    for make in (None, *OBSTACLES.values()):
        if make is None:
            words = UserWords()
            words.learn("word")
            words.export(target)
            target.chmod(0o444)
        else:
            make(target)
        before = target.stat()
        with pytest.raises(RheostatError) as error:
            write(target)
        assert "\n" not in str(error.value) and target.name in str(error.value)
        if make is None:
            assert "read-only" in str(error.value)
        after = target.stat()
        assert (after.st_ino, after.st_mode, after.st_size) == (before.st_ino, before.st_mode, before.st_size)
        if target.is_dir():
            (target / "file").unlink()
            target.rmdir()
        else:
            target.unlink()


def test_half_written_files_are_swept_only_if_they_are_ours_and_old(tmp_path: Path) -> None:
    long_ago = time.time() - 2 * STALE_SECONDS
    ours = tmp_path / f".rheostat-{'0f' * 8}.partial"
    kept = [tmp_path / name for name in (".mine.partial", "x.partial", ".rheostat-0.partial", f".{'0f' * 8}.partial")]
    fresh = tmp_path / f".rheostat-{'1e' * 8}.partial"
    folder = tmp_path / f".rheostat-{'2d' * 8}.partial"
    folder.mkdir()
    for path in (ours, fresh, *kept):
        path.write_bytes(b"half")
    for path in (ours, folder, *kept):
        os.utime(path, (long_ago, long_ago))
    with replacing(tmp_path / "file") as file:
        file.write(b"whole")
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "file", fresh, folder, *kept])


@given(text=st.text(max_size=300))
def test_a_file_name_made_from_data_stays_in_its_folder(text: str) -> None:
    name = file_name(text)
    path = PurePosixPath("/folder") / name
    assert path.parent == PurePosixPath("/folder") and path.name == name and not name.startswith(".")
    assert PureWindowsPath("c:/folder", name).parent == PureWindowsPath("c:/folder")
    assert len(name.encode()) < 200 and "\0" not in name


def test_usual_names_stay_and_different_ones_stay_different() -> None:
    for name in ("ptb", "wikitext-103-part", "my corpus", "a.b"):
        assert file_name(name) == name
    hostile = ["../x", "..-x", "/x", "-x", "a/b", "a\\b", "a-b", "", ".", "..", "x" * 300, "x" * 301]
    assert len({file_name(name) for name in hostile}) == len(hostile)


@pytest.mark.skipif(os.name != "posix", reason="no call that swaps two names")
def test_two_folders_are_swapped_in_one_step(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / folder.name).touch()
    if exchange(one, other):
        assert (one / "other").exists() and (other / "one").exists()
    else:
        assert (one / "one").exists() and (other / "other").exists()
    assert not exchange(one, tmp_path / "none")
