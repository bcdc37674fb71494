"""What the package contains: the default model by its name, its card, its text, and all of it in the wheel."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

import rheostat
from models import ROOT, write_tiny
from rheostat import bundled
from rheostat.bundled import DEFAULT_MODEL, FOLDER, HELD_OUT_TEXT, model_path
from rheostat.cli import app
from rheostat.errors import ModelFileError
from rheostat.model.file import open_model
from rheostat.model.knob import can_serve, turns_bits
from rheostat.model.origin import NOT_RECORDED
from rheostat.report.demo import KNOBS
from rheostat.runtime.engine import open_mapped
from rheostat.text.corpus import CorpusConfig, locate_splits
from rheostat.words.hidden_words import read_hidden_words

LARGEST_BYTES = 10_000_000


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of bundled models that contains a small one."""
    folder, elsewhere = tmp_path / "models", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    write_tiny(folder / f"{DEFAULT_MODEL}.safetensors")
    monkeypatch.setattr(bundled, "FOLDER", folder)
    monkeypatch.chdir(elsewhere)
    return folder


def run(*arguments: str) -> str:
    return CliRunner().invoke(app, arguments, catch_exceptions=False).stdout


# By its name


def test_without_a_path_the_bundled_model_is_loaded(folder: Path) -> None:
    assert rheostat.load(knob=0.7).suggest("word3") == rheostat.load(folder / "chat.safetensors", 0.7).suggest("word3")
    assert open_model().path == open_model("chat").path == folder / "chat.safetensors"


def test_the_name_means_the_same_in_every_folder(folder: Path) -> None:
    Path("chat").mkdir()
    write_tiny(Path("other.safetensors"))
    assert model_path() == model_path("chat") == model_path(Path("chat")) == folder / "chat.safetensors"
    assert model_path(Path("chat").resolve()) == Path("chat").resolve()
    assert model_path("other.safetensors") == Path("other.safetensors")
    assert model_path("sub/chat") == Path("sub/chat")


def test_commands_use_it_if_no_model_is_named(folder: Path) -> None:
    assert json.loads(run("inspect", "--json"))["path"] == str(folder / "chat.safetensors")
    assert run("suggest", "word3", "-k", "2").count("\n") == 2
    Path("test.txt").write_text("word3 word4 word5\n" * 3)
    assert json.loads(run("evaluate", "--data", "test.txt", "--json"))["tokens"] == 11
    assert "full" in run("export", "-o", "out")
    assert json.loads(run("inspect", "chat", "--json")) == json.loads(run("inspect", "--json"))


def test_an_installation_without_it_says_so(folder: Path) -> None:
    (folder / "chat.safetensors").unlink()
    with pytest.raises(ModelFileError, match=r"not part of this installation.*make model"):
        rheostat.load()


# What it is


@pytest.fixture(scope="module")
def default_model() -> Path:
    if not (FOLDER / f"{DEFAULT_MODEL}.safetensors").is_file():
        pytest.skip("the bundled model is not in this checkout: make model")
    return model_path()


def test_it_is_small_int8_and_turns_from_100_to_15_percent(default_model: Path) -> None:
    with open_model(default_model) as file:
        assert file.file_bytes <= LARGEST_BYTES and file.precision == "int8"
        assert file.description.default_ranking == "graded"
        assert all(can_serve(file, knob) for knob in KNOBS)
        assert file.ordered == "graded" and open_mapped(file, "int8") is not None
        assert file.knob_path()[-1].cost < 0.15 and turns_bits(file), "its path goes down in widths and bits"
        curve = file.description.provenance["curve"]
    assert len(curve) > 5 and all(point["keystrokes_saved_share"] > 0 for point in curve)


def test_its_origin_says_how_it_was_made(default_model: Path) -> None:
    with open_model(default_model) as file:
        origin = file.origin
        measured = (ROOT / "results" / "talk-path.json").read_text(encoding="utf-8")
        assert file.weights_digest() in measured, "those that results/talk-path.json was measured with"
        assert file.ranking().origin.is_recorded
    assert origin.recipe and "model" not in origin.recipe, "it has the shape of the model it started from"
    assert (origin.corpus, origin.steps) == ("talk", 4664)
    assert NOT_RECORDED not in origin.shown().values()


def test_it_suggests_words_but_no_hidden_ones(default_model: Path) -> None:
    predictor = rheostat.load(default_model)
    hidden = read_hidden_words()
    for text in ("how are", "see you at the", "what the", "you are such a"):
        offered = predictor.suggest(text, k=100)
        assert len(offered) > 90 and not {suggestion.word.lower() for suggestion in offered} & hidden


def test_its_card_has_its_figures(default_model: Path) -> None:
    card = default_model.with_suffix(".md").read_text(encoding="utf-8")
    with open_model(default_model) as file:
        whole = file.description.provenance["curve"][0]
    assert f"| {whole['perplexity']:.1f} | {whole['recall_at_3']:.1%} |" in card


def test_the_held_out_text_is_only_from_the_test_split() -> None:
    pytest.importorskip("chitchat_dataset", reason="chitchat-dataset is not installed: rheostat[chat]")
    lines = HELD_OUT_TEXT.read_text(encoding="utf-8").splitlines()
    assert sum(len(line.split()) for line in lines) > 3000
    splits = locate_splits("chat", CorpusConfig())
    test, train = (set(splits[name].read_text(encoding="utf-8").splitlines()) for name in ("test", "train"))
    assert set(lines) <= test
    long = {line for line in lines if len(line.split()) > 8}  # everybody says hello
    assert not long & train


def test_the_held_out_text_has_no_hidden_words_and_no_addresses() -> None:
    text = HELD_OUT_TEXT.read_text(encoding="utf-8").lower()
    assert not read_hidden_words() & set(text.split()) and "@" not in text


# In the wheel


def test_the_wheel_holds_what_is_bundled(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling builds the wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {path.name for path in FOLDER.iterdir() if path.is_file()}
    assert {"chat.md", "chat-test.txt", "hidden-words.txt", "__init__.py"} <= expected
    assert {f"rheostat/bundled/{name}" for name in expected} <= names
