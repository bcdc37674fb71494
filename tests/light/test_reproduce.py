"""The runner of reproduce.toml: stale steps run, others do not, and unfinished output never counts."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from rheostat.cli import app
from rheostat.text.mixture import talk_parts

pytest.importorskip("fcntl")
from reproduce.__main__ import Lines, main
from reproduce.plan import Judge, Status
from reproduce.records import State
from reproduce.steps import MODULE, OPTIONAL, ReproduceError, Workflow, read_workflow

ROOT = Path(__file__).parents[2]

# The command of every step here: writes the words of its inputs plus its own, and records that it ran.
MAKE = """
import os, pathlib, signal, sys
name, out, *words = sys.argv[1:]
with open("ran.txt", "a") as log:
    log.write(name + "\\n")
pathlib.Path(out).write_text("half")
if pathlib.Path(f"kill-{name}").exists():
    os.kill(os.getpid(), signal.SIGKILL)
if pathlib.Path(f"fail-{name}").exists():
    sys.exit("no more paper")
texts = [pathlib.Path(word).read_text().upper() if pathlib.Path(word).exists() else word for word in words]
pathlib.Path(out).write_text(" ".join(texts))
"""

CHAIN = """
[places]
data = "corpora"

[goals]
reproduce = ["*"]

[variables]
shout = "very loud"

[steps.last]
command = "python make.py last c.txt b.txt"
inputs = ["b.txt"]
outputs = ["c.txt"]

[steps.first]
command = "python make.py first a.txt source.txt"
inputs = ["source.txt"]
outputs = ["a.txt"]

[steps.middle]
command = "python make.py middle b.txt a.txt {shout}"
inputs = ["a.txt"]
outputs = ["b.txt"]

[steps.other]
command = "python make.py other d.txt alone"
outputs = ["d.txt"]
"""


class Project:
    """A folder with steps; runs them and says which ones ran."""

    def __init__(self, folder: Path, steps: str) -> None:
        self.folder = folder
        (folder / "make.py").write_text(MAKE)
        (folder / "source.txt").write_text("words")
        self.write(steps)

    def write(self, steps: str) -> None:
        (self.folder / "reproduce.toml").write_text(steps, encoding="utf-8")

    def run(self, *arguments: str, expect: int = 0) -> list[str]:
        log = self.folder / "ran.txt"
        log.unlink(missing_ok=True)
        assert main(["--file", str(self.folder / "reproduce.toml"), *arguments]) == expect
        return log.read_text().split() if log.exists() else []

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def touch(self, name: str, text: str = "") -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def remove(self, *names: str) -> None:
        for name in names:
            (self.folder / name).unlink()

    def forget(self) -> None:
        self.remove("runs/reproduce/state.json")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path, CHAIN)


def plan_of(project: Project, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, Any]]:
    capsys.readouterr()
    assert project.run("--json", *arguments) == []
    return {row["step"]: row for row in json.loads(capsys.readouterr().out)}


# Staleness


def test_everything_is_built_once_in_dependency_order(project: Project) -> None:
    assert project.run() == ["first", "middle", "last", "other"]
    assert project.text("c.txt") == "WORDS VERY LOUD"
    assert project.run() == []


def test_a_changed_input_rebuilds_what_depends_on_it_and_nothing_else(project: Project) -> None:
    project.run()
    project.touch("source.txt", "new words")
    assert project.run() == ["first", "middle", "last"]


def test_a_file_that_was_only_touched_is_no_change(project: Project) -> None:
    project.run()
    os.utime(project.folder / "source.txt", (1, 1))
    assert project.run() == []


def test_a_changed_input_of_the_same_size_is_detected(project: Project) -> None:
    source = project.folder / "source.txt"
    os.utime(source, (1000, 1000))
    project.run()  # old enough for its digest to be cached by size and time
    project.touch("source.txt", "sword")
    os.utime(source, (1001, 1001))
    assert project.run() == ["first", "middle", "last"]


def test_a_missing_output_is_rebuilt_and_later_steps_stay_if_it_is_the_same(project: Project) -> None:
    project.run()
    project.remove("a.txt")
    assert project.run() == ["first"]  # the same bytes: early cut-off


def test_a_different_input_with_the_same_result_stops_at_that_step(project: Project) -> None:
    project.run()
    project.touch("source.txt", "WORDS")
    assert project.run() == ["first"]


def test_a_modified_output_is_rebuilt(project: Project) -> None:
    project.run()
    project.touch("b.txt", "edited")
    assert project.run() == ["middle"]
    assert project.text("b.txt") == "WORDS very loud"


def test_a_changed_argument_rebuilds_its_step_and_later_ones(project: Project) -> None:
    project.run()
    project.write(CHAIN.replace("very loud", "rather quiet"))
    assert project.run() == ["middle", "last"]
    assert project.text("c.txt") == "WORDS RATHER QUIET"


def test_a_folder_is_an_input_with_all_its_files_but_no_compiled_or_hidden_ones(tmp_path: Path) -> None:
    steps = '[goals]\nreproduce = ["*"]\n[steps.one]\ncommand = "python make.py one a.txt x"\n'
    project = Project(tmp_path, steps + 'inputs = ["code"]\noutputs = ["a.txt"]\n')
    project.touch("code/deep/module.py", "1")
    assert project.run() == ["one"]
    project.touch("code/__pycache__/module.pyc", "2")
    project.touch("code/.cache", "3")
    assert project.run() == []
    (tmp_path / "code" / "deep" / "module.py").rename(tmp_path / "code" / "deep" / "renamed.py")
    assert project.run() == ["one"]


# Files without a record


def test_outputs_that_came_with_the_clone_are_adopted(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.run()
    project.forget()
    assert {row["status"] for row in plan_of(project, capsys).values()} == {"adopted"}
    assert project.run() == []
    project.touch("source.txt", "changed since")
    assert project.run() == ["first", "middle", "last"]


def test_an_output_of_the_clone_is_not_adopted_after_its_input_was_made_here(project: Project) -> None:
    project.touch("c.txt", "from elsewhere")
    assert project.run("middle") == ["first", "middle"]
    assert project.run("last") == ["last"]  # in another run: the step before it ran here
    assert project.text("c.txt") == "WORDS VERY LOUD"


def test_times_are_measured_on_this_machine_and_again_on_request(project: Project) -> None:
    project.write(CHAIN + "measures = true\n")  # of the last step in the file: other
    project.touch("d.txt", "times of another machine")
    assert project.run("other") == ["other"]
    assert project.run("other") == []
    assert project.run("other", "--again") == ["other"]
    assert project.run("last", "--again") == ["first", "middle", "last"]
    assert project.run("last", "--again") == ["last"]  # what it needs is up to date


# Steps that do not finish

RESUMABLE = """
[goals]
reproduce = ["*"]

