"""What the knob costs and buys on this machine: the core, the Python around it, ONNX Runtime, memory, start, quality.

    python benchmarks/runtime.py --json -o results/benchmark-runtime.json

A step is one query to an engine: it reads one more word and finds the three best next words that may be suggested.
Against ONNX Runtime both are called from Python; against itself, and against reading its bytes, the core is called from
C. All sides of a ratio are interleaved, a few queries each, so load affects them equally; medians over all turns are
compared.
One thread, unless a row says otherwise. --only names groups of rows (see GROUPS), --quick takes fewer turns.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from measuring import hand_over, interleaved, make_parser
from rheostat.bundled import HELD_OUT_TEXT, model_path
from rheostat.core.binding import CoreModel
from rheostat.core.build import FOLDER, find_compiler
from rheostat.core.library import load_library
from rheostat.core.values import Block, Choice
from rheostat.measure.evaluation import read_splits
from rheostat.model.file import ModelFile, open_model
from rheostat.model.knob import choose
from rheostat.model.precision import PRECISIONS, Precision
from rheostat.runtime.engine import ENGINES, CoreEngine, CoreWeights, Engine
from rheostat.runtime.evaluation import RuntimeEvaluator
from rheostat.runtime.onnx.engine import OnnxEngine
from rheostat.runtime.onnx.weights import RuntimeWeights
from rheostat.runtime.predictor import Predictor
from rheostat.words.completion import Completion

ROOT = Path(__file__).parents[1]
CHAT = "chat"
PTB = ROOT / "models" / "ptb-graded-int8.safetensors"
SMALL = 0.15  # the position that is compared with the full model
KNOBS = [round(0.15 + 0.85 * step / 9, 3) for step in range(10)]
QUERIES = 10  # per interleaved turn
LONG_TURN = 50  # where the sides are processes: each has the caches to fill again
TURNING_ROUNDS = 5
CONTEXTS = 2000  # of the comparison of best words
LOG_CONTEXTS = 200
TOKENS = 20_000  # of Penn Treebank's test text
SPEED_TOKENS = 3000  # of the comparison of evaluation

# What each figure is to reach (issue 17).
TARGETS = {
    "core_over_onnx_100": "at most 0.45",
    "core_over_onnx_15": "at most 0.40",
    "core_15_over_100": "at most 0.33",
    "suggest_15_over_100": "at most 0.55",
    "python_over_step": "at most 0.4",
    "suggest_over_before": "at most 0.35",
    "letter_over_step": "at most 0.25",
    "chat_step_over_read": "at most 1.7",
    "ptb_step_over_read": "at most 1.4",
    "ptb_core_over_onnx": "at most 1.0",
    "ptb_core_over_onnx_two_threads": "at most 0.95",
    "flops_r2": "at least 0.99",
    "flops_intercept_over_full": "at most 0.2",
    "turn_over_query": "at most 0.02",
    "turn_bytes": "0",
    "memory_over_file": "at most 2",
    "start_over_numpy": "at most 1.6",
    "installed_mb": "at most 110",
    "library_kb": "at most 120",
    "wasm_kb": "at most 120",
    "chat_int8_over_fp32": "at most 1.002",
    "ptb_int8_over_fp32": "at most 1.002",
    "same_words_100": "at least ONNX Runtime's",
    "same_words_50": "at least ONNX Runtime's",
    "same_words_20": "at least ONNX Runtime's",
    "log_p_difference": "at most 1e-5",
    "evaluate_over_onnx": "at most 1",
    "evaluate_fp32_over_onnx": "at most 1",
}

Figures = dict[str, float]


# --- what is timed -----------------------------------------------------------------------------------------


def core_engine(file: ModelFile, knob: float, precision: Precision = "int8") -> Engine:
    return CoreWeights(file, precision).engine(choose(file, knob))


def onnx_engine(file: ModelFile, knob: float, precision: Precision = "int8", threads: int = 1) -> Engine:
    weights = RuntimeWeights(file, precision)
    return OnnxEngine(weights, choose(file, knob), file.shape, precision, threads, ready=True)


def steps(engine: Engine, mask: Any, queries: int = QUERIES) -> Callable[[], None]:
    """Steps of one text that goes on from turn to turn."""
    chance, state = random.Random(2), engine.start()

    def run() -> None:
        nonlocal state
        for token in chance.choices(range(engine.shape.vocabulary_size), k=queries):
            reading, _ = engine.query(state, token, 3, mask)
            state = engine.after(reading)

    return run


class Writer:
    """A text that grows by words of the vocabulary, and starts again now and then: a long message, not a book."""

    def __init__(self, predictor: Predictor) -> None:
        self._chance = random.Random(3)
        self._words = [word for word in predictor.vocabulary.words[:3000] if word.isalpha() and len(word) > 3]
        self.text, self._left = "", 0

    def next_word(self) -> str:
        if not self._left:
            self.text, self._left = " ".join(self._chance.choices(self._words, k=2)), 100
        self._left -= 1
        return self._chance.choice(self._words)


def suggestions(predictor: Predictor, queries: int = QUERIES) -> Callable[[], None]:
    """`suggest` of one more word."""
    writer = Writer(predictor)

    def run() -> None:
        for _ in range(queries):
            word = writer.next_word()
            writer.text += f" {word}"
            predictor.suggest(writer.text)

    return run


EARLIER = """
import sys, time
from rheostat import Predictor
text, predictor = "", Predictor("chat", threads=1)
for line in sys.stdin:
    seconds = 0.0
    for word in line.split():
        text = word if len(text) > 600 else f"{text} {word}"
        start = time.perf_counter()
        predictor.suggest(text)
        seconds += time.perf_counter() - start
    print(seconds, flush=True)
