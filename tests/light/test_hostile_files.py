"""Thousands of damaged files: each is either read completely or refused with a ModelFileError.

Never another exception, a hang, or memory out of proportion to the file. The damage comes from a seed, so a failure can
be repeated: its message has the number of the file.
"""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from models import GOLDEN, write_tiny
from mutations import MODEL_FILE_DAMAGE, Random, change_length, damage_description, damage_header
from rheostat.errors import ModelFileError
from rheostat.model.cut import cut
from rheostat.model.file import ModelFile, open_model
from rheostat.model.summary import summarize
from rheostat.model.widths import select

FILES_PER_KIND = 500
SECONDS_PER_FILE = 1.0  # a thousand times the normal time: only a hang exceeds it
BYTES_PER_FILE_BYTE = 100
SPARE_BYTES = 1_000_000  # of the interpreter itself

# What is done with every file


def use_all(file: ModelFile) -> None:
    """Use everything in a file, including cutting at its points and by its rankings."""
    json.dumps(summarize(file), allow_nan=False, ensure_ascii=False).encode()
    weights = file.weights()
    points, rankings = file.points(), file.rankings()
    assert len(file.vocabulary) == file.shape.vocabulary_size
    assert file.casing is not None
    for point in points:
        cut(weights, file.shape, point)
        cut(file.stored_weights(), file.shape, point)
    for ranking in rankings:
        select(ranking, file.shape, 1.0)


def read(path: Path) -> bool:
    """Whether the file was read completely; a ModelFileError is fine too, anything else is not."""
    try:
        with open_model(path, verify=False) as file:  # who damages a file on purpose also knows its checksums
            use_all(file)
    except ModelFileError as error:
        message = str(error)
        assert message.startswith(f"{path}: ")
        assert "\n" not in message
        assert len(message) < 1_000
        return False
    return True


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    lstm = write_tiny(tmp_path_factory.mktemp("models") / "lstm", "lstm")
    golden = sorted(GOLDEN.glob("golden-*.safetensors"))
    return [path.read_bytes() for path in [*golden, lstm]]


@pytest.mark.parametrize("damage", MODEL_FILE_DAMAGE, ids=lambda damage: str(damage.__name__))
def test_damaged_files_are_read_or_refused(
    damage: Callable[[Random, bytes], bytes], originals: list[bytes], tmp_path: Path
) -> None:
    path = tmp_path / "damaged"
    for number in range(FILES_PER_KIND):
        chance = Random(f"{damage.__name__} {number}")
        path.write_bytes(damage(chance, chance.choice(originals)))
        start = time.process_time()
        try:
            read(path)
        except Exception as error:
            raise AssertionError(f"{damage.__name__} {number} gave {type(error).__name__}: {error}") from error
        seconds = time.process_time() - start
        assert seconds < SECONDS_PER_FILE, f"{damage.__name__} {number} took {seconds:.1f} s"


@pytest.mark.parametrize("damage", [damage_header, damage_description, change_length])
def test_damaged_files_take_memory_in_proportion(
    damage: Callable[[Random, bytes], bytes], originals: list[bytes], tmp_path: Path
) -> None:
    path = tmp_path / "damaged"
    tracemalloc.start()
    try:
        for number in range(100):
            chance = Random(f"memory {number}")
            content = damage(chance, chance.choice(originals))
            path.write_bytes(content)
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            read(path)
            _, peak = tracemalloc.get_traced_memory()
            assert peak - before < SPARE_BYTES + BYTES_PER_FILE_BYTE * len(content), f"file {number}"
    finally:
        tracemalloc.stop()


def test_the_originals_are_read(originals: list[bytes], tmp_path: Path) -> None:
    for content in originals:
        (tmp_path / "whole").write_bytes(content)
        assert read(tmp_path / "whole")


def test_every_length_of_a_truncated_file_is_refused(originals: list[bytes], tmp_path: Path) -> None:
    path = tmp_path / "short"
    for length in range(0, len(originals[0]), 3):
        path.write_bytes(originals[0][:length])
        assert not read(path)
