"""Limits of the server's connections: how many there are, how long a client may take, and how much is logged.

A connection that sends nothing, or sends its request byte by byte, would otherwise be held forever; a thousand of them
use up the system's open files. So would one that takes no answer, or that sends the next request ahead and not its end.
uvicorn has a limit on idle connections between requests only.

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
    """A connection with deadlines. One that is too many gets a short answer and is closed.

    A connection always has a deadline: for the request that is arriving, for the answer that is made or taken, or for
    having neither. A deadline ends with what it is for, and is never moved.
    """

    most_connections = MOST_CONNECTIONS  # the server sets what fits
    request_s, answer_s, idle_s = REQUEST_S, ANSWER_S, float(IDLE_S)

    def connection_made(self, transport: Any) -> None:
        self._deadlines: dict[str, asyncio.TimerHandle] = {}
        transport.set_write_buffer_limits(high=0)  # writing is paused until the client has taken everything
        super().connection_made(transport)
        if len(self.connections) > self.most_connections:
            transport.write(_FULL)
            transport.close()
        self._set_deadlines()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._set_deadlines()

    def on_response_complete(self) -> None:
        if not self.flow.write_paused:  # all of the answer is taken
            self._limit("answer", None)
        super().on_response_complete()  # begins the next request, if it is here already
        self._set_deadlines()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._set_deadlines()

    def connection_lost(self, exc: Exception | None) -> None:
        for deadline in self._deadlines.values():
            deadline.cancel()
        super().connection_lost(exc)

    def _set_deadlines(self) -> None:
        """Start the deadlines of what has begun, and end those of what is over."""
        arrives, answers = self._request_arrives(), self._answer_is_due()
        self._limit("request", self.request_s if arrives else None)
        self._limit("answer", self.answer_s if answers else None)
        self._limit("idle", None if arrives or answers else self.idle_s)

    def _request_arrives(self) -> bool:
        """Whether a request has begun and is not complete. A new connection counts as the beginning of one."""
        if self.conn.their_state is h11.IDLE:
            return self.cycle is None or bool(self.conn.trailing_data[0])
        return self.conn.their_state is h11.SEND_BODY

    def _answer_is_due(self) -> bool:
        """Whether the answer to a complete request is being made, or the client has yet to take some of an answer."""
        if self.flow.write_paused:
            return True
        return self.cycle is not None and not self.cycle.response_complete and not self._request_arrives()

    def _limit(self, what: str, seconds: float | None) -> None:
        """Drop the connection after some seconds, unless this deadline runs already. None: end the deadline.

        It is dropped with what the client has not taken; closing would wait for that.
        """
        if seconds is None:
            if what in self._deadlines:
                self._deadlines.pop(what).cancel()
        elif what not in self._deadlines:
            self._deadlines[what] = self.loop.call_later(seconds, self.transport.abort)


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
