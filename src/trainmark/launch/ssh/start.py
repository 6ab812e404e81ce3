"""Starting an attempt on several hosts: everything each of them needs, then all agents, or none."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from trainmark.agent.placeholders import agree_on
from trainmark.agent.reasons import reason
from trainmark.errors import SiteError
from trainmark.launch.attempt import has_result
from trainmark.launch.ssh import abandoned, images
from trainmark.launch.ssh.clock import ClockOffset, measure
from trainmark.launch.ssh.connection import Connection, Reply
from trainmark.launch.ssh.connections import Connections
from trainmark.launch.ssh.node import SshNode
from trainmark.launch.ssh.plan import REACH
from trainmark.launch.trees import Tree
from trainmark.store.files import read_json, write_json
from trainmark.store.rundir import CLOCK, IMAGE, NODE_PLAN, RUN_LOG, write_node_plan

# For one question to a host that answers; reaching it has a time of its own.
_ANSWER_SECONDS = 90.0
_END_SECONDS = 20.0


class Starter:
    """`wanted`: the images and packages of the site. SiteError names every host that could not, and why."""

    def __init__(self, connections: Connections) -> None:
        self.wanted: images.ImageWants | None = None
        self._connections = connections
        self._log: Path | None = None
        self._abandoned: dict[Path, dict[str, Any]] | None = None
        self._provider = images.Provider(connections, self._send, self.note)

    def note(self, text: str) -> None:
        """For the run's log: what is brought to hosts may take long."""
        if self._log is not None:
            with self._log.open("a", encoding="utf-8") as out:
                out.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")

    def prepare(self, nodes: list[SshNode], attempt_dir: Path, trees: Iterable[Tree], living: set[Path]) -> None:
        """All that comes before the start; the last thing is to write the attempt down."""
        run_dir = attempt_dir.parents[2]
        self._log = run_dir / RUN_LOG
        self._reach(nodes)
        self._end_abandoned(run_dir, nodes, living)
        abandoned.clear(self._connections, abandoned.near(run_dir, [node.link for node in nodes]))
        clocks = measure(self._connections, [node.link for node in nodes])
        for tree in trees:
            self._send([node.link for node in nodes if node.plan[REACH]["tree"] == tree.name], tree)
        began = time.monotonic()
        if self.wanted is not None:
            self._provider.provide([node.link for node in nodes], self.wanted)
        provided = time.monotonic() - began
        self._clear_caches(nodes)
        self._agree_on_ports(nodes)
        _write_down(nodes, clocks)
        if self.wanted is not None and self.wanted.image:
            write_json(attempt_dir / IMAGE, {"seconds": provided})

    def start(self, nodes: list[SshNode]) -> None:
        replies = [(node, _start(node)) for node in nodes]
        try:
            self._need([(node.link, reply) for node, reply in replies], "start the agent")
        except SiteError:
            # One that did not start makes the others useless.
            self._end([(node.link, node) for node in nodes])
            raise
        if self._abandoned is not None:
            # Should one of them be given up, it is ended before its host is used again.
            self._abandoned.update({node.folder: node.plan for node in nodes})

    def _reach(self, nodes: list[SshNode]) -> None:
        self._connections.reach(list({id(node.link): node.link for node in nodes}.values()))
        dead = [node for node in nodes if not node.link.ready]
        if dead:
            raise SiteError("; ".join(f"{node.host} cannot be reached: {node.link.why}" for node in dead[:5]))

    def _end_abandoned(self, run_dir: Path, nodes: list[SshNode], living: set[Path]) -> None:
        """Agents that were given up, by this controller or an earlier one, do not work beside the new ones."""
        if self._abandoned is None:
            found = ((file.parent, read_json(file)) for file in run_dir.glob(f"*/round*/attempt*/*/{NODE_PLAN}"))
            self._abandoned = {folder: plan for folder, plan in found if isinstance(plan, dict) and REACH in plan}
        links = {node.host: node.link for node in nodes}
        ended = []
        for folder, plan in list(self._abandoned.items()):
            if has_result(folder, plan["token"]):
                del self._abandoned[folder]
            elif folder not in living and plan["host"] in links:
                ended.append((links[plan["host"]], SshNode(folder, plan, links[plan["host"]])))
                del self._abandoned[folder]
        self._end(ended)

    def _end(self, nodes: list[tuple[Connection, SshNode]]) -> None:
        replies = []
        for link, node in nodes:
            replies += [link.ask("destroy", **node.transport.address), link.ask("forget", dirs=[node.plan["dir"]])]
        self._connections.wait(replies, _END_SECONDS)

    def _send(self, links: list[Connection], tree: Tree) -> None:
        """Files, to those who lack them."""
        asked = [(link, link.ask("have", trees=[tree.name])) for link in links]
        self._need(asked, "look for files")
        lacking = [link for link, reply in asked if (reply.value or {}).get("missing")]
        self._need([(link, link.ask("tree", tree.content, name=tree.name)) for link in lacking], "take files")

    def _clear_caches(self, nodes: list[SshNode]) -> None:
        """Where the site wants it. A busy disk may take long; what could not be done is in the result."""
        asked = [(node, node.link.ask("clear_caches")) for node in nodes if node.plan[REACH]["clear_caches"]]
        self._connections.wait((reply for _, reply in asked), _ANSWER_SECONDS)
        for node, reply in asked:
            why = reply.why or f"no answer within {_ANSWER_SECONDS:g} s"
            warnings = (reply.value or {})["warnings"] if reply.ok else [reason("caches-not-cleared", why=why)]
            node.plan = {**node.plan, "warnings": warnings}

    def _agree_on_ports(self, nodes: list[SshNode]) -> None:
        """Found free on the first node, where the ranks will meet."""
        first = nodes[0]
        wanted = list(first.plan["ports"])
        if not wanted or len(nodes) == 1:
            return
        reply = first.link.ask("ports", wanted=wanted)
        self._need([(first.link, reply)], "hold a port")
        numbers = [int(number) for number in (reply.value or {})["numbers"]]
        for node in nodes:
            node.plan = agree_on(node.plan, numbers)

    def _need(self, replies: list[tuple[Connection, Reply]], what: str) -> None:
        self._connections.need(replies, what, _ANSWER_SECONDS)


def _write_down(nodes: list[SshNode], clocks: list[ClockOffset]) -> None:
    """Before anything starts, so that a controller that takes over knows where to look."""
    for node, clock in zip(nodes, clocks, strict=True):
        write_node_plan(node.folder, node.plan)
        write_json(node.folder / CLOCK, {"start": clock.record()})


def _start(node: SshNode) -> Reply:
    about = node.plan[REACH]
    return node.link.ask("start", _handed(node), plan=node.plan, argv=about["argv"], **node.transport.address)


def _handed(node: SshNode) -> bytes:
    """As a message's content: of that nothing is filled in, and nothing is written down."""
    try:
        found = {name: Path(file).read_text() for name, file in node.plan["handed"].items()}
    except OSError as error:
        raise SiteError(f"{error.filename}: {error.strerror}") from None
    return msgspec.json.encode(found) if found else b""
