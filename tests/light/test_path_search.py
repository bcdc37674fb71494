"""The search of a path: nested positions, small steps, resumable, and the knob that follows it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import rheostat
from models import PTB_QRNN, make_ranking, make_vocabulary, make_weights, write_file
from rheostat.cli import app
from rheostat.core.binding import CoreModel
from rheostat.errors import CheckpointError, OperatingPointError
from rheostat.measure import path_search
from rheostat.measure.path_search import LARGEST_STEP, SavedSearch, Search, Spending, sample, search_path, spending
from rheostat.measure.results import read_sweep
from rheostat.model.contents import add_points, add_rankings, new_contents
from rheostat.model.cut import cut as make_cut
from rheostat.model.file import open_model
from rheostat.model.knob import choose, path_point
from rheostat.model.operating_point import whole_bounds
from rheostat.model.ordered import order_filters, ordered_bytes
from rheostat.model.path import PathPosition, check_path, has_bounds, path_along
from rheostat.model.shape import ModelShape
from rheostat.model.writer import write_model
from rheostat.runtime.engine import CoreWeights
from rheostat.runtime.evaluation import RuntimeEvaluator

SHAPE = ModelShape(64, 32, (64, 48, 32), (2, 1, 1))
COST = Spending("cost", lambda position: position.cost)


def quadratic(shape: ModelShape, weights: tuple[float, ...]) -> Any:
    """A loss that grows with the square of what each part has lost: filters first, then bits."""

    def loss(position: PathPosition) -> float:
        parts = [1 - width / size for width, size in zip(position.widths, shape.hidden_sizes, strict=True)]
        whole = whole_bounds(shape)
        parts += [1 - bound / size for bound, size in zip(position.bounds or whole, whole, strict=True)]
        return sum(weight * part**2 for weight, part in zip(weights, parts, strict=True))

    return loss


def searched(shape: ModelShape, weights: tuple[float, ...], smallest: float, together: bool = False) -> Search:
    ranking = make_ranking(shape)
    widths = [position.widths for position in path_along(ranking, shape, 0.1)] if together else []
    search = Search(shape, quadratic(shape, weights), COST, widths)
    for _ in search.down_to(smallest):
        pass
    return search


def test_a_path_is_nested_ends_where_asked_and_its_steps_are_small() -> None:
    search = searched(PTB_QRNN, (1.0,) * 4 + (0.1,) * 5, 0.15, together=True)
    path = tuple(step.position for step in search.steps)
    check_path(path, PTB_QRNN)  # nested, descending, and every cost is what the position costs
    assert all(larger.cost - smaller.cost <= LARGEST_STEP for larger, smaller in pairwise(path))
    assert path[-2].cost > 0.15 >= path[-1].cost > 0.13
    sizes = PTB_QRNN.hidden_sizes
    assert all(width % 8 == 0 or width == size for p in path for width, size in zip(p.widths, sizes, strict=True))


@settings(max_examples=15)
@given(st.lists(st.floats(0, 3), min_size=7, max_size=7), st.floats(0.1, 0.9), st.booleans())
def test_any_loss_gives_a_valid_path(weights: list[float], smallest: float, together: bool) -> None:
    search = searched(SHAPE, tuple(weights), smallest, together)
    path = tuple(step.position for step in search.steps)
    check_path(path, SHAPE)
    assert path[-1].cost <= smallest


def test_what_costs_nothing_is_given_up_first() -> None:
    free = searched(PTB_QRNN, (1, 0, 1, 1, 1, 1, 1, 1, 1), 0.8).steps[-1].position
    assert free.widths[1] < 1550 and free.bounds is None
    coarse = searched(PTB_QRNN, (1, 1, 1, 1, 1, 1, 1, 1, 0), 0.95).steps[-1].position
    assert coarse.widths == PTB_QRNN.hidden_sizes
    assert coarse.bounds is not None and coarse.bounds[-1] < 10_000 and coarse.bounds[:-1] == PTB_QRNN.hidden_sizes


def test_a_sample_is_spread_over_the_text() -> None:
    ids = np.arange(10_000)
    found = sample(ids, 2000)
    assert len(found) == 2000 and found[0] == 0 and found[-1] == 9999 and len(set(found)) == 2000
    assert sample(ids[:300], 2000).tolist() == list(range(300))
    assert len(sample(ids, 40)) == 40


# On a model file


@pytest.fixture
def model(tmp_path: Path) -> Path:
    ranking = make_ranking(SHAPE, 3, "first")
    contents = new_contents(
        SHAPE, make_vocabulary(64), make_weights(SHAPE, 2), {"tokenizer": "words"}, precision="int8"
    )
    contents = order_filters(add_rankings(contents, [ranking]), "first")
    write_model(tmp_path / "model.safetensors", contents)
    return tmp_path / "model.safetensors"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    random = np.random.default_rng(5)
    for split in ("train", "valid", "test"):
        lines = (" ".join(f"word{number}" for number in random.integers(2, 64, 9)) for _ in range(30))
        (tmp_path / f"{split}.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_the_knob_follows_a_searched_path(model: Path, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.safetensors"
    labels: list[float] = []
    found = search_path(
        model, out, data=corpus, smallest=0.3, tokens=120, progress=lambda _, share: labels.append(share)
    )
    assert found.tokens_read == found.measurements * 120 and labels[-1] == 1
    assert not Path(f"{out}.search.json").exists()
    with open_model(out) as file:
        assert file.knob_path() == found.path and has_bounds(found.path)
        assert file.description.provenance["path"]["tokens_read"] == found.tokens_read
        for knob in (0.9, 0.5, 0.35):
            point = choose(file, knob)
            assert point.criterion == "path" and knob - LARGEST_STEP - 0.05 < point.cost <= knob
            assert point.digest == path_point(file, knob).digest
        with pytest.raises(OperatingPointError, match="smallest position"):
            choose(file, 0.1)
    with open_model(model) as file:  # a path of widths alone is what the ranking gives
        assert choose(file, 0.5).criterion == "random"


def test_pruning_and_bits_alone_can_be_asked_for_beside_the_path(model: Path, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.safetensors"
    search_path(model, out, data=corpus, smallest=0.3, tokens=120)
    with open_model(out) as file:
        alone, bits = choose(file, 0.5, criterion="random"), choose(file, 0.6, criterion="bits")
        assert (alone.criterion, alone.bounds) == ("random", None) and alone.cost <= 0.5
        assert (bits.criterion, bits.cost, bits.widths) == ("bits", 0.5, file.shape.hidden_sizes)
        with pytest.raises(OperatingPointError, match="bits"):
            choose(file, 0.4, criterion="bits")
    with rheostat.load(out) as predictor:
        for criterion, widths in (("random", alone.widths), ("bits", bits.widths)):
            other = predictor.at(0.5, criterion=criterion)
            assert (other.point.criterion, other.point.widths) == (criterion, widths)
    measured = rheostat.bench(
        out, knobs=[1.0, 0.5], criteria=["path", "random", "bits"], meter="none", memory=False, queries=4
    )
    rows = [(row.label, row.criterion) for row in measured.rows]
    assert rows[1:] == [("0.5", "path"), ("0.5", "random"), ("0.5", "bits")]


def test_a_position_answers_as_its_cut_model_does(model: Path, corpus: Path, tmp_path: Path) -> None:
    """The core reads bits from planes; `cut` writes the same values as int8."""
    out = tmp_path / "out.safetensors"
    search_path(model, out, data=corpus, smallest=0.3, tokens=60)
    with open_model(out) as file:
        weights, point = CoreWeights(file, "int8"), choose(file, 0.4)
        assert point.bounds is not None
        engine = weights.engine(point)
        assert engine.held_bytes == 0  # served from the shared weights
        small, shape = make_cut(file.stored_weights(), file.shape, point)
        cut = CoreModel(ordered_bytes(small, shape, file.vocabulary, "int8", order="cut"))
        state, other = engine.start(), cut.start()
        for word in (5, 1, 33, 60):
            reading = engine.read(state, word)
            other = cut.step(cut.full_position(), other, word)
            expected = cut.log_probabilities(cut.predict(cut.full_position(), other))
            np.testing.assert_array_equal(engine.log_probabilities(reading), expected)
            state = engine.after(reading)


def test_an_exported_position_is_int8_and_answers_as_the_core_does(model: Path, corpus: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    out = tmp_path / "out.safetensors"
    search_path(model, out, data=corpus, smallest=0.3, tokens=60)
    manifest = rheostat.export(out, tmp_path / "graphs", 0.4, criterion="path")
    with open_model(out) as file:
        point = choose(file, 0.4)
    assert manifest["operating_point"]["bounds"] == list(point.bounds or ())
    assert manifest["cost"] == point.cost and manifest["precision"] == "int8"
    for precision, tolerance in (("int8", 0.02), ("fp32", 1e-4)):
        core, onnx = (rheostat.load(out, 0.4, precision=precision, engine=engine) for engine in ("core", "onnx"))
        for words in (["word5"], ["word5", "word33", "word7"]):
            found, expected = (one.log_probabilities_after(words) for one in (onnx, core))
            np.testing.assert_allclose(found, expected, atol=tolerance)


def test_an_exported_knob_position_costs_its_share_without_bits(model: Path, corpus: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    out = tmp_path / "out.safetensors"
    search_path(model, out, data=corpus, smallest=0.3, tokens=60)
    whole = rheostat.export(out, tmp_path / "whole")
    manifest = rheostat.export(out, tmp_path / "graphs", 0.4)
    with open_model(out) as file:
        alone = choose(file, 0.4, ranking=file.description.default_ranking)
        assert choose(file, 0.4).flops_fraction > 0.4  # the path reaches its share by bits
        stored = add_points(file.contents(), [replace(alone, name="stored", ranking=None)])
        write_model(tmp_path / "stored.safetensors", stored)
    point = manifest["operating_point"]
    assert (point["hidden_sizes"], point["bounds"]) == (list(alone.widths), None)
    assert manifest["flops_fraction"] == manifest["cost"] == alone.flops_fraction <= 0.4
    assert manifest["flops"] == round(alone.flops_fraction * whole["flops"])
    assert manifest["bytes"]["step.onnx"] < 0.9 * whole["bytes"]["step.onnx"]
    assert (
        rheostat.export(tmp_path / "stored.safetensors", tmp_path / "graphs", 0.4)["operating_point"]["name"]
        == "stored"
    )
    printed = CliRunner().invoke(app, ["export", str(out), "--knob", "0.4", "-o", str(tmp_path / "graphs")]).stdout
    assert f"in widths alone, at {alone.flops_fraction:.2%} of the FLOPs" in printed


def test_a_killed_search_resumes_and_finds_the_same(
    model: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "first.safetensors", tmp_path / "second.safetensors"
    whole = search_path(model, first, data=corpus, smallest=0.4, tokens=60)
    measured, quality = 0, RuntimeEvaluator.quality

    def killed(self: RuntimeEvaluator, *arguments: Any) -> Any:
        nonlocal measured
        measured += 1
        if measured == 25:
            raise KeyboardInterrupt
        return quality(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(RuntimeEvaluator, "quality", killed)
        with pytest.raises(KeyboardInterrupt):
            search_path(model, second, data=corpus, smallest=0.4, tokens=60)
    assert not second.exists()
    saved = json.loads(Path(f"{second}.search.json").read_text())
    assert 1 < len(saved["steps"]) < len(whole.path)
    with pytest.raises(CheckpointError, match="another search"):
        search_path(model, second, data=corpus, smallest=0.5, tokens=60)
    assert search_path(model, second, data=corpus, smallest=0.4, tokens=60).path == whole.path
    Path(f"{second}.search.json").write_text("{")
    with pytest.raises(CheckpointError, match="delete it"):
        search_path(model, second, data=corpus, smallest=0.4, tokens=60)


DAMAGED_SEARCHES = {
    "deep": lambda saved: "[" * 100_000,
    "not UTF-8": lambda saved: b"\xff\xfe",
    "cost": lambda saved: change(saved, "cost", 10**400),
    "infinite loss": lambda saved: change(saved, "loss", float("inf")),
    "a text as a width": lambda saved: change(saved, "widths", [64, 48, "x"]),
    "a negative width": lambda saved: change(saved, "widths", [64, -5, 32]),
    "no widths": lambda saved: change(saved, "widths", []),
    "a width too few": lambda saved: change(saved, "widths", [64, 48]),
    "bounds": lambda saved: change(saved, "bounds", [1, 2]),
    "no steps": lambda saved: {**saved, "steps": []},
    "infinite measurements": lambda saved: {**saved, "measurements": float("inf")},
    "too few measurements": lambda saved: {**saved, "measurements": -1},
    "prices": lambda saved: {**saved, "prices": {"narrow 0": [0.5]}},
    "a price of tomorrow": lambda saved: {**saved, "prices": {"narrow 0": [0.5, 10**6]}},
}


def change(saved: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    return {**saved, "steps": [*saved["steps"][:-1], {**saved["steps"][-1], name: value}]}


@pytest.mark.parametrize("damage", DAMAGED_SEARCHES.values(), ids=DAMAGED_SEARCHES)
def test_a_damaged_search_is_refused_in_one_line_and_left_alone(tmp_path: Path, damage: Callable[[Any], Any]) -> None:
    path, subject = tmp_path / "out.search.json", {"weights": "w"}
    search = Search(SHAPE, lambda position: 2 - position.cost, COST)
    saved = SavedSearch(path, subject, SHAPE)
    for _ in search.down_to(0.8):
        saved.save(search)
    state = saved.load()
    assert state is not None and (list(state.steps), state.prices) == (search.steps, search.prices)
    damaged = damage(json.loads(path.read_text()))
    content = damaged if isinstance(damaged, str | bytes) else json.dumps(damaged)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match=r"out.search.json (is damaged|cannot be read).*delete it") as caught:
        saved.load()
    assert len(str(caught.value)) < 400 and path.read_bytes() == before


def test_the_command_shows_the_path_and_says_how_much_it_read(model: Path, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.safetensors"
    command = ["path", str(model), "--data", str(corpus), "-o", str(out), "--smallest", "0.5", "--tokens", "60"]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, shown.stderr
    assert "8 bits up to" in shown.stdout and "measurements of 60 tokens" in " ".join(shown.stdout.split())
    found = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert found["positions"][0]["cost"] == 1 and found["tokens_read"] == 60 * found["measurements"]
    knob = ["--knob", "0.6", "--data", str(corpus), "--precision", "int8", "--json"]
    measured = json.loads(CliRunner().invoke(app, ["evaluate", str(out), *knob]).stdout)
    assert measured["cost"] <= 0.6 < measured["flops_fraction"]


def test_a_sweep_measures_the_path_as_a_criterion_of_its_own(model: Path, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.safetensors"
    search_path(model, out, data=corpus, smallest=0.5, tokens=60)
    results = rheostat.sweep(
        out, data=corpus, out=tmp_path / "r.json", criteria=["path", "bits"], knobs=[0.8, 0.6, 0.2], splits=["test"],
        precision="int8",
    )  # fmt: skip
    assert [(row.label, row.knob) for row in results.rows] == [
        ("full", 1.0), ("bits", 0.5), ("path", 0.8), ("path", 0.6),
    ]  # fmt: skip
    assert results.rows[1].widths == SHAPE.hidden_sizes and results.rows[1].mean_bits == 4
    assert all(row.cost <= row.knob and row.served_by for row in results.rows)
    assert results.rows[-1].bounds is not None and results.rows[-1].mean_bits < 8
    again = read_sweep(tmp_path / "r.json")
    assert again.rows == results.rows


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"by": "time"}, "by is 'time'"),
        ({"by": "ms"}, "no bench file"),
        ({"bench": "x.json"}, "expected a search by ms"),
        ({"smallest": 2.0}, "the knob is set to 2"),
        ({"tokens": 1}, "at least 2"),
    ],
)
def test_wrong_settings_are_refused(model: Path, corpus: Path, changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(OperatingPointError, match=expected):
        search_path(model, corpus / "out.safetensors", data=corpus, **changes)


def test_a_file_that_is_not_ordered_int8_is_refused(corpus: Path, tmp_path: Path) -> None:
    path = tmp_path / "plain.safetensors"
    write_file(
        path,
        shape=SHAPE,
        vocabulary=make_vocabulary(64),
        weights=make_weights(SHAPE),
        text={"tokenizer": "words"},
    )
    with pytest.raises(OperatingPointError, match="pack --precision int8 --order"):
        search_path(path, tmp_path / "out.safetensors", data=corpus)


def test_bytes_count_scales_and_biases_too() -> None:
    position = PathPosition(SHAPE.cost_fraction((32, 48, 32)), (32, 48, 32))
    matrices = SHAPE.with_hidden_sizes((32, 48, 32)).flops / 2
    assert spending(SHAPE, "bytes", None).of(position) == pytest.approx(matrices + 8 * (3 * 112 + 64))


def test_milliseconds_are_fitted_to_a_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows whose time is 0.1 + 2 · MFLOPs in 8 bits + 0.5 · MFLOPs in 4 bits."""

    class Row:
        def __init__(self, widths: tuple[int, ...], bounds: tuple[int, ...] | None) -> None:
            self.widths, self.bounds = widths, bounds
            self.cost = SHAPE.cost_fraction(widths, bounds)
            eight, four = path_search.work_of(SHAPE, PathPosition(self.cost, widths, bounds))
            self.latency_ms = 0.1 + 2 * eight + 0.5 * four

    class Bench(path_search.BenchResults):
        def __init__(self, rows: list[Row]) -> None:
            object.__setattr__(self, "rows", rows)

    wide, narrow = SHAPE.hidden_sizes, (32, 32, 16)
    enough = [Row(wide, None), Row(wide, (0, 0, 0, 0)), Row(narrow, None)]
    monkeypatch.setattr(path_search, "read_results", lambda path: Bench(enough))
    spends = spending(SHAPE, "ms", tmp_path / "bench.json")
    mixed = Row(narrow, (16, 0, 16, 32))
    assert spends.of(PathPosition(mixed.cost, mixed.widths, mixed.bounds)) == pytest.approx(mixed.latency_ms)
    monkeypatch.setattr(path_search, "read_results", lambda path: Bench(enough[::2]))
    with pytest.raises(OperatingPointError, match="not enough to separate 8 bits from 4"):
        spending(SHAPE, "ms", tmp_path / "bench.json")
