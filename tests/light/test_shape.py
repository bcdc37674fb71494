"""Counts of parameters and FLOPs: by hand, for the presets, and against the storage in the paper."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest

from models import PTB_QRNN, WT103_QRNN, make_ranking
from rheostat.model.flops import executed_flops, flops_by_part
from rheostat.model.shape import MAXIMUM_WIDTH, ModelShape
from rheostat.model.widths import select

KILOBYTE = 1000
FLOAT_BYTES = 4

# Two layers: 3 filters over windows of two inputs of width 2, then 2 filters; 5 words.
BY_HAND = ModelShape(5, 2, (3, 2), (2, 1))


def test_counts_of_a_hand_computed_model() -> None:
    assert BY_HAND.tensor_shapes() == {
        "embedding.weight": (5, 2),
        "output.bias": (5,),
        "layers.0.weight": (9, 4),
        "layers.0.bias": (9,),
        "layers.1.weight": (6, 3),
        "layers.1.bias": (6,),
    }
    assert BY_HAND.parameters == 10 + 5 + 36 + 9 + 18 + 6
    assert flops_by_part(BY_HAND) == {"layers.0": 72, "layers.1": 36, "output": 20}
    assert BY_HAND.flops == 128


def test_counts_of_the_same_model_cut() -> None:
    cut = BY_HAND.with_hidden_sizes((2, 1))
    assert cut.is_cut
    assert cut.tensor_shapes()["output.weight"] == (5, 1)
    assert cut.tensor_shapes()["embedding.weight"] == (5, 2), "the input embedding keeps its columns"
    assert flops_by_part(cut) == {"layers.0": 2 * 6 * 4, "layers.1": 2 * 3 * 2, "output": 2 * 5}
    assert BY_HAND.flops_fraction((2, 1)) == 70 / 128


def test_lstm_has_two_matrices_in_each_layer() -> None:
    shape = ModelShape(5, 2, (3, 2), (), cell="lstm")
    assert flops_by_part(shape) == {"layers.0": 2 * 12 * (2 + 3), "layers.1": 2 * 8 * (3 + 2), "output": 20}


def test_clusters_are_counted_as_part_of_the_output() -> None:
    shape = ModelShape(5, 2, (2,), (1,), (2, 4))
    assert shape.tensor_shapes()["clusters.weight"] == (2, 2)
    assert flops_by_part(shape)["output"] == 2 * (5 + 2) * 2


def test_ptb_qrnn_has_the_parameters_and_flops_of_the_paper() -> None:
    assert PTB_QRNN.parameters == 24_020_150
    assert PTB_QRNN.flops == 47_990_000
    assert sum(flops_by_part(PTB_QRNN).values()) == PTB_QRNN.flops


def test_mean_activation_statistics_of_ptb_qrnn_are_5050_floats() -> None:
    assert PTB_QRNN.filters == 5_050


@pytest.mark.parametrize(("shape", "share", "kilobytes"), [(PTB_QRNN, 0.8, 74), (WT103_QRNN, 0.7, 120)])
def test_single_rank_update_takes_the_storage_of_the_paper(shape: ModelShape, share: float, kilobytes: int) -> None:
    point = select(make_ranking(shape), shape, share)
    update_bytes = FLOAT_BYTES * sum(prod(u) + prod(v) for u, v in point.cut_shape(shape).update_shapes())
    assert update_bytes < kilobytes * KILOBYTE
    assert update_bytes > 0.75 * kilobytes * KILOBYTE


def test_three_updates_instead_of_one_for_the_stacked_matrix_would_not_fit_the_paper() -> None:
    cut = PTB_QRNN.with_hidden_sizes((1355, 1355, 1355, 349))
    apart = sum(u[0] + 3 * v[1] for u, v in cut.update_shapes())
    assert apart * FLOAT_BYTES > 74 * KILOBYTE


def test_flops_are_monotone_in_the_knob() -> None:
    ranking = make_ranking(PTB_QRNN)
    knob = [percent / 100 for percent in range(5, 101, 5)]
    flops = [select(ranking, PTB_QRNN, share).cut_shape(PTB_QRNN).flops for share in knob]
    assert flops == sorted(flops)
    assert flops[-1] == PTB_QRNN.flops


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (ModelShape(5, 2, (), ()), "no hidden_sizes"),
        (ModelShape(5, 2, (2,), (1, 1)), "2 windows for 1 layers"),
        (ModelShape(0, 2, (2,), (1,)), "vocabulary_size of 0"),
        (
            ModelShape(5, 2, (MAXIMUM_WIDTH + 1,), (1,)),
            "hidden_sizes of 131073",
        ),
        (ModelShape(5, 2, (2.0,), (1,)), "hidden_sizes of 2.0"),  # type: ignore[arg-type]
        (ModelShape(5, 2, (True,), (1,)), "hidden_sizes of True"),
        (ModelShape(5, 2, (2,), (0,)), "windows of 0"),
        (ModelShape(5, 2, (2,), (1,), (3, 3)), "softmax_splits (3, 3)"),
        (ModelShape(5, 2, (2,), (1,), (5,)), "softmax_splits (5,)"),
        (ModelShape(5, 2, (2,), (2,), cell="lstm"), "windows (2,) of cell lstm"),
        (ModelShape(5, 2, (2,), (1,), cell="gru"), "cell 'gru'"),  # type: ignore[arg-type]
    ],
)
def test_impossible_sizes_are_an_error(shape: ModelShape, message: str) -> None:
    with pytest.raises(ValueError, match="expected") as caught:
        shape.check()
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("shape", [PTB_QRNN, WT103_QRNN, BY_HAND, ModelShape(5, 2, (2,), (), cell="lstm")])
def test_possible_sizes_pass(shape: ModelShape) -> None:
    shape.check()


def test_clusters_that_stay_closed_are_not_executed() -> None:
    assert WT103_QRNN.clusters[::3] == (slice(0, 2_800), slice(76_000, 267_735))
    assert PTB_QRNN.clusters == (slice(0, 10_000),)
    assert executed_flops(WT103_QRNN, [1, 1, 1]) == WT103_QRNN.flops
    assert WT103_QRNN.flops - executed_flops(WT103_QRNN, [1, 0, 0]) == 2 * 400 * (56_000 + 191_735)
    assert executed_flops(PTB_QRNN, []) == PTB_QRNN.flops


def test_the_output_layer_is_the_embedding_until_a_point_cuts_its_columns() -> None:
    assert PTB_QRNN.output_name == "embedding.weight"
    cut = PTB_QRNN.with_hidden_sizes((10, 10, 10, 300))
    for own in (cut, replace(PTB_QRNN, separate_output=True)):
        assert own.output_name == "output.weight" and own.output_name in own.tensor_shapes()
    assert "output.weight" not in PTB_QRNN.tensor_shapes()


def test_a_shape_as_json_is_its_sizes() -> None:
    assert WT103_QRNN.as_json() == {
        "vocabulary_size": 267_735,
        "embedding_size": 400,
        "hidden_sizes": [2500, 2500, 2500, 400],
        "windows": [2, 1, 1, 1],
        "softmax_splits": [2_800, 20_000, 76_000],
    }
