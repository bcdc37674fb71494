"""Names that are not UTF-8, and terminals that cannot show a word: commands succeed, and nothing measured is lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rheostat
from models import GOLDEN, make_vocabulary, make_weights, write_file, write_tiny
from rheostat.cli import main
from rheostat.errors import RheostatError, encode_text
from rheostat.measure.results import read_all, read_results
from rheostat.model.file import open_model
from rheostat.model.shape import ModelShape
from rheostat.text.token_cache import load_json, store_json

ODD = b"\xff"
SHOWN = "\\udcff"  # how it is written and printed


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model and a corpus whose names are not UTF-8."""
    folder = tmp_path_factory.mktemp("odd")
    corpus = folder / os.fsdecode(b"c" + ODD)
    try:
        corpus.mkdir()
    except OSError:
        pytest.skip("this file system has only names in UTF-8")
    for name in ("train", "valid", "test"):
        (corpus / f"{name}.txt").write_text("word3 word4 word5\nword4 word3 word6\n" * 30)
    shape = ModelShape(60, 8, (24, 8), (2, 1))
    plain = folder / "int8"
    write_file(
        plain, shape=shape, vocabulary=make_vocabulary(60), weights=make_weights(shape), text={"tokenizer": "words"}
    )
    plain.rename(folder / os.fsdecode(b"counted" + ODD))
    write_tiny(folder / "tiny").rename(folder / os.fsdecode(b"x" + ODD + b".safetensors"))
    return folder


def run(folder: Path, *arguments: bytes | str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A command of its own, since printing depends on the streams of a process. It must succeed."""
    given = os.environ | {"RHEOSTAT_CACHE": str(folder / "cache")} | environment
    found = subprocess.run(
        [sys.executable, "-m", "rheostat", *arguments], cwd=folder, env=given, capture_output=True, timeout=120
    )
    assert found.returncode == 0, found.stderr[-2000:]
    return found


MODEL, CORPUS = b"x" + ODD + b".safetensors", b"c" + ODD


def test_a_sweep_is_written_resumed_and_reported(folder: Path) -> None:
    arguments = ("sweep", MODEL, "--data", CORPUS, "--knob", "1", "-o", b"s" + ODD + b".json")
    run(folder, *arguments)
    path = folder / os.fsdecode(b"s" + ODD + b".json")
    found = read_results(path)
    subject = json.loads(path.read_bytes())["subject"]
    assert subject["model"] == f"x{SHOWN}.safetensors" and subject["corpus"] == f"c{SHOWN}"
    run(folder, *arguments)  # the file holds results of the same model, so it is resumed
    assert read_results(path) == found
    pytest.importorskip("matplotlib")
    run(folder, "report", b"s" + ODD + b".json", "-o", b"r" + ODD, "--model", MODEL)
    report = folder / os.fsdecode(b"r" + ODD)
    assert SHOWN in (report / "report.md").read_text(encoding="utf-8")
    assert SHOWN in (report / os.fsdecode(b"s" + ODD + b".md")).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "words",
    [
        ("bench", MODEL, "--data", CORPUS, "--queries", "5", "--warm-up", "2", "--meter", "none", "-o", "b.json"),
        ("ngram", "tiny", "--data", CORPUS, "--queries", "5", "-o", "n.json"),
        ("typing", MODEL, "--data", CORPUS, "--words", "20", "-o", "t.json", "--page", "t.md"),
    ],
    ids=lambda words: str(words[0]),
)
def test_what_was_measured_is_written(folder: Path, words: tuple[bytes | str, ...]) -> None:
    run(folder, *words)
    results = next(word for word in words if str(word).endswith(".json"))
    assert SHOWN in str(read_all([folder / str(results)]))


@pytest.mark.parametrize(
    "words",
    [
        ("inspect", MODEL),
        ("evaluate", MODEL, "--data", CORPUS),
        ("suggest", "word3", "--model", MODEL),
        ("count", b"counted" + ODD, "--data", CORPUS, "-o", b"counts" + ODD),
        ("prune", MODEL, "--criterion", "filter-norm", "--data", CORPUS, "-o", b"pruned" + ODD),
        ("reconstruct", MODEL, "--data", CORPUS, "-o", b"reconstructed" + ODD),
        ("page", MODEL, "-o", b"page" + ODD),
    ],
    ids=lambda words: str(words[0]),
)
def test_commands_take_such_names(folder: Path, words: tuple[bytes | str, ...]) -> None:
    if words[0] == "prune":
        pytest.importorskip("torch")
    if words[0] == "page":
        pytest.importorskip("starlette")
    run(folder, *words)
    if words[0] in ("count", "prune", "reconstruct"):
        with open_model(folder / os.fsdecode(words[-1])) as file:
            assert SHOWN in str(file.description)


def test_the_page_shows_such_a_name(folder: Path) -> None:
    pytest.importorskip("starlette")
    run(folder, "page", MODEL, "-o", "page")
    assert json.loads((folder / "page" / "model.json").read_bytes())["name"] == f"x{SHOWN}"


def test_an_export_is_written(folder: Path) -> None:
    pytest.importorskip("onnx")
    run(folder, "export", MODEL, "-o", b"e" + ODD)
    manifest = json.loads((folder / os.fsdecode(b"e" + ODD) / "manifest.json").read_bytes())
    assert manifest["model"]["file"] == f"x{SHOWN}.safetensors"


def test_the_demo_runs(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    run(folder, "demo", "--model", MODEL, "--data", CORPUS, "--queries", "5", "--meter", "none", "-o", b"d" + ODD)


def test_training_keeps_its_model(folder: Path) -> None:
    pytest.importorskip("torch")
    run(folder, "train", "tiny", "--data", CORPUS, "--out", b"t" + ODD, "--set", "train.steps=2")
    with open_model(folder / os.fsdecode(b"t" + ODD) / "model.safetensors") as file:
        assert file.description.provenance["asked"]["data"] == [f"c{SHOWN}"]


def test_a_terminal_that_cannot_show_a_word_gets_an_escape(folder: Path) -> None:
    shutil.copy(GOLDEN / "golden-fp32.safetensors", folder / "naïve")
    taught = ("--learn", "naïve", "--words", str(folder / "words"))
    for arguments in (("suggest", "hi", *taught), ("inspect", "naïve")):
        shown = run(folder, *arguments, PYTHONIOENCODING="ascii")
        assert b"Traceback" not in shown.stderr
        shown.stdout.decode("ascii")


def test_what_utf_8_cannot_hold_is_written_as_escapes_of_json(tmp_path: Path) -> None:
    stored = {"a\udcff": ["\ud800 é 👍"]}
    assert json.loads(encode_text(json.dumps(stored, ensure_ascii=False))) == stored
    store_json(tmp_path / "file", stored)
    assert load_json(tmp_path / "file") == stored


def test_any_other_text_that_is_not_utf_8_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rheostat.cli.app", lambda: "\udcff".encode())
    with pytest.raises(SystemExit) as stopped:
        main()
    said = capsys.readouterr().err
    assert stopped.value.code == 1 and said.startswith("error: ") and said.count("\n") == 1


@pytest.mark.parametrize("host", ["\udcff", "a" * 70, "a..b", "x\0y"])
def test_a_host_that_cannot_be_one_is_refused(host: str) -> None:
    pytest.importorskip("uvicorn")
    with pytest.raises(RheostatError, match="cannot listen on"):
        rheostat.serve_keyboard(GOLDEN / "golden-fp32.safetensors", host=host, port=0)
