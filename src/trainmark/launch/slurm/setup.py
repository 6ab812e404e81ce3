"""Making a Slurm cluster of hosts that are reached over ssh: asking them, and, if wished, setting them up."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from trainmark.cache import cache_dir
from trainmark.errors import SiteError
from trainmark.launch import node_zip
from trainmark.launch.slurm import configuration as slurm_conf
from trainmark.launch.slurm.configuration import ClusterHost, SlurmCluster
from trainmark.launch.ssh import options as ssh_options
from trainmark.launch.ssh.connection import Connection
from trainmark.launch.ssh.connections import Connections
from trainmark.launch.ssh.plan import reach
from trainmark.spec.site import Site

_ANSWER_SECONDS = 60.0
_IDLE_SECONDS, _DEAD_SECONDS = 90.0, 5.0
# Kind of device → its files. Others are named with --gres.
GRES = {"gpu:nvidia": "/dev/nvidia[0-9]*", "npu:ascend": "/dev/davinci[0-9]*"}
_ETC = "/etc/slurm"
Say = Callable[[str], None]


class Hosts:
    """Connections to all hosts, by address."""

    def __init__(self, connections: Connections, links: dict[str, Connection]) -> None:
        self._connections, self._links = connections, links

    def ask(self, addresses: list[str], op: str, payload: bytes = b"", **fields: Any) -> dict[str, dict[str, Any]]:
        """The same question to several; SiteError names every host that could not."""
        replies = {address: self._links[address].ask(op, payload, **fields) for address in addresses}
        self._connections.wait(replies.values(), _ANSWER_SECONDS)
        bad = [f"{address}: {reply.why}" for address, reply in replies.items() if not reply.ok]
        if bad:
            raise SiteError("; ".join(bad))
        return {address: reply.value or {} for address, reply in replies.items()}


def reached_by_ssh(name: str, nodes: list[str], node_python: str, **options: Any) -> Site:
    """The hosts of a cluster that is not there yet; `options`: those of ssh."""
    return Site(name=name, launcher="ssh", hosts=nodes, launcher_options=options, node_python=node_python)


@contextlib.contextmanager
def connected(site: Site, addresses: list[str]) -> Iterator[Hosts]:
    connections = Connections(ssh_options.of(site).fan_out)
    file = node_zip.write(cache_dir("node"))
    reaches = [reach(site, address) for address in addresses]
    links = dict(zip(addresses, connections.links(reaches, file), strict=True))
    for link in links.values():
        link.users += 1
    try:
        connections.reach(list(links.values()))
        dead = [f"{address} cannot be reached: {link.why}" for address, link in links.items() if not link.ready]
        if dead:
            raise SiteError("; ".join(dead))
        yield Hosts(connections, links)
    finally:
        connections.close()


def look(
    hosts: Hosts, addresses: list[str], controller: str, name: str, partition: str, spool: str, gres: dict[str, str]
) -> SlurmCluster:
    """What the hosts have."""
    answers = hosts.ask(list(dict.fromkeys([*addresses, controller])), "slurm_facts", gres={**GRES, **gres})
    members = {address: ClusterHost(address, facts) for address, facts in answers.items()}
    return SlurmCluster(name, partition, members[controller], tuple(members[address] for address in addresses), spool)


def apply(hosts: Hosts, cluster: SlurmCluster, say: Say) -> None:
    """Sets the hosts up; returns when every node is idle, or says of each that is not why."""
    _refuse(cluster)
    everyone = [member.address for member in cluster.everyone]
    owner = slurm_conf.user(cluster)
    _munge(hosts, cluster, everyone)
    say("munge runs on all hosts")
    for name, text in slurm_conf.files(cluster).items():
        place = {"path": f"{_ETC}/{name}", "owner": "root", "mode": 0o644, "folder": False}
        hosts.ask(everyone, "slurm_put", text.encode(), **place)
    state: dict[str, Any] = {"path": f"{cluster.spool}/slurmctld", "owner": owner, "mode": 0o755, "folder": True}
    hosts.ask([cluster.controller.address], "slurm_put", **state)
    hosts.ask([cluster.controller.address], "slurm_start", name="slurmctld")
    say(f"slurmctld runs on {cluster.controller.name}")
    hosts.ask([node.address for node in cluster.nodes], "slurm_start", name="slurmd")
    _until_idle(hosts, cluster)
    say(f"all {len(cluster.nodes)} nodes are idle")


def _refuse(cluster: SlurmCluster) -> None:
    hindrances = slurm_conf.hindrances(cluster)
    for member in cluster.everyone:
        if not member.facts["root"]:
            hindrances.append(f"{member.name}: needs root; give `--user root`")
        running = [name for name in member.facts["running"] if name != "munged"]
        if running:
            hindrances.append(f"{member.name}: {', '.join(running)} runs already; end it first if it may be replaced")
    if hindrances:
        raise SiteError("nothing was changed: " + "; ".join(hindrances))


def _munge(hosts: Hosts, cluster: SlurmCluster, everyone: list[str]) -> None:
    """One key for all: the one they have, or a new one. Hosts with keys of their own are left to their owner."""
    having = [member.address for member in cluster.everyone if member.facts["munge_key"]]
    if not having:
        hosts.ask(everyone, "slurm_put", path="/etc/munge", owner="munge", mode=0o700, folder=True)
        place = {"path": "/etc/munge/munge.key", "owner": "munge", "mode": 0o400, "folder": False}
        hosts.ask(everyone, "slurm_put", os.urandom(1024), **place)
    elif len(having) < len(everyone):
        lacking = [member.name for member in cluster.everyone if not member.facts["munge_key"]]
        raise SiteError(
            f"nothing was changed: no munge key on {', '.join(lacking)}, but on others; copy theirs (step 1)"
        )
    asleep = [member.address for member in cluster.everyone if "munged" not in member.facts["running"]]
    if asleep:
        hosts.ask(asleep, "slurm_start", name="munged")


def _until_idle(hosts: Hosts, cluster: SlurmCluster) -> None:
    began = time.monotonic()
    states: dict[str, str] = {}
    while time.monotonic() - began < _IDLE_SECONDS:
        said = hosts.ask([cluster.controller.address], "slurm_states")[cluster.controller.address]
        states = {name: state for name, state, _ in said["nodes"]}
        if states and all(states.get(node.name) == "idle" for node in cluster.nodes):
            return
        if time.monotonic() - began > _DEAD_SECONDS and _dead(hosts, cluster):
            break
        time.sleep(1.0)
    raise SiteError("not every node is idle: " + "; ".join(_why(hosts, cluster, states)))


def _dead(hosts: Hosts, cluster: SlurmCluster) -> bool:
    """Whether a daemon has ended: no time will make its node idle."""
    answers = hosts.ask([node.address for node in cluster.nodes], "slurm_daemon", name="slurmd")
    return not all(daemon["running"] for daemon in answers.values())


def _why(hosts: Hosts, cluster: SlurmCluster, states: dict[str, str]) -> Iterator[str]:
    """Of each node that is not idle: its state, Slurm's reason, and what its slurmd complained of last."""
    head = cluster.controller.address
    reasons = {name: reason for name, _, reason in hosts.ask([head], "slurm_states")[head]["nodes"]}
    if not states:
        daemon = hosts.ask([head], "slurm_daemon", name="slurmctld")[head]
        said = " / ".join(daemon["said"]) or "it said nothing"
        yield f"slurmctld on {cluster.controller.name} gives no answer: {said}"
    for node in cluster.nodes:
        if states.get(node.name) == "idle":
            continue
        daemon = hosts.ask([node.address], "slurm_daemon", name="slurmd")[node.address]
        life = "" if daemon["running"] else "its slurmd does not run; "
        said = " / ".join([reasons.get(node.name, ""), *daemon["said"]]).strip(" /")
        yield f"{node.name} is {states.get(node.name, 'unknown')}: {life}{said or 'no reason was given'}"
