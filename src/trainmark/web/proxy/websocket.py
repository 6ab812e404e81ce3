"""WebSockets of a browser to what runs beside a job: Jupyter's kernels and terminals, and pages of a job's own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.to_thread
from litestar.types import Receive, Send
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.typing import Origin, Subprotocol

from trainmark.errors import UserError
from trainmark.web.proxy import headers
from trainmark.web.proxy.http import NotReached, Pools
from trainmark.web.service import endpoints
from trainmark.web.service.endpoints import Passed

# How often it is looked whether whoever it belongs to may still be there.
_LOOK_SECONDS = 15.0
_LARGEST = 64 << 20
_ENDED, _NOT_REACHED = 1008, 1011
# Made anew for the connection to the job.
_OWN = (b"host", b"origin", b"user-agent")


async def forward_websocket(
    pools: Pools,
    to: Passed,
    cookie: str,
    scope: Any,
    receive: Receive,
    send: Send,
    still: Callable[[], Awaitable[bool]],
) -> None:
    await receive()  # that it wants to connect
    try:
        job = await _connect(pools, to, cookie, scope)
    except (NotReached, UserError, InvalidHandshake, ConnectionClosed, OSError, TimeoutError):
        await send({"type": "websocket.close", "code": _NOT_REACHED, "reason": ""})
        return
    await send({"type": "websocket.accept", "subprotocol": job.subprotocol, "headers": []})
    code = _ENDED
    async with job, anyio.create_task_group() as tasks:

        async def from_browser() -> None:
            await _from_browser(receive, job)
            tasks.cancel_scope.cancel()

        async def from_job() -> None:
            nonlocal code
            code = await _from_job(job, send)
            tasks.cancel_scope.cancel()

        async def watch() -> None:
            while await still():
                await anyio.sleep(_LOOK_SECONDS)
            tasks.cancel_scope.cancel()

        for one in (from_browser, from_job, watch):
            tasks.start_soon(one)
    await _close(send, code)


async def _connect(pools: Pools, to: Passed, cookie: str, scope: Any) -> ClientConnection:
    more = await anyio.to_thread.run_sync(endpoints.credentials_for, pools.server, to)
    given = {name: value.decode("latin-1") for name, value in scope["headers"] if name in (b"host", b"origin")}
    sent = [one for one in headers.to_job(scope["headers"], cookie, more) if one[0] not in _OWN]
    target = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
    query = scope["query_string"].decode("latin-1")
    raw = await pools.dial(to)
    raw.setblocking(False)
    try:
        return await connect(
            f"ws://{given[b'host']}{target}{f'?{query}' if query else ''}",
            sock=raw,
            origin=Origin(given[b"origin"]),
            subprotocols=[Subprotocol(one) for one in scope.get("subprotocols") or ()] or None,
            additional_headers=[(name.decode("latin-1"), value.decode("latin-1")) for name, value in sent],
            user_agent_header=None,
            compression=None,
            max_size=_LARGEST,
            ping_interval=None,
            proxy=None,
        )
    except BaseException:
        raw.close()
        raise


async def _from_browser(receive: Receive, job: ClientConnection) -> None:
    while True:
        message: Any = await receive()
        if message["type"] == "websocket.disconnect":
            return
        text, data = message.get("text"), message.get("bytes")
        try:
            await job.send(text if text is not None else data or b"")
        except ConnectionClosed:
            return


async def _from_job(job: ClientConnection, send: Send) -> int:
    """Until the job's side closes it: by which code."""
    try:
        async for data in job:
            if isinstance(data, str):
                await send({"type": "websocket.send", "text": data, "bytes": None})
            else:
                await send({"type": "websocket.send", "bytes": data, "text": None})
    except ConnectionClosed:
        pass
    return job.close_code or 1000


async def _close(send: Send, code: int) -> None:
    """A code that may be sent; nothing where the browser has gone."""
    try:
        await send(
            {
                "type": "websocket.close",
                "code": code if code in range(3000, 5000) or code == 1000 else _ENDED,
                "reason": "",
            }
        )
    except (RuntimeError, OSError):
        pass
