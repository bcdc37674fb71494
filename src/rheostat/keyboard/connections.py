"""Limits of the server's connections: how many there are, how long a client may take, and how much is logged.

A connection that sends nothing, or sends its request byte by byte, would otherwise be held forever; a thousand of them
use up the system's open files. uvicorn has a limit on idle connections between requests, but none on the requests.

Knows sockets, time and log records; `server` knows requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 1000
SPARE_FILES = 200  # open files that are not connections: the model, the page, what libraries open
REQUEST_S = 10.0  # from the first byte of a request, or from the connection, to the last byte of the request
ANSWER_S = 120.0  # until the client has taken the answer: the model, on a slow network
IDLE_S = 30  # between two requests
MOST_RECORDS = 20  # log records per minute
MINUTE_S = 60.0
_BODY = b'{"error":"the server has too many connections; try again later"}'
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 5\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(_BODY), _BODY)
)


def room_for_connections(wanted: int = MOST_CONNECTIONS) -> int:
    """How many connections fit into the system's limit on open files, which is raised if possible."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted + SPARE_FILES:
        most = wanted + SPARE_FILES if hard == resource.RLIM_INFINITY else min(hard, wanted + SPARE_FILES)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            soft = most
        return max(1, min(wanted, soft - SPARE_FILES))
    return wanted


class LimitedProtocol(H11Protocol):
    """A connection with deadlines. One that is too many gets a short answer and is closed."""

    most_connections = MOST_CONNECTIONS  # the server sets what fits
    request_s, answer_s = REQUEST_S, ANSWER_S
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self.most_connections:
            transport.write(_FULL)
            transport.close()
            return
        self._end_in(self.request_s)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._deadline is None:  # the first bytes of another request
            self._end_in(self.request_s)
        super().data_received(data)
        if self.conn.their_state in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED):  # the request is complete
            self._end_in(self.answer_s)

    def on_response_complete(self) -> None:
        self._end_in(None)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_in(None)
        super().connection_lost(exc)

    def _end_in(self, seconds: float | None) -> None:
        """Close the connection after some seconds, unless something happens first. None: no deadline."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self._end)

    def _end(self) -> None:
        self._deadline = None
        self.transport.abort()


class BoundedLog(logging.Filter):
    """Lets a few records per minute through. What was left out is counted in the next minute's first record."""

    def __init__(self, most: int = MOST_RECORDS) -> None:
        super().__init__()
        self._most = most
        self._begun = self._seen = 0.0
        self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now - self._begun > MINUTE_S:
            if self._left_out:
                record.msg = f"{record.getMessage()} ({self._left_out} messages like this were left out)"
                record.args = ()
            self._begun, self._seen, self._left_out = now, 0, 0
        self._seen += 1
        if self._seen <= self._most:
            return True
        self._left_out += 1
        return False


def bound_logs() -> None:
    """Bound what asyncio and uvicorn log: a client must not be able to fill the disk."""
    for name in ("asyncio", "uvicorn.error"):
        logger = logging.getLogger(name)
        if not any(isinstance(one, BoundedLog) for one in logger.filters):
            logger.addFilter(BoundedLog())
