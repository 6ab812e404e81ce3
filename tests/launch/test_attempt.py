"""Several nodes, one verdict: which failed first, and what a silent host means."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trainmark.i18n.speaker import say
from trainmark.launch.attempt import PEER_SECONDS, AgentSilence, AttemptNodes, last_sign
from trainmark.launch.protocol import Ended
from trainmark.launch.ssh.command_line import SshTarget
from trainmark.launch.ssh.node import SshNode
from trainmark.spec.states import JobState
from trainmark.store.files import write_json
from trainmark.store.rundir import STATUS


class FakeLink(SimpleNamespace):
    """A connection that only remembers what was asked over it."""

    def __init__(self) -> None:
        super().__init__(users=1, ready=True, down=False, tries=0, why="cut", on_ready=[], asked=[], heard=0.0)
        self.reach = SshTarget("x", lost_seconds=30)

    def ask(self, op: str, **fields: Any) -> None:
        self.asked.append((op, fields))


def failed(rank: int, *lines: str) -> Ended:
    return Ended(JobState.FAILED, f"rank {rank} exited", {"rank": rank, "kind": "exit", "last_lines": list(lines)})


@pytest.fixture
def nodes(tmp_path: Path) -> list[SshNode]:
    made = []
    for index in range(3):
        folder = tmp_path / "run/case/round1/attempt1" / f"n{index}_noderank{index}"
        folder.mkdir(parents=True)
        reach = {"ssh": {"host": f"n{index}"}, "container": None}
        plan = {"host": f"n{index}", "dir": "/d", "token": "t", "lease": "/l", "epoch": 1, "reach": reach}
        made.append(SshNode(folder, plan, FakeLink()))  # type: ignore[arg-type]
    return made


def test_the_cause_is_named_and_not_its_consequence(nodes: list[SshNode]) -> None:
    attempt = AttemptNodes(nodes)
    nodes[0].end(failed(0, "RuntimeError: Connection closed by peer"))
    attempt.follow(100.0)
    nodes[2].end(failed(5, "ValueError: bad batch"))
    nodes[1].end(Ended(JobState.CANCELLED, "stopped"))
    attempt.follow(101.0)
    ended = attempt.state()
    assert say(ended.reason) == "n2: rank 5 exited" and ended.failure and ended.failure["host"] == "n2"


def test_others_are_stopped_after_a_moment(nodes: list[SshNode]) -> None:
    attempt = AttemptNodes(nodes)
    nodes[0].end(failed(0))
    attempt.follow(100.0)
    assert not any(node.link.asked for node in nodes)  # type: ignore[attr-defined]
    attempt.follow(100.0 + PEER_SECONDS + 1)
    attempt.follow(100.0 + PEER_SECONDS + 2)
    asked = [node.link.asked for node in nodes]  # type: ignore[attr-defined]
    assert asked[0] == [] and [len(questions) for questions in asked[1:]] == [1, 1]
    assert asked[1][0][1]["control"]["command"] == "stop"


def test_a_silent_host_is_given_up_at_its_limit(nodes: list[SshNode]) -> None:
    attempt = AttemptNodes(nodes)
    for node in nodes[:2]:
        node.end(Ended(JobState.SUCCEEDED, "all ranks ended well"))
    nodes[2].link.ready = False
    attempt.follow(100.0)
    attempt.follow(129.0)
    assert attempt.state().state is JobState.RUNNING
    nodes[2].link.ready = True
    attempt.follow(129.5)
    nodes[2].link.ready = False
    attempt.follow(130.0)
    attempt.follow(161.0)
    assert attempt.state().state is JobState.LOST and "n2: no contact for 31 s: cut" in say(attempt.state().reason)


def test_pieces_of_files_come_in_any_number_of_times(nodes: list[SshNode]) -> None:
    node, file = nodes[0], nodes[0].folder / "events.jsonl"
    node.transport.take({"name": "events.jsonl", "at": 0}, b"one\ntwo\n")
    node.transport.take({"name": "events.jsonl", "at": 4}, b"two\nthree\n")
    node.transport.take({"name": "events.jsonl", "at": 0}, b"one\n")
    assert file.read_bytes() == b"one\ntwo\nthree\n" and node.transport.have() == {"events.jsonl": 14}
    node.transport.take({"name": "../escaped", "at": 0}, b"x")
    node.transport.take({"name": "/tmp/escaped", "at": 0}, b"x")
    assert not (node.folder.parent / "escaped").exists() and not Path("/tmp/escaped").exists()


def test_only_the_agent_itself_is_a_sign_of_life(tmp_path: Path) -> None:
    """A rank that prints is none, the same status again is none, and time in which nobody looked is not counted."""
    silence = AgentSilence(limit=10)

    def silent(now: float) -> float | None:
        silence.hear(last_sign(tmp_path), now)
        return silence.too_long(now)

    write_json(tmp_path / STATUS, {"wall": 1})
    assert silent(100.0) is None
    for now in range(101, 111):
        (tmp_path / "rank0.out.log").write_text(f"{now}\n")
        assert silent(float(now)) is None
    assert silent(111.0) == 11.0
    write_json(tmp_path / STATUS, {"wall": 2})
    assert silent(112.0) is None
    assert silent(900.0) is None, "nobody looked"
    assert silent(902.0) is None


def test_silence_counts_where_looks_are_meant_to_be_far_apart() -> None:
    """A cloud service is asked every few seconds; a machine that is busy looks late each time."""
    for every, gap in ((5.0, 5.5), (5.0, 9.0), (0.0, 3.0)):
        silence, now = AgentSilence(30.0, every), 100.0
        silence.hear("a", now)
        while silence.too_long(now) is None and now < 300:
            now += gap
            silence.hear("a", now)
        assert 130 < now < 160, (every, gap, now)
    silence.hear("b", now)
    assert silence.too_long(now) is None
    assert silence.too_long(now + 3600) is None, "a controller that was stopped for an hour"
