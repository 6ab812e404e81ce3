"""One node over ssh: its relay brings files here as they grow and takes orders there."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from trainmark.agent.ending import last_lines
from trainmark.agent.ranks import ENV_LOG
from trainmark.launch import attempt as attempts
from trainmark.launch.protocol import Ended
from trainmark.launch.ssh import abandoned
from trainmark.launch.ssh.command_line import SshTarget
from trainmark.launch.ssh.connection import Connection, Reply
from trainmark.launch.ssh.plan import REACH
from trainmark.reasons import Reason, reason
from trainmark.spec.states import JobState
from trainmark.store.digests import LEFT_THERE
from trainmark.store.files import read_json, write_all, write_json
from trainmark.store.rundir import CLAIM, CLOCK, CONTROL, LEASE, NODE_PLAN, STATUS

AGENT_LOG = "agent.log"
# How long a host without contact may keep somebody waiting who has asked for the end.
_PATIENCE = 10.0
# An agent speaks every second, and on a busy host a little later.
_LEAST_SILENCE = 10.0
# The agent's silence counts while its relay is heard, which speaks every second.
_RELAY_SECONDS = 3.0


class RelayTransport:
    """A Transport over a connection to the node's host, which may break at any time and goes on with the next one."""

    def __init__(self, folder: Path, plan: dict[str, Any], link: Connection) -> None:
        self.folder, self.plan, self.link = folder, plan, link
        self.left_there = False
        self.watching: Reply | None = None
        # Called with each status of the agent. A new relay sends the last one again.
        self.on_status: Callable[[bytes], None] = _nobody

    @property
    def address(self) -> dict[str, Any]:
        """What names this attempt to its relay."""
        return {
            "dir": self.plan["dir"],
            "token": self.plan["token"],
            "container": self.plan[REACH]["container"],
            "lease_file": self.plan["lease"],
            "lease": self._lease(),
        }

    def _lease(self) -> int:
        """The highest epoch this machine knows of the run."""
        found = read_json(self.folder.parents[3] / LEASE)
        return int(found.get("epoch", 0)) if isinstance(found, dict) else 0

    def send(self, order: dict[str, Any]) -> None:
        """Written down here, too: after a lost connection the standing order is repeated."""
        write_json(self.folder / CONTROL, order)
        self.repeat_order()

    def repeat_order(self) -> Reply:
        return self.link.ask("order", control=read_json(self.folder / CONTROL), **self.address)

    def fetch(self) -> None:
        """Files arrive by themselves, while connections are served."""

    def watch(self) -> None:
        """After every new connection: goes on where the last one ended, and repeats the standing order."""
        self.watching = self.link.ask("watch", have=self.have(), **self.address)
        if isinstance(read_json(self.folder / CONTROL), dict):
            self.repeat_order()

    def have(self) -> dict[str, int]:
        """How much of each growing file is here already."""
        found = {}
        for path in self.folder.rglob("*"):
            name = str(path.relative_to(self.folder))
            if path.is_file() and name not in (NODE_PLAN, CONTROL, CLAIM, CLOCK, LEFT_THERE):
                found[name] = path.stat().st_size
        return found

    def take(self, header: dict[str, Any], data: bytes) -> None:
        """A piece of a file. One that is here already changes nothing."""
        name = str(header["name"])
        path = self.folder / name
        if name.startswith("/") or ".." in Path(name).parts:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        at = header.get("at")
        if at is None:
            _replace(path, data)
            if name == STATUS:
                self.on_status(data)
            return
        mode = 0o600 if path.name == ENV_LOG else 0o644  # as on its host
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, mode)
        try:
            if header.get("again"):
                os.ftruncate(handle, 0)
            size = os.fstat(handle).st_size
            if at > size:
                self.link.lose(f"{name}: a piece is missing between {size} and {at}")
            elif at + len(data) > size:
                os.lseek(handle, size, os.SEEK_SET)
                write_all(handle, data[size - at :])
        finally:
            os.close(handle)

    def leave_there(self, header: dict[str, Any]) -> None:
        """A file too large to be brought here stays on its host, and its place is noted."""
        self.left_there = True
        with (self.folder / LEFT_THERE).open("a", encoding="utf-8") as out:
            out.write(f"{self.plan['host']}:{header['dir']}/{header['name']}\n")


