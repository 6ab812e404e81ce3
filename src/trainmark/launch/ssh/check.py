"""What `doctor` says of hosts over ssh, and `run` of those it needs: all hosts at once, a plain reason per failure."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trainmark.launch import agent_command, devices
from trainmark.launch.protocol import Finding
from trainmark.launch.ssh import images
from trainmark.launch.ssh import options as ssh_options
from trainmark.launch.ssh import plan as ssh_plan
from trainmark.launch.ssh import pythons as ssh_pythons
from trainmark.launch.ssh.clock import ClockOffset, measure
from trainmark.launch.ssh.connection import Connection, Reply
from trainmark.launch.ssh.connections import Connections
from trainmark.launch.ssh.pythons import FrameworksByPython
from trainmark.plan.records import Plan
from trainmark.spec.case import SYNTHETIC
from trainmark.spec.site import Build, Site

_LEAST_DISK = 2**30
# More than this between two clocks confuses people who read logs side by side; no figure depends on it.
_CLOCK_SECONDS = 1.0
_SECONDS = 120.0


def findings(connections: Connections, node_zip: Path, site: Site, plan: Plan | None) -> list[Finding]:
    """`plan`: only what its cases need, and quickly; without one everything is looked at."""
    hosts = needed(site, plan)
    with _reached(connections, node_zip, site, hosts) as links:
        return _ordered(hosts, list(_all(connections, links, site, plan, node_zip.name)))


def health(connections: Connections, node_zip: Path, site: Site) -> dict[str, dict[str, Any]]:
    """Facts of the hosts that answer; `findings` says of the others why they do not."""
    paths = [path for path in (site.work_dir, site.shared_dir, *site.data.values()) if path]
    with _reached(connections, node_zip, site, site.hosts) as links:
        connections.reach(list(links.values()))
        known = sorted({path for path in paths if path.startswith(("/", "~"))})
        asked = {host: link.ask("health", paths=known) for host, link in links.items() if link.ready}
        connections.wait(asked.values(), _SECONDS)
        told = {host: (reply.value or {}).get("facts") for host, reply in asked.items() if reply.ok}
        return {host: facts for host, facts in told.items() if facts}


def monitor(connections: Connections, node_zip: Path, site: Site, asked: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What the exporter of each host says; of one that cannot be asked, why."""
    with _reached(connections, node_zip, site, site.hosts) as links:
        connections.reach(list(links.values()))
        found: dict[str, dict[str, Any]] = {
            host: {"running": False, "why": link.why} for host, link in links.items() if not link.ready
        }
        replies = {host: link.ask("monitor", **asked) for host, link in links.items() if link.ready}
        connections.wait(replies.values(), _SECONDS)
        for host, reply in replies.items():
            found[host] = dict(reply.value or {}) if reply.ok else {"running": False, "why": reply.why}
        return {host: found[host] for host in site.hosts}


@contextmanager
def _reached(
    connections: Connections, node_zip: Path, site: Site, hosts: Sequence[str]
) -> Iterator[dict[str, Connection]]:
    """Links to the hosts, given up again when nobody else needs them."""
    reaches = [ssh_plan.reach(site, host) for host in hosts]
    links = dict(zip(hosts, connections.links(reaches, node_zip), strict=True))
    connections.limit = ssh_options.of(site).fan_out
    for link in links.values():
        link.users += 1
    try:
        yield links
    finally:
        for link in links.values():
            link.users -= 1
            if not link.users:
                link.lose("nobody needs it")


def needed(site: Site, plan: Plan | None) -> list[str]:
    if plan is None:
        return site.hosts
    wanted = {node.host for case in plan.cases for node in case.nodes}
    return [host for host in site.hosts if host in wanted]


def _ordered(hosts: list[str], found: list[Finding]) -> list[Finding]:
    return sorted(found, key=lambda finding: hosts.index(finding.host))


def _all(
    connections: Connections, links: dict[str, Connection], site: Site, plan: Plan | None, node_zip: str
) -> Iterator[Finding]:
    connections.reach(list(links.values()))
    alive = {host: link for host, link in links.items() if link.ready}
    for host, link in links.items():
        if not link.ready:
            yield Finding(host, "reachable", False, link.why, "nothing else could be looked at")
    pythons = ssh_pythons.wanted(site, plan)
    question = _question(site, plan, pythons)
    asked = {host: link.ask("check", **question) for host, link in alive.items()}
    connections.wait(asked.values(), _SECONDS)
    clocks = dict(zip(alive, measure(connections, list(alive.values())), strict=True))
    for host, reply in asked.items():
        if not reply.ok:
            yield Finding(host, "reachable", False, reply.why)
            continue
        yield Finding(host, "reachable", True, f"as {links[host].hello.get('host')}")
        yield from judge(host, reply.value or {}, site, clocks[host], pythons, deep=plan is None)
        if plan is not None:
            yield from devices.judge(host, (reply.value or {}).get("devices") or {}, plan)
    yield from _same_image(asked)
    yield from _neighbours(connections, alive, every_pair=plan is None)
    if site.shared_dir:
        yield from _shared(connections, alive, site, node_zip)


def _question(site: Site, plan: Plan | None, pythons: FrameworksByPython) -> dict[str, Any]:
    data = {case.data for case in plan.cases} if plan else set(site.data.values())
    where = None
    if site.container:
        where = {"engine": site.container.engine, "image": images.image_name(site.container), "name": ""}
    return {
        "data": sorted(path for path in data if path and path != SYNTHETIC and path.startswith("/")),
        "ports": [site.master_port],
        "pythons": ssh_pythons.questions(site, plan, pythons),
        "container": where,
        "vendors": None if plan is None else devices.wanted(plan),
    }


