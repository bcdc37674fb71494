"""The keyboard page and the API behind it, over HTTP.

    POST /api/suggest     {text, knob?, k?}                         suggestions for the text before the cursor
    POST /api/govern      {level, charging, time_s?, previous?}     the knob for a battery reading, and the reason
    GET  /api/model                                                 the model, its curve, the range of its knob
    GET  /api/export/{percent}/{name}                               a point as files that the browser runs itself
    GET  /api/health      (or POST, with any object)                "ok", quickly

Every request contains the text and the knob. The states of texts are cached for speed, up to a limit; answers never
depend on them. Nothing that is typed is logged or stored. Errors are returned as `{"error": …}`.

Slow work runs in threads. One more word of a text that was just read is answered directly, because a thread would take
longer than the answer.

Knows requests and threads; `positions`, `governing`, `exports` and `facts` produce the answers.
"""

from __future__ import annotations

import contextlib
import gc
import json
import mimetypes
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

from rheostat.arguments import checked
from rheostat.errors import MissingExtraError, RheostatError

try:
    import anyio
    import uvicorn
    from anyio.to_thread import run_sync
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles
    from starlette.types import Scope
except ImportError as error:
    raise MissingExtraError("keyboard", "the keyboard page") from error

from rheostat.bundled import DEFAULT_MODEL
from rheostat.governor.policy import DEFAULT, Policy, read_policy
from rheostat.keyboard.exports import NAMES, Exports
from rheostat.keyboard.facts import Energy, Json, curve_of, model_facts
from rheostat.keyboard.governing import govern
from rheostat.keyboard.positions import Position, Positions
from rheostat.keyboard.protection import Hosts, Protection
from rheostat.measure.meters.estimate import Estimate
from rheostat.runtime.precision import Precision
from rheostat.words.hidden_words import HiddenWords

STATIC = Path(__file__).parent / "static"
LOCAL = "127.0.0.1"
DEFAULT_PORT = 8017
LARGEST_BODY = 128 << 10  # bytes
LONGEST_TEXT = 20_000  # characters: more than the model reads of any text
LARGEST_K = 10
DIGITS = 4  # of milliseconds
ANSWERING = 2  # threads for texts that take longer than one more word
OPENING = 1  # threads that build positions and exports, so a dragged knob does not block other clients

