"""Sweeps: nothing is measured twice, and nothing is lost."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from models import make_ranking, write_words
from rheostat.cli import app
from rheostat.errors import CorpusError, OperatingPointError, RheostatError
from rheostat.measure.evaluation import evaluate
from rheostat.measure.results import SweepSubject
from rheostat.measure.sweep import Cell, CellResult, SweepFile, measure_cells, sweep
from rheostat.metrics import Quality
from rheostat.model.operating_point import full_point
from rheostat.model.shape import ModelShape
from rheostat.text.vocabulary import END_OF_LINE, UNKNOWN

SHAPE = ModelShape(5, 2, (3, 2), (1, 1))
SUBJECT = SweepSubject("m", "c", SHAPE.flops)
CELLS = [Cell("random-1", "random", 1, knob, split) for knob in (0.9, 0.5) for split in ("valid", "test")]


class KilledError(Exception):
    pass


def skip(label: str, share: float) -> None:
    pass


def measure(measured: list[Cell], stop_at: int = 99):  # type: ignore[no-untyped-def]
    def run(cell: Cell, progress: object) -> CellResult:
        if len(measured) == stop_at:
            raise KilledError
        measured.append(cell)
        return CellResult(full_point(SHAPE), Quality(cell.knob, {1: 0.1, 3: 0.2, 5: 0.3}, 10))

    return run


def test_a_sweep_that_was_stopped_resumes(tmp_path: Path) -> None:
    path, measured = tmp_path / "results" / "r.json", []
    with pytest.raises(KilledError):
        list(measure_cells(CELLS, measure(measured, 3), SweepFile(path, SUBJECT), skip))
    assert len(json.loads(path.read_text())["rows"]) == 3
    shares: list[float] = []
    again = SweepFile(path, SUBJECT)
    rows = list(measure_cells(CELLS, measure(measured), again, lambda label, share: shares.append(share)))
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


def test_json_is_one_row_per_line_and_nothing_else(tmp_path: Path) -> None:
    arguments = ["sweep", str(write_subject(tmp_path)), "--data", str(tmp_path), "--stored", "--json"]
    answer = CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / "r.json")], catch_exceptions=False)
    rows = [json.loads(line) for line in answer.stdout.splitlines()]
    assert rows == json.loads((tmp_path / "r.json").read_text())["rows"] and len(rows) == 2


def test_a_position_that_cannot_be_served_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    arguments = ["sweep", str(write_subject(tmp_path)), "--data", str(tmp_path), "--knob", "0.8", "--knob", "0"]
    with pytest.raises(OperatingPointError):
        CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / "r.json")], catch_exceptions=False)
    assert not (tmp_path / "r.json").exists()


def test_keystrokes_are_measured_at_knob_points_on_the_test_text(tmp_path: Path) -> None:
    model, out = write_subject(tmp_path), tmp_path / "r.json"
    arguments = ["sweep", str(model), "--data", str(tmp_path), "--knob", "0.6", "--keystrokes", "--words", "9"]
    CliRunner().invoke(app, [*arguments, "-o", str(out)], catch_exceptions=False)
    contents = json.loads(out.read_text())
    typed = {(row["label"], row["split"]): (row["keystrokes"] or {}).get("words") for row in contents["rows"]}
    assert typed.pop(("full", "test")) == typed.pop(("random", "test")) == 9
    assert len(typed) == 4 and set(typed.values()) == {None}
    assert contents["subject"]["typed_words"] == 9


def test_rows_of_an_earlier_run_are_replaced_on_request(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text("anything")
    list(measure_cells(CELLS[:1], measure([]), SweepFile(path, SUBJECT, resume=False), skip))
    assert len(SweepFile(path, SUBJECT).rows) == 1


def test_results_of_another_model_are_not_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    list(measure_cells(CELLS[:1], measure([]), SweepFile(path, SUBJECT), skip))
    with pytest.raises(RheostatError, match="choose another file"):
        SweepFile(path, replace(SUBJECT, model="other"))


def test_results_of_another_engine_are_not_mixed_in(tmp_path: Path) -> None:
    model, out = write_subject(tmp_path), tmp_path / "r.json"
    found = sweep(model, data=tmp_path, out=out, knobs=[], splits=["test"], engine="onnx", threads=1)
    assert found.subject.engine == "onnx"
    message = r"in fp32 by ONNX Runtime; the new ones are of .* in fp32 by the core: choose another file"
    with pytest.raises(RheostatError, match=message):
        sweep(model, data=tmp_path, out=out, knobs=[0.6], splits=["test"])
    again = sweep(model, data=tmp_path, out=out, knobs=[0.6], splits=["test"], engine="onnx", threads=1)
    assert again.rows[0] == found.rows[0] and len(again.rows) == 3
    assert sweep(model, data=tmp_path, out=tmp_path / "core.json", knobs=[]).subject.engine == "core"


def test_an_evaluation_says_which_engine_ran(tmp_path: Path) -> None:
    model = write_subject(tmp_path)
    core, onnx = (evaluate(model, data=tmp_path, engine=engine, threads=1) for engine in (None, "onnx"))
    assert (core.as_json()["engine"], onnx.as_json()["engine"]) == ("core", "onnx")
    assert core.quality.perplexity == pytest.approx(onnx.quality.perplexity, rel=1e-5)
    assert evaluate(model, data=tmp_path, engine="onnx", keystrokes=True, words=3).engine == "onnx"
    with pytest.raises(RheostatError, match="'int4'; expected one of fp32, int8"):
        evaluate(model, data=tmp_path, precision="int4")  # type: ignore[arg-type]


def test_evaluate_prints_the_engine(tmp_path: Path) -> None:
    arguments = ["evaluate", str(write_subject(tmp_path)), "--data", str(tmp_path)]
    assert "fp32 on the core: perplexity" in CliRunner().invoke(app, arguments).stdout
    assert "fp32 on ONNX Runtime: perplexity" in CliRunner().invoke(app, [*arguments, "--engine", "onnx"]).stdout


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"subject": 1}', "not json"])
def test_a_foreign_out_file_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(content)
    with pytest.raises(RheostatError, match="expected a results file"):
        SweepFile(path, SUBJECT)
    assert path.read_text() == content


def test_a_point_that_was_learned_again_replaces_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    old = [Cell("l0-0.8", "l0", None, 0.8, split, "stored", digest="old") for split in ("valid", "test")]
    other = Cell("l0-0.6", "l0", None, 0.6, "test", "stored", digest="same")
    list(measure_cells([*old, other], measure([]), SweepFile(path, SUBJECT), skip))
    new, measured = [replace(cell, knob=0.7998, digest="new") for cell in old], list[Cell]()
    list(measure_cells([*new, other], measure(measured), SweepFile(path, SUBJECT), skip))
    assert measured == new
    found = [(row.label, row.split, row.digest) for row in SweepFile(path, SUBJECT).rows]
    assert found == [("l0-0.6", "test", "same"), ("l0-0.8", "valid", "new"), ("l0-0.8", "test", "new")]


def test_a_point_measured_under_another_name_is_not_measured_again(tmp_path: Path) -> None:
    ranked = Cell("random-1", "random", 1, 0.8, "test", digest="same")
    bare = Cell("random-1-0.8", "random", None, 0.7992, "test", "bare", digest="same")
    stored, valid = replace(bare, allocation="stored"), replace(bare, split="valid")
    measured: list[Cell] = []
    rows = list(
        measure_cells([ranked, bare, stored, valid], measure(measured), SweepFile(tmp_path / "r.json", SUBJECT), skip)
    )
    assert measured == [ranked, stored, valid]
    assert rows[1] == replace(rows[0], **asdict(bare))


def test_a_digest_detects_a_change_under_the_same_name(tmp_path: Path) -> None:
    point = full_point(SHAPE)
    gates = tuple(np.full(width, 0.5, np.float32) for width in point.widths)
    fewer = tuple(keep[:-1] for keep in point.keep)
    different = {p.digest for p in (point, replace(point, gates=gates), replace(point, keep=fewer))}
    assert len(different) == 3 and replace(point, name="other").digest == point.digest


def test_a_text_file_is_one_split(tmp_path: Path) -> None:
    model, text = write_subject(tmp_path), tmp_path / "notes.txt"
    text.write_text("the boat sees the garden\n" * 4)
    found = sweep(model, data=text, out=tmp_path / "r.json", knobs=[0.6])
    assert {row.split for row in found.rows} == {"text"} and len(found.rows) == 3
    assert evaluate(model, data=text).split == "text" and evaluate(model, data=tmp_path).split == "test"
    for measure_on in (evaluate, lambda *a, **k: sweep(*a, **k, out=tmp_path / "s.json")):
        with pytest.raises(CorpusError, match=r"notes\.txt is one text file, .*leave out the split"):
            measure_on(model, data=text, **({"split": "valid"} if measure_on is evaluate else {"splits": ["valid"]}))


def test_the_ranking_or_point_that_was_used_is_named(tmp_path: Path) -> None:
    model = write_subject(tmp_path)
    found = evaluate(model, data=tmp_path, knob=0.6)
    assert (found.ranking, found.as_json()["ranking"]) == (
        "random",
        "random",
    ) and "by the ranking random" in found.served_by
    assert evaluate(model, data=tmp_path).ranking is None
    assert evaluate(model, data=tmp_path, knob=0.6, ranking="other").ranking == "other"
    results = sweep(model, data=tmp_path, out=tmp_path / "r.json", knobs=[0.6], splits=["test"])
    assert [row.served_by for row in results.rows] == ["whole model", "ranking random", "ranking other"]
    assert set(results.subject.origins.rankings) == {"random", "other"}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """A sweep reads what it resumes: opening a pipe would wait forever."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RheostatError, match="it is a named pipe, not a regular file"):
        sweep("chat", data="nowhere", out=tmp_path / "pipe")
    with pytest.raises(RheostatError, match="it is a folder, not a regular file"):
        sweep("chat", data="nowhere", out=str(tmp_path))
