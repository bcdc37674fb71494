"""`rheostat keyboard` and a plain file server as processes, and a small model of real words."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from models import make_ranking, make_weights, write_file
from rheostat.model.shape import ModelShape
from rheostat.text.vocabulary import END_OF_LINE, UNKNOWN, Vocabulary
from rheostat.words.writing import Suggestion

TEXT = """
    <num> , . ? ! i you he she we they the a an and or but not no yes is are am was were be been have has had do does
    did don't can't won't i'm it's you're how what when where who why this that these those to of in on at for with from
    about like want would could should will go going come see say said think know make take give good great fine well
    nice day night morning week monday paris time people way thing home work thanks hello
"""
WORDS = (UNKNOWN, END_OF_LINE, *TEXT.split())
CASING = {"monday": "Monday", "paris": "Paris"}
SHAPE = ModelShape(len(WORDS), 16, (48, 16), (2, 1))
PATIENCE_S = 60


def shown_words(suggestions: Iterable[Suggestion]) -> list[str]:
    """The words that the page shows: all but those that an app should leave out, and always what was typed."""
    return [one.word for one in suggestions if one.kind == "typed" or one.advice != "silent"]


def write_small(path: Path, criterion: str = "random", **more: Any) -> Path:
    """more: further fields of the file's contents."""
    ranking = replace(make_ranking(SHAPE, 3, "random-3"), criterion=criterion)
    write_file(
        path,
        shape=SHAPE,
        vocabulary=Vocabulary(WORDS),
        weights=make_weights(SHAPE),
        text={"tokenizer": "words"},
        casing=CASING,
        rankings=[ranking],
        default_ranking="random-3",
        **more,
    )
    return path


def write_clustered(path: Path) -> Path:
    """The same words in a model with an adaptive softmax."""
    shape = replace(SHAPE, softmax_splits=(30, 70))
    write_file(
        path,
        shape=shape,
        vocabulary=Vocabulary(WORDS),
        weights=make_weights(shape),
        text={"tokenizer": "words"},
        rankings=[make_ranking(shape, 3, "random-3")],
        default_ranking="random-3",
    )
    return path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


class ServerProcess:
    """A server in a separate process; it can be stopped and started again at the same address."""

    health = ""

    def __init__(self) -> None:
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}/"
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen([sys.executable, *self.command()], env=environment, stderr=subprocess.DEVNULL)
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and self._process.poll() is None:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.address}{self.health}", timeout=5):
                return
            time.sleep(0.05)
        raise TimeoutError("the server did not start")

    def stop(self) -> None:
        if self._process:
            self._process.terminate()
            self._process.wait(PATIENCE_S)
            self._process = None


Serve = Callable[[ServerProcess], ServerProcess]


class Server(ServerProcess):
    """`rheostat keyboard`."""

    health = "api/health"

    def __init__(self, model: Path) -> None:
        super().__init__()
        self.model = model

    def command(self) -> list[str]:
        return ["-m", "rheostat", "keyboard", str(self.model), "--port", str(self.port)]


class FileServer(ServerProcess):
    """Python's own server, which only sends files: what any web host does."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def command(self) -> list[str]:
        return ["-m", "http.server", str(self.port), "--bind", "127.0.0.1", "--directory", str(self.folder)]