# The system's table can be wrong, and browsers insist on these types.
for suffix, kind in {".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm"}.items():
    mimetypes.add_type(kind, suffix)

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class BadRequestError(Exception):
    """A request that cannot be answered: the HTTP status, and a message of one line."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Service:
    """The endpoints."""

    def __init__(
        self,
        positions: Positions,
        *,
        policy: Policy | None = None,
        energy: Energy | None = None,
        curve: list[Json] | None = None,
    ) -> None:
        self.positions, self.energy = positions, energy
        self.policy = policy or read_policy(DEFAULT)
        self.exports = Exports(positions, self._describe)
        self.curve = curve
        self._descriptions: dict[int, Json] = {}  # for at most a hundred positions
        self._answering, self._opening = anyio.CapacityLimiter(ANSWERING), anyio.CapacityLimiter(OPENING)

    async def health(self, request: Request) -> Response:
        if request.method == "POST":
            await _read_object(request)
        return JSONResponse({"status": "ok"})

    async def model(self, request: Request) -> Response:
        return JSONResponse(model_facts(self.positions, self.policy, self.energy, self.curve))

    async def suggest(self, request: Request) -> Response:
        asked = await _read_object(request)
        text, k = _text(asked), _suggestion_count(asked)
        percent = self.positions.percent_of(_knob(asked))
        position = self.positions.ready(percent)
        if position is None:
            position = await run_sync(self.positions.open, percent, limiter=self._opening)
        if position.is_quick(text):
            content = self._answer(position, text, k)
        else:
            content = await run_sync(self._answer, position, text, k, limiter=self._answering)
        position.remember(text)
        return Response(content, media_type="application/json")

    async def govern(self, request: Request) -> Response:
        asked = await _read_object(request)
        smallest = self.positions.smallest / 100
        return JSONResponse(govern(self.policy, smallest, time.monotonic(), asked))

    async def export(self, request: Request) -> Response:
        asked, name = request.path_params["percent"], request.path_params["name"]
        if name not in NAMES:
            raise BadRequestError(404, f"no such file; expected one of {', '.join(sorted(NAMES))}")
        percent = self.positions.percent_of(_percent(asked) / 100)
        exported = await run_sync(self.exports.read, percent, name, limiter=self._opening)
        if exported is None:
            raise BadRequestError(404, "this model has no such file")
        headers = {"etag": exported.etag, "cache-control": "no-cache"}
        if exported.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        kind = "application/json" if name.endswith(".json") else "application/octet-stream"
        return Response(exported.contents, headers=headers, media_type=kind)

    def _answer(self, position: Position, text: str, k: int) -> bytes:
        if position.is_stale:
            position.measure()
        start = time.perf_counter()
        suggestions = position.complete(text, k)
        answer_ms = 1000 * (time.perf_counter() - start)
        answer = {
            "suggestions": [vars(suggestion) for suggestion in suggestions],
            "query_ms": round(position.query_ms, DIGITS),
            "answer_ms": round(answer_ms, DIGITS),
            **self._described(position),
        }
        return _ENCODER.encode(answer).encode()

    def _described(self, position: Position) -> Json:
        if (described := self._descriptions.get(position.percent)) is None:
            described = self._descriptions[position.percent] = self._describe(position)
        return described

    def _describe(self, position: Position) -> Json:
        """The knob position, and the cost of a query there on any engine."""
        energy, predictor = self.energy, position.predictor
        return {
            "knob": position.percent / 100,
            "point": predictor.point.name,
            "flops": position.flops,
            "flops_fraction": predictor.flops_fraction,
            "energy_mj": energy.query_mj(position.flops, position.bytes_read) if energy else None,
        }


class Page(StaticFiles):
    """The files of the page. Browsers may cache them but must revalidate them each time."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["cache-control"] = "no-cache"
        return response


