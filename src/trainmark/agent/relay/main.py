"""The relay: serves a controller on a node that it shares no file system with.

It lives as long as the connection. Agents it starts do not depend on it: they go on when the connection is lost, and
another relay continues where this one stopped, since everything it sends is named by file and offset.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import signal
import tarfile
import threading
import time
from typing import Any, Callable

from trainmark.agent import linux, private
from trainmark.agent.events.spools import remove_spool
from trainmark.agent.files import read_json, replace_json, write_all
from trainmark.agent.node_plan import HANDED, NODE_PLAN
from trainmark.agent.ports import Ports, PortTaken
from trainmark.agent.relay import check, slurm_setup
from trainmark.agent.relay.attempt import WatchedAttempt
from trainmark.agent.relay.containers import Images, why_not_ready
from trainmark.agent.relay.frames import GREETING, Decoder, FrameError, encode
from trainmark.agent.wakeup import Wakeup

BEAT_SECONDS = 1.0
_LONG = (
    *(
        "check",
        "health",
        "monitor",
        "share",
        "reach",
        "image",
        "pull",
        "build",
        "save",
        "load",
        "prepare",
        "clear_caches",
    ),
    *("slurm_facts", "slurm_start", "slurm_states"),
)
_LEASE = "lease.json"


class Relay:
    """Answers requests, one frame at a time, and sends new parts of files once a second."""

    def __init__(self, work: str) -> None:
        self.work = work
        self._decoder = Decoder()
        self._talking = threading.Lock()
        self._watches: dict[str, WatchedAttempt] = {}
        self._held: Ports | None = None
        self._shared: check.SharedFolder | None = None
        self._verbs: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "ping": self._ping,
            "have": self._have,
            "tree": self._tree,
            "ports": self._ports,
            "start": self._start,
            "watch": self._watch,
            "order": self._order,
            "destroy": self._destroy,
            "forget": self._forget,
            "end_relay": self._end_relay,
            "check": self._check,
            "health": check.node_health,
            "monitor": self._monitor,
            "clear_caches": check.clear_caches,
            "listen": check.listen,
            "reach": check.reach,
            "share": self._share,
            **slurm_setup.VERBS,
            **Images(work, self._progress).verbs,
        }

    def run(self) -> int:
        wakeup = Wakeup()
        wakeup.watch(0)
        hello = {"op": "hello", "host": os.uname().nodename, "work": self.work, "relay": _own_name()}
        self.send(hello)
        beat = time.monotonic() + BEAT_SECONDS
        while True:
            numbers, ready = wakeup.wait(beat - time.monotonic())
            if signal.SIGTERM in numbers or signal.SIGINT in numbers:
                return 0
            if ready and not self._read_requests():
                return 0
            if signal.SIGCHLD in numbers or time.monotonic() >= beat:
                self._send_files()
            if time.monotonic() >= beat:
                self.send({"op": "beat"})
                beat = time.monotonic() + BEAT_SECONDS

    def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        with self._talking:
            write_all(1, encode(header, payload))

    def _read_requests(self) -> bool:
        """False when the controller has closed the connection."""
        data = os.read(0, 1 << 20)
        for header, payload in self._decoder.feed(data):
            self._answer(header, payload)
        return bool(data)

    def _answer(self, header: dict[str, Any], payload: bytes) -> None:
        """What takes long is done in a thread, so that heartbeats go on."""
        if header.get("op") in _LONG:
            threading.Thread(target=self._do, args=(header, payload), daemon=True).start()
        else:
            self._do(header, payload)

    def _do(self, header: dict[str, Any], payload: bytes) -> None:
        try:
            reply = self._verbs[header["op"]](dict(self.fill(header), payload=payload))
        except OSError as error:
            where = "%s: " % error.filename if error.filename else ""
            reply = {"ok": False, "why": "%s%s" % (where, error.strerror or error)}
        except (KeyError, TypeError, ValueError) as error:
            reply = {"ok": False, "why": "not understood: %s: %s" % (type(error).__name__, error)}
        payload = reply.pop("payload", b"")
        self.send(dict({"op": "reply", "to": header.get("id"), "ok": True}, **reply), payload)

    def _progress(self, text: str) -> None:
        self.send({"op": "progress", "text": text})

    def fill(self, value: Any) -> Any:
        """%TRAINMARK_WORK%, %TRAINMARK_UID% and %TRAINMARK_GID% in every text become their values on this host."""
        if isinstance(value, str):
            if "%" not in value:
                return value
            value = value.replace("%TRAINMARK_WORK%", self.work)
            return value.replace("%TRAINMARK_UID%", str(os.getuid())).replace("%TRAINMARK_GID%", str(os.getgid()))
        if isinstance(value, dict):
            return {self.fill(name): self.fill(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.fill(inner) for inner in value]
        return value

    def _send_files(self) -> None:
        for folder, watch in list(self._watches.items()):
            if watch.tick():
                del self._watches[folder]

    # ---- verbs

    def _ping(self, header: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        return {"wall": time.time_ns()}

    def _end_relay(self, header: dict[str, Any]) -> dict[str, Any]:
        """Ends the relay of an earlier connection of the same controller: a stopped one does not notice that it has
        lost its connection."""
        name = header["relay"]
        pid, proc = int(name["pid"]), linux.Proc()
        same = name["boot_id"] == linux.boot_id() and proc.start_ticks(pid) == name["start_ticks"]
        os.close(proc.fd)
        if same and pid != os.getpid():
            os.kill(pid, signal.SIGKILL)
        return {}

    def _have(self, header: dict[str, Any]) -> dict[str, Any]:
        return {"missing": [name for name in header["trees"] if not os.path.isdir(self._tree_path(name))]}

    def _tree_path(self, name: str) -> str:
        if not name.isalnum():
            raise ValueError("a tree is named by its hash")
        return os.path.join(self.work, "trees", name)

    def _tree(self, header: dict[str, Any]) -> dict[str, Any]:
        """Unpacks files into a folder named by their hash: completely or not at all, and once for all runs."""
        path, payload = self._tree_path(header["name"]), header["payload"]
        if hashlib.sha256(payload).hexdigest()[: len(header["name"])] != header["name"]:
            raise ValueError("the files arrived damaged")
        draft = "%s.%s.%d.part" % (path, os.uname().nodename, os.getpid())  # all hosts may share this folder
        os.makedirs(draft)
        try:
            with tarfile.open(fileobj=io.BytesIO(payload)) as archive:
                members = archive.getmembers()
                if any(not member.isreg() or ".." in member.name or member.name[:1] == "/" for member in members):
                    raise ValueError("only plain files below the tree are taken")
                archive.extractall(draft, members)  # noqa: S202 - looked at above
            os.rename(draft, path)
        except OSError:
            if not os.path.isdir(path):  # another run may have done it first
                raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return {}

    def _ports(self, header: dict[str, Any]) -> dict[str, Any]:
        """Free ports, held until the agent takes them over."""
        self._release()
        held = Ports(linux.Proc())
        try:
            held.hold(header["wanted"])
        except PortTaken as error:
            return {"ok": False, "why": error.text, "kind": "port"}
        self._held = held
        return {"numbers": held.numbers}

    def _release(self) -> None:
        if self._held is not None:
            self._held.release()
            self._held = None

    def _start(self, header: dict[str, Any]) -> dict[str, Any]:
        folder, plan = header["dir"], header["plan"]
        container = header.get("container")
        if container:
            problem = why_not_ready(container)
            if problem:
                return {"ok": False, "why": problem["why"]}
        os.makedirs(folder)
        self._raise_lease(plan["lease"], header.get("lease"))
        replace_json(os.path.join(folder, NODE_PLAN), plan, mode=private.FILE)
        if header["payload"]:
            _put_handed(os.path.join(folder, HANDED), json.loads(header["payload"]))
        self._release()
        watch = WatchedAttempt(self.send, header, {})
        watch.start(header["argv"])
        self._watches[folder] = watch
        return {}

    def _raise_lease(self, path: str, epoch: Any) -> None:
        """The highest epoch a controller has shown to this node; agents read it before they start anything."""
        standing = read_json(path)
        known = standing.get("epoch", 0) if isinstance(standing, dict) else 0
        if isinstance(epoch, int) and epoch > known:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            replace_json(path, {"epoch": epoch})

    def _watch(self, header: dict[str, Any]) -> dict[str, Any]:
        """Continues with an attempt that an earlier relay started."""
        folder = header["dir"]
        self._raise_lease(header["lease_file"], header.get("lease"))
        watch = WatchedAttempt(self.send, header, header.get("have") or {})
        begun = watch.begun()
        if begun:
            self._watches[folder] = watch
        return {"begun": begun}

    def _order(self, header: dict[str, Any]) -> dict[str, Any]:
        """Writes control.json for the agent, which checks the epoch."""
        watch = self._watches.get(header["dir"])
        if watch is None:
            return {"ok": False, "why": "there is no such attempt"}
        self._raise_lease(header["lease_file"], header.get("lease"))
        replace_json(os.path.join(header["dir"], "control.json"), header["control"])
        if header["control"].get("command") != "adopt":
            watch.nudge()
        return {}

    def _destroy(self, header: dict[str, Any]) -> dict[str, Any]:
        """Kills an attempt, also one that is not watched any more."""
        watch = self._watches.get(header["dir"]) or WatchedAttempt(self.send, header, {})
        watch.destroy()
        return {}

    def _forget(self, header: dict[str, Any]) -> dict[str, Any]:
        """Removes what was collected, and the folders above it that are empty by then."""
        for folder in header["dirs"]:
            self._remove(folder)
        return {}

    def _remove(self, folder: str) -> None:
        top = os.path.join(self.work, "runs")
        if not folder.startswith(top + os.sep) or ".." in folder:
            raise ValueError("%s is not below %s" % (folder, top))
        self._watches.pop(folder, None)
        remove_spool(folder)  # may be outside the folder
        shutil.rmtree(folder, ignore_errors=True)
        while len(folder) > len(top):
            folder = os.path.dirname(folder)
            if folder != top and os.path.isdir(folder) and set(os.listdir(folder)) <= {_LEASE}:
                shutil.rmtree(folder, ignore_errors=True)

    def _monitor(self, header: dict[str, Any]) -> dict[str, Any]:
        from trainmark.agent.exporter.control import monitor
        from trainmark.agent.placeholders import AGENT, agent_command

        runs = [os.path.expanduser(path) for path in header["runs"]] or [os.path.join(self.work, "runs")]
        return monitor(dict(header, runs=runs), self.work, agent_command([AGENT, ""])[:-1])

    def _check(self, header: dict[str, Any]) -> dict[str, Any]:
        return check.check(header, self.work)

    def _share(self, header: dict[str, Any]) -> dict[str, Any]:
        if header.get("argv"):
            return {"why": check.look_inside(header["argv"])}
        self._shared = self._shared or check.SharedFolder(header["path"], header["token"])
        why = self._shared.step(header["step"])
        if header["step"] == "end":
            self._shared = None
        return {"why": why}


def _put_handed(folder: str, files: dict[str, str]) -> None:
    private.make_folder(folder)
    for name, text in files.items():
        path = os.path.join(folder, os.path.basename(name))
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, private.FILE)
        try:
            write_all(descriptor, text.encode())
        finally:
            os.close(descriptor)


def _own_name() -> dict[str, Any]:
    """Names this very process, also when its pid is somebody else's later."""
    pid, proc = os.getpid(), linux.Proc()
    try:
        return {"pid": pid, "start_ticks": proc.start_ticks(pid), "boot_id": linux.boot_id()}
    finally:
        os.close(proc.fd)


def serve(work: str) -> int:
    """The verb: serves on standard input and output until the controller closes them."""
    private.keep_folder(work)
    write_all(1, b"\n" + GREETING + b"ready\n")
    try:
        return Relay(work).run()
    except (BrokenPipeError, FrameError):
        return 0
