"""Clients of `web.py`: people who follow logs, and requests at a steady rate. Plain sockets, which cost little."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing


class Address:
    def __init__(self, port: int, token: str = "") -> None:
        self._port = port
        self._head = f"Host: 127.0.0.1:{port}\r\n" + (f"Authorization: Bearer {token}\r\n" if token else "")

    async def open(
        self, path: str, method: str = "GET", body: bytes = b""
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection on which the request has been sent."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 22)
        typed = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        writer.write(f"{method} {path} HTTP/1.1\r\n{self._head}{typed}Connection: close\r\n\r\n".encode() + body)
        await writer.drain()
        return reader, writer

    async def ask(self, path: str, method: str = "GET", body: bytes = b"") -> bytes:
        """The body of the answer; an error unless it is one of success."""
        reader, writer = await self.open(path, method, body)
        with closing(writer):
            said = await reader.read()
        head, _, content = said.partition(b"\r\n\r\n")
        if head.split(b" ", 2)[1][:1] != b"2":
            raise SystemExit(f"{method} {path}: {said[:2000].decode(errors='replace')}")
        return content


async def follow(address: Address, job: str, until: float, delays: list[float]) -> None:
    """Follows a job that writes the time, a line at a time; how late each line came that was written since."""
    reader, writer = await address.open(f"/api/v1/jobs/{job}/logs/stream")
    begin = time.time()
    with closing(writer):
        while (left := until - time.time()) > 0:
            try:
                line = await asyncio.wait_for(reader.readline(), left)
            except TimeoutError:
                return
            if not line:
                raise SystemExit("a follower was cut off")
            if line.startswith(b'data: {"rank'):
                now = time.time()
                written = [float(text) for text in json.loads(line[6:])["text"].split()]
                delays += [now - at for at in written if at > begin]


async def steadily(asks: Sequence[Callable[[], Awaitable[bytes]]], per_second: float, until: float) -> list[float]:
    """Requests in turn at a fixed rate, whether or not those before have been answered; how long each took."""
    took: list[float] = []

    async def one(ask: Callable[[], Awaitable[bytes]]) -> None:
        began = time.perf_counter()
        await ask()
        took.append(time.perf_counter() - began)

    going, number, begin = [], 0, time.time()
    while time.time() < until:
        going.append(asyncio.create_task(one(asks[number % len(asks)])))
        number += 1
        await asyncio.sleep(max(0.0, begin + number / per_second - time.time()))
    await asyncio.gather(*going)
    return took
