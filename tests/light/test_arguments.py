"""Arguments of the wrong kind: one line that names the argument, for every parameter of every public function."""

from __future__ import annotations

import ast
import inspect
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest

import rheostat
from models import write_tiny
from rheostat import RheostatError
from rheostat.arguments import CHECKED_BY_OWNER, PATHS_CHECKED_BY_OWNER, checked
from rheostat.governor.governor import Background

DAY = Path(__file__).parents[1] / "data" / "traces" / "iphone.csv"


class Wrong:
    """A value that no function accepts. It cannot be called, read or compared with a number."""

    def __repr__(self) -> str:
        return "<wrong>"


def public_functions() -> Iterable[str]:
    for name in rheostat.__all__:
        try:
            value = getattr(rheostat, name)
        except (ImportError, rheostat.MissingExtraError):  # an extra is not installed; the full environment has all
            continue
        if inspect.isfunction(value):
            yield name


def right(hint: Any) -> Any:
    """Some value of the annotated kind. No function gets as far as using it."""
    kind, arguments = get_origin(hint), get_args(hint)
    if kind in (Union, types.UnionType):
        return right(arguments[0])
    if kind is Literal:
        return arguments[0]
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return {}
    if isinstance(kind, type) and issubclass(kind, Iterable):
        return []
    return {str: "", int: 1, float: 1.0, bool: True, Path: Path()}.get(hint)


def cases() -> Iterable[tuple[str, str]]:
    return [
        (name, each) for name in public_functions() for each in inspect.signature(getattr(rheostat, name)).parameters
    ]


@pytest.mark.parametrize(("name", "parameter"), cases(), ids=lambda value: str(value))
def test_a_wrong_kind_of_argument_is_one_line_that_names_it(name: str, parameter: str) -> None:
    function = getattr(rheostat, name)
    hints = get_type_hints(inspect.unwrap(function))
    required = [each for each in inspect.signature(function).parameters.values() if each.default is each.empty]
    arguments = {each.name: right(hints[each.name]) for each in required}
    if parameter in CHECKED_BY_OWNER:
        pytest.skip("checked where it is used; tests/light/test_api.py asks for its message")
    with pytest.raises(RheostatError, match=f"^{parameter} is <wrong> \\(Wrong\\); expected ") as failure:
        function(**{**arguments, parameter: Wrong()})
    assert "\n" not in str(failure.value)


IMPOSSIBLE_PATHS = {"null byte": "/tmp/x\0y", "half a character": "/tmp/x\ud800y", "too long": "/tmp/" + "x" * 300}


def takes_a_path(hint: Any) -> bool:
    return hint is Path or any(map(takes_a_path, get_args(hint)))


def path_cases() -> Sequence[tuple[str, str]]:
    return [
        (name, parameter)
        for name, parameter in cases()
        if takes_a_path(get_type_hints(inspect.unwrap(getattr(rheostat, name)))[parameter])
    ]


@pytest.mark.parametrize("path", IMPOSSIBLE_PATHS.values(), ids=IMPOSSIBLE_PATHS)
@pytest.mark.parametrize(("name", "parameter"), path_cases(), ids=lambda value: str(value))
def test_a_path_that_no_file_has_is_one_line(name: str, parameter: str, path: str) -> None:
    function = getattr(rheostat, name)
    hints = get_type_hints(inspect.unwrap(function))
    required = [each for each in inspect.signature(function).parameters.values() if each.default is each.empty]
    arguments = {each.name: right(hints[each.name]) for each in required}
    given = [Path(path)] if get_origin(hints[parameter]) is Sequence else Path(path)
    with pytest.raises(RheostatError) as failure:
        function(**{**arguments, parameter: given})
    assert "\n" not in str(failure.value) and len(str(failure.value)) < 1000
    if parameter not in PATHS_CHECKED_BY_OWNER | CHECKED_BY_OWNER:
        assert re.match(f"{parameter} is .*; expected a path that a file can have: it ", str(failure.value))


