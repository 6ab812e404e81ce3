"""Spools on a node's own disk whose agents are gone: the next agent clears them and keeps what they held."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trainmark.agent.node_plan import NodePlan

from .harness import Node, carriers, until

# A child that gets away stays when everybody else is killed.
STAYS = """
if os.fork() == 0:
    os.setsid()
    time.sleep(600)
begin()
step(1)
step(2)
time.sleep(600)
"""
ENDS = """
begin()
step(1)
"""


@pytest.fixture
def node_of(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    """Attempts of runs in one folder, on one node: all have their spools in the same place."""
    made: list[Node] = []
    (tmp_path / "disk").mkdir()

    def make(run: str, program: str) -> Node:
        root = tmp_path / run
        root.mkdir()
        node = Node(root)
        node.dir = tmp_path / "runs" / run / "case" / "round1" / "attempt1" / "node"
        node.plan.update(dir=str(node.dir), spool=str(tmp_path / "disk"), active=str(tmp_path / "active"))
        made.append(node.ranks(node.script(program)))
        return node

    yield make
    for node in made:
        for pid in carriers(node.token):
            os.kill(pid, signal.SIGKILL)
        if node.agent is not None and node.agent.poll() is None:
            node.agent.kill()
            node.agent.wait()


def spool(node: Node) -> Path:
    return Path(NodePlan(node.plan).spool)


def start(node: Node) -> None:
    """Returns when its rank has said all it will say."""
    node.start(containment="subreaper")
    said = spool(node) / "rank0.jsonl"
    until(lambda: said.exists() and b'"step":2' in said.read_bytes())


def kill(node: Node) -> None:
    """The agent and its guardian at once."""
    assert node.agent is not None
    worker = node.worker()
    assert worker != node.agent.pid
    subprocess.run(["kill", "-STOP", str(node.agent.pid), str(worker)], check=True)
    subprocess.run(["kill", "-KILL", str(node.agent.pid), str(worker)], check=True)
    node.agent.wait()


def steps(node: Node) -> list[int]:
    return [event["step"] for event in node.events() if event["k"] == "STEP_END"]


def test_the_next_agent_clears_what_a_killed_one_left(node_of: Callable[..., Node]) -> None:
    """Its ranks are ended, its events are all in its own folder; one that lives is left alone."""
    killed, living = node_of("killed", STAYS), node_of("living", STAYS)
    start(killed)
    start(living)
    kill(killed)
    assert spool(killed).exists() and carriers(killed.token), "nobody has come back"
    (killed.dir / "events.jsonl").write_bytes(b"")  # as a file server that lost what was not yet on its disk
    later = node_of("later", ENDS)
    later.run()
    assert not spool(killed).exists() and not carriers(killed.token)
    assert steps(killed) == [1, 2] and [event["seq"] for event in killed.events()] == list(range(4))
    assert str(spool(killed)) in later.log()
    assert spool(living).exists() and carriers(living.token)
    living.signal(signal.SIGTERM)
    living.wait()
    assert steps(living) == [1, 2] and not spool(living).exists()


def test_what_is_not_known_to_be_nobodys_stays(node_of: Callable[..., Node], tmp_path: Path) -> None:
    """A run whose folder is not seen here may be seen later; a folder without an owner is not ours; another account's
    is not, either."""
    unseen, deleted = node_of("unseen", STAYS), node_of("deleted", STAYS)
    unseen.dir = tmp_path / "elsewhere" / "runs" / "run" / "case" / "round1" / "attempt1" / "node"
    unseen.plan["dir"] = str(unseen.dir)
    for act in (start, kill):
        act(unseen)
        act(deleted)
    (tmp_path / "elsewhere" / "runs").rename(tmp_path / "away")  # as where nothing is mounted
    (tmp_path / "runs" / "deleted").rename(tmp_path / "rubbish")
    others = tmp_path / "disk" / "trainmark-abc"
    others.mkdir()
    (others / "rank0.jsonl").touch()
    foreign = tmp_path / "disk" / "trainmark-def"
    foreign.mkdir()
    (foreign / "owner.json").write_text('{"dir": "/nowhere"}')
    if os.geteuid() == 0:
        os.chown(foreign, 65534, 65534)
    node_of("later", ENDS).run()
    assert spool(unseen).exists() and not spool(deleted).exists() and others.exists()
    assert foreign.exists() or os.geteuid() != 0
    (tmp_path / "away").rename(tmp_path / "elsewhere" / "runs")
    node_of("last", ENDS).run()
    assert not spool(unseen).exists() and steps(unseen) == [1, 2]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
def test_a_spool_that_a_full_disk_kept_is_cleared_when_there_is_room(
    node_of: Callable[..., Node], tmp_path: Path
) -> None:
    """The events that could not be written are in the folder of their round in the end, each once."""
    small = tmp_path / "runs" / "full"
    small.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)], check=True)
    try:
        talker = "begin()\nfor n in range(20_000): step(n + 1)\n"
        full = node_of("other", talker)
        full.dir = small / "case" / "round1" / "attempt1" / "node"
        full.plan["dir"] = str(full.dir)
        full.start().wait()
        assert full.result()["state"] == "FAILED" and "the disk is full" in full.result()["reason"]
        assert spool(full).exists(), "what could not be shipped is kept"
        node_of("beside", ENDS).run()
        assert spool(full).exists(), "and stays while there is no room"
        subprocess.run(["mount", "-o", "remount,size=64m", str(small)], check=True)
        node_of("later", ENDS).run()
        assert not spool(full).exists()
        found = steps(full)
        assert found == list(range(1, len(found) + 1)) and len(found) > 5_000
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)
