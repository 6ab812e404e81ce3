"""The exporter: reads devices once a second, looks at running rounds when it is asked, and answers over HTTP."""

from __future__ import annotations

import glob
import json
import os
import resource
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Dict, List

from trainmark.agent.exporter import metrics
from trainmark.devices.node_side.watch import NODE_HALVES, half

_EVERY = 1.0
_FRESH = 10.0  # a status that is older is of a round that does not run any more
_TAIL = 65536
_ATTEMPTS = "*/round*/attempt*/*/status.json"
_NS = 1e-9


class Watched:
    """One vendor's devices, read in a thread of their own: one that hangs makes its readings old, and nothing else."""

    def __init__(self, module: Any, facts: Dict[str, Any]) -> None:
        self.facts, self.record, self.at = facts, {}, None  # type: Dict[str, Any], Dict[str, Any], Any
        self._module = module
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        sampler = self._module.Sampler()
        due = time.monotonic()
        while True:
            self.record = sampler.sample({})
            self.at = time.monotonic()
            due = max(due + _EVERY, self.at)
            time.sleep(max(0.0, due - time.monotonic()))


def found() -> List[Watched]:
    """The vendors that have devices here, or whose tool says that something is wrong."""
    watched = []
    for vendor in NODE_HALVES:
        module = half(vendor)
        facts = module.detect()
        if facts["count"] or facts["problem"]:
            watched.append(Watched(module, facts))
    return watched


def running(folders: List[str]) -> List[Dict[str, Any]]:
    """Rounds whose agents wrote a moment ago. `folders` hold runs."""
    rounds = []
    for folder in folders:
        for path in glob.glob(os.path.join(folder, "*", _ATTEMPTS)):
            try:
                if time.time() - os.stat(path).st_mtime > _FRESH:
                    continue
                with open(path) as file:
                    status = json.load(file)
                with open(os.path.join(os.path.dirname(path), "config.json")) as file:
                    case = json.load(file)["case"]
            except (OSError, ValueError, KeyError):
                continue  # just being written, or gone
            parts = os.path.relpath(path, folder).split(os.sep)
            told = _told(os.path.join(os.path.dirname(path), "events.jsonl"))
            rounds.append({"run": parts[0], "case": case, "round": parts[2][5:], "status": status, "told": told})
    return rounds


def _told(path: str) -> Dict[int, Dict[str, float]]:
    """What each rank said last of loss and of waiting for data, from the end of the file."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            lines = file.read().split(b"\n")[1:]
    except OSError:
        return {}
    last: Dict[int, Dict[str, float]] = {}
    for line in lines:
        try:
            event = json.loads(line)
            told = last.setdefault(int(event["rank"]), {})
        except (ValueError, KeyError, TypeError):
            continue
        # A loss that stayed on the device is told later, with those of the steps before it.
        late = event.get("values") if event.get("k") == "LOSS" else None
        loss = late[-1] if isinstance(late, list) and late else event.get("loss")
        if isinstance(loss, (int, float)):
            told["loss"] = loss
        if isinstance(event.get("data"), int):
            told["data"] = event["data"] * _NS
    return last


def page(watched: List[Watched], folders: List[str]) -> str:
    made, host = metrics.Page(), os.uname().nodename
    for one in watched:
        age = None if one.at is None else time.monotonic() - one.at
        metrics.devices(made, host, one.facts, one.record, age)
    metrics.rounds(made, host, running(folders))
    used = [resource.getrusage(kind) for kind in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    metrics.own_cost(made, host, sum(each.ru_utime + each.ru_stime for each in used))
    return made.text()


def serve(address: str, port: str, *folders: str) -> int:
    """The verb `exporter ADDRESS PORT RUNS …`."""
    watched = found()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path.split("?")[0] == "/metrics"
            body = page(watched, list(folders)).encode() if known else b"see /metrics\n"
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing: it is asked all the time."""

    server = HTTPServer((address, int(port)), Handler)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    server.serve_forever()
    return 0
