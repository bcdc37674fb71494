"""Typing and serving send nothing, and write nothing that the user did not name: seen in real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from egress import can_trace, run, watched
from models import write_tiny
from results_files import full, ranked, write_sweep

TYPING = """
import sys, rheostat
model, words, memory, engine = sys.argv[1:]
options = dict(user_words=words, memory=memory) if engine == "core" else {}
with rheostat.load(model, threads=1, engine=engine, **options) as predictor:
    predictor.suggest("the")
    predictor.complete("word3 wo")
    predictor.turn(0.6)
    predictor.suggest("word3 word4")
    predictor.learn("Rheostat")
    if engine == "core":
        predictor.watch().end("word3 word4 word5")
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("model") / "tiny.safetensors")


def test_the_watch_sees_what_is_sent_and_written(tmp_path: Path) -> None:
    """Otherwise the tests below would pass whatever a process did."""
    script = f"""
import pathlib, socket, subprocess, sys
for family, address in ((socket.AF_INET, ("192.0.2.1", 9)), (socket.AF_INET6, ("2001:db8::1", 9))):
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        try:
            sender.sendto(b"x", address)
        except OSError:
            pass
pathlib.Path.home().joinpath("kept").write_text("x")
pathlib.Path({str(tmp_path / "named")!r}).write_text("x")
subprocess.run([sys.executable, "-c", "open('by-a-child', 'w')"], check=True)
"""
    egress, process = run(tmp_path / "watched", "-c", script)
    assert any("192.0.2.1" in address for address in egress.sockets)
    assert any("2001:db8::1" in address for address in egress.sockets)
    assert process.home() == {"home/kept"}
    names = {path.name for path in egress.written_outside(tmp_path / "named")}
    assert names == {"kept", "by-a-child"}
    assert any(Path(sys.executable).name in name for name in egress.processes)


@pytest.mark.skipif(not can_trace(), reason="no strace, which alone sees what a compiled library does")
def test_the_watch_sees_what_a_compiled_library_does(tmp_path: Path) -> None:
    """ONNX Runtime by itself, as it comes from its maker: it keeps a device id in the home folder."""
    onnxruntime = pytest.importorskip("onnxruntime")
    if tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 29):
        pytest.skip("this version of ONNX Runtime has no telemetry")
    egress, process = run(tmp_path / "watched", "-c", "import onnxruntime, time; time.sleep(2)")
    assert process.home() and egress.written_outside()


@pytest.mark.parametrize("engine", ["core", "onnx"])
def test_typing_sends_nothing_and_writes_only_the_files_it_was_given(model: Path, tmp_path: Path, engine: str) -> None:
    if engine == "onnx":
        pytest.importorskip("onnxruntime")
    own = tmp_path / "own"
    egress, process = run(tmp_path / "watched", "-c", TYPING, model, own / "words.txt", own / "memory", engine)
    assert not egress.sockets and not egress.processes and not process.home()
    assert egress.written_outside(own) == []
    names = {path.name for path in own.iterdir() if not path.name.endswith(".lock")} if own.exists() else set()
    assert names == ({"words.txt", "memory"} if engine == "core" else set())


@pytest.mark.parametrize(
    "command", [("suggest", "word3 word4"), ("complete", "word3 wo"), ("suggest", "--json", "word3"), ("inspect",)]
)
def test_a_command_sends_and_writes_nothing(model: Path, tmp_path: Path, command: tuple[str, ...]) -> None:
    place = (model,) if command == ("inspect",) else ("--model", model)
    egress, process = run(tmp_path / "watched", "-m", "rheostat", *command, *place)
    assert not egress.sockets and not egress.processes and not process.home()
    assert egress.written_outside() == []


def test_measuring_and_reporting_send_nothing_and_write_to_the_documented_caches(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    texts, out = tmp_path / "texts", tmp_path / "out"
    for folder in (texts, out):
        folder.mkdir()
    for split in ("train", "valid", "test"):
        (texts / f"{split}.txt").write_text("word3 word4 word5\nword4 word3\n" * 20)
    sweep = write_sweep(tmp_path / "sweep.json", [full(), ranked("random", 0.8, 80.0)])
    commands = {
        "rheostat": ("evaluate", model, "--data", texts),
        "": ("bench", model, "--queries", "20", "-o", out / "bench.json"),
        "matplotlib": ("report", sweep, "-o", out),
    }
    for cache, command in commands.items():
        egress, process = run(tmp_path / command[0], "-m", "rheostat", *command)
        assert not egress.sockets, command
        kept = {Path(name).parts[2] for name in process.home() if len(Path(name).parts) > 2}
        assert kept == ({cache} - {""}), command  # the folder in ~/.cache or ~/.config
        assert not [path for path in egress.written_outside(out, process.folder / "home") if path != tmp_path], command


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_typing_in_the_terminal_sends_and_writes_nothing(model: Path, tmp_path: Path) -> None:
    import pty

    process = watched(tmp_path / "watched", "-m", "rheostat", "suggest", "--model", model)
    ours, theirs = pty.openpty()
    environment = process.environment | {"TERM": "xterm"}
    child = subprocess.Popen(
        process.command, env=environment, cwd=process.folder / "work", stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    try:
        for wanted, keys in ((b"knob", b"word3 wo\t"), (b"word3 wo", b"\r\x04")):
            while wanted not in shown:
                shown += os.read(ours, 4096)
            os.write(ours, keys)
        while True:
            try:
                if not os.read(ours, 4096):
                    break
            except OSError:  # the other end is closed
                break
        assert child.wait(60) == 0
    finally:
        child.kill()
        os.close(ours)
    egress = process.egress()
    assert not egress.sockets and not egress.processes and not process.home()
    assert egress.written_outside() == []


def test_the_server_has_one_socket_and_writes_only_taught_words(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    words = tmp_path / "own" / "words.txt"
    process = watched(
        tmp_path / "watched", "-m", "rheostat", "keyboard", model, "--port", 0, "--user-words", words, alone=False
    )
    child = subprocess.Popen(
        process.command, env=process.environment, cwd=process.folder / "work", stderr=subprocess.PIPE, text=True
    )
    assert child.stderr is not None
    try:
        port = 0
        for line in child.stderr:
            if found := re.search(r"127\.0\.0\.1:(\d+)", line):
                port = int(found[1])
                break
        assert port
        for path in ("/", "/page.js", "/rheostat.wasm"):
            assert urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30).status == 200
        for path, asked in (
            ("/api/suggest", {"text": "word3 wo", "knob": 0.7}),
            ("/api/learn", {"word": "Rheostat"}),
        ):
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}{path}", json.dumps(asked).encode(), {"Content-Type": "application/json"}
            )
            assert urllib.request.urlopen(request, timeout=30).status == 200, path
        time.sleep(0.5)
    finally:
        _interrupt(child)
    egress = process.egress()
    strangers = [address for address in egress.sockets if "127.0.0.1" not in address and "bind" in address]
    assert not strangers and not [address for address in egress.sockets if re.search("connect|send", address)]
    assert [address for address in egress.sockets if "bind" in address]  # the listener was seen
    assert not egress.processes and not process.home()
    assert egress.written_outside(words.parent) == []


def _interrupt(child: subprocess.Popen[str]) -> None:
    """Stop the server as Ctrl-C does: strace passes no signal on, so its child is asked."""
    children = Path(f"/proc/{child.pid}/task/{child.pid}/children")
    inner = children.read_text().split() if can_trace() else []
    os.kill(int(inner[0]) if inner else child.pid, signal.SIGINT)
    child.communicate(timeout=60)
