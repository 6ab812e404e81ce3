"""Asking a run to stop: by signal (once: with grace, twice: at once) or by a file from another process."""

from __future__ import annotations

import signal
from pathlib import Path
from types import FrameType

from trainmark.store.files import read_json, write_json
from trainmark.store.rundir import STOP

_REASONS: dict[int, str] = {
    signal.SIGINT: "stopped by Ctrl-C",
    signal.SIGTERM: "stopped by SIGTERM",
    signal.SIGHUP: "stopped: the terminal is gone (`run --detach` would have gone on)",
}


class Signals:
    """Requests that come as signals. Where one command does several runs it has one of these for all of them: a
    signal that comes between two runs, or too late for one, is heard by the next."""

    def __init__(self) -> None:
        self.count = 0
        self.reason = ""

    def listen(self) -> None:
        """From now on these signals are requests instead of the end of this process."""
        for number in _REASONS:
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self.count += 1
        self.reason = _REASONS[number]


class StopSwitch:
    """Counts requests. 0: go on, 1: stop with grace, 2: stop at once."""

    def __init__(self, run_dir: Path, heard: Signals | None = None) -> None:
        self._file = run_dir / STOP
        self._heard = heard or Signals()
        self._told = ""

    @property
    def reason(self) -> str:
        return self._told or self._heard.reason

    def listen(self) -> None:
        self._heard.listen()

    def level(self) -> int:
        asked = read_json(self._file)
        if isinstance(asked, dict):
            self._told = str(asked.get("reason") or "stopped by `trainmark stop`")
            return max(min(self._heard.count, 2), 2 if asked.get("now") else 1)
        return min(self._heard.count, 2)

    def clear(self) -> None:
        """A run that is resumed is no longer asked to stop."""
        self._file.unlink(missing_ok=True)


def request(run_dir: Path, reason: str, *, now: bool) -> None:
    write_json(run_dir / STOP, {"reason": reason, "now": now})
