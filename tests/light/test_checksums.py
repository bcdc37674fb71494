"""Checksums: a damaged file is an error and never a bad guess, and a file in use is noticed when it changes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

import rheostat
from models import GOLDEN, write_tiny
from rheostat.errors import ModelFileError
from rheostat.model.container import CHECKSUMS
from rheostat.model.contents import convert
from rheostat.model.file import open_model
from rheostat.model.operating_point import full_point
from rheostat.model.ordered import order_filters
from rheostat.model.summary import summarize
from rheostat.model.writer import write_model
from rheostat.runtime.evaluation import RuntimeEvaluator


@pytest.fixture(scope="module")
def ordered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ordered int8 file, which the core reads where it is mapped."""
    path = tmp_path_factory.mktemp("ordered") / "ordered.safetensors"
    with open_model(GOLDEN / "golden-version-2.safetensors") as file:
        write_model(path, order_filters(convert(file.contents(), "int8")))
    return path


ROOT = Path(__file__).parents[2]
COMMITTED = sorted(
    path for folder in ("models", "src/rheostat/bundled") for path in (ROOT / folder).glob("*.safetensors")
)


def tensors_begin(content: bytes) -> int:
    return 8 + int.from_bytes(content[:8], "little")


def open_and_verify(path: Path) -> None:
    with open_model(path) as file:
        file.verify()


def test_every_byte_of_a_file_is_covered(ordered: Path, tmp_path: Path) -> None:
    """One bit of the first bytes and of every ninth: the length, the header, its checksum, every tensor."""
    content, chance, path = ordered.read_bytes(), Random(0), tmp_path / "damaged.safetensors"
    open_and_verify(ordered)
    for place in sorted({*range(100), *range(0, len(content), 9)}):
        damaged = bytearray(content)
        damaged[place] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError) as error:
            open_and_verify(path)
        assert str(path) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(("engine", "times"), [("core", 200), ("onnx", 10)])
def test_a_predictor_refuses_flipped_weights(ordered: Path, tmp_path: Path, engine: str, times: int) -> None:
    if engine == "onnx":
        pytest.importorskip("onnxruntime")
    content, chance = ordered.read_bytes(), Random(1)
    with open_model(ordered) as file:
        weights = [name for name in file.tensor_bytes() if name.startswith(("layers", "embedding", "output"))]
    header = json.loads(content[8 : tensors_begin(content)])
    for number in range(times):
        begin, end = header[chance.choice(weights)]["data_offsets"]
        damaged, place = bytearray(content), tensors_begin(content) + chance.randrange(begin, end)
        damaged[place] ^= 1 << chance.randrange(8)
        path = tmp_path / f"{number}.safetensors"
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError, match=r"found the checksum .* as when it was written; the file is damaged"):
            rheostat.load(path, engine=engine, threads=1).suggest("word3")  # type: ignore[arg-type]
        path.unlink()


def test_comparing_can_be_left_out(ordered: Path, tmp_path: Path) -> None:
    damaged = bytearray(ordered.read_bytes())
    damaged[tensors_begin(damaged)] ^= 1
    path = tmp_path / "damaged.safetensors"
    path.write_bytes(damaged)
    with rheostat.load(path, verify=False) as predictor:
        predictor.suggest("word3")
        with pytest.raises(ModelFileError, match="checksum"):  # the same file, opened again, is not taken as checked
            rheostat.load(path)
    with open_model(path, verify=False) as file:
        file.verify()
        assert not file.has_checksums


def test_a_file_without_checksums_opens_and_says_so(tmp_path: Path) -> None:
    """As every file was before there were any; other tools write such files still."""
    content = write_tiny(tmp_path / "tiny.safetensors").read_bytes()
    header = json.loads(content[8 : tensors_begin(content)])
    del header["__metadata__"][CHECKSUMS]
    plain = json.dumps(header).encode()
    path = tmp_path / "plain.safetensors"
    path.write_bytes(len(plain).to_bytes(8, "little") + plain + content[tensors_begin(content) :])
    with open_model(path) as file, open_model(tmp_path / "tiny.safetensors") as sealed:
        assert summarize(file)["checksums"] == "none stored" and summarize(sealed)["checksums"] == "all match"
    before = rheostat.load(path).suggest("word3")
    summary = rheostat.pack(path, path)
    assert summary["checksums"] == "all match" and rheostat.load(path).suggest("word3") == before


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.name)
def test_every_committed_model_carries_checksums_that_match(path: Path) -> None:
    with open_model(path) as file:
        assert file.has_checksums
        assert summarize(file)["checksums"] == "all match"


def test_a_file_written_before_there_were_checksums_holds_the_same() -> None:
    with (
        open_model(GOLDEN / "golden-without-checksums.safetensors") as old,
        open_model(GOLDEN / "golden-version-2.safetensors") as new,
    ):
        assert old.description == new.description and old.weights_digest() == new.weights_digest()
        assert new.has_checksums and not old.has_checksums
        old.verify()


