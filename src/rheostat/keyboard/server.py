"""The keyboard page and the API behind it, over HTTP.

    POST /api/suggest     {text, knob?, k?, taps?, layout?}         suggestions for the text before the cursor
    POST /api/correct     the same                                  what its last word, now finished, was meant to be
    POST /api/govern      {level, charging, heat?, …, previous?}    the knob for a reading of the device, and why
    POST /api/times       {percents}                                the time of a query at several positions
    GET  /api/words                                                 the learned words
    POST /api/learn, /api/forget  {word}                            learn a word, forget it
    GET  /model.json                                                the model, its curve, the range of its knob
    GET  /model.safetensors                                         the model, for the browser to run it itself
    GET  /api/health      (or POST, with any object)                "ok", at once

Every request contains the text and the knob. The states of texts are cached for speed, up to a limit; answers never
depend on them. Nothing that is typed is logged or stored, except learned words. Errors are
returned as `{"error": …}`.

Slow work runs in threads. One more word of a text that was just read is answered directly, because a thread would take
longer than the answer.

Knows requests and threads; `positions`, `governing` and `facts` produce the answers; `site` knows the page's files.
"""

from __future__ import annotations

import contextlib
import gc
import json
import mimetypes
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from rheostat.arguments import checked
from rheostat.errors import MissingExtraError, RheostatError

try:
    import anyio
    import uvicorn
    from anyio.to_thread import run_sync
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
    from starlette.routing import Route
except ImportError as error:
    raise MissingExtraError("keyboard", "the keyboard page", error) from error

from rheostat.bundled import DEFAULT_MODEL
from rheostat.governor.policy import DEFAULT, Policy, read_policy
from rheostat.keyboard.browser_model import NAME, browser_model
from rheostat.keyboard.connections import IDLE_S, LimitedProtocol, bound_logs, room_for_connections
from rheostat.keyboard.facts import Energy, Json, curve_of, device_energy, model_facts, ngram_of
from rheostat.keyboard.governing import govern
from rheostat.keyboard.positions import Position, Positions, Touches
from rheostat.keyboard.protection import EVERYWHERE, Hosts, Protection
from rheostat.keyboard.site import page_files
from rheostat.model.file import open_model
from rheostat.model.precision import Precision
from rheostat.runtime.arguments import DEFAULT_LAYOUT
from rheostat.text.vocabulary import END_OF_LINE
from rheostat.words.hidden_words import HiddenWords
from rheostat.words.user_words import UserWords
from rheostat.words.writing import split_typed

T = TypeVar("T")