class SshNode(attempts.LaunchedNode):
    """One agent on one host, and its folder here that fills as it works."""

    transport: RelayTransport

    def __init__(self, folder: Path, plan: dict[str, Any], link: Connection) -> None:
        super().__init__(folder, plan, RelayTransport(folder, plan, link))
        self.link = link
        self.collected = False
        # Its agent has ended, and what it left is on its way.
        self.over_there = False
        # The controller ended before it started the agent.
        self.never_began = False
        self._silent_since: float | None = None
        self._silence = attempts.AgentSilence(max(_LEAST_SILENCE, link.reach.lost_seconds))
        self.transport.on_status = lambda data: self._silence.hear(data, time.monotonic())
        # Why its agent is being ended, which gave no sign of life while its host did; since when.
        self._frozen: tuple[Reason, float] | None = None

    @property
    def looked_for(self) -> bool:
        """Whether the host was asked for this attempt, or could not be."""
        watching = self.transport.watching
        asked = watching is not None and watching.done
        return self.ended is not None or asked or (self.link.down and self.link.tries > 0)

    def gone(self, code: int | None) -> None:
        ended = attempts.of_node(self.folder, self.plan["token"], code)
        if ended.state is JobState.LOST and code is not None and code > 0 and not (self.folder / CLAIM).exists():
            ended = self._never_started(code)
        if ended.state is JobState.LOST and self._frozen is not None:
            ended = Ended(JobState.LOST, self._frozen[0])
        self.end(ended)

    def _never_started(self, code: int) -> Ended:
        """What was to start the agent (a container engine, a shell with modules) says why in the agent's place."""
        lines = last_lines(str(self.folder / AGENT_LOG))
        why = reason("agent-not-started", code=code)
        if lines:
            why = reason("agent-not-started-because", code=code, line=lines[-1])
        return Ended(JobState.FAILED, why, {"rank": None, "kind": "agent", "last_lines": lines})

    def end(self, ended: Ended) -> None:
        if self.ended is None:
            self.ended = ended
            self.link.users -= 1
            if self.transport.watch in self.link.on_ready:
                self.link.on_ready.remove(self.transport.watch)

    def lost(self, why: Reason) -> None:
        """Given up without a result. Its files stay on the host until they are known to be nobody's."""
        self.collected = True
        if not self.never_began:
            self.leave_behind()
        self.end(Ended(JobState.LOST, why))

    def leave_behind(self) -> None:
        """Its host cannot be freed of it now: the next controller that reaches the host does that. Files too large to
        be brought here are meant to stay."""
        if not (self.folder / LEFT_THERE).exists():
            abandoned.note(self.folder, self.plan, self.transport.address)

    def follow(self, now: float, *, asked_to_end: bool) -> None:
        """Counts the time without contact; past the limit the node is given up."""
        if self.link.ready:
            self._silent_since = None
            watching = self.transport.watching
            if watching is not None and watching.ok and not (watching.value or {}).get("begun"):
                self.never_began = True
                self.lost(reason("agent-never-began"))
                return
            self._follow_agent(now)
            return
        if self._silent_since is None:
            self._silent_since = now
        silent = now - self._silent_since
        limit = self.link.reach.lost_seconds
        if silent > (min(_PATIENCE, limit) if asked_to_end else limit):
            self.lost(reason("no-contact", seconds=silent, why=self.link.why))

    def _follow_agent(self, now: float) -> None:
        """One that is silent while its host is not is ended there; its relay then tells that it is gone."""
        if self._frozen is not None:
            if now - self._frozen[1] > _PATIENCE and not self.over_there:
                self.lost(self._frozen[0])
            return
        if self.over_there:
            return
        silent = self._silence.too_long(now) if now - self.link.heard < _RELAY_SECONDS else None
        if silent is not None:
            self._frozen = reason("no-sign-of-life", seconds=silent), now
            self.link.ask("destroy", **self.transport.address)


def _nobody(data: bytes) -> None:
    """A status that nobody waits for."""


def _replace(path: Path, data: bytes) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.write_bytes(data)
    os.replace(part, path)


def reach_of(plan: dict[str, Any]) -> SshTarget:
    return msgspec.convert(plan[REACH]["ssh"], SshTarget)
