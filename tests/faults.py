"""Every fault of a writer, in turn: python tests/faults.py LIBRARY WRITER START [--whole] prints what happened.

Run it with `tests/core/faults.c`, compiled, as LD_PRELOAD; `run` does both. Each writer is run once to count the calls
that change files. Then it is run once for each of them and each kind of fault: no space, an input/output error, a crash
before the call, after it, and in the middle of a write. After each, what is on disk is compared with what was there
before and with what the whole write makes: every file must be one or the other, complete. Nothing else may be left,
except `.partial` files after a crash. After a crash the writer is run again, and must succeed.

In the same way, each request for memory finds none, once: those that reach the system's allocator, from Python and from
the libraries below it. A library may end the process then; that is a crash like the others. The report makes 120,000 of
them. So that not all of a writer runs again for each, the running writer is copied at a request, and the copy finds no
memory. While a file is open, a request is tried from the start. Modules are loaded before: a writer has run once. Each
request of the report fails while there is an old report; with nothing there, every tenth does.

A process is ended, not the machine: what the system has taken but not yet put on disk is not lost here.
"""

from __future__ import annotations

import argparse
import ctypes
import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rheostat import provenance
from rheostat.durable import replacing

KINDS = {1: "no space", 2: "input/output error", 3: "crash before", 4: "crash after", 5: "crash in the middle"}
NO_MEMORY = "no memory"
STARTS = ("replacing", "nothing there")
REQUESTS = 2000  # for memory: more than most writers make
CRASHED = 86
MOST_SAID = 60_000  # bytes: less than a pipe holds
RECORD = struct.Struct("@ll")  # of a copy: request, status
CHANGED = -1  # instead of a status
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # where flushing takes no time
REFUSED = 1
LEFT = re.compile(r"\.partial(/|$)|(^|/)\..*\.(lock|old)(/|$)")  # by a crash, or for other processes
TORCH_ID = ".data/serialization_id"
DATES = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.+]+")

Tree = dict[str, bytes]


@dataclass(frozen=True)
class Writer:
    """prepare: write what is there before. write: replace it. at_once: all files change together.

    repeatable: writing twice gives the same as once. apart: with nothing there, only every n-th request for memory
    is tried.
    """

    name: str
    prepare: Callable[[Path], object]
    write: Callable[[Path], object]
    at_once: bool = True
    repeatable: bool = True
    apart: int = 1


def tree(folder: Path, with_leftovers: bool = False) -> Tree:
    """The contents of all files by their path. Dates are masked, and so is what torch adds to a checkpoint."""
    files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    kept = {name: path for name, path in files.items() if with_leftovers or not LEFT.search(name)}
    return {name: DATES.sub(b"DATE", contents(path.read_bytes())) for name, path in kept.items()}


def state(folder: Path) -> Tree:
    """Everything: all files, with leftovers, and all folders."""
    folders = {f"{path.relative_to(folder)}/": b"" for path in folder.rglob("*") if path.is_dir()}
    return tree(folder, with_leftovers=True) | folders


def contents(data: bytes) -> bytes:
    """What a file says. Of a checkpoint, a zip file: its records with their checksums right, but for torch's own id.

    Without memory, torch cuts that id short; it says nothing about the contents.
    """
    if not data.startswith(b"PK"):
        return data
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as records:
            return b"".join(name.encode() + records.read(name) for name in records.namelist() if TORCH_ID not in name)
    except zipfile.BadZipFile:
        return data


