"""The keyboard server with 200 concurrent typists, compared with its rate on an endpoint that does nothing.

    python benchmarks/keyboard_load.py --model FILE --json -o results/benchmark-keyboard.json
    python benchmarks/keyboard_load.py --model FILE --clients 500 --positions 18 --for 60 -o results/load-clients.json
    python benchmarks/keyboard_load.py --model FILE --clients 200 --pause 0.2 --for 3600 -o results/load-typists.json

The server is one process, `rheostat keyboard`. The typists run in this process and use real HTTP with one connection
each. Every typist writes its own texts letter by letter, at one of three knob positions, and sends the next request as
soon as it has the answer. Three kinds of requests are interleaved, so load affects them all equally: typing; the same
requests to an endpoint that drops them; and requests without a body. Every answer is compared with that of a local
predictor that has never seen another typist's text.

With --for, only typing is measured, for that many seconds: how long answers take, what is lost or wrong, and whether
memory grows. --pause: seconds between a typist's keys, drawn around this; 0 = the next key follows the answer. Memory
first grows, while the states of texts fill the room they may take (`positions.SHARED_HISTORY_BYTES`). So it is recorded
over time, and its growth is that from the second quarter of the time to the last.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from measuring import make_parser, report_results
from rheostat.runtime.predictor import Predictor
from rheostat.text.vocabulary import Vocabulary

KNOBS = (1.0, 0.6, 0.3)
WORDS_OF_A_TEXT = 12
COMMON = 500  # texts are made of this many words: the first of a vocabulary
PATIENCE_S = 60
SMALLEST_KNOB = 0.15
MEMORY_SAMPLES = 120  # over the whole time, with --for
CHECKED = 40  # answers of each client that are compared, with --for
TARGETS = {
    "suggest_over_empty": "at least 0.5",
    "suggest_over_get": "for comparison: an empty endpoint, requests without a body",
    "lost": "0",
    "wrong": "0",
    "memory_growth_mb": "flat",
}

Answer = tuple[int, bytes]


class Connection:
    """One typist's connection, kept alive, with one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        self._reader, self._writer = reader, writer
        self._host = f"Host: 127.0.0.1:{port}\r\n"

    async def get(self, path: str) -> Answer:
        return await self._ask(f"GET {path} HTTP/1.1\r\n{self._host}\r\n".encode())

    async def post(self, path: str, asked: object) -> Answer:
        body = json.dumps(asked).encode()
        head = f"POST {path} HTTP/1.1\r\n{self._host}Content-Type: application/json\r\n"
        return await self._ask(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)

    async def _ask(self, request: bytes) -> Answer:
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        return int(head[9:12]), await self._reader.readexactly(length)


@contextlib.asynccontextmanager
async def connections(port: int, count: int) -> AsyncIterator[list[Connection]]:
    streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    try:
        yield [Connection(reader, writer, port) for reader, writer in streams]
    finally:
        for _, writer in streams:
            writer.close()


@dataclass
class Typist:
    """Writes one text after another. answered: every request with its answer."""

    words: tuple[str, ...]
    knob: float
    random: random.Random
    answered: list[tuple[str, bytes]] = field(default_factory=list)  # checked after the clock has stopped
    lost: int = 0
    pause_s: float = 0.0
    seconds: list[float] = field(default_factory=list)  # that answers took
    checked: int = 0  # answers to keep for checking; 0 = all

    def texts(self, by_words: bool = False) -> Iterator[str]:
        """The text before the cursor, key by key or word by word."""
        while True:
            text = " ".join(self.random.choices(self.words, k=WORDS_OF_A_TEXT)) + " "
            lengths = range(1, len(text) + 1)
            yield from (text[:length] for length in lengths if not by_words or text[length - 1] == " ")

    async def write(self, connection: Connection, end: float, by_words: bool = False) -> int:
        """Type until the time is over; returns how many keys were answered."""
        count = 0
        for text in self.texts(by_words):
            if time.perf_counter() > end:
                break
            if self.pause_s:
                await asyncio.sleep(self.random.expovariate(1 / self.pause_s))
            start = time.perf_counter()
            try:
                status, body = await connection.post("/api/suggest", {"text": text, "knob": self.knob})
            except (OSError, asyncio.IncompleteReadError):
                self.lost += 1
                break
            self.seconds.append(time.perf_counter() - start)
            if status == 200:
                self.keep(text, body)
                count += 1
            else:
                self.lost += 1
        return count

    def keep(self, text: str, body: bytes) -> None:
        """Keep an answer for checking: all, or a sample drawn evenly from all of them."""
        place = len(self.seconds)
        if not self.checked or len(self.answered) < self.checked:
            self.answered.append((text, body))
        elif (chosen := self.random.randrange(place)) < self.checked:
            self.answered[chosen] = (text, body)

    async def write_to_empty_endpoint(self, connection: Connection, end: float) -> int:
        """Send the same requests to an endpoint that drops them: the server's work without a model."""
        count = 0
        for text in self.texts():
            if time.perf_counter() > end:
                break
            status, _ = await connection.post("/api/health", {"text": text, "knob": self.knob})
            count += status == 200
        return count


