"""Checks of arguments: a value of the right kind, or an error in one line.

`checked` compares every argument of a public function with its annotation. So `evaluate(data=3)` raises a RheostatError
that names the argument, not a TypeError from somewhere inside. What a value means (a knob in range, a file that exists)
is checked by the module that uses it; that a path can be one at all is checked here. Knows kinds of values; knows
nothing of models.
"""

from __future__ import annotations

import errno
import math
import os
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from inspect import Signature, signature
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from rheostat.errors import RheostatError, show

P = ParamSpec("P")
T = TypeVar("T")

LARGEST = sys.float_info.max
# Arguments whose owners (`model.widths.check_knob`, `words.hidden_words`) say more about a wrong value than its kind.
# Here it is only checked that several are a list.
CHECKED_BY_OWNER = {"knob", "knobs", "hidden_words"}
PATHS_CHECKED_BY_OWNER = {"model", "name_or_path"}  # by `model.file.open_model`, which says what a model file is
NAMES: dict[Any, str] = {
    str: "a str",
    Path: "a path",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    type(None): "None",
}


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """The same function, which first compares its arguments with its annotations."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        shape, hints = _annotations(function)
        for name, value in shape.bind(*args, **kwargs).arguments.items():
            if name in CHECKED_BY_OWNER:
                if get_origin(hints[name]) is Sequence:
                    check_list(name, value)
            elif name in hints and not _fits(value, hints[name]):
                remedy = f": [{value!r:.60}]" if _is_one_of_several(value, hints[name]) else ""
                raise RheostatError(f"{name} is {shown(value)}; expected {_expected(hints[name])}{remedy}")
            elif name in hints and name not in PATHS_CHECKED_BY_OWNER and _is_path(hints[name]):
                _check_paths(name, value)
        return function(*args, **kwargs)

    return call


@cache
def _annotations(function: Callable[..., Any]) -> tuple[Signature, dict[str, Any]]:
    return signature(function), get_type_hints(function)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the annotated kind. The values of a Literal are checked where they are used."""
    kind, arguments = get_origin(hint), get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return True
    if kind in (Union, types.UnionType):
        return any(_fits(value, member) for member in arguments)
    if kind is Literal:
        return isinstance(value, type(arguments[0]))
    if hint is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    if hint is float:
        return isinstance(value, Real) and not isinstance(value, bool)
    if isinstance(kind, type) and issubclass(kind, Iterable) and not issubclass(kind, Mapping):
        return is_list(value) and (not isinstance(value, Sequence) or all(_fits(item, arguments[0]) for item in value))
    if kind is not None:
        hint = kind
    if _is_our_protocol(hint):
        is_called = "__call__" in vars(hint)
        return all(hasattr(value, name) for name in _members(hint)) and (callable(value) or not is_called)
    if hint is Callable or (isinstance(hint, type) and issubclass(hint, Callable)):  # type: ignore[arg-type]
        return callable(value)
    return isinstance(value, hint)


def _is_path(hint: Any) -> bool:
    """Whether an annotation allows a path, or several."""
    return hint is Path or any(map(_is_path, get_args(hint)))


def _check_paths(name: str, value: Any) -> None:
    if isinstance(value, str | Path):
        check_path(name, value)
    elif isinstance(value, list | tuple):
        for one in value:
            _check_paths(name, one)


def _is_our_protocol(hint: Any) -> bool:
    return bool(getattr(hint, "_is_protocol", False)) and hint.__module__.startswith("rheostat.")


def _members(protocol: type) -> list[str]:
    return [name for name in vars(protocol) if not name.startswith("_")]


def _is_one_of_several(value: Any, hint: Any) -> bool:
    """Whether a list with this value alone would fit."""
    return not is_list(value) and _fits([value], hint)


def _expected(hint: Any) -> str:
    """What an annotation asks for, in words."""
    kind, arguments = get_origin(hint), get_args(hint)
    if kind in (Union, types.UnionType):
        members = list(dict.fromkeys(map(_expected, arguments)))
        return " or ".join([", ".join(members[:-1]), members[-1]] if len(members) > 1 else members)
    if kind is Literal:
        return "one of " + ", ".join(map(str, arguments))
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return "a dict"
    if kind is not None and isinstance(kind, type) and issubclass(kind, Iterable):
        return f"a list, each item {_expected(arguments[0])}"
    if hint is Callable or kind is not None:
        return "a function"
    if _is_our_protocol(hint) and _members(hint):
        return f"an object with {', '.join(_members(hint))}"
    name = getattr(hint, "__name__", str(hint))
    return NAMES.get(hint, f"{'an' if name[0] in 'AEIOU' else 'a'} {name}")


def check_text(name: str, value: Any) -> None:
    """Raise RheostatError unless this is a str."""
    if not isinstance(value, str):
        raise RheostatError(f"{name} is {shown(value)}; expected a str")


def check_path(name: str, value: Any, error: type[RheostatError] = RheostatError) -> None:
    """Raise an error unless this can be the path of a file on this system; whether there is one does not matter."""
    if not isinstance(value, str | os.PathLike):
        raise error(f"{name} is {shown(value)}; expected a path")
    try:
        os.lstat(value)
    except ValueError:  # UnicodeEncodeError is one
        why = "it contains a null byte or half a character"
    except OSError as found:
        if found.errno != errno.ENAMETOOLONG:
            return  # there is no such file yet, or its owner says what is wrong with it
        why = "it is too long"
    else:
        return
    raise error(f"{name} is {shown(value)}; expected a path that a file can have: {why}")


def check_flag(name: str, value: Any) -> None:
    """Raise RheostatError unless this is True or False."""
    if not isinstance(value, bool):
        raise RheostatError(f"{name} is {shown(value)}; expected True or False")


def check_whole(name: str, value: Any, least: int, most: float = math.inf) -> None:
    """Raise RheostatError unless this is a whole number in a range."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or not least <= int(value) <= most:
        bounds = f"of {least} or more" if most == math.inf else f"from {least} to {int(most):,}"
        raise RheostatError(f"{name} is {shown(value)}; expected a whole number {bounds}")


def check_list(name: str, value: Any) -> None:
    """Raise RheostatError unless this is a list of values, or something like one. A str is not."""
    if not is_list(value):
        raise RheostatError(f"{name} is {shown(value)}; expected a list: [{value!r:.40}]")


def is_list(value: Any) -> bool:
    """Whether this is a list or can be read like one; a str is not."""
    return isinstance(value, Iterable) and not isinstance(value, str | bytes)


def is_number(value: Any) -> bool:
    """Whether this is a finite number; True and False are not."""
    return type(value) is not bool and isinstance(value, Real) and abs(cast(float, value)) <= LARGEST


def shown(value: Any) -> str:
    """A value for an error message: short, on one line, with its type."""
    text = " ".join(show(value).split())
    return f"{text if len(text) <= 40 else text[:37] + '...'} ({type(value).__name__})"
