"""This machine: one agent, started in a session of its own so that it outlives a killed controller."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

import trainmark.agent
from trainmark.agent import linux
from trainmark.agent.events import shipper
from trainmark.cache import cache_dir
from trainmark.errors import SiteError, UserError
from trainmark.launch import attempt as attempts
from trainmark.launch import node_plan, process
from trainmark.launch.protocol import AttemptSpec, Ended, Finding, How, Launcher, Request, StartedAttempt
from trainmark.launch.ssh.options import SshOptions
from trainmark.plan.records import Plan
from trainmark.reasons import Reason, reason
from trainmark.spec.site import Site, options_location
from trainmark.spec.states import JobState
from trainmark.spec.yamlfile import Location
from trainmark.store.files import read_json
from trainmark.store.rundir import CLAIM, NODE_PLAN, RESULT, STATUS, write_node_plan

_AGENT = Path(trainmark.agent.__file__).with_name("__main__.py")


class LocalOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a site may say of this machine."""

    # An agent or a rank that was stopped for so long is given up.
    lost_seconds: float = 120.0


class LocalLauncher(Launcher):
    this_machine = True
    shared_folder = True
    options_type = LocalOptions

    def __init__(self) -> None:
        # Agents that this controller started, by handle.
        self._agents: dict[str, subprocess.Popen[bytes]] = {}
        # Of agents under way: how long they have been silent; why they were ended for it.
        self._silences: dict[str, attempts.AgentSilence] = {}
        self._frozen: dict[str, Reason] = {}

    def configure(self, site: Site, where: Location) -> Site:
        if len(site.hosts) > 1:
            raise UserError(
                f"{where.at('hosts')}: launcher `local` runs on this machine only, found {len(site.hosts)} hosts"
            )
        for name in ("container", "interface", "shared_dir"):
            if getattr(site, name) is not None:
                raise UserError(
                    f"{where.at(name)}: launcher `local` has none; use launcher `ssh`, be it with this host alone"
                )
        site = super().configure(site, where)
        seconds = _options(site).lost_seconds
        if not 1 <= seconds <= 86400:
            place = options_location(site, where).at("lost_seconds")
            raise UserError(f"{place}: found {seconds:g}, allowed is 1 to 86400")
        return site

    def check(self, site: Site, plan: Plan | None) -> list[Finding]:
        from trainmark.launch.local import check as local_check

        return local_check.findings(site, plan)

    def health(self, site: Site) -> dict[str, dict[str, Any]]:
        from trainmark.agent.health.collect import health

        paths = sorted({str(Path.cwd()), *(path for path in site.data.values() if path.startswith("/"))})
        return {os.uname().nodename: health(paths)}

    def monitor(self, site: Site, action: str, port: int, runs: Sequence[str]) -> dict[str, dict[str, Any]]:
        del site
        from trainmark.agent.exporter.control import monitor

        asked = {"action": action, "port": port, "runs": [str(Path(folder).resolve()) for folder in runs]}
        agent = [sys.executable, "-I", "-S", str(_AGENT)]
        return {os.uname().nodename: monitor(asked, str(cache_dir("monitor")), agent)}

    def check_plan(self, plan: Plan) -> None:
        from trainmark.launch.local import check as local_check

        local_check.check_plan(plan)

    def forward(self, site: Site, host: str, there: int, here: int) -> list[str] | None:
        del site, host, there, here
        return None

    def for_account(self, site: Site, account: str) -> Site:
        """Through a relay, as on another host: nothing that the account can change is read with this one's rights."""
        from trainmark.launch.local.accounts import check_account, python_of_all

        check_account(account)
        options = SshOptions(become=account, lost_seconds=_options(site).lost_seconds)
        return msgspec.structs.replace(
            site,
            launcher="ssh",
            launcher_options=msgspec.to_builtins(options),
            hosts=[os.uname().nodename],
            python=site.python or python_of_all(),
        )

    def render(self, spec: AttemptSpec, site: Site) -> Request:
        lost = _options(site).lost_seconds
        nodes = tuple(node_plan.render(spec, node, site, lost_seconds=lost) for node in spec.case.nodes)
        return Request(spec.attempt_dir, spec.token, nodes)

    def submit(self, request: Request) -> StartedAttempt:
        (node,) = request.nodes
        try:
            write_node_plan(node.dir, node.plan)
            agent = start_agent(node.dir)
        except OSError as error:
            raise SiteError(f"{node.dir}: the agent could not be started: {error}") from None
        job = StartedAttempt(_handle(agent.pid, process.start_ticks(agent.pid)), request.attempt_dir, request.token)
        self._agents[job.handle] = agent
        return job

    def find(self, attempt_dir: Path, token: str) -> StartedAttempt | None:
        claim = _claim(attempt_dir)
        if claim is None or claim.get("token") != token:
            return None
        # Of a damaged claim, what is no number is as good as missing: no process has it.
        said = [claim.get(name) for name in ("pid", "start_ticks")]
        pid, ticks = (one if type(one) is int and 0 <= one < 1 << 62 else 0 for one in said)
        return StartedAttempt(
            _handle(pid, ticks if claim.get("boot_id") == process.boot_id() else None), attempt_dir, token
        )

    def poll(self, jobs: Sequence[StartedAttempt], seconds: float) -> dict[str, Ended]:
        waiting = select.poll()
        alive: dict[str, int] = {}
        try:
            for job in jobs:
                handle = self._open(job)
                if handle is not None:
                    alive[job.handle] = handle
                    waiting.register(handle, select.POLLIN)
            if len(alive) == len(jobs):
                waiting.poll(seconds * 1000)
            return {job.handle: self._state(job) for job in jobs}
        finally:
            for handle in alive.values():
                os.close(handle)

    def cancel(self, job: StartedAttempt, epoch: int, why: Reason | str, how: How) -> None:
        handle = self._open(job)
        if handle is None:
            return
        try:
            if how == "destroy":
                _destroy(job)
                return
            # The order is in a file, which an agent that has just been started reads as soon as it listens; the signal
            # would end it before.
            if attempts.command(job.attempt_dir, epoch, how, why) and _listens(job.attempt_dir):
                signal.pidfd_send_signal(handle, signal.SIGTERM)
        except ProcessLookupError:
            pass
        finally:
            os.close(handle)

    def adopt(self, job: StartedAttempt, epoch: int) -> None:
        attempts.command(job.attempt_dir, epoch, "adopt", reason("controller-took-over"))

    def collect(self, job: StartedAttempt) -> None:
        folders = attempts.node_dirs(job.attempt_dir)
        if not folders or not all(_left_nothing(folder) for folder in folders):
            from trainmark.agent.contain.sweep import sweep

            sweep(job.token)
        for folder in folders:
            # Only now nobody writes to the spool any more. On a full disk its events stay there for a later look.
            with contextlib.suppress(OSError):
                shipper.complete(str(folder))

    def release(self, run_dir: Path) -> list[str]:
        """Events that stayed in a spool when the disk was full are shipped as soon as there is room."""
        left = []
        for spool in run_dir.glob("*/round*/attempt*/*/spool"):
            try:
                if (spool.parent / RESULT).exists():
                    shipper.complete(str(spool.parent))
            except OSError as error:
                left.append(f"{spool.parent} keeps events in its spool: {error.strerror}; make room and resume the run")
        return left

    def _state(self, job: StartedAttempt) -> Ended:
        handle = self._open(job)
        if handle is not None:
            os.close(handle)
            self._end_if_frozen(job)
            return Ended(JobState.RUNNING)
        for folder in attempts.node_dirs(job.attempt_dir):
            agent = self._agents.get(job.handle)
            ended = attempts.of_node(folder, job.token, agent.returncode if agent else None)
            frozen = self._frozen.get(job.handle)
            return Ended(JobState.LOST, frozen) if frozen and ended.state is JobState.LOST else ended
        return attempts.removed(job.attempt_dir)

    def _end_if_frozen(self, job: StartedAttempt) -> None:
        """Ends an agent that lives and gives no sign of life."""
        silence = self._silences.get(job.handle)
        if silence is None:
            for _, plan in attempts.plans_of(job.attempt_dir, job.token):
                # Plans of older versions have no such deadline.
                lost = float(plan["deadlines"].get("lost", LocalOptions().lost_seconds))
                self._silences[job.handle] = attempts.AgentSilence(lost)
            return
        now = time.monotonic()
        for folder in attempts.node_dirs(job.attempt_dir):
            silence.hear(attempts.last_sign(folder), now)
        seconds = silence.too_long(now)
        if seconds is not None and job.handle not in self._frozen:
            self._frozen[job.handle] = reason("no-sign-of-life", seconds=seconds)
            _destroy(job)

    def _open(self, job: StartedAttempt) -> int | None:
        """A pidfd on the attempt's agent, or None when it is gone."""
        pid, agent = _pid(job), self._agents.get(job.handle)
        if agent is not None and agent.poll() is not None:
            return None
        try:
            handle = os.pidfd_open(pid)
        except (OSError, OverflowError):
            return None
        if str(process.start_ticks(pid)) != job.handle.rpartition(".")[2]:
            os.close(handle)
            return None
        return handle


