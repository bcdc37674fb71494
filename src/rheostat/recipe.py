"""Recipes: all settings of a run, as a TOML file.

Each table (`[corpus]`, `[model]`, `[train]`, `[regularization]`) fills the frozen dataclass of its stage through
`tables.fill`; `--set table.key=value` changes one value. The resolved recipe is stored in the checkpoint and in the
model file. Knows where recipes are and how to read them; each stage checks its own values.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from rheostat.errors import RecipeError
from rheostat.inputs import read_input_text
from rheostat.tables import parse_toml, suggestion


def recipe_names(stage: str = "train") -> list[str]:
    """Names of the recipes that come with the package, for training or another stage."""
    folder = resources.files("rheostat.recipes") / stage
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def read_recipe(
    recipe: str | Path | Mapping[str, Any], changes: Sequence[str] = (), stage: str = "train"
) -> dict[str, Any]:
    """The tables of a recipe, which can be a name, a path or tables, with `table.key=value` changes applied."""
    tables = copy.deepcopy(dict(recipe)) if isinstance(recipe, Mapping) else _parse(str(recipe), stage)
    for change in changes:
        _apply_change(tables, change)
    return tables


def _parse(name_or_path: str, stage: str) -> dict[str, Any]:
    text, origin = _recipe_text(name_or_path, stage)
    try:
        return parse_toml(text)
    except RecipeError as error:
        raise RecipeError(f"{origin}: {error}") from None


def _recipe_text(name_or_path: str, stage: str) -> tuple[str, str]:
    names = recipe_names(stage)
    if name_or_path in names:
        packaged = resources.files("rheostat.recipes") / stage / f"{name_or_path}.toml"
        return packaged.read_text(encoding="utf-8"), f"recipe {name_or_path}"
    path = Path(name_or_path)
    try:
        if path.is_file():
            return read_input_text(path, "recipe or policy"), str(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RecipeError(f"cannot read the recipe {path}: {reason}") from None
    raise RecipeError(
        f"no recipe '{name_or_path}'{suggestion(name_or_path, names)}; expected one of {', '.join(names)}, "
        "or the path to a .toml file"
    )


def _apply_change(tables: dict[str, Any], change: str) -> None:
    key, equals, value = change.partition("=")
    table, dot, name = key.strip().partition(".")
    if not (equals and dot and name):
        raise RecipeError(f"a change of the recipe is '{change}'; expected table.key=value, for example train.epochs=2")
    try:
        parsed = parse_toml(f"value = {value.strip()}")["value"]
    except RecipeError:
        parsed = value.strip()  # a bare word is a string: --set train.optimizer=adam
    if not isinstance(tables.setdefault(table, {}), dict):
        raise RecipeError(f"the change {change}: '{table}' is not a table in the recipe")
    tables[table][name] = parsed
