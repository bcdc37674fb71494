"""The governor decides the same in Python, which defines it, and in the page's JavaScript."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from governing_cases import random_runs, recorded_days

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
STATIC = HERE.parents[1] / "src" / "rheostat" / "keyboard" / "static"
SITUATIONS = 10_000


def in_node(runs: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node.js is not installed; the browser tests run the same decisions in a browser")
    cases = folder / "cases.json"
    cases.write_text(json.dumps({"runs": runs}), encoding="utf-8")
    command = [node, "--no-warnings", str(HERE / "check_governing.mjs"), str(STATIC), str(cases)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0, answer.stderr
    checked: dict[str, Any] = json.loads(answer.stdout)
    return checked


def test_random_situations_are_decided_alike(tmp_path: Path) -> None:
    runs = random_runs(SITUATIONS)
    reasons = {decision["reason"].split()[0] for run in runs for decision in run["decisions"]}
    assert reasons >= {"charging", "battery", "power", "app", "light", "moderate", "severe", "p95", "budget", "nothing"}
    assert in_node(runs, tmp_path) == {"decided": SITUATIONS, "found": []}


def test_every_day_is_decided_alike(tmp_path: Path) -> None:
    runs = recorded_days()
    checked = in_node(runs, tmp_path)
    assert checked == {"decided": sum(len(run["situations"]) for run in runs), "found": []}
    assert checked["decided"] > 5000


def test_a_wrong_decision_is_noticed(tmp_path: Path) -> None:
    (run,) = random_runs(1)
    run["decisions"][-1]["limit"]["ceiling"] += 1e-9
    (wrong,) = in_node([run], tmp_path)["found"]
    assert wrong["path"] == ".limit.ceiling"


def test_random_situations_are_decided_alike_in_a_browser(open_page: Callable[..., Any]) -> None:
    page = open_page()
    check = (HERE / "check_governing.mjs").read_text(encoding="utf-8")
    functions = check.partition("export ")[2].partition("\nif (")[0]
    checked = page.evaluate(
        f"""async (runs) => {{
            {functions}
            return differences(await import("/governing.js"), {{ runs }});
        }}""",
        random_runs(SITUATIONS, seed=1),
    )
    assert checked == {"decided": SITUATIONS, "found": []}
