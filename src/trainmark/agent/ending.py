"""How a round ended: state, reason, and the first failing rank with its last lines of output."""

from __future__ import annotations

import os
import signal
from typing import Any, Callable, NamedTuple, Sequence

from trainmark.agent.events.reader import open_plain
from trainmark.agent.files import LAST_PART, part_of
from trainmark.agent.reasons import Reason, reason

LAST_LINES = 20
_LAST_BYTES = 16384
_MEMORY = (
    "memoryerror",
    "can't allocate memory",
    "cannot allocate memory",
    "memory allocation failed",
    "out of memory",
    "outofmemory",
    "bad_alloc",
)
_DISK = ("no space left on device", "disk quota exceeded")
# What a healthy rank prints when another one has ended.
_PEER = (
    "closed by peer",
    "reset by peer",
    "broken pipe",
    "connection refused",
    "socket closed",
    "remote process exited",
)


class Ending(NamedTuple):
    """State and reason; `kind` says what failed, None when nothing did."""

    state: str
    reason: Reason
    kind: str | None = None
    rank: int | None = None
    exit: int | None = None
    signal: int | None = None

    def first_failure(self, lines: list[str]) -> dict[str, Any] | None:
        if self.kind is None:
            return None
        return {
            "rank": self.rank,
            "kind": self.kind,
            "exit": self.exit,
            "signal": self.signal,
            "last_lines": lines,
        }


def signal_name(number: int) -> str:
    """'SIGKILL' for 9; 'signal 40' where there is no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "signal %d" % number


def disk_full(error: BaseException) -> Ending:
    path = getattr(error, "filename", None)
    return Ending("FAILED", reason("disk-full-at", path=path) if path else reason("disk-full"), "disk")


def agent_failed(error: BaseException) -> Ending:
    return Ending("FAILED", reason("agent-failed", error=type(error).__name__, text=str(error)), "agent")


class FailedRank(NamedTuple):
    """A rank that ended with an exit code, by a signal, or well but without any event."""

    rank: int
    exit: int | None
    signal: int | None
    mute: bool = False
    is_command: bool = False  # it starts the ranks and is none itself

    def why(self, named: bool = True) -> Reason:
        """How it ended; `named`: with the signal that killed it."""
        if self.mute:
            return self._about("silent")
        if self.signal is None:
            return self._about("exited", code=self.exit)
        if not named:
            return self._about("was-killed")
        return self._about("killed", signal=self.signal, name=signal_name(self.signal))

    def _about(self, how: str, **arguments: Any) -> Reason:
        if self.is_command:
            return reason("command-" + how, **arguments)
        return reason("rank-" + how, rank=self.rank, **arguments)


def blame(
    failures: Sequence[FailedRank], last_lines: Callable[[int], list[str]], own_kills: int, host_kills: int
) -> Ending:
    """The ending for ranks that failed, in the order they were seen: blames the first whose log does not only
    complain about a lost peer. `own_kills`, `host_kills`: so many processes did the kernel kill for memory during the
    round, of the ranks' own control group and of the host."""
    chosen = failures[0]
    for ended in failures if len(failures) > 1 else ():
        if not complains_of_peer(last_lines(ended.rank)):
            chosen = ended
            break
    return _explain(chosen, last_lines(chosen.rank), own_kills, host_kills)


def complains_of_peer(lines: list[str]) -> bool:
    """Whether a rank's last lines complain about a lost peer."""
    return _line_with(_PEER, lines) is not None


def _explain(ended: FailedRank, lines: list[str], own_kills: int, host_kills: int) -> Ending:
    kind = "signal" if ended.signal is not None else "exit"
    why = ended.why()
    memory, disk = _line_with(_MEMORY, lines), _line_with(_DISK, lines)
    killed = ended.signal == signal.SIGKILL or _line_with(("killed",), lines) is not None
    if ended.mute:
        pass
    elif own_kills > 0 and killed:
        how = ended.why(named=ended.signal != signal.SIGKILL)
        kind, why = "oom", reason("out-of-memory-kernel", ended=how, count=own_kills)
    elif memory is not None:
        kind, why = "oom", reason("out-of-memory-log", ended=why, line=memory)
    elif disk is not None:
        kind, why = "disk", reason("disk-full-log", ended=why, line=disk)
    elif host_kills > 0 and killed:
        # They may have been anybody's: somebody with `kill -9` looks the same.
        why = reason("killed-perhaps-for-memory", ended=why, count=host_kills)
    return Ending("FAILED", why, kind, ended.rank, ended.exit, ended.signal)


def _line_with(words: Sequence[str], lines: list[str]) -> str | None:
    for line in reversed(lines):
        small = line.lower()
        if any(word in small for word in words):
            return line.strip()[:200]
    return None


def last_lines(path: str) -> list[str]:
    """The last lines of a log as a terminal shows them: no colours, progress bars as they ended."""
    data, whole = _last_bytes(path)
    if whole:
        # A log that has just begun again goes on from what was kept of it.
        before, whole = _last_bytes(part_of(path, LAST_PART))
        data = before + data
    return tidy(data.decode("utf-8", "replace"), whole=whole)


def _last_bytes(path: str) -> tuple[bytes, bool]:
    """And whether that is all of the file."""
    try:
        descriptor = open_plain(path)
    except OSError:
        return b"", True
    try:
        size = os.fstat(descriptor).st_size
        return os.pread(descriptor, _LAST_BYTES, max(0, size - _LAST_BYTES)), size <= _LAST_BYTES
    finally:
        os.close(descriptor)


def tidy(text: str, whole: bool = True) -> list[str]:
    import re

    text = re.sub(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-_]", "", text)
    lines = [line.rstrip("\r").rpartition("\r")[2].rstrip() for line in text.split("\n")]
    if not whole:
        del lines[0]  # its beginning is missing
    return [line for line in lines if line][-LAST_LINES:]
