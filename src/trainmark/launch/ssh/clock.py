"""How far hosts' clocks are from ours. For reading logs side by side only: no figure is made of it."""

from __future__ import annotations

import time

from trainmark.launch.ssh.connection import Connection, Reply
from trainmark.launch.ssh.connections import Connections

_EXCHANGES = 20
_SECONDS = 20.0


class ClockOffset:
    """One host: the exchange with the shortest way there and back tells it best."""

    def __init__(self, link: Connection) -> None:
        self._link = link
        self._left = _EXCHANGES
        self._sent = 0.0
        self._reply: Reply | None = None
        self.offset: float | None = None
        self.error = float("inf")

    def look(self) -> bool:
        """Sends and takes one exchange after the other; True when all are done."""
        if self._reply is not None and self._reply.done:
            if self._reply.ok:
                self._take((self._reply.value or {})["wall"] / 1e9)
            self._reply = None
            self._left -= 1
        if self._reply is None and self._left > 0:
            self._sent = time.time()
            self._reply = self._link.ask("ping")
        return self._left <= 0

    def _take(self, wall: float) -> None:
        now = time.time()
        error = (now - self._sent) / 2
        if error < self.error:
            self.offset, self.error = wall - (self._sent + now) / 2, error

    def record(self) -> dict[str, float | None]:
        """Seconds; None when the host did not answer."""
        return {"offset_s": self.offset, "error_s": self.error if self.offset is not None else None}


def measure(connections: Connections, links: list[Connection]) -> list[ClockOffset]:
    """All at once."""
    clocks = [ClockOffset(link) for link in links]
    connections.until(lambda: not [clock for clock in clocks if not clock.look()], _SECONDS)
    return clocks
