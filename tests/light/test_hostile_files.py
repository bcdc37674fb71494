"""Thousands of damaged files: each is either read completely or refused with a ModelFileError.

Never another exception, a hang, or memory out of proportion to the file. The damage comes from a seed, so a failure can
be repeated: its message has the number of the file.
"""

from __future__ import annotations

import json
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from models import GOLDEN, write_tiny
from rheostat.errors import ModelFileError
from rheostat.model.cut import cut
from rheostat.model.file import ModelFile, open_model
from rheostat.model.summary import summarize
from rheostat.model.widths import select

FILES_PER_KIND = 500
SECONDS_PER_FILE = 1.0  # a thousand times the normal time: only a hang exceeds it
BYTES_PER_FILE_BYTE = 100
SPARE_BYTES = 1_000_000  # of the interpreter itself

Random = random.Random


# Damage to bytes


def truncate(chance: Random, content: bytes) -> bytes:
    return content[: chance.randrange(len(content))]


def extend(chance: Random, content: bytes) -> bytes:
    return content + chance.randbytes(chance.randint(1, 64))


def flip_bits(chance: Random, content: bytes) -> bytes:
    damaged = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 8, 64])):
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


def flip_header_bytes(chance: Random, content: bytes) -> bytes:
    length = int.from_bytes(content[:8], "little")
    damaged = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 5])):
        damaged[8 + chance.randrange(length)] = chance.choice(b'"{}[]:,0123456789-.eE\\ntu \x00\xff')
    return bytes(damaged)


def change_length(chance: Random, content: bytes) -> bytes:
    length = int.from_bytes(content[:8], "little")
    edge = chance.choice([0, 1, 2, 2**31, 2**63, 2**64 - 1, len(content), len(content) - 8, 10**8])
    wrong = chance.choice([edge, length + chance.randint(-9, 9), chance.getrandbits(64)])
    return max(wrong, 0).to_bytes(8, "little") + content[8:]


def move_a_piece(chance: Random, content: bytes) -> bytes:
    """Cut a piece out and put it, or other bytes, somewhere else."""
    begin, end = sorted(chance.randrange(len(content) + 1) for _ in range(2))
    end = min(end, begin + 200)
    rest = content[:begin] + content[end:]
    place = chance.randrange(len(rest) + 1)
    return rest[:place] + chance.choice([content[begin:end], b"", bytes(16)]) + rest[place:]


# Damage to JSON that stays JSON, or nearly

# Written into the text in place of a value; some of them are not JSON.
VALUES = [
    *("null", "true", "false", "0", "1", "-1", "2", "3", "0.5", "1e999", "-1e999", "1e-999", "NaN", "Infinity"),
    *(
        '""',
        '"x"',
        '"' + "x" * 5000 + '"',
        '"\\ud800"',
        '"\\u0000"',
        '"F32"',
        '"F16"',
        '"I8"',
        '"I32"',
        '"U8"',
        '"F64"',
    ),
    *("[]", "{}", "[[]]", "[0,0]", "[1,1]", "[0,9223372036854775807]", "[-1,3]", "[1e3]", '{"":{}}', '"layers.0.bias"'),
    *(str(2**31), str(2**31 - 1), str(2**63), str(2**64), "9" * 400, "9" * 5000, "0." + "9" * 400),
    *("[" * 60 + "]" * 60, "[" * 5000 + "]" * 5000, '{"a":' * 3000 + "1" + "}" * 3000, "[" * 100_000, "-", "1 2"),
]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (object or list, key or index) in a JSON value."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(inner, dict | list):
            yield from places(inner)


