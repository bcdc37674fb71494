"""The benchmarks page: every results file has its rows, even one without the latest figures. And what they time."""

from __future__ import annotations

import ast
import json
import runpy
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = {path.stem: ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "benchmarks").glob("*.py")}


def page_of(results: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "argv", ["page.py", str(results), "-o", str(out)])
    runpy.run_path(str(ROOT / "benchmarks" / "page.py"), run_name="__main__")
    return out.read_text(encoding="utf-8")


def test_every_results_file_has_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = page_of(ROOT / "results", tmp_path / "page.md", monkeypatch)
    recorded = [path.name for path in (ROOT / "results").glob("benchmark-*.json")]
    assert recorded and all(f"`{name}`" in text for name in recorded)


def test_the_committed_page_is_that_of_the_committed_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    committed = (ROOT / "docs" / "results" / "benchmarks.md").read_text(encoding="utf-8")
    assert page_of(ROOT / "results", tmp_path / "page.md", monkeypatch) == committed


def test_the_page_says_what_ran_on_onnx_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = json.loads((ROOT / "results" / "benchmark-learning.json").read_text(encoding="utf-8"))
    (tmp_path / "benchmark-learning.json").write_text(json.dumps(contents), encoding="utf-8")
    note = "Queries ran on ONNX Runtime, not on the core, in"
    assert note not in page_of(tmp_path, tmp_path / "page.md", monkeypatch)
    contents["figures"]["engine"] = "onnx"
    (tmp_path / "benchmark-learning.json").write_text(json.dumps(contents), encoding="utf-8")
    assert f"{note} `benchmark-learning.json`." in page_of(tmp_path, tmp_path / "page.md", monkeypatch)


def test_groups_that_were_not_measured_have_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = json.loads((ROOT / "results" / "benchmark-runtime.json").read_text(encoding="utf-8"))
    path, shown = tmp_path / "benchmark-runtime.json", "a step of the core against FLOPs, ten positions"
    for figures, has_line in ({"flops_r2": 0.99}, True), ({}, False):
        contents["figures"] = {
            "targets": {"flops_r2": "at least 0.99", "start_over_numpy": ""},
            "start_over_numpy": 2.0,
        }
        contents["figures"] |= figures
        path.write_text(json.dumps(contents), encoding="utf-8")
        text = page_of(tmp_path, tmp_path / "page.md", monkeypatch)
        assert "process start to first suggestion" in text and (shown in text) == has_line


def test_every_target_of_the_runtime_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    runtime, page = (runpy.run_path(str(ROOT / "benchmarks" / name)) for name in ("runtime.py", "page.py"))
    words = {f"same_words_{percent}" for percent in (100, 50, 20)}
    assert set(runtime["TARGETS"]) <= set(page["RUNTIME_ROWS"]) | words


def is_missed(name: str, figures: dict[str, Any]) -> bool:
    """Whether a figure misses its target: "at most 0.45", "at least 0.99", "0", "at least ONNX Runtime's"."""
    bound, _, limit = figures["targets"][name].rpartition("at ")[2].partition(" ")
    if limit == "ONNX Runtime's":
        return bool(figures[name] < figures[name.replace("same_words", "same_words_onnx")])
    return bool(figures[name] < float(limit) if bound == "least" else figures[name] > float(limit or bound))


def test_every_missed_target_of_the_runtime_is_explained() -> None:
    figures = json.loads((ROOT / "results" / "benchmark-runtime.json").read_text(encoding="utf-8"))["figures"]
    missed = [name for name in figures["targets"] if is_missed(name, figures)]
    page = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    section = page.partition("## Targets of the runtime that are missed")[2].partition("\n## ")[0]
    assert [name for name in missed if f"`{name}`" not in section] == []


def test_a_target_says_what_misses_it() -> None:
    targets = {"a": "at most 0.5", "b": "at least 0.9", "c": "0", "same_words_20": "at least ONNX Runtime's"}
    good = {"targets": targets, "a": 0.5, "b": 0.9, "c": 0.0, "same_words_20": 0.9, "same_words_onnx_20": 0.9}
    bad = good | {"a": 0.51, "b": 0.89, "c": 1.0, "same_words_20": 0.89}
    assert [name for name in targets if is_missed(name, good)] == []
    assert [name for name in targets if is_missed(name, bad)] == list(targets)


def test_the_sides_of_a_ratio_change_their_order() -> None:
    interleaved, ran = runpy.run_path(str(ROOT / "benchmarks" / "measuring.py"))["interleaved"], list[str]()
    sides = {name: partial(ran.append, name) for name in "abc"}
    seconds = interleaved(sides, 30, quiet=True)
    turns = ["".join(ran[start : start + 3]) for start in range(0, len(ran), 3)]
    assert {name: len(times) for name, times in seconds.items()} == {"a": 30, "b": 30, "c": 30}
    assert {"".join(sorted(turn)) for turn in turns} == {"abc"}, "every side once a turn"
    assert len(set(turns)) == 6, "in every order"


def test_turning_is_timed_until_a_position_could_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    turning_seconds, now = runpy.run_path(str(ROOT / "benchmarks" / "runtime.py"))["turning_seconds"], 0.0

    class Slow:
        """A predictor whose turn takes a second, and making its engine ten."""

        @property
        def _turner(self) -> Slow:
            return self

        def serving(self) -> Slow:
            return self

        @property
        def engine(self) -> None:
            nonlocal now
            now += 10

        def turn(self, knob: float) -> None:
            nonlocal now
            now += 1

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    assert turning_seconds(Slow(), 0.5) == 11


def defined_names(module: ast.Module) -> set[str]:
    """What a module defines at its top level."""
    found = {node.name for node in module.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assigned = [node for node in ast.walk(module) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return found | {node.id for node in assigned}


@pytest.mark.parametrize("name", sorted(BENCHMARKS))
def test_what_a_benchmark_takes_from_another_is_there(name: str) -> None:
    """Not by importing: some need torch or ONNX Runtime."""
    for node in ast.walk(BENCHMARKS[name]):
        if isinstance(node, ast.ImportFrom) and node.module in BENCHMARKS:
            assert {alias.name for alias in node.names} <= defined_names(BENCHMARKS[node.module])
