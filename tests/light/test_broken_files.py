"""Broken files: each gives its own message, with the path, what was found, what was expected and what to do."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models import JsonObject, parts_of, rewrite, write_parts, write_raw, write_tiny
from rheostat.errors import ModelFileError
from rheostat.model import container
from rheostat.model.file import open_model
from rheostat.text.vocabulary import Vocabulary


def change_values(name: str, value: bytes) -> Callable[[Path], None]:
    """Overwrite the first value of a tensor."""

    def change(path: Path) -> None:
        header, description, data = parts_of(path)
        begin = header[name]["data_offsets"][0]
        write_parts(path, header, description, data[:begin] + value + data[begin + len(value) :])

    return change


def in_header(change: Callable[[JsonObject], object]) -> Callable[[Path], None]:
    return lambda path: rewrite(path, header=change)


def in_description(change: Callable[[JsonObject], object]) -> Callable[[Path], None]:
    return lambda path: rewrite(path, description=change)


def in_bytes(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(change(path.read_bytes()))


def entry_of(name: str, **changes: Any) -> Callable[[Path], None]:
    return in_header(lambda header: header[name].update(changes))


def swap_offsets(header: JsonObject) -> None:
    begin, end = header["output.bias"]["data_offsets"]
    header["output.bias"]["data_offsets"] = [begin - 4, end - 4]


def shorten(name: str) -> Callable[[Path], None]:
    """Remove the last item of a one-dimensional tensor; the rest of the file stays valid."""

    def change(path: Path) -> None:
        header, description, data = parts_of(path)
        end = header[name]["data_offsets"][1]
        item = container.DTYPES[header[name]["dtype"]].itemsize
        header[name]["shape"][0] -= 1
        for entry in (entry for key, entry in header.items() if key != "__metadata__"):
            entry["data_offsets"] = [offset - item if offset >= end else offset for offset in entry["data_offsets"]]
        write_parts(path, header, description, data[: end - item] + data[end:])

    return change


def relabel(name: str, new_name: str) -> Callable[[Path], None]:
    return in_header(lambda header: header.update({new_name: header.pop(name)}))


def set_shape(key: str, value: Any) -> Callable[[Path], None]:
    return in_description(lambda d: d["shape"].update({key: value}))


def set_key(key: str, value: Any) -> Callable[[Path], None]:
    return in_description(lambda d: d.update({key: value}))


def set_point(key: str, value: Any) -> Callable[[Path], None]:
    return in_description(lambda d: d["points"][0].update({key: value}))


def raw_description(text: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        header, _, data = parts_of(path)
        write_parts(path, header, text, data)

    return change


NAN = np.array([np.nan], "<f4").tobytes()

BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (in_bytes(lambda _: b""), "found a file of 0 bytes; expected a model file; it is empty"),
    "no header": (in_bytes(lambda b: b[:8]), "found a file of 8 bytes"),
    "a note": (in_bytes(lambda _: b"hello\n"), "found a file of 6 bytes; expected a model file; this is none"),
    "half a header": (in_bytes(lambda b: b[:1000]), "in a file of 1000 bytes; expected 2 to 992"),
    "one byte short": (
        in_bytes(lambda b: b[:-1]),
        "bytes of tensors; expected .* by the header; the file was cut short",
    ),
    "one byte long": (in_bytes(lambda b: b + b"x"), "1 bytes after the last tensor; expected none"),
    "another format": (in_bytes(lambda b: b"\x02" + bytes(7) + b"PK" + b), r"starts with b'PK'; expected '\{'"),
    "a huge header": (in_bytes(lambda b: b"\xff" * 8 + b), "a header length of 18446744073709551615"),
    "not UTF-8": (in_bytes(lambda b: b[:20] + b"\xff" + b[21:]), "a header that is not UTF-8"),
    "not JSON": (in_bytes(lambda b: b[:9] + b"?" + b[10:]), "a header that is not proper JSON"),
    "more than JSON": (lambda p: write_raw(p, b"{} {}"), "something follows at character 2"),
    "nested": (lambda p: write_raw(p, b'{"a":' + b"[" * 100_000), "a header nested too deeply"),
    "NaN in the header": (lambda p: write_raw(p, b'{"a":NaN}'), "NaN is not a JSON number"),
    "digits": (lambda p: write_raw(p, b'{"a":' + b"9" * 10_000 + b"}"), "Exceeds the limit"),
    "half a character": (lambda p: write_raw(p, b'{"\\ud800":1}'), "surrogates not allowed"),
    "doubled name": (lambda p: write_raw(p, b'{"a":1,"b":2,"a":3}'), "the key 'a' twice in the header"),
    "doubled key": (
        lambda p: write_raw(p, b'{"a":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}}'),
        "'dtype' twice in tensor 'a'",
    ),
    "no metadata": (in_bytes(lambda b: (2).to_bytes(8, "little") + b"{}"), "no 'rheostat' in the metadata"),
    "metadata a list": (lambda p: write_raw(p, b'{"__metadata__":[]}'), r"found \[\] for __metadata__"),
    "metadata a number": (lambda p: write_raw(p, b'{"__metadata__":{"a":1}}'), "found 1 for 'a' in __metadata__"),
    "entry a number": (in_header(lambda h: h.update(casing=3)), "found 3 for tensor 'casing'; expected an object"),
    "entry without dtype": (in_header(lambda h: h["output.bias"].pop("dtype")), "the keys .*for tensor 'output.bias'"),
    "unknown dtype": (entry_of("output.bias", dtype="BF16"), "tensor 'output.bias' stored as 'BF16'"),
    "dtype a list": (entry_of("output.bias", dtype=["F32"]), r"'output.bias' stored as \['F32'\]"),
    "shape a text": (entry_of("output.bias", shape="11"), "shape '11' of tensor 'output.bias'"),
    "negative shape": (entry_of("output.bias", shape=[-11]), r"shape \[-11\] of tensor"),
    "a size of fractions": (entry_of("output.bias", shape=[11.0]), r"shape \[11.0\] of tensor"),
    "many dimensions": (entry_of("output.bias", shape=[1] * 9), r"expected up to 8 whole numbers"),
    "one offset": (entry_of("output.bias", data_offsets=[0]), r"data_offsets \[0\] of tensor 'output.bias'"),
    "huge offset": (entry_of("output.bias", data_offsets=[0, 2**64]), "two whole numbers"),
    "an offset of fractions": (entry_of("output.bias", data_offsets=[0, 44.0]), r"data_offsets \[0, 44.0\] of tensor"),
    "an offset that is no number": (entry_of("output.bias", data_offsets=[False, 44]), r"data_offsets \[False, 44\]"),
    "a negative offset": (entry_of("output.bias", data_offsets=[-44, 0]), r"data_offsets \[-44, 0\]"),
    "entry with a key too many": (entry_of("output.bias", more=1), "the keys .*'more'.* for tensor 'output.bias'"),
    "wrong size": (entry_of("output.bias", shape=[12]), "44 bytes for tensor 'output.bias'; expected 48"),
    "overlap": (in_header(swap_offsets), "'output.bias' at offset .*, which overlaps the one before"),
    "gap": (in_header(lambda h: h.pop("layers.1.bias")), "which leaves a gap after the one before"),
    "description not JSON": (raw_description("{"), "a description that is not proper JSON"),
    "description a list": (raw_description("[]"), r"found \[\] for the description"),
    "description nested": (raw_description("[" * 50_000), "a description nested too deeply to read"),
    "description doubled": (raw_description('{"a":1,"a":2}'), "the key 'a' twice.*description|description"),
    "NaN in the description": (raw_description('{"format_version":1,"recipe":{"a":NaN}}'), "NaN is not a JSON"),
    "no version": (in_description(lambda d: d.pop("format_version")), "format_version None; expected 1"),
    "new version": (set_key("format_version", 3), "format_version 3; expected 1 to 2; the file is newer"),
    "version true": (set_key("format_version", True), "format_version True"),
    "version a text": (set_key("format_version", "1"), "format_version '1'"),
    "unknown cell": (set_key("cell", "gru"), "cell 'gru'; expected one of qrnn, lstm, skip-lstm"),
    "cell a list": (set_key("cell", []), r"cell \[\]; expected one of"),
    "no shape": (in_description(lambda d: d.pop("shape")), "found None for shape"),
    "no vocabulary size": (
        in_description(lambda d: d["shape"].pop("vocabulary_size")),
        "vocabulary_size of None",
    ),
    "hostile size": (set_shape("hidden_sizes", [5, 2**40, 4]), "hidden_sizes of 1099511627776"),
    "size a text": (set_shape("embedding_size", "4"), "embedding_size of '4'"),
    "sizes a number": (set_shape("windows", 2), "windows 2; expected a list"),
    "too few windows": (set_shape("windows", [2, 1]), "2 windows for 3 layers"),
    "splits out of order": (set_shape("softmax_splits", [8, 5]), r"softmax_splits \(8, 5\)"),
    "last layer too narrow": (set_shape("hidden_sizes", [5, 6, 3]), "a last layer 3 wide"),
    "text a list": (set_key("text", []), r"found \[\] for text"),
    "unknown tokenizer": (set_key("text", {"tokenizer": "bpe"}), "tokenizer 'bpe'; expected one of"),
    "deep recipe": (
        raw_description('{"format_version":1,"recipe":{"a":' + "[" * 100 + "]" * 100 + "}}"),
        "a description nested too deeply; expected at most 64",
    ),
    "infinite recipe": (raw_description('{"format_version":1,"recipe":{"a":1e999}}'), "a number that is too large"),
    "missing tensor": (relabel("layers.1.bias", "layers.1.basi"), "no tensor layers.1.bias"),
    "strange tensor": (relabel("casing", "decoder"), "tensor 'decoder', which the description does not mention"),
    "wrongly shaped tensor": (entry_of("layers.1.weight", shape=[5, 18]), r"layers.1.weight of shape \[5, 18\]"),
    "weights in integers": (entry_of("layers.0.weight", dtype="I32"), "layers.0.weight stored as I32"),
    "no vocabulary": (relabel("vocabulary", "vocabulari"), "no tensor vocabulary"),
    "vocabulary in a table": (entry_of("vocabulary", shape=[1, 66]), "tensor vocabulary of U8"),
    "no ranking": (relabel("rankings.other.1", "rankings.othre.1"), "no tensor rankings.other.1"),
    "short ranking": (shorten("rankings.other.1"), r"rankings.other.1 of shape \[5\]; expected \[6\]"),
    "default ranking": (set_key("default_ranking", "l0"), "default_ranking 'l0'"),
    "rankings an object": (set_key("rankings", {"a": 1}), "for rankings; expected a list"),
    "ranking a text": (set_key("rankings", ["a"]), "found 'a' for an entry of rankings"),
    "ranking without name": (set_key("rankings", [{}]), "the name None in rankings"),
    "ranking twice": (set_key("rankings", [{"name": "other"}] * 2), "the name other twice in rankings"),
    "seed a text": (set_key("rankings", [{"name": "other", "seed": "1"}]), "seed '1' of ranking other"),
    "criterion a list": (set_key("rankings", [{"name": "other", "criterion": []}]), r"criterion \[\] of other"),
    "point name": (set_point("name", "a\nb"), r"the name 'a\\nb' in points"),
    "preferred a number": (set_point("preferred", 1), "preferred 1 of point l0-0.5"),
    "another share": (set_point("flops_fraction", 0.9), "flops_fraction 0.9 .*counted from its widths"),
    "an endless share": (set_point("flops_fraction", 10**400), "flops_fraction 1000"),
    "no keep": (relabel("points.second.keep.2", "points.second.kept.2"), "no tensor points.second.keep.2"),
    "gates of another width": (shorten("points.l0-0.5.gate.1"), r"gate.1 of shape \[2\]; expected \[3\]"),
    "half an update": (relabel("points.second.update.1.u", "x"), "no tensor points.second.update.1.u"),
    "update of a wrong shape": (entry_of("points.second.update.1.v", shape=[3, 1]), "update.1.v of shape"),
    "no scale": (entry_of("embedding.weight", dtype="I8", shape=[11, 16]), "embedding.weight of shape"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_an_error_when_it_is_opened(tmp_path: Path, name: str) -> None:
    change, message = BROKEN[name]
    path = write_tiny(tmp_path / "broken", casing={"word3": "Word3"})
    change(path)
    with pytest.raises(ModelFileError, match=message) as caught:
        open_model(path)
    assert str(caught.value).startswith(f"{path}: found ")
    assert "expected" in str(caught.value)
    assert "\n" not in str(caught.value)


WRONG_VALUES: dict[str, tuple[Callable[[Path], object], str]] = {
    "weight": (change_values("layers.0.weight", NAN), "a value in layers.0.weight that is not finite"),
    "ranking": (change_values("rankings.other.1", NAN), "a value in rankings.other.1 that is not finite"),
    "keep": (change_values("points.l0-0.5.keep.1", b"\xff\xff\xff\x7f"), "filters out of order or range in layer 1"),
    "negative keep": (change_values("points.l0-0.5.keep.1", b"\xff\xff\xff\xff"), "order or range in layer 1"),
    "gate": (change_values("points.l0-0.5.gate.1", bytes(4)), r"a gate outside \(0, 1\] in layer 1"),
    "update": (change_values("points.second.update.2.v", NAN), "points.second.update.2.v that is not finite"),
    "vocabulary": (change_values("vocabulary", b"\xff"), "the vocabulary is not UTF-8"),
    "unknown": (change_values("vocabulary", b"x"), "lacks <unk>"),
    "more words": (change_values("vocabulary", b"<unk>\n<eos>\nx\n"), "12 words; expected 11"),
    "casing": (change_values("casing", b"\xff"), "the casing is not UTF-8"),
}


@pytest.mark.parametrize("name", WRONG_VALUES)
def test_a_wrong_value_is_an_error_when_it_is_used(tmp_path: Path, name: str) -> None:
    change, message = WRONG_VALUES[name]
    vocabulary = Vocabulary(("<unk>", "<eos>", "longer", *(f"word{index}" for index in range(3, 11))))
    path = write_tiny(tmp_path / "broken", casing={"word3": "Word3"}, vocabulary=vocabulary)
    change(path)
    with open_model(path) as file, pytest.raises(ModelFileError, match=message) as caught:
        for use in (file.weights, file.rankings, file.points, lambda: file.vocabulary, lambda: file.casing):
            use()
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("layers.0.weight", b"\x80", "-128 in layers.0.weight"),
        ("layers.0.weight.scale", NAN, "layers.0.weight.scale that is not finite"),
        ("layers.0.weight.scale", np.array([-1], "<f4").tobytes(), "a scale below zero or too large"),
        ("layers.0.weight.scale", np.array([1e38], "<f4").tobytes(), "a scale below zero or too large"),
    ],
)
def test_int8_values_out_of_range_are_named(tmp_path: Path, name: str, value: bytes, message: str) -> None:
    path = write_tiny(tmp_path / "broken", precision="int8")
    change_values(name, value)(path)
    with open_model(path) as file, pytest.raises(ModelFileError, match=message):
        file.weights()


def test_int8_without_its_scale_is_named(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "broken", precision="int8")
    relabel("layers.0.weight.scale", "layers.0.weight.scales")(path)
    with pytest.raises(ModelFileError, match=r"no tensor layers\.0\.weight\.scale; expected F32 \[15\]"):
        open_model(path)


def test_an_ordered_file_stores_int8_in_planes(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "broken", precision="int8")
    in_description(lambda d: d.update(format_version=2, ordered=d["default_ranking"]))(path)
    with pytest.raises(ModelFileError, match=r"stored as I8 in an ordered file; expected its two planes, \.upper and"):
        open_model(path)


def test_a_scale_beside_floats_is_an_error(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "broken", casing={"word3": "Word3"})
    relabel("casing", "layers.0.weight.scale")(path)
    with pytest.raises(ModelFileError, match=r"tensor 'layers\.0\.weight\.scale', which the description does not"):
        open_model(path)


def test_no_two_broken_files_say_the_same(tmp_path: Path) -> None:
    messages: dict[str, str] = {}
    for name, (change, _) in BROKEN.items():
        path = write_tiny(tmp_path / "broken", casing={"word3": "Word3"})
        change(path)
        with pytest.raises(ModelFileError) as caught:
            open_model(path)
        assert str(caught.value) not in messages, f"{name} is told like {messages.get(str(caught.value))}"
        messages[str(caught.value)] = name


def test_a_path_that_is_not_a_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="found no such file or directory; expected a model file"):
        open_model(tmp_path / "missing")
    with pytest.raises(ModelFileError, match="found a folder; expected a model file"):
        open_model(tmp_path)
    with pytest.raises(ModelFileError, match="null byte"):
        open_model("nul\0l")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_named_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="found a named pipe; expected a model file"):
        open_model(tmp_path / "pipe")
