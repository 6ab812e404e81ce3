"""What every framework must do. Subclass, give `framework`, and let pytest collect it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from trainmark.frameworks.protocol import Start, Topology

ARGV = ("/usr/bin/python3", "-u", "/job/train.py")
_PORT = re.compile(r"%PORT(\d+)%")


class FrameworkContract:
    """Starts nothing: `start` is a pure function. A subclass overrides the fixture."""

    @pytest.fixture
    def framework(self) -> Any:
        raise NotImplementedError

    @pytest.fixture(params=[(1, 1), (1, 2), (2, 2), (3, 4)], ids=lambda shape: f"{shape[0]}x{shape[1]}")
    def topology(self, request: pytest.FixtureRequest) -> Topology:
        nodes, ranks = request.param
        return Topology(tuple(f"host{number}" for number in range(nodes)), ranks, "")

    @pytest.fixture
    def started(self, framework: Any, topology: Topology) -> Start:
        start: Start = framework.start(topology, ARGV)
        return start

    def test_start_is_pure(self, framework: Any, topology: Topology) -> None:
        assert framework.start(topology, ARGV) == framework.start(topology, ARGV)

    def test_every_rank_stands_once_and_in_order(self, started: Start, topology: Topology) -> None:
        assert len(started.nodes) == len(topology.hosts)
        ranks = [command.rank for node in started.nodes for command in node]
        assert ranks == list(range(topology.world))
        for node in started.nodes:
            assert [command.local_rank for command in node] == list(range(topology.nproc))

    def test_ranks_run_the_program_and_know_who_they_are(self, started: Start, topology: Topology) -> None:
        for number, node in enumerate(started.nodes):
            for command in node:
                assert command.argv == ARGV
                assert command.env["RANK"] == str(command.rank)
                assert command.env["WORLD_SIZE"] == str(topology.world)
                assert command.env["LOCAL_RANK"] == str(command.local_rank)
                assert command.env["NODE_RANK"] == str(number)

    def test_ports_are_agreed_on_never_fixed(self, started: Start) -> None:
        named = {int(number) for text in _texts(started) for number in _PORT.findall(text)}
        assert named <= set(range(started.ports))
        left = " ".join(_PORT.sub("", text) for text in _texts(started))
        assert "%PORT" not in left

    def test_a_node_alone_needs_no_name_service(self, framework: Any) -> None:
        start = framework.start(Topology(("a-name-nobody-resolves",), 2, ""), ARGV)
        assert not any("a-name-nobody-resolves" in text for text in _texts(start))

    def test_helpers_have_names_for_their_logs(self, started: Start) -> None:
        names = [helper.name for helper in started.helpers]
        assert len(set(names)) == len(names)
        assert all(re.fullmatch(r"[a-z][a-z0-9-]*", name) and not name.startswith("rank") for name in names)

    def test_it_can_be_written_into_a_plan(self, started: Start) -> None:
        assert msgspec.json.decode(msgspec.json.encode(started), type=Start) == started


def _texts(start: Start) -> Iterator[str]:
    for command in (command for node in start.nodes for command in node):
        yield from (*command.argv, *command.env.values())
    for helper in start.helpers:
        yield from (*helper.argv, *helper.env.values())
