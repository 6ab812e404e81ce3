"""One attempt that a relay watches: whether its agent lives, and its files, which are sent to the controller."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import Any, Callable

from trainmark.agent import linux
from trainmark.agent.contain.sweep import sweep
from trainmark.agent.events.reader import open_plain
from trainmark.agent.events.shipper import complete
from trainmark.agent.files import FIRST_PART, LAST_PART, read_json
from trainmark.agent.node_plan import HANDED
from trainmark.agent.relay import containers

_STATUS = "status.json"
_REPLACED = ("agent.json", _STATUS, "facts.json", "config.json")
_RESULT = "result.json"
_AGENT_LOG = "agent.log"
# Not sent: what the controller wrote itself, and what only the agent needs.
_NOT_SENT = ("node.json", "control.json", "reserve", "spool")
_FOLDERS_NOT_SENT = ("spool", HANDED)
_REMOVE_SECONDS = 10.0
_CHUNK = 1 << 20
_ALL = 1 << 62
_MOST = 256 << 20  # bytes of files that the ranks made; results are always sent


class WatchedAttempt:
    """Sends the files of an attempt as they grow; result.json comes last, when no process of the attempt is left."""

    def __init__(self, send: Callable[..., None], header: dict[str, Any], have: dict[str, int]) -> None:
        self.dir: str = header["dir"]
        self._token: str = header["token"]
        self._container: dict[str, Any] | None = header.get("container")
        self._send = send
        self._sent = dict(have)
        self._marks: dict[str, tuple[int, int]] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._proc = linux.Proc()

    def start(self, argv: list[str]) -> None:
        """In a session of its own: it does not end with the connection."""
        with open(self._file(_AGENT_LOG), "ab") as log:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.dir, start_new_session=True
            )

    def begun(self) -> bool:
        """Whether an agent ever claimed this attempt."""
        claim = read_json(self._file("agent.json"))
        if isinstance(claim, dict):
            return bool(claim.get("token") == self._token)
        return self._alive()

    def tick(self) -> bool:
        """Sends what is new; True when all of it is sent and the agent has ended."""
        alive = self._alive()
        self._send_new()
        if not alive:
            self._finish()
        return not alive

    def nudge(self) -> None:
        """Makes the agent read control.json now instead of in a second. One that has not yet told its state does not
        listen: the signal would end it before it could say why."""
        if not os.path.exists(self._file(_STATUS)):
            return
        if self._container:
            containers.signal(self._container, "TERM")
            return
        pid = self._pid()
        if pid is not None:
            os.kill(pid, signal.SIGTERM)

    def destroy(self) -> None:
        """Kills the agent and whatever it started; when this returns, all of it is gone."""
        if self._container:
            self._remove_container()
        pid = self._pid()
        if pid is not None:
            self._proc.destroy_tree(pid)
        self._sweep()

    def _remove_container(self) -> None:
        """Removes it until the engine's own program has ended, too: the engine may still be creating the container, and
        killing it first could leave one that never started."""
        deadline = time.monotonic() + _REMOVE_SECONDS
        while self._container and time.monotonic() < deadline:
            containers.remove(self._container)
            if self._process is None or self._process.poll() is not None:
                return
            time.sleep(0.1)

    # ---- life

    def _alive(self) -> bool:
        if self._process is not None:
            return self._process.poll() is None
        if self._container:
            return containers.running(self._container)
        return self._pid() is not None

    def _pid(self) -> int | None:
        """The agent's top process, if it lives, and not a process that got the same pid later."""
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
        if self._container:
            containers.remove(self._container)
        sweep(self._token)

    # ---- files

    def _file(self, name: str) -> str:
        return os.path.join(self.dir, name)

    def _send_new(self, final: bool = False) -> None:
        try:
            names = os.listdir(self.dir)
        except OSError:
            return
        if final:
            # While it was sent, such a log may have begun again and grown beyond what was sent before.
            for name in names:
                if name.endswith(FIRST_PART):
                    self._sent[name[: -len(FIRST_PART)] + ".log"] = _ALL
        for name in names:
            if name in _REPLACED:
                self._send_replaced(name)
            elif name.endswith(LAST_PART) and not final:
                continue  # replaced each time the log begins again
            elif name.endswith(".jsonl") or name.endswith(".log"):
                self._send_grown(name, final)

    def _send_replaced(self, name: str) -> None:
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

    def _send_grown(self, name: str, final: bool = False) -> None:
        try:
            descriptor = open_plain(self._file(name))
        except OSError:
            return
        try:
            while True:
                at = self._sent.get(name, 0)
                again = at > os.fstat(descriptor).st_size  # a log that has begun again
                at = 0 if again else at
                data = os.pread(descriptor, _CHUNK, at)
                if name.endswith(".jsonl") and len(data) < _CHUNK and not final:
                    data = data[: data.rfind(b"\n") + 1]  # the rest of a torn line may still come
                if not data:
                    return
                self._send({"op": "file", "dir": self.dir, "name": name, "at": at, "again": again}, data)
                self._sent[name] = at + len(data)
        finally:
            os.close(descriptor)

    def _finish(self) -> None:
        """Kills what is left of the attempt, then sends all that it wrote."""
        self._send({"op": "ending", "dir": self.dir})
        result = read_json(self._file(_RESULT))
        containment = result.get("containment") if isinstance(result, dict) else None
        if self._container or not isinstance(containment, dict) or containment.get("left") != 0:
            self._sweep()
        why = None
        try:
            complete(self.dir)
        except OSError as error:  # a full disk: the events stay in the spool
            why = str(error)
        self._send_new(final=True)
        self._send_rank_files()
        self._send_replaced(_RESULT)
        code = self._process.returncode if self._process is not None else None
        self._send({"op": "gone", "dir": self.dir, "exit": code, "why": why})

    def _send_rank_files(self) -> None:
        """Files that the ranks made in their folder, up to a limit."""
        room = _MOST
        for folder, folders, names in os.walk(self.dir):
            kept = _FOLDERS_NOT_SENT if folder == self.dir else ()
            folders[:] = [
                name for name in folders if not os.path.islink(os.path.join(folder, name)) and name not in kept
            ]
            for name in names:
                path = os.path.join(folder, name)
                inner = os.path.relpath(path, self.dir)
                known = inner in _REPLACED or inner in _NOT_SENT or inner == _RESULT
                if known or os.path.islink(path) or not os.path.isfile(path):
                    continue
                room -= os.path.getsize(path) - self._sent.get(inner, 0)
                if room < 0:
                    self._send({"op": "not-sent", "dir": self.dir, "name": inner})
                else:
                    self._send_grown(inner, final=True)
