"""Opening a file in C is as strict as in Python: what one refuses the other refuses, and what is proper both open."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from models import GOLDEN, make_vocabulary, make_weights
from rheostat.core.binding import CoreModel
from rheostat.errors import ModelFileError
from rheostat.model.container import LINE_BYTES
from rheostat.model.counts import Counts
from rheostat.model.file import open_model
from rheostat.model.ordered import as_precision, ordered_bytes
from rheostat.model.precision import LARGEST_STORED_SCALE
from rheostat.model.shape import ModelShape

FILE = (GOLDEN / "golden-ordered.safetensors").read_bytes()
LENGTH = int.from_bytes(FILE[:8], "little")
HEADER, DATA = FILE[8 : 8 + LENGTH].rstrip(b" "), FILE[8 + LENGTH :]
Change = Callable[[bytes], bytes]


def with_header(header: bytes) -> bytes:
    """The file with another header, padded as writers pad it."""
    header += b" " * (-(8 + len(header)) % LINE_BYTES)
    return len(header).to_bytes(8, "little") + header + DATA


def replace(old: str | bytes, new: str | bytes) -> Change:
    before, after = (part.encode() if isinstance(part, str) else part for part in (old, new))

    def change(header: bytes) -> bytes:
        assert header.count(before) == 1
        return header.replace(before, after)

    return change


def entry(text: str | bytes) -> Change:
    """One more entry, the first of the header."""
    return lambda header: b"{" + (text.encode() if isinstance(text, str) else text) + b"," + header[1:]


def note(value: bytes) -> Change:
    """One more text in the metadata."""
    return replace(b'"__metadata__":{', b'"__metadata__":{"note":"' + value + b'",')


def described(old: str, new: str) -> Change:
    """Another text in the description, which is a JSON string within JSON."""
    return replace(json.dumps(old, ensure_ascii=False)[1:-1], json.dumps(new, ensure_ascii=False)[1:-1])


def extra(value: str) -> Change:
    """One more key in the description, which readers ignore."""
    return described('{"format_version": 2', f'{{"extra": {value}, "format_version": 2')


def offsets(name: str, begin: int, end: int) -> Change:
    old = json.loads(HEADER)[name]["data_offsets"]
    start = f'"{name}":{{"dtype":"{json.loads(HEADER)[name]["dtype"]}","shape":'
    shape = json.dumps(json.loads(HEADER)[name]["shape"], separators=(",", ":"))
    return replace(
        f'{start}{shape},"data_offsets":[{old[0]},{old[1]}]', f'{start}{shape},"data_offsets":[{begin},{end}]'
    )


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


EMPTY = '{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
BIAS = '"output.bias":{"dtype":"F32","shape":[11]'
PROPER_JSON, PROPER_ENTRY, DESCRIPTION = (
    "header is not proper JSON",
    "not a proper entry of the header: ",
    "no proper desc",
)

MALFORMED: dict[str, tuple[Change, str]] = {
    "a value of signs": (entry('"x":+-.eE'), PROPER_ENTRY + "x"),
    "a value without quotes": (entry('"x":nope'), PROPER_ENTRY + "x"),
    "an entry that is a number": (entry('"x":3'), PROPER_ENTRY + "x"),
    "an entry that is a list": (entry('"x":[]'), PROPER_ENTRY + "x"),
    "an entry that is null": (entry('"x":null'), PROPER_ENTRY + "x"),
    "an empty entry": (entry('"x":{}'), PROPER_ENTRY + "x"),
    "an entry without offsets": (entry('"x":{"dtype":"U8","shape":[0]}'), PROPER_ENTRY + "x"),
    "an entry with a key too many": (entry('"x":{"more":1,' + EMPTY[1:]), PROPER_ENTRY + "x"),
    "dtype twice": (entry('"x":{"dtype":"U8",' + EMPTY[1:]), PROPER_ENTRY + "x"),
    "shape twice": (entry('"x":{"shape":[0],' + EMPTY[1:]), PROPER_ENTRY + "x"),
    "offsets twice": (entry('"x":{"data_offsets":[0,0],' + EMPTY[1:]), PROPER_ENTRY + "x"),
    "dtype a number": (entry('"x":{"dtype":8,"shape":[0],"data_offsets":[0,0]}'), PROPER_ENTRY + "x"),
    "three offsets": (entry('"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0,0]}'), PROPER_ENTRY + "x"),
    "nine dimensions": (entry('"x":' + EMPTY.replace("[0]", "[0,1,1,1,1,1,1,1,1]")), PROPER_ENTRY + "x"),
    "a comma at the end of a shape": (replace(BIAS, BIAS[:-1] + ",]"), PROPER_ENTRY + "output.bias"),
    "a shape that begins with a comma": (replace(BIAS, BIAS.replace("[11", "[,11")), PROPER_ENTRY + "output.bias"),
    "a leading zero": (replace(BIAS, BIAS.replace("11", "011")), PROPER_ENTRY + "output.bias"),
    "a fraction": (replace(BIAS, BIAS.replace("11", "11.0")), PROPER_ENTRY + "output.bias"),
    "a number above 2^53": (entry('"x":' + EMPTY.replace("[0]", "[0,9007199254740993]")), PROPER_ENTRY + "x"),
    "a number of 17 digits": (entry('"x":' + EMPTY.replace("[0]", "[0,10000000000000000]")), PROPER_ENTRY + "x"),
    "an unknown type": (entry('"x":' + EMPTY.replace("U8", "BF16")), "unknown type of tensor x"),
    "no type": (entry('"x":' + EMPTY.replace("U8", "")), "unknown type of tensor x"),
    "a shape that does not fit": (replace(BIAS, BIAS.replace("11", "12")), "shape of tensor output.bias"),
    "a shape that wraps around": (
        entry('"x":' + EMPTY.replace("[0]", "[4294967296,4294967296]")),
        "shape of tensor x",
    ),
    "offsets that fall": (offsets("points.plain.keep.0", 3604, 3592), "shape of tensor points.plain.keep.0"),
    "offsets beyond the file": (offsets("points.plain.keep.0", 30_000, 30_012), "outside the file for tensor points"),
    "an overlap": (offsets("points.plain.keep.0", 3208, 3220), "overlaps the one before: tensor points"),
    "an overlap by some bytes": (offsets("points.plain.keep.1", 3600, 3612), "overlaps the one before: tensor points"),
    "a gap": (replace('"casing":{"dtype":"U8","shape":[11],"data_offsets":[3744,3755]},', ""), "follows a gap"),
    "an empty tensor within another": (entry('"x":' + EMPTY.replace("0,0", "9,9")), "overlaps the one before"),
    "a tensor twice": (entry(f'"x":{EMPTY},"x":{EMPTY}'), "occurs twice in the header: x"),
    "metadata twice": (entry('"__metadata__":{"a":"b"}'), "occurs twice in the header: __metadata__"),
    "metadata that is a list": (replace('"__metadata__":{', '"__metadata__":[],"x":{'), PROPER_JSON),
    "metadata that is a number": (replace('"__metadata__":{', '"__metadata__":{"n":1,'), PROPER_JSON),
    "a space before the header": (lambda header: b" " + header, PROPER_JSON),
    "a newline after the header": (lambda header: header + b"\n", PROPER_JSON),
    "something after the header": (lambda header: header + b"{}", PROPER_JSON),
    "an open header": (lambda header: header[:-1], PROPER_JSON),
    "a comma at the end": (lambda header: header[:-1] + b",}", PROPER_JSON),
    "an unknown escape": (entry(r'"\q":' + EMPTY), PROPER_JSON),
    "an unknown escape in a text": (note(rb"\q"), PROPER_JSON),
    "an escape that is cut off": (note(rb"\u12"), PROPER_JSON),
    "an escape that is not hexadecimal": (note(rb"\u12g4"), PROPER_JSON),
    "the first half of a pair": (note(rb"\ud83d"), PROPER_JSON),
    "the second half of a pair": (note(rb"\ude00"), PROPER_JSON),
    "a half with another character": (note(rb"\ud83d\u0041"), PROPER_JSON),
    "a control character": (note(b"\x01"), PROPER_JSON),
    "a name that is not UTF-8": (entry(b'"\xff":' + EMPTY.encode()), "the header is not UTF-8"),
    "a character in too many bytes": (note(b"\xc0\xaf"), "the header is not UTF-8"),
    "a character in three bytes instead of two": (note(b"\xe0\x80\xaf"), "the header is not UTF-8"),
    "a surrogate": (note(b"\xed\xa0\x80"), "the header is not UTF-8"),
    "a character beyond Unicode": (note(b"\xf4\x90\x80\x80"), "the header is not UTF-8"),
    "a byte that begins no character": (note(b"\xf9\x90\x80\x80"), "the header is not UTF-8"),
    "half a character": (note(b"\xe2\x82"), "the header is not UTF-8"),
    "no description": (replace('"rheostat":', '"rheostats":'), DESCRIPTION),
    "two descriptions": (replace('"rheostat":', '"rheostat":"{}","rheostat":'), DESCRIPTION),
    "a version twice": (described('"format_version": 2', '"format_version": 2, "format_version": 2'), DESCRIPTION),
    "a cell twice": (described('"cell": "qrnn"', '"cell": "qrnn", "cell": "qrnn"'), DESCRIPTION),
    "a size twice": (described('"embedding_size": 4', '"embedding_size": 4, "embedding_size": 4'), DESCRIPTION),
    "a version with a leading zero": (described('"format_version": 2', '"format_version": 02'), DESCRIPTION),
    "a version that is a fraction": (described('"format_version": 2', '"format_version": 2.0'), DESCRIPTION),
    "a size above 2^53": (described('"embedding_size": 4', '"embedding_size": 9007199254740993'), DESCRIPTION),
    "a space before the description": (described('{"format_version"', ' {"format_version"'), DESCRIPTION),
    "a newline in a text of the description": (extra('"\n"'), DESCRIPTION),
    "a quote by its number": (replace(r"\"format_version\": 2", r"\"form\u0022at_version\": 2"), DESCRIPTION),
    **{
        f"{value[:9]} in the description": (extra(value), DESCRIPTION)
        for value in ("NaN", "Infinity", "-Infinity", "01", "-01", "1.", ".5", "-", "+1", "1e", "1e+", "tru", "nulll")
    },
    **{
        f"{value[:9]} in the description": (extra(value), DESCRIPTION)
        for value in ('"\\q"', '"\\ud800"', "[1,]", "[1 2]", '{"a":1,}', '{"a"}', "{1:2}", "'a'", "", nested(2000))
    },
}
PROPER: dict[str, Change] = {
    "as it is": lambda header: header,
    "every escape": note(rb"\"\\\/\b\f\n\r\t\u00fC\ud83d\ude00"),
    "characters of one to four bytes": note("aü€😀\x7f".encode()),
    "every kind of value": extra('[0, -0, 12, -1.5e+10, 0.25E-3, true, false, null, {}, [], {"a": "\\u00e9\\n"}]'),
    "64 levels in the provenance": described('"provenance": {', f'"provenance": {{"deep": {nested(63)}, '),
    "64 levels in the origin of a ranking": described(
        '"criterion": "filter-norm", "origin": {',
        f'"criterion": "filter-norm", "origin": {{"recipe": {{"deep": {nested(62)}}}, ',
    ),
    "spaces": lambda header: header.replace(b'":{', b'" : \r\n\t{ ').replace(b"]}", b" ] }"),
    "the description by numbers": replace(r"{\"format_version\": 2", r"\u007b\u0022format_version\u0022:\n2"),
    "entries in another order": lambda header: json.dumps(dict(reversed(json.loads(header).items()))).encode(),
    "no cell": described('"cell": "qrnn", ', ""),
    "a cell that is null": described('"cell": "qrnn"', '"cell": null'),
    "an escaped slash": extra('"a\\/b"'),
}


def python_opens(file: bytes, path: Path) -> None:
    path.write_bytes(file)
    with open_model(path, verify=False) as opened:
        assert opened.weights() and opened.vocabulary and opened.knob_path()


@pytest.mark.parametrize("name", MALFORMED)
def test_what_python_refuses_the_core_refuses(tmp_path: Path, name: str) -> None:
    change, message = MALFORMED[name]
    file = with_header(change(HEADER))
    with pytest.raises(ModelFileError):
        python_opens(file, tmp_path / "malformed")
    with pytest.raises(ModelFileError, match=message) as caught:
        CoreModel(file)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", PROPER)
def test_what_python_opens_the_core_opens(tmp_path: Path, name: str) -> None:
    file = with_header(PROPER[name](HEADER))
    python_opens(file, tmp_path / "proper")
    assert CoreModel(file).config.vocabulary_size == 11


def test_bytes_after_the_last_tensor_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError):
        python_opens(FILE + b"x", tmp_path / "long")
    with pytest.raises(ModelFileError, match="bytes follow the last tensor"):
        CoreModel(FILE + b"x")


def test_a_long_name_is_cut_short_between_two_characters() -> None:
    for length in (62, 63):
        with pytest.raises(ModelFileError, match=r"entry of the header: é+$"):
            CoreModel(with_header(entry(f'"{"é" * length}":3')(HEADER)))


def test_many_tensors_in_any_order_are_checked_soon() -> None:
    names = [f'"{number:05}":{EMPTY}' for number in np.random.default_rng(0).permutation(50_000)]
    assert CoreModel(with_header(entry(",".join(names))(HEADER))).config.vocabulary_size == 11
    with pytest.raises(ModelFileError, match="occurs twice in the header: 01234"):
        CoreModel(with_header(entry(",".join([*names, f'"01234":{EMPTY}']))(HEADER)))


# Values


def with_value(name: str, value: bytes, at: int = 0) -> bytes:
    begin = 8 + LENGTH + json.loads(HEADER)[name]["data_offsets"][0] + at
    return FILE[:begin] + value + FILE[begin + len(value) :]


def float_bytes(value: float) -> bytes:
    return np.float32(value).tobytes()


SCALE = "layers.1.weight.scale"
WRONG_VALUES: dict[str, tuple[bytes, str]] = {
    "a cost above 1": (with_value("path.cost", float_bytes(1.5)), "beyond 0 to 1, in path.cost"),
    "a cost of 0": (with_value("path.cost", float_bytes(0), at=36), "beyond 0 to 1, in path.cost"),
    "a cost below 0": (with_value("path.cost", float_bytes(-1), at=36), "beyond 0 to 1, in path.cost"),
    "a cost that rises": (with_value("path.cost", float_bytes(0.99), at=36), "do not descend.* in path.cost"),
    "a word that is not UTF-8": (with_value("vocabulary", b"\xff", at=14), "the vocabulary is not UTF-8"),
    "half a character at the end": (with_value("vocabulary", b"\xc3", at=65), "the vocabulary is not UTF-8"),
    "a scale below zero": (with_value(SCALE, float_bytes(-1e-3)), f"a scale below zero or above 1e30 in {SCALE}"),
    "a scale that is too large": (with_value(SCALE, float_bytes(1e31)), f"or above 1e30 in {SCALE}"),
    "a scale that is not a number": (with_value(SCALE, float_bytes(np.nan)), f"not finite in {SCALE}"),
    "a scale that is infinite": (with_value(SCALE, float_bytes(np.inf)), f"not finite in {SCALE}"),
    "a scale of a cluster": (with_value("clusters.weight.scale", float_bytes(-1)), "in clusters.weight.scale"),
}


@pytest.mark.parametrize("name", WRONG_VALUES)
def test_values_that_python_refuses_the_core_refuses(tmp_path: Path, name: str) -> None:
    file, message = WRONG_VALUES[name]
    with pytest.raises(ModelFileError):
        python_opens(file, tmp_path / "wrong")
    with pytest.raises(ModelFileError, match=message):
        CoreModel(file)


def test_with_the_largest_scales_every_log_p_is_a_number() -> None:
    shape = ModelShape(61, 12, (40, 12), (2, 1), (20, 33))
    weights = as_precision(make_weights(shape), "int8")
    for name in [name for name in weights if name.endswith(".scale")]:
        weights[name] = np.full_like(weights[name], LARGEST_STORED_SCALE)
    model = CoreModel(ordered_bytes(weights, shape, make_vocabulary(61)))
    state, position = model.start(), model.full_position()
    for word in (1, 60, 5):
        state = model.step(position, state, word)
        found = model.log_probabilities(model.predict(position, state))
        assert not np.isnan(found).any() and found.max() <= 0


def test_counts_need_a_vocabulary_whose_ids_have_16_bits() -> None:
    ones = np.ones(1, np.float32)
    counts = Counts((np.array([[0, 1]], np.uint16),), (np.array([9], np.uint8),), ones, ones.reshape(1, 1))
    for words in (1 << 16, (1 << 16) + 1):
        shape = ModelShape(words, 4, (4,), (1,))
        file = ordered_bytes(make_weights(shape), shape, make_vocabulary(words), counts=counts)
        if words == 1 << 16:
            assert CoreModel(file).config.counts == 2
            continue
        with pytest.raises(ModelFileError, match="counts need a vocabulary of at most 65536 words"):
            CoreModel(file)
