"""Frozen dataclasses from plain tables and back: TOML recipes and policies; JSON in files, results and requests.

Every value is checked against its field's type annotation, and lists become tuples. An unknown key is an error that
suggests the nearest known one, unless the caller ignores unknown keys. Knows types; the dataclass itself checks what
its values mean, and raises ValueError.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from rheostat.errors import RecipeError, RheostatError, show

T = TypeVar("T")

KINDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
RECIPE = "the recipe"
LARGEST_NUMBER = 2**63 - 1  # of whole numbers
DEEPEST = 64  # levels of values that have no type
LARGEST_TOML = 1 << 20  # characters; the longest recipe has two thousand


def fill(config: type[T], tables: Mapping[str, Any], where: str = RECIPE) -> T:
    """A (nested) dataclass from TOML tables; every mistake is a RecipeError. where: what messages call the tables."""
    return _Filler(RecipeError).fill(config, tables, where)


def from_json(
    kind: type[T],
    fields: object,
    where: str,
    *,
    error: type[RheostatError] = RheostatError,
    ignore_unknown: bool = False,
) -> T:
    """A (nested) dataclass from a JSON object, in which null means None or the field's default.

    Numbers must be finite. error: the class to raise. ignore_unknown: skip keys of later versions instead of refusing
    them.
    """
    filler = _Filler(error, ignore_unknown, null_is_absent=True)
    if not isinstance(fields, Mapping):
        raise filler.problem(where, fields, "an object")
    return filler.fill(kind, fields, where)


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text; a RecipeError if it is not TOML. Callers that know the file put its name first."""
    import tomllib  # here, because reading a model file does not need it

    if len(text) > LARGEST_TOML:
        raise RecipeError(f"it has {len(text):,} characters; expected at most {LARGEST_TOML:,}: choose another file")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise RecipeError("it is nested too deeply; expected a few levels of tables") from None
    except ValueError as error:  # TOMLDecodeError, or a whole number of thousands of digits
        raise RecipeError(f"it is not valid TOML: {str(error)[:200]}") from None


def decode_json(data: bytes | str) -> Any:
    """The value of a JSON text; a RheostatError if it is not JSON. Callers that know the file put its name first."""
    try:
        return json.loads(data.decode() if isinstance(data, bytes) else data)
    except RecursionError:
        raise RheostatError("it is nested too deeply; expected a few levels") from None
    except ValueError as error:  # not UTF-8, not JSON, or a whole number of thousands of digits
        raise RheostatError(f"it is not JSON: {str(error)[:200]}") from None


def to_json(value: Any) -> Any:
    """A dataclass, or the value of one of its fields, as plain JSON values."""
    if is_dataclass(value) and not isinstance(value, type):
        found = {item: getattr(value, item.name) for item in _stored(type(value))}
        return {item.name: to_json(one) for item, one in found.items() if not _is_left_out(item, one)}
    if isinstance(value, Mapping):
        return {str(key): to_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(entry) for entry in value]
    return value


def not_stored(default: Any) -> Any:
    """A dataclass field that exists only in memory: `to_json` leaves it out, and reading does not expect it."""
    return field(default=default, compare=False, repr=False, metadata={"stored": False})


def stored_if_set(default: Any) -> Any:
    """A dataclass field that is written only if it differs from its default, so that older files stay as they are."""
    return field(default=default, metadata={"sparse": True})


def _is_left_out(item: Field[Any], value: object) -> bool:
    return bool(item.metadata.get("sparse")) and value == item.default


def _stored(kind: Any) -> list[Field[Any]]:
    return [item for item in fields(kind) if item.metadata.get("stored", True)]


