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
connections.LimitedProtocol.answer_s = connections.LimitedProtocol.idle_s = {seconds}
service = server.open_service(sys.argv[1])
{changes}
server.serve(service, port=0, announce=lambda address: print(address, flush=True))
"""
LARGE = 8 << 20  # bytes: more than the system buffers for a client that reads nothing
LARGE_ANSWERS = f"""
import dataclasses, numpy
from starlette.responses import Response
async def large(request):
    return Response(bytes({LARGE}))
service.model = large
service.browser = dataclasses.replace(service.browser, contents=numpy.zeros({LARGE}, numpy.uint8), mapped=None)
"""
ONE_PIECE, PIECES = "/model.json", "/model.safetensors"  # how the server above sends its large answers


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
def server(model: Path, seconds: float = 1.0, changes: str = "") -> Iterator[tuple[int, subprocess.Popen[str]]]:
    code = SERVER.format(files=OPEN_FILES, seconds=seconds, changes=changes)
    command = [sys.executable, "-c", code, str(model)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline().rstrip("/\n").rpartition(":")[2]), process
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def connect(port: int, patience_s: float = PATIENCE_S) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=patience_s)


def connect_unread(port: int) -> socket.socket:
    """A connection for a client that reads nothing, so that the system keeps little for it."""
    client = socket.socket()
    client.settimeout(PATIENCE_S)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", port))
    return client


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


def taken(client: socket.socket) -> int:
    """How many bytes still come before the server's end of the connection, or before it sends no more."""
    count = 0
    client.settimeout(2)
    with contextlib.suppress(ConnectionError, TimeoutError):
        while part := client.recv(1 << 20):
            count += len(part)
    return count


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


@pytest.mark.parametrize("beginning", list(BEGINNINGS.values())[1:], ids=list(BEGINNINGS)[1:])
def test_a_request_behind_another_that_never_ends_is_ended(model: Path, beginning: bytes) -> None:
    with server(model) as (port, _), connect(port, patience_s=10) as client:
        client.sendall(get("/api/health") + beginning)
        assert is_closed(client), "it had no deadline"


def test_requests_sent_together_are_all_answered_and_then_the_connection_is_idle(model: Path) -> None:
    with server(model) as (port, _), connect(port, patience_s=10) as client:
        client.sendall(20 * get("/api/health"))
        answers = b""
        with contextlib.suppress(ConnectionError):
            while part := client.recv(65536):
                answers += part
        assert answers.count(b"HTTP/1.1 200") == 20


def test_a_body_that_comes_after_its_answer_does_not_end_the_deadlines(model: Path) -> None:
    with server(model) as (port, _), connect(port, patience_s=10) as client:
        client.sendall(b"POST /absent HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\n")
        assert client.recv(4096).startswith(b"HTTP/1.1 404")
        client.sendall(b"later")
        assert is_closed(client)


UNREAD = {
    "one piece": get(ONE_PIECE),
    "pieces": get(PIECES),
    "one piece behind another request": get("/api/health") + get(ONE_PIECE),
    "pieces behind another request": get("/api/health") + get(PIECES),
    "one piece before half a request": get(ONE_PIECE) + BEGINNINGS["half of a body"],
    "more and more": 50 * get(ONE_PIECE),
}


def test_an_answer_that_nobody_takes_is_dropped(model: Path) -> None:
    with server(model, changes=LARGE_ANSWERS) as (port, _), contextlib.ExitStack() as clients:
        unread = [clients.enter_context(connect_unread(port)) for _ in UNREAD]
        for client, requests in zip(unread, UNREAD.values(), strict=True):
            client.sendall(requests)
        time.sleep(1.0 + 2.0)  # the limit, and some more for a busy machine
        for client, name in zip(unread, UNREAD, strict=True):
            assert taken(client) < LARGE, name


@pytest.mark.parametrize("path", [ONE_PIECE, PIECES])
def test_an_answer_that_is_taken_comes_whole_and_the_connection_stays(model: Path, path: str) -> None:
    with server(model, seconds=20, changes=LARGE_ANSWERS) as (port, _), connect(port) as client:
        for _ in range(2):
            client.sendall(get(path))
            head, _, body = client.recv(65536).partition(b"\r\n\r\n")
            assert f"content-length: {LARGE}".encode() in head.lower()
            received = len(body)
            while received < LARGE:
                received += len(client.recv(65536))
            assert received == LARGE


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on open files")
def test_connections_in_every_bad_state_keep_others_out_no_longer_than_the_limits(model: Path) -> None:
    bad = [*UNREAD.values(), get("/api/health") + BEGINNINGS["half of a body"]]
    with server(model, changes=LARGE_ANSWERS) as (port, _), contextlib.ExitStack() as clients:
        for number in range(OPEN_FILES - connections.SPARE_FILES + 4):  # as many as the server takes, and more
            client = clients.enter_context(connect_unread(port))
            with contextlib.suppress(ConnectionError):
                client.sendall(bad[number % len(bad)])
        start = time.monotonic()
        assert len(ask(port)["suggestions"]) == 3
        assert time.monotonic() - start < 10, "limits of 1 s kept it out for longer"


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
