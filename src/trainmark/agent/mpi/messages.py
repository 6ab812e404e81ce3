"""Messages between the nodes of a command that one of them starts: one connection from each member to the head.

The head runs the command (mpirun, horovodrun, srun). A member does what the head asks, so both first prove that they
know the key of the attempt, which is in the plans of its nodes and nowhere else.
"""

from __future__ import annotations

import hmac
import os
import socket
from typing import Any

from trainmark.agent.relay.frames import Decoder, Frame, FrameError, encode

_CHUNK = 65536
# So a host without power is noticed within half a minute.
_ALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}
_ANSWER_SECONDS = 20.0


class ConnectionLost(Exception):
    """The other side has ended, or does not know the key."""


class Connection:
    """One connection, in frames."""

    def __init__(self, raw: socket.socket) -> None:
        self.socket = raw
        self._decoder = Decoder()
        self._waiting: list[Frame] = []

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        try:
            self.socket.sendall(encode(header, payload))
        except OSError as error:
            raise ConnectionLost(str(error)) from error

    def read(self) -> list[Frame]:
        """The frames that have arrived; ConnectionLost at the end."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            return waiting
        try:
            data = self.socket.recv(_CHUNK)
            if data:
                return self._decoder.feed(data)
        except (OSError, FrameError) as error:
            raise ConnectionLost(str(error)) from error
        raise ConnectionLost("connection closed by peer")

    def expect(self, op: str) -> dict[str, Any]:
        """The next frame, which must have this `op`."""
        frames: list[Frame] = []
        while not frames:
            frames = self.read()
        self._waiting = frames[1:]
        header = frames[0][0]
        if header.get("op") != op:
            raise ConnectionLost("expected %s, got %r" % (op, header.get("op")))
        return header


def accept_member(raw: socket.socket, key: str) -> tuple[Connection, str]:
    """The head's side of the handshake: the connection and the host name of the member."""
    connection = _prepared(raw)
    nonce = os.urandom(16).hex()
    connection.send({"op": "who", "nonce": nonce})
    answer = connection.expect("member")
    said = (nonce, str(answer.get("nonce")), str(answer.get("host")))
    _check(answer, key, "member", said)
    connection.send({"op": "head", "proof": _proof(key, "head", said)})
    raw.settimeout(None)
    return connection, str(answer.get("host"))


def join_head(raw: socket.socket, key: str, host: str) -> Connection:
    """The member's side of the handshake."""
    connection = _prepared(raw)
    said = (str(connection.expect("who").get("nonce")), os.urandom(16).hex(), host)
    connection.send({"op": "member", "host": host, "nonce": said[1], "proof": _proof(key, "member", said)})
    _check(connection.expect("head"), key, "head", said)
    raw.settimeout(None)
    return connection


def _prepared(raw: socket.socket) -> Connection:
    raw.settimeout(_ANSWER_SECONDS)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _ALIVE.items():
        if hasattr(socket, name):
            raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return Connection(raw)


def _proof(key: str, role: str, said: tuple[str, ...]) -> str:
    """Over what both sides have said so far, and of no use in the other role."""
    return hmac.new(key.encode(), " ".join((role, *said)).encode(), "sha256").hexdigest()


def _check(answer: dict[str, Any], key: str, role: str, said: tuple[str, ...]) -> None:
    if not hmac.compare_digest(str(answer.get("proof")).encode(), _proof(key, role, said).encode()):
        raise ConnectionLost("the other side does not know this attempt")