LOCAL = "127.0.0.1"
DEFAULT_PORT = 8017
ELSEWHERE = "192.0.2.1"  # an address that is reserved for documentation
LARGEST_BODY = 128 << 10  # bytes
LONGEST_TEXT = 20_000  # characters: more than the model reads of any text
LARGEST_K = 10
PIECE_BYTES = 64 << 10  # of the model: what a connection holds in memory while the client takes it
MOST_TIMES = 12  # positions that are timed together
DIGITS = 4  # of milliseconds
MOST_WAITING = 600  # requests that wait for a thread; beyond it they are refused at once
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
        ngram: Json | None = None,
    ) -> None:
        self.positions, self.energy = positions, energy
        self.policy = policy or read_policy(DEFAULT)
        self.browser = browser_model(positions.file, positions.precision)
        self.curve, self.ngram = curve, ngram
        self._descriptions: dict[int, Json] = {}  # for at most a hundred positions
        self._answering, self._opening = anyio.CapacityLimiter(ANSWERING), anyio.CapacityLimiter(OPENING)
        self._writing = anyio.CapacityLimiter(OPENING)
        self._waiting = 0

    async def _in_thread(self, limiter: anyio.CapacityLimiter, act: Callable[..., T], *arguments: Any) -> T:
        """The result of slow work, which waits for its turn; refused if too many requests wait already."""
        if self._waiting >= MOST_WAITING:
            raise BadRequestError(503, f"{self._waiting} requests are waiting already; try again later")
        self._waiting += 1
        try:
            return await run_sync(act, *arguments, limiter=limiter)
        finally:
            self._waiting -= 1

    async def health(self, request: Request) -> Response:
        if request.method == "POST":
            await _read_object(request)
        return JSONResponse({"status": "ok"})

    async def model(self, request: Request) -> Response:
        return JSONResponse(self.facts)

    @cached_property
    def facts(self) -> Json:
        positions = self.positions
        return model_facts(
            positions.file,
            positions.precision,
            self.policy,
            self.energy,
            self.curve,
            self.browser,
            positions.completion,
            ngram=self.ngram,
            server=True,
        )

    async def model_file(self, request: Request) -> Response:
        if self.browser is None:
            raise BadRequestError(404, "a browser cannot run this model; expected a qrnn in int8 or fp32")
        self.browser.check()
        headers = {"cache-control": "no-cache", "etag": f'"{self.browser.address}"'}
        if headers["etag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        headers["content-length"] = str(len(self.browser.contents))
        pieces = _as_taken(self.browser.pieces(PIECE_BYTES))
        return StreamingResponse(pieces, headers=headers, media_type="application/octet-stream")

    async def times(self, request: Request) -> Response:
        percents = _percents(await _read_object(request), self.positions)
        times = await self._in_thread(self._opening, self.positions.times_ms, percents)
        return JSONResponse({"times_ms": {str(percent): round(ms, DIGITS) for percent, ms in times.items()}})

    async def words(self, request: Request) -> Response:
        return JSONResponse({"words": [vars(word) for word in self.positions.user_words.words()]})

    async def learn(self, request: Request) -> Response:
        word: Any = (await _read_object(request)).get("word")
        await self._in_thread(self._writing, self.positions.user_words.learn, word)
        return await self.words(request)

    async def forget(self, request: Request) -> Response:
        word: Any = (await _read_object(request)).get("word")
        await self._in_thread(self._writing, self.positions.user_words.forget, word)
        return await self.words(request)

    async def suggest(self, request: Request) -> Response:
        return await self._answered(request, self._answer)

    async def correct(self, request: Request) -> Response:
        return await self._answered(request, self._corrections)

    async def _answered(self, request: Request, answer: Callable[[Position, str, int, Touches], bytes]) -> Response:
        """Read a request about a text and answer it, directly if that is quick."""
        asked = await _read_object(request)
        text, k, touches = _text(asked), _suggestion_count(asked), _touches(asked)
        percent = self.positions.percent_of(_knob(asked))
        position = self.positions.ready(percent)
        if position is None and self.positions.opens_quickly:
            position = self.positions.open(percent)
        elif position is None:
            position = await self._in_thread(self._opening, self.positions.open, percent)
        if position.is_quick(text):
            content = answer(position, text, k, touches)
        else:
            content = await self._in_thread(self._answering, answer, position, text, k, touches)
        position.remember(text)
        return Response(content, media_type="application/json")

    async def govern(self, request: Request) -> Response:
        asked = await _read_object(request)
        smallest = self.positions.smallest / 100
        return JSONResponse(govern(self.policy, smallest, time.monotonic(), asked))

    def _corrections(self, position: Position, text: str, k: int, touches: Touches) -> bytes:
        found = position.correct(text, k, touches)
        return _ENCODER.encode({"suggestions": [suggestion._asdict() for suggestion in found]}).encode()

    def _answer(self, position: Position, text: str, k: int, touches: Touches) -> bytes:
        if position.is_stale:
            position.measure()
        start = time.perf_counter()
        suggestions = position.complete(text, k, touches)
        answer_ms = 1000 * (time.perf_counter() - start)
        answer = {
            "suggestions": [suggestion._asdict() for suggestion in suggestions],
            "unknown_word": self._unknown_word(text),
            "query_ms": round(position.query_ms, DIGITS),
            "answer_ms": round(answer_ms, DIGITS),
            **self._described(position),
        }
        return _ENCODER.encode(answer).encode()

    def _unknown_word(self, text: str) -> str | None:
        """The finished word before the cursor, if the model does not know it and it has not been learned."""
        file, learned = self.positions.file, self.positions.user_words
        typed = split_typed(text, file.tokenizer)
        is_new = bool(typed.word) and not typed.prefix and typed.words[-1:] != [END_OF_LINE]
        if not is_new or typed.words[-1] in file.vocabulary.index or typed.word in learned:
            return None
        return typed.word

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
            "cost": predictor.cost,
            "flops_fraction": predictor.flops_fraction,
            "bytes_read": position.bytes_read,
            "warning": position.warning,
            "energy_mj": energy.query_mj(position.flops, position.bytes_read) if energy else None,
        }


