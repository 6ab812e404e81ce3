"""A workload that misbehaves on demand, in suites beside a case that must not be touched by it."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli

PROGRAM = """
import os, resource, shutil, signal, subprocess, sys, time
import trainmark_probe as probe

mode = probe.config()["params"]["mode"]
rank = int(os.environ["RANK"])
print("mode", mode, "rank", rank, flush=True)
if mode == "hang-start" and rank == 1:
    time.sleep(1000)
probe.init(unit="things")
probe.init_end()
probe.train_start()
if mode == "orphans":
    escape = "import time; time.sleep(1000)"
    subprocess.Popen([sys.executable, "-c", escape], start_new_session=True)
    bare = {"ORPHAN": os.environ["TRAINMARK_RUNS"]}
    subprocess.Popen([sys.executable, "-c", escape], start_new_session=True, env=bare)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(1000)
        os._exit(0)
for step in range(int(os.environ.get("STEPS", "5"))):
    time.sleep(float(os.environ.get("STEP_SECONDS", "0.02")))
    if rank == 1 and step == 2:
        if mode == "exit":
            sys.exit("it broke here")
        if mode == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if mode == "hang-step":
            time.sleep(1000)
        if mode == "memory":
            resource.setrlimit(resource.RLIMIT_AS, (2**29, 2**29))
            hog = [b"x" * 2**24 for _ in range(10**6)]
        if mode == "squat":
            os.makedirs(probe.config()["workdir"] + "/result.json/x")
        if mode == "remove":
            shutil.rmtree(os.path.dirname(probe.config()["workdir"]))
        if mode == "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
    loss = float("nan") if mode == "nan" and rank == 1 and step == 3 else 1.0 / (step + 1)
    probe.step(8, loss=loss)
    if mode == "fill":
        with open("ballast", "ab") as out:
            out.write(b"x" * 2**20)
            out.flush()
probe.train_end()
probe.finish()
"""


@pytest.fixture
def misbehave(cli: Cli, make_workload: Callable[..., Path], make_suite: Callable[..., Path]) -> Callable[..., Path]:
    """A suite with one case in the given mode and, unless it shall be alone, a good one."""
    make_workload(PROGRAM)

    def make(mode: str, procs: int = 2, extra: str = "", *, alone: bool = False) -> Path:
        good = "" if alone else "\n  - thing:none:cpu:1:1:1"
        return make_suite(f"  - thing:none:cpu:1:{procs}:1@mode={mode}{good}", extra=extra)

    return make


def case_named(report: Any, text: str) -> Any:
    (found,) = [case for case in report["cases"] if text in case["case"]]
    return found


def good_case(report: Any) -> Any:
    (found,) = [case for case in report["cases"] if "@" not in case["case"]]
    return found


def wait_for(what: Callable[[], Any], seconds: float = 120.0, process: subprocess.Popen[str] | None = None) -> Any:
    """Until `what` gives something true; fails after `seconds`, and when `process` ends, with what that said."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        over = process is not None and process.poll() is not None
        found = what()
        if found:
            return found
        if over:
            break
        time.sleep(0.02)
    said = ""
    if process is not None:
        process.kill()
        said = "\n".join(process.communicate())
    pytest.fail(f"waited in vain\n{said}")


def claims(cli: Cli) -> list[dict[str, Any]]:
    """The claims of all agents that ever began."""
    found = []
    for file in sorted(cli.runs.glob("*/*/round*/attempt*/*/agent.json")):
        try:
            found.append(json.loads(file.read_text()))
        except ValueError:
            continue
    return found


def steps_seen(cli: Cli) -> int:
    """STEP_END events written so far by all ranks of all attempts, shipped or still in a spool."""
    files = [*cli.runs.glob("*/*/round*/attempt*/*/events.jsonl"), *cli.runs.glob("*/*/round*/attempt*/*/spool/*")]
    return sum(file.read_bytes().count(b"STEP_END") for file in files if file.is_file())
