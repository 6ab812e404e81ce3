"""Hosts over ssh: one connection each, one agent each. Nothing needs to be installed there but Python and sshd."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from trainmark.cache import cache_dir
from trainmark.errors import SiteError
from trainmark.launch import attempt as attempts
from trainmark.launch import node_zip, trees
from trainmark.launch.attempt import AttemptNodes
from trainmark.launch.protocol import AttemptSpec, Ended, Finding, How, Launcher, Request, StartedAttempt
from trainmark.launch.ssh import abandoned, images
from trainmark.launch.ssh import options as ssh_options
from trainmark.launch.ssh import plan as ssh_plan
from trainmark.launch.ssh.clock import measure
from trainmark.launch.ssh.command_line import forward_line, tunnel_line
from trainmark.launch.ssh.connection import Connection
from trainmark.launch.ssh.connections import Connections
from trainmark.launch.ssh.node import SshNode, reach_of
from trainmark.launch.ssh.options import SshOptions
from trainmark.launch.ssh.plan import REACH
from trainmark.launch.ssh.start import Starter
from trainmark.launch.trees import Tree
from trainmark.plan.records import Plan
from trainmark.reasons import Reason, reason
from trainmark.spec.site import Site, beside, options_location
from trainmark.spec.states import JobState
from trainmark.spec.yamlfile import Location
from trainmark.store.files import read_json, write_json
from trainmark.store.rundir import CLOCK

_COLLECT_SECONDS = 20.0
# At the end of a run, for hosts that were lost and may be back.
_AGAIN_SECONDS = 10.0
# How often all nodes are looked at while they send.
_LOOK_SECONDS = 0.05


class SshLauncher(Launcher):
    engines = ("docker", "podman")
    hands_files = True
    options_type = SshOptions

    def __init__(self, connections: Connections | None = None) -> None:
        self.connections = connections or Connections()
        self._attempts: dict[str, AttemptNodes[SshNode]] = {}
        self._by_dir: dict[tuple[int, str], SshNode] = {}
        self._trees: dict[tuple[str, ...], Tree] = {}
        self._zip: Path | None = None
        self._starter = Starter(self.connections)

    # ---- what every launcher can do

    def configure(self, site: Site, where: Location) -> Site:
        site, place = super().configure(site, where), options_location(site, where)
        options = ssh_options.of(site)
        ssh_options.check(options, place)
        options = msgspec.structs.replace(options, config=options.config and beside(where, options.config))
        return msgspec.structs.replace(site, launcher_options=msgspec.to_builtins(options))

    def check(self, site: Site, plan: Plan | None) -> list[Finding]:
        from trainmark.launch.ssh.check import findings

        with contextlib.closing(self.connections):
            return findings(self.connections, self.zip(), site, plan)

    def health(self, site: Site) -> dict[str, dict[str, Any]]:
        from trainmark.launch.ssh.check import health

        with contextlib.closing(self.connections):
            return health(self.connections, self.zip(), site)

    def monitor(self, site: Site, action: str, port: int, runs: Sequence[str]) -> dict[str, dict[str, Any]]:
        from trainmark.launch.ssh.check import monitor

        with contextlib.closing(self.connections):
            return monitor(self.connections, self.zip(), site, {"action": action, "port": port, "runs": list(runs)})

    def tunnel(self, site: Site, host: str, there: int, here: int) -> list[str]:
        return tunnel_line(ssh_plan.reach(site, host), there, here)

    def forward(self, site: Site, host: str, there: int, here: int) -> list[str] | None:
        reach = ssh_plan.reach(site, host)
        return None if reach.become else forward_line(reach, there, here)

    def for_account(self, site: Site, account: str) -> Site:
        return msgspec.structs.replace(site, launcher_options={**site.launcher_options, "user": account})

    def render(self, spec: AttemptSpec, site: Site) -> Request:
        self.connections.limit = ssh_options.of(site).fan_out
        tree = trees.of_case(spec.case, self._trees)
        self._starter.wanted = images.wanted(site, ssh_plan.WORK)
        nodes = [ssh_plan.render(spec, node, site, tree, self.zip().name) for node in spec.case.nodes]
        return Request(spec.attempt_dir, spec.token, tuple(nodes))

    def submit(self, request: Request) -> StartedAttempt:
        self.connections.links([reach_of(job.plan) for job in request.nodes], self.zip())
        nodes = [self._node(job.dir, job.plan) for job in request.nodes]
        for node in nodes:
            node.link.users += 1
        try:
            self._starter.prepare(nodes, request.attempt_dir, self._trees.values(), self._living())
            for node in nodes:
                self._by_dir[id(node.link), _inner(node)] = node
            self._starter.start(nodes)
        except (SiteError, OSError) as error:
            for node in nodes:
                node.link.users -= 1
            if isinstance(error, SiteError):
                raise
            raise SiteError(f"{request.attempt_dir}: {error.strerror}") from None
        job = StartedAttempt(_handle(nodes), request.attempt_dir, request.token)
        self._attempts[job.handle] = AttemptNodes(nodes)
        for node in nodes:
            node.link.on_ready.append(node.transport.watch)
        return job

    def find(self, attempt_dir: Path, token: str) -> StartedAttempt | None:
        nodes = self._read_nodes(attempt_dir, token)
        if not nodes:
            return None
        job = StartedAttempt(_handle(nodes), attempt_dir, token)
        if job.handle in self._attempts:
            return job
        self._attach(nodes, job)
        # A host that cannot be asked may well have an agent: only a plain no from all counts.
        never = all(node.never_began for node in nodes)
        if never:
            del self._attempts[job.handle]
        return None if never else job

    def poll(self, jobs: Sequence[StartedAttempt], seconds: float) -> dict[str, Ended]:
        following = {job.handle: self._attempt(job) for job in jobs}

        def news() -> bool:
            now = time.monotonic()
            for attempt in following.values():
                attempt.follow(now)
            return any(attempt.over for attempt in following.values())

        self.connections.until(news, seconds, every=_LOOK_SECONDS)
        return {handle: attempt.state() for handle, attempt in following.items()}

    def cancel(self, job: StartedAttempt, epoch: int, why: Reason | str, how: How) -> None:
        attempt = self._attempt(job)
        if how != "destroy" and not attempts.command(job.attempt_dir, epoch, how, why):
            return
        attempt.asked_to_end = True
        for node in attempt.nodes:
            if node.ended is None:
                if how == "destroy":
                    node.link.ask("destroy", **node.transport.address)
                else:
                    node.transport.repeat_order()
        self.connections.step(0.0)

    def adopt(self, job: StartedAttempt, epoch: int) -> None:
        attempts.command(job.attempt_dir, epoch, "adopt", reason("controller-took-over"))
        replies = [node.transport.repeat_order() for node in self._attempt(job).nodes if node.ended is None]
        self.connections.wait(replies, _COLLECT_SECONDS)

    def collect(self, job: StartedAttempt) -> None:
        """Everything arrived before a node's end was known; here the hosts are cleared."""
        attempt = self._attempt(job)
        whole = attempt.over and attempt.state().state is JobState.SUCCEEDED
        ended = [node for node in attempt.nodes if not node.collected and node.ended]
        nodes = [node for node in ended if node.link.ready]
        for node in ended:
            if not node.link.ready:
                node.leave_behind()
        replies = []
        for node, clock in zip(nodes, measure(self.connections, [node.link for node in nodes]), strict=True):
            write_json(node.folder / CLOCK, {**(read_json(node.folder / CLOCK) or {}), "end": clock.record()})
            node.collected = True
            if node.transport.left_there:
                continue
            # A round that is done needs its checkpoints no more.
            done = [node.plan["config"]["checkpoints"]] if whole else []
            replies.append(node.link.ask("forget", dirs=[node.plan["dir"], *done]))
        self.connections.wait(replies, _COLLECT_SECONDS)

    def release(self, run_dir: Path) -> list[str]:
        """What is still on hosts that were lost is tried once more. Then connections end: the process may live on."""
        noted = [(self.connections.link(one.reach, self.zip()), one) for one in abandoned.of(run_dir)]
        links = list({id(link): link for link, _ in noted}.values())
        for link in links:
            link.users += 1
        if links:
            self.connections.reach(links, _AGAIN_SECONDS)
        abandoned.clear(self.connections, [(link, one) for link, one in noted if link.ready])
        for link in links:
            link.users -= 1
        kept = [
            f"{link.reach.host} keeps {one.address['dir']}: {link.why}; `trainmark stop {run_dir.name}` tries "
            "again, and the next run there clears it"
            for link, one in noted
            if one.file.exists()
        ]
        self.connections.close()
        return kept

    # ---- what is sent

    def zip(self) -> Path:
        """The node side as one file, made once."""
        if self._zip is None:
            self._zip = node_zip.write(cache_dir("node"))
        return self._zip

    def _node(self, folder: Path, plan: dict[str, Any]) -> SshNode:
        link = self.connections.link(reach_of(plan), self.zip())
        link.on_frame = lambda header, data: self._frame(link, header, data)
        return SshNode(folder, plan, link)

    # ---- following

    def _living(self) -> set[Path]:
        """Attempts that this controller still follows."""
        return {node.folder for attempt in self._attempts.values() for node in attempt.nodes if node.ended is None}

    def _attempt(self, job: StartedAttempt) -> AttemptNodes[SshNode]:
        if job.handle not in self._attempts:
            self._attach(self._read_nodes(job.attempt_dir, job.token), job)
        return self._attempts[job.handle]

    def _read_nodes(self, attempt_dir: Path, token: str) -> list[SshNode]:
        return [self._node(folder, plan) for folder, plan in attempts.plans_of(attempt_dir, token)]

    def _attach(self, nodes: list[SshNode], job: StartedAttempt) -> None:
        """Takes up an attempt that another controller started: from its results here, else from the hosts."""
        self._attempts[job.handle] = AttemptNodes(nodes)
        waiting = []
        for node in nodes:
            node.link.users += 1
            if attempts.has_result(node.folder, node.plan["token"]):
                node.gone(None)
            else:
                waiting.append(node)
                self._by_dir[id(node.link), _inner(node)] = node
                node.link.on_ready.append(node.transport.watch)
                if node.link.ready:
                    node.transport.watch()
        seconds = max((node.link.patience for node in waiting), default=0.0)
        self.connections.until(lambda: all(node.looked_for for node in waiting), seconds)
        self._attempts[job.handle].follow(time.monotonic())

    def _frame(self, link: Connection, header: dict[str, Any], data: bytes) -> None:
        if header["op"] == "progress":
            self._starter.note(f"{link.reach.host}: {header['text']}")
            return
        inner = str(header.get("dir", "")).removeprefix(str(link.hello.get("work", "")))
        node = self._by_dir.get((id(link), inner))
        if node is None or node.ended is not None:
            return
        if header["op"] == "file":
            node.transport.take(header, data)
        elif header["op"] == "not-sent":
            node.transport.leave_there(header)
        elif header["op"] == "ending":
            node.over_there = True
        elif header["op"] == "gone":
            node.gone(header.get("exit"))


def _inner(node: SshNode) -> str:
    """The node's folder below the host's work folder."""
    return str(node.plan["dir"]).removeprefix(ssh_plan.WORK)


def _handle(nodes: list[SshNode]) -> str:
    plan = nodes[0].plan
    return f"ssh://{plan[REACH]['site']}/{plan['run']}/{plan['token'][:16]}"