@pytest.mark.parametrize("path", IMPOSSIBLE_PATHS.values(), ids=IMPOSSIBLE_PATHS)
@pytest.mark.parametrize(
    "call",
    [
        rheostat.UserWords,
        rheostat.Memory,
        rheostat.open_model,
        lambda path: rheostat.UserWords().export(path),
        lambda path: rheostat.UserWords().merge(path),
        lambda path: rheostat.Memory().export(path),
        lambda path: rheostat.load(user_words=path),
        lambda path: rheostat.load(memory=path),
        lambda path: rheostat.load(hidden_words=path),
        lambda path: rheostat.replay_day(path),
        lambda path: rheostat.replay_day(DAY, policy=path),
        lambda path: rheostat.write_report([path], out="out"),
    ],
)
def test_objects_refuse_such_a_path_too(call: Callable[[str], object], path: str) -> None:
    with pytest.raises(RheostatError) as failure:
        call(path)
    assert "\n" not in str(failure.value) and len(str(failure.value)) < 1000


def test_a_memory_is_exported_to_a_path_only() -> None:
    with pytest.raises(RheostatError, match=r"^path is 5 \(int\); expected a str or a path$"):
        rheostat.Memory().export(5)  # type: ignore[arg-type]


def test_every_public_function_checks_its_arguments() -> None:
    assert {name for name in public_functions() if not hasattr(getattr(rheostat, name), "__wrapped__")} == set()


@checked
def example(
    text: str | Path,
    *,
    names: Sequence[str] = (),
    count: int = 1,
    share: float | None = None,
    flag: bool = False,
    call: Callable[[str], None] = print,
    table: Mapping[str, int] = types.MappingProxyType({}),
) -> str:
    return "called"


@pytest.mark.parametrize(
    "arguments",
    [
        {"text": "a"},
        {"text": Path("a")},
        {"text": "a", "names": ["x", "y"]},
        {"text": "a", "names": (name for name in "xy")},
        {"text": "a", "count": np.int64(3)},
        {"text": "a", "share": 1},
        {"text": "a", "share": np.float32(0.5)},
        {"text": "a", "flag": True, "call": len, "table": {"a": 1}},
    ],
)
def test_values_of_the_right_kind_pass(arguments: dict[str, Any]) -> None:
    assert example(**arguments) == "called"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"text": None}, "text is None (NoneType); expected a str or a path"),
        ({"text": "a", "names": "xy"}, "names is 'xy' (str); expected a list, each item a str: ['xy']"),
        ({"text": "a", "names": ["x", 3]}, "names is ['x', 3] (list); expected a list, each item a str"),
        ({"text": "a", "count": True}, "count is True (bool); expected a whole number"),
        ({"text": "a", "count": 1.5}, "count is 1.5 (float); expected a whole number"),
        ({"text": "a", "share": "0.5"}, "share is '0.5' (str); expected a number or None"),
        ({"text": "a", "flag": 1}, "flag is 1 (int); expected True or False"),
        ({"text": "a", "call": 3}, "call is 3 (int); expected a function"),
        ({"text": "a", "table": [1]}, "table is [1] (list); expected a dict"),
    ],
)
def test_values_of_the_wrong_kind_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(RheostatError) as failure:
        example(**arguments)
    assert str(failure.value) == message


@pytest.mark.parametrize("words", [None, 3, "see you", ["see", 3], Wrong()], ids=str)
def test_words_of_the_wrong_kind_are_refused(words: Any) -> None:
    with rheostat.load() as predictor, pytest.raises(RheostatError, match="expected a list of str"):
        predictor.log_probabilities_after(words)


SOME: dict[str, Any] = {"text": "see you", "word": "hello", "words": ["see"], "k": 1, "knob": 0.5}


def objects(folder: Path) -> Iterable[Any]:
    """One of each public class that has methods with arguments."""
    model = write_tiny(folder / "tiny.safetensors")
    predictor = rheostat.load(model)
    yield from (predictor, rheostat.open_model(model), rheostat.Governor(predictor))
    yield from (rheostat.UserWords(), rheostat.Memory(), rheostat.Suggestion("see", 0.5))


