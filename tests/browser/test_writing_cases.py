"""The writing rules give the same answers in Python, which defines them, and in the page's JavaScript."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from make_writing_cases import PATH, make_cases

HERE = Path(__file__).parent
STATIC = HERE.parents[1] / "src" / "rheostat" / "keyboard" / "static"


def test_the_cases_are_up_to_date_with_python() -> None:
    assert json.loads(PATH.read_text(encoding="utf-8")) == json.loads(json.dumps(make_cases()))


def test_the_modules_of_the_page_agree_with_the_cases() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node.js is not installed; the browser tests run the same cases in a browser")
    command = [node, "--no-warnings", str(HERE / "check_writing.mjs"), str(STATIC), str(PATH)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout) == []
