"""How the nodes of a command that one of them starts talk: one connection from each node to the head.

The head is where the command (mpirun, horovodrun, srun) runs; every other node has a door. Both prove that they know
the token of the attempt before either believes the other: a door does what the head asks.
"""

from __future__ import annotations

import os
import socket

from trainmark.agent.mpi.shared_memory import furnish
from trainmark.agent.record import replace_json
from trainmark.agent.relay.frames import Decoder, FrameError, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trainmark.agent.relay.frames import Frame

# Where the processes below the command find what their own node has for them, and the programs that lead there.
GUEST, BIN = "guest.json", "bin"
_SCRIPTS = {"ssh": "ssh", "trainmark-rank": "rank"}
_CHUNK = 65536
# A host without power is noticed within half a minute.
_ALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}
_ANSWER_SECONDS = 20.0


class Closed(Exception):
    """The other side has gone, or is not who it says."""


class Line:
    """One connection, in frames."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._decoder = Decoder()
        self._waiting: list[Frame] = []

    def fileno(self) -> int:
        return self.socket.fileno()

    def say(self, header: dict[str, Any], payload: bytes = b"") -> None:
        try:
            self.socket.sendall(encode(header, payload))
        except OSError as error:
            raise Closed(str(error)) from error

    def read(self) -> list[Frame]:
        """What has arrived; Closed at the end."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            return waiting
        try:
            data = self.socket.recv(_CHUNK)
            if data:
                return self._decoder.feed(data)
        except (OSError, FrameError) as error:
            raise Closed(str(error)) from error
        raise Closed("connection closed by peer")

    def hear(self, op: str) -> dict[str, Any]:
        """The next frame, which must be of this kind."""
        frames: list[Frame] = []
        while not frames:
            frames = self.read()
        self._waiting = frames[1:]
        header = frames[0][0]
        if header.get("op") != op:
            raise Closed("expected %s, heard %r" % (op, header.get("op")))
        return header


def keep_alive(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _ALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def receive(connection: socket.socket, token: str) -> tuple[Line, str]:
    """The head's side of a greeting: the line and the name of the node at its other end."""
    line = _greeted(connection)
    nonce = os.urandom(16).hex()
    line.say({"op": "who", "nonce": nonce})
    answer = line.hear("door")
    _check(answer, token, "door", nonce)
    line.say({"op": "head", "proof": _proof(token, "head", str(answer.get("nonce")))})
    connection.settimeout(None)
    return line, str(answer.get("host"))


def introduce(connection: socket.socket, token: str, host: str) -> Line:
    """The door's side of it."""
    line = _greeted(connection)
    asked = line.hear("who")
    nonce = os.urandom(16).hex()
    line.say({"op": "door", "host": host, "nonce": nonce, "proof": _proof(token, "door", str(asked.get("nonce")))})
    _check(line.hear("head"), token, "head", nonce)
    connection.settimeout(None)
    return line


def _greeted(connection: socket.socket) -> Line:
    connection.settimeout(_ANSWER_SECONDS)
    keep_alive(connection)
    return Line(connection)


def _proof(token: str, role: str, nonce: str) -> str:
    import hmac

    return hmac.new(token.encode(), ("%s %s" % (role, nonce)).encode(), "sha256").hexdigest()


def _check(answer: dict[str, Any], token: str, role: str, nonce: str) -> None:
    import hmac

    if not hmac.compare_digest(str(answer.get("proof")), _proof(token, role, nonce)):
        raise Closed("the other side does not know this attempt")


def settle(program: list[str], node: str) -> dict[str, str]:
    """Makes this node ready for ranks that others start: what they shall become, and the way there. Returns the
    environment for whatever starts them; `node` is the file of the agent itself.

    A launcher may hand the environment of one node to all others. So nothing in it may be true of one node alone: the
    spool is called the same everywhere, and what lies in it is each node's own.
    """
    import shlex
    import sys

    env = dict(os.environ)
    spool, config = env["TRAINMARK_SPOOLS"], env["TRAINMARK_CONFIG"]
    folder = os.path.join(spool, BIN)
    os.makedirs(folder, exist_ok=True)
    python, agent = shlex.quote(sys.executable), shlex.quote(os.path.abspath(node))
    for name, verb in _SCRIPTS.items():
        path = os.path.join(folder, name)
        with open(path, "w") as file:
            file.write('#!/bin/sh\nexec %s -I -S %s %s "$@"\n' % (python, agent, verb))
        os.chmod(path, 0o700)
    replace_json(os.path.join(spool, GUEST), {"program": program, "config": config, "path": env.get("PYTHONPATH")})
    furnish(spool, env)
    env["PATH"] = folder + os.pathsep + env.get("PATH", os.defpath)
    return env
