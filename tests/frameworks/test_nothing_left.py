"""Whoever is killed, nothing is left: neither ranks nor schedulers, in any framework."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from trainmark.i18n.speaker import say

from .conftest import FRAMEWORKS

pytestmark = pytest.mark.frameworks
CASES = dict.fromkeys(FRAMEWORKS, "mnist") | {"paddle": "bert"}
PATIENCE = 240.0


def carriers(token: str) -> dict[int, str]:
    """Living processes of an attempt."""
    found = {}
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and f"TRAINMARK_TOKEN={token}\0".encode() in (folder / "environ").read_bytes():
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
    return found


def until(what, seconds=PATIENCE):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"nothing came within {seconds} s")


@pytest.fixture
def training(cli, whole_cache, digits, text, nothing_left):
    """Starts a case of two ranks that would train for hours; returns when both train, with their plan and agent."""
    started = []

    def start(framework: str):
        workload = CASES[framework]
        data = text if workload == "bert" else digits
        steps = "max_steps=1000000" if workload == "bert" else "steps=1000000"
        more = ["--set", f"data={data}", "--set", steps]
        more += [] if workload == "bert" else ["--set", "batch=8", "--set", "eval_every=1000000"]
        controller = cli.start("run", f"{workload}:{framework}:cpu:1:2:1", "--preset", "smoke", "--json", *more)
        started.append(controller)
        folder = until(lambda: next(cli.runs.glob("*/*/round1/attempt1/*_noderank0"), None))
        until(lambda: (folder / "status.json").exists() and _steps(folder) and min(_steps(folder)) >= 2)
        return controller, folder, json.loads((folder / "node.json").read_text())

    yield start
    for controller in started:
        controller.kill()
        controller.communicate()


def _steps(folder: Path) -> list[int]:
    return [rank["step"] for rank in json.loads((folder / "status.json").read_text())["ranks"]]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_rank_is_killed(training, framework):
    controller, folder, plan = training(framework)
    alive = carriers(plan["token"])
    ranks = [pid for pid, command in alive.items() if "train_" in command]
    schedulers = [pid for pid, command in alive.items() if "cluster.init()" in command]
    assert len(ranks) == 2
    assert len(schedulers) == (framework == "mindspore")
    os.kill(max(ranks), signal.SIGKILL)
    out, err = controller.communicate(timeout=PATIENCE)
    assert controller.returncode == 1, err
    case = json.loads(out)["cases"][0]
    assert case["state"] == "FAILED" and "killed by signal 9" in say(case["reason"])
    assert carriers(plan["token"]) == {}
    result = json.loads((folder / "result.json").read_text())
    assert result["containment"]["left"] == 0


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_agent_is_killed(training, framework):
    controller, folder, plan = training(framework)
    os.kill(json.loads((folder / "agent.json").read_text())["pid"], signal.SIGKILL)
    until(lambda: not carriers(plan["token"]), 30)
    controller.terminate()
    controller.communicate(timeout=PATIENCE)
    assert carriers(plan["token"]) == {}
