"""Ports: free ones are held for the ranks, fixed ones must be free."""

from __future__ import annotations

import os
import socket
import time

import pytest

from .harness import Node


def listener(port: int = 0, reuse: bool = False) -> socket.socket:
    made = socket.socket()
    if reuse:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("", port))
    made.listen()
    return made


def test_a_fixed_port_that_is_taken(node: Node, containment: str) -> None:
    with listener() as taken:
        port = taken.getsockname()[1]
        result = node.ranks(["/bin/true"]).run(ports=[port], containment=containment)
    assert (result["state"], result["first_failure"]["kind"]) == ("FAILED", "port")
    assert result["reason"].startswith(f"port {port} is taken by pid {os.getpid()} (")
    assert "python" in result["reason"]
    assert result["ranks"] == []


@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6"])
def test_a_held_port_is_free_for_the_rank_alone(node: Node, family: str) -> None:
    text = f"""
import socket, sys
port = int(sys.argv[1])
rival = socket.socket()
try:
    rival.bind(("", port))
    print("rival got it")
except OSError:
    print("held")
store = socket.socket(socket.{family})
store.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
store.bind(("", port))
store.listen()
socket.create_connection(("localhost", port)).close()
print("listening")
"""
    result = node.ranks([node.python, "-c", text, "%PORT0%"]).run(ports=[0], probe=False)
    assert node.output() == "held\nlistening\n"
    assert result["ports"][0] > 1024


def test_a_fixed_port_in_time_wait_is_free(node: Node) -> None:
    server = listener(reuse=True)
    port = server.getsockname()[1]
    client = socket.create_connection(("127.0.0.1", port))
    accepted, _ = server.accept()
    accepted.close()  # who closes first waits
    time.sleep(0.05)
    client.close()
    server.close()
    assert node.ranks(["/bin/true"]).run(ports=[port], probe=False)["ports"] == [port]


def test_many_ports_are_different(node: Node) -> None:
    ports = node.ranks(["/bin/true"]).run(ports=[0] * 20, probe=False)["ports"]
    assert len(set(ports)) == 20