def judge(
    host: str, facts: dict[str, Any], site: Site, clock: ClockOffset, pythons: FrameworksByPython, *, deep: bool
) -> Iterator[Finding]:
    """One host's facts as findings. Pure."""
    yield Finding(host, "node python", True, facts["python"])
    if facts["container"]:
        why = facts["container"].get("why")
        later = facts["container"].get("kind") == "image" and _brings_image(site)
        yield Finding(host, "image", None if later else not why, why or facts["container"]["id"])
    if not (facts["container"] and facts["container"].get("why")):
        yield from ssh_pythons.judge(host, facts["pythons"], site, pythons, deep=deep)
    enough, free = facts["disk"] > _LEAST_DISK, f"{facts['disk'] / 2**30:.1f} GiB free in {site.work_dir}"
    yield Finding(host, "disk", enough, free, "" if enough else "make room for results")
    if facts["memory"] is not None:
        yield Finding(host, "memory", True, f"{facts['memory'] / 2**30:.1f} GiB")
    yield Finding(host, "cores", True, f"{facts['cores']}, {facts['model'] or 'unknown model'}")
    yield from devices.shown(host, facts["devices"])
    for path, why in facts["unreadable"].items():
        cure = "put it there, or name another place under `data:` in the site"
        yield Finding(host, "data", False, f"{path}: {why}", cure)
    if facts["taken"]:
        yield Finding(host, "port", False, facts["taken"], "choose another `master_port`, or 0 for any free one")
    busy = facts["load"] > 0.5 * facts["cores"]
    cure = "other work disturbs measurements" if busy else ""
    yield Finding(host, "load", None if busy else True, f"{facts['load']:.2f}", cure)
    if clock.offset is not None:
        off = abs(clock.offset) > _CLOCK_SECONDS
        cure = "no figure depends on it; logs are easier to read with NTP" if off else ""
        said = f"{clock.offset:+.3f} s from here (± {clock.error:.3f})"
        yield Finding(host, "clock", None if off else True, said, cure)


def _brings_image(site: Site) -> bool:
    """Whether a run would pull or build what is missing."""
    return bool(site.container and (site.container.pull == "missing" or isinstance(site.container.image, Build)))


def _same_image(asked: dict[str, Reply]) -> Iterator[Finding]:
    images = {host: (reply.value or {}).get("container") for host, reply in asked.items() if reply.ok}
    identities = {host: image["id"] for host, image in images.items() if image and "id" in image}
    first = next(iter(identities.values()), None)
    for host, identity in identities.items():
        if identity != first:
            said = f"{identity} is not that of the first host, {first}"
            yield Finding(host, "image", False, said, "load the same image on all hosts")


def _neighbours(connections: Connections, links: dict[str, Connection], *, every_pair: bool) -> Iterator[Finding]:
    """`run` tries a ring, `doctor` every pair."""
    hosts = list(links)
    if len(hosts) < 2:
        return
    token = os.urandom(8).hex()
    heard = {host: link.ask("listen", token=token) for host, link in links.items()}
    connections.wait(heard.values(), _SECONDS)
    ports = {host: (reply.value or {}).get("port") for host, reply in heard.items() if reply.ok}
    tried = {}
    for index, host in enumerate(hosts):
        others = [other for other in hosts if other != host] if every_pair else [hosts[(index + 1) % len(hosts)]]
        targets = [{"host": other, "port": ports[other]} for other in others if other in ports]
        tried[host] = (len(targets), links[host].ask("reach", targets=targets, token=token))
    connections.wait((reply for _, reply in tried.values()), _SECONDS)
    for host, (count, reply) in tried.items():
        failed = (reply.value or {}).get("failed") or {}
        why = reply.why if not reply.ok else "; ".join(f"{other}: {text}" for other, text in failed.items())
        cure = "its name must resolve and its ports be open between the hosts" if why else ""
        yield Finding(host, "network", not why, why or f"reaches {count} other host{'s' if count > 1 else ''}", cure)


def _shared(connections: Connections, links: dict[str, Connection], site: Site, node_zip: str) -> Iterator[Finding]:
    """One host holds a lock on a token, all others must read it and not get the lock; containers, too."""
    token, path, hosts = os.urandom(8).hex(), str(site.shared_dir), list(links)
    inside = _look_from_container(site, token, node_zip) if site.container else None
    steps: list[tuple[str, list[str], list[str] | None]] = [("hold", hosts[:1], None), ("look", hosts[1:], None)]
    if inside:
        steps.append(("look", hosts, inside))
    for step, group, argv in [*steps, ("end", hosts[:1], None)]:
        replies = {host: links[host].ask("share", path=path, token=token, step=step, argv=argv) for host in group}
        connections.wait(replies.values(), _SECONDS)
        for host, reply in replies.items():
            why = (reply.value or {}).get("why")
            if step != "end":
                cure = "is it one file system on all hosts?" if why else ""
                yield Finding(host, "shared_dir", not why, why or f"{path}{' in a container' if argv else ''}", cure)


def _look_from_container(site: Site, token: str, node_zip: str) -> list[str] | None:
    if not site.container:
        return None
    agent = [site.container.python, "-I", "-S", f"{ssh_plan.WORK}/node/{node_zip}"]
    look = [*agent, "shared-folder", str(site.shared_dir), token]
    blank = {"token": token, "node": "share", "run": "check", "config": {}}
    image = images.image_name(site.container)
    return agent_command.in_container(site.container, blank, look, ssh_plan.WORK, image, site.shared_dir).argv
