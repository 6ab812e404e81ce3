"""Controllers and agents are killed for real, at many moments. Nothing twice, nothing lost, nothing left."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli, processes_with
from tests.faults.conftest import claims, steps_seen, wait_for

Make = Callable[..., Path]
pytestmark = pytest.mark.usefixtures("nothing_left")


def rounds(cli: Cli, run: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cli.json("status", run)["rounds"]
    return found


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds long enough to be interrupted."""
    monkeypatch.setenv("STEPS", "40")
    monkeypatch.setenv("STEP_SECONDS", "0.05")


@pytest.mark.parametrize("seed", range(4))
def test_controller_killed_then_resumed(cli: Cli, misbehave: Make, make_suite: Make, seed: int) -> None:
    suite = make_suite("  - thing:none:cpu:1:1:2\n  - thing:none:cpu:1:2:2")
    moments = random.Random(seed)
    process = cli.start("run", str(suite))
    for _ in range(4):
        time.sleep(moments.uniform(0.05, 0.7))
        process.kill()
        process.communicate()
        if not cli.runs.exists() or not list(cli.runs.glob("*/manifest.json")):
            process = cli.start("run", str(suite))
        else:
            process = cli.start("resume")
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    # Runs that were begun before their manifest was whole are nobody's; the newest is the one resumed.
    run = cli.run_id()
    report = json.loads(cli("report", run, "--format", "json").stdout)
    assert [case["counted"] for case in report["cases"]] == [2, 2]
    for case in report["cases"]:
        ranks = int(case["case"].split(":")[4])
        assert case["measurements"]["steps"]["value"] == 10
        assert case["measurements"]["samples"]["value"] == 10 * 8 * ranks


def test_an_agent_is_followed_by_the_next_controller(cli: Cli, misbehave: Make, slow: None) -> None:
    process = cli.start("run", str(misbehave("good-enough", procs=1, alone=True)))
    wait_for(lambda: steps_seen(cli) > 3)
    process.kill()
    process.communicate()
    assert "LOST" in cli.json("status")["state"]
    assert f"no controller: `trainmark resume {cli.run_id()}`" in cli("top", "--once").stdout
    cli("resume")
    assert {row["attempt"] for row in rounds(cli, cli.run_id())} == {1}, "the living agent was not followed"


@pytest.mark.parametrize("containment", ["auto", "subreaper"])
def test_agent_killed(cli: Cli, misbehave: Make, tmp_path: Path, slow: None, containment: str) -> None:
    """The round gets a second attempt, and the first one's ranks are gone."""
    site = tmp_path / "site.yaml"
    site.write_text(f"schema: 1\ncontainment: {containment}\n")
    process = cli.start("run", str(misbehave("good-enough", alone=True)), "--site", str(site), "--json")
    wait_for(lambda: steps_seen(cli) > 3)
    (claim,) = claims(cli)
    kill_agent(claim["pid"], containment)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    assert [row["attempt"] for row in rounds(cli, cli.run_id())] == [2]
    assert processes_with(f"TRAINMARK_TOKEN={claim['token']}") == []


def kill_agent(top: int, containment: str) -> None:
    """The agent alone: below a guardian it is the guardian's child."""
    if containment == "subreaper":
        children = Path(f"/proc/{top}/task/{top}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)
    else:
        os.kill(top, signal.SIGKILL)


def test_agent_and_guardian_killed(cli: Cli, misbehave: Make, tmp_path: Path, slow: None) -> None:
    site = tmp_path / "site.yaml"
    site.write_text("schema: 1\ncontainment: subreaper\n")
    process = cli.start("run", str(misbehave("good-enough", alone=True)), "--site", str(site))
    wait_for(lambda: steps_seen(cli) > 3)
    (claim,) = claims(cli)
    children = Path(f"/proc/{claim['pid']}/task/{claim['pid']}/children").read_text().split()
    for pid in (claim["pid"], int(children[0])):
        os.kill(pid, signal.SIGKILL)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    assert processes_with(f"TRAINMARK_TOKEN={claim['token']}") == []


def test_two_controllers_cannot_have_one_run(cli: Cli, misbehave: Make, slow: None) -> None:
    first = cli.start("run", str(misbehave("good-enough", procs=1, alone=True)))
    wait_for(lambda: steps_seen(cli) > 3)
    first.kill()
    first.communicate()
    both = [cli.start("resume") for _ in range(2)]
    said = [process.communicate(timeout=240) for process in both]
    codes = sorted(process.returncode for process in both)
    assert codes == [0, 2], said
    assert any("is being worked on by" in err or "taken over" in err for _, err in said)
    assert {row["attempt"] for row in rounds(cli, cli.run_id())} == {1}


def test_ctrl_c_once_then_resume(cli: Cli, misbehave: Make, slow: None) -> None:
    process = cli.start("run", str(misbehave("good-enough")))
    wait_for(lambda: steps_seen(cli) > 3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 130, out + err
    assert "CANCELLED" in out and "stopped by Ctrl-C" in out
    report = cli.json("resume")
    assert report["state"] == "SUCCEEDED"
    assert all(case["measurements"]["steps"]["value"] == 40 for case in report["cases"])


def test_ctrl_c_twice_does_not_wait(cli: Cli, misbehave: Make, slow: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPS", "10000")
    process = cli.start("run", str(misbehave("stubborn", extra="deadlines: {stop: 600}", alone=True)))
    wait_for(lambda: steps_seen(cli) > 10)
    process.send_signal(signal.SIGINT)
    wait_for(lambda: list(cli.runs.glob("*/*/round*/attempt*/*/control.json")), process=process)
    assert process.poll() is None, "a stubborn rank has its grace"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=240)
    assert process.returncode == 130


def test_detached_run_is_watched_and_stopped(cli: Cli, misbehave: Make, slow: None) -> None:
    run = cli.json("run", str(misbehave("good-enough")), "--detach")["run"]
    wait_for(lambda: steps_seen(cli) > 3)
    assert cli.json("status", run)["state"] == "RUNNING"
    assert run in cli("top", "--once").stdout
    cli("stop", run)
    assert cli.json("status", run)["state"] == "CANCELLED"
    assert "not running" in cli("stop", run).stdout


def test_stop_ends_what_a_dead_controller_left(cli: Cli, misbehave: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPS", "10000")
    process = cli.start("run", str(misbehave("good-enough")))
    wait_for(lambda: steps_seen(cli) > 3)
    process.kill()
    process.communicate()
    cli("stop")
    assert processes_with(f"TRAINMARK_TOKEN={claims(cli)[0]['token']}") == []
    assert cli.json("status")["state"] == "CANCELLED"


def test_an_attempt_that_others_cancel_is_not_tried_for_ever(cli: Cli, make_workload: Make, make_suite: Make) -> None:
    make_workload("import time\ntime.sleep(30)", probe=False)
    process = cli.start("run", str(make_suite("  - thing:none:cpu:1:1:1")))
    for number in (1, 2):
        wait_for(lambda number=number: len(claims(cli)) == number)
        os.kill(claims(cli)[-1]["pid"], signal.SIGTERM)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 1, out + err
    assert "CANCELLED" in out
