"""Loaded by the Python of a watched process before anything else: notes every socket, write and process in a file.

`egress.watched` puts this folder first on PYTHONPATH. An audit hook cannot be removed, and sees what Python does; what
a compiled library does by itself is seen by strace.
"""

import os
import sys
from pathlib import Path

LOG = os.open(os.environ["EGRESS_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = ("os.mkdir", "os.rename", "os.link", "os.symlink", "os.truncate", "os.remove", "os.rmdir")
CALLS = (
    "socket.connect",
    "socket.bind",
    "socket.sendto",
    "socket.sendmsg",
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "socket.gethostbyaddr",
    "urllib.Request",
    "ftplib.connect",
    "smtplib.connect",
)
PROCESSES = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.startfile")
note = os.write  # kept: a module could replace it


def place(path):
    """Where a file is, however it was named; "" for a descriptor or a file without a name."""
    return str(Path.cwd() / os.fsdecode(path)) if isinstance(path, str | bytes | os.PathLike) else ""


def line(kind, *parts):
    text = "\t".join(str(part).replace("\n", " ").replace("\t", " ") for part in (kind, *parts))
    note(LOG, text.encode("utf-8", "replace") + b"\n")


def hook(event, arguments):
    if event == "open":
        path, mode, flags = arguments
        writes = bool(flags & WRITES) if flags else any(sign in (mode or "") for sign in "wax+")
        if writes and place(path):
            line("write", place(path))
    elif event in CHANGES:
        for path in arguments[: 2 if event in ("os.rename", "os.link", "os.symlink") else 1]:
            if place(path):
                line("write", place(path))
    elif event in CALLS:
        line("socket", event, *arguments[-1:])
    elif event in PROCESSES:
        line("process", event, arguments[0])


sys.addaudithook(hook)
