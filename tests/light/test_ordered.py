"""Ordered files: filters in the order of a ranking, the path of the knob, and the core on the mapped file."""

from __future__ import annotations

import gc
import json
import tracemalloc
import weakref
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

import rheostat
from models import GOLDEN, golden_origins, make_golden_ordered, make_point, make_ranking, make_vocabulary, make_weights
from rheostat.cli import app
from rheostat.core.binding import CoreModel
from rheostat.errors import ModelFileError, OperatingPointError, RheostatError, RheostatWarning
from rheostat.model.contents import (
    Contents,
    add_points,
    add_rankings,
    convert,
    drop_points,
    drop_rankings,
    new_contents,
    replace_weights,
    set_default_ranking,
)
from rheostat.model.cut import cut
from rheostat.model.file import ModelFile, open_model
from rheostat.model.knob import choose, point_on_path, unmeasured_warning
from rheostat.model.operating_point import OperatingPoint, Update, full_point
from rheostat.model.ordered import order_filters, ordered_bytes
from rheostat.model.path import PathPosition, check_path, known_cost_down_to, known_down_to, path_along
from rheostat.model.shape import ModelShape
from rheostat.model.widths import best_of, select
from rheostat.model.writer import write_model
from rheostat.runtime.engine import CoreEngine, CoreWeights, open_mapped

SHAPE = ModelShape(61, 24, (50, 40, 24), (2, 1, 3), (20, 33, 50))
WORDS = [5, 1, 60, 7, 7, 0, 33, 2]
Edit = Callable[[Contents], Contents]
Floats = NDArray[np.float32]


@pytest.fixture
def contents() -> Contents:
    """A default ranking, another one, a plain point, and one with gates and an update."""
    weights = {name: array / 2 for name, array in make_weights(SHAPE, 1).items()}
    first, second = make_ranking(SHAPE, 3, "first"), make_ranking(SHAPE, 4, "second")
    plain = replace(best_of(second, SHAPE, (31, 17, 12)), name="plain", ranking=None)
    learned = make_point(SHAPE, "learned")
    u, v = next(iter(learned.cut_shape(SHAPE).update_shapes(rank=1)))
    ramps = Update(*(np.linspace(-0.3, 0.2, size[0] * size[1], dtype=np.float32).reshape(size) for size in (u, v)))
    learned = replace(learned, updates=(ramps, *(learned.updates or ())[1:]))
    return replace(
        new_contents(SHAPE, make_vocabulary(SHAPE.vocabulary_size), weights, {"tokenizer": "words"}, precision="int8"),
        rankings=(replace(first, comparable=True), second),
        points=(plain, learned),
        default_ranking="first",
    )


def written(path: Path, contents: Contents) -> ModelFile:
    write_model(path, contents)
    return open_model(path)


def answers(file: ModelFile, point: OperatingPoint, precision: Literal["int8", "fp32"]) -> Floats:
    """log p of every next word after each word, by the core."""
    return answers_of(CoreWeights(file, precision).engine(point))


def answers_of(engine: CoreEngine) -> Floats:
    state, rows = engine.start(), []
    for word in WORDS:
        reading = engine.read(state, word)
        rows.append(engine.log_probabilities(reading))
        state = engine.after(reading)
    return np.array(rows)


def both(tmp_path: Path, contents: Contents) -> tuple[ModelFile, ModelFile]:
    return written(tmp_path / "before", contents), written(tmp_path / "after", order_filters(contents))


# --- the same model ---------------------------------------------------------------------------------------


def test_every_position_gives_the_bits_of_the_file_before_it_was_ordered(tmp_path: Path, contents: Contents) -> None:
    before, after = both(tmp_path, contents)
    assert len(after.knob_path()) > 40
    for cost, widths, _ in after.knob_path()[::6]:
        points = [best_of(file.ranking(), SHAPE, widths) for file in (before, after)]
        assert np.array_equal(answers(before, points[0], "int8"), answers(after, points[1], "int8"))
        floats = [answers(file, point, "fp32") for file, point in zip((before, after), points, strict=True)]
        np.testing.assert_allclose(floats[0], floats[1], rtol=0, atol=1e-6)
        assert points[1].flops_fraction == pytest.approx(cost, abs=1e-7)
        assert all(np.array_equal(keep, np.arange(len(keep))) for keep in points[1].keep)


