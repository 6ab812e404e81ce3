"""One attempt as a relay sees it: whether its agent lives, and its files on their way to the controller."""

from __future__ import annotations

import os
import signal
import time

from trainmark.agent import linux
from trainmark.agent.lines import open_plain
from trainmark.agent.record import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from subprocess import Popen
    from typing import Any, Callable

_REPLACED = ("agent.json", "status.json", "facts.json", "config.json")
_RESULT = "result.json"
_AGENT_LOG = "agent.log"
# Not for the controller: its own copy, orders it gave, and what only the agent needs.
_STAYS = ("node.json", "control.json", "reserve", "spool")
_REMOVE_SECONDS = 10.0
_CHUNK = 1 << 20
_MOST = 256 << 20  # of files the ranks made; results are never held back


class Watch:
    """Ships the files of an attempt as they grow; result.json comes last, when nothing is left of the attempt."""

    def __init__(self, send: Callable[..., None], header: dict[str, Any], have: dict[str, int]) -> None:
        self.dir: str = header["dir"]
        self._token: str = header["token"]
        self._container: dict[str, Any] | None = header.get("container")
        self._send = send
        self._sent = dict(have)
        self._marks: dict[str, tuple[int, int]] = {}
        self._process: Popen[bytes] | None = None
        self._proc = linux.Proc()

    def start(self, argv: list[str]) -> None:
        """In a session of its own: it does not end with the connection."""
        import subprocess

        with open(self._file(_AGENT_LOG), "ab") as log:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.dir, start_new_session=True
            )

    def begun(self) -> bool:
        """Whether an agent ever took this attempt."""
        claim = read_json(self._file("agent.json"))
        if isinstance(claim, dict):
            return bool(claim.get("token") == self._token)
        return self._alive()

    def tick(self) -> bool:
        """Ships what is new; True when all of it is shipped and the agent has gone."""
        alive = self._alive()
        self._ship()
        if not alive:
            self._finish()
        return not alive

    def nudge(self) -> None:
        """Makes the agent look at its orders now instead of in a second."""
        if self._container:
            from trainmark.agent.relay import containers as relay_container

            relay_container.signal(self._container, "TERM")
            return
        pid = self._pid()
        if pid is not None:
            os.kill(pid, signal.SIGTERM)

    def destroy(self) -> None:
        """Ends the agent without asking it, and whatever it started; when this returns, all of it is gone."""
        if self._container:
            self._remove_container()
        pid = self._pid()
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
        self._sweep()

    def _remove_container(self) -> None:
        """The engine may still be making it: it is removed until the engine's own program has ended, too. Were that
        killed first, a container could be left that was made and never started."""
        from trainmark.agent.relay import containers as relay_container

        deadline = time.monotonic() + _REMOVE_SECONDS
        while self._container and time.monotonic() < deadline:
            relay_container.remove(self._container)
            if self._process is None or self._process.poll() is not None:
                return
            time.sleep(0.1)

    # ---- life

    def _alive(self) -> bool:
        if self._process is not None:
            return self._process.poll() is None
        if self._container:
            from trainmark.agent.relay import containers as relay_container

            return relay_container.running(self._container)
        return self._pid() is not None

    def _pid(self) -> int | None:
        """The agent's top process, if it lives; a pid of an earlier boot or used again is not taken for it."""
        if self._process is not None:
            return self._process.pid if self._process.poll() is None else None
        claim = read_json(self._file("agent.json"))
        if self._container or not isinstance(claim, dict) or claim.get("boot_id") != linux.boot_id():
            return None
        pid = claim.get("pid")
        fields = self._proc.stat(pid) if isinstance(pid, int) else None
        if not fields or fields[0] == b"Z" or int(fields[19]) != claim.get("start_ticks"):
            return None
        return int(claim["pid"])

    def _sweep(self) -> None:
        from trainmark.agent.contain.sweep import sweep

        if self._container:
            from trainmark.agent.relay import containers as relay_container

            relay_container.remove(self._container)
        sweep(self._token)

    # ---- files

    def _file(self, name: str) -> str:
        return os.path.join(self.dir, name)

    def _ship(self) -> None:
        try:
            names = os.listdir(self.dir)
        except OSError:
            return
        for name in names:
            if name in _REPLACED:
                self._replace(name)
            elif name.endswith(".jsonl") or name.endswith(".log"):
                self._grow(name)

    def _replace(self, name: str) -> None:
        try:
            found = os.stat(self._file(name))
            mark = (found.st_mtime_ns, found.st_ino)
            if mark == self._marks.get(name):
                return
            with open(self._file(name), "rb") as file:
                data = file.read()
        except OSError:
            return
        self._marks[name] = mark
        self._send({"op": "file", "dir": self.dir, "name": name}, data)

    def _grow(self, name: str) -> None:
        try:
            descriptor = open_plain(self._file(name))
        except OSError:
            return
        try:
            while True:
                at = self._sent.get(name, 0)
                data = os.pread(descriptor, _CHUNK, at)
                if name.endswith(".jsonl") and len(data) < _CHUNK:
                    data = data[: data.rfind(b"\n") + 1]  # a torn line may still be mended
                if not data:
                    return
                self._send({"op": "file", "dir": self.dir, "name": name, "at": at}, data)
                self._sent[name] = at + len(data)
        finally:
            os.close(descriptor)

    def _finish(self) -> None:
        """Nothing of the attempt is left on the node, and all it wrote is on its way."""
        from trainmark.agent.ship import complete

        result = read_json(self._file(_RESULT))
        if self._container or not isinstance(result, dict) or result.get("containment", {}).get("left") != 0:
            self._sweep()
        why = None
        try:
            complete(self.dir)
        except OSError as error:  # a full disk: the events stay in the spool
            why = str(error)
        self._ship()
        self._others()
        self._replace(_RESULT)
        code = self._process.returncode if self._process is not None else None
        self._send({"op": "gone", "dir": self.dir, "exit": code, "why": why})

    def _others(self) -> None:
        """What the ranks themselves left in their folder, up to a limit."""
        room = _MOST
        for folder, folders, names in os.walk(self.dir):
            folders[:] = [
                name for name in folders if not os.path.islink(os.path.join(folder, name)) and name != "spool"
            ]
            for name in names:
                path = os.path.join(folder, name)
                inner = os.path.relpath(path, self.dir)
                known = inner in _REPLACED or inner in _STAYS or inner == _RESULT
                if known or os.path.islink(path) or not os.path.isfile(path):
                    continue
                room -= os.path.getsize(path) - self._sent.get(inner, 0)
                if room < 0:
                    self._send({"op": "kept", "dir": self.dir, "name": inner})
                else:
                    self._grow(inner)
