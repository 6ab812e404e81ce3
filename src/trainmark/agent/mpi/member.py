"""The other nodes of a command that the head starts: what it wants done here is done here, below this agent."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

from trainmark.agent.mpi.messages import Closed, Line, introduce, settle
from trainmark.agent.wake import Wakeup

_LOOK_SECONDS, _RETRY_SECONDS = 5.0, 0.2
_CHUNK = 65536
_FAILED, _ASKED_TO_END = 1, 128 + signal.SIGTERM


def door(words: list[str], node: str) -> int:
    """`HEAD PORT NAME`, then the program of each rank: waits for the head, and serves it to the end."""
    address, port, name = words[0], int(words[1]), words[2]
    env = settle(words[3:], node)
    wakeup = Wakeup()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    line = _reach(address, port, name, env["TRAINMARK_TOKEN"], wakeup)
    return Door(line, env, wakeup).run() if line is not None else _ASKED_TO_END


def _reach(address: str, port: int, name: str, token: str, wakeup: Wakeup) -> Line | None:
    """The head may begin later than this; how long it may take is the agent's affair. None when it wants an end."""
    while True:
        try:
            return introduce(socket.create_connection((address, port), timeout=_LOOK_SECONDS), token, name)
        except (OSError, Closed):
            pass
        numbers, _ = wakeup.wait(_RETRY_SECONDS)
        if signal.SIGTERM in numbers or signal.SIGINT in numbers:
            return None


class Work:
    """One command of the head's `ssh`."""

    def __init__(self, number: int, process: subprocess.Popen[bytes]) -> None:
        self.number = number
        self.process = process


class Door:
    def __init__(self, line: Line, env: dict[str, str], wakeup: Wakeup) -> None:
        self._line = line
        self._env = env
        self._wakeup = wakeup
        self._works: dict[int, Work] = {}
        self._outputs: dict[int, tuple[int, int]] = {}  # descriptor → number of the work, 1 or 2

    def run(self) -> int:
        self._wakeup.watch(self._line.fileno())
        try:
            while True:
                numbers, ready = self._wakeup.wait(_LOOK_SECONDS)
                if signal.SIGTERM in numbers or signal.SIGINT in numbers:
                    return _ASKED_TO_END
                for descriptor in ready:
                    if descriptor in self._outputs:
                        self._pass_on(descriptor)
                self._reap()
                if self._line.fileno() in ready:
                    code = self._obey()
                    if code is not None:
                        return code
        except Closed as error:
            sys.stderr.write(
                "trainmark: the node that runs the command has gone: connection closed by peer: %s\n" % error
            )
            return _FAILED

    def _obey(self) -> int | None:
        for header, _ in self._line.read():
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
        """The text is the command's own, made for the shell that sshd would give it."""
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._works[number] = Work(number, process)
        for place, stream in ((1, process.stdout), (2, process.stderr)):
            assert stream is not None  # noqa: S101 - asked for above
            os.set_blocking(stream.fileno(), False)
            self._outputs[stream.fileno()] = (number, place)
            self._wakeup.watch(stream.fileno())

    def _kill(self, number: int) -> None:
        """Nobody waits for it any more; what does not listen ends with the round."""
        work = self._works.get(number)
        if work is not None:
            try:
                os.killpg(work.process.pid, signal.SIGTERM)
            except OSError:
                pass

    def _pass_on(self, descriptor: int) -> None:
        number, place = self._outputs[descriptor]
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._line.say({"op": "output", "id": number, "value": place}, data)
        else:
            self._wakeup.forget(descriptor)
            del self._outputs[descriptor]

    def _reap(self) -> None:
        for number, work in list(self._works.items()):
            code = work.process.poll()
            if code is None:
                continue
            # What it has said is passed on first; a child it left behind may keep its streams open.
            for descriptor, (owner, _) in list(self._outputs.items()):
                if owner == number:
                    self._pass_on(descriptor)
            self._line.say({"op": "exit", "id": number, "value": code if code >= 0 else 128 - code})
            del self._works[number]
