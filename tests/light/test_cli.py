"""The command line as its users meet it, without torch."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.main import get_command

import rheostat
from rheostat.cli import app, main

COMMANDS = sorted(get_command(app).commands)  # type: ignore[attr-defined]


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["rheostat", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    assert isinstance(stop.value.code, int)
    return stop.value.code


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, "--version") == 0
    assert capsys.readouterr().out.strip() == f"rheostat {rheostat.__version__}"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_ends_with_an_example(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, command, "--help") == 0
    assert f"Example: rheostat {command}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["inspect", "absent.safetensors"], "absent.safetensors"),
        (["inspect", "."], "folder"),
        (["evaluate", "absent.safetensors", "--data", "."], "absent.safetensors"),
        (["pack", "absent.safetensors", "-o", "x"], "absent.safetensors"),
        (["train"], "no recipe given"),
        (["train", "ptb", "--resume"], "keeps its recipe"),
    ],
)
def test_a_careless_call_gets_one_line_and_exit_code_1(
    arguments: list[str], expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, *arguments) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1 and expected in printed.err


def test_ctrl_c_is_answered_with_one_word(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rheostat.cli.files.open_model", interrupted)
    assert call(monkeypatch, "inspect", "some.safetensors") == 130
    assert capsys.readouterr().err == "stopped\n"


def test_wrong_usage_has_exit_code_2(monkeypatch: pytest.MonkeyPatch) -> None:
    assert call(monkeypatch, "evaluate") == 2
    assert call(monkeypatch, "nonsense") == 2


def test_debug_shows_the_traceback() -> None:
    command = [sys.executable, "-m", "rheostat", "--debug", "inspect", "absent.safetensors"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 1 and "Traceback" in answer.stderr and "ModelFileError" in answer.stderr