@pytest.mark.parametrize("listed", ["", "0" * 8, "zz", "00000000 " * 3, "0" * 8 + " 123"])
def test_invalid_checksums_are_an_error(tmp_path: Path, listed: str) -> None:
    content = write_tiny(tmp_path / "tiny.safetensors").read_bytes()
    header = json.loads(content[8 : tensors_begin(content)])
    header["__metadata__"][CHECKSUMS] = listed
    plain = json.dumps(header, separators=(",", ":")).encode()
    path = tmp_path / "wrong.safetensors"
    path.write_bytes(len(plain).to_bytes(8, "little") + plain + content[tensors_begin(content) :])
    with pytest.raises(ModelFileError, match=f"for {CHECKSUMS}; expected"):
        open_model(path)


def test_other_readers_open_a_file_with_checksums(ordered: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    with open_model(ordered) as file:
        found = numpy.load_file(ordered)
        assert set(found) == set(file.tensor_bytes())
        np.testing.assert_array_equal(found["output.bias"], file.raw("output.bias"))


# A file in use


def test_a_file_replaced_under_a_predictor_leaves_it_the_old_one(ordered: Path, tmp_path: Path) -> None:
    path, other = tmp_path / "model.safetensors", tmp_path / "other.safetensors"
    shutil.copy(ordered, path)
    with open_model(path) as file:
        contents = file.contents()
        changed = {name: -array if name.endswith("bias") else array for name, array in contents.weights.items()}
        write_model(other, replace(contents, weights=changed))
    with rheostat.load(path) as predictor:
        before = predictor.suggest("word3 word4")
        other.replace(path)
        time.sleep(0.1)
        assert predictor.suggest("word3 word5") != [] and predictor.suggest("word3 word4") == before
        with rheostat.load(path) as again:
            assert again.suggest("word3 word4") != before


CHANGES = """
import os, sys, time, rheostat
path, change = sys.argv[1:]
with rheostat.load(path) as predictor:
    predictor.suggest("word3")  # looks at the file, so it is not looked at again soon
    status = os.stat(path)
    if change == "truncate":
        os.truncate(path, 4096)
    else:
        with open(path, "r+b") as file:
            file.seek(-100, 2)
            last = file.read(1)[0]
            file.seek(-100, 2)
            file.write(bytes([last ^ 255]))
    if change == "write and put the time back":
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    if change != "truncate":  # the size is looked at before every query, the rest every twentieth of a second
        time.sleep(0.1)
    for _ in range(2):
        try:
            predictor.suggest("word4 word5")
            print("answered")
        except rheostat.ModelFileError as error:
            print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a mapped file cannot be changed there")
@pytest.mark.parametrize("change", ["truncate", "write", "write and put the time back"])
def test_a_file_changed_under_a_predictor_is_an_error_and_no_crash(ordered: Path, tmp_path: Path, change: str) -> None:
    path = tmp_path / "model.safetensors"
    shutil.copy(ordered, path)
    os.utime(path, (1e9, 1e9))
    ended = subprocess.run([sys.executable, "-c", CHANGES, path, change], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert ["was written to while it was in use" in line for line in ended.stdout.splitlines()] == [True, True]


def test_a_file_that_was_only_touched_stays_in_use(ordered: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    shutil.copy(ordered, path)
    with rheostat.load(path) as predictor:
        before = predictor.suggest("word3")
        for change in (
            lambda: os.utime(path, (1e9, 1e9)),
            lambda: path.chmod(0o600),
            lambda: path.rename(f"{path}.old"),
        ):
            change()
            time.sleep(0.06)
            assert predictor.suggest("word3") == before


def test_a_figure_is_never_of_two_files(ordered: Path, tmp_path: Path) -> None:
    path, ids = tmp_path / "model.safetensors", np.full(3000, 3, np.int64)
    shutil.copy(ordered, path)
    with open_model(path) as file:
        evaluator = RuntimeEvaluator(file, "int8", engine="core")
        point = full_point(file.shape)
        before = evaluator.quality(point, ids)
        assert evaluator.quality(point, ids) == before

        def change(share: float) -> None:
            with path.open("r+b") as stream:
                stream.seek(-1, os.SEEK_END)
                stream.write(b"x")
            os.utime(path, (1e9, 1e9 + share))

        with pytest.raises(ModelFileError, match="was written to while it was in use"):
            evaluator.quality(point, ids, change)


def test_closing_in_another_thread_is_no_change(ordered: Path) -> None:
    file = open_model(ordered)
    file.close()
    file.check_unchanged()


def test_a_file_without_checksums_that_changed_before_it_is_used_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "old.safetensors"
    shutil.copy(GOLDEN / "golden-without-checksums.safetensors", path)
    with open_model(path) as file:
        os.utime(path, (1e9, 1e9))
        with pytest.raises(ModelFileError, match="was written to while it was in use"):
            file.weights()
