"""Facts about the host of a relay for `doctor`; the controller judges them."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
from typing import Any

from trainmark.agent.files import to_json
from trainmark.agent.linux import Proc
from trainmark.agent.placeholders import AGENT, agent_command
from trainmark.agent.ports import Ports, PortTaken
from trainmark.agent.reasons import reason
from trainmark.agent.relay.containers import ask, run, why_not_ready
from trainmark.devices.cpu.node import detect

_SECONDS = 60.0
_DETECT_SECONDS = 20.0  # each tool has a deadline of its own
_LISTEN_SECONDS, _REACH_SECONDS = 60.0, 5.0
# Run by the ranks' Python, inside the container and with the modules of the site: what it can train with, and which
# programs and files it finds.
_ASK = """
import importlib.util, json, os, shutil, sys
asked = json.loads(sys.argv[1])
sys.path[1:1] = asked["path"]
found = {
    "python": sys.version.split()[0],
    "without": [name for name in asked["modules"] if importlib.util.find_spec(name) is None],
    "missing": [name for name in asked["programs"] if shutil.which(name, path=asked["search"]) is None],
    "closed": [path for path in asked["files"] if not (os.path.isfile(path) and os.access(path, os.R_OK))],
}
if asked["deep"]:
    try:
        import torch
        found["torch"] = torch.__version__
    except Exception as error:
        found["torch_error"] = "%s: %s" % (type(error).__name__, error)
