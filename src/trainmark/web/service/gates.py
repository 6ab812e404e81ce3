"""Connections to the gates of jobs: on this machine, or through an ssh that lasts as long as it is used.

Both sides prove that they know the key of the attempt. So neither a port of this machine that another account has
taken, nor a file that a job wrote, leads to anything but the job itself.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from trainmark.agent.events.reader import open_plain
from trainmark.agent.mpi.messages import Connection, ConnectionLost, join_head
from trainmark.agent.workers.gate import TOLD, gate_key
from trainmark.agent.workers.programs import jupyter_token
from trainmark.errors import SiteError
from trainmark.launch.protocol import launcher_of
from trainmark.store.files import read_json
from trainmark.store.rundir import NODE_PLAN, RunDir, node_index
from trainmark.web.service.errors import Conflict

_CONNECT_SECONDS, _ANSWER_SECONDS = 30.0, 90.0
_LOOK_SECONDS = 0.1
# A connection to another host that nobody used for so long is closed.
_IDLE_SECONDS = 600.0
_GONE = "the job's node does not answer; the job may have ended just now"
# What the gate says of a program, by its code; the rest is what a program said itself.
_WHY = {
    "not-open": "is not open",
    "unknown": "is not known to this job",
    "no-answer": "was started and does not answer",
    "nobody-listens": "nobody listens there in the job",
}
_PACKAGES = {"tensorboard": "tensorboard", "jupyter": "jupyterlab"}


class _Place(msgspec.Struct, frozen=True):
    """Where a gate is."""

    run: RunDir
    host: str
    port: int
    key: str


class _Forward:
    """An ssh by which a port of another host is a port of this machine. It ends with its input, so also when this
    process is killed."""

    def __init__(self, argv: list[str], here: int) -> None:
        self.here, self.used = here, time.monotonic()
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def why(self) -> str:
        said = self._process.stderr.read().decode(errors="replace") if self._process.stderr else ""
        lines = [line for line in said.splitlines() if line.strip()]
        return lines[-1].strip() if lines else f"ssh ended with code {self._process.returncode}"

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stderr):
            if pipe is not None:
                pipe.close()
        self._process.terminate()
        self._process.wait()


class Gates:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forwards: dict[tuple[str, str, int], _Forward] = {}

    def ask(self, run: RunDir, **asked: Any) -> dict[str, Any]:
        """`do=start|stop|list, name=…`: how the programs of a job stand after it."""
        with self._open(_place(run)) as raw:
            found = _answered(raw, {"op": "ask", **asked}, "told").get("programs")
        return found if isinstance(found, dict) else {}

    def connect(self, run: RunDir, name: str) -> socket.socket:
        """A connection to one of them."""
        raw = self._open(_place(run))
        try:
            _answered(raw, {"op": "ask", "do": "connect", "name": name}, "open")
            raw.settimeout(None)
        except BaseException:
            raw.close()
            raise
        return raw

    def token(self, run: RunDir) -> str:
        """By which the job's Jupyter lets one in."""
        return jupyter_token(_place(run).key)

    def is_here(self, run: RunDir) -> bool:
        """Whether the job runs on this machine."""
        return self._forward(_place(run)) is None

    def tidy(self) -> None:
        """Closes what nobody uses."""
        with self._lock:
            for key, one in list(self._forwards.items()):
                if not one.alive or time.monotonic() - one.used > _IDLE_SECONDS:
                    self._forwards.pop(key).close()

    def close(self) -> None:
        with self._lock:
            for one in self._forwards.values():
                one.close()
            self._forwards.clear()

    def _open(self, place: _Place) -> socket.socket:
        forward = self._forward(place)
        deadline = time.monotonic() + _CONNECT_SECONDS
        while True:
            try:
                raw = socket.create_connection(("127.0.0.1", forward.here if forward else place.port), 10.0)
            except OSError:
                if forward is None or time.monotonic() > deadline:
                    raise Conflict(_GONE) from None
                if not forward.alive:
                    raise SiteError(f"{place.host} cannot be reached: {forward.why()}") from None
                time.sleep(_LOOK_SECONDS)
                continue
            try:
                join_head(raw, gate_key(place.key), "server")
                raw.settimeout(_ANSWER_SECONDS)
                return raw
            except ConnectionLost:
                raw.close()
                raise Conflict(_GONE) from None

    def _forward(self, place: _Place) -> _Forward | None:
        """None: it is on this machine."""
        key = (str(place.run.path), place.host, place.port)
        with self._lock:
            found = self._forwards.get(key)
            if found is not None and found.alive:
                found.used = time.monotonic()
                return found
            site = place.run.manifest().plan.site
            here = _free_port()
            argv = launcher_of(site).forward(site, place.host, place.port, here)
            if argv is None:
                return None
            if found is not None:
                found.close()
            made = self._forwards[key] = _Forward(argv, here)
            return made


def host_of(run: RunDir) -> str:
    """Where the first worker of a job runs, as the site names it."""
    return _place(run).host


def first_node(run: RunDir) -> Path | None:
    """The folder of the first node in the newest attempt of a job's only round."""
    found = [file.parent for file in run.path.glob(f"*/round*/attempt*/*/{NODE_PLAN}") if node_index(file.parent) == 0]
    return max(found, key=lambda folder: int(folder.parent.name.removeprefix("attempt")), default=None)


def _place(run: RunDir) -> _Place:
    folder = first_node(run)
    plan = read_json(folder / NODE_PLAN) if folder is not None else None
    if folder is None or not isinstance(plan, dict):
        raise Conflict("the job has not begun")
    port = _told_port(folder)
    if port is None or not plan.get("key"):
        raise Conflict("the job is starting; try again in a moment")
    return _Place(run, str(plan.get("host") or os.uname().nodename), port, str(plan["key"]))


def _told_port(folder: Path) -> int | None:
    """The job may have written anything there."""
    try:
        descriptor = open_plain(str(folder / TOLD))
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        lines = file.read(65536).splitlines()
    try:
        found = msgspec.json.decode(lines[-1], type=dict[str, Any]).get("gate") if lines else None
    except msgspec.DecodeError:
        return None
    return found if type(found) is int and 0 < found < 65536 else None


def _answered(raw: socket.socket, asked: dict[str, Any], op: str) -> dict[str, Any]:
    connection = Connection(raw)
    try:
        connection.send(asked)
        frames: list[Any] = []
        while not frames:
            frames = connection.read()
    except ConnectionLost:
        raise Conflict(_GONE) from None
    found: dict[str, Any] = frames[0][0]
    if found.get("op") == "refused":
        raise Conflict(refusal(str(found.get("name")), str(found.get("why"))))
    if found.get("op") != op:
        raise Conflict(_GONE)
    return found


def refusal(name: str, why: str) -> str:
    """Why a program cannot be had, in words."""
    if why.startswith("missing ") and name in _PACKAGES:
        package, where = _PACKAGES[name], why.removeprefix("missing ")
        return (
            f"{name}: {package} is not installed in the job's environment ({where[:300]}); "
            f"`pip install {package}` there, or in the job's image"
        )
    return f"{name}: {_WHY.get(why, why)[:400]}"


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
