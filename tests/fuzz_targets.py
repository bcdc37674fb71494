"""What is fuzzed: every kind of file or request that a stranger can hand to the program.

Each target reads one damaged input and uses all of it, as a command would. The input is either accepted or refused with
a RheostatError in one short line. Anything else (another exception, a hang, memory without bound) is a fault. The same
targets serve `tests/light/test_fuzzing.py`, which runs them for seconds, and `scripts/fuzz.py`, for an hour.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import math
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from models import GOLDEN, make_ranking, make_vocabulary, make_weights, write_file
from mutations import (
    Damage,
    Random,
    damage_description,
    damage_json_file,
    damage_log_file,
    damage_model_file,
    damage_table_file,
    damage_toml_file,
    flip_bits,
    places,
    truncate,
)
from rheostat.errors import RheostatError, visible
from rheostat.governor.decision import Decision, Situation, decide
from rheostat.governor.device import Battery
from rheostat.governor.policy import read_policy
from rheostat.measure.meters.meter import Clock
from rheostat.measure.meters.power_trace import TraceMeter
from rheostat.measure.meters.power_trace import read_trace as read_power
from rheostat.measure.path_search import SavedSearch, Search, SearchState, spending
from rheostat.measure.results import read_all
from rheostat.model.cut import cut
from rheostat.model.file import open_model
from rheostat.model.operating_point import full_point
from rheostat.model.path import check_path
from rheostat.model.shape import ModelShape
from rheostat.model.summary import summarize
from rheostat.model.widths import select
from rheostat.recipe import read_recipe
from rheostat.tables import fill
from rheostat.words.hidden_words import find_misspellings, hidden_places, read_word_list
from rheostat.words.memory import Memory
from rheostat.words.user_words import UserWords

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "tests" / "data" / "fuzz"  # a folder per target: seeds, and inputs that once broke something
LONGEST_MESSAGE = 1000
INPUT = "input"  # the name of a damaged file


@dataclass(frozen=True)
class FuzzTarget:
    """use: read a damaged file and use all of it. damage: makes one from a seed. needs: a module that it imports."""

    name: str
    use: Callable[[Path], object]
    damage: Damage
    seeds: Callable[[], list[bytes]] = field(default=list)
    needs: str = ""

    def corpus(self) -> list[bytes]:
        """The seeds, and every kept input."""
        kept = sorted((CORPUS / self.name).iterdir()) if (CORPUS / self.name).is_dir() else []
        return [*self.seeds(), *(path.read_bytes() for path in kept)]

    def damaged(self, chance: Random, corpus: list[bytes]) -> bytes:
        content = chance.choice(corpus)
        try:
            return self.damage(chance, content)
        except (ValueError, OverflowError, LookupError, RecursionError, AttributeError, TypeError):
            return flip_bits(chance, content)  # a kept input that is too broken to be taken apart

    def accepts(self, content: bytes, folder: Path) -> bool:
        """Whether an input is accepted; an AssertionError or any other exception if it is neither that nor refused."""
        path = folder / INPUT
        path.write_bytes(content)
        try:
            self.use(path)
        except RheostatError as error:
            message = str(error)
            assert visible(message) == message, f"several lines, or control characters: {message!r:.300}"
            assert len(message) < LONGEST_MESSAGE, f"a message of {len(message)} characters: {message:.300}"
            return False
        return True


# Model files


def use_model(path: Path) -> None:
    """Use everything in a model file, including cutting at its points and by its rankings."""
    with open_model(path, verify=False) as file:  # who damages a file on purpose also knows its checksums
        json.dumps(summarize(file), allow_nan=False, ensure_ascii=False).encode()
        weights = file.weights()
        for point in file.points():
            cut(weights, file.shape, point)
            cut(file.stored_weights(), file.shape, point)
        for ranking in file.rankings():
            select(ranking, file.shape, 1.0)
        assert len(file.vocabulary) == file.shape.vocabulary_size
        assert file.casing is not None and file.hidden_words is not None
        assert file.knob_path() is not None
        file.counts()
        getattr(file, "reconstruction")  # noqa: B009


def golden_files() -> list[bytes]:
    return [path.read_bytes() for path in sorted(GOLDEN.glob("golden-*.safetensors"))]


# Results


def results_files() -> list[bytes]:
    return [path.read_bytes() for path in sorted((ROOT / "results").glob("*.json")) if path.stat().st_size < 45_000]


def use_results(path: Path) -> None:
    """All pages of the report, without their pictures. UTF-8 can hold them, and no terminal obeys them."""
    from rheostat.report.document import markdown
    from rheostat.report.evidence import gather
    from rheostat.report.sections import build_report
    from rheostat.report.writer import sweep_pages

    evidence = gather(read_all([path]))
    for page in (markdown(build_report(evidence, None)), *sweep_pages(evidence).values()):
        assert b"\x1b" not in page.encode()


# Recipes and policies


def use_recipe(path: Path) -> None:
    from rheostat.pruning.run import GateRecipe, RecoveryRecipe
    from rheostat.training.configuration import TrainingRecipe

    tables = read_recipe(path)
    if "update" in tables:
        fill(RecoveryRecipe, tables)
    elif "gates" in tables:
        fill(GateRecipe, tables)
    else:
        recipe = fill(TrainingRecipe, tables)
        try:
            recipe.model.with_splits(range(9999, 0, -1)).shape(300_000)
        except ValueError as error:  # as rheostat.training.run reports it
            raise RheostatError(f"model: {error}") from None


def recipes() -> list[bytes]:
    folder = ROOT / "src" / "rheostat" / "recipes"
    return [path.read_bytes() for path in sorted(folder.glob("*/*.toml"))]


def use_policy(path: Path) -> None:
    policy, decision = read_policy(path), Decision(1.0)
    for second, level in enumerate((1.0, 0.5, 0.2, 0.01, 0.6)):
        now = Situation(1000.0 * second, Battery(level, False), heat="light", headroom=0.8, p95_ms=5.0)
        decision = decide(policy, now, decision)
        assert 0 < decision.knob <= 1


def policies() -> list[bytes]:
    folder = ROOT / "src" / "rheostat" / "governor" / "policies"
    return [path.read_bytes() for path in sorted(folder.glob("*.toml"))]


# What users have taught


def use_words(path: Path) -> None:
    words = UserWords(path, clock=lambda: 1.8e9)
    words.words(), words.with_prefix("r"), words.knows("rheostat"), words.to_json()
    words.learn("rheostat")
    words.export(path.with_name("exported"))
    UserWords(path.with_name("exported"))


def word_files() -> list[bytes]:
    entries = [{"word": word, "count": 2, "last_used": 1.7e9} for word in ("Rheostat", "naïve", "👍🏽")]
    return [json.dumps({"format": "rheostat-user-words", "format_version": 1, "words": entries}).encode()]


def use_memory(path: Path) -> None:
    memory = Memory(path, clock=lambda: 1.8e9)
    memory.share(["see", "you"]), memory.count("see", "you"), memory.phrases(), memory.to_json()
    memory.learn(["see", "you", "soon"])
    memory.flush()
    memory.forget_last_hour()
    memory.forget("soon")
    Memory(path)


def memory_files() -> list[bytes]:
    phrases: list[Any] = [
        {"words": words, "count": 1.5, "time": 1767225600, "recent": [[29453760, 1.0]]}
        for words in ("see", "see you", "see you soon")
    ]
    return [json.dumps({"format": "rheostat-memory", "format_version": 1, "phrases": phrases}).encode()]


# Lists of words


def use_word_list(path: Path) -> None:
    """As hidden words, and as the lists that `pack` reads."""
    from rheostat.text.known_words import KnownWords, select_known

    listed = read_word_list(path)
    find_misspellings({"definitely": 900, "definetly": 3, "a": 90, "lot": 80, "alot": 2}, listed)
    known = select_known(read_word_list(path, keep_case=True), {"the"})
    if known:
        assert known[0] in KnownWords(KnownWords.of(known).to_bytes())
    hidden_places(make_vocabulary(60), path)


def word_lists() -> list[bytes]:
    return ["# changes\nword3\n-word4\nnaïve\ndon't\n👍\n".encode(), b"definetly->definitely\nalot\nlot\n"]


# Traces: days of a device, and what a meter recorded


def use_trace(path: Path) -> None:
    """The whole command, without its pictures."""
    from rheostat.measure.results import results_json
    from rheostat.report.govern import figures, replay_day

    day = replay_day(path)
    json.dumps([results_json(day.results), day.comparison.summary()], allow_nan=False)
    assert all(figures(replay.totals) for replay in day.comparison.replays)


def traces() -> list[bytes]:
    """Days of a device, the beginning of each."""
    days = (ROOT / "tests" / "data" / "traces").glob("*.csv")
    return [b"".join(path.read_bytes().splitlines(keepends=True)[:80]) for path in sorted(days)]


def use_power_trace(path: Path) -> None:
    """Measure a run that lasted as long as the trace."""
    if (why := TraceMeter(path).available()) is not None:
        raise RheostatError(why)
    begin, end = (float(moment) for moment in read_power(path).times[[0, -1]])
    moments = iter((begin, end))
    meter = TraceMeter(path, patience_s=0, clock=Clock(lambda: next(moments, end), lambda seconds: None))
    assert meter.period_s > 0
    with meter.recording() as recording:
        marks = recording.mark(), recording.mark()
    assert math.isfinite(recording.reading(*marks).power_w)


def power_traces() -> list[bytes]:
    return [path.read_bytes() for path in sorted((ROOT / "tests" / "data" / "power").glob("*.csv"))]


# A search that was stopped

SEARCHED = ModelShape(64, 32, (64, 48, 32), (2, 1, 1))
SUBJECT = {"weights": "w", "text": "t", "tokens": 60, "by": "cost", "smallest": 0.7}


def search_from(state: SearchState | None) -> Search:
    return Search(SEARCHED, lambda position: 3 - position.cost**2, spending(SEARCHED, "cost", None), (), state)


def use_search(path: Path) -> None:
    """Resume it to its end."""
    search = search_from(SavedSearch(path, SUBJECT, SEARCHED).load())
    for _ in search.down_to(0.7):
        pass
    check_path(tuple(step.position for step in search.steps), SEARCHED)


def searches() -> list[bytes]:
    import tempfile

    search = search_from(None)
    for _ in itertools.takewhile(lambda position: position.cost > 0.85, search.down_to(0.7)):
        pass
    with tempfile.TemporaryDirectory(prefix="rheostat-fuzz-") as folder:
        path = Path(folder) / "search.json"
        SavedSearch(path, SUBJECT, SEARCHED).save(search)
        return [path.read_bytes()]


# A folder that an export is to replace


@cache
def exported() -> Path:
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="rheostat-fuzz-")) / "export"
    export_to(folder)
    return folder


def export_to(folder: Path) -> None:
    from rheostat.runtime.export import export_graphs

    with open_model(GOLDEN / "golden-fp32.safetensors") as file:
        export_graphs(file, full_point(file.shape), folder, "fp32")


def use_manifest(path: Path) -> None:
    import shutil

    folder = path.with_name("export")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(exported(), folder)
    (folder / "manifest.json").write_bytes(path.read_bytes())
    export_to(folder)
    assert json.loads((folder / "manifest.json").read_bytes())["format"]


def manifests() -> list[bytes]:
    return [(exported() / "manifest.json").read_bytes()]


# Requests: the first line is a path, the rest the body


@cache
def keyboard_app() -> Any:
    import tempfile

    from rheostat.keyboard.server import make_app, open_service

    shape = ModelShape(60, 8, (24, 8), (2, 1))
    folder = Path(tempfile.mkdtemp(prefix="rheostat-fuzz-"))
    write_file(
        folder / "model",
        shape=shape,
        vocabulary=make_vocabulary(60),
        weights=make_weights(shape),
        text={"tokenizer": "words"},
        rankings=[make_ranking(shape, 3, "random-3")],
        default_ranking="random-3",
    )
    return make_app(open_service(folder / "model"))


def use_request(path: Path) -> None:
    place, _, body = path.read_bytes().partition(b"\n")
    asked = _ask(place.decode("ascii", "replace").strip() or "/", body)
    with ThreadPoolExecutor(1) as thread:  # this one may have an event loop already: that of the browser's tests
        status, answer = thread.submit(asyncio.run, asked).result()
    assert status < 500, f"{place!r} gave {status}: {answer!r:.200}"
    if status >= 400 and status not in (404, 405):
        raise RheostatError(json.loads(answer)["error"])


async def _ask(place: str, body: bytes) -> tuple[int, bytes]:
    sent: list[dict[str, Any]] = []
    arriving: Iterator[dict[str, Any]] = iter(
        [{"type": "http.request", "body": body, "more_body": False}, {"type": "http.disconnect"}]
    )

    async def receive() -> dict[str, Any]:
        return next(arriving)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"host", b"127.0.0.1:8017"), (b"content-type", b"application/json")]
    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": place, "headers": headers}
    scope |= {"query_string": b"", "scheme": "http", "server": ("127.0.0.1", 8017), "client": ("127.0.0.1", 9)}
    scope |= {"http_version": "1.1", "root_path": "", "raw_path": place.encode()}
    await keyboard_app()(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


def requests() -> list[bytes]:
    decision = {"knob": 0.5, "reason": "x", "turned_s": 3.0, "step": 1, "limit": {"ceiling": 0.5, "failures": 1}}
    asked: dict[str, Any] = {
        "suggest": {"text": "word3 word", "knob": 0.5, "k": 3},
        "correct": {"text": "word3 wird4 ", "knob": 0.5, "k": 3},
        "govern": {"level": 0.4, "charging": False, "heat": "light", "time_s": 9.0, "previous": decision},
        "times": {"percents": [100, 50]},
        "learn": {"word": "Rheostat"},
        "forget": {"word": "Rheostat"},
        "health": {},
    }
    return [f"/api/{name}\n{json.dumps(body)}".encode() for name, body in asked.items()]


def damage_request(chance: Random, content: bytes) -> bytes:
    place, _, body = content.partition(b"\n")
    return place + b"\n" + damage_json_file(chance, body)


# Checkpoints of a run that was stopped; the damaged one is resumed to its end

CHECKPOINT_VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    10**9,
    10**30,
    1e308,
    float("nan"),
    "",
    "x\x1b[31m",
    [],
    {},
    [[]],
    [None],
]
SMALL_RUN = """
[corpus]
tokenizer = "words"
[model]
embedding_size = 4
layers = 2
hidden_size = 6
[train]
steps = 2
batch_size = 2
sequence_length = 4
learning_rate = 1e-2
checkpoint_minutes = 0.0
"""


@cache
def stopped_run() -> Path:
    """The folder of a run that was interrupted after its first step."""
    import tempfile

    import rheostat
    from rheostat.training import trainer

    folder = Path(tempfile.mkdtemp(prefix="rheostat-fuzz-"))
    (folder / "small.toml").write_text(SMALL_RUN)
    (folder / "text").mkdir()
    for name in ("train", "valid", "test"):
        (folder / "text" / f"{name}.txt").write_text("ann sees the boats .\nbob hides the lamps .\n" * 3)
    try:
        with stopped_after(1):
            rheostat.train(folder / "small.toml", out=folder / "run", data=folder / "text")
    except trainer.InterruptedRunError:
        return folder / "run"
    raise AssertionError("the run was not stopped")


@contextlib.contextmanager
def stopped_after(steps: int) -> Iterator[None]:
    """Training that is stopped as by a user after this many steps."""
    from rheostat.training import trainer

    drawn, left = trainer.draw_length, itertools.count(steps - 1, -1)

    def stopping(config: Any, step: int) -> int:
        if next(left) <= 0:
            signal.raise_signal(signal.SIGTERM)
        return drawn(config, step)

    trainer.draw_length = stopping
    try:
        yield
    finally:
        trainer.draw_length = drawn


def use_checkpoint(path: Path) -> None:
    import shutil

    import rheostat
    from rheostat.training.trainer import InterruptedRunError

    run = path.with_name("run")
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(stopped_run(), run)
    (run / "checkpoint.pt").write_bytes(path.read_bytes())
    with stopped_after(20), contextlib.suppress(InterruptedRunError):  # a damaged recipe may ask for a billion steps
        rheostat.resume(run)


def checkpoints() -> list[bytes]:
    return [(stopped_run() / "checkpoint.pt").read_bytes()]


def damage_checkpoint(chance: Random, content: bytes) -> bytes:
    """A checkpoint with places of its contents replaced or removed; now and then with damaged bytes."""
    import io

    import torch

    if chance.random() < 0.2:
        return chance.choice([truncate, flip_bits])(chance, content)
    try:
        contents = torch.load(io.BytesIO(content), weights_only=True)
    except Exception:  # a kept input whose bytes are damaged
        return flip_bits(chance, content)
    holder, key = chance.choice(list(places(contents)))
    values = [*CHECKPOINT_VALUES, torch.zeros(3, 5), torch.tensor(float("nan")), torch.zeros(0, dtype=torch.uint8)]
    if chance.random() < 0.2:
        del holder[key]
    elif isinstance(holder[key], torch.Tensor) and chance.random() < 0.3:
        holder[key] = chance.choice([holder[key].double(), holder[key].reshape(-1)[:-1], holder[key] * float("nan")])
    else:
        holder[key] = chance.choice(values)
    out = io.BytesIO()
    torch.save(contents, out)
    return out.getvalue()


# The log of a run that was stopped


def use_log(path: Path) -> None:
    """Cut it as a resumed run does, and add a line."""
    import warnings

    from rheostat.training.run_folder import RunFolder

    folder = RunFolder(path.with_name("run"))
    folder.make()
    folder.log.write_bytes(path.read_bytes())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        folder.cut_log(2)
    assert all(len(str(one.message)) < LONGEST_MESSAGE for one in caught)
    folder.append_log({"event": "train", "step": 3})
    steps = [json.loads(line)["step"] for line in folder.log.read_bytes().splitlines()]
    assert steps[-1] == 3 and all(step <= 2 for step in steps[:-1])


def logs() -> list[bytes]:
    entries = [{"event": event, "step": step, "loss": 3.5} for step in (1, 2, 3) for event in ("train", "valid")]
    return ["".join(f"{json.dumps(entry)}\n" for entry in entries).encode()]


TARGETS = {
    target.name: target
    for target in (
        FuzzTarget("container", use_model, damage_model_file, golden_files),
        FuzzTarget("description", use_model, damage_description, golden_files),
        FuzzTarget("results", use_results, damage_json_file, results_files),
        FuzzTarget("recipes", use_recipe, damage_toml_file, recipes, "torch"),
        FuzzTarget("policy", use_policy, damage_toml_file, policies),
        FuzzTarget("requests", use_request, damage_request, requests, "starlette"),
        FuzzTarget("user-words", use_words, damage_json_file, word_files),
        FuzzTarget("memory", use_memory, damage_json_file, memory_files),
        FuzzTarget("word-lists", use_word_list, damage_table_file, word_lists),
        FuzzTarget("traces", use_trace, damage_table_file, traces),
        FuzzTarget("power-traces", use_power_trace, damage_table_file, power_traces),
        FuzzTarget("searches", use_search, damage_json_file, searches),
        FuzzTarget("manifests", use_manifest, damage_json_file, manifests, "onnx"),
        FuzzTarget("logs", use_log, damage_log_file, logs, "torch"),
        FuzzTarget("checkpoints", use_checkpoint, damage_checkpoint, checkpoints, "torch"),
    )
}
