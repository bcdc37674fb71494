"""Kills commands that write at random moments, and looks at what they left behind.

    python benchmarks/kills.py --count 200 --json
    python benchmarks/kills.py --only path --only keyboard --count 20

Every command runs once to the end, for its time and for the number of changes that are seen in its folder. Then it is
started again and again on what was there before, and killed (SIGKILL): alternately at a random moment of that time and
just after a random one of those changes, since writing takes a small part of the time. Afterwards

* every file is whole, the old one or a new one, and what the command does not write has not changed;
* there is nothing new but its results, lock files, and half-written files under names that a later run deletes;
* the same command, or its resumption if it has one, succeeds, and every file is whole again;
* words whose learning the server had confirmed are in their file.

The moments come from a seed. A command is a forked process that finds everything imported: a kill never falls into
Python's start, and 200 take minutes instead of hours.
"""

from __future__ import annotations

import contextlib
import json
import os
import pkgutil
import random
import re
import shutil
import signal
import socket
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import rheostat
from faults import tree
from measuring import make_parser, report_results

PATIENCE_S = 600
LOOK_S = 0.0005  # between two looks at the folder
LATER_S = 0.005  # the longest wait between a change and the kill
MOST_STARTS = 3  # for each kill that was asked for: a command may end before its moment
HEAVY = ("torch", "matplotlib.pyplot", "onnx", "uvicorn", "tensorboard", "numba")
TOLD = "told"  # beside the folder: what the server has confirmed
ROOT = Path(__file__).parents[1]
RECIPE = """
[corpus]
tokenizer = "words"
[model]
embedding_size = 16
layers = 2
hidden_size = 32
[train]
steps = 12
batch_size = 4
sequence_length = 20
checkpoint_minutes = 0.0
"""
FEW = "--set train.steps=8 --set train.batch_size=4"
OUT = "--data {0}/text -o {0}/out"


@dataclass(frozen=True)
class Command:
    """line: its arguments, with {0} for the folder it works in and {1} for a free port. writes: what it may change.

    again: how it is resumed, if not by the same arguments. talk: what a client says to a server, which is then ended.
    """

    name: str
    line: str
    writes: tuple[str, ...] = ("out",)
    again: Callable[[Path], Sequence[str]] | None = None
    talk: Callable[[Path, int], None] | None = None

    def arguments(self, folder: Path) -> list[str]:
        return [part.replace("{0}", str(folder)) for part in self.line.split()]


def _train_again(folder: Path) -> Sequence[str]:
    run = folder / "run"
    if (run / "checkpoint.pt").exists():
        return ["train", "--resume", "-o", str(run)]
    return COMMANDS[0].arguments(folder)


def _teach(folder: Path, port: int) -> None:
    """Teach words until the server is gone, and note what it has confirmed."""
    address = f"http://127.0.0.1:{port}/api/"
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}health"):
            break
        time.sleep(0.01)
    for number in range(8):
        word = "taught" + "abcdefgh"[number]
        asked = urllib.request.Request(f"{address}learn", json.dumps({"word": word}).encode())
        asked.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(asked), (folder.parent / TOLD).open("a") as told:
            told.write(f"{word}\n")


