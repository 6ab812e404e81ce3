"""Containment: whatever the ranks start must be gone when the round ends. The strongest kind that works is used.

- pidns: the first process of a pid namespace is killed, and the kernel kills the rest. The kernel also does so when the
  agent itself is killed.
- cgroup: `cgroup.kill`, then `populated 0`. When the agent is killed, the guardian does it.
- subreaper: descendants are killed until there is no child left. When the agent is killed, the guardian does it.
"""

from __future__ import annotations

import os
import time
from typing import Callable

from trainmark.agent.linux import Proc
from trainmark.agent.reasons import Reason, ReasonedError, reason


class Containment:
    """One kind of containment."""

    name = ""
    guarded = True  # needs a guardian: nothing ends by itself when the agent is killed

    def open(self) -> None:
        """Sets it up, in the top process; ContainmentError when that fails."""
        raise NotImplementedError

    def enter(self) -> None:
        """Called in a rank's process before its program starts."""

    def reaped(self, pid: int) -> None:
        """A child that is not a rank has ended."""

    def empty(self, childless: bool) -> bool:
        """Whether nothing is left for certain; `childless`: the caller has no child."""
        raise NotImplementedError

    def kill(self) -> None:
        """Sends SIGKILL to everything inside. May be called again and again."""
        raise NotImplementedError

    def count(self) -> int:
        """How many processes are inside, the ranks included while they live."""
        raise NotImplementedError

    def close(self) -> None:
        """Removes what `open` made."""


KINDS = ("pidns", "cgroup", "subreaper")
_CLEAR_SECONDS = 10.0


class ContainmentError(ReasonedError):
    """This kind of containment cannot be used here."""


def _make(name: str, token: str, proc: Proc) -> Containment:
    """One kind of containment; only its module is imported."""
    if name == "pidns":
        from trainmark.agent.contain.pidns import PidNamespace

        return PidNamespace(proc)
    if name == "cgroup":
        from trainmark.agent.contain.cgroup import Cgroup

        return Cgroup(token, proc)
    from trainmark.agent.contain.subreaper import Subreaper

    return Subreaper(token, proc)


def choose(asked: str, token: str, proc: Proc) -> tuple[Containment, list[Reason]]:
    """The strongest kind that works (or the one asked for), opened, and why no stronger one is used."""
    if asked != "auto":
        if asked not in KINDS:
            raise ContainmentError(reason("containment-unknown", asked=asked, known=["auto", *KINDS]))
        try:
            found = _make(asked, token, proc)
            found.open()
        except ContainmentError as error:
            raise ContainmentError(reason("containment-unusable", kind=asked, why=error.reason)) from error
        return found, [reason("containment-asked-for", kind=asked)]
    why: list[Reason] = []
    for name in KINDS:
        try:
            found = _make(name, token, proc)
            found.open()
            return found, why
        except ContainmentError as error:
            why.append(reason("containment-not-used", kind=name, why=error.reason))
    raise ContainmentError(reason("no-containment", why=why))


def reap_all() -> bool:
    """Reaps what has ended. Returns whether no child is left."""
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
    """Kills everything inside. Returns how many processes are left; 0 only when that is certain.

    `collect` reaps what has ended and returns whether the caller is childless; `wait` sleeps until something happens.
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
