"""The verb `worker`: prepares what the command of a job finds, runs it, and stays until all workers have done."""

from __future__ import annotations

import hmac
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any

from trainmark.agent.files import read_json, to_json
from trainmark.agent.mpi.head import listen
from trainmark.agent.mpi.messages import Connection, ConnectionLost, accept_member, join_head
from trainmark.agent.mpi.node_setup import NO_KEY, attempt_key
from trainmark.agent.workers import home, sshd
from trainmark.agent.workers.gate import Gate
from trainmark.agent.workers.programs import NotThere, Programs

SETTINGS, COMMAND = "worker.json", "command.sh"
_LOOK_SECONDS, _RETRY_SECONDS = 0.2, 0.2
_FAILED = 1


def worker(*words: str) -> int:
    """Arguments: this worker's number and, for several that reach each other, the port of their sshd, the port where
    they meet, and the hosts of all. Returns the exit code of the command."""
    env = dict(os.environ)
    folder = os.path.dirname(env["TRAINMARK_CONFIG"])
    settings = read_json(os.path.join(folder, SETTINGS))
    if not isinstance(settings, dict):
        sys.stderr.write("trainmark: %s is not there\n" % SETTINGS)
        return _FAILED
    made = None  # type: Worker | None
    try:
        made = Worker(int(words[0]), list(words[3:]), settings, folder, env)
        if len(words) > 3:
            made.meet(int(words[1]), int(words[2]))
        return made.work()
    except (ConnectionLost, sshd.SshError) as error:
        sys.stderr.write("trainmark: the workers of this job cannot reach each other: %s\n" % error)
        return _FAILED
    except OSError as error:
        sys.stderr.write("trainmark: %s\n" % error)
        return _FAILED
    finally:
        if made is not None:
            made.close()


