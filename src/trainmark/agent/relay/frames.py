"""The protocol of relays: frames of one line of JSON, followed by as many bytes as its `size` says."""

from __future__ import annotations

import json
from typing import Any, Dict, Tuple

from trainmark.agent.files import to_json

Frame = Tuple[Dict[str, Any], bytes]

# The relay writes this first: what a login shell printed before it is skipped.
GREETING = b"trainmark-relay 1 "
_LONGEST = 64 * 1024 * 1024


class FrameError(Exception):
    """What arrived is not a frame."""


def encode(header: dict[str, Any], payload: bytes = b"") -> bytes:
    if payload:
        header = dict(header, size=len(payload))
    return to_json(header).encode() + b"\n" + payload


class Decoder:
    """Puts frames together from whatever pieces arrive."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._header: dict[str, Any] | None = None

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are whole by now."""
        self._data += data
        found: list[Frame] = []
        while True:
            frame = self._next()
            if frame is None:
                return found
            found.append(frame)

    def _next(self) -> Frame | None:
        if self._header is None:
            end = self._data.find(b"\n")
            if end < 0:
                if len(self._data) > _LONGEST:
                    raise FrameError("a line of more than %d bytes" % _LONGEST)
                return None
            self._header = _header(bytes(self._data[:end]))
            del self._data[: end + 1]
        size = self._header.get("size", 0)
        if len(self._data) < size:
            return None
        frame = self._header, bytes(self._data[:size])
        del self._data[:size]
        self._header = None
        return frame


def _header(line: bytes) -> dict[str, Any]:
    try:
        header = json.loads(line)
    except ValueError:
        header = None
    if not isinstance(header, dict) or not isinstance(header.get("size", 0), int) or header.get("size", 0) < 0:
        raise FrameError("not a frame: %r" % line[:80])
    return header