"""


def over_before(options: argparse.Namespace) -> Figures:
    """`suggest` of one more word, now and in an earlier version, each in a process of its own, interleaved."""
    if options.before is None:
        return {}
    words = Writer(Predictor(CHAT))
    pipe = subprocess.PIPE
    children = {
        name: subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", EARLIER],
            env={**os.environ, "PYTHONPATH": str(Path(source) / "src")},
            text=True,
            stdin=pipe,
            stdout=pipe,
        )
        for name, source in (("now", ROOT), ("before", options.before))
    }
    seconds: dict[str, list[float]] = {name: [] for name in children}
    try:
        for _ in range(options.turns // 2):
            line = " ".join(words.next_word() for _ in range(LONG_TURN))
            for name, child in children.items():
                assert child.stdin and child.stdout
                child.stdin.write(line + "\n")
                child.stdin.flush()
                seconds[name].append(float(child.stdout.readline()))
    finally:
        for child in children.values():
            child.communicate()
    us = {name: 1e6 * statistics.median(values) / LONG_TURN for name, values in seconds.items()}
    return {"suggest_over_before": us["now"] / us["before"], "us_suggest_before": us["before"]}


def letter_seconds(predictor: Predictor, words: int) -> list[float]:
    """Seconds of `complete` with one more letter, beyond the first of a word."""
    writer, times = Writer(predictor), list[float]()
    for _ in range(words):
        word = writer.next_word()
        writer.text += " "
        for number, letter in enumerate(word):
            writer.text += letter
            start = time.perf_counter()
            predictor.complete(writer.text)
            if number:
                times.append(time.perf_counter() - start)
    return times


@cache
def compiled(name: str) -> ctypes.CDLL:
    """A C file of this folder, as a library."""
    library = Path(tempfile.mkdtemp()) / f"{name}.so"
    flags = ["-O3", "-march=native", "-shared", "-fPIC", "-I", str(FOLDER)]
    source = Path(__file__).with_name(f"{name}.c")
    subprocess.run([*find_compiler(), *flags, str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


def steps_in_c(engine: Engine, mask: Any, queries: int = QUERIES) -> Callable[[], None]:
    """The same as `steps`, without the Python around each."""
    assert isinstance(engine, CoreEngine)
    model, (state, answer, scratch) = engine.model, room_for(engine.model)
    run_steps, pointer = compiled("core_steps").run_steps, ctypes.c_void_p
    run_steps.argtypes = [*[pointer] * 8, ctypes.c_int32]
    query = ctypes.cast(load_library().rheo_query, pointer)
    chance, choice = random.Random(2), Choice(mask)
    vocabulary = engine.shape.vocabulary_size

    def run() -> None:
        words = np.array(chance.choices(range(vocabulary), k=queries), np.int32)
        room = (state.address, answer.address, scratch.address)
        status = run_steps(query, model.handle, engine.position, *room, choice, words.ctypes.data, queries)
        assert status == 0, status

    return run


def room_for(model: CoreModel) -> tuple[Block, Block, Block]:
    """A state at the start of a text, and room for an answer and for a call."""
    scratch = int(load_library().rheo_scratch_bytes(model.handle))
    return model.start(), Block(model.answer_bytes), Block(scratch)


def reads(file: ModelFile, knob: float, queries: int = QUERIES) -> Callable[[], None]:
    """Read as many bytes of the mapped file as the products of a query do: half as many as its FLOPs."""
    data, function = file.mapped_bytes(), compiled("read_bytes").read_bytes
    function.restype, function.argtypes = ctypes.c_uint64, [ctypes.c_void_p, ctypes.c_size_t]
    count = min(len(data), choose(file, knob).cut_shape(file.shape).flops // 2) // 8
    address = data.ctypes.data + -data.ctypes.data % 64

    def run() -> None:
        assert len(data)  # stays mapped
        for _ in range(queries):
            function(address, count - 8)

    return run


def medians(sides: Mapping[str, Callable[[], object]], turns: int, queries: int = QUERIES) -> Figures:
    """Microseconds per query of each side."""
    found = interleaved(sides, turns, quiet=True)
    return {name: 1e6 * statistics.median(values) / queries for name, values in found.items()}


# --- groups of rows ----------------------------------------------------------------------------------------


def measure_chat(options: argparse.Namespace) -> Figures:
    with open_model(model_path(CHAT)) as file:
        full, small = core_engine(file, 1.0), core_engine(file, SMALL)
        mask = Completion(file.vocabulary, file.tokenizer).allowed_mask(attach=True)
        predictor, literal = Predictor(CHAT), Predictor(CHAT, slips=False)
        sides = {
            "core_100": steps(full, mask),
            "core_15": steps(small, mask),
            "onnx_100": steps(onnx_engine(file, 1.0), mask),
            "onnx_15": steps(onnx_engine(file, SMALL), mask),
            "suggest_100": suggestions(predictor),
            "suggest_15": suggestions(predictor.at(SMALL)),
            "suggest_onnx": suggestions(Predictor(CHAT, engine="onnx", threads=1)),
        }
        us = medians(sides, options.turns)
        in_c = {"c_100": steps_in_c(full, mask), "c_15": steps_in_c(small, mask), "read": reads(file, 1.0)}
        us |= medians(in_c, options.turns)
        letters = interleaved({"step": sides["core_100"], "words": lambda: None}, options.turns, quiet=True)
        step = 1e6 * statistics.median(letters["step"]) / QUERIES
        letter = 1e6 * statistics.median(letter_seconds(literal, 2 * options.turns))
        slipped = 1e6 * statistics.median(letter_seconds(predictor, 2 * options.turns))
    return {
        "core_over_onnx_100": us["core_100"] / us["onnx_100"],
        "core_over_onnx_15": us["core_15"] / us["onnx_15"],
        "core_15_over_100": us["c_15"] / us["c_100"],
        "core_15_over_100_from_python": us["core_15"] / us["core_100"],
        "suggest_15_over_100": us["suggest_15"] / us["suggest_100"],
        "python_over_step": (us["suggest_100"] - us["core_100"]) / us["core_100"],
        "suggest_over_onnx": us["suggest_100"] / us["suggest_onnx"],
        "letter_over_step": letter / step,
        "letter_with_slips_over_step": slipped / step,
        "chat_step_over_read": us["c_100"] / us["read"],
        **{f"us_{name}": value for name, value in us.items()},
        "us_letter": letter,
        **over_before(options),
    }


def measure_ptb(options: argparse.Namespace) -> Figures:
    with open_model(options.ptb) as file:
        mask = Completion(file.vocabulary, file.tokenizer).allowed_mask(attach=True)
        core = core_engine(file, 1.0)
        sides = {"core": steps(core, mask, 3), "onnx": steps(onnx_engine(file, 1.0), mask, 3)}
        sides |= {"c": steps_in_c(core, mask, 3), "read": reads(file, 1.0, 3)}
        us = medians(sides, options.turns // 2, 3)
        found = {
            "ptb_step_over_read": us["c"] / us["read"],
            "ptb_core_over_onnx": us["core"] / us["onnx"],
            **{f"us_ptb_{name}": value for name, value in us.items()},
        }
    one, two = (Predictor(options.ptb, threads=threads) for threads in (1, 2))
    onnx = Predictor(options.ptb, threads=2, engine="onnx")
    sides = {"core": two, "onnx": onnx, "core_one": one}
    us = medians(
        {name: steps(each._turner.serving().engine, mask, 3) for name, each in sides.items()}, options.turns // 2, 3
    )
    return {
        **found,
        "ptb_core_over_onnx_two_threads": us["core"] / us["onnx"],
        "ptb_two_threads_over_one": us["core"] / us["core_one"],
        **{f"us_ptb_{name}_two_threads": us[name] for name in ("core", "onnx")},
    }


def measure_line(options: argparse.Namespace) -> Figures:
    """A step at ten positions against its FLOPs, by widths alone, and against its cost, on the path of widths and bits.

    A line through the origin would be ideal.
    """
    with open_model(model_path(CHAT)) as file:
        mask = Completion(file.vocabulary, file.tokenizer).allowed_mask(attach=True)
        weights = CoreWeights(file, "int8")
        points = {
            "flops": [choose(file, knob, ranking=file.ordered) for knob in KNOBS],
            "cost": [choose(file, knob) for knob in KNOBS],
        }
        sides = {
            f"{kind}_{knob:g}": steps_in_c(weights.engine(point), mask)
            for kind, chosen in points.items()
            for knob, point in zip(KNOBS, chosen, strict=True)
        }
        us = medians(sides, options.turns)
    found: Figures = {}
    for kind, chosen in points.items():
        shares = [point.cost for point in chosen]  # by widths alone, a share of the FLOPs
        times = [us[f"{kind}_{knob:g}"] for knob in KNOBS]
        slope, start = np.polyfit(shares, times, 1)
        found[f"{kind}_r2"] = float(np.corrcoef(shares, times)[0, 1] ** 2)
        found[f"{kind}_intercept_over_full"] = float(start / (start + slope))
    return {**found, **{f"us_{name}": value for name, value in us.items()}}


def measure_turning(options: argparse.Namespace) -> Figures:
    """Turning to positions not visited before, and the memory that the process then has more.

    One after another, and between queries, where the caches hold the weights and not the code that turns.
    """
    seconds: dict[str, list[float]] = {"row": [], "between": []}
    queries, held = list[float](), list[int]()
    for kind in [*seconds] * TURNING_ROUNDS:
        predictor, times = Predictor(CHAT), seconds[kind]
        predictor.suggest("see you at the")
        for percent in range(99, 14, -1):
            start = time.perf_counter()
            predictor.turn(percent / 100)
            times.append(time.perf_counter() - start)
            if kind == "between":
                held.append(predictor._turner.serving().engine.held_bytes)
                predictor.turn(1.0)
                queries.append(predictor.query_ms(3) / 1000)
    query = statistics.median(queries)
    return {
        "turn_over_query": statistics.median(seconds["row"]) / query,
        "turn_between_queries_over_query": statistics.median(seconds["between"]) / query,
        "turn_bytes": float(max(held)),
        "us_turn": 1e6 * statistics.median(seconds["row"]),
    }


FIRST = "import rheostat, sys; rheostat.load(sys.argv[1]).suggest(sys.argv[2])"
MEMORY = """
import sys
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
import numpy
before = resident()
import rheostat
predictor = rheostat.load(sys.argv[1])
predictor.suggest(sys.argv[2])
print(resident() - before)
"""


def measure_processes(options: argparse.Namespace) -> Figures:
    """Whole processes: from nothing to the first suggestion, and what stays in memory."""
    path, text = str(model_path(CHAT)), "see you at the"
    with tempfile.TemporaryDirectory() as folder:
        # Modules must be compiled, as those of installed packages are: the first turn does this.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}

        def start(script: str) -> Callable[[], str]:
            command = [sys.executable, "-c", script, path, text]
            return lambda: subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout

        found = interleaved(
            {"numpy": start("import numpy"), "first": start(FIRST)}, max(5, options.turns // 10), quiet=True
        )
        seconds = {name: statistics.median(values) for name, values in found.items()}
        has_memory = Path("/proc/self/statm").exists()
        memory = statistics.median(int(start(MEMORY)()) for _ in range(9)) if has_memory else None
    figures = {"start_over_numpy": seconds["first"] / seconds["numpy"], "start_ms": 1000 * seconds["first"]}
    if memory is not None:
        figures |= {"memory_over_file": memory / Path(path).stat().st_size, "memory_mb": memory / 1e6}
    return figures


def measure_sizes(options: argparse.Namespace) -> Figures:
    """The base package with all that it needs, as installed here; the library, and the module for browsers."""
    package = sum(path.stat().st_size for path in FOLDER.parent.rglob("*") if is_shipped(path))
    others = sum(distribution_bytes(name) for name in requirements("rheostat"))
    library = next(path for path in FOLDER.iterdir() if path.suffix in (".so", ".dylib", ".dll"))
    figures = {"installed_mb": (package + others) / 1e6, "library_kb": library.stat().st_size / 1e3}
    if (module := FOLDER / "rheostat.wasm").exists():
        figures["wasm_kb"] = module.stat().st_size / 1e3
    return figures


def is_shipped(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


def requirements(name: str, seen: set[str] | None = None) -> Iterator[str]:
    """The names of the distributions that one needs without extras, and what those need."""
    seen = seen if seen is not None else set()
    for wish in metadata.requires(name) or []:
        needed = re.split(r"[^A-Za-z0-9._-]", wish)[0].lower()
        if "extra ==" in wish or needed in seen:
            continue
        try:
            metadata.distribution(needed)
        except metadata.PackageNotFoundError:
            continue  # for another system
        seen.add(needed)
        yield needed
        yield from requirements(needed, seen)


def distribution_bytes(name: str) -> int:
    files = metadata.distribution(name).files or []
    found = (Path(str(file.locate())) for file in files)
    return sum(path.stat().st_size for path in found if path.is_file() and "__pycache__" not in path.parts)


def measure_quality(options: argparse.Namespace) -> Figures:
    """int8 against fp32 on test text: all of chat's bundled text, the beginning of Penn Treebank's."""
    figures: Figures = {}
    models = {"chat": (model_path(CHAT), str(HELD_OUT_TEXT)), "ptb": (options.ptb, options.data)}
    for name, (path, data) in models.items():
        if data is None:
            print("Penn Treebank is not here: name its folder with --data", file=sys.stderr)
            continue
        with open_model(path) as file:
            ((_, split),) = read_splits(file, data, None, ["test"]).items()
            ids = np.asarray(split.ids[: options.tokens])
            point = choose(file, 1.0)
            ppl = {
                precision: RuntimeEvaluator(file, precision, 1).quality(point, ids).perplexity
                for precision in ("int8", "fp32")
            }
        figures |= {f"{name}_int8_over_fp32": ppl["int8"] / ppl["fp32"], f"{name}_tokens": float(len(ids))}
    return figures


def measure_words(options: argparse.Namespace) -> Figures:
    """How often int8's three best words are fp32's, by the core and by ONNX Runtime; and both in fp32, in log p."""
    figures: Figures = {}
    with open_model(model_path(CHAT)) as file:
        ((_, split),) = read_splits(file, str(HELD_OUT_TEXT), None, ["test"]).items()
        ids = np.asarray(split.ids[: options.contexts]).tolist()
        mask = np.ones(len(file.vocabulary), np.bool_)
        for knob in (1.0, 0.5, 0.2):
            engines = {
                "exact": core_engine(file, knob, "fp32"),
                "core": core_engine(file, knob),
                "onnx": onnx_engine(file, knob),
            }
            words = {name: best_words(engine, ids, mask) for name, engine in engines.items()}
            for name, key in (("core", "same_words"), ("onnx", "same_words_onnx")):
                same = sum(a == b for a, b in zip(words[name], words["exact"], strict=True))
                figures[f"{key}_{100 * knob:.0f}"] = same / len(ids)
        exact, other = core_engine(file, 1.0, "fp32"), onnx_engine(file, 1.0, "fp32")
        core, onnx = (log_probabilities(engine, ids[:LOG_CONTEXTS]) for engine in (exact, other))
        wide = log_probabilities_in_float64(file, ids[:LOG_CONTEXTS])
    return figures | {
        "log_p_difference": float(np.abs(core - onnx).max()),
        "log_p_core_error": float(np.abs(core - wide).max()),
        "log_p_onnx_error": float(np.abs(onnx - wide).max()),
    }


def best_words(engine: Engine, ids: list[int], mask: Any) -> list[set[int]]:
    state, found = engine.start(), list[set[int]]()
    for token in ids:
        reading, best = engine.query(state, token, 3, mask)
        state = engine.after(reading)
        found.append({word for word, _ in best})
    return found


def log_probabilities(engine: Engine, ids: list[int]) -> Any:
    state, found = engine.start(), []
    for token in ids:
        reading = engine.read(state, token)
        state = engine.after(reading)
        found.append(engine.log_probabilities(reading))
    return np.array(found, np.float64)


def log_probabilities_in_float64(file: ModelFile, ids: list[int]) -> Any:
    """What both engines approximate: the equations of a model with one softmax and tied words, in twice their bits."""
    weights = {name: np.asarray(tensor, np.float64) for name, tensor in file.weights().items()}
    shape, words = file.shape, weights["embedding.weight"]
    cells = [np.zeros(size) for size in shape.hidden_sizes]
    before = [np.zeros((window - 1) * shape.input_size(layer)) for layer, window in enumerate(shape.windows)]
    found = []
    for token in ids:
        hidden = words[token]
        for layer, size in enumerate(shape.hidden_sizes):
            inputs = np.concatenate([before[layer], hidden])
            before[layer] = inputs[shape.input_size(layer) :]
            gates = weights[f"layers.{layer}.weight"] @ inputs + weights[f"layers.{layer}.bias"]
            new, (forget, output) = np.tanh(gates[:size]), 1 / (1 + np.exp(-gates[size:].reshape(2, size)))
            cells[layer] = forget * cells[layer] + (1 - forget) * new
            hidden = output * cells[layer]
        scores = words @ hidden + weights["output.bias"]
        found.append(scores - scores.max() - np.log(np.exp(scores - scores.max()).sum()))
    return np.array(found)


def measure_evaluation(options: argparse.Namespace) -> Figures:
    with open_model(model_path(CHAT)) as file:
        ((_, split),) = read_splits(file, str(HELD_OUT_TEXT), None, ["test"]).items()
        ids, point = np.asarray(split.ids[:SPEED_TOKENS]), choose(file, 1.0)
        evaluators = {
            f"{precision}_{name}": RuntimeEvaluator(file, precision, 1, name)
            for precision in PRECISIONS
            for name in ENGINES
        }
        sides = {name: lambda each=each: each.quality(point, ids) for name, each in evaluators.items()}
        seconds = {name: statistics.median(times) for name, times in interleaved(sides, 5, quiet=True).items()}
    return {
        "evaluate_over_onnx": seconds["int8_core"] / seconds["int8_onnx"],
        "evaluate_fp32_over_onnx": seconds["fp32_core"] / seconds["fp32_onnx"],
        "evaluate_tokens_per_second": len(ids) / seconds["int8_core"],
    }


GROUPS: dict[str, Callable[[argparse.Namespace], Figures]] = {
    "chat": measure_chat,
    "ptb": measure_ptb,
    "line": measure_line,
    "turning": measure_turning,
    "processes": measure_processes,
    "sizes": measure_sizes,
    "quality": measure_quality,
    "words": measure_words,
    "evaluation": measure_evaluation,
}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=list(GROUPS), default=list(GROUPS), help="groups of rows")
    parser.add_argument("--quick", action="store_true", help="a tenth of the turns: to see that all works")
    parser.add_argument("--turns", type=int, default=500, help="interleaved turns of each side")
    before = "the folder of a checkout of an earlier version, whose `suggest` is compared with today's"
    parser.add_argument("--before", type=Path, help=before)
    parser.add_argument("--ptb", type=Path, default=PTB, help="an ordered int8 model of Penn Treebank")
    data = Path(os.environ.get("RHEOSTAT_DATA", "")) / "ptb"
    parser.add_argument("--data", default=str(data) if data.is_dir() else None, help="the folder of Penn Treebank")
    options = parser.parse_args()
    options.tokens, options.contexts = TOKENS, CONTEXTS
    if options.quick:
        options.turns, options.tokens, options.contexts = max(8, options.turns // 10), 2000, 200
    figures: dict[str, Any] = {"engine": "core", "turns": options.turns, "threads": 1, "targets": TARGETS}
    for name in options.only:
        start = time.perf_counter()
        figures |= GROUPS[name](options)
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
    for name, target in TARGETS.items():
        if name in figures:
            print(f"{name}: {figures[name]:.4g} ({target})")
    hand_over("runtime", figures, options)


if __name__ == "__main__":
    main()
