"""Placeholders in a node plan for what is known only when an attempt starts: its folder, ports, hosts, the agent."""

from __future__ import annotations

import os
import sys
from typing import Any, Callable

FOLDER, AGENT, ADDRESS = "%DIR%", "%AGENT%", "%ADDRESS:"
_OLD_VERBS = {"head": "mpi-head", "door": "mpi-member"}  # in plans of older versions


def fill_ports(text: str, ports: list[int]) -> str:
    """%PORT0%, %PORT1%, … become numbers."""
    if "%PORT" in text:
        for index, port in enumerate(ports):
            text = text.replace("%%PORT%d%%" % index, str(port))
    return text


def fill(text: str, folder: str, ports: list[int]) -> str:
    """Fills in the folder of the node, the ports, and addresses of hosts."""
    text = fill_ports(text.replace(FOLDER, folder) if FOLDER in text else text, ports)
    head, found, rest = text.partition(ADDRESS)
    if not found:
        return text
    name, _, tail = rest.partition("%")
    return head + address(name) + tail


def address(name: str) -> str:
    """Of a host, as others reach it. A name that nobody knows stays: whoever needs it will say so.

    What a host calls itself may be an address that only it can reach. Then it is the one by which it reaches others;
    nothing is sent to find that out.
    """
    import socket  # most rounds are on one host and need none

    try:
        infos = socket.getaddrinfo(name, None, socket.AF_INET)
        found = sorted({str(info[4][0]) for info in infos})
        outside = [one for one in found if not one.startswith("127.")]
        if outside or name in found:
            return (outside or found)[0]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
            way.connect(("192.0.2.1", 9))
            return str(way.getsockname()[0])
    except OSError:
        return name


def agent_command(argv: list[str]) -> list[str]:
    """A command that runs this agent with another verb gets its Python and file."""
    if argv[0] != AGENT:
        return argv
    return [sys.executable, "-I", "-S", os.path.abspath(sys.argv[0]), _OLD_VERBS.get(argv[1], argv[1]), *argv[2:]]


def agree_on(plan: dict[str, Any], ports: list[int]) -> dict[str, Any]:
    """Fills in the agreed ports: the agent of the first node holds them, the others only get the numbers."""
    if plan["node"] == 0:
        return dict(plan, ports=ports)
    return dict(_mapped(plan, lambda text: fill_ports(text, ports)), ports=[])


def fill_hosts(plan: dict[str, Any], hosts: list[str]) -> dict[str, Any]:
    """`%HOST0%` and the others become the hosts that a scheduler gave, in the order of the plan's nodes."""

    def fill(text: str) -> str:
        for index, host in enumerate(hosts):
            text = text.replace("%%HOST%d%%" % index, host)
        return text

    return dict(_mapped(plan, fill), host=hosts[plan["node"]])


def _mapped(plan: dict[str, Any], fill: Callable[[str], str]) -> dict[str, Any]:
    def filled(process: dict[str, Any]) -> dict[str, Any]:
        env = {name: fill(value) for name, value in process["env"].items()}
        return dict(process, argv=[fill(word) for word in process["argv"]], env=env)

    return dict(
        plan,
        ranks=[filled(rank) for rank in plan["ranks"]],
        helpers=[filled(helper) for helper in plan.get("helpers") or ()],
        env={name: fill(value) for name, value in plan["env"].items()},
    )
