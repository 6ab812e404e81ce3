"""How ranks start and find each other, in each framework."""

from __future__ import annotations

import json
import socket

import pytest

from trainmark.agent import placeholders
from trainmark.agent.placeholders import agree_on, fill_hosts
from trainmark.frameworks.protocol import REGISTRY, Topology
from trainmark.testing.frameworks import ARGV, FrameworkContract

TWO = Topology(("a", "b"), 2, "")


@pytest.mark.parametrize("name", ["pytorch", "mindspore", "tensorflow", "jax", "paddle", "none"])
class TestBuiltIn(FrameworkContract):
    @pytest.fixture
    def framework(self, name):
        return REGISTRY.get(name)


def envs(name, topology=TWO):
    return [command.env for node in REGISTRY.get(name).start(topology, ARGV).nodes for command in node]


def test_mindspore_has_one_scheduler_and_numbers_that_differ_on_every_host():
    start = REGISTRY.get("mindspore").start(TWO, ARGV)
    (scheduler,) = start.helpers
    assert (scheduler.env["MS_ROLE"], scheduler.env["MS_WORKER_NUM"]) == ("MS_SCHED", "4")
    assert scheduler.argv[0] == ARGV[0]
    found = [(env["RANK_ID"], env["DEVICE_ID"], env["DEVICE_NUM"], env["RANK_SIZE"]) for env in envs("mindspore")]
    assert found == [("0", "0", "2", "4"), ("1", "1", "2", "4"), ("2", "0", "2", "4"), ("3", "1", "2", "4")]
    assert {(env["MS_ROLE"], env["MS_SCHED_HOST"], env["MS_SCHED_PORT"]) for env in envs("mindspore")} == {
        ("MS_WORKER", "%ADDRESS:a%", "%PORT0%")
    }


def test_the_agent_makes_addresses_of_names_that_a_framework_does_not_take(monkeypatch):
    known = {"n1": "10.0.0.7", "here": "127.0.1.1", "127.0.0.1": "127.0.0.1"}

    def look_up(name, *_):
        if name not in known:
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, 1, 6, "", (known[name], 0))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert placeholders.fill("%ADDRESS:n1%:%PORT0%", "/d", [5000]) == "10.0.0.7:5000"
    assert placeholders.fill("%ADDRESS:127.0.0.1%", "/d", []) == "127.0.0.1"
    assert placeholders.fill("%ADDRESS:nobody%", "/d", []) == "nobody"
    # A host that knows itself only by a loopback address is reached by others at another one, if it has a network.
    assert not placeholders.fill("%ADDRESS:here%", "/d", []).startswith("127.")


def test_a_rank_table_that_is_made_is_sent_along():
    topology = Topology(("a", "b"), 2, "hccl", rank_table="%DIR%/rank_table.json", rank_table_text="{}")
    start = REGISTRY.get("mindspore").start(topology, ARGV)
    assert start.files == {"rank_table.json": "{}"} and not start.helpers
    assert {command.env["RANK_TABLE_FILE"] for node in start.nodes for command in node} == {"%DIR%/rank_table.json"}


def test_mindspore_with_a_rank_table_needs_no_scheduler():
    start = REGISTRY.get("mindspore").start(Topology(("a", "b"), 2, "hccl", rank_table="/etc/hccl.json"), ARGV)
    assert start.helpers == () and start.ports == 0
    for node in start.nodes:
        for command in node:
            assert command.env["RANK_TABLE_FILE"] == command.env["MINDSPORE_HCCL_CONFIG_PATH"] == "/etc/hccl.json"
            assert "MS_ROLE" not in command.env


def test_tensorflows_workers_have_an_address_each():
    told = [json.loads(env["TF_CONFIG"]) for env in envs("tensorflow")]
    assert told[3]["task"] == {"type": "worker", "index": 3}
    assert told[0]["cluster"]["worker"] == ["a:%PORT0%", "a:%PORT1%", "b:%PORT0%", "b:%PORT1%"]


def test_paddles_endpoints_differ():
    told = envs("paddle")
    endpoints = told[0]["PADDLE_TRAINER_ENDPOINTS"].split(",")
    assert [env["PADDLE_CURRENT_ENDPOINT"] for env in told] == endpoints
    assert len(set(endpoints)) == 4


def test_hosts_and_ports_that_are_known_late_are_filled_in_everywhere():
    start = REGISTRY.get("tensorflow").start(Topology(("%HOST0%", "%HOST1%"), 1, ""), ARGV)
    scheduler = REGISTRY.get("mindspore").start(Topology(("%HOST0%", "%HOST1%"), 1, ""), ARGV).helpers[0]
    plan = {
        "node": 1,
        "host": "",
        "env": {},
        "ranks": [{"argv": list(command.argv), "env": command.env} for node in start.nodes for command in node],
        "helpers": [{"argv": list(scheduler.argv), "env": scheduler.env}],
    }
    filled = agree_on(fill_hosts(plan, ["n7", "n8"]), [4711])
    assert json.loads(filled["ranks"][0]["env"]["TF_CONFIG"])["cluster"]["worker"] == ["n7:4711", "n8:4711"]
    assert filled["helpers"][0]["env"]["MS_SCHED_HOST"] == "%ADDRESS:n7%"
    assert filled["helpers"][0]["env"]["MS_SCHED_PORT"] == "4711"
