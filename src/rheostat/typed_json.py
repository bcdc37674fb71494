"""JSON values into frozen dataclasses and back, by their type annotations: the one reader of typed JSON.

Knows annotations and plain values; what the fields mean belongs to the dataclasses. Reading is strict: a field without
a default must be present, an unknown key is an error, numbers are finite, and an integer is never a boolean. Recipes,
which are TOML with suggestions for typing errors, are read by `recipe`.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, field, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

KINDS = {int: "an integer", float: "a number", str: "a text", bool: "true or false"}
_NOT_WRITTEN = {"written": False}


class JsonValueError(ValueError):
    """A value that does not fit its annotation: where it is, what was found, what was expected."""


def not_written(default: Any) -> Any:
    """A dataclass field that exists in memory only."""
    return field(default=default, compare=False, repr=False, metadata=_NOT_WRITTEN)


def to_json(value: Any) -> Any:
    """Plain JSON values of a dataclass, or of what its fields hold."""
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: to_json(getattr(value, item.name)) for item in _written(type(value))}
    if isinstance(value, Mapping):
        return {str(key): to_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(entry) for entry in value]
    return value


def from_json(kind: type[T], value: Any, place: str) -> T:
    """A dataclass from its JSON object. place: what to call the object in an error, such as "rows[3]"."""
    if not isinstance(value, Mapping):
        raise JsonValueError(f"{place} is {_shown(value)}; expected an object")
    known, hints = {item.name: item for item in _written(kind)}, get_type_hints(kind)
    if unknown := [key for key in value if key not in known]:
        raise JsonValueError(f"{place} has an unknown key {unknown[0]!r}; expected {', '.join(known)}")
    required = [name for name, item in known.items() if item.default is MISSING and item.default_factory is MISSING]
    if missing := [name for name in required if name not in value]:
        raise JsonValueError(f"{place} lacks {missing[0]!r}")
    try:
        return kind(**{name: _convert(hints[name], entry, f"{place}.{name}") for name, entry in value.items()})
    except JsonValueError:
        raise
    except Exception as error:  # a dataclass checks its own values, with errors of its own package
        raise JsonValueError(f"{place}: {error}") from None


def _written(kind: Any) -> list[Field[Any]]:
    return [item for item in fields(kind) if item.metadata.get("written", True)]


def _convert(hint: Any, value: Any, place: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if is_dataclass(hint) and isinstance(hint, type):
        return from_json(hint, value, place)
    if origin in (Union, types.UnionType):
        return _convert_union(arguments, value, place)
    if origin is Literal:
        if value not in arguments:
            raise JsonValueError(f"{place} is {_shown(value)}; expected {' or '.join(map(repr, arguments))}")
        return value
    if origin is tuple:
        return _convert_tuple(arguments, value, place)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise JsonValueError(f"{place} is {_shown(value)}; expected an object")
        return {str(key): _convert(arguments[1], entry, f"{place}.{key}") for key, entry in value.items()}
    return _convert_scalar(hint, value, place)


def _convert_tuple(arguments: Sequence[Any], value: Any, place: str) -> tuple[Any, ...]:
    """tuple[X, ...] of any length, or one annotation for each entry."""
    if not isinstance(value, list | tuple):
        raise JsonValueError(f"{place} is {_shown(value)}; expected a list")
    if arguments[-1] is Ellipsis:
        return tuple(_convert(arguments[0], entry, f"{place}[{index}]") for index, entry in enumerate(value))
    if len(value) != len(arguments):
        raise JsonValueError(f"{place} has {len(value)} entries; expected {len(arguments)}")
    pairs = zip(arguments, value, strict=True)
    return tuple(_convert(hint, entry, f"{place}[{index}]") for index, (hint, entry) in enumerate(pairs))


def _convert_union(members: Sequence[Any], value: Any, place: str) -> Any:
    """The first member that fits; of dataclasses that have a `kind`, the one of the value's kind."""
    if value is None and type(None) in members:
        return None
    members = [member for member in members if member is not type(None)]
    if isinstance(value, Mapping):
        members = [member for member in members if value.get("kind") in _kinds(member)] or members
    problems = []
    for member in members:
        try:
            return _convert(member, value, place)
        except JsonValueError as problem:
            problems.append(problem)
    raise problems[0]


def _kinds(member: Any) -> tuple[Any, ...]:
    return get_args(get_type_hints(member).get("kind")) if is_dataclass(member) else ()


def _convert_scalar(hint: Any, value: Any, place: str) -> Any:
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is not hint or (hint is float and not math.isfinite(value)):
        raise JsonValueError(f"{place} is {_shown(value)}; expected {KINDS.get(hint, hint)}")
    return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
