"""python scripts/fuzz.py [TARGET …] [--minutes N] [-o FILE]: the command behind `make fuzz`.

Damages inputs of every kind (tests/fuzz_targets.py) until the time is over, an equal part of it for each target. Each
target runs in a process of its own with a limit on memory, and each input has a limit on time. With Atheris (pip
install atheris), coverage of the program's own code guides which inputs are damaged further; without it they are drawn
at random from the kept ones. The target "core" is the opener in C, under libFuzzer and sanitizers; it needs clang
(Debian: apt install clang libclang-rt-dev), and is left out without it. An input that breaks something is written to
tests/data/fuzz, where `make test` finds it. The result goes to stdout as JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import importlib.util
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

MOST_BYTES = 6 << 30  # of address space, which torch uses freely
LONGEST_S = 20
MOST_FAULTS = 20  # a target that breaks so often is not worth more time
GUIDED_BYTES = 1 << 17  # of an input that Atheris makes
UNGUIDED = ("checkpoints",)  # nearly all of their time is torch's


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    if asked.one:
        run(asked.one, asked.seconds, asked.seed)
    from core_fuzzing import NAME as CORE
    from fuzz_targets import TARGETS

    known = [*TARGETS, CORE]
    names = asked.targets or known
    if unknown := sorted(set(names) - set(known)):
        sys.exit(f"fuzz: no target {unknown[0]}; expected some of {', '.join(known)}")
    seconds = 60 * asked.minutes / len(names)
    found = [start_core(seconds, asked.seed) if name == CORE else start(name, seconds, asked.seed) for name in names]
    report = {"minutes": asked.minutes, "seed": asked.seed, "targets": found}
    print(json.dumps(report, indent=1))
    if asked.out:
        asked.out.write_text(json.dumps(report, indent=1) + "\n")
    return int(any(one["faults"] for one in found))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Damage inputs of every kind and watch what the program does with them.",
        epilog="example: python scripts/fuzz.py results policy --minutes 2",
    )
    parser.add_argument("targets", nargs="*", help="default: all of tests/fuzz_targets.py, and core")
    parser.add_argument("--minutes", type=float, default=60.0, help="for all targets together (default: 60)")
    parser.add_argument("--seed", type=int, default=1, help="other seeds give other inputs (default: 1)")
    parser.add_argument("-o", "--out", type=Path, help="also write the result to this file")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    return parser


def start(name: str, seconds: float, seed: int) -> dict[str, Any]:
    """One target in a process of its own, so that a crash or a lack of memory is seen and does not end the others."""
    command = [sys.executable, __file__, "--one", name, "--seconds", str(seconds), "--seed", str(seed)]
    print(f"fuzz: {name}, {seconds:.0f} s", file=sys.stderr)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        crash = {"type": "crash", "message": f"the process ended with {done.returncode}"}
        return {"target": name, "inputs": None, "accepted": None, "faults": 1, "kinds": [crash]}
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def start_core(seconds: float, seed: int) -> dict[str, Any]:
    """The opener in C, for some seconds."""
    from core_fuzzing import fuzz

    print(f"fuzz: core, {seconds:.0f} s", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="rheostat-fuzz-") as folder:
        result = fuzz(Path(folder), seconds, seed)
    if why := result.get("skipped"):
        print(f"fuzz: core is left out; it {why}", file=sys.stderr)
    return result


class _Hang(BaseException):
    """An input took too long. Not an Exception, so that nothing catches it."""


def _stop(*_: object) -> NoReturn:
    raise _Hang(f"took longer than {LONGEST_S} s")


class _Watch:
    """Gives inputs to a target and notes what went wrong."""

    def __init__(self, name: str, folder: Path) -> None:
        from fuzz_targets import CORPUS, TARGETS

        self.target, self.folder, self.kept = TARGETS[name], folder, CORPUS / name
        self.inputs = self.accepted = self.faults = 0
        self.kinds: dict[str, dict[str, Any]] = {}

    def give(self, content: bytes) -> None:
        self.inputs += 1
        signal.alarm(LONGEST_S)
        try:
            self.accepted += self.target.accepts(content, self.folder)
        except (Exception, _Hang) as error:
            signal.alarm(0)
            self._note(error, content)
        finally:
            signal.alarm(0)

    def _note(self, error: BaseException, content: bytes) -> None:
        self.faults += 1
        place = traceback.extract_tb(error.__traceback__)[-1]
        kind = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"
        if kind not in self.kinds:
            self.kept.mkdir(parents=True, exist_ok=True)
            path = self.kept / hashlib.sha256(content).hexdigest()[:12]
            path.write_bytes(content)
            self.kinds[kind] = {"type": kind, "message": str(error)[:200], "input": str(path.relative_to(ROOT))}
            print(f"fuzz: {self.target.name}: {kind}: {error!s:.200}", file=sys.stderr)


def run(name: str, seconds: float, seed: int) -> NoReturn:
    """One target for some seconds, in this process, which ends with its result on stdout."""
    os.environ["RHEOSTAT_CACHE"] = tempfile.mkdtemp(prefix="rheostat-fuzz-cache-")
    signal.signal(signal.SIGALRM, _stop)
    folder = Path(tempfile.mkdtemp(prefix="rheostat-fuzz-"))
    has_atheris = importlib.util.find_spec("atheris") is not None and name not in UNGUIDED
    atheris = importlib.import_module("atheris") if has_atheris else None
    instrumented = atheris.instrument_imports(include=["rheostat"]) if atheris else contextlib.nullcontext()
    with instrumented:
        watch = _Watch(name, folder)
        corpus = watch.target.corpus()
        watch.give(corpus[0])  # imports what it needs
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    end, number = time.monotonic() + seconds, 0

    def give(content: bytes) -> None:
        if time.monotonic() > end or watch.faults >= MOST_FAULTS:
            _report(watch, folder, atheris is not None)
            os._exit(0)  # Atheris gives inputs until the process ends
        watch.give(content)

    if atheris:
        _follow_coverage(atheris, watch, give, corpus, seed)
    while True:
        give(watch.target.damaged(random.Random(f"{seed} {name} {number}"), corpus))
        number += 1


def _follow_coverage(
    atheris: Any, watch: _Watch, give: Callable[[bytes], None], corpus: list[bytes], seed: int
) -> None:
    """Atheris chooses which inputs are damaged further, by the lines they reached."""
    inputs = watch.folder / "corpus"
    inputs.mkdir()
    for number, content in enumerate(corpus):
        (inputs / str(number)).write_bytes(content)

    def damaged(content: bytes, most: int, seed: int) -> bytes:
        return watch.target.damaged(random.Random(seed), [content or corpus[0]])[:most]

    limits = [f"-max_len={GUIDED_BYTES}", f"-seed={seed}"]
    limits += ["-rss_limit_mb=0", f"-timeout={2 * LONGEST_S}", "-verbosity=0", "-len_control=0"]
    atheris.Setup([sys.argv[0], *limits, str(inputs)], give, custom_mutator=damaged)
    atheris.Fuzz()


def _report(watch: _Watch, folder: Path, guided: bool) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    result = {"target": watch.target.name, "inputs": watch.inputs, "accepted": watch.accepted, "faults": watch.faults}
    print(json.dumps({**result, "kinds": list(watch.kinds.values()), "guided_by_coverage": guided}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
