"""The head: the node that runs a command for all nodes. It waits for the members and forwards `ssh` to them.

The command finds an `ssh` first on its PATH that needs no keys and no sshd: what it starts on another node is a child
of that node's agent, with that node's environment, and ends with that agent.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys

from trainmark.agent.mpi.messages import Connection, ConnectionLost, accept_member
from trainmark.agent.mpi.node_setup import NO_KEY, attempt_key, prepare_node
from trainmark.agent.wakeup import Wakeup

HEAD = "TRAINMARK_HEAD"  # the name of the socket that the command's `ssh` connects to
_LOOK_SECONDS = 5.0
_FAILED, _ASKED_TO_END, _NOT_FOUND = 1, 128 + signal.SIGTERM, 127


def head(*words: str) -> int:
    """Arguments: port, number of members, number of words of the command, the command, and the program of each rank.
    Returns the exit code of the command."""
    port, members, count = (int(word) for word in words[:3])
    command, program = list(words[3 : 3 + count]), list(words[3 + count :])
    env = prepare_node(program)
    key = attempt_key(env)
    if members and not key:
        sys.stderr.write(NO_KEY)
        return _FAILED
    return Head(port, members, env, key).run(command)


class Client:
    """One `ssh` of the command, and the member that runs what it asked for."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.member: Connection | None = None
        self.number = 0


class Head:
    def __init__(self, port: int, members: int, env: dict[str, str], key: str) -> None:
        self._env = env
        self._key = key
        self._expected = members
        self._members: dict[str, Connection] = {}
        self._clients: dict[int, Client] = {}  # by descriptor
        self._requests = 0
        self._wakeup = Wakeup()
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # children would inherit that it is ignored
        self._listener = listen(port) if members else None
        name = "trainmark-head-" + os.urandom(12).hex()
        self._inner = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._inner.bind("\0" + name)  # an abstract name: no file is left
        self._inner.listen(64)
        env[HEAD] = name

    def run(self, command: list[str]) -> int:
        try:
            return self._follow(self._start(command)) if self._gather() else _ASKED_TO_END
        except ConnectionLost as error:
            sys.stderr.write("trainmark: a node of this command has gone: %s\n" % error)
            return _FAILED
        except OSError as error:
            sys.stderr.write("trainmark: %s cannot be started: %s\n" % (command[0], error.strerror or error))
            return _NOT_FOUND

    def _gather(self) -> bool:
        """Waits for all members; False after a signal. The agent has the deadline."""
        if self._listener is None:
            return True
        self._wakeup.watch(self._listener.fileno())
        while len(self._members) < self._expected:
            numbers, ready = self._wakeup.wait(_LOOK_SECONDS)
            if signal.SIGTERM in numbers or signal.SIGINT in numbers:
                return False
            if ready:
                self._accept_member()
        self._listener.close()
        return True

    def _accept_member(self) -> None:
        assert self._listener is not None  # noqa: S101 - only called when there is one
        raw, _ = self._listener.accept()
        try:
            connection, host = accept_member(raw, self._key)
        except ConnectionLost:
            raw.close()  # not a member: scanners try every port
            return
        self._members[host] = connection

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        """In the process group of this process, so that signals of the agent reach it."""
        self._wakeup.forget_all()
        for descriptor in [self._inner.fileno(), *(member.fileno() for member in self._members.values())]:
            self._wakeup.watch(descriptor)
        return subprocess.Popen(command, env=self._env, stdin=subprocess.DEVNULL)

    def _follow(self, process: subprocess.Popen[bytes]) -> int:
        members = {member.fileno(): member for member in self._members.values()}
        code = None
        try:
            while code is None:
                for descriptor in self._wakeup.wait(_LOOK_SECONDS)[1]:
                    if descriptor in members:
                        self._pass_back(members[descriptor])
                    elif descriptor in self._clients:
                        self._read_request(self._clients[descriptor])
                    else:
                        self._accept_client()
                code = process.poll()
        except ConnectionLost:
            process.terminate()
            raise
        code = code if code >= 0 else 128 - code
        for member in members.values():
            try:
                member.send({"op": "end", "code": code})
            except ConnectionLost:
                pass  # it has ended already
        return code

    # ---- the command's `ssh`

    def _accept_client(self) -> None:
        raw, _ = self._inner.accept()
        credentials = raw.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        if struct.unpack("3i", credentials)[1] != os.getuid():
            raw.close()
            return
        self._clients[raw.fileno()] = Client(Connection(raw))
        self._wakeup.watch(raw.fileno())

    def _read_request(self, client: Client) -> None:
        """A request; a closed connection means that the `ssh` was killed."""
        try:
            for header, _ in client.connection.read():
                self._forward(client, str(header["host"]), str(header["command"]))
        except ConnectionLost:
            if client.member is not None:
                client.member.send({"op": "kill", "id": client.number})
            self._drop(client)

    def _forward(self, client: Client, host: str, command: str) -> None:
        member = self._members.get(host)
        if member is None:
            here = os.uname().nodename
            known = ", ".join(sorted(self._members)) or "none"
            own = host in (here, here.split(".")[0], "localhost", "127.0.0.1")
            client.connection.send(
                {"op": "here"} if own else {"op": "refused", "why": "no node %s; there is %s" % (host, known)}
            )
            return
        self._requests += 1
        client.member, client.number = member, self._requests
        member.send({"op": "run", "id": self._requests, "command": command})

    def _pass_back(self, member: Connection) -> None:
        """Output and exit codes of what runs on a member, for the client that asked for it."""
        for header, payload in member.read():
            clients = [one for one in self._clients.values() if one.number == header["id"]]
            for client in clients:
                try:
                    client.connection.send({"op": header["op"], "value": header["value"]}, payload)
                except ConnectionLost:
                    pass  # noticed when it is read next

    def _drop(self, client: Client) -> None:
        descriptor = client.connection.fileno()
        self._wakeup.forget(descriptor)
        del self._clients[descriptor]
        client.connection.socket.close()


def listen(port: int) -> socket.socket:
    """The agent holds the port, bound and not listening, and allows reuse."""
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