def damage_json(chance: Random, value: Any) -> str:
    """The JSON of a value with some places changed, and sometimes a key doubled."""
    inserted: dict[str, str] = {}
    for number in range(chance.choice([1, 1, 1, 2, 4])):
        holder, key = chance.choice(list(places(value)))
        kind = chance.random()
        if kind < 0.5:
            mark = f"<<{number}>>"
            inserted[f'"{mark}"'] = chance.choice(VALUES)
            holder[key] = mark
        elif kind < 0.7:
            other, other_key = chance.choice(list(places(value)))
            holder[key] = json.loads(json.dumps(other[other_key]))
        elif kind < 0.85:
            del holder[key]
        elif isinstance(holder, dict):
            holder[chance.choice(["x", "name", "points.a.keep.0", "layers.9.weight", ""])] = holder.pop(key)
    text = json.dumps(value)
    for mark, raw in inserted.items():
        text = text.replace(mark, raw).replace(json.dumps(mark)[1:-1], raw)
    if chance.random() < 0.05:
        text = text.replace('{"', '{"shape": [1], "', 1)
    return text


def split(content: bytes) -> tuple[dict[str, Any], bytes]:
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def join(header: str, data: bytes) -> bytes:
    encoded = header.encode("utf-8", "surrogatepass")
    return len(encoded).to_bytes(8, "little") + encoded + data


def damage_header(chance: Random, content: bytes) -> bytes:
    header, data = split(content)
    return join(damage_json(chance, header), data)


def damage_description(chance: Random, content: bytes) -> bytes:
    header, data = split(content)
    description = damage_json(chance, json.loads(header["__metadata__"]["rheostat"]))
    return join(json.dumps({**header, "__metadata__": {"rheostat": description}}), data)


def damage_values(chance: Random, content: bytes) -> bytes:
    """Whole items of tensors replaced by edge cases: NaN, infinity, the largest and smallest numbers."""
    header, data = split(content)
    damaged = bytearray(data)
    for _ in range(chance.choice([1, 1, 3])):
        item = chance.choice(
            [b"\xff\xff\xff\xff", b"\x00\x00\xc0\x7f", b"\x00\x00\x80\x7f", bytes(4), b"\x00\x7c", b"\x80"]
        )
        place = chance.randrange(len(damaged) // 4) * 4
        damaged[place : place + len(item)] = item
    return join(json.dumps(header), bytes(damaged))


DAMAGE: list[Callable[[Random, bytes], bytes]] = [
    truncate,
    extend,
    flip_bits,
    flip_header_bytes,
    change_length,
    move_a_piece,
    damage_header,
    damage_description,
    damage_values,
]


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
        with open_model(path) as file:
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


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: str(damage.__name__))
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


@pytest.mark.parametrize("layers", [5_000])
def test_a_header_of_many_layers_takes_linear_time(tmp_path: Path, layers: int) -> None:
    """A header of a few megabytes must not take quadratic time."""
    description = {
        "format_version": 1,
        "shape": {
            "vocabulary_size": 2,
            "embedding_size": 1,
            "hidden_sizes": [1] * layers,
            "windows": [1] * layers,
        },
        "points": [{"name": "p"}],
    }
    tensors = {"embedding.weight": [2, 1], "output.bias": [2]}
    for layer in range(layers):
        tensors[f"layers.{layer}.weight"] = [3, 1]
        tensors[f"layers.{layer}.bias"] = [3]
        tensors[f"points.p.update.{layer}.u"] = [3, 1]
        tensors[f"points.p.update.{layer}.v"] = [1, 1]
        tensors[f"points.p.keep.{layer}"] = [1]
    header: dict[str, Any] = {"__metadata__": {"rheostat": json.dumps(description)}}
    position = 0
    for name, size in tensors.items():
        count = 4 * (size[0] if len(size) == 1 else size[0] * size[1])
        dtype = "I32" if ".keep." in name else "F32"
        header[name] = {"dtype": dtype, "shape": size, "data_offsets": [position, position + count]}
        position += count
    words = b"<unk>\n<eos>"
    header["vocabulary"] = {"dtype": "U8", "shape": [len(words)], "data_offsets": [position, position + len(words)]}
    path = tmp_path / "deep"
    path.write_bytes(join(json.dumps(header), bytes(position) + words))
    start = time.process_time()
    with open_model(path) as file:
        file.points()
        file.weights()
    assert time.process_time() - start < 5