[steps.train]
command = "python make.py train run/model.txt source.txt"
inputs = ["source.txt"]
outputs = ["run/model.txt"]
partial = ["run"]
resume = "python make.py resume run/model.txt source.txt"
checkpoint = "run/checkpoint"

[steps.sweep]
command = "python make.py sweep sweep.txt run/model.txt"
inputs = ["run/model.txt"]
outputs = ["sweep.txt"]
partial = ["sweep.txt", "rows"]
resume = true
"""


@pytest.fixture
def resumable(tmp_path: Path) -> Project:
    return Project(tmp_path, RESUMABLE)


def test_a_killed_command_leaves_nothing_that_counts(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.touch("kill-middle")
    assert project.run(expect=1) == ["first", "middle", "other"]  # last is blocked, other continues
    assert project.text("b.txt") == "half"
    output = capsys.readouterr().out
    assert "failed: middle: killed by SIGKILL" in output
    assert "last blocked: middle failed" in output
    project.remove("kill-middle")
    assert project.run() == ["middle", "last"]
    assert project.text("c.txt") == "WORDS VERY LOUD"


def test_a_step_that_failed_after_an_earlier_success_is_not_up_to_date(project: Project) -> None:
    project.run()
    project.touch("source.txt", "new")
    project.touch("fail-first")
    assert project.run(expect=1) == ["first"]
    project.remove("fail-first")
    project.touch("source.txt", "words")  # as in the first run, but the output is from the failed one
    assert project.run() == ["first"]
    assert project.text("a.txt") == "WORDS"


def test_the_last_lines_of_a_failed_command_are_shown(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.touch("fail-other")
    project.run("other", expect=1)
    output = capsys.readouterr().out
    assert "failed: exit 1: no more paper; see" in output
    assert "no more paper" in project.text("runs/reproduce/other.log")


def test_a_command_that_does_not_write_its_output_has_failed(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write(CHAIN.replace('outputs = ["d.txt"]', 'outputs = ["e.txt"]'))
    assert project.run("other", expect=1) == ["other"]
    assert "did not write e.txt" in capsys.readouterr().out


def test_a_killed_training_resumes_from_its_checkpoint(resumable: Project) -> None:
    resumable.touch("kill-train")
    assert resumable.run("train", expect=1) == ["train"]
    assert resumable.run("train", expect=1) == ["train"]  # no checkpoint yet: from the beginning
    resumable.remove("kill-train")
    resumable.touch("run/checkpoint")
    assert resumable.run("train") == ["resume"]
    assert resumable.text("run/model.txt") == "WORDS"


def test_what_no_recorded_run_made_is_moved_aside_and_not_deleted(resumable: Project) -> None:
    resumable.touch("run/thesis.tex", "precious")
    assert resumable.run("train") == ["train"]
    (kept,) = resumable.folder.glob("runs/reproduce/set-aside/train-*/run/thesis.tex")
    assert kept.read_text() == "precious" and not (resumable.folder / "run" / "thesis.tex").exists()


def test_a_run_with_other_inputs_is_not_resumed(resumable: Project) -> None:
    resumable.touch("kill-train")
    resumable.run("train", expect=1)
    resumable.remove("kill-train")
    resumable.touch("run/checkpoint")
    resumable.touch("source.txt", "other words")
    assert resumable.run("train") == ["train"]
    assert not (resumable.folder / "run" / "checkpoint").exists()


def test_what_was_measured_for_another_model_is_removed_first(resumable: Project) -> None:
    resumable.run()
    resumable.touch("rows/1")
    resumable.touch("source.txt", "another model")
    assert resumable.run() == ["train", "sweep"]
    assert not (resumable.folder / "rows").exists()


def test_a_killed_sweep_keeps_its_rows(resumable: Project) -> None:
    resumable.touch("kill-sweep")
    resumable.run(expect=1)
    resumable.remove("kill-sweep")
    resumable.touch("rows/1")
    assert resumable.run() == ["sweep"]
    assert (resumable.folder / "rows" / "1").exists()


def test_a_finished_training_run_without_a_record_is_only_checked(resumable: Project) -> None:
    """It may be unfinished, so its command runs again; if nothing changes, later steps stay up to date."""
    resumable.run()
    resumable.touch("run/checkpoint")
    resumable.forget()
    assert resumable.run() == ["resume", "sweep"]
    assert all(record.adopted for record in State(resumable.folder / "runs/reproduce/state.json").done.values())


def start_runner(project: Project, *arguments: str, in_background: bool = False) -> subprocess.Popen[bytes]:
    """in_background: as a shell starts it with `&`."""
    command = [sys.executable, "-m", "reproduce", "--file", str(project.folder / "reproduce.toml"), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}

    def set_signal() -> None:  # whichever way the tests were started
        signal.signal(signal.SIGINT, signal.SIG_IGN if in_background else signal.SIG_DFL)

    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, preexec_fn=set_signal)


def wait_for(file: Path, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not file.exists() or not file.read_text():
        assert time.monotonic() < deadline, f"no {file.name}"
        time.sleep(0.02)


SLOW = """
import os, pathlib, sys, time
pathlib.Path("slow.txt").write_text("half")
pathlib.Path("pid").write_text(str(os.getpid()))
try:
    time.sleep(60 if pathlib.Path("wait").exists() else 0)
