"""All connections of a controller, served by one loop."""

from __future__ import annotations

import resource
import selectors
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from trainmark.errors import SiteError
from trainmark.launch.ssh.command_line import SshTarget
from trainmark.launch.ssh.connection import Connection, Reply

# How often the connections looks for what is late, and for what must be connected.
_LOOK_SECONDS = 0.05
# A controller that was busy elsewhere, or stopped, for longer than this.
_AWAY_SECONDS = 1.0
# An ssh has three pipes; the controller's own files, and those of programs it asks, are few.
_FILES_PER_HOST, _OWN_FILES = 3, 128


def _make_room(hosts: int) -> None:
    """Lets this process have as many open files as connections to so many hosts take; SiteError where it may not."""
    need = hosts * _FILES_PER_HOST + _OWN_FILES
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY or need <= allowed:
        return
    if most != resource.RLIM_INFINITY and need > most:
        fit = (most - _OWN_FILES) // _FILES_PER_HOST
        raise SiteError(
            f"{hosts} hosts need {need} open files and this account may have {most}, enough for {max(0, fit)} hosts; "
            "raise it (`nofile` in /etc/security/limits.conf, `LimitNOFILE=` of a service) and see `ulimit -Hn`"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (need, most))


class Connections:
    """All links of a controller. Nothing happens but inside `step` and `until`; there are no threads."""

    def __init__(self, limit: int = 32) -> None:
        self.limit = limit
        self._links: dict[SshTarget, Connection] = {}
        self._selector = selectors.DefaultSelector()
        self._watched: dict[Connection, list[Any]] = {}
        self._changed: set[Connection] = set()
        self._look_at = 0.0

    def link(self, reach: SshTarget, node_zip: Path) -> Connection:
        return self.links([reach], node_zip)[0]

    def links(self, all_of_them: Sequence[SshTarget], node_zip: Path) -> list[Connection]:
        """To hosts that are needed at the same time: it is known before the first is reached whether all can be."""
        new = {reach for reach in all_of_them if reach not in self._links}
        if new:
            _make_room(len(self._links) + len(new))
            self._links.update((reach, Connection(reach, node_zip, self)) for reach in new)
        return [self._links[reach] for reach in all_of_them]

    def step(self, seconds: float) -> None:
        """Serves whatever is ready, waiting up to `seconds` for it."""
        self._look_around()
        while self._changed:
            self._register(self._changed.pop())
        for key, events in self._selector.select(max(0.0, seconds)):
            link = key.data
            if link.down:
                continue
            if events & selectors.EVENT_WRITE:
                link.write()
            else:
                link.read(key.fileobj)

    def _look_around(self) -> None:
        """What depends on the time: done often enough, and not once per message of a thousand hosts."""
        now = time.monotonic()
        if now >= self._look_at:
            # Time in which this controller itself did not listen is nobody's silence.
            away = now - self._look_at if self._look_at else 0.0
            self._look_at = now + _LOOK_SECONDS
            for link in self._links.values():
                link.check_deadline(now, away if away > _AWAY_SECONDS else 0.0)
            self._connect(now)

    def changed(self, link: Connection) -> None:
        """To be looked at before the next wait."""
        self._changed.add(link)

    def open(self, reach: SshTarget, argv: list[str]) -> subprocess.Popen[bytes]:
        """An ssh, which knows by its arguments whom to reach."""
        del reach
        return subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Ctrl-C is for the controller, which then ends its rounds over this very connection.
            start_new_session=True,
        )

    def leave(self, link: Connection) -> None:
        for pipe in self._watched.pop(link, []):
            self._selector.unregister(pipe)

    def _register(self, link: Connection) -> None:
        """Watches the pipes a link has now; its input only while there is something to write."""
        self.leave(link)
        pipes = [pipe for pipe in link.pipes() if not pipe.writable() or link.wants_to_write]
        for pipe in pipes:
            self._selector.register(pipe, selectors.EVENT_WRITE if pipe.writable() else selectors.EVENT_READ, link)
        if pipes:
            self._watched[link] = pipes

    def until(self, done: Callable[[], bool], seconds: float, every: float = 0.0) -> bool:
        """Serves until something is so, or the time is over; whether it is so. Asked once in `every` seconds."""
        deadline = time.monotonic() + seconds
        while not done():
            now = time.monotonic()
            if now >= deadline:
                return False
            pause = min(deadline, now + every)
            self.step(min(deadline - now, 0.25))
            while time.monotonic() < pause:
                self.step(pause - time.monotonic())
        return True

    def wait(self, replies: Iterable[Reply], seconds: float) -> None:
        """Serves until all replies are there, or the time is over."""
        waiting = list(replies)
        self.until(lambda: all(reply.done for reply in waiting), seconds)

    def need(self, replies: Sequence[tuple[Connection, Reply]], what: str, seconds: float) -> None:
        """The same; SiteError names the hosts that could not do `what`."""
        self.wait((reply for _, reply in replies), seconds)
        bad = [f"{link.reach.host} could not {what}: {reply.why}" for link, reply in replies if not reply.ok]
        if bad:
            raise SiteError("; ".join(bad[:5]))

    def reach(self, links: list[Connection], at_most: float = float("inf")) -> None:
        """All of them at once, as far as the limit allows; each gets one full try within `at_most` seconds."""
        for link in links:
            if link.down:
                link.retry_at, link.tries = 0.0, 0
        seconds = max(link.patience for link in links)
        turns = -(-len(links) // self.limit)
        seconds = min(at_most, seconds * turns)
        self.until(lambda: all(link.ready or (link.down and link.tries) for link in links), seconds)

    def _connect(self, now: float) -> None:
        """Starts what is wanted and down, so many at a time."""
        busy = sum(link.connecting for link in self._links.values())
        for link in self._links.values():
            if busy >= self.limit:
                return
            if link.down and link.users > 0 and now >= link.retry_at:
                link.connect()
                busy += 1

    def close(self) -> None:
        for link in self._links.values():
            link.lose("the controller has ended")
