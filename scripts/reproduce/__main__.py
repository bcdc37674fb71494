"""python -m reproduce [STEP …] [--dry-run] [--again]: the command behind `make reproduce` and `make model`."""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from reproduce.plan import Judge, Judgement, Status
from reproduce.records import State
from reproduce.running import Runner, Summary, clock
from reproduce.steps import DEFAULT_GOAL, ReproduceError, Step, read_workflow

ROOT = Path(__file__).parents[2]
FOLDER = Path("runs/reproduce")  # below the project: state, lock and logs
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    try:
        return _reproduce(asked)
    except ReproduceError as error:
        print(f"reproduce: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("reproduce: interrupted; the same command resumes", file=sys.stderr)
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="reproduce",
        description="Regenerate missing or stale results, models and reports, as defined in reproduce.toml.",
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="STEP",
        help=f"a step, a pattern such as 'ptb-*', or a goal, with everything it needs; default: {DEFAULT_GOAL}",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be done and why; run nothing")
    parser.add_argument("--json", action="store_true", help="print the plan as JSON; run nothing")
    parser.add_argument(
        "--again", action="store_true", help="run the named steps even if they are up to date, to measure again"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PLACE=FOLDER",
        dest="places",
        help="the folder of a place; may be repeated",
    )
    parser.add_argument("--file", type=Path, default=ROOT / "reproduce.toml", help="the steps; default: %(default)s")
    return parser


def _reproduce(asked: argparse.Namespace) -> int:
    if asked.again and not asked.names:
        raise ReproduceError("--again runs the named steps again; name at least one")
    workflow = read_workflow(asked.file.absolute(), _places(asked.places))
    steps = workflow.chosen(asked.names)
    again = frozenset(name for named in asked.names for name in workflow.named(named)) if asked.again else frozenset()
    folder = workflow.root / FOLDER
    judge = Judge(workflow, State(folder / "state.json"), again)
    if asked.json or asked.dry_run:
        plan = judge.plan(steps)
        print(_plan_json(judge, steps, plan) if asked.json else _plan_text(judge, steps, plan))
        return 0
    for line in _lacking_lines(judge, steps):
        print(line, flush=True)
    summary = Runner(judge, folder, Lines(sys.stdout, steps)).run(steps)
    print(_summary_text(summary))
    return 1 if summary.failed else 0


def _places(settings: Sequence[str]) -> dict[str, str]:
    places = {}
    for setting in settings:
        name, equals, folder = setting.partition("=")
        if not equals or not folder:
            raise ReproduceError(f"--set got '{setting}'; expected PLACE=FOLDER")
        places[name] = folder
    return places


class Lines:
    """One line per step. On a terminal, the line of the running step shows the time and its latest output."""

    def __init__(self, out: TextIO, steps: Sequence[Step]) -> None:
        self._out, self._live = out, out.isatty()
        self._numbers = {step.name: number for number, step in enumerate(steps, 1)}
        self._line = ""

    def begin(self, step: Step, reason: str) -> None:
        total = len(self._numbers)
        self._line = f"[{self._numbers[step.name]:>{len(str(total))}}/{total}] {step.name}"
        self._line += f" ({reason}) …" if reason else ""
        self._write(self._line)

    def running(self, seconds: float, last_line: str) -> None:
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            self._write(f"\r\x1b[K{f'{self._line} {clock(seconds)}  {last_line}'[:width]}")

    def end(self, step: Step, outcome: str) -> None:
        self._write(f"\r\x1b[K{self._line} {outcome}\n" if self._live else f" {outcome}\n")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


def _plan_json(judge: Judge, steps: Sequence[Step], plan: Mapping[str, Judgement]) -> str:
    return json.dumps([_plan_row(judge, step, plan[step.name]) for step in steps], indent=1)


def _plan_row(judge: Judge, step: Step, judgement: Judgement) -> dict[str, Any]:
    last = judge.state.done.get(step.name)
    return {
        "step": step.name,
        "status": judgement.status.value,
        "reason": judgement.reason,
        "commands": [shlex.join(words) for words in judge.command(step)],
        "inputs": [*step.needs, *step.inputs, *step.optional_inputs],
        "outputs": list(step.outputs),
        "measures": step.measures,
        "last_seconds": last.seconds if last and last.seconds else None,
    }


def _plan_text(judge: Judge, steps: Sequence[Step], plan: Mapping[str, Judgement]) -> str:
    width = max((len(step.name) for step in steps), default=0)
    lines = []
    for step in steps:
        judgement, last = plan[step.name], judge.state.done.get(step.name)
        notes = [judgement.reason] if judgement.reason else []
        if judgement.status in (Status.RUN, Status.MAYBE):
            notes += ["measures time: keep the machine quiet"] if step.measures else []
            notes += [f"took {clock(last.seconds)} last time"] if last and last.seconds else []
        lines.append(f"{step.name:<{width}}  {judgement.status:<10}  {'; '.join(notes)}".rstrip())
    counts = {status: sum(found.status is status for found in plan.values()) for status in Status}
    lines.append(f"{len(steps)} steps: {', '.join(f'{count} {status}' for status, count in counts.items() if count)}")
    return "\n".join([*lines, *_lacking_lines(judge, steps)])


def _lacking_lines(judge: Judge, steps: Sequence[Step]) -> list[str]:
    """What is missing that no step requires."""
    lacking = judge.lacking(steps)
    return [f"missing: {files}: {follows} ({', '.join(names)})" for (files, follows), names in lacking.items()]


def _summary_text(summary: Summary) -> str:
    parts = [
        f"{len(names)} {label}"
        for label, names in (
            ("made", summary.made),
            ("up to date", summary.fresh),
            ("adopted", summary.adopted),
            ("skipped", summary.skipped),
            ("failed", summary.failed),
            ("blocked", summary.blocked),
        )
        if names
    ]
    lines = [f"{', '.join(parts)}; {clock(summary.seconds)}"]
    lines += [
        f"skipped: {reason}: {', '.join(name for name, why in summary.skipped.items() if why == reason)}"
        for reason in dict.fromkeys(summary.skipped.values())
    ]
    lines += [f"failed: {name}: {error}" for name, error in summary.failed.items()]
    return "\n".join(lines)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _interrupt)  # ends like Ctrl-C
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell started it in the background
        signal.signal(signal.SIGINT, lambda *_: None)  # ignored here as before, but not by the commands it starts
    sys.exit(main())