except KeyboardInterrupt:
    pathlib.Path("saved").touch()
    sys.exit(130)
pathlib.Path("slow.txt").write_text("whole")
"""


@pytest.fixture
def slow(tmp_path: Path) -> Project:
    steps = '[goals]\nreproduce = ["*"]\n[steps.slow]\ncommand = "python slow.py"\noutputs = ["slow.txt"]\n'
    project = Project(tmp_path, steps)
    project.touch("slow.py", SLOW)
    project.touch("wait")
    return project


def test_a_killed_runner_records_nothing_and_its_command_keeps_others_out(
    slow: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    with start_runner(slow) as runner:
        wait_for(slow.folder / "pid")
        runner.kill()
    command = int(slow.text("pid"))
    slow.run(expect=1)
    assert "a command that it started is still running" in capsys.readouterr().err
    os.kill(command, signal.SIGKILL)
    slow.remove("wait")
    deadline = time.monotonic() + 30
    while main(["--file", str(slow.folder / "reproduce.toml")]):  # until the system has closed the files of the command
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert slow.text("slow.txt") == "whole"


@pytest.mark.parametrize(
    ("sign", "in_background"), [(signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGTERM, True)]
)
def test_stopping_the_runner_lets_the_command_save_its_work(
    slow: Project, sign: signal.Signals, in_background: bool
) -> None:
    with start_runner(slow, in_background=in_background) as runner:
        wait_for(slow.folder / "pid")
        runner.send_signal(sign)
        assert runner.wait(30) == 130
    assert (slow.folder / "saved").exists()
    state = State(slow.folder / "runs/reproduce/state.json")
    assert "slow" in state.started and not state.done


# Choosing steps, and dry runs


def test_one_step_comes_with_what_it_needs(project: Project) -> None:
    assert project.run("middle") == ["first", "middle"]
    assert project.run("mid*", "other") == ["other"]


def test_a_dry_run_says_what_and_why_and_does_nothing(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.run()
    project.touch("source.txt", "new")
    before = project.text("runs/reproduce/state.json")
    capsys.readouterr()
    assert project.run("--dry-run") == []
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split(maxsplit=2)[:2] == ["first", "run"] and "source.txt has changed" in lines[0]
    assert lines[1].split(maxsplit=2)[:2] == ["middle", "maybe"] and "if first gives another result" in lines[1]
    assert lines[3].split() == ["other", "up", "to", "date"]
    assert lines[4] == "4 steps: 1 up to date, 1 run, 2 maybe"
    assert project.text("runs/reproduce/state.json") == before


def test_the_plan_as_json(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    plan = plan_of(project, capsys, "middle")
    assert list(plan) == ["first", "middle"]
    assert plan["middle"] == {
        "step": "middle",
        "status": "run",
        "reason": "no b.txt",
        "commands": ["python make.py middle b.txt a.txt very loud"],
        "inputs": ["a.txt"],
        "outputs": ["b.txt"],
        "measures": False,
        "last_seconds": None,
    }


def test_each_step_has_one_line_and_a_summary_follows(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.run("first")
    capsys.readouterr()
    project.run()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "[1/4] first up to date"
    assert re.fullmatch(r"\[2/4\] middle \(no b\.txt\) … done in \d:\d\d", lines[1])
    assert re.fullmatch(r"3 made, 1 up to date; \d:\d\d", lines[4])


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_the_running_step_shows_its_time_and_last_line(project: Project) -> None:
    (step, *_) = steps = read_workflow(project.folder / "reproduce.toml").chosen([])
    lines = Lines(screen := Terminal(), steps)
    lines.begin(step, "no a.txt")
    lines.running(723.2, "epoch 3 " + 200 * "=")
    lines.end(step, "done in 12:04")
    begun, shown, ended = screen.getvalue().split("\r\x1b[K")
    assert begun == "[1/4] first (no a.txt) …"
    assert shown.startswith("[1/4] first (no a.txt) … 12:03  epoch 3 ===") and len(shown) < 200  # never two rows
    assert ended == "[1/4] first (no a.txt) … done in 12:04\n"


CORPORA = """
[places]
data = "nowhere"

