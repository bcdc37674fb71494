"""Reading reproduce.toml: steps, goals and places, checked before anything runs. Runs nothing; knows nothing of state.

[places]     folders outside the project, such as the corpora: {data}. Only their contents matter, not their paths.
[variables]  text that several commands share: {knobs}
[goals]      names for lists of steps; patterns such as "ptb-*" are allowed
[steps.NAME] command     one command or a list; `rheostat` and `python` are those that run this program. No shell.
             outputs     the files that the step writes
             inputs      files and folders of the project that it reads
             optional    inputs that are used if they exist; {optional} in the command is replaced by these. If they
                         are being made too, they are made first, but the step does not require them.
             without     for optional inputs from outside: what follows if one is missing, in words
             together    true if the optional inputs are used only if all of them exist
             needs       requirements from outside: {data}/ptb, or module:NAME. If one is missing, the step is skipped.
             measures    true if outputs hold times of this machine: files that came with the clone do not count
             partial     files that an unfinished run leaves, removed before the step starts from the beginning
             resume      true if the same command resumes an unfinished run; otherwise the command that does
             checkpoint  the file that `resume` continues from
"""

from __future__ import annotations

import difflib
import fnmatch
import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

Command = tuple[str, ...]  # words; places are still in braces

DEFAULT_GOAL = "reproduce"
MODULE = "module:"
OPTIONAL = "{optional}"
PLACEHOLDER = re.compile(r"\{(\w+)\}")
LISTS = ("outputs", "inputs", "optional", "needs", "partial")
KEYS = {"command", "resume", "checkpoint", "measures", "without", "together", *LISTS}


class ReproduceError(Exception):
    """An error that the user can fix: one line that says what was found, what was expected and what to do."""


@dataclass(frozen=True)
class Step:
    name: str
    commands: tuple[Command, ...]
    outputs: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()  # as written in the command: a path, or --option=path
    needs: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()
    resumable: bool = False
    resume: Command | None = None  # replaces the first command; None: the same command resumes
    checkpoint: str | None = None
    measures: bool = False
    without: str = ""
    together: bool = False

    @property
    def optional_inputs(self) -> tuple[str, ...]:
        return tuple(path_of(entry) for entry in self.optional)

    @property
    def optional_from_outside(self) -> tuple[str, ...]:
        return tuple(path for path in self.optional_inputs if PLACEHOLDER.search(path))

    @property
    def writes_in_place(self) -> bool:
        """Whether an unfinished run could look like an output."""
        return any(overlaps(output, partial) for output in self.outputs for partial in self.partial)


@dataclass(frozen=True)
class Workflow:
    """All steps, ordered so that each comes after the steps whose outputs it reads."""

    root: Path
    steps: Mapping[str, Step]
    goals: Mapping[str, tuple[str, ...]]
    places: Mapping[str, str]
    before: Mapping[str, tuple[str, ...]]  # the steps that make a step's inputs
    before_if_asked: Mapping[str, tuple[str, ...]]  # the steps that make its optional inputs

    def path(self, name: str) -> Path:
        """Where a file or folder of the workflow is."""
        return self.root / self.fill(name)

    def fill(self, word: str) -> str:
        """A word of a command with its places filled in."""
        return PLACEHOLDER.sub(lambda found: self.places[found[1]], word)

    def chosen(self, names: Sequence[str]) -> list[Step]:
        """The named steps, goals or patterns, and everything they need, in order."""
        wanted: set[str] = set()
        waiting = [step for name in names or [DEFAULT_GOAL] for step in self.named(name)]
        while waiting:
            step = waiting.pop()
            if step not in wanted:
                wanted.add(step)
                waiting.extend(self.before[step])
        return [step for name, step in self.steps.items() if name in wanted]

    def named(self, name: str) -> list[str]:
        patterns = self.goals.get(name, (name,))
        found = [step for step in self.steps if any(fnmatch.fnmatchcase(step, pattern) for pattern in patterns)]
        if not found:
            raise ReproduceError(f"no step '{name}'{nearest(name, [*self.steps, *self.goals])} (--dry-run lists them)")
        return found


