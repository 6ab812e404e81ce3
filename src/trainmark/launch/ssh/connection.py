"""A connection to a host: one ssh, and a relay at its other end."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmark.agent.relay.frames import GREETING, Decoder, FrameError, encode
from trainmark.launch.ssh.command_line import SshTarget, command_line, explain

if TYPE_CHECKING:
    from trainmark.launch.ssh.connections import Connections

# A relay speaks every second; after this long without a word the connection is taken for dead.
SILENT_SECONDS = 15.0
_BACK_OFF = (0.5, 1.0, 2.0, 4.0, 8.0)
_STDERR = 8192
_GRACE_SECONDS = 3.0


class Reply:
    """The answer to one question, once it is there. A broken connection is an answer, too."""

    def __init__(self) -> None:
        self.value: dict[str, Any] | None = None
        self.payload = b""

    @property
    def done(self) -> bool:
        return self.value is not None

    @property
    def ok(self) -> bool:
        return bool(self.value and self.value.get("ok"))

    @property
    def why(self) -> str:
        return str((self.value or {}).get("why") or "no answer")


class Connection:
    """One host. `ready` while its relay answers; it is held open while `users` is above 0."""

    def __init__(self, reach: SshTarget, node_zip: Path, connections: Connections) -> None:
        self.reach = reach
        self._connections = connections
        self.users = 0
        self.ready = False
        self.why = "not connected yet"
        self.tries = 0
        self.retry_at = 0.0
        self.heard = 0.0  # when its relay spoke last
        self.hello: dict[str, Any] = {}
        self.on_ready: list[Callable[[], None]] = []
        self.on_frame: Callable[[dict[str, Any], bytes], None] = _nobody
        self._zip = node_zip
        self._process: subprocess.Popen[bytes] | None = None
        self._out = deque[memoryview]()
        self._in, self._said = b"", b""
        self._decoder = Decoder()
        self._greeted, self._mute = False, False
        self._deadline = float("inf")
        self._replies: dict[int, Reply] = {}
        self._questions = 0

    @property
    def patience(self) -> float:
        """Seconds until it is known whether a host can be reached."""
        return self.reach.connect_seconds + _GRACE_SECONDS + 1.0

    @property
    def connecting(self) -> bool:
        return self._process is not None and not self.ready

    @property
    def down(self) -> bool:
        return self._process is None

    def _say(self, data: bytes) -> None:
        self._out.append(memoryview(data))
        self._connections.changed(self)

    def ask(self, op: str, payload: bytes = b"", **fields: Any) -> Reply:
        """Sends a question; the reply fills while connections are served."""
        reply = Reply()
        if not self.ready:
            reply.value = {"ok": False, "why": self.why, "broken": True}
            return reply
        self._questions += 1
        self._replies[self._questions] = reply
        self._say(encode({"op": op, "id": self._questions, **fields}, payload))
        return reply

    # ---- called by Connections

    def connect(self) -> None:
        self.tries += 1
        content = self._zip.read_bytes()
        argv = command_line(self.reach, self._zip.name, len(content), hashlib.sha256(content).hexdigest())
        self._in, self._said, self._decoder, self._greeted = b"", b"", Decoder(), False
        self._out.clear()
        # A little longer than ssh itself tries: its own message says more.
        self._deadline = time.monotonic() + self.reach.connect_seconds + _GRACE_SECONDS
        try:
            self._process = self._connections.open(self.reach, argv)
        except OSError as error:
            self.why = f"ssh cannot be started: {error.strerror}"
            self.retry_at = float("inf")
            return
        self._mute = False
        for pipe in self.pipes():
            os.set_blocking(pipe.fileno(), False)
        self._connections.changed(self)

    def pipes(self) -> list[Any]:
        if self._process is None:
            return []
        heard = self._process.stderr if not self._mute else None
        return [pipe for pipe in (self._process.stdin, self._process.stdout, heard) if pipe]

    @property
    def wants_to_write(self) -> bool:
        return bool(self._out)

    def write(self) -> None:
        """As much as the pipe takes."""
        if self._process is None or self._process.stdin is None:
            return
        try:
            while self._out:
                sent = os.write(self._process.stdin.fileno(), self._out[0][: 1 << 16])
                if sent < len(self._out[0]):
                    self._out[0] = self._out[0][sent:]
                else:
                    self._out.popleft()
            self._connections.changed(self)
        except BlockingIOError:
            pass
        except OSError:
            self.lose(None)

    def read(self, pipe: Any) -> None:
        try:
            data = os.read(pipe.fileno(), 1 << 18)
        except BlockingIOError:
            return
        if self._process and pipe is self._process.stderr:
            self._said = (self._said + data)[-_STDERR:]
            if not data:  # ssh has closed it: nothing more will come
                self._mute = True
                self._connections.changed(self)
        elif data:
            self._hear(data)
        else:
            self.lose(None)

    def _hear(self, data: bytes) -> None:
        if not self._greeted:
            self._in += data
            while not self._greeted and b"\n" in self._in:
                line, _, self._in = self._in.partition(b"\n")
                if line.startswith(GREETING):
                    self._greet(line[len(GREETING) :].decode(errors="replace"))
            if not self._greeted:
                return
            data, self._in = self._in, b""
        self.heard = time.monotonic()
        self._deadline = self.heard + SILENT_SECONDS
        try:
            frames = self._decoder.feed(data)
        except FrameError as error:
            self.lose(f"its relay cannot be understood: {error}")
            return
        for header, payload in frames:
            self._frame(header, payload)

    def _greet(self, word: str) -> None:
        if word == "need":
            self._say(self._zip.read_bytes())
        elif word == "ready":
            self._greeted = True
        elif word.startswith("old "):
            self.lose(
                f"its {self.reach.node_python} is {word[4:]}, the node side needs 3.7; set `node_python` in the site"
            )
        else:
            self.lose(word.removeprefix("cannot "))

    def _frame(self, header: dict[str, Any], payload: bytes) -> None:
        op = header.get("op")
        if op == "hello":
            earlier = self.hello.get("relay")
            self.hello, self.ready, self.tries, self.why = header, True, 0, ""
            if earlier:
                self.ask("end_relay", relay=earlier)
            for act in list(self.on_ready):
                act()
        elif op == "reply":
            reply = self._replies.pop(int(header.get("to") or 0), None)
            if reply is not None:
                reply.value, reply.payload = header, payload
        elif op != "beat":
            self.on_frame(header, payload)

    def check_deadline(self, now: float, away: float = 0.0) -> None:
        """`away`: seconds in which nobody here could have heard it."""
        self._deadline += away
        if self._process is not None and now > self._deadline:
            silent = f"it has not said a word for {SILENT_SECONDS:g} s"
            self.lose(silent if self.ready else None, timed_out=True)

    def lose(self, why: str | None, *, timed_out: bool = False) -> None:
        """The connection is over; every open question is answered with why."""
        process = self._process
        if process is None:
            return
        # Before anything is closed: another connection may be given the same descriptors at once.
        self._connections.leave(self)
        was_ready, self._process, self.ready = self.ready, None, False
        if process.stdin:
            process.stdin.close()
        code = None if timed_out else _wait(process)
        self._said += _rest(process)
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe:
                pipe.close()
        text = self._said.decode(errors="replace")
        lost = "the connection was lost" if was_ready and not text.strip() else None
        self.why = why or lost or explain(code, text, self.reach.node_python, self.reach.host)
        self.retry_at = time.monotonic() + _BACK_OFF[min(self.tries, len(_BACK_OFF) - 1)]
        for reply in self._replies.values():
            reply.value = {"ok": False, "why": self.why, "broken": True}
        self._replies.clear()


def _nobody(header: dict[str, Any], payload: bytes) -> None:
    """Frames that nobody waits for any more."""


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    """The exit code of an ssh that closed its output; it ends at once, or is ended."""
    try:
        return process.wait(1.0)
    except subprocess.TimeoutExpired:
        return None


def _rest(process: subprocess.Popen[bytes]) -> bytes:
    if process.stderr is None:
        return b""
    try:
        return os.read(process.stderr.fileno(), _STDERR)
    except OSError:
        return b""
