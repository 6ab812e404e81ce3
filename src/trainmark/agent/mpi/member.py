"""A member: another node of a command that the head runs. It runs what the head asks for, below this node's agent."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

from trainmark.agent.mpi.messages import Connection, ConnectionLost, join_head
from trainmark.agent.mpi.node_setup import NO_KEY, attempt_key, prepare_node
from trainmark.agent.wakeup import Wakeup

_LOOK_SECONDS, _RETRY_SECONDS = 5.0, 0.2
_CHUNK = 65536
_FAILED, _ASKED_TO_END = 1, 128 + signal.SIGTERM


def member(*words: str) -> int:
    """Arguments: host and port of the head, the name of this node, and the program of each rank."""
    address, port, name = words[0], int(words[1]), words[2]
    env = prepare_node(list(words[3:]))
    key = attempt_key(env)
    if not key:
        sys.stderr.write(NO_KEY)
        return _FAILED
    wakeup = Wakeup()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    connection = _connect(address, port, name, key, wakeup)
    return Member(connection, env, wakeup).run() if connection is not None else _ASKED_TO_END


def _connect(address: str, port: int, name: str, key: str, wakeup: Wakeup) -> Connection | None:
    """Tries until the head answers; None after a signal. The agent has the deadline."""
    while True:
        try:
            return join_head(socket.create_connection((address, port), timeout=_LOOK_SECONDS), key, name)
        except (OSError, ConnectionLost):
            pass
        numbers, _ = wakeup.wait(_RETRY_SECONDS)
        if signal.SIGTERM in numbers or signal.SIGINT in numbers:
            return None


class RemoteCommand:
    """One command of the head's `ssh`."""

    def __init__(self, number: int, process: subprocess.Popen[bytes]) -> None:
        self.number = number
        self.process = process


class Member:
    def __init__(self, connection: Connection, env: dict[str, str], wakeup: Wakeup) -> None:
        self._connection = connection
        self._env = env
        self._wakeup = wakeup
        self._commands: dict[int, RemoteCommand] = {}
        self._outputs: dict[int, tuple[int, int]] = {}  # descriptor → number of the command, 1 or 2

    def run(self) -> int:
        self._wakeup.watch(self._connection.fileno())
        try:
            while True:
                numbers, ready = self._wakeup.wait(_LOOK_SECONDS)
                if signal.SIGTERM in numbers or signal.SIGINT in numbers:
                    return _ASKED_TO_END
                for descriptor in ready:
                    if descriptor in self._outputs:
                        self._pass_on(descriptor)
                self._reap()
                if self._connection.fileno() in ready:
                    code = self._read_requests()
                    if code is not None:
                        return code
        except ConnectionLost as error:
            sys.stderr.write(
                "trainmark: the node that runs the command has gone: connection closed by peer: %s\n" % error
            )
            return _FAILED

    def _read_requests(self) -> int | None:
        for header, _ in self._connection.read():
            if header["op"] == "run":
                self._start(int(header["id"]), str(header["command"]))
            elif header["op"] == "kill":
                self._kill(int(header["id"]))
            elif header["op"] == "end":
                if header["code"]:
                    text = "trainmark: remote process exited: the command ended with code %s on its node\n"
                    sys.stderr.write(text % header["code"])
                return _FAILED if header["code"] else 0
        return None

    def _start(self, number: int, command: str) -> None:
        """The text comes from the launcher, made for the shell that sshd would start."""
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._commands[number] = RemoteCommand(number, process)
        for output, stream in ((1, process.stdout), (2, process.stderr)):
            assert stream is not None  # noqa: S101 - asked for above
            os.set_blocking(stream.fileno(), False)
            self._outputs[stream.fileno()] = (number, output)
            self._wakeup.watch(stream.fileno())

    def _kill(self, number: int) -> None:
        """Its `ssh` was killed; what ignores SIGTERM ends with the round."""
        command = self._commands.get(number)
        if command is not None:
            try:
                os.killpg(command.process.pid, signal.SIGTERM)
            except OSError:
                pass

    def _pass_on(self, descriptor: int) -> None:
        number, output = self._outputs[descriptor]
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._connection.send({"op": "output", "id": number, "value": output}, data)
        else:
            self._wakeup.forget(descriptor)
            del self._outputs[descriptor]

    def _reap(self) -> None:
        for number, command in list(self._commands.items()):
            code = command.process.poll()
            if code is None:
                continue
            # Its output is passed on first; a child it left behind may keep the streams open.
            for descriptor, (owner, _) in list(self._outputs.items()):
                if owner == number:
                    self._pass_on(descriptor)
            self._connection.send({"op": "exit", "id": number, "value": code if code >= 0 else 128 - code})
            del self._commands[number]