COMMANDS = [
    Command("train", "train {0}/small.toml --data {0}/text -o {0}/run", ("run",), _train_again),
    Command("evaluate", "evaluate {0}/model --data {0}/text", ()),
    Command("prune", "prune {0}/model --criterion filter-norm -o {0}/out"),
    Command("prune l0", f"prune {{0}}/model --criterion l0 --knob 0.8 {FEW} {OUT}"),
    Command("recover", f"recover {{0}}/model --knob 0.8 {FEW} {OUT}"),
    Command("reconstruct", f"reconstruct {{0}}/model --tokens 2000 {OUT}"),
    Command("resplit", f"resplit {{0}}/model --tails 2 --tokens 1000 {OUT}"),
    Command("path", f"path {{0}}/ordered --tokens 300 {OUT}"),
    Command("count", f"count {{0}}/model {OUT}"),
    Command("pack", "pack {0}/model --precision int8 --order -o {0}/out"),
    Command("pack in place", "pack {0}/out --precision fp16 -o {0}/out"),
    Command("sweep", "sweep {0}/model --data {0}/text --knob 0.8 -o {0}/results.json", ("results.json",)),
    Command("bench", "bench {0}/model --knob 0.6 --queries 20 --meter none -o {0}/bench.json", ("bench.json",)),
    Command(
        "ngram",
        "ngram {0}/small.toml --data {0}/text --queries 5 --words 20 --arpa {0}/arpa -o {0}/ngram.json",
        ("arpa", "ngram.json"),
    ),
    Command(
        "typing",
        "typing {0}/model --aac {0}/aac --knob 1 --order 0 --page {0}/typing.md -o {0}/typing.json",
        ("typing.json", "typing.md"),
    ),
    Command("report", "report {0}/old.json -o {0}/report", ("report",)),
    Command("govern", "govern --trace {0}/day.csv -o {0}/govern", ("govern",)),
    Command("demo", "demo --model {0}/model --data {0}/text/test.txt --queries 5 --meter none -o {0}/demo", ("demo",)),
    Command("export", "export {0}/model --knob 0.6 -o {0}/exported", ("exported",)),
    Command("export for the core", "export {0}/model --engine core -o {0}/exported", ("exported",)),
    Command("page", "page {0}/model -o {0}/site", ("site",)),
    Command("memory", "memory {0}/memory --forget soon", ("memory",)),
    Command("memory export", "memory {0}/memory -o {0}/memory-2", ("memory-2",)),
    Command("suggest", "suggest see --model {0}/model --learn you --words {0}/words", ("words",)),
    Command("complete", "complete se --model {0}/model --learn you --words {0}/words", ("words",)),
    Command("keyboard", "keyboard {0}/model --port {1} --user-words {0}/words", ("words",), talk=_teach),
]


def make_start(folder: Path) -> None:
    """What is there before: models, texts, a recipe, results, a memory, words, and outputs of an earlier run."""
    from models import make_ranking, make_vocabulary, make_weights, write_file
    from rheostat.model.contents import Contents
    from rheostat.model.file import open_model
    from rheostat.model.ordered import order_filters
    from rheostat.model.shape import ModelShape
    from rheostat.model.writer import write_model
    from rheostat.words.memory import Memory
    from rheostat.words.user_words import UserWords

    folder.mkdir()
    shape = ModelShape(60, 16, (48, 16), (2, 1))
    everything: dict[str, Any] = {"text": {"tokenizer": "words"}, "default_ranking": "first"}
    everything |= {"rankings": [make_ranking(shape, 1, "first")], "weights": make_weights(shape)}
    for name, precision in (("model", "fp32"), ("ordered", "int8")):
        vocabulary = make_vocabulary(shape.vocabulary_size)
        write_file(folder / name, shape=shape, vocabulary=vocabulary, precision=precision, **everything)
    with open_model(folder / "ordered") as file:
        contents: Contents = order_filters(file.contents())
    write_model(folder / "ordered", contents)
    shutil.copy(folder / "model", folder / "out")
    (folder / "text").mkdir()
    (folder / "aac").mkdir()
    chance = random.Random(1)
    places = {"text/train": 400, "text/valid": 20, "text/test": 20, "aac/test": 2, "aac/dev": 2}
    for name, lines in places.items():
        words = (" ".join(f"word{chance.randrange(2, 9)}" for _ in range(8)) for _ in range(lines))
        (folder / f"{name}.txt").write_text("\n".join(words) + "\n")
    (folder / "small.toml").write_text(RECIPE)
    shutil.copy(ROOT / "results" / "wt103.json", folder / "old.json")
    shutil.copy(ROOT / "tests" / "data" / "traces" / "ordinary-day.csv", folder / "day.csv")
    memory = Memory(folder / "memory")
    memory.learn(["see", "you", "soon"])
    memory.flush()
    UserWords(folder / "words").learn("soon")


