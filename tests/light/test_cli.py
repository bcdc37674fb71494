"""The command line from a user's view, without torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.main import get_command

import rheostat
from models import GOLDEN
from rheostat.cli import app, console, main
from rheostat.cli.console import print_json

LONG_NAME = "x" * 300  # longer than any file system allows
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
    shown = capsys.readouterr().out
    # On one line, so it can be copied.
    assert [line for line in shown.splitlines() if line.strip() == _example_of(command)], shown


def _example_of(command: str) -> str:
    lines = (get_command(app).commands[command].callback.__doc__ or "").strip().splitlines()  # type: ignore[attr-defined]
    assert lines[-1].strip().startswith(f"Example: rheostat {command} ")
    return str(lines[-1].strip())


def test_every_command_has_a_summary_that_fits_on_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "--help") == 0
    shown = capsys.readouterr().out
    assert all(f"  {command} " in shown for command in COMMANDS)
    assert "..." not in shown.partition("Commands:")[2]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["inspect", "absent.safetensors"], "absent.safetensors"),
        (["inspect", "."], "folder"),
        (["evaluate", "absent.safetensors", "--data", "."], "absent.safetensors"),
        (["pack", "absent.safetensors", "-o", "x"], "absent.safetensors"),
        (["train"], "no recipe given"),
        (["train", "ptb", "--resume"], "keeps its recipe"),
        (["train", "absent"], "no recipe 'absent'"),
        (["train", "ptb", "--set", "epochs"], "expected table.key=value"),
        (["train", "ptb", "--data", "absent"], "absent does not exist"),
        (["inspect", LONG_NAME], "too long"),
        (["bench", "--data", LONG_NAME], "too long"),
        (["suggest", "hi", "--threads", "99999"], "on a machine with"),
        (["prune", "m", "--knob", "0.8", "-o", "x"], "--knob works only with --search or --criterion l0"),
        (["prune", "m", "--set", "train.steps=1", "--strength", "1", "-o", "x"], "--strength and --set work only with"),
        (["prune", "m", "-o", "absent/x"], "absent"),
        (
            ["prune", "m", "--criterion", "l0", "--name", "n", "--seed", "2", "-o", "x"],
            "--name and --seed work only with a criterion",
        ),
        (["prune", "m", "--name", "../n", "-o", "x"], "the name"),
        (["recover", "m", "--name", "../n", "--data", "d", "-o", "x"], "the name"),
        (["recover", "m", "--data", "d", "-o", "."], "found a folder"),
        (["resplit", "m", "--data", "d", "-o", "."], "found a folder"),
    ],
)
def test_a_wrong_call_gets_one_line_and_exit_code_1(
    arguments: list[str], expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, *arguments) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1 and expected in printed.err


@pytest.mark.parametrize("flags", [[], ["--debug"]])
def test_a_system_error_is_one_line_too(
    flags: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "some.safetensors")

    monkeypatch.setattr("rheostat.cli.files.open_model", forbidden)
    if flags:
        monkeypatch.setattr(sys, "argv", ["rheostat", *flags, "inspect", "some.safetensors"])
        with pytest.raises(PermissionError):
            main()
    else:
        assert call(monkeypatch, "inspect", "some.safetensors") == 1
        assert capsys.readouterr().err == "error: [Errno 13] Permission denied: 'some.safetensors'\n"


def test_a_lack_of_memory_is_one_line_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def greedy(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("rheostat.cli.files.open_model", greedy)
    assert call(monkeypatch, "inspect", "some.safetensors") == 1
    said = capsys.readouterr().err
    assert said.startswith("error: there is not enough memory") and said.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is always full is a Linux thing")
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_full_disk_behind_stdout_is_one_line(flags: list[str]) -> None:
    command = [sys.executable, "-m", "rheostat", "inspect", str(GOLDEN / "golden-fp32.safetensors"), *flags]
    with Path("/dev/full").open("w") as full:
        answer = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (answer.returncode, answer.stderr) == (1, "error: [Errno 28] No space left on device\n")


def test_json_is_in_ascii_whatever_was_typed(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"text": "café, and half a character: \udce9"})
    assert capsys.readouterr().out == '{"text": "caf\\u00e9, and half a character: \\udce9"}\n'


def test_ctrl_c_prints_stopped(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_long_work_without_a_terminal_prints_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = iter([0.0, 10.0, 31.0, 31.0, 40.0, 62.0, 62.0])
    monkeypatch.setattr(console, "time", SimpleNamespace(monotonic=lambda: next(now)))
    with console.labelled_share() as show:
        for share in (0.1, 0.3, 0.4, 0.6):
            show("reading", share)
    assert capsys.readouterr().err.splitlines() == ["reading 30%", "reading 60%"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["suggest", "--knob", "x", "hello"], "--knob"),
        (["suggest", "-k", "0", "hello"], "-k"),
        (["bench", "model", "--engine", "torch"], "'torch' is not one of"),
        (["suggest", "--knb", "1"], "--knb"),
        (["sugest"], "No such command 'sugest'"),
        (["--bad"], "--bad"),
        (["--debug"], "Missing command"),
    ],
)
def test_wrong_usage_is_one_line(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, *arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and said in line and line.endswith(" -h)")
    assert "Input should be" not in line and "Value error" not in line