def make_app(service: Service, listens_on: str = LOCAL, allowed_hosts: Iterable[str] = ()) -> Starlette:
    """The application; `serve` runs it. listens_on: the address of the server."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        service.exports.close()

    return Starlette(
        routes=[
            Route("/api/suggest", service.suggest, methods=["POST"]),
            Route("/api/health", service.health, methods=["GET", "POST"]),
            Route("/api/govern", service.govern, methods=["POST"]),
            Route("/api/model", service.model),
            Route("/api/export/{percent}/{name}", service.export),
            Mount("/", Page(directory=STATIC, html=True)),
        ],
        middleware=[Middleware(Protection, hosts=Hosts(listens_on, allowed_hosts))],
        exception_handlers={
            BadRequestError: _say_what_is_wrong,
            RheostatError: _say_what_is_wrong,
            ClientDisconnect: _say_nothing,
        },
        lifespan=lifespan,
    )


def open_service(
    model: str | Path,
    *,
    policy: str | Path = DEFAULT,
    precision: Precision = "int8",
    threads: int = 1,
    hidden_words: HiddenWords = None,
    energy: Energy | None = None,
    results: Path | None = None,
) -> Service:
    """A service for a model file. results: a sweep of the model, for the curve."""
    positions = Positions(model, precision=precision, threads=threads, hidden_words=hidden_words)
    curve = curve_of(positions.file, results)
    return Service(positions, policy=read_policy(policy), energy=energy, curve=curve)


def serve(
    service: Service,
    host: str = LOCAL,
    port: int = DEFAULT_PORT,
    allowed_hosts: Iterable[str] = (),
    announce: Callable[[str], None] = print,
) -> None:
    """Serve until the process is stopped. announce: called with the address. port: 0 = any free one."""
    listener = _listen(host, port)
    app = make_app(service, host, allowed_hosts)
    config = uvicorn.Config(app, access_log=False, log_level="warning", server_header=False, timeout_keep_alive=30)
    shown = LOCAL if host in ("", "0.0.0.0") else f"[{host}]" if ":" in host else host
    gc.freeze()  # everything loaded so far stays, so the garbage collector can skip it
    announce(f"http://{shown}:{listener.getsockname()[1]}/")
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])


@checked
def serve_keyboard(
    model: str | Path = DEFAULT_MODEL,
    *,
    host: str = LOCAL,
    port: int = DEFAULT_PORT,
    allowed_hosts: Iterable[str] = (),
    policy: str | Path = DEFAULT,
    results: Path | None = None,
    precision: Precision = "int8",
    threads: int = 1,
    hidden_words: HiddenWords = None,
    announce: Callable[[str], None] = print,
) -> None:
    """Serve the keyboard page until the process is stopped. Energy is an estimate.

    port: 0 = any free one. allowed_hosts: further host names to answer to. results: a sweep of the model, for the
    curve. announce: called with the address.
    """
    estimate = Estimate()
    energy = Energy("estimate", estimate.covers, lambda flops, size: 1e3 * estimate.energy_j(flops, size))
    service = open_service(
        model,
        policy=policy,
        precision=precision,
        threads=threads,
        hidden_words=hidden_words,
        energy=energy,
        results=results,
    )
    serve(service, host, port, allowed_hosts, announce)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        raise RheostatError(
            f"cannot listen on {host} port {port} ({error}); expected a free port: choose another with --port"
        ) from None


# Reading requests


async def _read_object(request: Request) -> Json:
    # A form on another site can send plain text, but not this type without a preflight request.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise BadRequestError(415, "expected a body of type application/json")
    try:
        asked = json.loads(await _read_body(request))
    except (ValueError, RecursionError):
        raise BadRequestError(400, "the body is not JSON; expected an object") from None
    if not isinstance(asked, dict):
        raise BadRequestError(400, "the body is not a JSON object; expected an object")
    return asked


async def _read_body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_BODY:
            raise BadRequestError(413, f"the body is larger than {LARGEST_BODY:,} bytes; send less of the text")
    return bytes(body)


def _text(asked: Json) -> str:
    text = asked.get("text")
    if not isinstance(text, str):
        raise BadRequestError(422, f"there is no text; found {text!r:.40}, expected the text before the cursor")
    if len(text) > LONGEST_TEXT:
        raise BadRequestError(
            413, f"the text has {len(text):,} characters; expected at most {LONGEST_TEXT:,}: send only its end"
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadRequestError(422, "the text contains a lone surrogate; expected whole characters") from None
    return text


def _knob(asked: Json) -> float:
    knob = asked.get("knob", 1.0)
    if isinstance(knob, bool) or not isinstance(knob, int | float):
        raise BadRequestError(422, f"the knob is {knob!r:.40}; expected a number, a share of the FLOPs up to 1")
    return knob  # not converted: its range is checked first, since not every number fits into a float


def _percent(asked: str) -> int:
    if not (asked.isascii() and asked.isdecimal() and len(asked) <= 3):  # int() of very long digits is slow
        raise BadRequestError(404, "no such position; expected a whole percent of the FLOPs")
    return int(asked)


def _suggestion_count(asked: Json) -> int:
    k: Any = asked.get("k", 3)
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= LARGEST_K:
        raise BadRequestError(422, f"k is {k!r:.40}; expected a whole number from 1 to {LARGEST_K}")
    return k


async def _say_what_is_wrong(request: Request, error: Exception) -> Response:
    status = error.status if isinstance(error, BadRequestError) else 422
    return JSONResponse({"error": " ".join(str(error).split())}, status)


async def _say_nothing(request: Request, error: Exception) -> Response:
    return Response(status_code=499)
