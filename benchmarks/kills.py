"""Kills commands that write at random moments, and looks at what they left behind.

    python benchmarks/kills.py --count 200 --json

Each command runs once to the end, for its time and its result. Then it is started again and again on what was there
before, and killed (SIGKILL) at a random moment of that time. Afterwards every file must be readable: the old one, or a
whole new one. Then the command is run once more, resumed if it can be, and must succeed. The moments come from a seed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from measuring import hand_over, make_parser
from models import make_ranking, make_vocabulary, make_weights, write_file
from rheostat.errors import RheostatError
from rheostat.measure.results import read_results
from rheostat.model.file import open_model
from rheostat.model.shape import ModelShape
from rheostat.words.memory import Memory

SHAPE = ModelShape(60, 16, (48, 16), (2, 1))
PATIENCE_S = 300
RECIPE = """
[corpus]
tokenizer = "words"
[model]
embedding_size = 16
layers = 2
hidden_size = 32
[train]
steps = 40
batch_size = 4
sequence_length = 20
checkpoint_minutes = 0.0
"""
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Command:
    """arguments, again: with {0} for the folder it works in. again: how it is continued, if not by the same command."""

    name: str
    arguments: tuple[str, ...]
    again: Callable[[Path], Sequence[str]] | None = None


def _train_again(folder: Path) -> Sequence[str]:
    run = folder / "run"
    if (run / "checkpoint.pt").exists():
        return ["train", "--resume", "-o", str(run)]
    return [part.format(folder) for part in COMMANDS[0].arguments]


COMMANDS = [
    Command("train", ("train", "{0}/small.toml", "--data", "{0}/text", "-o", "{0}/run"), _train_again),
    Command("prune", ("prune", "{0}/model", "--criterion", "filter-norm", "-o", "{0}/out")),
    Command("reconstruct", ("reconstruct", "{0}/model", "--data", "{0}/text", "--tokens", "2000", "-o", "{0}/out")),
    Command("count", ("count", "{0}/model", "--data", "{0}/text", "-o", "{0}/out")),
    Command("pack", ("pack", "{0}/model", "--precision", "int8", "--order", "-o", "{0}/out")),
    Command("sweep", ("sweep", "{0}/model", "--data", "{0}/text", "--knob", "0.8", "-o", "{0}/results.json")),
    Command("export", ("export", "{0}/model", "--knob", "0.6", "-o", "{0}/exported")),
    Command("page", ("page", "{0}/model", "-o", "{0}/site")),
    Command("report", ("report", "{0}/old.json", "-o", "{0}/report")),
    Command("memory", ("memory", "{0}/memory", "--forget", "soon")),
]


def make_start(folder: Path) -> None:
    """What is there before: a model, texts, a recipe, a results file, a memory, and outputs of an earlier run."""
    ranking = make_ranking(SHAPE, 1, "first")
    everything: dict[str, Any] = {"text": {"tokenizer": "words"}, "rankings": [ranking], "default_ranking": "first"}
    weights = make_weights(SHAPE)
    write_file(folder / "model", shape=SHAPE, vocabulary=make_vocabulary(60), weights=weights, **everything)
    shutil.copy(folder / "model", folder / "out")
    (folder / "text").mkdir()
    chance = random.Random(1)
    for name, lines in (("train", 400), ("valid", 40), ("test", 40)):
        words = (" ".join(f"word{chance.randrange(2, 9)}" for _ in range(8)) for _ in range(lines))
        (folder / "text" / f"{name}.txt").write_text("\n".join(words) + "\n")
    (folder / "small.toml").write_text(RECIPE)
    shutil.copy(ROOT / "results" / "chat.json", folder / "old.json")
    memory = Memory(folder / "memory")
    memory.learn(["see", "you", "soon"])
    memory.flush()


def problems_in(folder: Path) -> list[str]:
    """What cannot be read. Half-written files, which are named .partial, may be left behind by a kill."""
    found = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name == "site/model.safetensors":
            continue  # as the browser reads it
        if not path.is_file() or ".partial" in name or name.endswith(".lock") or ".old/" in name:
            continue
        try:
            _read(path, name)
        except (RheostatError, ValueError, OSError, KeyError) as error:
            found.append(f"{name}: {type(error).__name__}: {error!s:.200}")
    return found


def _read(path: Path, name: str) -> None:
    if path.name in ("model", "out") or path.suffix == ".safetensors":
        with open_model(path) as file:
            file.contents()
    elif name in ("results.json", "old.json"):
        read_results(path)
    elif path.suffix == ".json":
        found = json.loads(path.read_text(encoding="utf-8"))
        if path.name == "manifest.json":
            sizes = {one.name: one.stat().st_size for one in path.parent.iterdir() if one.name != path.name}
            if sizes != found["bytes"]:
                raise ValueError(f"its sizes are not those of the folder: {sizes}")
    elif name == "memory":
        Memory(path)
    elif path.suffix in (".png", ".svg", ".html", ".md", ".wasm", ".js") and not path.stat().st_size:
        raise ValueError("it is empty")
    elif path.name == "checkpoint.pt":
        from rheostat.training.run_folder import RunFolder

        RunFolder(path.parent).load()


def run(arguments: Sequence[str], seconds: float = PATIENCE_S) -> tuple[bool, str]:
    """Run a command, killed after some seconds. Whether it was killed; what it said, if it failed."""
    command = [sys.executable, "-m", "rheostat", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    try:
        _, said = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return True, ""
    return False, f"ended with {process.returncode}: {said[-300:]}" if process.returncode else ""


ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def kill_all(count: int, seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    killed: dict[str, int] = {command.name: 0 for command in COMMANDS}
    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix="rheostat-kills-") as place:
        start, work = Path(place) / "start", Path(place) / "work"
        ENVIRONMENT["RHEOSTAT_CACHE"] = str(Path(place) / "cache")
        start.mkdir()
        make_start(start)
        times: dict[str, float] = {}
        for number in range(count):
            command = COMMANDS[number % len(COMMANDS)]
            arguments = [part.format(work) for part in command.arguments]
            if command.name not in times:
                shutil.rmtree(work, ignore_errors=True)
                shutil.copytree(start, work)
                begun = time.monotonic()
                if failed := run(arguments)[1]:
                    raise SystemExit(f"{command.name} fails without a kill: {failed}")
                times[command.name] = time.monotonic() - begun
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(start, work)
            moment = chance.uniform(0.2, 1.0) * times[command.name]  # before that, Python is still starting
            was_killed, _ = run(arguments, moment)
            killed[command.name] += was_killed
            where = f"{command.name}, killed after {moment:.2f} of {times[command.name]:.2f} s"
            problems += [f"{where}: {problem}" for problem in problems_in(work)]
            _, failed = run(command.again(work) if command.again else arguments)
            if failed:
                problems.append(f"{where}: running it again {failed}")
            problems += [f"{where}, then run again: {problem}" for problem in problems_in(work)]
            print(f"kills: {number + 1} of {count}, {where}", file=sys.stderr)
    return {"started": count, "killed": sum(killed.values()), "by_command": killed, "seed": seed, "problems": problems}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--count", type=int, default=200, help="commands to start and kill (default: 200)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    figures = kill_all(arguments.count, arguments.seed)
    for problem in figures["problems"]:
        print(problem)
    hand_over("kills", figures, arguments)


if __name__ == "__main__":
    main()
