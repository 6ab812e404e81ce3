"""The lines of a PerfLog file, block by block, parsed on all processors."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from trainmark.interop.flagperf import perflog
from trainmark.interop.reading import source

BLOCK = 1 << 20
# Smaller files are read before helpers would have started.
_WORTH_HELPERS = 4 * BLOCK
_MOST_HELPERS = 8
_PIPE = 1 << 20
_PIECE = 16 << 20
_MORE = 1 << 16
_LENGTH = struct.Struct("<Q")


def blocks(path: Path) -> Iterator[perflog.Block]:
    """All blocks of a file, in order. Memory does not grow with the file."""
    helpers = min(_MOST_HELPERS, len(os.sched_getaffinity(0)))
    # A process with threads must not fork.
    alone = threading.active_count() == 1
    if helpers > 1 and alone and os.path.getsize(path) > _WORTH_HELPERS and not source.is_packed(path):
        with path.open("rb") as plain:
            yield from _in_parallel(plain.fileno(), helpers)
    else:
        with source.opened(path) as stream:
            yield from _in_order(stream)


def _in_order(stream: IO[bytes]) -> Iterator[perflog.Block]:
    rest = b""
    while data := stream.read(BLOCK):
        end = data.rfind(b"\n") + 1
        if not end:
            # Of a line that is too long, only so much is kept that it is seen to be.
            rest = (rest + data)[: source.LONGEST_LINE + 1]
            continue
        yield perflog.parse(rest + data[:end])
        rest = data[end:]
    if rest:
        yield perflog.parse(rest)


def _in_parallel(file: int, helpers: int) -> Iterator[perflog.Block]:
    """Helper h parses blocks h, h + helpers, …; their results are taken in turn, so the order is the file's."""
    started: list[tuple[int, int]] = []
    try:
        count = -(-os.fstat(file).st_size // BLOCK)
        for number in range(helpers):
            started.append(_helper(file, range(number, count, helpers), [pipe for _, pipe in started]))
        for index in range(count):
            message = _receive(started[index % helpers][1])
            # A helper that was killed (memory) leaves its work to us.
            yield _UNPACK.decode(message) if message is not None else _Blocks(file).parse(index)
    finally:
        for pid, pipe in started:
            os.close(pipe)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


_UNPACK = msgspec.msgpack.Decoder(perflog.Block)


def _helper(file: int, mine: range, others: list[int]) -> tuple[int, int]:
    reading, writing = os.pipe()
    try:
        # So that a helper can be a few blocks ahead.
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE)
    except OSError:
        pass
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    try:
        # glibc gives memory back at once, page by page, until a larger piece than any we use was freed.
        bytes(_PIECE)
        for pipe in (reading, *others):
            os.close(pipe)
        blocks = _Blocks(file)
        with os.fdopen(writing, "wb", buffering=0) as out:
            for index in mine:
                data = msgspec.msgpack.encode(blocks.parse(index))
                for part in (_LENGTH.pack(len(data)), data):
                    view = memoryview(part)
                    while view:
                        view = view[out.write(view) :]
    finally:
        os._exit(0)


def _receive(pipe: int) -> bytes | None:
    head = _exactly(pipe, _LENGTH.size)
    return _exactly(pipe, _LENGTH.unpack(head)[0]) if head is not None else None


def _exactly(pipe: int, size: int) -> bytes | None:
    parts = []
    while size:
        part = os.read(pipe, size)
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class _Blocks:
    """The blocks of a file: the lines that begin in each, the last one up to its end (or until it is too long)."""

    def __init__(self, file: int) -> None:
        self._file = file
        # Always the same memory: fresh memory costs more than reading into it.
        self._buffer = bytearray(1 + BLOCK + source.LONGEST_LINE + _MORE)

    def parse(self, index: int) -> perflog.Block:
        low = index * BLOCK
        before = 1 if low else 0
        buffer = self._buffer
        filled = self._read(0, before + BLOCK, low - before)
        begin = buffer.find(b"\n", 0, filled) + 1 if before else 0
        if before and not begin:
            return perflog.Block()
        last = buffer.rfind(b"\n", begin, filled) + 1 or begin
        while 0 < filled - last <= source.LONGEST_LINE:
            more = self._read(filled, _MORE, low - before + filled)
            end = buffer.find(b"\n", filled, filled + more) + 1
            filled = end or filled + more
            if end or not more:
                break
        return perflog.parse(buffer, begin, filled)

    def _read(self, at: int, size: int, where: int) -> int:
        return os.preadv(self._file, [memoryview(self._buffer)[at : at + size]], where)
