"""Rankings, selecting a point for a share of the FLOPs, and checks of points. Cutting is in parity/test_cut.py."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import PTB_QRNN, TINY, WT103_QRNN, make_point, make_ranking, make_weights
from rheostat.errors import OperatingPointError
from rheostat.model.cut import cut
from rheostat.model.operating_point import FULL, OperatingPoint, Ranking, Update, full_point
from rheostat.model.shape import ModelShape
from rheostat.model.widths import select

# Its FLOPs are proportional to its only width, so every tenth of them is possible exactly.
LINEAR = ModelShape(20, 10, (10,), (1,))


@st.composite
def shapes(draw: st.DrawFn) -> ModelShape:
    hidden_sizes = tuple(draw(st.lists(st.integers(1, 12), min_size=1, max_size=4)))
    windows = tuple(draw(st.integers(1, 3)) for _ in hidden_sizes)
    return ModelShape(draw(st.integers(2, 30)), hidden_sizes[-1], hidden_sizes, windows)


def all_uniform_widths(shape: ModelShape) -> Iterator[tuple[int, ...]]:
    """The widths of every distinct keep fraction, from the definition."""
    fractions = {Fraction(kept, size) for size in shape.hidden_sizes for kept in range(size + 1)}
    for fraction in fractions:
        yield tuple(max(1, int(fraction * size)) for size in shape.hidden_sizes)


@given(shapes(), st.integers(1, 100))
def test_the_uniform_point_is_the_largest_within_the_target(shape: ModelShape, percent: int) -> None:
    limit = Fraction(percent, 100) * shape.flops
    affordable = [widths for widths in all_uniform_widths(shape) if shape.with_hidden_sizes(widths).flops <= limit]
    ranking = make_ranking(shape)
    if not affordable:
        with pytest.raises(OperatingPointError, match="the smallest position of this model is"):
            select(ranking, shape, percent / 100)
        return
    point = select(ranking, shape, percent / 100)
    assert point.widths == max(affordable)
    assert point.flops_fraction == shape.flops_fraction(point.widths)
    point.check(shape)


@given(shapes(), st.lists(st.integers(1, 100), min_size=2, max_size=5))
def test_points_of_one_ranking_nest(shape: ModelShape, percents: list[int]) -> None:
    ranking = make_ranking(shape)
    smallest = shape.flops_fraction([1] * len(shape.hidden_sizes))
    points = [select(ranking, shape, max(percent / 100, smallest)) for percent in sorted(percents)]
    for smaller, larger in pairwise(points):
        for layer in range(len(shape.hidden_sizes)):
            assert set(smaller.keep[layer]) <= set(larger.keep[layer])


def test_ptb_qrnn_at_80_percent_has_the_widths_of_the_paper() -> None:
    point = select(make_ranking(PTB_QRNN), PTB_QRNN, 0.8)
    assert point.widths == (1355, 1355, 1355, 349)
    assert point.flops_fraction == pytest.approx(0.79920, abs=1e-5)
    one_more = PTB_QRNN.flops_fraction((1356, 1356, 1356, 349))
    assert one_more > 0.8, "the next keep fraction exceeds the target"


@pytest.mark.parametrize("shape", [PTB_QRNN, WT103_QRNN])
@pytest.mark.parametrize("share", [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.1])
def test_full_size_models_come_within_two_thousandths_of_the_target(shape: ModelShape, share: float) -> None:
    found = select(make_ranking(shape), shape, share).flops_fraction
    assert share - 0.003 < found <= share


@pytest.mark.parametrize("tenths", range(1, 11))
def test_a_share_means_its_decimal(tenths: int) -> None:
    # In binary, 0.3, 0.6 and 0.7 are slightly less, which must not cost a filter.
    assert select(make_ranking(LINEAR), LINEAR, tenths / 10).widths == (tenths,)


@given(shapes(), st.integers(1, 100))
def test_asking_for_the_share_of_a_point_gives_that_point(shape: ModelShape, percent: int) -> None:
    ranking = make_ranking(shape)
    smallest = shape.flops_fraction([1] * len(shape.hidden_sizes))
    point = select(ranking, shape, max(percent / 100, smallest))
    assert select(ranking, shape, point.flops_fraction).widths == point.widths


def test_a_share_of_one_is_the_unpruned_model() -> None:
    point = select(make_ranking(PTB_QRNN), PTB_QRNN, 1.0)
    assert point.is_full(PTB_QRNN)
    assert point.flops_fraction == 1.0


def test_the_smallest_share_named_in_an_error_works() -> None:
    ranking = make_ranking(PTB_QRNN)
    with pytest.raises(OperatingPointError) as caught:
        select(ranking, PTB_QRNN, 1e-5)
    (smallest,) = re.findall(r"of this model is ([\d.]+)", str(caught.value))
    assert select(ranking, PTB_QRNN, float(smallest)).widths == (1, 1, 1, 1)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.01, 80, float("nan"), float("inf")])
def test_a_knob_out_of_range_is_refused(share: float) -> None:
    with pytest.raises(OperatingPointError, match=r"expected a share of the cost in \(0, 1\], such as 0\.8 for 80 %"):
        select(make_ranking(LINEAR), LINEAR, share)


def test_only_qrnn_models_have_points() -> None:
    shape = TINY["lstm"]
    with pytest.raises(OperatingPointError, match="cell 'lstm'; only 'qrnn'"):
        select(make_ranking(shape), shape, 0.5)
    point = OperatingPoint("half", "", (np.arange(2, dtype=np.int32),) * 2)
    with pytest.raises(OperatingPointError, match="cell 'lstm'; only 'qrnn'"):
        cut(make_weights(shape), shape, point)
    weights = make_weights(shape)
    same, same_shape = cut(weights, shape, full_point(shape))
    assert same_shape == shape
    assert all(same[name] is array for name, array in weights.items())


def test_the_best_filters_are_kept_in_ascending_order() -> None:
    ranking = Ranking("r", "c", (np.array([5, 1, 9, 7, 3, 0, 8, 2, 6, 4], np.float32),))
    point = select(ranking, LINEAR, 0.3)
    assert point.keep[0].tolist() == [2, 3, 6]
    assert point.keep[0].dtype == np.int32
    assert (point.name, point.criterion, point.preferred) == ("r-0.3", "c", False)


def test_between_equal_scores_the_lower_index_comes_first() -> None:
    ranking = Ranking("r", "c", (np.array([0.0, 1.0, -0.0, 1.0, 0.0], np.float32),))
    assert ranking.order(0).tolist() == [1, 3, 0, 2, 4]


def test_a_ranking_of_another_model_is_refused() -> None:
    with pytest.raises(OperatingPointError, match="ranking 'random' has scores of shapes"):
        select(make_ranking(LINEAR), PTB_QRNN, 0.5)


def test_a_ranking_with_a_score_that_is_not_a_number_is_refused() -> None:
    ranking = Ranking("r", "c", (np.full(10, np.nan, np.float32),))
    with pytest.raises(OperatingPointError, match="not finite in layer 0"):
        select(ranking, LINEAR, 0.5)


def test_the_full_point_keeps_everything() -> None:
    shape = TINY["qrnn"]
    point = full_point(shape)
    point.check(shape)
    assert point.name == FULL
    assert point.is_full(shape)
    assert point.cut_shape(shape) == shape


def test_gates_of_one_and_no_gates_are_the_same() -> None:
    shape = TINY["qrnn"]
    ones = tuple(np.ones(size, np.float32) for size in shape.hidden_sizes)
    assert replace(full_point(shape), gates=ones).is_full(shape)


def test_gates_on_an_uncut_last_layer_make_a_separate_output_layer() -> None:
    shape = ModelShape(5, 2, (3, 2), (1, 1))
    gates = (None, np.array([0.5, 1.0], np.float32))
    gated = replace(full_point(shape), gates=gates).cut_shape(shape)
    assert gated.is_cut
    assert gated.tensor_shapes()["output.weight"] == (5, 2)
    assert gated.flops == shape.flops


Keep = tuple[np.ndarray[tuple[int], np.dtype[np.int32]], ...]


def keep_of(*indices: list[int]) -> Keep:
    return tuple(np.array(list_, np.int32) for list_ in indices)


def test_a_wrong_point_is_an_error_that_names_the_fault() -> None:
    shape = ModelShape(5, 2, (3, 2), (2, 1))
    good = OperatingPoint("p", "c", keep_of([0, 2], [1]), flops_fraction=0.5)
    good.check(shape)
    u, v = np.zeros((6, 1), np.float32), np.zeros((1, 4), np.float32)
    replace(good, updates=(Update(u, v), None)).check(shape)
    wrong = {
        "keep for 1 layers": replace(good, keep=keep_of([0])),
        "gates for 1 layers": replace(good, gates=(None,)),
        "out of order or range in layer 0": replace(good, keep=keep_of([2, 0], [1])),
        "order or range in layer 1; expected ascending, 0 to 1": replace(good, keep=keep_of([0], [2])),
        "out of order": replace(good, keep=keep_of([-1, 0], [1])),
        "1 to 3 whole numbers": replace(good, keep=keep_of([], [1])),
        "keeps float32": replace(good, keep=(np.zeros(1, np.float32), good.keep[1])),
        r"gates of shape \[1\] in layer 0; expected \[2\]": replace(good, gates=(np.ones(1, np.float32), None)),
        r"a gate outside \(0, 1\] in layer 1": replace(good, gates=(None, np.zeros(1, np.float32))),
        r"expected \[6, rank\] and \[rank, 4\]": replace(good, updates=(Update(u[1:], v), None)),
        r"shapes \[6, 1\] and \[1, 3\]": replace(good, updates=(Update(u, v[:, 1:]), None)),
        "an update that is not finite": replace(good, updates=(Update(u + np.nan, v), None)),
        r"flops_fraction 0, cost 0; expected shares in \(0, 1\]": replace(good, flops_fraction=0),
    }
    for message, point in wrong.items():
        with pytest.raises(OperatingPointError, match=message):
            point.check(shape)


def test_weights_of_another_shape_are_refused() -> None:
    shape = TINY["qrnn"]
    weights = make_weights(shape)
    point = make_point(shape)
    with pytest.raises(OperatingPointError, match=r"nothing for layers\.1\.bias; expected \(18,\)"):
        cut({name: array for name, array in weights.items() if name != "layers.1.bias"}, shape, point)
    with pytest.raises(OperatingPointError, match=r"\(2, 3\) for embedding\.weight; expected \(11, 4\)"):
        cut(weights | {"embedding.weight": np.zeros((2, 3), np.float32)}, shape, point)


def test_a_point_and_a_ranking_print_as_one_line() -> None:
    shape = TINY["qrnn"]
    ranking, point = make_ranking(PTB_QRNN), make_point(shape)
    cut_by_it = select(ranking, PTB_QRNN, 0.8)
    assert repr(cut_by_it) == "OperatingPoint('random-0.8', 79.9 % of the FLOPs, widths 1355 1355 1355 349)"
    assert repr(point) == "OperatingPoint('l0-0.5', 37.4 % of the FLOPs, widths 3 3 2, gates, rank-2 update)"
    assert repr(ranking) == "Ranking('random', 'random', filters 1550 1550 1550 400)"