print(json.dumps(found))
"""


def check(asked: dict[str, Any], work: str) -> dict[str, Any]:
    facts = detect()
    room = os.statvfs(work)
    return {
        "python": sys.version.split()[0],
        "cores": len(facts["cpu"]["allowed"]),
        "model": facts["cpu"]["model"],
        "memory": facts["memory_bytes"],
        "flags": facts["cpu"]["flags"],
        "load": os.getloadavg()[0],
        "disk": room.f_bavail * room.f_frsize,
        "devices": devices(asked.get("vendors")),
        "unreadable": {path: why for path, why in ((path, _unreadable(path)) for path in asked["data"]) if why},
        "taken": _taken(asked["ports"]),
        "pythons": {name: _ranks(each) for name, each in asked["pythons"].items()},
        "container": _container(asked.get("container")),
    }


def node_health(asked: dict[str, Any]) -> dict[str, Any]:
    from trainmark.agent.health.collect import health  # few relays are asked for it

    return {"facts": health(asked["paths"])}


def devices(vendors: list[str] | None, agent: list[str] | None = None) -> dict[str, Any]:
    """What `detect` says, by vendor; None asks for all. In a process of its own: a library may hang. `agent` is the
    command of this node side, where the caller is not itself an agent."""
    if vendors == []:
        return {}
    words = ["detect", *(vendors or [])]
    code, text = run([*agent, *words] if agent else agent_command([AGENT, *words]), _DETECT_SECONDS)
    try:
        found = json.loads(text.splitlines()[-1])
        if code == 0 and isinstance(found, dict):
            return found
    except (IndexError, ValueError):
        pass
    wrong = reason("device-tool-hangs", tool="detect", seconds=_DETECT_SECONDS)
    if code != 124:
        wrong = reason("device-tool-failed", tool="detect", said=text.splitlines()[-1] if text else str(code))
    return {vendor: {"count": 0, "driver": None, "devices": [], "problem": wrong} for vendor in vendors or []}


def _unreadable(path: str) -> str | None:
    if not os.path.exists(path):
        return "it is not there"
    return None if os.access(path, os.R_OK) else "it cannot be read"


def _taken(ports: list[int]) -> str | None:
    held = Ports(Proc())
    try:
        held.hold([port for port in ports if port])
    except PortTaken as error:
        return error.text
    finally:
        held.release()
    return None


def _ranks(asked: dict[str, Any]) -> dict[str, Any]:
    """What a Python of the ranks answers, started the way a rank would be."""
    argv = [*asked["argv"], "-c", _ASK, to_json(asked["question"])]
    code, text = run(argv, _SECONDS)
    try:
        found = json.loads(text.splitlines()[-1])
        if code == 0 and isinstance(found, dict):
            return found
    except (IndexError, ValueError):
        pass
    why = text.splitlines()[-1] if text else "exit code %d" % code
    return {"error": why if why.startswith(argv[0]) else "%s: %s" % (argv[0], why)}


def _container(container: dict[str, Any] | None) -> dict[str, Any] | None:
    if not container:
        return None
    problem = why_not_ready(container)
    if problem:
        return dict(problem)
    _, text = ask(container["engine"], "image", "inspect", "--format", "{{.Id}} {{.RepoDigests}}", container["image"])
    identity, _, digests = text.partition(" ")
    return {"id": identity, "digests": digests.strip("[] ").split()}


class SharedFolder:
    """Checks that a folder is the same one on all hosts: one writes a token that all must read, and holds a lock
    that no other may get."""

    def __init__(self, path: str, token: str) -> None:
        self._token = token
        self._path = os.path.join(os.path.expanduser(path), ".trainmark-%s" % token)
        self._fd = -1

    def step(self, name: str) -> str | None:
        """`hold`, `look` or `end`; why it failed, or None."""
        try:
            return {"hold": self._hold, "look": self._look, "end": self._end}[name]()
        except OSError as error:
            return "%s: %s" % (error.filename or self._path, error.strerror)

    def _hold(self) -> str | None:
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        os.write(self._fd, self._token.encode())
        os.fsync(self._fd)
        fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return None

    def _look(self) -> str | None:
        descriptor = os.open(self._path, os.O_RDWR)
        try:
            if os.read(descriptor, 256) != self._token.encode():
                return "what one host wrote, this one does not read"
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return None  # held by the other host, as it should be
            return "a lock that one host holds is not seen by this one"
        finally:
            os.close(descriptor)

    def _end(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            os.unlink(self._path)


def shared_folder(folder: str, token: str) -> dict[str, Any]:
    """The verb: the check from inside a container."""
    return {"why": SharedFolder(folder, token).step("look")}


def look_inside(argv: list[str]) -> str | None:
    """The same check from inside a container; `argv` runs `shared-folder` there."""
    code, text = run(argv, _SECONDS)
    try:
        found = json.loads(text.splitlines()[-1])
        return found["why"] if code == 0 else text
    except (IndexError, ValueError, KeyError, TypeError):
        return text or "exit code %d" % code


def clear_caches(asked: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001
    """Makes the kernel drop cached files; a warning when it could not."""
    path = "/proc/sys/vm/drop_caches"
    os.sync()
    try:
        with open(path, "w") as file:
            file.write("3\n")
        return {"warnings": []}
    except OSError:
        pass
    try:
        done = subprocess.run(
            ["sudo", "-n", "tee", path], input=b"3\n", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=30
        )
        why = done.stderr.decode("utf-8", "replace").strip() if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        why = str(error)
    return {"warnings": [reason("caches-not-cleared", why=why)] if why else []}


def listen(asked: dict[str, Any]) -> dict[str, Any]:
    """Opens a port at which others are told the token, for a minute."""
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    server.bind(("", 0))
    server.listen(128)
    server.settimeout(_LISTEN_SECONDS)
    threading.Thread(target=_serve, args=(server, asked["token"]), daemon=True).start()
    return {"port": int(server.getsockname()[1])}


def _serve(server: socket.socket, token: str) -> None:
    try:
        while True:
            peer, _ = server.accept()
            with peer:
                peer.sendall(token.encode())
    except OSError:
        server.close()


def reach(asked: dict[str, Any]) -> dict[str, Any]:
    """Why each of the targets that cannot be reached cannot; all are tried at once."""
    failed: dict[str, str] = {}
    tries = [threading.Thread(target=_try, args=(target, asked["token"], failed)) for target in asked["targets"]]
    for each in tries:
        each.start()
    for each in tries:
        each.join()
    return {"failed": failed}


def _try(target: dict[str, Any], token: str, failed: dict[str, str]) -> None:
    try:
        with socket.create_connection((target["host"], target["port"]), _REACH_SECONDS) as peer:
            peer.settimeout(_REACH_SECONDS)
            said = peer.recv(256)
        if said != token.encode():
            failed[target["host"]] = "somebody else answers there"
    except OSError as error:
        failed[target["host"]] = str(error)
