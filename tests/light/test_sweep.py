"""Sweeps: nothing is measured twice, and nothing is lost."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from models import make_ranking, write_words
from rheostat.cli import app
from rheostat.errors import OperatingPointError, RheostatError
from rheostat.measure.sweep import Cell, Measured, ResultsFile, sweep
from rheostat.metrics import Quality
from rheostat.model.operating_point import full_point
from rheostat.model.shape import ModelShape
from rheostat.text.vocabulary import END_OF_LINE, UNKNOWN

SHAPE = ModelShape(5, 2, (3, 2), (1, 1))
SUBJECT = {"model": "m", "corpus": "c", "flops": SHAPE.flops}
CELLS = [Cell("random-1", "random", 1, knob, split) for knob in (0.9, 0.5) for split in ("valid", "test")]


class KilledError(Exception):
    pass


def skip(label: str, share: float) -> None:
    pass


def measure(measured: list[Cell], stop_at: int = 99):  # type: ignore[no-untyped-def]
    def run(cell: Cell, progress: object) -> Measured:
        if len(measured) == stop_at:
            raise KilledError
        measured.append(cell)
        return Measured(full_point(SHAPE), Quality(cell.knob, {1: 0.1, 3: 0.2, 5: 0.3}, 10))

    return run


def test_a_sweep_that_was_stopped_resumes(tmp_path: Path) -> None:
    path, measured = tmp_path / "results" / "r.json", []
    with pytest.raises(KilledError):
        list(sweep(CELLS, measure(measured, 3), ResultsFile(path, SUBJECT), skip))
    assert len(json.loads(path.read_text())["rows"]) == 3
    shares: list[float] = []
    again = ResultsFile(path, SUBJECT)
    rows = list(sweep(CELLS, measure(measured), again, lambda label, share: shares.append(share)))
    assert measured == CELLS and len(rows) == 1 and len(again.rows) == 4
    assert shares == sorted(shares) and shares[-1] == 1.0
    row = json.loads(path.read_text())["rows"][0]
    assert (row["label"], row["seed"], row["knob"], row["widths"]) == ("random-1", 1, 0.9, [3, 2])


def write_subject(folder: Path) -> Path:
    """A model with two rankings, beside three texts."""
    words = (UNKNOWN, END_OF_LINE, "the", "game", "gate", "garden", "boat", "sees")
    shape = ModelShape(len(words), 4, (8, 4), (2, 1))
    rankings = [make_ranking(shape, 1, "random"), make_ranking(shape, 2, "other")]
    for split in ("train", "valid", "test"):
        (folder / f"{split}.txt").write_text("the boat sees the garden\n" * 4)
    return write_words(folder / "m.safetensors", words, shape, rankings=rankings)


def test_json_is_one_row_a_line_and_nothing_else(tmp_path: Path) -> None:
    arguments = ["sweep", str(write_subject(tmp_path)), "--data", str(tmp_path), "--stored", "--json"]
    answer = CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / "r.json")], catch_exceptions=False)
    rows = [json.loads(line) for line in answer.stdout.splitlines()]
    assert rows == json.loads((tmp_path / "r.json").read_text())["rows"] and len(rows) == 2


def test_a_position_that_cannot_be_served_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    arguments = ["sweep", str(write_subject(tmp_path)), "--data", str(tmp_path), "--knob", "0.8", "--knob", "0"]
    with pytest.raises(OperatingPointError):
        CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / "r.json")], catch_exceptions=False)
    assert not (tmp_path / "r.json").exists()


def test_keystrokes_are_of_what_the_knob_serves_and_of_the_test_text(tmp_path: Path) -> None:
    model, out = write_subject(tmp_path), tmp_path / "r.json"
    arguments = ["sweep", str(model), "--data", str(tmp_path), "--knob", "0.6", "--keystrokes", "--words", "9"]
    CliRunner().invoke(app, [*arguments, "-o", str(out)], catch_exceptions=False)
    contents = json.loads(out.read_text())
    typed = {(row["label"], row["split"]): row.get("keystrokes", {}).get("words") for row in contents["rows"]}
    assert typed.pop(("full", "test")) == typed.pop(("random", "test")) == 9
    assert len(typed) == 4 and set(typed.values()) == {None}
    assert contents["subject"]["typed_words"] == 9


def test_rows_of_an_earlier_run_are_replaced_where_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text("anything")
    list(sweep(CELLS[:1], measure([]), ResultsFile(path, SUBJECT, resume=False), skip))
    assert len(ResultsFile(path, SUBJECT).rows) == 1


def test_results_of_another_model_are_not_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    list(sweep(CELLS[:1], measure([]), ResultsFile(path, SUBJECT), skip))
    with pytest.raises(RheostatError, match="choose another -o"):
        ResultsFile(path, {**SUBJECT, "model": "other"})


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"subject": 1}', "not json"])
def test_a_file_that_is_no_results_file_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(content)
    with pytest.raises(RheostatError, match="not a results file"):
        ResultsFile(path, SUBJECT)
    assert path.read_text() == content


def test_a_point_that_was_learned_again_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    old = [Cell("l0-0.8", "l0", None, 0.8, split, "stored", digest="old") for split in ("valid", "test")]
    other = Cell("l0-0.6", "l0", None, 0.6, "test", "stored", digest="same")
    list(sweep([*old, other], measure([]), ResultsFile(path, SUBJECT), skip))
    new, measured = [replace(cell, knob=0.7998, digest="new") for cell in old], list[Cell]()
    list(sweep([*new, other], measure(measured), ResultsFile(path, SUBJECT), skip))
    assert measured == new
    found = [(row["label"], row["split"], row["digest"]) for row in ResultsFile(path, SUBJECT).rows]
    assert found == [("l0-0.6", "test", "same"), ("l0-0.8", "valid", "new"), ("l0-0.8", "test", "new")]


def test_what_was_measured_under_another_name_is_not_measured_again(tmp_path: Path) -> None:
    ranked = Cell("random-1", "random", 1, 0.8, "test", digest="same")
    bare = Cell("random-1-0.8", "random", None, 0.7992, "test", "bare", digest="same")
    stored, valid = replace(bare, allocation="stored"), replace(bare, split="valid")
    measured: list[Cell] = []
    rows = list(
        sweep([ranked, bare, stored, valid], measure(measured), ResultsFile(tmp_path / "r.json", SUBJECT), skip)
    )
    assert measured == [ranked, stored, valid]
    named = {key: value for key, value in rows[1].items() if key not in asdict(bare)}
    assert rows[1] == {**asdict(bare), **named} and rows[0] == {**asdict(ranked), **named}


def test_a_digest_tells_what_a_name_does_not(tmp_path: Path) -> None:
    point = full_point(SHAPE)
    gates = tuple(np.full(width, 0.5, np.float32) for width in point.widths)
    fewer = tuple(keep[:-1] for keep in point.keep)
    different = {p.digest for p in (point, replace(point, gates=gates), replace(point, keep=fewer))}
    assert len(different) == 3 and replace(point, name="other").digest == point.digest
