"""Recipes: reading, changing, and errors for mistakes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from rheostat.errors import ModelFileError, RecipeError, RheostatError
from rheostat.recipe import read_recipe, recipe_names
from rheostat.tables import fill, from_json


@dataclass(frozen=True)
class Inner:
    epochs: int = 1
    rate: float = 0.5
    kind: Literal["a", "b"] = "a"
    sizes: tuple[int, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError("epochs must be at least 1")


@dataclass(frozen=True)
class Outer:
    data: str = ""
    train: Inner = field(default_factory=Inner)


def test_the_recipes_of_the_papers_are_shipped() -> None:
    assert {"tiny", "chat", "ptb", "ptb-fast", "wikitext2", "wikitext103"} <= set(recipe_names())


def test_tables_fill_dataclasses() -> None:
    recipe = fill(Outer, {"data": "x", "train": {"epochs": 3, "rate": 2, "sizes": [1, 2], "counts": {"<eos>": 4}}})
    assert recipe == Outer("x", Inner(3, 2.0, "a", (1, 2), {"<eos>": 4}))


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"trian": {}}, "unknown table 'trian' (did you mean 'train'?)"),
        ({"train": {"epoch": 2}}, "unknown key 'epoch' (did you mean 'epochs'?)"),
        ({"train": {"epochs": "two"}}, "train.epochs is 'two'; expected a whole number"),
        ({"train": {"epochs": True}}, "train.epochs is True; expected a whole number"),
        ({"train": {"kind": "c"}}, "train.kind is 'c'; expected one of 'a', 'b'"),
        ({"train": {"sizes": 3}}, "train.sizes is 3; expected a list"),
        ({"train": {"sizes": [1, "x"]}}, "train.sizes[1] is 'x'; expected a whole number"),
        ({"train": {"counts": {"w": "x"}}}, "train.counts.w is 'x'; expected a whole number"),
        ({"train": 3}, "train is 3; expected a table"),
        ({"train": {"epochs": 0}}, "train: epochs must be at least 1"),
    ],
)
def test_a_mistake_in_a_recipe_is_named(tables: dict[str, object], message: str) -> None:
    with pytest.raises(RecipeError) as error:
        fill(Outer, tables)
    assert message in str(error.value)


def test_changes_are_read_as_toml_values(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text("[train]\nepochs = 1\n")
    tables = read_recipe(str(path), ["train.epochs=7", "train.kind=b", "train.sizes=[1, 2]", "other.rate = 1e-3"])
    assert tables == {"train": {"epochs": 7, "kind": "b", "sizes": [1, 2]}, "other": {"rate": 1e-3}}


@pytest.mark.parametrize("change", ["train.epochs", "epochs=3", "=", "train.=3"])
def test_a_change_that_cannot_be_read_is_refused(change: str) -> None:
    with pytest.raises(RecipeError, match=r"table\.key=value"):
        read_recipe("tiny", [change])


def test_an_unknown_recipe_suggests_the_nearest() -> None:
    with pytest.raises(RecipeError, match="did you mean 'wikitext2'"):
        read_recipe("wikitext")


def test_invalid_toml_is_an_error_that_names_the_place(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text("[train\n")
    with pytest.raises(RecipeError, match="not valid TOML"):
        read_recipe(str(path))


def test_a_name_that_no_file_can_have_is_refused_in_one_line() -> None:
    with pytest.raises(RecipeError, match="too long"):
        read_recipe("x" * 300, [])


def test_null_in_json_means_the_default() -> None:
    assert from_json(Outer, {"data": None, "train": {"epochs": 3, "rate": None}}, "run") == Outer("", Inner(3))


def test_json_can_have_keys_of_later_versions_if_the_reader_allows_it() -> None:
    assert from_json(Outer, {"later": 1, "train": {"later": 2}}, "run", ignore_unknown=True) == Outer()
    with pytest.raises(RheostatError, match="run has an unknown key 'later'"):
        from_json(Outer, {"later": 1}, "run")


def test_mistakes_in_json_raise_the_requested_error() -> None:
    for wrong, message in (
        ([], r"run is \[\]; expected an object"),
        ({"train": {"rate": "x"}}, r"run\.train\.rate is 'x'; expected a number"),
    ):
        with pytest.raises(ModelFileError, match=message):
            from_json(Outer, wrong, "run", error=ModelFileError)


@pytest.mark.parametrize(
    ("stage", "name", "trained_by", "own"),
    [
        ("l0", "paper", "ptb", {"steps": 5000, "optimizer": "adam", "learning_rate": 5e-3}),
        ("recover", "ptb", "ptb", {"epochs": 10, "nonmonotone_interval": 3}),
        ("recover", "adam", "wikitext103", {"steps": 2000, "optimizer": "adam", "learning_rate": 5e-3}),
    ],
)
def test_the_papers_recipes_keep_what_training_had(stage: str, name: str, trained_by: str, own: dict[str, Any]) -> None:
    """ "All other hyperparameters were the same as those used during the training stage" (section 4.2)."""
    recipe, training = read_recipe(name, [], stage=stage), read_recipe(trained_by, [])
    assert recipe["regularization"] == training["regularization"]
    kept = ("batch_size", "sequence_length", "clip")
    assert {key: recipe["train"][key] for key in kept} == {key: training["train"][key] for key in kept}
    assert own.items() <= recipe["train"].items()
    if stage == "l0":
        assert "weight_decay" not in recipe["train"]  # incompatible with the objective: the paper left it out
