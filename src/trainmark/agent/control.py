"""control.json: commands of the controller that owns the run, told from those of one that has lost it."""

from __future__ import annotations

import os

from trainmark.agent.record import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trainmark.agent.record import Log

_STALE_SECONDS = 5.0


class Command:
    """Something to obey: `stop` or `kill`."""

    __slots__ = ("name", "reason")

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason


class Control:
    """Reads the file when it changes and keeps the highest epoch seen."""

    def __init__(self, path: str, epoch: int, log: Log) -> None:
        self._path = path
        self._log = log
        self._seen: tuple[int, int, int] | None = None
        self._stale_at: float | None = None
        self.epoch = epoch

    def look(self, now: float) -> Command | None:
        """A new command to obey, or None."""
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        mark = (found.st_mtime_ns, found.st_ino, found.st_size)
        if mark == self._seen:
            return None
        record = read_json(self._path)
        if not isinstance(record, dict) or not isinstance(record.get("epoch"), int):
            return None  # being written; it is looked at again
        self._seen = mark
        return self._judge(record["epoch"], str(record.get("command")), str(record.get("reason") or ""), now)

    def _judge(self, epoch: int, name: str, reason: str, now: float) -> Command | None:
        if epoch < self.epoch:
            self._stale_at = now
            self._log.line("ignored %r of epoch %d: epoch %d owns the run" % (name, epoch, self.epoch))
            return None
        self._stale_at = None
        self.epoch = epoch
        self._log.line("control: %s, epoch %d %s" % (name, epoch, reason))
        return Command(name, reason) if name in ("stop", "kill") else None

    def stale(self, now: float) -> bool:
        """Whether a command of a lost epoch came just now: the signal that goes with it is not obeyed either."""
        return self._stale_at is not None and now - self._stale_at < _STALE_SECONDS
