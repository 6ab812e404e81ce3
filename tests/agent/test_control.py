"""Commands, signals, claims and leases: one owner, and only the owner is obeyed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from .harness import PROGRAM, Node, agent_says, carriers, until

SLEEP = ["/bin/sleep", "600"]
STUBBORN = ["/bin/sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done"]


def test_stop_by_the_controller(node: Node) -> None:
    node.ranks(SLEEP).start(probe=False)
    node.until_running()
    node.control(epoch=1, command="stop", reason="the user asked")
    assert node.wait() == 0
    result = node.result()
    assert (result["state"], result["reason"]) == ("CANCELLED", "stopped by the controller: the user asked")
    assert (result["first_failure"], result["ranks"][0]["signal"]) == (None, signal.SIGTERM)


def test_a_controller_that_lost_the_run_is_not_obeyed(node: Node, containment: str) -> None:
    node.ranks(SLEEP).start(probe=False, containment=containment)
    node.until_running()
    node.control(epoch=3, command="adopt")
    until(lambda: node.status()["epoch"] == 3)
    node.control(epoch=2, command="kill")
    node.signal()
    until(lambda: "ignored 'kill' of epoch 2" in node.log())
    time.sleep(0.3)
    assert node.agent is not None and node.agent.poll() is None
    assert carriers(node.token)
    node.control(epoch=3, command="stop")
    node.signal()
    assert node.wait() == 0
    assert (node.result()["state"], node.result()["epoch"]) == ("CANCELLED", 3)


def test_kill_does_not_wait(node: Node) -> None:
    node.ranks(STUBBORN).start(probe=False, deadlines={"stop": 600.0})
    until(lambda: "deaf" in node.output())
    node.control(epoch=1, command="kill", reason="")
    node.signal()
    assert node.wait() == 0
    result = node.result()
    assert (result["state"], result["reason"]) == ("CANCELLED", "stopped by the controller")
    assert result["ranks"][0]["signal"] == signal.SIGKILL


def test_a_second_sigterm_does_not_wait(node: Node, containment: str) -> None:
    node.ranks(STUBBORN).start(probe=False, containment=containment, deadlines={"stop": 600.0})
    until(lambda: "deaf" in node.output())
    node.signal(signal.SIGINT)
    time.sleep(0.3)
    node.signal()
    assert node.wait() == 0
    result = node.result()
    assert (result["state"], result["reason"]) == ("CANCELLED", "stopped by a signal")


def test_a_hangup_ends_nothing(node: Node) -> None:
    node.ranks(["/bin/sleep", "1"]).start(probe=False)
    node.until_running()
    node.signal(signal.SIGHUP)
    assert node.wait() == 0
    assert node.result()["state"] == "SUCCEEDED"


def test_a_folder_is_claimed_once(node: Node) -> None:
    node.ranks(["/bin/true"]).run(probe=False)
    claim = (node.dir / "agent.json").read_text()
    assert node.start().wait() == 70
    assert "claimed by another agent" in node.said
    assert (node.dir / "agent.json").read_text() == claim


def test_a_higher_epoch_owns_the_run(node: Node) -> None:
    lease = node.root / "lease.json"
    lease.write_text(json.dumps({"epoch": 2}))
    node.ranks(["/bin/touch", str(node.root / "started")])
    assert node.start(lease=str(lease)).wait() == 76
    assert (node.dir / "agent.json").exists()
    assert not (node.root / "started").exists()
    assert not (node.dir / "result.json").exists()


def test_a_lease_of_the_same_epoch_is_ours(node: Node) -> None:
    lease = node.root / "lease.json"
    lease.write_text(json.dumps({"epoch": 1}))
    assert node.ranks(["/bin/true"]).run(lease=str(lease), probe=False)["state"] == "SUCCEEDED"


def test_plans_that_cannot_be_used(node: Node) -> None:
    for text, words in (
        ("{", "cannot be used"),
        ('{"schema": 9}', "has schema 9"),
        ('{"schema": 1, "token": "ab"}', "has no 'dir'"),
    ):
        path = node.root / "bad.json"
        path.write_text(text)
        argv = [sys.executable, "-I", "-S", str(PROGRAM), "run", str(path)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 70
        assert words in done.stderr


def test_verbs_that_print_and_verbs_that_are_unknown(tmp_path: Path) -> None:
    assert "No such file" in agent_says("shared-folder", str(tmp_path), "abc")["why"]
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(PROGRAM), "dance"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.startswith("usage: agent run")) == (2, True)


def test_containment_that_is_not_known(node: Node) -> None:
    result = node.ranks(["/bin/true"]).run(containment="jail")
    assert (result["state"], result["first_failure"]["kind"]) == ("FAILED", "agent")
    assert "'jail' is not known" in result["reason"]
