"""Real agents for the tests: a plan is written, the agent is started as a launcher would, and /proc is asked."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trainmark.agent
from trainmark.i18n.speaker import say
from trainmark.reasons import as_reason

PROGRAM = Path(trainmark.agent.__file__).parent / "__main__.py"
PATIENCE = 120.0

# What a rank needs to speak: appends events to its spool by hand.
SPEAKER = """
import json, os, time
rank = int(os.environ["TRAINMARK_RANK"])
spool = os.open(os.environ["TRAINMARK_SPOOL"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
seq = 0
def say(k, **more):
    global seq
    event = {"k": k, "rank": rank, "seq": seq, "t": time.monotonic_ns()}
    event.update(more)
    os.write(spool, json.dumps(event, separators=(",", ":")).encode() + b"\\n")
    seq += 1
def begin():
    say("INIT_START", wall=time.time_ns(), pid=os.getpid())
    say("TRAIN_START")
def step(number, n=4, **more):
    say("STEP_END", step=number, n=n, **more)
"""


def until(what: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Waits until `what()` is true and returns it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"nothing came within {seconds} s")


def carriers(token: str) -> dict[int, str]:
    """Living processes of an attempt: those with its token in the environment or in an argument."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            environ, command = (folder / "environ").read_bytes(), (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if f"TRAINMARK_TOKEN={token}".encode() in environ.split(b"\0") or f"MARK-{token}".encode() in command:
            found[int(folder.name)] = command.replace(b"\0", b" ").decode(errors="replace")
    return found


class Node:
    """One attempt on this machine: its plan, its agent, its folder."""

    def __init__(self, root: Path, python: str = sys.executable) -> None:
        self.root = root
        self.python = python
        self.token = secrets.token_hex(8)
        self.dir = root / "node"
        self.agent: subprocess.Popen[str] | None = None
        self.before: list[str] = []  # words before the agent's own command
        (root / "lib").mkdir(exist_ok=True)
        (root / "lib" / "speaker.py").write_text(SPEAKER)
        self.plan: dict[str, Any] = {
            "schema": 1,
            "run": "r",
            "token": self.token,
            "epoch": 1,
            "lease": None,
            "case": "noop:none:cpu:1:1:1",
            "round": 1,
            "attempt": 1,
            "node": 0,
            "nnodes": 1,
            "host": "here",
            "dir": str(self.dir),
            "spool": None,
            "ports": [],
            "config": {"seed": 1},
            "env": {},
            "unset": [],
            "cwd": None,
            "path": [str(root / "lib")],
            "ranks": [],
            "deadlines": {"start": 20.0, "step": 20.0, "total": 60.0, "stop": 3.0},
            "probe": True,
            "sample_seconds": 1.0,
            "tuning": {"threads": "auto", "affinity": "auto", "allocator": "auto"},
            "containment": "auto",
            "device": {"vendor": "cpu", "visible": None},
        }

    def script(self, text: str, name: str = "rank.py") -> list[str]:
        """An argument vector that runs Python text which can speak."""
        path = self.root / name
        path.write_text("from speaker import *\n" + textwrap.dedent(text))
        return [self.python, str(path)]

    def ranks(self, *argvs: list[str]) -> Node:
        self.plan["ranks"] = [
            {"rank": number, "local_rank": number, "argv": argv, "env": {}} for number, argv in enumerate(argvs)
        ]
        return self

    def start(self, **changes: Any) -> Node:
        for name, value in changes.items():
            self.plan[name] = {**self.plan[name], **value} if isinstance(value, dict) else value
        path = self.root / f"plan{secrets.token_hex(2)}.json"
        path.write_text(json.dumps(self.plan))
        self.agent = subprocess.Popen(
            [*self.before, self.python, "-I", "-S", str(PROGRAM), "run", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        return self

    def wait(self) -> int:
        assert self.agent is not None
        self.said = "".join(self.agent.communicate(timeout=PATIENCE))
        return self.agent.returncode

    def run(self, **changes: Any) -> dict[str, Any]:
        """Start, wait, and the result; proves that nothing is left."""
        code = self.start(**changes).wait()
        assert code == 0, (code, self.said, self.log())
        return self.result()

    def result(self) -> dict[str, Any]:
        result: dict[str, Any] = json.loads((self.dir / "result.json").read_text())
        assert result["token"] == self.token
        assert result["containment"]["left"] == 0
        assert carriers(self.token) == {}
        assert not (self.dir / "reserve").exists()
        return in_words(result)

    def log(self) -> str:
        path = self.dir / "agent.log"
        return path.read_text() if path.exists() else ""

    def output(self, rank: int = 0) -> str:
        path = self.dir / f"rank{rank}.out.log"
        return path.read_text() if path.exists() else ""

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.dir / "events.jsonl").read_text().splitlines()]

    def status(self) -> dict[str, Any]:
        return json.loads((self.dir / "status.json").read_text()) if (self.dir / "status.json").exists() else {}

    def until_running(self) -> None:
        until(lambda: self.status().get("state") == "RUNNING")

    def control(self, **record: Any) -> None:
        draft = self.dir / "control.draft"
        draft.write_text(json.dumps(record))
        draft.replace(self.dir / "control.json")

    def worker(self) -> int:
        """The working agent: the guardian's child, or the agent itself where there is no guardian."""
        assert self.agent is not None
        top = self.agent.pid
        children = Path(f"/proc/{top}/task/{top}/children").read_text().split()
        claimed = [int(pid) for pid in children if Path(f"/proc/{pid}/cmdline").read_bytes().count(b"__main__.py")]
        return claimed[0] if claimed and self.plan["containment"] != "pidns" else top

    def signal(self, number: int = signal.SIGTERM) -> None:
        assert self.agent is not None
        os.kill(self.agent.pid, number)


def words(reasons: list[dict[str, Any]]) -> list[str]:
    return [say(as_reason(why)) for why in reasons]


def in_words(result: dict[str, Any]) -> dict[str, Any]:
    """A result with its reasons as a reader sees them."""
    lists = {name: words(result[name]) for name in ("warnings", "disturbed")}
    contained = {**result["containment"], "why": words(result["containment"]["why"])}
    return {**result, **lists, "containment": contained, "reason": say(as_reason(result["reason"]))}


def agent_says(*words: str) -> dict[str, Any]:
    """The JSON a verb of the agent prints."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(PROGRAM), *words], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    said: dict[str, Any] = json.loads(done.stdout)
    return said