# What was left behind


def problems_in(folder: Path, start: Path, command: Command) -> list[str]:
    """What cannot be read, has changed though the command does not write it, or does not belong here."""
    found = []
    before = tree(start)
    for name, content in tree(folder).items():
        if not _belongs(name, command):
            if name not in before:
                found.append(f"{name} was left")
            elif content != before[name]:
                found.append(f"{name} was changed")
            continue
        try:
            _read(folder / name, name)
        except Exception as error:  # whatever it is, this file is not whole
            found.append(f"{name}: {type(error).__name__}: {error!s:.200}")
    found += [f"{name} is gone" for name in before if not (folder / name).exists()]
    with contextlib.suppress(FileNotFoundError):
        from rheostat.words.user_words import UserWords

        taught = UserWords(folder / "words")
        told = (folder.parent / TOLD).read_text().split()
        found += [f"{word} was confirmed and is not in the file" for word in told if word not in taught]
    return found


def _belongs(name: str, command: Command) -> bool:
    """Whether a command writes this file: its results, the cache, and what it resumes from."""
    places = (*command.writes, *_resumed(command), "cache")
    return any(name == place or name.startswith(f"{place}/") for place in places)


def _resumed(command: Command) -> tuple[str, ...]:
    """What an interrupted command resumes from, beside its result."""
    return tuple(f"{place}.{kind}" for place in command.writes for kind in ("run", "search.json"))


def unswept(folder: Path) -> list[str]:
    """Half-written files that no later run would delete, even if they are old."""
    from rheostat.durable import STALE_SECONDS, sweep

    old = time.time() - 2 * STALE_SECONDS
    left = [path for path in folder.rglob("*") if re.search(r"\.partial$", path.name)]
    for path in left:
        os.utime(path, (old, old))
        sweep(path.parent)
    # A half-written export is a folder, which the next export to this place deletes.
    return [f"{path.name} stays" for path in left if path.is_file() and path.exists()]


ENDS = {".png": b"IEND\xaeB`\x82", ".svg": b"</svg>", ".html": b"</html>"}


def _read(path: Path, name: str) -> None:
    """Raises an error if a file is not whole."""
    from rheostat.measure.results import read_results
    from rheostat.model.file import open_model
    from rheostat.words.memory import Memory
    from rheostat.words.user_words import UserWords

    content = path.read_bytes()
    if name.startswith("cache/"):
        return  # checked whenever it is used: the next run is the test
    if name == "out" or (path.suffix == ".safetensors" and not name.startswith("site/")):
        with open_model(path) as file:
            file.contents()
    elif name in ("results.json", "bench.json", "ngram.json", "typing.json", "govern/govern.json", "demo/bench.json"):
        read_results(path)
    elif path.suffix == ".json":
        found = json.loads(content)
        if path.name == "manifest.json":
            sizes = {one.name: one.stat().st_size for one in path.parent.iterdir() if one.name != path.name}
            if sizes != found["bytes"]:
                raise ValueError(f"its sizes are not those of the folder: {sizes}")
    elif name in ("memory", "memory-2"):
        Memory(path)
    elif name == "words":
        UserWords(path)
    elif name == "arpa" and not content.rstrip().endswith(b"\\end\\"):
        raise ValueError("it has no end")
    elif not content and path.suffix != ".jsonl":
        raise ValueError("it is empty")
    elif not content.rstrip().endswith(ENDS.get(path.suffix, b"")):
        raise ValueError(f"it ends with {content[-20:]!r}")
    elif path.name == "checkpoint.pt":
        from rheostat.training.run_folder import RunFolder

        RunFolder(path.parent).load()


