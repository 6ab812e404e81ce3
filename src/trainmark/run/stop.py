"""Asking runs to stop: by a switch that their caller holds, by signals, or by a file from another process."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Protocol

from trainmark.reasons import Reason, as_reason, reason
from trainmark.store.files import read_json, write_json
from trainmark.store.rundir import STOP

_BY_COMMAND = reason("stopped-by-command")
_BY_CALLER = reason("stopped-by-caller")
_BY_SIGNAL = {
    signal.SIGINT: reason("stopped-by-ctrl-c"),
    signal.SIGTERM: reason("stopped-by-sigterm"),
    signal.SIGHUP: reason("stopped-terminal-gone"),
}


class StopSwitch:
    """Held by the caller of one or several runs; may be used from any thread. Asked once: stop with grace; twice, or
    with `now`: at once. A request that comes between two runs, or too late for one, holds for the next."""

    def __init__(self) -> None:
        self.reason: Reason | None = None
        self._level = 0

    def request(self, why: Reason = _BY_CALLER, *, now: bool = False) -> None:
        self.reason = why
        self._level = 2 if now else min(2, self._level + 1)

    def level(self) -> int:
        """0: go on, 1: stop with grace, 2: stop at once."""
        return self._level


class Switch(Protocol):
    """Either of the two switches here."""

    @property
    def reason(self) -> Reason | None: ...

    def level(self) -> int: ...


class RunSwitch:
    """Whether a run, or a campaign, shall stop: by its caller's switch, or by the file that `request` writes."""

    def __init__(self, run_dir: Path, caller: Switch) -> None:
        self._file = run_dir / STOP
        self._caller = caller
        self._asked: Reason | None = None
        self._ended = False

    @property
    def reason(self) -> Reason | None:
        return self._asked or self._caller.reason

    def end(self, why: Reason) -> None:
        """For whoever works on it: it ends here, as if it had been asked to."""
        self._asked, self._ended = why, True

    def level(self) -> int:
        if self._ended:
            return max(1, self._caller.level())
        found = read_json(self._file)
        if not isinstance(found, dict):
            return self._caller.level()
        self._asked = as_reason(found.get("reason")) or _BY_COMMAND
        return max(self._caller.level(), 2 if found.get("now") else 1)


def request(run_dir: Path, *, now: bool) -> None:
    """Asks whichever process drives the run to stop it."""
    write_json(run_dir / STOP, {"reason": _BY_COMMAND, "now": now})


Mark = tuple[int, int] | None


def standing(run_dir: Path) -> Mark:
    """Which request to stop stands now; None when none does."""
    try:
        found = (run_dir / STOP).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino


def clear(run_dir: Path, before: Mark) -> None:
    """A run that is resumed is no longer asked to stop, unless somebody asked since `before`, the request that stood
    before its controller took it over."""
    if before is not None and standing(run_dir) == before:
        (run_dir / STOP).unlink(missing_ok=True)


@contextmanager
def on_signals(switch: StopSwitch) -> Iterator[None]:
    """Inside, Ctrl-C, SIGTERM and a lost terminal are requests to stop; afterwards they are what they were before.

    Only in the main thread: a program that drives runs in other threads decides about its signals itself.
    """

    def ask(number: int, _frame: FrameType | None) -> None:
        switch.request(_BY_SIGNAL[signal.Signals(number)])

    before = {number: signal.signal(number, ask) for number in _BY_SIGNAL}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
