"""Containment without any rights: orphans become children of the agent, which kills its descendants."""

from __future__ import annotations

import os

from trainmark.agent import linux
from trainmark.agent.contain.choose import Containment, ContainmentError
from trainmark.agent.linux import Proc
from trainmark.agent.reasons import reason


class Subreaper(Containment):
    """The calling process (agent or guardian) is the root of the tree that is killed."""

    name = "subreaper"

    def __init__(self, token: str, proc: Proc) -> None:
        self._token = token
        self._proc = proc

    def open(self) -> None:
        try:
            linux.become_subreaper()
        except OSError as error:
            raise ContainmentError(reason("text", text=str(error))) from error

    def empty(self, childless: bool) -> bool:
        return childless

    def kill(self) -> None:
        inside = self._proc.descendants(os.getpid())
        inside += self._proc.with_token(self._token)
        self._proc.destroy(inside)

    def count(self) -> int:
        return len(self._proc.descendants(os.getpid()))
