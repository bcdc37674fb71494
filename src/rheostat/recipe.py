"""Recipes: every choice of a run, as a TOML file.

A table fills the frozen dataclass of its stage (`[corpus]`, `[model]`, `[train]`, `[regularization]`); `--set
table.key=value` changes one value. An unknown key is an error that suggests the nearest one. The resolved recipe
is saved in the checkpoint and in the model file. Knows how to read tables; each stage knows what its values mean.
"""

from __future__ import annotations

import copy
import difflib
import tomllib
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from rheostat.errors import RecipeError

T = TypeVar("T")

KINDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def recipe_names(stage: str = "train") -> list[str]:
    """The recipes that come with the package, for training or another stage."""
    folder = resources.files("rheostat.recipes") / stage
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def read_recipe(
    recipe: str | Path | Mapping[str, Any], changes: Sequence[str] = (), stage: str = "train"
) -> dict[str, Any]:
    """The tables of a recipe, given by name, by path or as tables, with `table.key=value` changes applied."""
    tables = copy.deepcopy(dict(recipe)) if isinstance(recipe, Mapping) else _parse(str(recipe), stage)
    for change in changes:
        _apply_change(tables, change)
    return tables


def _parse(name_or_path: str, stage: str) -> dict[str, Any]:
    text, origin = _recipe_text(name_or_path, stage)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"{origin} is not valid TOML: {error}") from None


def _recipe_text(name_or_path: str, stage: str) -> tuple[str, str]:
    names = recipe_names(stage)
    if name_or_path in names:
        packaged = resources.files("rheostat.recipes") / stage / f"{name_or_path}.toml"
        return packaged.read_text(encoding="utf-8"), f"recipe {name_or_path}"
    path = Path(name_or_path)
    try:
        if path.is_file():
            return path.read_text(encoding="utf-8"), str(path)
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"cannot read the recipe {path}: {error}") from None
    raise RecipeError(
        f"no recipe '{name_or_path}'{_suggestion(name_or_path, names)}; expected one of {', '.join(names)}, "
        "or the path of a .toml file"
    )


def _apply_change(tables: dict[str, Any], change: str) -> None:
    key, equals, value = change.partition("=")
    table, dot, name = key.strip().partition(".")
    if not (equals and dot and name):
        raise RecipeError(f"--set got '{change}'; expected table.key=value, for instance train.epochs=2")
    try:
        parsed = tomllib.loads(f"value = {value.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()  # a bare word is a string: --set train.optimizer=adam
    if not isinstance(tables.setdefault(table, {}), dict):
        raise RecipeError(f"--set {change}: '{table}' is not a table of the recipe")
    tables[table][name] = parsed


def fill(config: type[T], tables: Mapping[str, Any], where: str = "the recipe") -> T:
    """An instance of a (nested) configuration dataclass from tables of plain values."""
    known = {item.name: item for item in fields(config)}  # type: ignore[arg-type]
    hints = get_type_hints(config)
    for key in tables:
        if key not in known:
            kind = "table" if where == "the recipe" else "key"
            raise RecipeError(
                f"{where} has an unknown {kind} '{key}'{_suggestion(key, known)}; expected {', '.join(known)}"
            )
    values: dict[str, Any] = {}
    for name, item in known.items():
        if name in tables:
            values[name] = _convert(tables[name], hints[name], f"{where.removeprefix('the recipe')}.{name}".lstrip("."))
        elif item.default is MISSING and item.default_factory is MISSING:
            raise RecipeError(f"{where} lacks '{name}', which has no default")
    try:
        return config(**values)
    except ValueError as error:
        raise RecipeError(f"{where}: {error}") from None


def _convert(value: Any, hint: Any, where: str) -> Any:
    """Check a TOML value against a type annotation; lists become tuples."""
    origin, arguments = get_origin(hint), get_args(hint)
    if is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, Mapping):
            raise RecipeError(f"{where} is {value!r}; expected a table")
        return fill(hint, value, where)
    if origin is Literal:
        if value not in arguments:
            expected = ", ".join(repr(a) for a in arguments)
            raise RecipeError(
                f"{where} is {value!r}{_suggestion(str(value), map(str, arguments))}; expected one of {expected}"
            )
        return value
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise RecipeError(f"{where} is {value!r}; expected a list")
        return tuple(_convert(entry, arguments[0], f"{where}[{index}]") for index, entry in enumerate(value))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise RecipeError(f"{where} is {value!r}; expected a table")
        return {str(key): _convert(entry, arguments[1], f"{where}.{key}") for key, entry in value.items()}
    if origin in (Union, types.UnionType):
        return None if value is None else _convert(value, next(a for a in arguments if a is not type(None)), where)
    return _convert_scalar(value, hint, where)


def _convert_scalar(value: Any, hint: type, where: str) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise RecipeError(f"{where} is a number of {len(str(value))} digits; expected a smaller one") from None
    # bool is a subclass of int, but a recipe that says `epochs = true` is still a mistake
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise RecipeError(f"{where} is {value!r}; expected {KINDS.get(hint, hint.__name__)}")
    return value


def _suggestion(found: str, known: Any) -> str:
    nearest = difflib.get_close_matches(found, list(known), n=1)
    return f" (did you mean '{nearest[0]}'?)" if nearest else ""
