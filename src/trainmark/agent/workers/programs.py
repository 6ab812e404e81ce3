"""Programs that run beside a job's command for people, in its environment: JupyterLab, TensorBoard, an sshd.

Each listens on a socket in a folder that other accounts cannot enter (sshd on a port, with keys). They end on request,
and with the worker at the latest.
"""

from __future__ import annotations

import hmac
import os
import pkgutil
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any, Mapping

from trainmark.agent.files import write_file
from trainmark.agent.linux import Proc
from trainmark.agent.ports import Ports
from trainmark.agent.workers.sshd import Sshd, SshError

NAMES = ("tensorboard", "jupyter", "ssh")
PORT = "port-"
_MODULES = {"tensorboard": "tensorboard", "jupyter": "jupyterlab"}
_BOARD = "tensorboard_on_socket.py"
_READY_SECONDS, _LOOK_SECONDS, _END_SECONDS = 60.0, 0.1, 4.0
_CONNECT_SECONDS = 10.0
_HAS = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"


class NotThere(Exception):
    """A program cannot be had. `why` is a code, or what it said itself."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(why)
        self.name, self.why = name, why


def jupyter_token(key: str) -> str:
    """The server knows it without being told."""
    return hmac.new(key.encode(), b"jupyter", "sha256").hexdigest()


class Programs:
    def __init__(self, settings: Mapping[str, Any], key: str, spool: str, env: Mapping[str, str]) -> None:
        self._settings, self._key, self._env = settings, key, env
        # Next to the worker's own folder, by a name of one letter: a socket's path has at most 107 bytes.
        self._folder = os.path.join(os.path.dirname(spool), "e")
        os.makedirs(self._folder, 0o700, exist_ok=True)
        self._spool = spool
        self._lock = threading.Lock()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._ports = {PORT + str(port): int(port) for port in settings.get("ports") or ()}
        self._held = Ports(Proc())
        # That of the workers among themselves; else one of its own, while it is open.
        self._shared_sshd: Sshd | None = None
        self._own_sshd: Sshd | None = None
        self._entry: dict[str, Any] | None = None
        self._keys: list[str] = []

    # ---- what the gate is asked for

    def order(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """`start` or `stop` one of them; then how all of them stand."""
        name = str(asked.get("name"))
        if asked.get("do") == "start" and name not in self._ports:
            self.start(name, [str(key) for key in asked.get("keys") or ()])
        elif asked.get("do") == "stop":
            with self._lock:
                self._stop(name)
        return self._states()  # without the lock: who only looks does not wait for one that starts

    def connect(self, name: str) -> socket.socket:
        """One that has just been started is waited for."""
        if name in self._ports:
            return _connect_port(name, self._ports[name])
        if name not in _MODULES:
            raise NotThere(name, "not-open")
        deadline = time.monotonic() + _READY_SECONDS
        while True:
            with self._lock:
                process = self._running.get(name)
                if process is None:
                    raise NotThere(name, "not-open")
                if process.poll() is not None:
                    raise NotThere(name, self._last_words(name, process))
            made = socket.socket(socket.AF_UNIX)
            try:
                made.connect(self._socket(name))
                return made
            except OSError:
                made.close()
            if time.monotonic() > deadline:
                raise NotThere(name, "no-answer")
            time.sleep(_LOOK_SECONDS)

    # ---- starting and ending

    def start(self, name: str, keys: list[str]) -> None:
        with self._lock:
            self._start(name, keys)

    def _start(self, name: str, keys: list[str]) -> None:
        if name == "ssh":
            self._open_ssh(keys)
            return
        running = self._running.get(name)
        if running is not None and running.poll() is None:
            return
        if name not in _MODULES:
            raise NotThere(name, "unknown")
        python = self._python(name, _MODULES[name])
        start = self._jupyter if name == "jupyter" else self._tensorboard
        self._running[name] = start(python)

    def _python(self, name: str, module: str) -> str:
        """The Python of the job's environment that has the module: the one the site names, then those of its PATH, then
        the agent's own, which on this machine is the server's."""
        path = self._env.get("PATH")
        found = [str(self._settings.get("python") or ""), shutil.which("python3", path=path)]
        found += [shutil.which("python", path=path), sys.executable]
        pythons = list(dict.fromkeys(python for python in found if python))
        for python in pythons:
            try:
                asked = [python, "-c", _HAS, module]
                done = subprocess.run(asked, env=dict(self._env), cwd="/", stdin=subprocess.DEVNULL, timeout=60)
                if done.returncode == 0:
                    return python
            except (OSError, subprocess.TimeoutExpired):
                continue
        raise NotThere(name, "missing " + " ".join(pythons))

    def _jupyter(self, python: str) -> subprocess.Popen[bytes]:
        _remove(self._socket("jupyter"))
        runtime = os.path.join(self._folder, "j")
        os.makedirs(runtime, 0o700, exist_ok=True)
        argv = [python, "-m", "jupyterlab", "--no-browser", "--ServerApp.sock=" + self._socket("jupyter")]
        # The browser's own host name stays in the requests, and is compared with the page they come from.
        argv += ["--ServerApp.allow_remote_access=True", "--ServerApp.root_dir=" + self._env["HOME"]]
        # Kernels on sockets, too: what they print could be read at a port by every account of the host.
        argv += ["--KernelManager.transport=ipc", "--ServerApp.open_browser=False"]
        if os.geteuid() == 0:
            argv.append("--allow-root")
        more = {"JUPYTER_TOKEN": jupyter_token(self._key), "JUPYTER_RUNTIME_DIR": runtime, "JUPYTER_NO_CONFIG": "1"}
        return self._run("jupyter", argv, more)

    def _tensorboard(self, python: str) -> subprocess.Popen[bytes]:
        program = os.path.join(self._folder, _BOARD)
        write_file(program, (pkgutil.get_data(__package__, _BOARD) or b"").decode())
        listener = socket.socket(socket.AF_UNIX)
        try:
            _remove(self._socket("tensorboard"))
            listener.bind(self._socket("tensorboard"))
            listener.listen(64)
            logs = os.path.join(self._env["HOME"], "tensorboard", self._settings["job"], "logs")
            argv = [python, program, str(listener.fileno()), logs]
            return self._run("tensorboard", argv, {"TMPDIR": self._folder}, (listener.fileno(),))
        finally:
            listener.close()

    def _run(
        self, name: str, argv: list[str], more: dict[str, str], handed: tuple[int, ...] = ()
    ) -> subprocess.Popen[bytes]:
        with open(self._log(name), "wb") as log:
            # A session of its own: a signal for the command does not end it before the command has ended.
            return subprocess.Popen(
                argv,
                env=dict(self._env, **more),
                cwd=self._env["HOME"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=handed,
            )

    def _stop(self, name: str) -> None:
        if name == "ssh":
            self._close_ssh()
            return
        process = self._running.pop(name, None)
        if process is not None:
            _end(process)
            _remove(self._socket(name))

    def close(self) -> None:
        with self._lock:
            for process in self._running.values():
                _signal(process, signal.SIGTERM)
            for name in list(self._running):
                self._stop(name)
            self._close_ssh()
            shutil.rmtree(self._folder, ignore_errors=True)

    # ---- ssh

    def use_sshd(self, found: Sshd) -> None:
        """That of the workers among themselves serves people, too."""
        self._shared_sshd = found

    def _open_ssh(self, keys: list[str]) -> None:
        """For these keys, besides those that were let in before."""
        self._keys = list(dict.fromkeys([*self._keys, *keys]))
        try:
            found = self._shared_sshd or self._own_sshd
            if found is None:
                self._held.hold([0])
                found = Sshd(self._spool, self._held.numbers[-1])
                found.serve(self._keys, self._env)
                self._own_sshd = found
            else:
                found.let_in(self._keys)
        except (SshError, OSError) as error:
            raise NotThere("ssh", str(error)) from None
        self._entry = found.entry()

    def _close_ssh(self) -> None:
        """Nobody enters any more; who is in stays until the job ends."""
        self._keys, self._entry = [], None
        if self._own_sshd is not None:
            self._own_sshd.stop()
            self._own_sshd = None
            self._held.release()
        elif self._shared_sshd is not None:
            self._shared_sshd.let_in([])

    # ---- how they stand

    def _states(self) -> dict[str, Any]:
        found: dict[str, Any] = {name: {"state": "open"} for name in self._ports}
        for name, process in dict(self._running).items():
            code = process.poll()
            if code is None:
                found[name] = {"state": "open" if os.path.exists(self._socket(name)) else "starting"}
            else:
                found[name] = {"state": "ended", "why": self._last_words(name, process)}
        entry = self._entry
        if entry is not None:
            found["ssh"] = dict(entry, state="open")
        return found

    def _last_words(self, name: str, process: subprocess.Popen[bytes]) -> str:
        try:
            with open(self._log(name), errors="replace") as log:
                lines = [line.strip() for line in log.read()[-4000:].splitlines() if line.strip()]
        except OSError:
            lines = []
        return "ended with code %s: %s" % (process.returncode, lines[-1][-300:] if lines else "")

    def _socket(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _log(self, name: str) -> str:
        return os.path.join(self._folder, name + ".log")


def _connect_port(name: str, port: int) -> socket.socket:
    try:
        made = socket.create_connection(("127.0.0.1", port), _CONNECT_SECONDS)
    except OSError:
        raise NotThere(name, "nobody-listens") from None
    made.settimeout(None)  # a program may take its time to read
    return made


def _end(process: subprocess.Popen[bytes]) -> None:
    _signal(process, signal.SIGTERM)
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        _signal(process, signal.SIGKILL)
        process.wait()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """To it and what it started, apart from kernels, which it ends itself."""
    if process.poll() is None:
        os.killpg(process.pid, number)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
