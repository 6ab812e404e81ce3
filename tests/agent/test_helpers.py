"""Processes that ranks need and that are none of them: they live and end with the ranks."""

from __future__ import annotations

import os
import signal

from .harness import Node, carriers, until

PATIENT = "print(os.environ['MEETING'], flush=True)\ntime.sleep(600)"
SHORT = "begin()\nstep(1)\ntime.sleep(0.5)"
LONG = "begin()\nstep(1)\ntime.sleep(600)"


def helped(node: Node, text: str, rank: str) -> Node:
    argv = [node.python, "-c", "import os, time\n" + text]
    node.plan["helpers"] = [{"name": "scheduler", "argv": argv, "env": {"MEETING": "here:%PORT0%"}}]
    node.plan["ports"] = [0]
    return node.ranks(node.script(rank))


def test_a_helper_ends_with_the_ranks_and_is_no_stray(node: Node, containment: str) -> None:
    result = helped(node, PATIENT, SHORT).run(containment=containment)
    assert (result["state"], [rank["rank"] for rank in result["ranks"]]) == ("SUCCEEDED", [0])
    assert not any("left by the ranks" in warning for warning in result["warnings"])
    assert (node.dir / "scheduler.out.log").read_text() == f"here:{result['ports'][0]}\n"


def test_a_helper_that_fails_takes_the_ranks_along(node: Node) -> None:
    result = helped(node, "time.sleep(0.5)\nprint('no room')\nraise SystemExit(3)", LONG).run()
    assert (result["state"], result["reason"]) == ("FAILED", "the scheduler ended with exit code 3: no room")


def test_a_helper_that_cannot_be_started_is_named(node: Node) -> None:
    helped(node, PATIENT, SHORT).plan["helpers"][0]["argv"] = ["/nowhere/python"]
    result = node.run()
    assert result["state"] == "FAILED"
    assert result["reason"] == "the scheduler cannot be started: the program /nowhere/python does not exist"


def test_a_helper_dies_with_a_killed_agent(node: Node, containment: str) -> None:
    helped(node, PATIENT, LONG).start(containment=containment)
    until(lambda: len(carriers(node.token)) == 2)
    os.kill(node.worker(), signal.SIGKILL)
    node.wait()
    until(lambda: not carriers(node.token))
