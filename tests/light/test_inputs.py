"""Files that a user names: a pipe, a device, or a file far too large is refused at once, in one line."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from models import GOLDEN, TINY, write_tiny
from rheostat.cli import app
from rheostat.errors import CorpusError, ExportError, RheostatError
from rheostat.inputs import LARGEST_BYTES, read_input, read_input_text
from rheostat.measure.path_search import SavedSearch
from rheostat.measure.texts import read_text
from rheostat.measure.typing import measure_typing
from rheostat.recipe import read_recipe
from rheostat.text.mixture import Part, mix
from rheostat.text.reading import read_blocks
from rheostat.text.token_cache import load_json, open_ids
from rheostat.words.memory import Memory
from rheostat.words.user_words import UserWords

ROOT = Path(__file__).parents[2]
DAY = Path(__file__).parents[1] / "data" / "traces" / "ordinary-day.csv"
MODEL = GOLDEN / "golden-fp32.safetensors"

# How a user names the file, and its kind. FILE is the file, OUT a file to write.
COMMANDS = {
    "report": ("report FILE -o OUT", "results file"),
    "a recorded day": ("govern --trace FILE", "recorded day"),
    "the costs of a device": (f"govern --trace {DAY} --bench FILE", "results file"),
    "the costs of a keyboard": (f"keyboard {MODEL} --bench FILE", "results file"),
    "a policy": (f"govern --trace {DAY} --policy FILE", "recipe or policy"),
    "hidden words": (f"suggest word3 --model {MODEL} --hidden-words FILE", "list of words"),
    "misspellings, typing": (f"typing {MODEL} --misspellings FILE", "list of words"),
    "misspellings, pack": (f"pack {MODEL} --misspellings FILE -o OUT", "list of words"),
    "a list of words": (f"pack {MODEL} --word-list FILE --data FILE -o OUT", "list of words"),
    "known words": (f"pack {MODEL} --known-words FILE -o OUT", "list of words"),
    "the curve of a sweep": (f"pack {MODEL} --results FILE -o OUT", "results file"),
    "a recorded meter": (f"bench {MODEL} --meter trace:FILE -o OUT", "power trace"),
    "a recipe": ("ngram FILE --data FILE", "recipe or policy"),
    "a text": (f"evaluate {MODEL} --data FILE", None),
    "a text to measure": (f"bench {MODEL} --data FILE -o OUT", None),
}


@pytest.fixture
def no_waiting() -> Iterator[None]:
    """A pipe that nobody writes to would keep the tests waiting forever."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("no named pipes")

    def stop(*_: object) -> None:
        raise AssertionError("it waits for the pipe")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def refused(what: str, file: Path, tmp_path: Path) -> str:
    """What a command says about a file."""
    if what == "the costs of a keyboard":
        pytest.importorskip("uvicorn", reason="the keyboard extra is not installed")
    words = COMMANDS[what][0].replace("FILE", str(file)).replace("OUT", str(tmp_path / "out")).split()
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, RheostatError), (result.exception, result.output)
    message = str(result.exception)
    assert str(file) in message and "\n" not in message
    assert not (tmp_path / "out").exists()
    return message


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.parametrize("what", COMMANDS)
def test_a_named_pipe_does_not_keep_a_command_waiting(what: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    assert "pipe" in refused(what, pipe, tmp_path).replace(str(pipe), "") or what == "a recipe"


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.skipif(not Path("/dev/zero").is_char_device(), reason="no such device")
@pytest.mark.parametrize("what", COMMANDS)
def test_a_device_that_never_ends_is_refused(what: str, tmp_path: Path) -> None:
    assert "device" in refused(what, Path("/dev/zero"), tmp_path) or what == "a recipe"


@pytest.mark.skipif(os.name == "nt", reason="the file would need the space")
@pytest.mark.parametrize("what", [what for what, (_, kind) in COMMANDS.items() if kind])
def test_a_file_far_too_large_is_refused_unread(what: str, tmp_path: Path) -> None:
    kind, file = COMMANDS[what][1], tmp_path / "large.toml"
    file.touch()
    os.truncate(file, LARGEST_BYTES[kind] + 1)  # type: ignore[index]
    message = refused(what, file, tmp_path)
    assert f"it has more than {LARGEST_BYTES[kind]:,} bytes, the most of a {kind}" in message  # type: ignore[index]


@pytest.mark.usefixtures("no_waiting")
def test_a_search_does_not_wait_for_a_pipe_beside_its_result(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "out.search.json")
    with pytest.raises(RheostatError, match="it is a named pipe, not a regular file"):
        SavedSearch(tmp_path / "out.search.json", {}, TINY["qrnn"]).load()


@pytest.mark.usefixtures("no_waiting")
def test_texts_and_private_files_are_regular_files(tmp_path: Path) -> None:
    """Below the commands too: a file can become a pipe after a command has looked at it."""
    pipe = tmp_path / "test.txt"
    os.mkfifo(pipe)
    assert load_json(pipe) is None and open_ids(pipe, 9) is None
    with pytest.raises(CorpusError, match="pipe"):
        read_text(str(pipe), "words", 9)
    with pytest.raises(CorpusError, match="is not a file"):
        list(read_blocks(pipe))
    with pytest.raises(CorpusError, match=r"lacks test\.txt"):
        mix([Part("one", file="test.txt")], tmp_path, 1, tmp_path / "cache")
    with pytest.raises(CorpusError, match="it is a named pipe"):
        measure_typing(write_tiny(tmp_path / "tiny.safetensors"), aac=tmp_path, knobs=[1.0], orders=[])
    for kind in (UserWords, Memory):
        with pytest.raises(RheostatError, match="a named pipe, not a regular file"):
            kind(pipe)


@pytest.mark.usefixtures("no_waiting")
def test_an_export_does_not_wait_for_a_pipe_in_its_folder(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    os.mkfifo(tmp_path / "manifest.json")
    result = CliRunner().invoke(app, ["export", str(MODEL), "-o", str(tmp_path)])
    assert isinstance(result.exception, ExportError) and "not an earlier export" in str(result.exception)


def test_a_file_is_read_whole_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    content = np.random.default_rng(0).bytes(LARGEST_BYTES["recipe or policy"])
    path.write_bytes(content)
    assert read_input(path, "recipe or policy") == content
    path.write_bytes(content + b"x")
    with pytest.raises(OSError, match="it has more than 1,048,576 bytes"):
        read_input(path, "recipe or policy")


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no such file")
def test_a_file_without_a_size_is_read() -> None:
    assert b"[stack]" in read_input(Path("/proc/self/maps"), "results file")


def test_text_is_read_as_editors_write_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes("\ufefföne\r\ntwo\rthree".encode())
    assert read_input_text(tmp_path / "file", "list of words") == "öne\ntwo\nthree"
    (tmp_path / "recipe.toml").write_bytes("\ufeff[train]\r\nepochs = 2\r\n".encode())
    assert read_recipe(tmp_path / "recipe.toml") == {"train": {"epochs": 2}}


def test_the_limits_are_stated() -> None:
    page = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
    for kind, most in LARGEST_BYTES.items():
        size = f"{most >> 30} GiB" if most >> 30 else f"{most >> 20} MiB"
        assert f"| {kind} | {size} |" in page, (kind, size)
