"""The node that starts a command for all nodes: waits for the doors of the others, and leads its `ssh` to them.

The command finds an `ssh` first on its PATH that needs no keys and no sshd: what it starts on another node is a child
of that node's agent, so it has that node's environment, and ends with that agent.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys

from trainmark.agent.mpi.messages import Closed, Line, receive, settle
from trainmark.agent.wake import Wakeup

HEAD = "TRAINMARK_HEAD"  # the name of the socket at which the command's `ssh` asks
_LOOK_SECONDS = 5.0
_FAILED, _ASKED_TO_END, _NOT_FOUND = 1, 128 + signal.SIGTERM, 127


def head(words: list[str], node: str) -> int:
    """`PORT DOORS COUNT`, then COUNT words of the command, then the program of each rank. Returns its exit code."""
    port, doors, count = (int(word) for word in words[:3])
    command, program = words[3 : 3 + count], words[3 + count :]
    return Head(port, doors, settle(program, node)).run(command)


class Client:
    """One `ssh` of the command, and what it has at the door it was led to."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.door: Line | None = None
        self.number = 0


class Head:
    def __init__(self, port: int, doors: int, env: dict[str, str]) -> None:
        self._env = env
        self._expected = doors
        self._doors: dict[str, Line] = {}
        self._clients: dict[int, Client] = {}  # by descriptor
        self._asked = 0
        self._wakeup = Wakeup()
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # what is ignored here would be ignored below, too
        self._listener = _listen(port) if doors else None
        name = "trainmark-head-" + os.urandom(12).hex()
        self._inner = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._inner.bind("\0" + name)  # in no folder, so that nothing is left of it
        self._inner.listen(64)
        env[HEAD] = name

    def run(self, command: list[str]) -> int:
        try:
            return self._follow(self._start(command)) if self._gather() else _ASKED_TO_END
        except Closed as error:
            sys.stderr.write("trainmark: a node of this command has gone: %s\n" % error)
            return _FAILED
        except OSError as error:
            sys.stderr.write("trainmark: %s cannot be started: %s\n" % (command[0], error.strerror or error))
            return _NOT_FOUND

    def _gather(self) -> bool:
        """All doors are here; False when the agent wants an end. How long it may take is the agent's affair."""
        if self._listener is None:
            return True
        self._wakeup.watch(self._listener.fileno())
        while len(self._doors) < self._expected:
            numbers, ready = self._wakeup.wait(_LOOK_SECONDS)
            if signal.SIGTERM in numbers or signal.SIGINT in numbers:
                return False
            if ready:
                self._let_in()
        self._listener.close()
        return True

    def _let_in(self) -> None:
        assert self._listener is not None  # noqa: S101 - whoever waits at it has one
        connection, _ = self._listener.accept()
        try:
            line, host = receive(connection, self._env["TRAINMARK_TOKEN"])
        except Closed:
            connection.close()  # a stranger: scanners knock at every port
            return
        self._doors[host] = line

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        """In the group of this process, so that what the agent tells it, it hears as well."""
        self._wakeup.forget_all()
        for descriptor in [self._inner.fileno(), *(line.fileno() for line in self._doors.values())]:
            self._wakeup.watch(descriptor)
        return subprocess.Popen(command, env=self._env, stdin=subprocess.DEVNULL)

    def _follow(self, process: subprocess.Popen[bytes]) -> int:
        doors = {line.fileno(): line for line in self._doors.values()}
        code = None
        try:
            while code is None:
                for descriptor in self._wakeup.wait(_LOOK_SECONDS)[1]:
                    if descriptor in doors:
                        self._told(doors[descriptor])
                    elif descriptor in self._clients:
                        self._heard(self._clients[descriptor])
                    else:
                        self._answer()
                code = process.poll()
        except Closed:
            process.terminate()
            raise
        code = code if code >= 0 else 128 - code
        for line in doors.values():
            try:
                line.say({"op": "end", "code": code})
            except Closed:
                pass  # it has gone already
        return code

    # ---- the command's `ssh`

    def _answer(self) -> None:
        connection, _ = self._inner.accept()
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        if struct.unpack("3i", credentials)[1] != os.getuid():
            connection.close()
            return
        client = Client(Line(connection))
        self._clients[connection.fileno()] = client
        self._wakeup.watch(connection.fileno())

    def _heard(self, client: Client) -> None:
        """A question; the end of the line means that nobody waits for the answer any more."""
        try:
            for header, _ in client.line.read():
                self._lead(client, str(header["host"]), str(header["command"]))
        except Closed:
            if client.door is not None:
                client.door.say({"op": "kill", "id": client.number})
            self._drop(client)

    def _lead(self, client: Client, host: str, command: str) -> None:
        door = self._doors.get(host)
        if door is None:
            here = os.uname().nodename
            known = ", ".join(sorted(self._doors)) or "none"
            own = host in (here, here.split(".")[0], "localhost", "127.0.0.1")
            client.line.say(
                {"op": "here"} if own else {"op": "refused", "why": "no node %s; there is %s" % (host, known)}
            )
            return
        self._asked += 1
        client.door, client.number = door, self._asked
        door.say({"op": "run", "id": self._asked, "command": command})

    def _told(self, door: Line) -> None:
        """Output and ends of what runs behind a door, for whoever asked for it."""
        for header, payload in door.read():
            clients = [one for one in self._clients.values() if one.number == header["id"]]
            for client in clients:
                try:
                    client.line.say({"op": header["op"], "value": header["value"]}, payload)
                except Closed:
                    pass  # its end is heard in the next turn

    def _drop(self, client: Client) -> None:
        descriptor = client.line.fileno()
        self._wakeup.forget(descriptor)
        del self._clients[descriptor]
        client.line.socket.close()


def _listen(port: int) -> socket.socket:
    """The agent holds the port, bound and not listening, and allows its reuse."""
    for family, address in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):  # noqa: S104
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listener.bind((address, port))
            listener.listen(128)
            return listener
        except OSError:
            listener.close()
            if family == socket.AF_INET:
                raise
    raise AssertionError
