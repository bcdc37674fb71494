"""Damage to files, from a source of chance: bytes, JSON that stays JSON or nearly, TOML, and model files.

The same damage serves the seeded tests of model files, the tests that Hypothesis drives, and `make fuzz`.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

Random: TypeAlias = random.Random
Damage: TypeAlias = Callable[[Random, bytes], bytes]


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
    *(
        "null",
        "true",
        "false",
        "0",
        "1",
        "-1",
        "2",
        "3",
        "0.5",
        "1e999",
        "-1e999",
        "1e-999",
        "1e308",
        "NaN",
        "Infinity",
    ),
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
        if not value:  # everything was removed
            break
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


MODEL_FILE_DAMAGE: list[Damage] = [
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


# Damage to texts: results, words, memory, requests, recipes, policies, tables and logs

HOSTILE_TEXTS = [
    *("\x1b]0;title\x07", "\x1b[2J\x1b[31mred", "\x9b31m", "a\nb", "\u202eabc"),
    *("../../x", "<script>", "|", "%s", "{0}", ""),
]
TOML_VALUES = [
    *("true", "0", "-1", "1", "0.5", "inf", "-inf", "nan", "1e999", "9" * 400, "9" * 5000, "-" + "9" * 30),
    *("0x" + "f" * 99, "0x" + "f" * 9999, "[]", "{}", "[[]]", "[0, -1]", "{a = 1}"),
    *('""', '"x"', '"\\u001b[2J"', '["x"]'),
    *("1979-05-27T07:32:00Z", "07:32:00", "[" * 3000 + "]" * 3000, "{a=" * 500 + "1" + "}" * 500),
    *('"' + "x" * 5000 + '"', "[1" + ", 1" * 3000 + "]"),
]
TOML_LINES = ["[x]", "[[x]]", "[train]", "[[train]]", "a" + ".a" * 2000 + " = 1", "when = 1"]
TOML_KEYS = ["x", "train", "when", "a.b", '"\\\\u001b[31m"']


def damage_json_text(chance: Random, content: bytes) -> bytes:
    """A JSON file with places of it replaced, doubled, moved or removed."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return flip_bits(chance, content)
    if not isinstance(value, dict | list) or not value:  # nothing in it to change
        return chance.choice(VALUES).encode()
    if chance.random() < 0.1:
        holder, key = chance.choice(list(places(value)))
        holder[key] = chance.choice(HOSTILE_TEXTS)
        return json.dumps(value).encode()
    return damage_json(chance, value).encode("utf-8", "surrogatepass")


def damage_toml(chance: Random, content: bytes) -> bytes:
    """A TOML file with values replaced, and lines doubled, removed, swapped or turned into tables."""
    lines = content.decode("utf-8", "replace").splitlines()
    for _ in range(chance.choice([1, 1, 2, 4])):
        if not lines:
            break
        place, kind = chance.randrange(len(lines)), chance.random()
        if kind < 0.6 and "=" in lines[place]:
            lines[place] = f"{lines[place].partition('=')[0]}= {chance.choice(TOML_VALUES)}"
        elif kind < 0.7:
            lines.insert(place, lines[chance.randrange(len(lines))])
        elif kind < 0.8:
            del lines[place]
        elif kind < 0.9:
            lines[place] = re.sub(r"\w+", chance.choice(TOML_KEYS), lines[place], count=1)
        else:
            lines.insert(place, chance.choice(TOML_LINES))
    return "\n".join(lines).encode()


CELLS = [
    *HOSTILE_TEXTS,
    *("0", "1", "-1", "0.5", "nan", "inf", "1e13", "1e300", "1e999", "-1e300", "9" * 400, "9" * 5000, "1" + "0" * 400),
    *("x" * 5000, "x" * 140_000, "[" * 5000, '"', "#", "true", "a->b", "-", "-a", "severe", "\ufeff", "é" * 99),
    *("2026-01-31T12:00:00", "2026-01-31T12:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"),
]


def damage_table(chance: Random, content: bytes) -> bytes:
    """A CSV file or a list of words with cells replaced, and lines doubled, removed or moved."""
    lines = content.decode("utf-8", "replace").splitlines()
    for _ in range(chance.choice([1, 1, 2, 4])):
        if not lines:
            break
        # The head of a table is one line of many, but decides most.
        place, kind = chance.randrange(chance.choice([min(4, len(lines)), len(lines)])), chance.random()
        if kind < 0.7:
            cells = lines[place].split(",")
            cells[chance.randrange(len(cells))] = chance.choice(CELLS)
            lines[place] = ",".join(cells)
        elif kind < 0.8:
            lines.insert(place, lines[chance.randrange(len(lines))])
        elif kind < 0.9:
            del lines[place]
        else:
            lines.insert(place, lines.pop(chance.randrange(len(lines))))
    return "\n".join(lines).encode() + b"\n"


def damage_json_lines(chance: Random, content: bytes) -> bytes:
    """A log of JSON objects with one of its lines damaged, doubled or moved."""
    lines = content.splitlines()
    place = chance.randrange(len(lines))
    if chance.random() < 0.8 and lines[place]:
        lines[place] = damage_json_file(chance, lines[place])
    else:
        lines.insert(place, chance.choice(lines))
    return b"\n".join(lines) + b"\n"


TEXT_DAMAGE: list[Damage] = [truncate, flip_bits, move_a_piece]


def one_of(damages: list[Damage]) -> Damage:
    """One of these each time, all equally likely."""

    def damage(chance: Random, content: bytes) -> bytes:
        return chance.choice(damages)(chance, content) if content else content

    return damage


damage_json_file = one_of([damage_json_text] * 8 + TEXT_DAMAGE)
damage_toml_file = one_of([damage_toml] * 8 + TEXT_DAMAGE)
damage_table_file = one_of([damage_table] * 8 + TEXT_DAMAGE)
damage_log_file = one_of([damage_json_lines] * 8 + TEXT_DAMAGE)
damage_model_file = one_of(MODEL_FILE_DAMAGE)