def methods(thing: Any) -> Iterable[tuple[Callable[..., Any], inspect.Signature]]:
    inherited = set(dir(tuple))  # of a NamedTuple
    for name in sorted(set(dir(type(thing))) - inherited):
        found = getattr(thing, name)
        if not name.startswith("_") and inspect.ismethod(found):
            yield found, inspect.signature(found)


@pytest.mark.parametrize("wrong", [None, 3, "x", [], {}, float("nan"), b"x", Wrong()], ids=repr)
def test_a_method_takes_a_wrong_argument_or_refuses_it_in_one_line(
    wrong: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # "x" is the name of a file to some methods
    tried = 0
    for thing in objects(tmp_path):
        for method, signature in methods(thing):
            required = [each.name for each in signature.parameters.values() if each.default is each.empty]
            for parameter in signature.parameters:
                tried += 1
                try:
                    if signature.parameters[parameter].kind is inspect.Parameter.VAR_POSITIONAL:
                        found = method(wrong)
                    else:
                        found = method(**{**{name: SOME.get(name) for name in required}, parameter: wrong})
                    if isinstance(found, Background):
                        found.stop()
                except RheostatError as error:
                    assert "\n" not in str(error), method
    assert tried > 30


def nothing_to_govern() -> object:
    return rheostat.Governor(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (nothing_to_govern, "predictor is 3 (int); expected an object with knob, turn"),
        (lambda: rheostat.Battery(0.2, "no"), "charging is 'no'; expected True, False or None"),  # type: ignore[arg-type]
        (lambda: rheostat.Battery(True, None), "the battery level is True; expected a share from 0 to 1"),
        (lambda: rheostat.DeviceState(battery=3), "the battery is 3; expected a Battery"),  # type: ignore[arg-type]
    ],
)
def test_a_device_or_a_predictor_of_the_wrong_kind_is_one_line(call: Callable[[], object], message: str) -> None:
    with pytest.raises(RheostatError) as failure:
        call()
    assert message in str(failure.value) and "\n" not in str(failure.value)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"counts": "no"}, "counts is 'no' (str); expected True or False"),
        ({"slips": 1}, "slips is 1 (int); expected True or False"),
        ({"verify": None}, "verify is None (NoneType); expected True or False"),
        ({"cache": 3}, "cache is 3 (int); expected a Cache or None"),
    ],
)
def test_a_predictor_made_directly_checks_its_options(option: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(RheostatError) as failure:
        rheostat.Predictor(write_tiny(tmp_path / "tiny.safetensors"), **option)
    assert str(failure.value) == message


def test_a_governor_and_a_watched_field_check_what_they_get(tmp_path: Path) -> None:
    with rheostat.load(write_tiny(tmp_path / "tiny.safetensors")) as predictor:
        with pytest.raises(RheostatError, match=r"^battery is 3 \(int\); expected a function or None$"):
            rheostat.Governor(predictor, battery=3)  # type: ignore[arg-type]
        watch: Any = predictor.watch()
        for call in (watch.see, watch.end):
            with pytest.raises(RheostatError, match=r"^the text is None \(NoneType\); expected a str$"):
                call(None)


PACKAGE = Path(rheostat.__file__).parent
LIBRARY = [path for path in sorted(PACKAGE.rglob("*.py")) if path.relative_to(PACKAGE).parts[0] not in ("cli", "core")]
# An option may stand in a whole command, and a server that was started by a command may name its options.
COMMAND = re.compile(r"rheostat [a-z]+ [^;,]*|Governor\(table=…\) or --bench|start it with --allow-host NAME")


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_errors_of_the_library_name_no_option_of_a_command(path: Path) -> None:
    """Someone who calls a function has no --data and no -o to give."""
    raised = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Raise)]
    for node in raised:
        parts = [
            part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)
        ]
        assert not re.search(r"(?<!\w)(?:--[a-z]|-o\b)", COMMAND.sub("", "".join(parts))), parts
