"""Requests of a browser to what runs beside a job, and its answers, as streams."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import httpcore
from litestar.types import Receive, Send

from trainmark.errors import UserError
from trainmark.web.proxy import headers
from trainmark.web.proxy.streams import SocketStream
from trainmark.web.server import Server
from trainmark.web.service import endpoints
from trainmark.web.service.endpoints import Passed

# To one endpoint at a time, and how long one that nobody uses is kept.
_CONNECTIONS, _KEPT, _KEPT_SECONDS = 64, 8, 10.0
_MOST_POOLS = 64
# Connections that are made at a time, in threads of their own: to a program that starts it takes a minute, in which the
# rest of the server goes on.
_DIALS = 32
_TIMEOUTS = {"connect": 120.0, "pool": 120.0, "read": None, "write": 60.0}

_ANSWER = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
    "content-type": "text/plain; charset=utf-8",
}


class NotReached(Exception):
    """No connection could be had; the text is for whoever waits for the page."""


class _Dial(httpcore.AsyncNetworkBackend):
    """Connections through the gate of a job, instead of to an address."""

    def __init__(self, dial: Callable[[], Awaitable[socket.socket]]) -> None:
        self._dial = dial

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        del host, port, timeout, local_address, socket_options
        return _Stream(SocketStream(await self._dial()))

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class _Stream(httpcore.AsyncNetworkStream):
    def __init__(self, inner: SocketStream) -> None:
        self._inner = inner

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        del timeout  # whoever follows something may wait for long
        return await self._inner.read(max_bytes)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        del timeout
        if buffer:
            await self._inner.write(buffer)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        raise NotImplementedError("the gate of a job is not reached by TLS")

    def get_extra_info(self, info: str) -> Any:
        return self._inner.readable() if info == "is_readable" else None


class Pools:
    """Connections that are used again, by endpoint."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._pools: dict[str, httpcore.AsyncConnectionPool] = {}
        self._dials = anyio.CapacityLimiter(_DIALS)

    async def dial(self, to: Passed) -> socket.socket:
        try:
            return await anyio.to_thread.run_sync(endpoints.connect, self.server, to, limiter=self._dials)
        except UserError as error:
            raise NotReached(str(error)) from None

    def of(self, to: Passed) -> httpcore.AsyncConnectionPool:
        found = self._pools.pop(to.label, None)
        if found is None:
            found = httpcore.AsyncConnectionPool(
                max_connections=_CONNECTIONS,
                max_keepalive_connections=_KEPT,
                keepalive_expiry=_KEPT_SECONDS,
                network_backend=_Dial(partial(self.dial, to)),
            )
        self._pools[to.label] = found
        while len(self._pools) > _MOST_POOLS:
            self._pools.pop(next(iter(self._pools)))  # what is under way in it ends by itself
        return found


async def forward_http(pools: Pools, to: Passed, cookie: str, scope: Any, receive: Receive, send: Send) -> None:
    said = _Body(scope, receive)
    begun = False
    try:
        more = await anyio.to_thread.run_sync(endpoints.credentials_for, pools.server, to)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(said.until_gone, tasks.cancel_scope)
            async with pools.of(to).stream(
                scope["method"],
                httpcore.URL(scheme=b"http", host=b"job", port=None, target=_target(scope)),
                headers=_sent(scope, cookie, more),
                content=said.pieces() if said.expected else None,
                extensions={"timeout": _TIMEOUTS},
            ) as response:
                told = headers.to_browser(response.headers, cookie)
                begun = True
                await send({"type": "http.response.start", "status": response.status, "headers": told})
                async for piece in response.aiter_stream():
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            tasks.cancel_scope.cancel()
    except* (NotReached, UserError) as group:
        if not begun:
            await answer(send, 502, f"{group.exceptions[0]}\n")
    except* (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError):
        if not begun:
            await answer(send, 502, f"{to.name}: the program in the job ended the connection\n")


class _Body:
    """What the browser sends; and, when that is all, whether it is still there."""

    def __init__(self, scope: Any, receive: Receive) -> None:
        names = {name for name, _ in scope["headers"]}
        self.expected = bool({b"content-length", b"transfer-encoding"} & names)
        self._receive = receive
        self._whole = anyio.Event()
        if not self.expected:
            self._whole.set()

    async def pieces(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            message: Any = await self._receive()
            if message["type"] == "http.disconnect":
                raise NotReached("the browser has gone")
            more = message.get("more_body", False)
            yield message.get("body", b"")
        self._whole.set()

    async def until_gone(self, ends: anyio.CancelScope) -> None:
        await self._whole.wait()
        while True:
            message: Any = await self._receive()
            if message["type"] == "http.disconnect":
                ends.cancel()
                return


def _target(scope: Any) -> bytes:
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    return path + (b"?" + query if query else b"")


def _sent(scope: Any, cookie: str, more: dict[str, str]) -> headers.Headers:
    found = headers.to_job(scope["headers"], cookie, more)
    names = {name for name, _ in scope["headers"]}
    # What came in pieces of unknown number goes on so.
    chunked = b"transfer-encoding" in names and b"content-length" not in names
    return found + ([(b"transfer-encoding", b"chunked")] if chunked else [])


async def answer(send: Send, status: int, text: str, more: dict[str, str] | None = None) -> None:
    """One of our own, which is not the job's."""
    headers = [(name.encode(), value.encode("latin-1")) for name, value in {**_ANSWER, **(more or {})}.items()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode(), "more_body": False})
