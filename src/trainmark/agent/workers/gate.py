"""The gate of a job: where the server asks for programs that run beside the command for people, and connects to them.

It listens on the loopback address of the first worker's host, in the job's own account and container. Whoever comes
must know the key of the attempt, and so must the gate: other accounts of the host can neither use nor replace it. Its
port is told in a file of the node's folder, which the controller has or brings home.
"""

from __future__ import annotations

import hmac
import os
import select
import socket
import threading
from typing import Any

from trainmark.agent.files import to_json
from trainmark.agent.mpi.messages import Connection, ConnectionLost, accept_member
from trainmark.agent.workers.programs import NotThere, Programs

TOLD = "endpoints.jsonl"
# Connections at a time; more wait.
_MOST = 256
_CHUNK = 65536


def gate_key(key: str) -> str:
    """Of the attempt's key, and of no use where that one is asked for."""
    return hmac.new(key.encode(), b"gate", "sha256").hexdigest()


class Gate:
    """Threads of its own; the worker goes on with its command."""

    def __init__(self, key: str, folder: str, programs: Programs) -> None:
        self._key, self._programs = gate_key(key), programs
        self._room = threading.BoundedSemaphore(_MOST)
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(64)
        threading.Thread(target=self._accept, name="gate", daemon=True).start()
        with open(os.path.join(folder, TOLD), "a") as file:
            file.write(to_json({"gate": self._listener.getsockname()[1]}) + "\n")

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            self._room.acquire()
            try:
                raw, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(raw,), daemon=True).start()

    def _serve(self, raw: socket.socket) -> None:
        try:
            connection, _ = accept_member(raw, self._key)
            self._answer(connection, connection.expect("ask"))
        except (ConnectionLost, OSError):
            pass  # a stranger, or somebody who has gone
        finally:
            raw.close()
            self._room.release()

    def _answer(self, connection: Connection, asked: dict[str, Any]) -> None:
        try:
            if asked.get("do") == "connect":
                with self._programs.connect(str(asked.get("name"))) as inner:
                    connection.send({"op": "open"})
                    _pipe(connection.socket, inner)
                return
            connection.send({"op": "told", "programs": self._programs.order(asked)})
        except NotThere as error:
            connection.send({"op": "refused", "why": error.why, "name": error.name})


def _pipe(one: socket.socket, other: socket.socket) -> None:
    """What either side sends reaches the other, until both have said all."""
    ways = {one: other, other: one}
    while ways:
        ready, _, _ = select.select(list(ways), [], [])
        for source in ready:
            data = source.recv(_CHUNK)
            if data:
                ways[source].sendall(data)
                continue
            ways[source].shutdown(socket.SHUT_WR)
            del ways[source]