@pytest.mark.parametrize("name", ["plain", "learned"])
def test_every_stored_point_gives_the_bits_of_the_file_before(tmp_path: Path, contents: Contents, name: str) -> None:
    before, after = both(tmp_path, contents)
    assert np.array_equal(answers(before, before.point(name), "int8"), answers(after, after.point(name), "int8"))
    floats = [answers(file, file.point(name), "fp32") for file in (before, after)]
    np.testing.assert_allclose(floats[0], floats[1], rtol=0, atol=1e-6)
    point = after.point(name)
    assert point.widths == before.point(name).widths and point.update_rank == before.point(name).update_rank


def test_other_rankings_keep_the_same_filters(tmp_path: Path, contents: Contents) -> None:
    before, after = both(tmp_path, contents)
    points = [select(file.ranking("second"), SHAPE, 0.5) for file in (before, after)]
    assert np.array_equal(answers(before, points[0], "int8"), answers(after, points[1], "int8"))


def test_ordering_keeps_values_and_everything_else(contents: Contents) -> None:
    made = order_filters(contents)
    for name, array in contents.weights.items():
        assert made.weights[name].dtype == array.dtype
        assert np.array_equal(np.sort(made.weights[name], axis=None), np.sort(array, axis=None))
    for part in ("shape", "words", "text", "default_ranking", "recipe", "provenance", "origin"):
        assert getattr(made, part) is getattr(contents, part)
    assert [ranking.origin for ranking in made.rankings] == [ranking.origin for ranking in contents.rankings]
    assert made.rankings[0].is_in_order and not contents.rankings[0].is_in_order


def test_ordering_twice_changes_nothing(tmp_path: Path, contents: Contents) -> None:
    written(tmp_path / "once", order_filters(contents))
    write_model(tmp_path / "twice", order_filters(open_model(tmp_path / "once").contents()))
    assert (tmp_path / "twice").read_bytes() == (tmp_path / "once").read_bytes()


def test_weights_that_stand_in_order_stay_where_they_are(contents: Contents) -> None:
    again = order_filters(order_filters(contents))
    assert order_filters(again).weights is again.weights


# --- the path ---------------------------------------------------------------------------------------------


def test_the_path_goes_down_by_at_most_two_percent_and_nests() -> None:
    shape = ModelShape(1000, 96, (256, 256, 96), (2, 1, 1))
    ranking = replace(make_ranking(shape), comparable=True)
    path = path_along(ranking, shape, 0.2)
    check_path(path, shape)
    assert path[0] == PathPosition(1.0, shape.hidden_sizes) and 0.19 < path[-1].cost <= 0.2
    assert all(0 < larger.cost - smaller.cost <= 0.02 for larger, smaller in pairwise(path))
    assert all(all(a >= b for a, b in zip(one.widths, two.widths, strict=True)) for one, two in pairwise(path))


def test_a_whole_percent_is_the_same_position_to_python_and_to_the_core(tmp_path: Path, contents: Contents) -> None:
    file = written(tmp_path / "model", order_filters(contents))
    core = CoreModel(file.mapped_bytes())
    for knob in (1.0, 0.75, 0.5, 0.33, 0.2):
        assert core.position_near(knob).widths == select(file.ranking(), SHAPE, knob).widths


def test_a_path_ends_where_the_ranking_is_known_to_be_good() -> None:
    curve = [{"flops_fraction": share} for share in (1.0, 0.3, "0.1", 0.0, None)]
    recipe, provenance = {"train": {"graded": 0.14}}, {"curve": [*curve, "nothing"]}
    assert known_down_to("graded", recipe, provenance) == 0.14
    assert known_down_to("taylor", recipe, provenance) == 0.3
    assert known_down_to("graded", {"train": {"graded": 0.0}}, {}) is None
    assert known_down_to("graded", {"train": 3}, {"curve": 4}) is None


