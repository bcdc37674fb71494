"""Which requests the server answers, and what a browser may do with the answers.

Every web page that a user opens can reach a local server. So a request is answered only if it names this server (which
defeats DNS rebinding) and comes from its own page, and answers forbid everything that the page does not need. Knows
headers; knows nothing about models or texts.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
EVERYWHERE = ("0.0.0.0", "::", "")

CONTENT_SECURITY_POLICY = "; ".join([
    "default-src 'none'",
    "script-src 'self' 'wasm-unsafe-eval'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "worker-src 'self'",
    "manifest-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
])  # fmt: skip

HEADERS: Mapping[str, str] = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    # Isolated, so browsers allow threads in WebAssembly.
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-embedder-policy": "require-corp",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_RAW_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


@dataclass(frozen=True)
class Refusal:
    status: int
    message: str


class Hosts:
    """The names that this server answers to."""

    def __init__(self, listens_on: str, others: Iterable[str] = ()) -> None:
        """listens_on: an address. others: further names, such as that of a proxy."""
        self._names = frozenset(name.strip("[]").lower() for name in (*LOCAL_NAMES, listens_on, *others) if name)
        self._everywhere = listens_on in EVERYWHERE

    def accepts(self, host: str) -> bool:
        """Whether a Host header names this server."""
        name = (urlsplit(f"//{host}").hostname or "") if _is_plain(host) else ""
        # An address is safe: nobody else can make it point here.
        return name in self._names or (self._everywhere and _is_address(name))


class Protection:
    """Refuses requests that do not come from this page, and adds the headers to every answer."""

    def __init__(self, app: ASGIApp, hosts: Hosts) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_RAW_HEADERS]
            await send(message)

        refusal = self._refusal(dict(scope["headers"]))
        if refusal is None:
            await self._app(scope, receive, send_with_headers)
        else:
            answer = JSONResponse({"error": refusal.message}, refusal.status)
            await answer(scope, receive, send_with_headers)

    def _refusal(self, headers: Mapping[bytes, bytes]) -> Refusal | None:
        """Why a request is refused, if it is. headers: by lower-case name; of several values, the last one."""
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._hosts.accepts(host):
            return Refusal(421, "this server does not have that name; to add a name, start it with --allow-host NAME")
        origin = headers.get(b"origin")
        if origin is not None and not _is_at(origin.decode("latin-1"), host):
            return Refusal(403, "the request comes from another site; open the page of this server instead")
        # Browsers send this even without an Origin; following a link to the page is fine.
        site, mode = headers.get(b"sec-fetch-site", b"none"), headers.get(b"sec-fetch-mode")
        if site not in (b"same-origin", b"none") and mode != b"navigate":
            return Refusal(403, "the request comes from another site; open the page of this server instead")
        return None


def _is_at(origin: str, host: str) -> bool:
    return origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")


def _is_plain(host: str) -> bool:
    try:
        return urlsplit(f"//{host}").netloc == host and not set("/@\\ ") & set(host)
    except ValueError:
        return False


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