class Worker:
    def __init__(self, index: int, hosts: list[str], settings: dict[str, Any], folder: str, env: dict[str, str]):
        self._index, self._hosts, self._settings, self._folder, self._env = index, hosts, settings, folder, env
        self._spool = os.path.join(env["TRAINMARK_SPOOLS"], "worker")
        self._cwd = home.prepare(settings, index, hosts, folder, self._spool, env)
        self._others: dict[int, Connection] = {}  # of the head: the other workers; of those: the head, as number 0
        self._sshd: sshd.Sshd | None = None
        self._programs: Programs | None = None
        self._gate: Gate | None = None
        self._asked_to_end = False
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

    @property
    def _runs_command(self) -> bool:
        return self._index == 0 or self._settings["run_on"] == "all"

    # ---- meeting

    def meet(self, ssh_port: int, meeting_port: int) -> None:
        """All workers know each other's keys, and each has its sshd, before any of them runs the command."""
        key = attempt_key(self._env)
        if not key:
            raise ConnectionLost(NO_KEY.strip())
        self._sshd = sshd.Sshd(self._spool, ssh_port)
        mine = dict(self._sshd.public_keys(), index=self._index)
        if self._index == 0:
            known = {0: mine}
            for number, (connection, said) in self._gather(meeting_port, key).items():
                self._others[number] = connection
                known[number] = said
            peers = [known[number] for number in range(len(self._hosts))]
            self._tell(_sealed("peers", peers, key))
        else:
            head = self._join(meeting_port, key)
            self._others[0] = head
            head.send(_sealed("keys", mine, key))
            peers = _opened(head.expect("peers"), key)
        self._sshd.start(peers, self._hosts, self._env)
        if self._index == 0:
            for other in self._others.values():
                other.expect("up")
            self._tell({"op": "go"})
        else:
            self._others[0].send({"op": "up"})
            self._others[0].expect("go")

    def _gather(self, port: int, key: str) -> dict[int, tuple[Connection, dict[str, Any]]]:
        """The agent has the deadline."""
        found: dict[int, tuple[Connection, dict[str, Any]]] = {}
        listener = listen(port)
        try:
            while len(found) < len(self._hosts) - 1:
                raw, _ = listener.accept()
                try:
                    connection, name = accept_member(raw, key)
                    said = _opened(connection.expect("keys"), key)
                    if str(said.get("index")) == name and 0 < int(name) < len(self._hosts):
                        found[int(name)] = (connection, said)
                except ConnectionLost:
                    raw.close()  # not a worker: scanners try every port
        finally:
            listener.close()
        return found

    def _join(self, port: int, key: str) -> Connection:
        while True:
            try:
                return join_head(socket.create_connection((self._hosts[0], port), 5.0), key, str(self._index))
            except (OSError, ConnectionLost):
                time.sleep(_RETRY_SECONDS)

    def _tell(self, message: dict[str, Any]) -> None:
        for other in self._others.values():
            other.send(message)

    # ---- people

    def _open_gate(self) -> None:
        """What people may have beside the command is on the first worker. The command runs, whatever becomes of it."""
        key = attempt_key(self._env)
        if self._index or not key:
            return
        self._programs = Programs(self._settings, key, self._spool, self._env)
        if self._sshd is not None:
            self._programs.use_sshd(self._sshd)
        self._gate = Gate(key, self._folder, self._programs)
        threading.Thread(target=self._start_programs, args=(self._programs,), daemon=True).start()

    def _start_programs(self, programs: Programs) -> None:
        for name in self._settings.get("endpoints") or ():
            try:
                programs.start(name, [])
            except NotThere as error:
                sys.stderr.write("trainmark: %s: %s\n" % (name, error.why))
                sys.stderr.flush()

    # ---- working

    def work(self) -> int:
        """The command, where it is run here, and then the wait for those who still need this worker."""
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGINT, self._end)
        self._open_gate()
        process = None
        if self._runs_command:
            command = ["bash", os.path.join(self._folder, COMMAND)]
            process = subprocess.Popen(command, cwd=self._cwd, env=self._env, stdin=subprocess.DEVNULL)
        try:
            return self._serve() if process is None else self._follow(process)
        except ConnectionLost:
            if process is not None and process.poll() is None:
                process.terminate()
            raise

    def _follow(self, process: subprocess.Popen[bytes]) -> int:
        code: int | None = None
        waiting = set(self._others) if self._index == 0 and self._settings["run_on"] == "all" else set()
        while code is None or waiting:
            for number, header in self._messages():
                if header["op"] == "done":
                    waiting.discard(number)
            if code is None:
                code = process.poll()
            if code is not None and self._asked_to_end:
                return _exit_code(code)
        code = _exit_code(code)
        if self._index:
            self._others[0].send({"op": "done", "code": code})
            self._serve()
            return code
        self._keep_open(code)
        self._tell({"op": "end", "code": code})
        return code

    def _serve(self) -> int:
        """Until the head says that nobody needs this worker any more."""
        while not self._asked_to_end:
            if any(header["op"] == "end" for _, header in self._messages()):
                return 0
        return 0

    def _keep_open(self, code: int) -> None:
        seconds = float(self._settings["keep_open"])
        if seconds <= 0 or self._asked_to_end:
            return
        sys.stderr.write("trainmark: the command ended with code %d; its workers stay for %g s\n" % (code, seconds))
        sys.stderr.flush()
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._asked_to_end:
            self._messages()

    def _messages(self) -> list[tuple[int, dict[str, Any]]]:
        """What has arrived, after a short wait."""
        if not self._others:
            time.sleep(_LOOK_SECONDS)
            return []
        by_socket = {other.fileno(): number for number, other in self._others.items()}
        ready, _, _ = select.select(list(by_socket), [], [], _LOOK_SECONDS)
        return [(by_socket[one], header) for one in ready for header, _ in self._others[by_socket[one]].read()]

    def _end(self, *_: Any) -> None:
        """The signal has reached the command, too, which is in the same process group."""
        self._asked_to_end = True

    def close(self) -> None:
        if self._gate is not None:
            self._gate.close()
        if self._programs is not None:
            self._programs.close()
        if self._sshd is not None:
            self._sshd.stop()
        home.clear(self._spool, self._folder)


def _exit_code(code: int) -> int:
    return code if code >= 0 else 128 - code


def _sealed(op: str, value: Any, key: str) -> dict[str, Any]:
    """A message that nobody can have changed on its way. What is in it is public."""
    text = to_json(value)
    return {"op": op, "text": text, "seal": _seal(op, text, key)}


def _opened(message: dict[str, Any], key: str) -> Any:
    text = str(message.get("text"))
    if not hmac.compare_digest(_seal(str(message["op"]), text, key), str(message.get("seal"))):
        raise ConnectionLost("a message was changed on its way")
    return json.loads(text)


def _seal(op: str, text: str, key: str) -> str:
    return hmac.new(key.encode(), ("%s %s" % (op, text)).encode(), "sha256").hexdigest()