def test_a_path_ends_at_the_smallest_position_that_the_model_has() -> None:
    shape = ModelShape(11, 4, (5, 6, 4), (2, 1, 3))
    path = path_along(make_ranking(shape), shape, 0.01)
    assert path[-1].widths == (1, 1, 1) and path[-1].cost > 0.01


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: (), "begins with no position"),
        (lambda path: path[1:], "begins with"),
        (lambda path: (*path, path[-1]), "descending costs"),
        (lambda path: (*path, PathPosition(path[-1].cost / 2, path[-1].widths)), "which its widths cost"),
        (lambda path: (*path, PathPosition(1e-9, (0, 1, 1))), "widths"),
        (lambda path: (path[0], PathPosition(0.9, (50, 41, 24))), "widths"),
    ],
)
def test_a_path_that_does_not_fit_is_not_written(
    tmp_path: Path, contents: Contents, change: Callable[[Any], Any], message: str
) -> None:
    made = order_filters(contents)
    with pytest.raises(ModelFileError, match=message):
        write_model(tmp_path / "model", replace(made, knob_path=change(made.knob_path)))


# --- the file ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "bits"), [("golden-ordered", 8), ("golden-4-bits", 4)])
def test_an_ordered_file_is_written_as_it_always_was(tmp_path: Path, name: str, bits: int) -> None:
    golden = GOLDEN / f"{name}.safetensors"
    make_golden_ordered(tmp_path / "model", bits)
    assert (tmp_path / "model").read_bytes() == golden.read_bytes()
    with open_model(golden) as file:
        assert file.ordered == "norm" and CoreModel(file.mapped_bytes()).config.positions == len(file.knob_path()) == 10
        assert (file.origin, file.ranking("norm").origin, file.point("l0-0.5").origin) == golden_origins()


def test_a_file_says_that_it_is_ordered(tmp_path: Path, contents: Contents) -> None:
    before, after = both(tmp_path, contents)
    assert (before.ordered, before.knob_path(), before.description.format_version) == (None, (), 1)
    assert (after.ordered, after.description.positions) == ("first", len(after.knob_path()))
    assert after.description.format_version == 2
    again = after.contents()
    assert (again.ordered, again.knob_path) == ("first", after.knob_path())


def test_the_core_opens_the_mapped_file_as_it_is(tmp_path: Path, contents: Contents) -> None:
    file = written(tmp_path / "model", order_filters(contents))
    core = CoreModel(file.mapped_bytes())
    assert core.config.positions == file.description.positions and core.config.is_int8
    assert core.config.hidden_sizes == SHAPE.hidden_sizes
    assert [core.position_at(number).widths for number in range(3)] == [at.widths for at in file.knob_path()[:3]]


@pytest.mark.parametrize(
    "edit",
    [
        lambda contents: set_default_ranking(contents, "second"),
        lambda contents: drop_rankings(contents, ["first", "second"]),
        lambda contents: add_rankings(contents, [make_ranking(SHAPE, 9, "first")]),
        lambda contents: replace_weights(contents, SHAPE, {}),
    ],
)
def test_an_edit_of_the_default_ranking_or_the_cost_ends_the_order(
    tmp_path: Path, contents: Contents, edit: Edit
) -> None:
    made = edit(order_filters(contents))
    assert (made.ordered, made.knob_path) == (None, ())
    written(tmp_path / "model", made)


@pytest.mark.parametrize(
    "edit",
    [
        lambda contents: convert(contents, "fp16"),
        lambda contents: set_default_ranking(contents, "first"),
        lambda contents: drop_rankings(contents, ["second"]),
        lambda contents: add_rankings(contents, [make_ranking(SHAPE, 9, "third")]),
        lambda contents: add_points(contents, [replace(full_point(SHAPE), name="whole")]),
        lambda contents: drop_points(contents, ["plain"]),
    ],
)
def test_every_other_edit_keeps_the_order(tmp_path: Path, contents: Contents, edit: Edit) -> None:
    ordered = order_filters(contents)
    made = edit(ordered)
    assert (made.ordered, made.knob_path) == ("first", ordered.knob_path)
    assert written(tmp_path / "model", made).ranking().is_in_order


def test_scores_that_are_not_in_order_are_refused(tmp_path: Path, contents: Contents) -> None:
    made = order_filters(contents)
    with pytest.raises(ModelFileError, match="a better filter after a worse one"):
        write_model(tmp_path / "model", replace(made, rankings=contents.rankings))