# Processes


def started(act: Callable[[], object], log: Path | None = None) -> int:
    """A forked process that acts; its id. log: for what it prints."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        descriptor = os.open(log or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        act()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def ended(child: int) -> int | None:
    """How a process ended; None if it is running."""
    found, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def asked(act: Callable[[], list[str]]) -> list[str]:
    """What a function returns in a forked process, so that nothing of it stays here."""
    reading, writing = os.pipe()

    def tell() -> None:
        with os.fdopen(writing, "w") as told:
            json.dump(act(), told)

    child = started(tell)
    os.close(writing)
    with os.fdopen(reading) as said:
        text = said.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else ["what was left could not be looked at"]


@dataclass(frozen=True)
class Run:
    seconds: float
    changes: int  # seen in the folder
    code: int | None  # None: it was killed
    said: str = ""


@dataclass(frozen=True)
class Moment:
    """When to kill: some seconds after the start, or after a change in the folder."""

    seconds: float
    change: int = 0

    def __str__(self) -> str:
        return f"{self.seconds:.3f} s after {f'change {self.change}' if self.change else 'the start'}"


def run(command: Command, folder: Path, arguments: Sequence[str], kill: Moment | None = None) -> Run:
    """Run a command, perhaps killed."""
    log = folder.parent / "log"
    port = _free_port()
    words = [part.replace("{1}", str(port)) for part in arguments]

    def act() -> None:
        from rheostat.cli import main

        os.environ["RHEOSTAT_CACHE"] = str(folder / "cache")
        sys.argv = ["rheostat", *words]
        main()

    begun = time.monotonic()
    child = started(act, log)
    client = started(lambda: command.talk(folder, port)) if command.talk else None
    seen, changes, changed = _look(folder), 0, begun
    is_killed = False
    while (code := ended(child)) is None:
        now = time.monotonic()
        if client is not None and ended(client) is not None:
            client = None
            os.kill(child, signal.SIGTERM)
        if (look := _look(folder)) != seen:
            seen, changes = look, changes + 1
            changed = now if kill and changes == kill.change else changed
        is_due = kill is not None and (changes >= kill.change and now - changed >= kill.seconds)
        if is_due or now - begun > PATIENCE_S:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            is_killed = is_due
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            break
        time.sleep(LOOK_S)
    if client is not None:  # it may still wait for the server
        os.kill(client, signal.SIGKILL)
        os.waitpid(client, 0)
    if is_killed and code == -signal.SIGKILL:
        return Run(time.monotonic() - begun, changes, None)
    if command.talk and code == -signal.SIGTERM:
        code = 0
    return Run(time.monotonic() - begun, changes, code, log.read_text(errors="replace")[-300:] if code else "")


def _look(folder: Path) -> frozenset[tuple[str, int, int]]:
    """All files with their size and number: a cheap way to see that something was written."""

    def walk(place: str) -> Iterator[tuple[str, int, int]]:
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    yield entry.path, status.st_size, status.st_ino
                    if entry.is_dir(follow_symlinks=False):
                        yield from walk(entry.path)

    return frozenset(walk(str(folder)))


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


# All of it


class Killer:
    """Kills commands in a folder that is reset each time."""

    def __init__(self, place: Path, seed: int) -> None:
        self.start, self.work = place / "start", place / "work"
        self.chance = random.Random(seed)
        self.whole: dict[str, Run] = {}
        self.problems: list[str] = []
        if failed := asked(lambda: [str(make_start(self.start) or "")]) != [""]:
            raise SystemExit(f"the files to start from could not be written: {failed}")

    def _begin(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        (self.work.parent / TOLD).unlink(missing_ok=True)
        shutil.copytree(self.start, self.work)

    def moment(self, command: Command, number: int) -> Moment:
        if command.name not in self.whole:
            self._begin()
            whole = run(command, self.work, command.arguments(self.work))
            if whole.code != 0:
                raise SystemExit(f"{command.name} fails without a kill: {whole.code} {whole.said}")
            if wrong := self._problems(command):
                raise SystemExit(f"{command.name}, not killed: {wrong[0]}")
            self.whole[command.name] = whole
        whole = self.whole[command.name]
        if number % 2 and whole.changes:
            return Moment(self.chance.uniform(0, LATER_S), self.chance.randint(1, whole.changes))
        return Moment(self.chance.uniform(0, whole.seconds))

    def kill(self, command: Command, moment: Moment) -> bool:
        """Start and kill a command, and look. Whether it was killed before it ended."""
        self._begin()
        found = run(command, self.work, command.arguments(self.work), moment)
        where = f"{command.name}, killed {moment}"
        if found.code not in (None, 0):
            self.problems.append(f"{where}: ended with {found.code}: {found.said}")
        self.problems += [f"{where}: {problem}" for problem in self._problems(command)]
        again = command.again(self.work) if command.again else command.arguments(self.work)
        if (second := run(command, self.work, again)).code != 0:
            self.problems.append(f"{where}: run again, it ended with {second.code}: {second.said}")
        self.problems += [f"{where}, then run again: {problem}" for problem in self._problems(command)]
        self.problems += [f"{where}, then run again: {problem}" for problem in self._left(command)]
        self.problems += [f"{where}, then run again: {problem}" for problem in asked(lambda: unswept(self.work))]
        return found.code is None

    def _problems(self, command: Command) -> list[str]:
        return asked(lambda: problems_in(self.work, self.start, command))

    def _left(self, command: Command) -> list[str]:
        """What to resume from, which a command deletes in the end."""
        return [f"{name} is left" for name in tree(self.work) if name.startswith(_resumed(command))]


def kill_all(count: int, seed: int, only: Sequence[str] = ()) -> dict[str, Any]:
    commands = [command for command in COMMANDS if not only or command.name in only]
    killed: dict[str, int] = {command.name: 0 for command in commands}
    _import_everything()
    with tempfile.TemporaryDirectory(prefix="rheostat-kills-") as place:
        killer = Killer(Path(place).resolve(), seed)
        begun, starts = time.monotonic(), 0
        told: list[str] = []
        while sum(killed.values()) < count and starts < MOST_STARTS * count:
            command = commands[starts % len(commands)]
            moment = killer.moment(command, starts // len(commands))
            killed[command.name] += killer.kill(command, moment)
            starts += 1
            while len(told) < len(killer.problems):
                told.append(killer.problems[len(told)])
                print(f"kills: {told[-1]}", file=sys.stderr)
            print(f"kills: {sum(killed.values())} of {count}, {command.name}, {moment}", file=sys.stderr)
        seconds = time.monotonic() - begun
    figures = {"started": starts, "killed": sum(killed.values()), "by_command": killed, "seed": seed}
    return {**figures, "seconds": round(seconds), "problems": killer.problems}


def _import_everything() -> None:
    """Import what commands need, before any process is forked. One thread, or a forked process could hang."""
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    names = [found.name for found in pkgutil.walk_packages(rheostat.__path__, "rheostat.")]
    for name in [*HEAVY, *(name for name in names if not name.endswith("__main__"))]:
        with contextlib.suppress(ImportError, rheostat.RheostatError):
            import_module(name)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--count", type=int, default=200, help="kills (default: 200)")
    parser.add_argument("--only", action="append", default=[], help="only this command; may be repeated")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.only) - {command.name for command in COMMANDS}):
        sys.exit(f"no command {unknown[0]}; expected some of {', '.join(command.name for command in COMMANDS)}")
    figures = kill_all(arguments.count, arguments.seed, arguments.only)
    for problem in figures["problems"]:
        print(problem)
    report_results("kills", figures, arguments)


if __name__ == "__main__":
    main()
