"""Around every request: its size and time, how many there may be, who asks, and the headers of the answer."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from typing import Any

import anyio
import anyio.to_thread
from litestar.datastructures import MutableScopeHeaders
from litestar.enums import ScopeType
from litestar.exceptions import HTTPException
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, BeforeMessageSendHookHandler, Message, Receive, Scope, Send

from trainmark.web.api.errors import answer
from trainmark.web.server import Server
from trainmark.web.service import credentials, database
from trainmark.web.service.records import Principal

log = logging.getLogger("trainmark.web.requests")

COOKIE = "trainmark-session"
# The strict form of the name: a browser keeps it only from https, for this host alone.
SECURE_COOKIE = "__Host-trainmark-session"
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "cache-control": "no-store",
}
_REMEMBERED = 10_000


class TooSlow(HTTPException):
    """The rest of a request did not arrive in time. It is met where the body is read, inside the route."""

    status_code = 408


def with_headers(server: Server) -> BeforeMessageSendHookHandler:
    """What every answer says, also that to a request for which no route was found."""
    more = {"strict-transport-security": "max-age=31536000"} if server.settings.secure else {}

    async def add(message: Message, _scope: Scope) -> None:
        if message["type"] == "http.response.start":
            headers = MutableScopeHeaders(message)
            for name, value in {**_HEADERS, **more}.items():
                headers.setdefault(name, value)

    return add


class Requests(ASGIMiddleware):
    """A line of the log for each request, once it is answered: the route, not what was put into it."""

    scopes = (ScopeType.HTTP,)

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        began, status = time.monotonic(), 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await next_app(scope, receive, watched)
        finally:
            asker = scope.get("user")
            fields = {
                "method": scope.get("method", ""),
                "route": scope.get("path_template", ""),
                "status": status,
                "seconds": round(time.monotonic() - began, 4),
                "user": asker.name if isinstance(asker, Principal) else "",
                "address": address_of(scope),
            }
            # For people only what went wrong is worth a line.
            log.log(logging.WARNING if status >= 500 else logging.DEBUG, "request", extra={"fields": fields})


class Limits(ASGIMiddleware):
    """Requests of one address by a bucket that fills again, and a time in which each must have arrived."""

    scopes = (ScopeType.HTTP,)

    def __init__(self, server: Server) -> None:
        self._settings = server.settings
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        if not self._passes(address_of(scope)):
            await answer(429, "too many requests", {"retry-after": "1"}).to_asgi_response(None, _request(scope))(
                scope, receive, send
            )
            return
        deadline, done = time.monotonic() + self._settings.body_seconds, False

        async def in_time() -> Any:
            nonlocal done
            if done:
                return await receive()  # only tells that the client has gone
            left = deadline - time.monotonic()
            try:
                with anyio.fail_after(max(0.0, left)):
                    message = await receive()
            except TimeoutError:
                raise TooSlow("the request took too long to arrive", headers={"connection": "close"}) from None
            done = message["type"] != "http.request" or not message.get("more_body", False)
            return message

        await next_app(scope, in_time, send)

    def _passes(self, key: str) -> bool:
        now = time.monotonic()
        left, at = self._buckets.pop(key, (float(self._settings.burst), now))
        left = min(float(self._settings.burst), left + (now - at) * self._settings.per_second)
        passes = left >= 1.0
        self._buckets[key] = (left - 1.0 if passes else left), now
        if len(self._buckets) > _REMEMBERED:
            self._buckets.popitem(last=False)
        return passes


def _request(scope: Scope) -> Any:
    from litestar import Request

    return Request(scope)


class Authentication(ASGIMiddleware):
    """Finds out who asks, by a token or else by the cookie of a session. Says nothing of what they may."""

    scopes = (ScopeType.HTTP,)

    def __init__(self, server: Server) -> None:
        self._server = server

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        request = _request(scope)
        given = request.headers.get("authorization", "")
        cookie = request.cookies.get(SECURE_COOKIE if self._server.settings.secure else COOKIE, "")
        scope["user"] = None
        if given or cookie:
            scope["user"] = await anyio.to_thread.run_sync(self._principal, given, cookie)
        await next_app(scope, receive, send)

    def _principal(self, given: str, cookie: str) -> Principal | None:
        kind, _, token = given.partition(" ")
        secret = token.strip() if given else cookie
        if given and kind.lower() != "bearer":
            return None
        with database.reading(self._server.engine) as connection:
            # Who sends a token that is not valid is nobody, also with a cookie that is.
            find = credentials.of_token if given else credentials.of_session
            found, stale = find(connection, secret)
        if found is not None and stale:
            with database.writing(self._server.engine) as connection:
                credentials.touch(connection, secret)
        return found


def address_of(scope: Scope) -> str:
    """Of the client; behind a proxy that was named, uvicorn has put in what the proxy says."""
    client = scope.get("client")
    return str(client[0]) if client else ""