@dataclass(frozen=True)
class _Filler:
    """Fills dataclasses, with a choice of which error it raises and what it tolerates."""

    error: type[RheostatError]
    ignore_unknown: bool = False
    null_is_absent: bool = False

    def problem(self, where: str, found: object, expected: str) -> RheostatError:
        return self.error(f"{where:.200} is {show(found)}; expected {expected}")

    def fill(self, kind: type[T], table: Mapping[str, Any], where: str) -> T:
        known = {item.name: item for item in _stored(kind)}
        hints = _hints(kind)  # type: ignore[arg-type]  # a class has a hash
        if not self.ignore_unknown:
            self._check_keys(table, known, where)
        values: dict[str, Any] = {}
        for name, item in known.items():
            if name in table and not (self.null_is_absent and table[name] is None):
                place = f"{where.removeprefix(RECIPE)}.{name}".lstrip(".")
                values[name] = self._convert(table[name], hints[name], place)
            elif name in table and item.default is MISSING and type(None) in get_args(hints[name]):
                values[name] = None
            elif item.default is MISSING and item.default_factory is MISSING:
                raise self.error(f"{where} lacks '{name}', which has no default")
        try:
            return kind(**values)
        except (ValueError, RheostatError) as error:
            raise self.error(f"{where}: {error}") from None

    def _check_keys(self, table: Mapping[str, Any], known: Mapping[str, Any], where: str) -> None:
        for key in table:
            if key not in known:
                what = "table" if where == RECIPE else "key"
                raise self.error(
                    f"{where} has an unknown {what} '{key!s:.80}'{suggestion(key, known)}; expected {', '.join(known)}"
                )

    def _convert(self, value: Any, hint: Any, where: str) -> Any:
        """Check a value against a type annotation."""
        kind, arguments = get_origin(hint), get_args(hint)
        if hint is Any:
            return self._checked_plain(value, where)
        if is_dataclass(hint) and isinstance(hint, type):
            return self.fill(hint, self._table(value, where), where)
        if kind is Literal:
            if not any(value is one or (type(value) is type(one) and value == one) for one in arguments):
                near = suggestion(show(value).strip("'"), map(str, arguments))
                expected = ", ".join(repr(argument) for argument in arguments)
                raise self.error(f"{where:.200} is {show(value)}{near}; expected one of {expected}")
            return value
        if kind is tuple:
            if not isinstance(value, list | tuple):
                raise self.problem(where, value, "a list")
            hints = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else arguments
            if len(value) != len(hints):
                raise self.problem(where, value, f"a list of {len(hints)}")
            pairs = enumerate(zip(value, hints, strict=True))
            return tuple(self._convert(entry, hint, f"{where}[{index}]") for index, (entry, hint) in pairs)
        if isinstance(kind, type) and issubclass(kind, Mapping):
            table = self._table(value, where)
            return {str(key): self._convert(entry, arguments[1], f"{where}.{key}") for key, entry in table.items()}
        if kind in (Union, types.UnionType):
            return None if value is None else self._convert_union(value, arguments, where)
        return self._convert_scalar(value, hint, where)

    def _checked_plain(self, value: Any, where: str, levels: int = DEEPEST) -> Any:
        """Any value, if it can be printed, counted with and written back."""
        if not levels:
            raise self.error(f"{where:.200} is nested too deeply; expected at most {DEEPEST} levels")
        if isinstance(value, Mapping | list | tuple):
            for inner in value.values() if isinstance(value, Mapping) else value:
                self._checked_plain(inner, where, levels - 1)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            self._convert_scalar(value, type(value), where)
        return value

    def _convert_union(self, value: Any, members: Sequence[Any], where: str) -> Any:
        """The value as the first union member that fits; dataclasses with a `kind` are matched by it."""
        members = [member for member in members if member is not type(None)]
        if isinstance(value, Mapping) and "kind" in value:
            members = [member for member in members if value["kind"] in _kinds(member)] or members
        for member in members[:-1]:
            try:
                return self._convert(value, member, where)
            except self.error:
                continue
        return self._convert(value, members[-1], where)

    def _table(self, value: Any, where: str) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise self.problem(where, value, "a table")
        return value

    def _convert_scalar(self, value: Any, hint: type, where: str) -> Any:
        if isinstance(value, int) and abs(value) > LARGEST_NUMBER:
            raise self.error(f"{where:.200} is a number of {_digits(value)} digits; expected a smaller one")
        if hint is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        # bool is a subclass of int, but `epochs = true` in a recipe is still a mistake
        if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
            raise self.problem(where, value, KINDS.get(hint, hint.__name__))
        if self.null_is_absent and isinstance(value, float) and not math.isfinite(value):
            raise self.problem(where, value, "a finite number")
        return value


def _digits(value: int) -> int:
    """Decimal digits of a whole number, nearly: Python does not print one of thousands."""
    return round(value.bit_length() * math.log10(2))


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _kinds(member: Any) -> tuple[Any, ...]:
    return get_args(_hints(member).get("kind")) if isinstance(member, type) and is_dataclass(member) else ()


def suggestion(found: str, known: Iterable[str]) -> str:
    """The hint " (did you mean '…'?)" with the nearest known name; empty if none is near."""
    import difflib  # here, because reading a model file does not need it

    nearest = difflib.get_close_matches(found, list(known), n=1)
    return f" (did you mean '{nearest[0]}'?)" if nearest else ""
