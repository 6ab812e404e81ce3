"""Starts, stops and looks at the exporter of this node. What is known of it is in a file of the work folder."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.request
from typing import Any, Dict, List

from trainmark.agent import private
from trainmark.agent.files import read_json, replace_json
from trainmark.agent.linux import Proc

_FILE, _LOG = "monitor.json", "monitor.log"
_START_SECONDS, _STOP_SECONDS = 20.0, 5.0


def monitor(asked: Dict[str, Any], work: str, agent: List[str]) -> Dict[str, Any]:
    """`asked`: `action` (start, stop, status), `address`, `port`, `runs`. `agent` is the command of the node side."""
    if not os.path.isdir(work):
        private.keep_folder(work)
    path = os.path.join(work, _FILE)
    # Another account's record would make us end a process of its choice.
    known = _alive(read_json(path)) if private.is_ours(path) else None
    if asked["action"] == "stop":
        return {"stopped": _stop(known)}
    if asked["action"] == "start" and known is None:
        return _start(asked, work, agent)
    if known is None:
        return {"running": False}
    return {"running": True, "pid": known["pid"], "port": known["port"], "answers": _answers(known)}


def _alive(known: Any) -> Any:
    """The record, if the process is still the one that was started."""
    if not isinstance(known, dict) or not all(type(known.get(name)) is int for name in ("pid", "ticks", "port")):
        return None
    return known if known["pid"] > 0 and Proc().start_ticks(known["pid"]) == known["ticks"] else None


def _start(asked: Dict[str, Any], work: str, agent: List[str]) -> Dict[str, Any]:
    address, port = str(asked.get("address") or "0.0.0.0"), int(asked["port"])  # noqa: S104 - Prometheus is elsewhere
    log = os.path.join(work, _LOG)
    with open(log, "wb") as output:
        process = subprocess.Popen(
            [*agent, "exporter", address, str(port), *asked["runs"]],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd="/",
        )
    record = {"pid": process.pid, "ticks": Proc().start_ticks(process.pid), "port": port, "address": address}
    replace_json(os.path.join(work, _FILE), record)
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            with open(log, errors="replace") as file:
                said = [line.strip() for line in file if line.strip()]
            return {"running": False, "why": said[-1] if said else "exit code %d" % process.returncode}
        if _answers(record):
            return {"running": True, "pid": process.pid, "port": port, "answers": True}
        time.sleep(0.1)
    return {"running": True, "pid": process.pid, "port": port, "answers": False}


def _stop(known: Any) -> bool:
    if known is None:
        return False
    for number in (signal.SIGTERM, signal.SIGKILL):
        os.kill(known["pid"], number)
        deadline = time.monotonic() + _STOP_SECONDS
        while time.monotonic() < deadline:
            try:
                os.waitpid(known["pid"], os.WNOHANG)  # where it is a child of this process
            except ChildProcessError:
                pass
            if _alive(known) is None:
                return True
            time.sleep(0.05)
    return False


def _answers(known: Dict[str, Any]) -> bool:
    host = "127.0.0.1" if known["address"] == "0.0.0.0" else known["address"]  # noqa: S104
    try:
        with urllib.request.urlopen("http://%s:%d/metrics" % (host, known["port"]), timeout=5) as reply:  # noqa: S310
            return bool(reply.status == 200)
    except (OSError, ValueError):
        return False