[goals]
reproduce = ["*"]

[steps.large]
command = "python make.py large large.txt {data}/large/words.txt"
needs = ["{data}/large"]
outputs = ["large.txt"]

[steps.after]
command = "python make.py after after.txt large.txt"
inputs = ["large.txt"]
outputs = ["after.txt"]

[steps.lacks]
command = "python make.py lacks lacks.txt x"
needs = ["module:no_such_module"]
outputs = ["lacks.txt"]

[steps.small]
command = "python make.py small small.txt x"
outputs = ["small.txt"]

[steps.report]
command = "python make.py report report.txt {optional}"
optional = ["after.txt", "small.txt", "--option=small.txt"]
outputs = ["report.txt"]
"""


def test_steps_without_their_corpus_are_skipped_and_the_rest_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, CORPORA)
    assert project.run() == ["small", "report"]
    output = capsys.readouterr().out
    assert "skipped: no nowhere/large: large, after" in output
    assert "skipped: no Python module no_such_module: lacks" in output
    assert project.text("report.txt") == "X --option=small.txt"


def test_a_report_is_rebuilt_when_an_optional_input_appears(tmp_path: Path) -> None:
    project = Project(tmp_path, CORPORA)
    project.run()
    project.touch("corpora/large/words.txt", "many")
    corpora = f"data={tmp_path / 'corpora'}"
    assert project.run("report", "--set", corpora) == []  # it does not request an optional input
    assert project.run("--set", corpora) == ["large", "after", "report"]
    assert project.text("report.txt") == "MANY X --option=small.txt"


def test_a_corpus_that_was_moved_is_the_same_corpus(tmp_path: Path) -> None:
    project = Project(tmp_path, CORPORA)
    project.touch("corpora/large/words.txt", "many")
    project.run("--set", f"data={tmp_path / 'corpora'}")
    (tmp_path / "corpora").rename(tmp_path / "two words")
    assert project.run("--set", f"data={tmp_path / 'two words'}") == []
    project.touch("two words/large/words.txt", "more")
    assert project.run("--set", f"data={tmp_path / 'two words'}") == ["large", "after", "report"]


def test_a_report_waits_for_optional_inputs_that_failed(tmp_path: Path) -> None:
    project = Project(tmp_path, CORPORA)
    project.touch("fail-small")
    assert project.run(expect=1) == ["small"]


# What a step can do without

BETTER = """
[places]
data = "nowhere"

