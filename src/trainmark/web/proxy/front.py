"""Before the application: requests for the host name of an endpoint go to what runs beside a job.

A job's page is foreign code. It is at another origin than the server's pages, it gets no cookie of theirs, and it is
reached only with a cookie of its own host, which a ticket of the server was exchanged for, once. Requests that another
page caused are refused, apart from following a link.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

import anyio
import anyio.to_thread
from litestar.types import ASGIApp, Receive, Send

from trainmark.web.proxy.http import Pools, answer, forward_http
from trainmark.web.proxy.websocket import forward_websocket
from trainmark.web.server import Server
from trainmark.web.service import endpoints
from trainmark.web.service.endpoints import Passed

COOKIE, SECURE_COOKIE = "trainmark-endpoint", "__Host-trainmark-endpoint"
# Who passed is believed for so long: a page asks for a hundred files at once.
_BELIEVED_SECONDS = 5.0
_REMEMBERED = 1000
_NOT_HERE = "Open this from the page of its job: the way in works once, and ends with the job or your sign-in.\n"


class Front:
    def __init__(self, server: Server, app: ASGIApp) -> None:
        self._server, self._app = server, app
        self._pools = Pools(server)
        self._believed: OrderedDict[tuple[str, str], tuple[float, Passed]] = OrderedDict()

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        label = label_of(header(scope, b"host"), self._server.rules.endpoints.domain)
        if scope["type"] not in ("http", "websocket") or label is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send, label)
        else:
            await self._websocket(scope, receive, send, label)

    async def _http(self, scope: Any, receive: Receive, send: Send, label: str) -> None:
        if scope["path"] == endpoints.ENTER:
            await self._enter(scope, send, label)
            return
        found = await self._passed(scope, label)
        if found is None:
            await answer(send, 401, _NOT_HERE)
        elif not came_from_here(scope, self.origin(scope)):
            await answer(send, 403, "This request was caused by another page.\n")
        else:
            await forward_http(self._pools, found, self._cookie, scope, receive, send)

    async def _enter(self, scope: Any, send: Send, label: str) -> None:
        """The ticket goes out of the address at once: what follows has none."""
        given = parse_qs(scope["query_string"].decode("latin-1")).get("ticket", [""])[0]
        used = None
        if scope["method"] == "GET" and given:
            used = await anyio.to_thread.run_sync(endpoints.use_ticket, self._server, label, given)
        if used is None:
            await answer(send, 401, _NOT_HERE)
            return
        value, page = used
        cookie = f"{self._cookie}={value}; Path=/; HttpOnly; SameSite=Lax"
        cookie += "; Secure" if self._server.settings.secure else ""
        await answer(send, 303, "", {"location": page, "set-cookie": cookie})

    async def _websocket(self, scope: Any, receive: Receive, send: Send, label: str) -> None:
        found = await self._passed(scope, label)
        # A browser always says where a connection comes from, and no page can change that.
        if found is None or header(scope, b"origin") != self.origin(scope):
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": ""})
            return

        async def still() -> bool:
            return await self._passed(scope, label) is not None

        await forward_websocket(self._pools, found, self._cookie, scope, receive, send, still)

    async def _passed(self, scope: Any, label: str) -> Passed | None:
        cookie = cookie_of(header(scope, b"cookie"), self._cookie)
        if not cookie or not label:
            return None
        key, now = (label, cookie), time.monotonic()
        at, known = self._believed.get(key, (0.0, None))
        if known is not None and now - at < _BELIEVED_SECONDS:
            return known
        found = await anyio.to_thread.run_sync(endpoints.passed, self._server, label, cookie)
        self._believed.pop(key, None)
        if found is not None:
            self._believed[key] = now, found
            if len(self._believed) > _REMEMBERED:
                self._believed.popitem(last=False)
        return found

    @property
    def _cookie(self) -> str:
        return SECURE_COOKIE if self._server.settings.secure else COOKIE

    def origin(self, scope: Any) -> str:
        return f"{'https' if self._server.settings.secure else 'http'}://{header(scope, b'host').lower()}"


def label_of(host: str, domain: str) -> str | None:
    """The name before the domain of endpoints; None for a host that is the server's own. What has the domain and no
    name of ours is nobody's: empty."""
    bare = host.lower().rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host.lower()
    bare = bare.rstrip(".")
    if bare == domain:
        return ""
    if not bare.endswith("." + domain):
        return None
    label = bare[: -len(domain) - 1]
    return label if label.isalnum() else ""


def came_from_here(scope: Any, origin: str) -> bool:
    """Whether the endpoint's own page caused the request, or somebody followed a link or typed its address."""
    given, method = header(scope, b"origin"), scope["method"]
    if given and given != origin:
        return False
    site = header(scope, b"sec-fetch-site")
    if site in ("", "same-origin", "none"):
        return method in ("GET", "HEAD", "OPTIONS") or bool(given) or site == "same-origin"
    return (
        method == "GET"
        and header(scope, b"sec-fetch-mode") == "navigate"
        and header(scope, b"sec-fetch-dest") == ("document")
    )


def header(scope: Any, name: bytes) -> str:
    """The value, if there is exactly one."""
    found = [value for key, value in scope.get("headers", ()) if key == name]
    return found[0].decode("latin-1") if len(found) == 1 else ""


def cookie_of(text: str, name: str) -> str:
    try:
        found = SimpleCookie(text).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""