def start_agent(folder: Path) -> subprocess.Popen[bytes]:
    """An agent for the node plan in `folder`, in a session of its own so that it outlives its controller."""
    # Isolated and without site: the node side needs the standard library only, and starts in half the time.
    argv = [sys.executable, "-I", "-S", str(_AGENT), "run", str(folder / NODE_PLAN)]
    with (folder / "agent.log").open("ab") as log:
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def _left_nothing(folder: Path) -> bool:
    """Whether the agent has proven it."""
    result = read_json(folder / RESULT)
    containment = result.get("containment") if isinstance(result, dict) else None
    return isinstance(containment, dict) and bool(containment.get("left") == 0)


def _options(site: Site) -> LocalOptions:
    return msgspec.convert(site.launcher_options, LocalOptions)


def _destroy(job: StartedAttempt) -> None:
    """The agent, whose pid was just seen to be its own, and all below it."""
    proc = linux.Proc()
    proc.destroy_tree(_pid(job))
    os.close(proc.fd)


def _handle(pid: int, start_ticks: int | None) -> str:
    """Pid and start time: a pid alone may be somebody else's by the time it is used."""
    return f"local://{os.uname().nodename}/{pid}.{start_ticks}"


def _pid(job: StartedAttempt) -> int:
    return int(job.handle.rpartition("/")[2].partition(".")[0])


def _listens(attempt_dir: Path) -> bool:
    """Whether the agent has told its state, which it does when signals no longer end it."""
    return any((folder / STATUS).exists() for folder in attempts.node_dirs(attempt_dir))


def _claim(attempt_dir: Path) -> dict[str, Any] | None:
    for folder in attempts.node_dirs(attempt_dir):
        found = read_json(folder / CLAIM)
        if isinstance(found, dict):
            return found
    return None