async def _as_taken(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Each piece is made when the client has taken the one before it. Not in threads: a piece is only copied."""
    for piece in pieces:
        yield piece


def _page_file(path: Path) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint for a file of the page. Browsers may cache it but must revalidate it each time."""

    async def answer(request: Request) -> Response:
        found = FileResponse(path, headers={"cache-control": "no-cache"}, stat_result=path.stat())
        if request.headers.get("if-none-match") == found.headers["etag"]:
            return Response(status_code=304, headers={"etag": found.headers["etag"], "cache-control": "no-cache"})
        return found

    return answer


def make_app(service: Service, listens_on: str = LOCAL, allowed_hosts: Iterable[str] = ()) -> Starlette:
    """The application; `serve` runs it. listens_on: the address of the server."""
    files = page_files()
    return Starlette(
        routes=[
            Route("/api/suggest", service.suggest, methods=["POST"]),
            Route("/api/correct", service.correct, methods=["POST"]),
            Route("/api/health", service.health, methods=["GET", "POST"]),
            Route("/api/govern", service.govern, methods=["POST"]),
            Route("/api/times", service.times, methods=["POST"]),
            Route("/api/words", service.words),
            Route("/api/learn", service.learn, methods=["POST"]),
            Route("/api/forget", service.forget, methods=["POST"]),
            Route("/model.json", service.model),
            Route(f"/{NAME}", service.model_file),
            Route("/", _page_file(files["index.html"])),
            *(Route(f"/{name}", _page_file(path)) for name, path in files.items()),
        ],
        middleware=[Middleware(Protection, hosts=Hosts(listens_on, allowed_hosts))],
        exception_handlers={
            BadRequestError: _respond_with_error,
            RheostatError: _respond_with_error,
            ClientDisconnect: _respond_empty,
        },
    )


def open_service(
    model: str | Path,
    *,
    policy: str | Path = DEFAULT,
    precision: Precision = "int8",
    threads: int = 1,
    hidden_words: HiddenWords = None,
    user_words: UserWords | str | Path | None = None,
    energy: Energy | None = None,
    results: Path | None = None,
) -> Service:
    """A service for a model file. results: a sweep of the model, for the curve."""
    positions = Positions(model, precision=precision, threads=threads, hidden_words=hidden_words, user_words=user_words)
    curve, ngram = curve_of(positions.file, results), ngram_of(positions.file, results)
    return Service(positions, policy=read_policy(policy), energy=energy, curve=curve, ngram=ngram)


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
    LimitedProtocol.most_connections = room_for_connections()
    config = uvicorn.Config(
        app,
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_keep_alive=IDLE_S,
        http=LimitedProtocol,
        ws="none",
    )
    bound_logs()
    gc.freeze()  # everything loaded so far stays, so the garbage collector can skip it
    for shown in addresses(host):
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
    bench: str | Path | None = None,
    precision: Precision = "int8",
    threads: int = 1,
    hidden_words: HiddenWords = None,
    user_words: UserWords | str | Path | None = None,
    announce: Callable[[str], None] = print,
) -> None:
    """Serve the keyboard page until the process is stopped.

    port: 0 = any free one. allowed_hosts: further host names to answer to. results: a sweep of the model, for the
    curve. bench: what queries cost on this device, as `rheostat bench -o` wrote it; without one, or without a meter in
    it, energy is an estimate. user_words: where learned words are kept; without it, they last as long as the server.
    announce: called with each address.
    """
    with open_model(model) as file:
        energy = device_energy(bench, file, precision)
    service = open_service(
        model,
        policy=policy,
        precision=precision,
        threads=threads,
        hidden_words=hidden_words,
        user_words=user_words,
        energy=energy,
        results=results,
    )
    serve(service, host, port, allowed_hosts, announce)


def addresses(host: str) -> list[str]:
    """Where a server that listens on `host` can be opened: here, and if it listens everywhere, from other devices."""
    if host not in EVERYWHERE:
        return [f"[{host}]" if ":" in host else host]
    return [LOCAL, *([found] if (found := network_address()) and found != LOCAL else [])]


def network_address() -> str | None:
    """This machine's address in its network; None without a network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((ELSEWHERE, 9))  # sends nothing: it only asks which address would be used
        except OSError:
            return None
        address: str = probe.getsockname()[0]
        return address


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except (TypeError, UnicodeError) as error:  # not a name that any host can have
        raise RheostatError(
            f"cannot listen on {host!r:.80} ({error}); expected a name or an address of this machine: try {LOCAL}"
        ) from None
    except (OSError, OverflowError) as error:
        raise RheostatError(
            f"cannot listen on {host} port {port} ({error}); expected a free port: choose another"
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
        raise BadRequestError(422, f"the knob is {knob!r:.40}; expected a number, a share of the cost up to 1")
    return knob  # not converted: its range is checked first, since not every number fits into a float


def _touches(asked: Json) -> Touches:
    """Where the letters were typed; `complete` checks the taps, which depend on the text."""
    return Touches(asked.get("taps"), asked.get("layout", DEFAULT_LAYOUT))


def _percents(asked: Json, positions: Positions) -> list[int]:
    percents = asked.get("percents")
    if not isinstance(percents, list) or not 1 <= len(percents) <= MOST_TIMES:
        raise BadRequestError(422, f"percents is {percents!r:.40}; expected a list of 1 to {MOST_TIMES} percentages")
    if not all(type(percent) is int and 1 <= percent <= 100 for percent in percents):
        raise BadRequestError(422, f"percents is {percents!r:.40}; expected whole numbers from 1 to 100")
    return [positions.percent_of(percent / 100) for percent in percents]


def _suggestion_count(asked: Json) -> int:
    k: Any = asked.get("k", 3)
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= LARGEST_K:
        raise BadRequestError(422, f"k is {k!r:.40}; expected a whole number from 1 to {LARGEST_K}")
    return k


async def _respond_with_error(request: Request, error: Exception) -> Response:
    status = error.status if isinstance(error, BadRequestError) else 422
    return JSONResponse({"error": " ".join(str(error).split())}, status)


async def _respond_empty(request: Request, error: Exception) -> Response:
    return Response(status_code=499)