[goals]
reproduce = ["*"]

[steps.train]
command = "python make.py train model.txt x"
optional = ["{data}/letters.txt", "{data}/songs.txt"]
without = "the model reads less text"
outputs = ["model.txt"]

[steps.pack]
command = "python make.py pack packed.txt model.txt {optional}"
inputs = ["model.txt"]
optional = ["--list={data}/american", "--list={data}/british"]
together = true
without = "no words are hidden"
outputs = ["packed.txt"]

[steps.lacks]
command = "python make.py lacks lacks.txt x"
needs = ["{data}/large"]
optional = ["{data}/letters.txt"]
without = "the model reads less text"
outputs = ["lacks.txt"]
"""
NO_TEXTS = "missing: nowhere/letters.txt, nowhere/songs.txt: the model reads less text (train)"
NO_LISTS = "missing: nowhere/american, nowhere/british: no words are hidden (pack)"


@pytest.mark.parametrize("options", [["--dry-run"], []])
def test_what_is_missing_is_named_with_what_follows(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a real run before its first step, which can take hours."""
    project = Project(tmp_path, BETTER)
    assert project.run(*options) == ([] if options else ["train", "pack"])
    lines = capsys.readouterr().out.splitlines()
    named = [line for line in lines if line.startswith("missing:")]
    assert named == [NO_TEXTS, NO_LISTS]
    assert options or lines.index(NO_TEXTS) < next(place for place, line in enumerate(lines) if "train" in line[:20])


def test_nothing_is_missing_where_everything_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = Project(tmp_path, BETTER)
    for name in ("letters.txt", "songs.txt", "american", "british", "large"):
        project.touch(f"nowhere/{name}")
    project.run()
    assert "missing" not in capsys.readouterr().out


def test_inputs_that_belong_together_are_used_if_all_are_there(tmp_path: Path) -> None:
    """Half of the word lists would hide the correct words of the other half."""
    project = Project(tmp_path, BETTER)
    project.touch("nowhere/american")
    assert project.run() == ["train", "pack"] and project.text("packed.txt") == "X"
    assert project.run() == []
    project.touch("nowhere/british")
    assert project.run() == ["pack"]
    assert project.text("packed.txt") == "X --list=nowhere/american --list=nowhere/british"


def test_a_text_that_appears_makes_a_step_run_again(tmp_path: Path) -> None:
    project = Project(tmp_path, BETTER)
    project.run()
    project.touch("nowhere/songs.txt", "la")
    assert project.run() == ["train"]  # its result is the same here, so pack stays


# Errors


