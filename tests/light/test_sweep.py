"""Sweeps: nothing is measured twice, and nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rheostat.benchmark.sweep import Cell, Measured, ResultsFile, sweep
from rheostat.errors import RheostatError
from rheostat.metrics import Quality
from rheostat.operating_point import full_point
from rheostat.shape import ModelShape

SHAPE = ModelShape(5, 2, (3, 2), (1, 1))
SUBJECT = {"model": "m", "corpus": "c", "flops": SHAPE.flops}
CELLS = [Cell("random-1", "random", 1, knob, split) for knob in (0.9, 0.5) for split in ("valid", "test")]


class KilledError(Exception):
    pass


def measure(measured: list[Cell], stop_at: int = 99):  # type: ignore[no-untyped-def]
    def run(cell: Cell, progress: object) -> Measured:
        if len(measured) == stop_at:
            raise KilledError
        measured.append(cell)
        return Measured(full_point(SHAPE), Quality(cell.knob, {1: 0.1, 3: 0.2, 5: 0.3}, 10))

    return run


def test_a_sweep_that_was_stopped_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path, measured = tmp_path / "results" / "r.json", []
    with pytest.raises(KilledError):
        list(sweep(CELLS, measure(measured, 3), ResultsFile(path, SUBJECT), lambda label, share: None))
    assert len(json.loads(path.read_text())["rows"]) == 3
    shares: list[float] = []
    again = ResultsFile(path, SUBJECT)
    rows = list(sweep(CELLS, measure(measured), again, lambda label, share: shares.append(share)))
    assert measured == CELLS and len(rows) == 1 and len(again.rows) == 4
    assert shares == sorted(shares) and shares[-1] == 1.0
    row = json.loads(path.read_text())["rows"][0]
    assert (row["label"], row["seed"], row["knob"], row["widths"]) == ("random-1", 1, 0.9, [3, 2])


def test_results_of_another_model_are_not_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    list(sweep(CELLS[:1], measure([]), ResultsFile(path, SUBJECT), lambda label, share: None))
    with pytest.raises(RheostatError, match="choose another -o"):
        ResultsFile(path, {**SUBJECT, "model": "other"})


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"subject": 1}', "not json"])
def test_a_file_that_is_no_results_file_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(content)
    with pytest.raises(RheostatError, match="not a results file"):
        ResultsFile(path, SUBJECT)
    assert path.read_text() == content