async def request_without_body(connection: Connection, end: float) -> int:
    """Requests without a body to the same endpoint."""
    count = 0
    while time.perf_counter() < end:
        status, _ = await connection.get("/api/health")
        count += status == 200
    return count


async def rate(asking: Sequence[Callable[[float], Awaitable[int]]], seconds: float) -> float:
    """Answers per second, for all typists together."""
    start = time.perf_counter()
    counts = await asyncio.gather(*(ask(start + seconds) for ask in asking))
    return sum(counts) / (time.perf_counter() - start)


async def run(
    port: int, typists: list[Typist], turns: int, seconds: float, warm_up: float, memory: Callable[[], float]
) -> dict[str, Any]:
    rates: dict[str, list[float]] = {"suggest": [], "empty": [], "get": []}
    sizes = []
    async with connections(port, len(typists)) as open_connections:
        pairs = list(zip(typists, open_connections, strict=True))
        asking = {
            "suggest": [partial(typist.write, connection) for typist, connection in pairs],
            "empty": [partial(typist.write_to_empty_endpoint, connection) for typist, connection in pairs],
            "get": [partial(request_without_body, connection) for connection in open_connections],
        }
        # The server's memory of texts is limited; typing word by word reaches the limit sooner.
        await rate([partial(ask, by_words=True) for ask in asking["suggest"]], warm_up)
        for _ in range(turns):
            for name, ask in asking.items():
                rates[name].append(await rate(ask, seconds))
            sizes.append(memory())
            print(
                "  ".join(f"{name} {rates[name][-1]:.0f}/s" for name in rates), f"{sizes[-1]:.0f} MB", file=sys.stderr
            )
    return {**{f"{name}_per_second": values for name, values in rates.items()}, "memory_mb": sizes}