def problem(project: Project, steps: str, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    project.write(steps)
    assert project.run("--dry-run", *arguments, expect=1) == []
    error = capsys.readouterr().err
    assert error.startswith("reproduce: ") and error.count("\n") == 1
    return error


def one_step(**fields: Any) -> str:
    fields = {"command": "true", "outputs": ["a.txt"], **fields}
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in fields.items() if value is not None)
    return f'[goals]\nreproduce = ["*"]\n[places]\ndata = "x"\n[steps.one]\n{lines}\n'


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("steps = 1 =", "is not valid TOML"),
        ("[step.one]\n", "unknown 'step', did you mean 'steps'?"),
        (one_step(input=["b.txt"]), "step 'one': unknown 'input', did you mean 'inputs'?"),
        (one_step(command=None), "step 'one' has no command"),
        (one_step(command="echo 'open"), "cannot be split into words"),
        (one_step(command="echo {date}"), "unknown name {date}, did you mean 'data'?"),
        (one_step(inputs=["{daat}/ptb"]), "unknown name {daat}, did you mean 'data'?"),
        (one_step(outputs=[]), "step 'one' has no outputs"),
        (one_step(outputs="a.txt"), "outputs: expected a list of texts"),
        (one_step(outputs=["../a.txt"]), "expected a path inside the project"),
        (one_step(partial=["/tmp/a"]), "expected a path inside the project"),
        (one_step(inputs=["a.txt"]), "reads its own output"),
        (one_step(inputs=["b.txt"]), "reads b.txt, which does not exist and which no step makes"),
        (one_step(resume="true"), "add checkpoint"),
        (one_step(measures="yes"), "measures true or false"),
        (one_step(together="yes"), "together true or false"),
        (one_step(optional=["{data}/a"]), "can do without {data}/a; add without, what follows if it is missing"),
        (one_step(without="no words are hidden"), "has no optional input from outside"),
        (
            one_step() + '[steps.two]\ncommand = "true"\noutputs = ["a.txt"]\n',
            "steps 'one' and 'two' both write a.txt",
        ),
        (
            one_step(inputs=["b.txt"]) + '[steps.two]\ncommand = "true"\ninputs = ["a.txt"]\noutputs = ["b.txt"]\n',
            "in a circle: one → two → one",
        ),
        (one_step().replace("[goals]", '[goals]\none = ["*"]'), "the name of a goal and of a step"),
    ],
)
def test_an_invalid_steps_file_is_a_one_line_error(
    project: Project, capsys: pytest.CaptureFixture[str], steps: str, message: str
) -> None:
    assert message in problem(project, steps, capsys)


