"""docs/reliability.md is the page of results/reliability.json, and nothing in it failed."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from rheostat.measure.results import BenchmarkResults, read_results

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def results() -> BenchmarkResults:
    found = read_results(ROOT / "results" / "reliability.json")
    assert isinstance(found, BenchmarkResults)
    return found


def test_the_committed_page_is_that_of_the_committed_results(
    results: BenchmarkResults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    reliability = runpy.run_path(str(ROOT / "benchmarks" / "reliability.py"))
    committed = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    assert reliability["page"](results) == committed
    assert set(results.figures) == set(reliability["PARTS"])  # every part was run


def test_nothing_failed(results: BenchmarkResults) -> None:
    for name, part in results.figures.items():
        assert part["failed"] == 0 < part["tried"] and not part.get("problems"), name
