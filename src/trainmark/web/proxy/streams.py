"""A connected socket as a stream of the event loop."""

from __future__ import annotations

import asyncio
import select
import socket

_CHUNK = 1 << 16


class SocketStream:
    def __init__(self, raw: socket.socket) -> None:
        raw.setblocking(False)
        self._raw = raw

    async def read(self, most: int = _CHUNK) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self._raw, most)

    async def write(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._raw, data)

    async def aclose(self) -> None:
        self._raw.close()

    def readable(self) -> bool:
        """Something has arrived, or the other side has gone: then it is of no use for another request."""
        if self._raw.fileno() < 0:
            return True
        waiting = select.poll()
        waiting.register(self._raw, select.POLLIN)
        return bool(waiting.poll(0))
