"""Clients that are slow, silent or too many cost the server little: deadlines, limits, and logs that stay small."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the keyboard extra is not installed: pip install 'rheostat[keyboard]'")
pytest.importorskip("uvicorn", reason="the keyboard extra is not installed: pip install 'rheostat[keyboard]'")

from models import make_ranking, make_vocabulary, make_weights, write_file
from rheostat.keyboard import connections
from rheostat.keyboard import server as keyboard
from rheostat.keyboard.connections import BoundedLog, room_for_connections
from rheostat.model.shape import ModelShape

SHAPE = ModelShape(60, 8, (24, 8), (2, 1))
PATIENCE_S = 60
OPEN_FILES = 256  # of the server, so that a few hundred connections use them up
SERVER = """
import sys, resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files}))
from rheostat.keyboard import connections, server
connections.LimitedProtocol.request_s = {seconds}
server.serve(server.open_service(sys.argv[1]), port=0, announce=lambda address: print(address, flush=True))
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "small.safetensors"
    write_file(
        path,
        shape=SHAPE,
        vocabulary=make_vocabulary(SHAPE.vocabulary_size),
        weights=make_weights(SHAPE),
        text={"tokenizer": "words"},
        rankings=[make_ranking(SHAPE, 3, "random-3")],
        default_ranking="random-3",
    )
    return path


@contextlib.contextmanager
def server(model: Path, seconds: float = 1.0) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    code = SERVER.format(files=OPEN_FILES, seconds=seconds)
    command = [sys.executable, "-c", code, str(model)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline().rstrip("/\n").rpartition(":")[2]), process
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def is_closed(client: socket.socket) -> bool:
    """Whether the server ends this connection; waits for it."""
    try:
        while client.recv(4096):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


def ask(port: int) -> Any:
    """The answer to a usual request, whose connection may have to wait for its turn."""
    end = time.monotonic() + PATIENCE_S
    body = json.dumps({"text": "word3 "}).encode()
    head = f"POST /api/suggest HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    request = f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    while True:
        with connect(port) as client:
            client.sendall(request)
            with contextlib.suppress(ConnectionError):
                answer = b"".join(iter(lambda: client.recv(65536), b""))
                if answer.startswith(b"HTTP/1.1 200") or time.monotonic() > end:
                    return json.loads(answer.partition(b"\r\n\r\n")[2])
        time.sleep(0.1)


BEGINNINGS = {
    "nothing": b"",
    "half of the headers": b"POST /api/suggest HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-",
    "half of a body": b"POST /api/suggest HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
}


def test_a_request_that_never_ends_is_ended_and_others_are_answered(model: Path) -> None:
    with server(model) as (port, _), contextlib.ExitStack() as clients:
        begun = [clients.enter_context(connect(port)) for _ in BEGINNINGS]
        for client, beginning in zip(begun, BEGINNINGS.values(), strict=True):
            client.sendall(beginning)
        assert len(ask(port)["suggestions"]) == 3
        assert [is_closed(client) for client in begun] == [True] * 3


def test_bytes_that_keep_coming_do_not_move_the_deadline(model: Path) -> None:
    with server(model) as (port, _), connect(port) as client:
        client.sendall(b"GET /api/health HTTP/1.1\r\n")
        end = time.monotonic() + PATIENCE_S
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < end:
                client.sendall(b"X-Slow: 1\r\n")
                time.sleep(0.1)
        assert time.monotonic() < end, "the server read forever"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on open files")
def test_more_connections_than_open_files_are_refused_and_log_little(model: Path) -> None:
    with server(model, seconds=3.0) as (port, process):
        silent = [connect(port) for _ in range(2 * OPEN_FILES)]
        refused = 0
        for client in silent[-50:]:
            client.settimeout(1)
            with contextlib.suppress(ConnectionError, TimeoutError):
                refused += client.recv(100).startswith(b"HTTP/1.1 503")
        assert refused > 0, "none was told that there are too many"
        assert len(ask(port)["suggestions"]) == 3, "it answers again once the silent ones are gone"
        for client in silent:
            client.close()
        process.terminate()
        assert process.stderr is not None
        logged = process.stderr.read()
        assert len(logged) < 50_000, logged[:500]


def test_a_log_lets_a_few_records_through() -> None:
    bounded = BoundedLog(most=5)
    records = [logging.LogRecord("asyncio", logging.ERROR, "x", 1, "no file %d", (n,), None) for n in range(1000)]
    passed = [record.getMessage() for record in records if bounded.filter(record)]
    assert passed == [f"no file {n}" for n in range(5)]


def test_connections_fit_into_the_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    limits = {"found": (256, 256), "set": None}
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits["found"])
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: limits.update(set=wanted))
    assert room_for_connections(1000) == 56
    limits["found"] = (256, 100_000)
    assert room_for_connections(1000) == 1000 and limits["set"] == (1200, 100_000)
    limits["found"] = (65_536, 65_536)
    assert room_for_connections(1000) == 1000


def test_the_limits_are_those_of_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "keyboard.md").read_text(encoding="utf-8")
    for limit in (
        f"| {connections.MOST_CONNECTIONS:,}, or what",
        f"| {connections.REQUEST_S:g} s | closed |",
        f"| {connections.ANSWER_S:g} s | closed |",
        f"two requests | {connections.IDLE_S} s |",
        f"thread | {keyboard.MOST_WAITING} | 503 |",
        f"| a body | {keyboard.LARGEST_BODY:,} bytes | 413 |",
        f"| {connections.MOST_RECORDS} per minute |",
    ):
        assert limit in page, limit
