"""Reading from a socket until a moment. The timeout of a socket begins anew with every byte."""

from __future__ import annotations

import io
import socket
import time
from typing import Any


class TimedReader(io.RawIOBase):
    """TimeoutError once the time is over, or when nothing came for `silent` seconds."""

    def __init__(self, connection: socket.socket, seconds: float, silent: float) -> None:
        self._connection, self._silent = connection, silent
        self.within(seconds)

    def within(self, seconds: float) -> None:
        """What comes next has so long, from now on."""
        self._end = time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(min(left, self._silent))
        return self._connection.recv_into(buffer)
