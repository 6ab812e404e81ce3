"""Containment: whatever the ranks start must be gone when the round ends. The strongest kind there is, is used.

- pidns: the namespace's first process is killed; the kernel kills the rest and tells when all are gone. The same
  happens, by the kernel, when the agent itself is killed.
- cgroup: `cgroup.kill`, then `populated 0`. When the agent is killed, the guardian does it.
- subreaper: descendants are killed until there is no child left. When the agent is killed, the guardian does it.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from trainmark.agent.linux import Proc


class Containment:
    """What the round asks of a rung."""

    name = ""
    guarded = True  # a guardian must stand by, since nothing ends when the agent is killed

    def open(self) -> None:
        """Makes it ready, in the top process; RungError when that fails."""
        raise NotImplementedError

    def enter(self) -> None:
        """Called in a rank's process before its program starts."""

    def reaped(self, pid: int) -> None:
        """A child that is no rank has ended."""

    def empty(self, childless: bool) -> bool:
        """Whether it is proven that nothing is left; `childless`: the caller has no child at all."""
        raise NotImplementedError

    def kill(self) -> None:
        """Sends SIGKILL to everything inside. May be called again and again."""
        raise NotImplementedError

    def count(self) -> int:
        """How many processes are inside, the ranks included while they live."""
        raise NotImplementedError

    def close(self) -> None:
        """Removes what `open` made."""


RUNGS = ("pidns", "cgroup", "subreaper")
_CLEAR_SECONDS = 10.0


class RungError(Exception):
    """This kind of containment cannot be used here; the text says why."""


def _make(name: str, token: str, proc: Proc) -> Containment:
    """The rung, tried; only its module is imported."""
    if name == "pidns":
        from trainmark.agent.contain.pidns import PidNamespace

        return PidNamespace(proc)
    if name == "cgroup":
        from trainmark.agent.contain.cgroup import Cgroup

        return Cgroup(token, proc)
    from trainmark.agent.contain.subreaper import Subreaper

    return Subreaper(token, proc)


def choose(asked: str, token: str, proc: Proc) -> tuple[Containment, list[str]]:
    """The strongest rung (or the one asked for), opened, and why no stronger one is used."""
    if asked != "auto":
        if asked not in RUNGS:
            raise RungError("containment %r is not known (auto, %s)" % (asked, ", ".join(RUNGS)))
        try:
            rung = _make(asked, token, proc)
            rung.open()
        except RungError as error:
            raise RungError("containment %s was asked for but cannot be used: %s" % (asked, error)) from error
        return rung, ["%s was asked for" % asked]
    why: list[str] = []
    for name in RUNGS:
        try:
            rung = _make(name, token, proc)
            rung.open()
            return rung, why
        except RungError as error:
            why.append("%s: %s" % (name, error))
    raise RungError("no containment can be used: " + "; ".join(why))


def reap_all() -> bool:
    """Reaps what has ended; whether there is no child left at all."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


def clear(
    containment: Containment,
    collect: Callable[[], bool],
    wait: Callable[[float], object],
    seconds: float = _CLEAR_SECONDS,
) -> int:
    """Kills everything inside and returns how many are left: 0 is proven, not guessed.

    `collect` reaps what has ended and says whether the caller is childless; `wait` sleeps until something happens.
    """
    deadline = time.monotonic() + seconds
    while True:
        if containment.empty(collect()):
            containment.close()
            return 0
        if time.monotonic() > deadline:
            return max(1, containment.count())
        containment.kill()
        wait(0.02)
