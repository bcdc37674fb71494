"""Reports from results files: every number in a table stands in the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rheostat.benchmark.figures import draw_trade_off
from rheostat.benchmark.report import page, read_sweep, table
from rheostat.errors import RheostatError


def row(label: str, criterion: str, knob: float, split: str, perplexity: float, **more: Any) -> dict[str, Any]:
    figures = {"flops_fraction": knob - 0.001, "widths": [1], "perplexity": perplexity, "recall_at_3": 0.4}
    return (
        {"label": label, "criterion": criterion, "knob": knob, "split": split, "allocation": "uniform"} | figures | more
    )


@pytest.fixture
def results_file(tmp_path: Path) -> Path:
    rows = [
        row("full", "", 1.0, "test", 73.67),
        row("random-1", "random", 0.8, "test", 90.0),
        row("random-2", "random", 0.8, "test", 100.0),
        row("random-1", "random", 0.8, "valid", 95.5),
        row("taylor", "taylor", 0.8, "test", 80.25),
        row("taylor-searched-0.8", "taylor", 0.799, "test", 79.125, allocation="stored"),
    ]
    origin = {"command": "rheostat sweep", "commit": None, "date": "now", "machine": {"processor": "p", "cores": 2}}
    contents = {"subject": {"model": "m", "corpus": "ptb", "flops": 1}, "provenance": origin, "rows": rows}
    path = tmp_path / "ptb.json"
    path.write_text(json.dumps(contents))
    return path


def test_the_table_has_every_point_with_seeds_together(results_file: Path) -> None:
    lines = table(read_sweep(results_file)).splitlines()
    assert len(lines) == 2 + 4
    assert lines[2].startswith("| whole model | 100% |")
    random = next(line for line in lines if line.startswith("| random"))
    assert "95.50" in random and "95.00 (90.00–100.00)" in random
    searched = next(line for line in lines if "stored point taylor-searched-0.8" in line)
    assert "79.12" in searched


def test_the_papers_figures_stand_beside_ours(results_file: Path) -> None:
    lines = table(read_sweep(results_file)).splitlines()
    assert "| 66.0 | 42.9% |" in next(line for line in lines if line.startswith("| random"))
    assert lines[2].endswith("| 56.8 | 44.7% |")


def test_the_page_says_where_it_comes_from(results_file: Path) -> None:
    text = page(read_sweep(results_file), "picture.png")
    assert "ptb.json" in text and "picture.png" in text and "`rheostat sweep`" in text


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_picture_is_drawn(results_file: Path, tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"picture{suffix}"
    draw_trade_off(read_sweep(results_file), path)
    assert path.stat().st_size > 10_000


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{}")
    with pytest.raises(RheostatError, match="not a results file"):
        read_sweep(path)