def read_workflow(file: Path, places: Mapping[str, str] | None = None) -> Workflow:
    """The steps in a file. places: folders to use instead of those named in the file."""
    try:
        contents = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ReproduceError(f"cannot read {file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ReproduceError(f"{file} is not valid TOML: {error}") from None
    _refuse_unknown(contents, {"places", "variables", "goals", "steps"}, str(file))
    known_places = {**_texts(contents, "places"), **(places or {})}
    _refuse_unknown(known_places, set(_texts(contents, "places")), "places")
    variables = _texts(contents, "variables")
    steps = {
        name: _read_step(name, _table(table, f"steps.{name}"), variables, set(known_places))
        for name, table in _table(contents.get("steps", {}), "steps").items()
    }
    goals = {name: _strings(patterns, f"goals.{name}") for name, patterns in contents.get("goals", {}).items()}
    if both := sorted(set(goals) & set(steps)):
        raise ReproduceError(f"'{both[0]}' is the name of a goal and of a step; rename one of them")
    makers = _makers(steps.values())
    before = {step.name: _made_by(step.inputs, makers, step.name) for step in steps.values()}
    before_if_asked = {step.name: _made_by(step.optional_inputs, makers, step.name) for step in steps.values()}
    order = _ordered({name: (*before[name], *before_if_asked[name]) for name in steps})
    return Workflow(file.parent, {name: steps[name] for name in order}, goals, known_places, before, before_if_asked)


def _read_step(name: str, table: Mapping[str, Any], variables: Mapping[str, str], places: set[str]) -> Step:
    where = f"step '{name}'"
    _refuse_unknown(table, KEYS, where)
    lists = {key: _strings(table.get(key, []), f"{where}: {key}") for key in LISTS}
    resume, checkpoint, measures = table.get("resume", False), table.get("checkpoint"), table.get("measures", False)
    together, without = table.get("together", False), table.get("without", "")
    if not isinstance(resume, bool | str) or not isinstance(measures, bool):
        raise ReproduceError(f"{where}: expected resume to be true, false or a command, and measures true or false")
    if not isinstance(together, bool) or not isinstance(without, str):
        raise ReproduceError(f"{where}: expected together true or false, and without as text")
    if isinstance(resume, str) and not isinstance(checkpoint, str):
        raise ReproduceError(f"{where} has a command to resume; add checkpoint, the file that it continues from")
    if not lists["outputs"]:
        raise ReproduceError(f"{where} has no outputs; expected at least one file that it writes")
    written = (*lists["outputs"], *lists["partial"], *([checkpoint] if checkpoint else []))
    for path in written:
        if PLACEHOLDER.search(path) or PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            raise ReproduceError(f"{where} writes '{path}'; expected a path inside the project")
    commands = table.get("command", [])
    split = [
        _words(command, variables, places, where)
        for command in _strings([commands] if isinstance(commands, str) else commands, f"{where}: command")
    ]
    if not split or not all(split):
        raise ReproduceError(f"{where} has no command; expected one, or a list of them")
    for path in (*lists["inputs"], *lists["optional"], *lists["needs"]):
        _check_placeholders(path, places, where)
    step = Step(
        name,
        tuple(split),
        resumable=bool(resume),
        resume=_words(resume, variables, places, where) if isinstance(resume, str) else None,
        checkpoint=checkpoint,
        measures=measures,
        without=without,
        together=together,
        **lists,
    )
    if step.optional_from_outside and not without:
        missing = step.optional_from_outside[0]
        raise ReproduceError(f"{where} can do without {missing}; add without, what follows if it is missing")
    if without and not step.optional_from_outside:
        raise ReproduceError(f"{where} has no optional input from outside; expected without only beside one")
    return step


def _words(command: str, variables: Mapping[str, str], places: set[str], where: str) -> Command:
    """A command as words. A variable can be several words; a place is always part of one, even with spaces."""
    text = PLACEHOLDER.sub(lambda found: variables.get(found[1], found[0]), command)
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise ReproduceError(f"{where}: the command cannot be split into words ({error}): {text}") from None
    for word in words:
        if word != OPTIONAL:
            _check_placeholders(word, places, where)
    return words


def _check_placeholders(text: str, known: set[str], where: str) -> None:
    for name in PLACEHOLDER.findall(text):
        if name not in known:
            raise ReproduceError(f"{where}: unknown name {{{name}}}{nearest(name, known)}")


# Which step comes before which


def path_of(entry: str) -> str:
    """The path of an optional input, which can be written as --option=path."""
    return entry.partition("=")[2] if entry.startswith("-") else entry


def overlaps(one: str, other: str) -> bool:
    """Whether two paths are the same, or one is a folder that contains the other."""
    first, second = PurePosixPath(one).parts, PurePosixPath(other).parts
    shorter = min(len(first), len(second))
    return first[:shorter] == second[:shorter]


def _makers(steps: Iterable[Step]) -> dict[str, str]:
    """The step that makes each output."""
    makers: dict[str, str] = {}
    for step in steps:
        for output in step.outputs:
            if output in makers:
                raise ReproduceError(f"steps '{makers[output]}' and '{step.name}' both write {output}")
            makers[output] = step.name
    return makers


def _made_by(paths: Iterable[str], makers: Mapping[str, str], reader: str) -> tuple[str, ...]:
    found = [maker for path in paths for output, maker in makers.items() if overlaps(path, output)]
    if reader in found:
        raise ReproduceError(f"step '{reader}' reads its own output; remove it from its inputs")
    return tuple(dict.fromkeys(found))


def _ordered(before: Mapping[str, Sequence[str]]) -> list[str]:
    """Names ordered so that each comes after the steps it needs, otherwise as in the file."""
    order: dict[str, None] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            circle = [*path[path.index(name) :], name]
            raise ReproduceError(f"steps wait for each other in a circle: {' → '.join(reversed(circle))}")
        if name not in order:
            for earlier in before[name]:
                visit(earlier, (*path, name))
            order[name] = None

    for name in before:
        visit(name, ())
    return list(order)


# Checking what was read


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint if a known name is similar."""
    found = difflib.get_close_matches(name, list(known), 1)
    return f", did you mean '{found[0]}'?" if found else ""


def _refuse_unknown(table: Mapping[str, Any], known: set[str], where: str) -> None:
    for key in table:
        if key not in known:
            expected = ", ".join(sorted(known))
            raise ReproduceError(f"{where}: unknown '{key}'{nearest(key, known)} (expected: {expected})")


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ReproduceError(f"{where}: expected a table, found {value!r}")
    return value


def _texts(contents: Mapping[str, Any], key: str) -> dict[str, str]:
    table = _table(contents.get(key, {}), key)
    for name, value in table.items():
        if not isinstance(value, str):
            raise ReproduceError(f"{key}.{name}: expected text, found {value!r}")
    return dict(table)


def _strings(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(entry, str) and entry for entry in value):
        raise ReproduceError(f"{where}: expected a list of texts, found {value!r}")
    return tuple(value)
