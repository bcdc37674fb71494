"""Names and digests are stored in model and results files, so they must never change."""

from __future__ import annotations

import numpy as np
import pytest

from models import GOLDEN, TINY, make_point
from rheostat.errors import ModelFileError
from rheostat.model.file import open_model
from rheostat.model.names import check_name, part_of, point_tensors, scale_name, scores_name
from rheostat.model.origin import digest_of

LEGAL = ("a", "l0-0.8", "random-0.6+lr", "mean-activation-searched-0.4", "A_b.c@%=,:~-", "x" * 80)
PATHS = ("/some/dir", "../x", "a/b", "a\\b", ".", "..", ".hidden")
NO_NAMES = (*PATHS, "", "-o", "a b", "a\n", "ä", "x" * 81, "a\0", 3, None)


@pytest.mark.parametrize("name", LEGAL)
def test_legal_names_pass(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", NO_NAMES)
def test_names_that_could_leave_their_folder_or_tensor_are_refused(name: object) -> None:
    with pytest.raises(ModelFileError, match="in --name; expected up to 80 letters, digits and signs") as caught:
        check_name(name, "--name")
    assert "\n" not in str(caught.value)


def test_tensor_names_are_those_of_the_format() -> None:
    assert scores_name("norm", 2) == "rankings.norm.2"
    assert point_tensors("l0-0.5", 1) == (
        "points.l0-0.5.keep.1", "points.l0-0.5.gate.1", "points.l0-0.5.update.1.u", "points.l0-0.5.update.1.v",
        "points.l0-0.5.bias.1",
    )  # fmt: skip
    assert scale_name("layers.0.weight") == "layers.0.weight.scale"
    assert [part_of(name) for name in ("layers.2.weight.scale", "rankings.norm.1")] == ["layers.2", "rankings"]


def test_digests_never_change() -> None:
    with open_model(GOLDEN / "golden-int8.safetensors") as file:
        assert file.weights_digest() == "b6356243ab07b8c7"
        assert [point.digest for point in file.points()] == ["430cc561e5666ed0", "49ffaf5a44212d7a"]


def test_a_digest_distinguishes_names_types_shapes_and_values() -> None:
    ones = np.ones((2, 3), np.float32)
    different = [[ones], {"a": ones}, {"b": ones}, [ones.T], [ones.astype(np.float64)], [2 * ones], [ones, ones]]
    assert len({digest_of(arrays) for arrays in different}) == len(different)
    assert digest_of([np.ones((3, 2), np.float32).T]) == digest_of([ones]), "however it lies in memory"


def test_an_origin_does_not_change_a_digest() -> None:
    point = make_point(TINY["qrnn"])
    with open_model(GOLDEN / "golden-version-2.safetensors") as file:
        assert file.weights_digest() == "b6356243ab07b8c7"
        assert file.points()[0].digest == "430cc561e5666ed0" != point.digest
