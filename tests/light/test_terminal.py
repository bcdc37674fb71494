"""No text from a file can send an escape sequence to the terminal: not in an error, a warning, a table or a line."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

from rheostat.cli import app, console
from rheostat.errors import ModelFileError, RheostatError, RheostatWarning, visible
from rheostat.measure.results import read_results
from rheostat.words.memory import Memory

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\x08\r\u202e"
CONTROLS = {chr(code) for code in (*range(9), *range(11, 32), *range(127, 160))} | {"\u202e"}
COMMANDS = sorted((Path(__file__).parents[2] / "src" / "rheostat" / "cli").glob("*.py"))


@given(st.text())
def test_a_visible_text_has_no_control_characters_and_keeps_the_rest(text: str) -> None:
    shown = visible(text)
    assert not CONTROLS & set(shown) and "\n" not in shown
    assert visible(shown) == shown
    if text.isprintable():
        assert shown == text


def test_letters_of_all_scripts_and_emoji_stay_as_they_are() -> None:
    for text in ("naïve", "שלום", "नमस्ते", "می\u200cخواهم", "👩🏽\u200d🚀", "½ · → “x”"):
        assert visible(text) == text


@pytest.mark.parametrize("kind", [RheostatError, ModelFileError, RheostatWarning])
def test_errors_and_warnings_show_control_characters_as_escapes(kind: type[Exception]) -> None:
    assert str(kind(f"found {HOSTILE}\nsecond line")) == (
        r"found \x1b]0;owned\x07\x1b[2J\x9b31m\x08\r\u202e\nsecond line"
    )


def test_an_error_about_a_results_file_quotes_it_safely(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"kind": "sweep", "version": 1, HOSTILE: 1}))
    with pytest.raises(RheostatError) as caught:
        read_results(path)
    assert not CONTROLS & set(str(caught.value)) and "owned" in str(caught.value)


def test_the_end_of_a_line_is_shown_as_a_sign(tmp_path: Path) -> None:
    learned = Memory(tmp_path / "memory")
    learned.learn(["see", "you"], before=["<eos>"])
    learned.close()
    shown = CliRunner().invoke(app, ["memory", str(tmp_path / "memory")], catch_exceptions=False).stdout
    assert "¶ see you" in shown and "<eos>" not in shown


def test_a_phrase_of_a_hostile_memory_is_printed_safely(tmp_path: Path) -> None:
    phrase = {"words": f"see{HOSTILE}", "count": 1e6, "time": 9e15, "recent": []}
    contents = {"format": "rheostat-memory", "format_version": 1, "phrases": [phrase]}
    (tmp_path / "memory").write_text(json.dumps(contents))
    result = CliRunner().invoke(app, ["memory", str(tmp_path / "memory")], catch_exceptions=False)
    assert result.exit_code == 0 and r"see\x1b]0;owned" in result.stdout
    assert not CONTROLS & set(result.stdout)


def test_tables_and_messages_show_control_characters_as_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(HOSTILE, title=Text(HOSTILE))
    table.add_row(f"{HOSTILE} cell")
    console.results.print(table, width=200)
    console.results.print(f"plain {HOSTILE}", markup=False)
    console.print_line(f"a\t{HOSTILE}\nb")
    console.messages.print(f"said {HOSTILE}", markup=False)
    shown = capsys.readouterr()
    assert shown.out.count(r"\x1b[2J") == 5 and shown.err.count(r"\x1b[2J") == 1
    assert not CONTROLS & set(shown.out + shown.err)


def test_colours_of_our_own_stay(capsys: pytest.CaptureFixture[str]) -> None:
    own = console.safe_console(force_terminal=True, color_system="standard", width=80)
    own.print("warm", style="red")
    assert capsys.readouterr().out == "\x1b[31mwarm\x1b[0m\n"


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: str(path.name))
def test_commands_print_through_the_console_only(path: Path) -> None:
    if path.name == "console.py":
        return
    calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    assert not [call for call in calls if isinstance(call, ast.Name) and call.id == "print"]