def changed(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the description in the header of a file."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    fields = json.loads(header["__metadata__"]["rheostat"])
    change(fields)
    header["__metadata__"] = {"rheostat": json.dumps(fields)}  # without checksums, which would tell
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda fields: fields.update(ordered="second"), "ordered 'second'; expected the default ranking, 'first'"),
        (lambda fields: fields.update(ordered=5), "ordered 5"),
        (lambda fields: fields.pop("ordered"), "no tensor embedding.weight"),
        (lambda fields: fields.update(format_version=1), "no tensor embedding.weight"),
        (lambda fields: fields.pop("default_ranking"), "ordered 'first'; expected the default ranking, None"),
    ],
)
def test_a_wrong_description_says_what_is_wrong(
    tmp_path: Path, contents: Contents, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    write_model(tmp_path / "model", order_filters(contents))
    changed(tmp_path / "model", change)
    with pytest.raises(ModelFileError, match=message):
        open_model(tmp_path / "model")


def test_a_file_that_claims_an_order_it_does_not_have_is_refused_at_first_use(
    tmp_path: Path, contents: Contents
) -> None:
    made = order_filters(contents)
    write_model(tmp_path / "model", made)
    changed(tmp_path / "model", lambda fields: None)  # leaves out the checksums
    data = (tmp_path / "model").read_bytes()
    scores, cost = made.rankings[0].scores[0], np.float32(made.knob_path[3].cost)
    for values, message in ((scores, "better filter after a worse"), (cost, "a cost of")):
        old = values.astype("<f4").tobytes()
        assert data.count(old) == 1
        (tmp_path / "broken").write_bytes(
            data.replace(old, (values[::-1] if values.ndim else values / 2).astype("<f4").tobytes())
        )
        with open_model(tmp_path / "broken") as file, pytest.raises(ModelFileError, match=f"broken: .*{message}"):
            file.contents()


# --- the runtime ------------------------------------------------------------------------------------------


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """An ordered int8 file of about 3 MB, and beside it the same model unordered."""
    shape = ModelShape(8000, 128, (512, 512, 128), (2, 1, 1))
    made = new_contents(shape, make_vocabulary(8000), make_weights(shape), {"tokenizer": "words"}, precision="int8")
    made = set_default_ranking(add_rankings(made, [make_ranking(shape, 1, "first")]), "first")
    write_model(tmp_path / "unordered", made)
    write_model(tmp_path / "ordered", order_filters(made))
    return tmp_path / "ordered"


def memory_taken(path: Path, knobs: tuple[float, ...]) -> int:
    """The most memory that serving these positions took, in bytes; mapped pages are not counted."""
    with open_model(path) as file:
        points, _ = [choose(file, knob) for knob in knobs], file.vocabulary
        tracemalloc.start()
        try:
            weights = CoreWeights(file, "int8")
            engines = [weights.engine(point) for point in points]
            assert all(engine.held_bytes == 0 for engine in engines)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


def test_positions_of_an_ordered_file_take_no_memory_for_weights(large: Path) -> None:
    size = large.stat().st_size
    assert memory_taken(large.with_name("unordered"), (1.0, 0.5)) > size
    assert memory_taken(large, (1.0, 0.8, 0.6, 0.4, 0.2)) < size / 5  # the index of words, and scratch


def test_turning_to_a_position_of_the_path_computes_no_widths(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("widths were computed")

    with open_model(large) as file:
        path = file.knob_path()
    predictor = rheostat.load(large)
    monkeypatch.setattr("rheostat.model.knob.select", refuse)
    for position in path:
        predictor.turn(round(position.cost + 0.0005, 6) if position.cost < 1 else 1.0)
        assert predictor.point.widths == position.widths
        assert predictor.flops_fraction == pytest.approx(position.cost)
        assert predictor.weight_bytes > 0


@pytest.mark.parametrize("bits", [False, True])
@pytest.mark.parametrize("precision", ["int8", "fp32"])
def test_a_position_of_the_path_is_the_point_of_that_position(
    tmp_path: Path, contents: Contents, bits: bool, precision: Literal["int8", "fp32"]
) -> None:
    """Turning makes no point, so the engine made of widths alone has to be the same."""
    file = written(tmp_path / "model", with_bits(contents) if bits else order_filters(contents))
    core = CoreWeights(file, precision)
    for place, position in enumerate(file.knob_path()):
        direct = core.engine_on_path(position)
        if direct is None:
            assert precision == "fp32" and position.bounds
            continue
        of_point = core.engine(point_on_path(file, place, position.cost))
        assert direct.shape == of_point.shape and direct.weight_bytes == of_point.weight_bytes
        assert np.array_equal(answers_of(direct), answers_of(of_point))


def test_predictors_of_one_ordered_file_share_it(large: Path) -> None:
    first, second = (CoreWeights(open_model(large), "int8").engine(full_point(open_model(large).shape)) for _ in "ab")
    assert first.model is second.model
    with open_model(large.with_name("unordered")) as file:
        made = [CoreWeights(file, "int8").engine(full_point(file.shape)).model for _ in "ab"]
    assert made[0] is not made[1]
    opened = weakref.ref(first.model)
    del first, second
    gc.collect()
    assert opened() is None, "it is closed with the last of them"


def test_another_precision_than_the_files_is_made_in_memory(tmp_path: Path, contents: Contents) -> None:
    for stored in ("int8", "fp32", "fp16"):
        file = written(tmp_path / stored, convert(order_filters(contents), stored))
        for asked in ("int8", "fp32"):
            assert (open_mapped(file, asked) is not None) == (asked == stored)
            assert np.isfinite(answers(file, full_point(SHAPE), asked)).all()


def test_a_replaced_file_is_another_model_to_a_new_predictor_only(tmp_path: Path, contents: Contents) -> None:
    path = tmp_path / "model.safetensors"
    write_model(path, order_filters(contents))
    old = rheostat.load(path)
    before = {knob: old.at(knob).suggest("word3") for knob in (1.0, 0.5)}
    other = {name: array / 2 for name, array in make_weights(SHAPE, 7).items()}
    write_model(path, order_filters(convert(replace_weights(contents, SHAPE, other), "int8")))
    new = rheostat.load(path)
    assert {knob: old.at(knob).suggest("word3") for knob in (1.0, 0.5)} == before
    assert new.suggest("word3") != before[1.0]
    assert new.suggest("word3") == rheostat.load(path).suggest("word3")


def test_an_ordered_file_at_another_place_in_memory_still_runs(tmp_path: Path, contents: Contents) -> None:
    """Another program may write tensors where the core cannot use them; Python then moves them."""
    path = tmp_path / "model"
    expected = answers(written(path, order_filters(contents)), full_point(SHAPE), "int8")
    changed(path, lambda fields: None)  # leaves out the checksums
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    path.write_bytes((length + 1).to_bytes(8, "little") + data[8 : 8 + length] + b" " + data[8 + length :])
    with open_model(path) as file:
        assert open_mapped(file, "int8") is None
        assert np.array_equal(answers(file, full_point(SHAPE), "int8"), expected)


@pytest.mark.parametrize(("name", "value"), [("embedding.weight", -128), ("output.bias", np.inf)])
def test_a_value_that_no_model_has_is_named_with_the_file(
    tmp_path: Path, contents: Contents, name: str, value: float
) -> None:
    weights = {key: array.copy() for key, array in order_filters(contents).weights.items()}
    weights[name].flat[0] = value
    with pytest.raises(ModelFileError, match=f"model: .*{name}"):  # planes are checked when they are written
        write_model(tmp_path / "model", replace(order_filters(contents), weights=weights))
        rheostat.load(tmp_path / "model")


def test_a_position_below_what_is_known_is_served_with_one_warning(tmp_path: Path, contents: Contents) -> None:
    path, (first, second) = tmp_path / "model.safetensors", contents.rankings
    graded = replace(contents, rankings=(replace(first, criterion="graded"), second))
    write_model(path, order_filters(replace(graded, recipe={"train": {"graded": 0.4}})))
    predictor = rheostat.load(path, 0.4)
    predictor.turn(point="plain")
    with pytest.warns(
        RheostatWarning, match=r"at 29\.\d% of the FLOPs; model.safetensors was .* down to 40.0% only"
    ) as warned:
        predictor.turn(0.3)
        predictor.turn(0.2)
    assert len(warned) == 1 and 0.19 < predictor.flops_fraction <= 0.2
    with pytest.warns(RheostatWarning, match="turn the knob to 0.4 or more"):
        rheostat.load(path, 0.2)
    write_model(path, order_filters(graded))
    assert rheostat.load(path, 0.2).suggest("word3"), "nothing is known about it, so nothing is said"


# --- the command ------------------------------------------------------------------------------------------


def test_pack_orders_by_the_default_ranking_or_by_another(tmp_path: Path, contents: Contents) -> None:
    source, out = str(tmp_path / "source"), str(tmp_path / "out")
    write_model(source, contents)
    runner = CliRunner()
    printed = runner.invoke(app, ["pack", source, "--order", "-o", out], catch_exceptions=False).stdout
    assert "ordered with" in printed and open_model(Path(out)).ordered == "first"
    arguments = ["pack", out, "--default-ranking", "second", "-o", out]
    assert "ordered with" not in runner.invoke(app, arguments, catch_exceptions=False).stdout
    runner.invoke(app, [*arguments, "--order"], catch_exceptions=False)
    assert open_model(Path(out)).ordered == "second"
    shown = json.loads(runner.invoke(app, ["inspect", out, "--json"], catch_exceptions=False).stdout)
    assert shown["ordered"] == "second" and shown["path_positions"] > 10
    assert "positions" in runner.invoke(app, ["inspect", out], catch_exceptions=False).stdout


def test_a_file_without_a_ranking_cannot_be_ordered(contents: Contents) -> None:
    with pytest.raises(OperatingPointError, match="no default ranking to order by; its rankings: none"):
        order_filters(drop_rankings(contents, ["first", "second"]))


# --- bits -------------------------------------------------------------------------------------------------


def with_bits(contents: Contents) -> Contents:
    """Ordered, with a path that goes from 8 bits to 4 and then narrower."""
    ordered = order_filters(contents)
    whole, narrow = SHAPE.hidden_sizes, (32, 16, 16)
    steps = [(whole, None), (whole, (48, 32, 16, 48)), (whole, (0, 0, 0, 0)), (narrow, (0, 0, 0, 0))]
    path = tuple(
        PathPosition(float(np.float32(SHAPE.cost_fraction(widths, bounds))), widths, bounds) for widths, bounds in steps
    )
    return replace(ordered, knob_path=path)


def test_a_path_with_bits_is_the_knob_of_its_file(tmp_path: Path, contents: Contents) -> None:
    file = written(tmp_path / "model", with_bits(contents))
    path, core = file.knob_path(), CoreModel(file.mapped_bytes())
    assert path == with_bits(contents).knob_path
    for position in path[1:]:
        point = choose(file, position.cost + 1e-6)
        assert (point.widths, point.bounds) == (position.widths, position.bounds)
        assert point.cost == pytest.approx(position.cost, abs=1e-7) and point.flops_fraction >= point.cost
        found = core.position_near(position.cost)
        assert (found.widths, found.bounds) == (position.widths, position.bounds)
        reference, cut_shape = cut(file.stored_weights(), SHAPE, point)  # in NumPy
        other = CoreModel(ordered_bytes(reference, cut_shape, file.vocabulary))
        state, expected = other.start(), []
        for word in WORDS:
            state = other.step(other.full_position(), state, word)
            expected.append(other.log_probabilities(other.predict(other.full_position(), state)))
        assert np.array_equal(answers(file, point, "int8"), np.array(expected))
    with pytest.raises(OperatingPointError, match="smallest position"):
        choose(file, path[-1].cost / 2)


def test_below_all_that_was_graded_or_measured_a_path_with_bits_says_so(tmp_path: Path, contents: Contents) -> None:
    made = with_bits(contents)
    costs = [position.cost for position in made.knob_path]
    assert known_cost_down_to("graded", {"train": {"graded": 0.14}}, {"curve": [{"cost_fraction": 0.09}]}) == 0.09
    assert known_cost_down_to("graded", {"train": {"graded": 0.14}}, {"curve": [{"flops_fraction": 0.3}]}) == 0.14
    assert known_cost_down_to("taylor", {"train": {"graded": 0.14}}, {"curve": 3}) is None
    for measured in (costs[-2], costs[-1]):
        # In FLOPs, all of this path but its last position is the whole model: only the cost tells what was measured.
        curve = [{"flops_fraction": 1.0, "cost_fraction": None}, {"flops_fraction": 1.0, "cost_fraction": measured}]
        file = written(tmp_path / f"model-{measured}", replace(made, provenance={"curve": curve}))
        warnings = [unmeasured_warning(file, choose(file, cost + 1e-6)) for cost in costs[1:]]
        assert [bool(warning) for warning in warnings] == [False, False, measured > costs[-1]]
        if warnings[-1]:
            assert f"{costs[-1]:.1%} of the cost" in warnings[-1] and f"down to {measured:.1%} only" in warnings[-1]


@pytest.mark.parametrize("bounds", [(50, 40, 24), (8, 0, 0, 0), (64, 40, 24, 61), (-16, 0, 0, 0)])
def test_a_path_with_bounds_that_do_not_fit_is_not_written(
    tmp_path: Path, contents: Contents, bounds: tuple[int, ...]
) -> None:
    made = with_bits(contents)
    broken = (made.knob_path[0], made.knob_path[1]._replace(bounds=bounds))
    with pytest.raises(ModelFileError, match="bit bounds"):
        write_model(tmp_path / "model", replace(made, knob_path=broken))


def test_pack_in_4_bits_answers_as_the_knob_at_4_bits(tmp_path: Path, contents: Contents) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    file = written(source, with_bits(contents))
    runner = CliRunner()
    runner.invoke(app, ["pack", str(source), "--bits", "4", "-o", str(out)], catch_exceptions=False)
    packed = open_model(out)
    assert (packed.description.bits, packed.contents().bits) == (4, 4)
    at_4_bits = choose(file, file.knob_path()[2].cost + 1e-6)
    assert np.array_equal(answers(packed, full_point(SHAPE), "int8"), answers(file, at_4_bits, "int8"))
    assert [position.widths for position in packed.knob_path()] == [SHAPE.hidden_sizes, (32, 16, 16)]
    shown = json.loads(runner.invoke(app, ["inspect", str(out), "--json"], catch_exceptions=False).stdout)
    assert shown["bits"] == 4 and shown["bytes_by_plane"]["upper"] > 20 * shown["bytes_by_plane"]["lower"]
    assert shown["cost_by_part"]["layers.0"] == shown["flops_by_part"]["layers.0"] / 2
    assert "upper" in runner.invoke(app, ["inspect", str(out)], catch_exceptions=False).stdout


def test_bits_that_a_file_cannot_have_are_refused(tmp_path: Path, contents: Contents) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    write_model(source, with_bits(contents))
    rheostat.pack(source, out, bits=4)
    for asked, packed, message in ((3, source, "expected 4"), (8, out, "pack the original")):
        with pytest.raises(RheostatError, match=message):
            rheostat.pack(packed, tmp_path / "none", bits=asked)
    write_model(source, contents)
    with pytest.raises(ModelFileError, match="planes to choose from; order it"):
        rheostat.pack(source, tmp_path / "none", bits=4)


def test_planes_in_memory_are_the_matrices_of_the_file(tmp_path: Path, contents: Contents) -> None:
    ordered = order_filters(contents)
    with written(tmp_path / "model", ordered) as file:
        assert file.precision == "int8"
        for name, array in ordered.weights.items():
            assert np.array_equal(file.stored_weights()[name], array)


def test_cost_weighs_products_by_their_bits() -> None:
    shape = ModelShape(100, 20, (40, 20), (2, 1), (50,))
    layers, output = 2 * (3 * 40 * 40 + 3 * 20 * 40), 2 * 101 * 20
    assert shape.cost_fraction((40, 20)) == 1
    assert shape.cost_fraction((40, 20), (0, 0, 0)) * shape.flops == pytest.approx(layers / 2 + output - 100 * 20)
    assert shape.cost_fraction((40, 20), (40, 20, 48)) * shape.flops == pytest.approx(layers + output - 52 * 20)
    assert shape.cost_fraction((32, 20), (40, 20, 100)) == shape.flops_fraction((32, 20))