@contextlib.contextmanager
def server(model: Path) -> Iterator[tuple[int, psutil.Process]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    command = [sys.executable, "-m", "rheostat", "keyboard", str(model), "--port", str(port)]
    process = subprocess.Popen(command)
    try:
        end = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/api/health", timeout=5):
                break
            if time.monotonic() > end or process.poll() is not None:
                raise SystemExit("the server did not start")
            time.sleep(0.1)
        yield port, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def count_wrong(model: Path, typists: list[Typist]) -> int:
    """The number of answers that differ from those of a predictor that handles one position and one text at a time."""
    wrong = 0
    for knob in sorted({one.knob for one in typists}):
        predictor = Predictor(model, knob, threads=1)
        for text, body in (answer for one in typists if one.knob == knob for answer in one.answered):
            words = [entry["word"] for entry in json.loads(body)["suggestions"]]
            wrong += words != [suggestion.word for suggestion in predictor.complete(text)]
    return wrong


def median_ratio(values: list[float], others: list[float]) -> float:
    return statistics.median(value / other for value, other in zip(values, others, strict=True))


def make_typists(
    count: int, vocabulary: Vocabulary, knobs: Sequence[float] = KNOBS, seed: int = 1, **settings: Any
) -> list[Typist]:
    words = tuple(word for word in vocabulary.words[: 2 * COMMON] if word.isalpha())[:COMMON]
    return [
        Typist(words, knobs[number % len(knobs)], random.Random(seed + number), **settings) for number in range(count)
    ]


async def type_on(port: int, typists: list[Typist], seconds: float, memory: Callable[[], float]) -> list[float]:
    """Let all type for some seconds; the server's memory, in even steps."""
    sizes: list[float] = []

    async def watch() -> None:
        start = time.perf_counter()
        for number in range(1, MEMORY_SAMPLES + 1):
            await asyncio.sleep(max(0.0, start + number * seconds / MEMORY_SAMPLES - time.perf_counter()))
            sizes.append(memory())

    async with connections(port, len(typists)) as opened:
        end, watching = time.perf_counter() + seconds, asyncio.create_task(watch())
        pairs = zip(typists, opened, strict=True)
        await asyncio.gather(*(typist.write(connection, end) for typist, connection in pairs))
        watching.cancel()
    return sizes


def memory_figures(before: float, sizes: list[float], seconds: float) -> dict[str, Any]:
    """What memory did over time, in MB. growth: from the second quarter to the last, by their medians."""
    quarter = max(1, len(sizes) // 4)
    second, last = statistics.median(sizes[quarter : 2 * quarter] or sizes), statistics.median(sizes[-quarter:])
    figures = {"start": before, "second_quarter": second, "last_quarter": last, "growth": last - second}
    return {**figures, "every_s": seconds / MEMORY_SAMPLES, "over_time": [round(size, 1) for size in sizes]}


def measure_load(arguments: argparse.Namespace, predictor: Predictor) -> dict[str, Any]:
    """Typing alone: how long answers take, what is lost or wrong, and whether memory grows."""
    step = (1 - SMALLEST_KNOB) / max(1, arguments.positions - 1)
    knobs = [round(1 - step * number, 2) for number in range(arguments.positions)]
    settings = {"pause_s": arguments.pause, "checked": CHECKED}
    typists = make_typists(arguments.clients, predictor.vocabulary, knobs, **settings)
    with server(arguments.model) as (port, process):
        before = float(process.memory_info().rss) / 1e6
        sizes = asyncio.run(
            type_on(port, typists, arguments.seconds_in_all, lambda: float(process.memory_info().rss) / 1e6)
        )
    seconds = sorted(second for one in typists for second in one.seconds)
    checked = sum(len(one.answered) for one in typists)
    quantiles = {
        name: seconds[min(len(seconds) - 1, int(share * len(seconds)))]
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
    }
    return {
        "model": arguments.model.name,
        "engine": predictor.engine,
        "clients": arguments.clients,
        "positions": len(knobs),
        "pause_s": arguments.pause,
        "seconds": arguments.seconds_in_all,
        "answers": len(seconds),
        "answers_per_second": len(seconds) / arguments.seconds_in_all,
        "answer_s": {**quantiles, "largest": seconds[-1]},
        "lost": sum(one.lost for one in typists),
        "checked": checked,
        "wrong": count_wrong(arguments.model, typists),
        "memory_mb": memory_figures(before, sizes, arguments.seconds_in_all),
        "targets": {
            "lost": "0",
            "wrong": "0",
            "answer_s.p99": "below 2 at 200 typists",
            "memory_mb.growth": "flat, over an hour",
        },
    }


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--model", type=Path, required=True, help="a model file with a ranking")
    parser.add_argument("--typists", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=1.0, help="length of each turn")
    parser.add_argument("--warm-up", type=float, default=20.0, help="seconds of typing before measuring")
    parser.add_argument("--for", type=float, dest="seconds_in_all", default=0.0, help="type for this many seconds")
    parser.add_argument("--clients", type=int, default=200, help="with --for: clients at the same time")
    parser.add_argument("--positions", type=int, default=3, help="with --for: positions of the knob that they use")
    parser.add_argument("--pause", type=float, default=0.0, help="with --for: mean seconds before each key")
    arguments: argparse.Namespace = parser.parse_args()
    predictor = Predictor(arguments.model, threads=1)  # as the server opens it
    if arguments.seconds_in_all:
        figures = measure_load(arguments, predictor)
        shown = {key: figures[key] for key in ("answers_per_second", "answer_s", "lost", "wrong", "memory_mb")}
        print(json.dumps(shown, indent=1))
        report_results("load", figures, arguments)
        return
    typists = make_typists(arguments.typists, predictor.vocabulary)
    with server(arguments.model) as (port, process):

        def memory() -> float:
            return float(process.memory_info().rss) / 1e6

        measured = asyncio.run(run(port, typists, arguments.repeats, arguments.seconds, arguments.warm_up, memory))
    figures = {
        "model": arguments.model.name,
        "engine": predictor.engine,
        "typists": arguments.typists,
        "targets": TARGETS,
        **measured,
        "suggest_over_empty": median_ratio(measured["suggest_per_second"], measured["empty_per_second"]),
        "suggest_over_get": median_ratio(measured["suggest_per_second"], measured["get_per_second"]),
        "answers": sum(len(typist.answered) for typist in typists),
        "lost": sum(typist.lost for typist in typists),
        "wrong": count_wrong(arguments.model, typists),
        "memory_growth_mb": measured["memory_mb"][-1] - measured["memory_mb"][0],
    }
    for name, target in TARGETS.items():
        print(f"{name}: {figures[name]:.3g} ({target})")
    report_results("keyboard", figures, arguments)


if __name__ == "__main__":
    main()
