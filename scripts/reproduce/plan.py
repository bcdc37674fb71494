"""Which steps are stale, and why. Reads files and records; runs and writes nothing.

A step is up to date if its outputs, its command and the digests of its inputs are unchanged since it last ran. So a
step that runs again with the same result leaves later steps up to date.

A step whose outputs exist without a record is trusted (adopted) if no earlier step ran on this machine. Measured times
are never adopted.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from reproduce.records import Digests, State, changed
from reproduce.steps import MODULE, OPTIONAL, ReproduceError, Step, Workflow, overlaps, path_of


class Status(StrEnum):
    FRESH = "up to date"
    ADOPT = "adopted"
    RUN = "run"
    MAYBE = "maybe"  # depends on the result of an earlier step
    SKIP = "skipped"
    BLOCKED = "blocked"  # an earlier step failed or is blocked


@dataclass(frozen=True)
class Judgement:
    status: Status
    reason: str = ""
    resume: bool = False  # an unfinished run of the same step can be resumed


PENDING = (Status.RUN, Status.MAYBE)


class Judge:
    """Judges steps one by one, given the judgements of earlier steps."""

    def __init__(self, workflow: Workflow, state: State, again: frozenset[str] = frozenset()) -> None:
        """again: steps to run even if they are up to date."""
        self.workflow, self.state, self.again = workflow, state, again

    def plan(self, steps: Sequence[Step]) -> dict[str, Judgement]:
        """The judgements of all steps before anything runs."""
        found: dict[str, Judgement] = {}
        for step in steps:
            found[step.name] = self.judge(step, found)
        return found

    def judge(self, step: Step, found: Mapping[str, Judgement]) -> Judgement:
        """found: the judgements of earlier steps; a step that has run counts as up to date."""
        if missing := self.missing_need(step):
            return Judgement(Status.SKIP, f"no {missing}")
        hard = {name: found[name] for name in self.workflow.before[step.name]}
        soft = {name: found[name] for name in self.workflow.before_if_asked[step.name] if name in found}
        for before in hard.values():
            if before.status is Status.SKIP:
                return before
        for name, before in {**hard, **soft}.items():
            if before.status is Status.BLOCKED:
                return Judgement(Status.BLOCKED, before.reason or f"{name} failed")
        waiting = [name for name, before in {**hard, **soft}.items() if before.status in PENDING]
        if step.name in self.again:
            return Judgement(Status.RUN, "asked for again")
        return self._judge_by_record(step, waiting)

    def _judge_by_record(self, step: Step, waiting: Sequence[str]) -> Judgement:
        if not waiting:
            self._check_inputs(step)
        if step.name in self.state.started:
            return self._judge_interrupted(step, waiting)
        record = self.state.done.get(step.name)
        outputs = self.outputs(step)
        if missing := [path for path, digest in outputs.items() if digest is None]:
            return Judgement(Status.RUN, f"no {missing[0]}", resume=record is None and self._unmade(step, waiting))
        if record is None:
            return self._judge_without_record(step, waiting)
        if record.command != self.command(step):
            return Judgement(Status.RUN, "its command has changed")
        if altered := changed(record.outputs, outputs):
            return Judgement(Status.RUN, f"{altered[0]} is not what this step wrote")
        if waiting:
            return Judgement(Status.MAYBE, f"if {' or '.join(waiting)} gives another result")
        if altered := changed(record.inputs, self.inputs(step)):
            return Judgement(Status.RUN, f"{self.workflow.fill(altered[0])} has changed")
        return Judgement(Status.FRESH)

    def _judge_interrupted(self, step: Step, waiting: Sequence[str]) -> Judgement:
        started = self.state.started[step.name]
        same = not waiting and started.command == self.command(step) and started.inputs == self.inputs(step)
        return Judgement(Status.RUN, "its last run did not finish", resume=same)

    def _judge_without_record(self, step: Step, waiting: Sequence[str]) -> Judgement:
        """The outputs exist, but it is not known what they were made from."""
        unmade = self._unmade(step, waiting)
        if step.measures:
            return Judgement(Status.RUN, "not yet measured on this machine", resume=unmade)
        if not unmade:
            return Judgement(Status.RUN, f"{step.outputs[0]} was not made from the current inputs")
        if step.writes_in_place:
            return Judgement(Status.RUN, f"{step.outputs[0]} may be unfinished", resume=True)
        return Judgement(Status.ADOPT, "its outputs already exist")

    def _unmade(self, step: Step, waiting: Sequence[str]) -> bool:
        """Whether no earlier step ran on this machine, so that the files probably belong together."""
        earlier = (*self.workflow.before[step.name], *self.workflow.before_if_asked[step.name])
        made = [name for name in earlier if name in self.state.done and not self.state.done[name].adopted]
        return not waiting and not made

    def lacking(self, steps: Sequence[Step]) -> dict[tuple[str, str], list[str]]:
        """What steps will do without: the missing files and what follows, with the names of these steps."""
        found: dict[tuple[str, str], list[str]] = {}
        for step in steps:
            paths = [path for path in step.optional_from_outside if not self.workflow.path(path).exists()]
            if paths and not self.missing_need(step):
                files = ", ".join(self.workflow.fill(path) for path in paths)
                found.setdefault((files, step.without), []).append(step.name)
        return found

    def missing_need(self, step: Step) -> str | None:
        for need in step.needs:
            if need.startswith(MODULE):
                name = need.removeprefix(MODULE)
                if importlib.util.find_spec(name) is None:
                    return f"Python module {name}"
            elif not self.workflow.path(need).exists():
                return self.workflow.fill(need)
        return None

    def _check_inputs(self, step: Step) -> None:
        made = [path for name in self.workflow.before[step.name] for path in self.workflow.steps[name].outputs]
        for path in step.inputs:
            if not any(overlaps(path, output) for output in made) and not self.workflow.path(path).exists():
                raise ReproduceError(f"step '{step.name}' reads {path}, which does not exist and which no step makes")

    # What a record is compared with

    def command(self, step: Step) -> list[list[str]]:
        """The commands of a step as recorded: with the optional inputs that exist, and places in braces."""
        return [list(self.expand(step, command)) for command in step.commands]

    def expand(self, step: Step, command: Sequence[str]) -> list[str]:
        return [part for word in command for part in (self._existing(step) if word == OPTIONAL else [word])]

    def _existing(self, step: Step) -> list[str]:
        """The optional inputs that are used, as written in the command."""
        existing = [entry for entry in step.optional if self.workflow.path(path_of(entry)).exists()]
        return [] if step.together and len(existing) < len(step.optional) else existing

    def inputs(self, step: Step) -> Digests:
        files = [need for need in step.needs if not need.startswith(MODULE)]
        present = map(path_of, self._existing(step))
        return {path: self.state.digests.of(self.workflow.path(path)) for path in (*files, *step.inputs, *present)}

    def outputs(self, step: Step) -> Digests:
        return {path: self.state.digests.of(self.workflow.path(path)) for path in step.outputs}
