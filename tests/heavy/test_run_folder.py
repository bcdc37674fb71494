"""The run folder: what it refuses, and a full disk."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import zipfile
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("torch")

import torch

from rheostat.errors import CheckpointError, RheostatWarning
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


def make_run(path: Path) -> RunFolder:
    folder = RunFolder(path)
    (path / "tensorboard").mkdir(parents=True)
    names = ("checkpoint.pt", "log.jsonl", "model.safetensors", "tensorboard/events.out.tfevents.1.x")
    for name in names:
        (path / name).write_bytes(b"of a run")
    return folder


@pytest.mark.parametrize("calls", range(20))
def test_a_kill_while_a_run_is_removed_leaves_all_of_it_or_nothing(
    calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, left = make_run(tmp_path / "run"), calls
    whole = sorted(folder.path.rglob("*"))

    def killed(*arguments: object, **options: object) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt  # anything that the code does not catch

    with monkeypatch.context() as patched:
        for name in ("rename", "unlink", "rmdir"):
            real = getattr(Path, name)
            patched.setattr(Path, name, lambda *a, real=real, **o: (killed(), real(*a, **o))[1])
        with contextlib.suppress(KeyboardInterrupt):
            folder.remove()
    assert sorted(folder.path.rglob("*")) in (whole, [])
    if not folder.path.exists():
        folder.check(resume=False)
    folder.remove()
    assert list(tmp_path.iterdir()) == []


def test_removing_a_run_leaves_what_is_not_of_it(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    (folder.path / "notes.txt").write_text("mine")
    folder.remove()
    assert [file.name for file in tmp_path.rglob("*")] == ["run", "notes.txt"]


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


DAMAGED_LINES = {
    "not UTF-8": b"\xff\xfe",
    "deep": b"[" * 100_000,
    "endless": b'{"step": 1' + b"0" * 400 + b"}",
    "many digits": b'{"step": ' + b"1" * 5000 + b"}",
    "infinite": b'{"step": Infinity}',
    "text": b'{"step": "1"}',
    "a list": b"[1]",
}


@pytest.mark.parametrize("damage", DAMAGED_LINES.values(), ids=DAMAGED_LINES)
def test_a_damaged_line_of_the_log_is_removed(tmp_path: Path, damage: bytes) -> None:
    folder = RunFolder(tmp_path)
    first, second, third = (f'{{"event": "train", "step": {step}}}\n'.encode() for step in (1, 2, 3))
    folder.log.write_bytes(first + damage + b"\n" + second + third)
    if damage == DAMAGED_LINES["endless"]:  # a step, but a later one
        folder.cut_log(2)
    else:
        with pytest.warns(RheostatWarning, match="log.jsonl: 1 of 4 lines were removed, because they are damaged"):
            folder.cut_log(2)
    assert folder.log.read_bytes() == first + second


@pytest.mark.filterwarnings("error")
def test_a_line_that_a_kill_left_incomplete_is_removed_silently(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.log.write_bytes(b'{"step": 1}\n{"step": 2')
    folder.cut_log(2)
    assert folder.log.read_bytes() == b'{"step": 1}\n'
    folder.log.write_bytes(b"")
    folder.cut_log(2)
    assert folder.log.read_bytes() == b""


def saved_run(path: Path) -> RunFolder:
    """A checkpoint with some tensors, which need not fit a model."""
    folder = RunFolder(path)
    parameters = {f"layer {number}": torch.randn(40, 50) for number in range(5)}
    folder.save(
        {
            "recipe": {"train": {}},
            "progress": {"step": 1},
            "threads": 1,
            "parameters": parameters,
            "optimizer": {},
            "average": {},
            "log_tokens": 1,
            "ranks": [],
        }
    )
    return folder


def test_a_flipped_bit_in_a_checkpoint_is_an_error(tmp_path: Path) -> None:
    folder, chance = saved_run(tmp_path), Random(0)
    before = folder.load()["parameters"]
    whole = folder.checkpoint.read_bytes()
    with zipfile.ZipFile(folder.checkpoint) as archive:
        entries = [entry for entry in archive.infolist() if "/data/" in entry.filename]
    assert len(entries) == len(before) == 5
    starts = [whole.index(before[f"layer {number}"].numpy().tobytes()) for number in range(5)]
    for _ in range(40):
        damaged = bytearray(whole)
        damaged[chance.choice(starts) + chance.randrange(40 * 50 * 4)] ^= 1 << chance.randrange(8)
        folder.checkpoint.write_bytes(damaged)
        expected = r"checkpoint\.pt is damaged: the checksum of '.*/data/\d' does not match; .*; start a new run"
        with pytest.raises(CheckpointError, match=expected) as caught:
            folder.load()
        assert "\n" not in str(caught.value)
    folder.checkpoint.write_bytes(whole)
    assert all(torch.equal(one, before[name]) for name, one in folder.load()["parameters"].items())


@pytest.mark.parametrize("kind", ["compressed", "pipe", "folder"])
def test_what_is_no_checkpoint_is_refused_unread(tmp_path: Path, kind: str) -> None:
    folder = RunFolder(tmp_path)
    if kind == "compressed":
        with zipfile.ZipFile(folder.checkpoint, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("checkpoint/data.pkl", bytes(10_000_000))
    elif kind == "folder":
        folder.checkpoint.mkdir()
    elif hasattr(os, "mkfifo"):
        os.mkfifo(folder.checkpoint)
    else:
        pytest.skip("no named pipes")
    with pytest.raises(CheckpointError, match=re.escape(f"{folder.checkpoint} cannot be read")):
        folder.load()