def test_an_unknown_step_names_the_nearest(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no step 'midle', did you mean 'middle'?" in problem(project, CHAIN, capsys, "midle")


def test_an_unknown_place_names_the_nearest(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert "unknown 'dta', did you mean 'data'?" in problem(project, CHAIN, capsys, "--set", "dta=x")
    assert "expected PLACE=FOLDER" in problem(project, CHAIN, capsys, "--set", "data")


def test_again_needs_a_step(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert "name at least one" in problem(project, CHAIN, capsys, "--again")


@pytest.mark.parametrize("contents", ["", "[]", '{"version": 1}', '{"version": 1, "done": {"a": {}}, "started": {}}'])
def test_a_broken_state_file_is_one_line(project: Project, capsys: pytest.CaptureFixture[str], contents: str) -> None:
    project.touch("runs/reproduce/state.json", contents)
    assert "state.json cannot be read" in problem(project, CHAIN, capsys)


def test_a_state_file_of_a_later_version_is_one_line(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.touch("runs/reproduce/state.json", '{"version": 2, "done": {}, "started": {}}')
    assert "has version 2; expected 1" in problem(project, CHAIN, capsys)


# The project's own steps


@pytest.fixture(scope="module")
def workflow() -> Workflow:
    return read_workflow(ROOT / "reproduce.toml")


def own_commands() -> list[tuple[str, list[str]]]:
    """Every command of reproduce.toml, with its placeholders."""
    steps = read_workflow(ROOT / "reproduce.toml").steps.values()
    return [
        (step.name, [part for word in command for part in (step.optional if word == OPTIONAL else [word])])
        for step in steps
        for command in (*step.commands, *([step.resume] if step.resume else []))
    ]


@pytest.mark.parametrize(("step", "words"), own_commands())
def test_every_command_of_the_project_can_be_called_like_that(step: str, words: list[str]) -> None:
    program, name, *arguments = words
    if program == "rheostat":
        commands: Mapping[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
        assert name in commands, f"{step}: no command {name}"
        commands[name].make_context(name, arguments)
    elif program == "python":
        assert (ROOT / name).exists(), f"{step}: no {name}"
    else:
        assert program == "cp"


@pytest.mark.parametrize(("step", "words"), own_commands())
def test_every_file_that_a_command_names_is_declared(step: str, words: list[str], workflow: Workflow) -> None:
    """A change in an undeclared file would go unnoticed."""
    declared = workflow.steps[step]
    known = {*declared.inputs, *declared.outputs, *declared.needs, *declared.partial, *declared.optional_inputs}
    for word in words:
        path = word.partition("=")[2] if word.startswith("--") else word
        if re.match(r"(runs|results|models|benchmarks|src|tests)/|\{", path):
            within = {str(folder) for folder in (Path(path), *Path(path).parents)}
            written_there = any(name.startswith(f"{path}/") for name in known)
            assert within & known or written_there or path.startswith("runs/govern-"), f"{step} does not declare {path}"


def test_the_goals_are_the_results_and_the_bundled_model(workflow: Workflow) -> None:
    reproduced = {step.name for step in workflow.chosen([])}
    bundled = {step.name for step in workflow.chosen(["model"])}
    # typing needs the bundled model, but the bundled model is measured without it
    assert "typing" in reproduced - bundled and "talk-graded" in bundled
    assert reproduced == set(workflow.steps)  # so that a dry run lists every step


def test_the_report_comes_last_and_reads_only_results_that_are_made(workflow: Workflow) -> None:
    assert list(workflow.steps)[-1] == "report"
    made = {output for step in workflow.steps.values() for output in step.outputs}
    assert set(workflow.steps["report"].optional_inputs) <= made


def test_steps_that_train_can_resume_and_time_is_measured_where_it_is_claimed(workflow: Workflow) -> None:
    for step in workflow.steps.values():
        words = step.commands[0]
        if words[:2] == ("rheostat", "train") and "--untrained" not in words:
            assert step.resume and step.checkpoint, step.name
        assert step.measures == (words[1] in ("bench", "ngram", "typing", "benchmarks/training_curve.py")), step.name


def test_nothing_is_adopted_from_the_clone_before_its_model_is_there(workflow: Workflow, tmp_path: Path) -> None:
    if (ROOT / "runs").exists():
        pytest.skip("runs/ is there: not a fresh clone")
    chosen = workflow.chosen([])
    plan = Judge(workflow, State(tmp_path / "state.json")).plan(chosen)
    needs = {need for step in chosen for need in step.needs if not need.startswith(MODULE)}
    assert needs == {
        *("{data}/ptb", "{data}/wikitext-103-part", "{data}/talk", "{models}/ptb-qrnn.safetensors"),
        *("{words}/codespell.txt", "runs/before.safetensors"),
    }
    # Days of the paper's own model on its own board need no model file.
    needing = set(plan) - {"report", "govern-busy-device", "govern-raspberry-pi"}
    statuses = {judgement.status for name, judgement in plan.items() if name in needing}
    assert statuses <= {Status.RUN, Status.SKIP}


def test_the_bundled_model_is_made_from_what_package_registries_have(workflow: Workflow) -> None:
    """Other texts and word lists are used if they are there, and named if not."""
    assert {need for step in workflow.chosen(["model"]) for need in step.needs} == {"module:chitchat_dataset"}
    # The text of the others is that of the steps before them.
    first = [name for name, step in workflow.steps.items() if "talk" in step.commands[0] and not workflow.before[name]]
    assert set(first) == {"talk", "talk-ngram", "chat-ngram-demo"}
    files = {f"{{data}}/talk/{part.file}" for part in talk_parts() if part.file}
    assert all(set(workflow.steps[name].optional_inputs) == files for name in first)
    lists = {f"{{words}}/{name}{size}" for name in ("american-english", "british-english") for size in ("", "-huge")}
    packed = workflow.steps["talk-pack"]
    assert set(packed.optional_inputs) == lists and packed.together


def test_make_and_the_steps_agree_on_places(workflow: Workflow) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for name, folder in workflow.places.items():
        assert re.search(rf"^{name.upper()} \?= {re.escape(folder)}$", makefile, re.MULTILINE)


def test_unknown_goal_of_the_project_is_an_error(workflow: Workflow) -> None:
    with pytest.raises(ReproduceError, match="did you mean 'ptb-l0'"):
        workflow.chosen(["ptb-l00"])