class Faults:
    """Runs a writer in forked processes, with one fault in each."""

    def __init__(self, library: str, writer: Writer, is_new: bool) -> None:
        self.shim = ctypes.CDLL(library)
        self.shim.faults_names.restype = ctypes.c_char_p
        self.shim.faults_memory.restype = ctypes.c_long
        self.shim.faults_arm_memory.argtypes = [ctypes.c_long]
        self.shim.faults_in_copies.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_int, ctypes.c_int]
        self.writer, self.apart = writer, writer.apart if is_new else 1
        self.root = Path(tempfile.mkdtemp(prefix="rheostat-faults-", dir=MEMORY)).resolve()
        self.before, self.work, self.now = self.root / "before", self.root / "work", self.root / "now"
        self.before.mkdir()
        if not is_new:
            self._in_child(lambda: writer.prepare(self.before))
        self.old = tree(self.before)
        self.repairable = [state(self.before)]  # what a run makes the whole of
        self.names, self.requests = self._count()
        self.new = tree(self.work)
        self.tried: Counter[str] = Counter()
        self.problems: list[str] = []

    def _start(self) -> None:
        _copy(self.before, self.work)

    def _in_child(self, act: Callable[[], object], number: int = 0, kind: int = 0, request: int = 0) -> tuple[int, str]:
        """Fork, act, and say how the child ended, and what it said: its error, and its requests and calls.

        number, kind: of the call that fails, and how. request: the one for memory that finds none.
        """
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            self._act(act, writing, number, kind, request)
        os.close(writing)
        with os.fdopen(reading, "rb") as said:
            text = said.read().decode(errors="replace")
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text

    def _act(self, act: Callable[[], object], writing: int, number: int = 0, kind: int = 0, request: int = 0) -> None:
        """Act, write what there is to say, and end the process."""
        code, said = 0, ""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())  # libraries complain there
        self.shim.faults_arm(str(self.work).encode(), number, kind)
        self.shim.faults_arm_memory(request)
        try:
            act()
        except Exception as error:  # what a user sees is checked by the parent
            code, said = REFUSED, f"{type(error).__name__}: {error}"
        requests = self.shim.faults_memory()
        self.shim.faults_arm_memory(-1)
        said += f"\n{requests}\n{self.shim.faults_names().decode()}"
        self.shim.faults_arm(b"", 0, 0)
        os.write(writing, said.encode()[-MOST_SAID:])
        self.shim.faults_end(code)

    def _in_copies(self, every: int, first: int = 1) -> Iterator[tuple[int, int, str]]:
        """Run the writer; copies of it find no memory: which request, how the copy ended, what it said."""
        self._start()
        _copy(self.before, self.now)
        now = state(self.now)
        (reading, writing), (listening, telling), (waiting, going) = os.pipe(), os.pipe(), os.pipe()
        os.set_blocking(reading, False)
        writer = os.fork()
        if writer == 0:
            for end in (reading, listening, going):  # so that it ends if this process does
                os.close(end)
            self.shim.faults_in_copies(every, first, telling, waiting)
            self._act(lambda: self.writer.write(self.work), writing)
        for end in (writing, telling, waiting):
            os.close(end)
        while record := os.read(listening, RECORD.size):
            request, status = RECORD.unpack(record)
            if status == CHANGED:
                _copy(self.work, self.now)
                now = state(self.now)
            else:
                yield request, os.waitstatus_to_exitcode(status), _said(reading)
                if state(self.work) != now:
                    _copy(self.now, self.work)
            os.write(going, b".")
        code, said = os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1]), _said(reading)
        for end in (reading, listening, going):
            os.close(end)
        assert code == 0, f"{self.writer.name} fails while it is copied: {said[:200]}"

    def _count(self) -> tuple[list[str], int]:
        """The calls that change files, and the number of requests for memory."""
        self._start()
        code, said = self._in_child(lambda: self.writer.write(self.work))
        assert code == 0, f"{self.writer.name} fails without a fault: {said}"
        *_, requests, names = said.split("\n")
        return names.split(), int(requests)

    def run(self, most_requests: int = 0, part: int = 0, parts: int = 1) -> None:
        """Try all faults. most_requests: how many of those for memory, evenly spaced; 0 = all.

        part: which of several parts to try. They share the requests; the first also tries the calls.
        """
        apart = max(self.apart, -(-self.requests // most_requests) if most_requests else 1)
        every, first = parts * apart, 1 + part * apart
        copied = set()
        for request, code, said in self._in_copies(every, first):
            copied.add(request)
            self._check_memory(request, code, said)
        for request in sorted(set(range(first, self.requests + 1, every)) - copied):
            self._start()
            self._check_memory(request, *self._in_child(lambda: self.writer.write(self.work), request=request))
        for number, call in enumerate(self.names if not part else (), 1):
            for kind, fault in KINDS.items():
                if fault == "crash in the middle" and call != "write":
                    continue
                self._start()
                code, said = self._in_child(lambda: self.writer.write(self.work), number, kind)
                self.tried[fault] += 1
                where = f"{self.writer.name}: {fault} at call {number} of {len(self.names)}, {call}"
                self.problems += [f"{where}: {problem}" for problem in self._check(code, said, call)]
        shutil.rmtree(self.root)

    def _check_memory(self, request: int, code: int, said: str) -> None:
        self.tried[NO_MEMORY] += 1
        where = f"{self.writer.name}: no memory at request {request} of {self.requests}"
        found = self._check(CRASHED if code < 0 else code, said, "memory")
        self.problems += [f"{where}: {problem}" for problem in found]

    def _check(self, code: int, said: str, call: str) -> list[str]:
        found, problems = tree(self.work), []
        message = said.partition("\n")[0]
        if code not in (0, REFUSED, CRASHED):
            problems.append(f"ended with {code}")
        if code == REFUSED and not re.match(r"(\w*Error: )", message):
            problems.append(f"an unexpected error: {message[:200]}")
        ours = r"(Rheostat|ModelFile|Checkpoint|Corpus|Export|UserWords|OS|Permission)"
        # Without memory, most errors are MemoryErrors, but Python has others for locks, modules and calls into C.
        if code == REFUSED and call != "memory" and not re.match(ours, message):
            problems.append(f"not an error of ours: {message[:200]}")
        if code == 0 and found != self.new:
            problems.append("no error, and yet not everything was written")
        problems += self._compare(found)
        left = sorted(set(tree(self.work, with_leftovers=True)) - set(self.old) - set(self.new))
        if code != CRASHED and call != "unlink" and (strays := [name for name in left if not name.endswith(".lock")]):
            problems.append(f"left {strays[0]}")
        if code != CRASHED or (crashed := state(self.work)) in self.repairable:
            return problems
        again, said = self._in_child(lambda: self.writer.write(self.work))
        if again or (self.writer.repeatable and tree(self.work) != self.new):
            problems.append(f"a second run ended with {again}: {said[:200]}")
        else:
            self.repairable.append(crashed)
        return problems

    def _compare(self, found: Tree) -> list[str]:
        if self.writer.at_once:
            return [] if found in (self.old, self.new) else [f"neither old nor new: {self._difference(found)}"]
        problems = [f"lost {name}" for name in self.old if name in self.new and name not in found]
        for name, content in found.items():
            if content not in (self.old.get(name), self.new.get(name)):
                problems.append(f"{name} is neither old nor new")
        return problems

    def _difference(self, found: Tree) -> str:
        names = {*found, *self.old, *self.new}
        odd = [name for name in names if found.get(name) not in (self.old.get(name), self.new.get(name))]
        return f"{odd[0]} is damaged" if odd else f"old and new files are mixed: {', '.join(sorted(found))[:200]}"


def _copy(source: Path, out: Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(source, out)


def _said(reading: int) -> str:
    try:
        return os.read(reading, MOST_SAID).decode(errors="replace")
    except BlockingIOError:  # nothing
        return ""


# The writers


def model_writer() -> Writer:
    from models import write_tiny

    return Writer(
        "model file",
        lambda folder: write_tiny(folder / "model", recipe={"a": 1}),
        lambda folder: write_tiny(folder / "model", recipe={"a": 2, "b": "x" * 100_000}),
    )


def results_writer() -> Writer:
    from rheostat.measure.results import BenchmarkResults, Provenance, write_results

    def write(folder: Path, value: int) -> None:
        results = BenchmarkResults(Provenance.of_this_process(), "x", {"a": [value] * 5000})
        write_results(folder / "results.json", results)

    return Writer("results", lambda folder: write(folder, 1), lambda folder: write(folder, 2))


def words_writer() -> Writer:
    from rheostat.words.user_words import UserWords

    def learn(folder: Path, word: str) -> None:
        UserWords(folder / "words", clock=lambda: 1.8e9).learn(word)

    return Writer("user words", lambda f: learn(f, "one"), lambda f: learn(f, "two"), repeatable=False)


def memory_writer() -> Writer:
    from rheostat.words.memory import Memory

    def learn(folder: Path, *words: str) -> None:
        memory = Memory(folder / "memory", clock=lambda: 1.8e9)
        memory.learn(words)
        memory.flush()

    return Writer("memory", lambda f: learn(f, "see", "you"), lambda f: learn(f, "at", "noon"), repeatable=False)


def words_copy_writer() -> Writer:
    from rheostat.words.user_words import UserWords

    def copy(folder: Path, *words: str) -> None:
        known = UserWords(clock=lambda: 1.8e9)
        for word in words:
            known.learn(word)
        known.export(folder / "copy")

    return Writer("copy of user words", lambda folder: copy(folder, "one"), lambda folder: copy(folder, "one", "two"))


def memory_copy_writer() -> Writer:
    from rheostat.words.memory import Memory

    def copy(folder: Path, *words: str) -> None:
        memory = Memory(clock=lambda: 1.8e9)
        memory.learn(words)
        memory.export(folder / "copy")

    return Writer("copy of a memory", lambda folder: copy(folder, "see"), lambda folder: copy(folder, "see", "you"))


def ngram_writer() -> Writer:
    import numpy as np

    from rheostat.measure.ngram import estimate, write_arpa

    names = [f"word{number}" for number in range(9)]
    models = [estimate(np.random.default_rng(seed).integers(0, 9, 500), 9, 3) for seed in (1, 2)]
    return Writer(
        "n-gram",
        lambda folder: write_arpa(models[0], names, folder / "model.arpa"),
        lambda folder: write_arpa(models[1], names, folder / "model.arpa"),
    )


def typing_page_writer() -> Writer:
    from rheostat.measure.results import read_results
    from rheostat.measure.results.typing import TypingResults
    from rheostat.report.typing_page import write_typing_page

    found = read_results(Path(__file__).parents[1] / "results" / "typing.json")
    assert isinstance(found, TypingResults)
    other = replace(found, resamples=1)
    return Writer(
        "typing page",
        lambda folder: write_typing_page(other, folder / "typing.md"),
        lambda folder: write_typing_page(found, folder / "typing.md"),
    )


def search_writer() -> Writer:
    from rheostat.measure.path_search import SavedSearch, Search, spending
    from rheostat.model.shape import ModelShape

    shape = ModelShape(60, 8, (24, 8), (2, 1))

    def save(folder: Path, loss: float) -> None:
        SavedSearch(folder / "path.search.json", {"model": "m"}, shape).save(
            Search(shape, lambda _: loss, spending(shape, "cost", None))
        )

    return Writer("saved search", lambda folder: save(folder, 1.0), lambda folder: save(folder, 2.0))


def tokens_writer() -> Writer:
    import numpy as np

    from rheostat.text.token_cache import store_json, write_ids

    def write(folder: Path, count: int) -> None:
        write_ids(folder / "ids", [np.arange(count) % 9], end_id=1, unknown_id=0)
        store_json(folder / "vocabulary.json", {"words": ["a"] * count})

    return Writer("token cache", lambda folder: write(folder, 900), lambda folder: write(folder, 1000), at_once=False)


def log_writer() -> Writer:
    from rheostat.training.run_folder import RunFolder

    def log(folder: Path, count: int) -> None:
        (folder / "log.jsonl").write_text("".join(f'{{"step": {step}}}\n' for step in range(1, count + 1)))

    return Writer("log", lambda folder: log(folder, 9), lambda folder: RunFolder(folder).cut_log(5))


def export_writer() -> Writer:
    from models import write_tiny
    from rheostat.runtime.export import export

    model = write_tiny(Path(tempfile.mkdtemp(prefix="rheostat-faults-")) / "model")
    return Writer(
        "export",
        lambda folder: export(model, out=folder / "out", knob=0.5),
        lambda folder: export(model, out=folder / "out", precision="fp32"),
    )


def core_export_writer() -> Writer:
    """First a file that is copied, then one that is packed."""
    from models import GOLDEN, write_tiny
    from rheostat.runtime.export import export

    model = write_tiny(Path(tempfile.mkdtemp(prefix="rheostat-faults-")) / "model")
    return Writer(
        "export for the core",
        lambda folder: export(GOLDEN / "golden-ordered.safetensors", out=folder / "out", engine="core"),
        lambda folder: export(model, out=folder / "out", engine="core"),
    )


def page_writer(whole: bool) -> Writer:
    from models import make_ranking, make_vocabulary, make_weights, write_file
    from rheostat.keyboard import site
    from rheostat.model.shape import ModelShape

    shape, folder = ModelShape(60, 8, (24, 8), (2, 1)), Path(tempfile.mkdtemp(prefix="rheostat-faults-"))
    for name in ("one", "two"):
        ranking = make_ranking(shape, 3, name)
        everything: dict[str, Any] = {"text": {"tokenizer": "words"}, "rankings": [ranking], "default_ranking": name}
        write_file(
            folder / name, shape=shape, vocabulary=make_vocabulary(60), weights=make_weights(shape), **everything
        )
    if not whole:  # the files of the page do not differ in how they are written, and their facts take long to compute
        known: dict[str, Any] = {}
        facts = site.model_facts

        def facts_once(file: Any, *rest: Any, **options: Any) -> Any:
            if file.path.name not in known:
                known[file.path.name] = facts(file, *rest, **options)
            return known[file.path.name]

        site.model_facts = facts_once
        for name in ("one", "two"):
            site.write_page(Path(tempfile.mkdtemp(prefix="rheostat-faults-")) / "site", folder / name)
        found = site.page_files()
        few = {name: found[name] for name in ("index.html", "rheostat.wasm")}
        site.page_files = lambda: few
    return Writer(
        "page",
        lambda out: site.write_page(out / "site", folder / "one"),
        lambda out: site.write_page(out / "site", folder / "two"),
        at_once=False,
    )


def report_writer(whole: bool) -> Writer:
    """Without pictures unless `whole`: each takes a third of a second."""
    from rheostat.report.writer import write_report

    results = Path(__file__).parents[1] / "results"
    new = ["benchmark-learning.json", "budgets.json", *(["ptb-graded-bench.json"] if whole else [])]
    return Writer(
        "report",
        lambda folder: write_report([results / "benchmark-learning.json"], out=folder / "report"),
        lambda folder: write_report([results / name for name in new], out=folder / "report"),
        at_once=False,
        apart=10,
    )


def checkpoint_writer() -> Writer:
    import torch

    from rheostat.training.run_folder import RunFolder

    parts: dict[str, Any] = {"recipe": {}, "progress": {}, "threads": 1, "parameters": {"w": torch.zeros(99, 99)}}
    parts |= {"optimizer": {}, "average": {}, "log_tokens": 0, "ranks": []}

    def save(folder: Path, value: int) -> None:
        RunFolder(folder).save({**parts, "log_tokens": value})

    return Writer("checkpoint", lambda folder: save(folder, 1), lambda folder: save(folder, 2))


def careless_writer() -> Writer:
    """What every writer must not do: delete the old file first, and write the new one in its place."""

    def write(folder: Path, size: int) -> None:
        path = folder / "file"
        path.unlink(missing_ok=True)
        content = bytes(size)  # finds no memory once: the old file is gone
        path.write_bytes(content)

    return Writer("careless", lambda folder: write(folder, 500_000), lambda folder: write(folder, 600_000))


CARELESS = "careless"
PARTS = {"report": 12}  # side by side if all its requests for memory are tried: each part takes minutes
WRITERS: dict[str, Callable[[bool], Writer]] = {
    "model": lambda whole: model_writer(),
    "results": lambda whole: results_writer(),
    "words": lambda whole: words_writer(),
    "words-copy": lambda whole: words_copy_writer(),
    "memory": lambda whole: memory_writer(),
    "memory-copy": lambda whole: memory_copy_writer(),
    "ngram": lambda whole: ngram_writer(),
    "typing-page": lambda whole: typing_page_writer(),
    "search": lambda whole: search_writer(),
    "tokens": lambda whole: tokens_writer(),
    "log": lambda whole: log_writer(),
    "export": lambda whole: export_writer(),
    "export-core": lambda whole: core_export_writer(),
    "page": page_writer,
    "report": report_writer,
    "checkpoint": lambda whole: checkpoint_writer(),
}


def compiled(folder: Path) -> Path:
    """The library to preload. Raises CompilerError without a C compiler."""
    from rheostat.core.build import find_compiler, run_compiler

    source = Path(__file__).parent / "core" / "faults.c"
    return run_compiler(find_compiler(), ["-shared", "-fPIC", "-O1", str(source), "-ldl"], folder / "faults.so")


def run(
    folder: Path,
    names: Sequence[str],
    *,
    whole: bool = False,
    requests: int = REQUESTS,
    jobs: int = 1,
    kept: Path | None = None,
) -> list[dict[str, Any]]:
    """All faults of these writers, in processes with the library preloaded; one entry per writer and start.

    requests: how many of those for memory to try per entry at most, evenly spaced; 0 = all. kept: a folder for finished
    entries, so that a run that was stopped goes on. Those of another commit, of code that is not committed, or with
    other settings, are tried again.
    """
    library = compiled(folder)
    environment = {**os.environ, "LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    commit = provenance.commit()
    is_committed = commit is not None and not commit.endswith("-dirty")  # else the code may have changed since
    settings = {"commit": commit, "requests": requests, "whole": whole}

    def entry(name: str, start: str, part: int) -> dict[str, Any]:
        path = kept / f"{name}, {start}, {part}.json" if kept else None
        if path and is_committed and path.exists():
            known = json.loads(path.read_text())
            if known["settings"] == settings:
                return dict(known["found"])
        command = [sys.executable, __file__, str(library), name, start, "--requests", str(requests)]
        command += ["--part", str(part), "--parts", str(parts(name)), *(["--whole"] if whole else [])]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            raise RuntimeError("the faults could not be tried; its errors are above")
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as file:
                file.write(json.dumps({"settings": settings, "found": found}).encode())
        return found

    def parts(name: str) -> int:
        return PARTS.get(name, 1) if whole and not requests else 1

    with ThreadPoolExecutor(jobs) as pool:
        tasks = [
            [pool.submit(entry, name, start, part) for part in range(parts(name))] for name in names for start in STARTS
        ]
        return [_together([task.result() for task in of_one]) for of_one in tasks]


def _together(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The entry of a writer from those of its parts."""
    tried = Counter[str]()
    for part in parts:
        tried.update(part["tried"])
    problems = [problem for part in parts for problem in part["problems"]]
    requests = max(tried[NO_MEMORY], *(part["requests"] for part in parts), 0)  # one more or less from run to run
    return {**parts[0], "requests": requests, "tried": tried, "problems": problems}


def main() -> None:
    parser = argparse.ArgumentParser(description="Let every call of a writer fail once.")
    parser.add_argument("library", help="tests/core/faults.c, compiled; also as LD_PRELOAD")
    parser.add_argument("writer", choices=[*WRITERS, CARELESS])
    parser.add_argument("start", choices=STARTS)
    parser.add_argument("--whole", action="store_true", help="whole pages and pictures too (minutes)")
    parser.add_argument("--requests", type=int, default=REQUESTS, help="for memory, at most; 0 = all")
    parser.add_argument("--part", type=int, default=0, help="which of the parts to try, from 0")
    parser.add_argument("--parts", type=int, default=1, help="how many parts share the requests for memory")
    asked = parser.parse_args()
    provenance.commit = lambda: None  # asking git takes longer than writing
    writer = WRITERS[asked.writer](asked.whole) if asked.writer != CARELESS else careless_writer()
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        for act in (writer.prepare, writer.write):
            act(Path(folder))
    faults = Faults(asked.library, writer, is_new=asked.start != STARTS[0])
    faults.run(asked.requests, asked.part, asked.parts)
    said = f"{faults.tried.total():,} faults, {len(faults.problems)} problems"
    name = writer.name + (f", part {asked.part + 1} of {asked.parts}" if asked.parts > 1 else "")
    print(f"faults: {name}, {asked.start}: {said}", file=sys.stderr)
    entry: dict[str, Any] = {"writer": writer.name, "start": asked.start, "calls": len(faults.names)}
    print(json.dumps({**entry, "requests": faults.requests, "tried": faults.tried, "problems": faults.problems}))


if __name__ == "__main__":
    main()
