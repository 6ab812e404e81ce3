"""Slurm: one job holds the nodes for many rounds, and each round is a step in it.

Everything passes through the run's folder, which all nodes see. The controller never needs to reach a node, and nodes
never need to reach the controller.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from trainmark.errors import SiteError, UserError
from trainmark.launch import attempt as attempts
from trainmark.launch import node_zip, trees
from trainmark.launch.attempt import FolderNode
from trainmark.launch.protocol import Asked, AttemptSpec, Ended, Finding, How, Launcher, Quota, Request, StartedAttempt
from trainmark.launch.slurm import options as slurm_options
from trainmark.launch.slurm import plan as slurm_plan
from trainmark.launch.slurm.allocation import LOG, SILENT_SECONDS, TOP, Allocation, all_of, cancel, of_key, still_there
from trainmark.launch.slurm.attempt import SlurmAttempt
from trainmark.launch.slurm.inherited import covering
from trainmark.launch.slurm.options import SlurmOptions
from trainmark.launch.slurm.queue import QueueWatch
from trainmark.launch.transport import SharedFolderTransport
from trainmark.launch.trees import Tree
from trainmark.plan.records import Plan
from trainmark.reasons import Reason, reason
from trainmark.spec.site import Site
from trainmark.spec.yamlfile import Location
from trainmark.store.files import read_json, write_json
from trainmark.store.rundir import write_node_plan

RECORD = "slurm.json"
_LOOK_SECONDS = 0.1
# Slurm waits a while for processes that do not end, and then needs a little longer.
_LEAVE_SECONDS, _GONE_SECONDS = 5.0, 120.0
# Longer than Slurm usually takes to see that a node is down.
_EXCLUDE_SECONDS = 600.0


class SlurmLauncher(Launcher):
    shared_folder = True
    chooses_hosts = True
    rank_starter = "srun"
    engines = ("pyxis", "apptainer")
    options_type = SlurmOptions

    def __init__(self) -> None:
        self._watches: dict[str | None, QueueWatch] = {}
        self._attempts: dict[str, SlurmAttempt] = {}
        self._allocations: dict[Path, Allocation] = {}
        self._trees: dict[tuple[str, ...], Tree] = {}
        # Hosts that were lost, and when.
        self._lost: dict[str, float] = {}
        self._ended: set[Path] = set()

    # ---- what every launcher can do

    def configure(self, site: Site, where: Location) -> Site:
        return slurm_options.configured(super().configure(site, where), where)

    def check(self, site: Site, plan: Plan | None) -> list[Finding]:
        from trainmark.launch.slurm.check import findings

        return findings(site, plan)

    def health(self, site: Site) -> dict[str, dict[str, Any]]:
        from trainmark.launch.slurm.check import health

        return health(site)

    def check_runs(self, site: Site, runs: Path) -> None:
        slurm_plan.check_runs(site, runs)

    def preview(self, plan: Plan) -> list[str]:
        return slurm_plan.preview(plan)

    def quotas(self, site: Site) -> list[Quota]:
        from trainmark.launch.slurm.quotas import listed

        return listed(site)

    def put_quota(self, site: Site, quota: Quota) -> Quota:
        from trainmark.launch.slurm.quotas import put

        return put(site, quota)

    def for_job(self, site: Site, asked: Asked) -> Site:
        return slurm_options.for_job(site, asked)

    def rank_options(self, site: Site) -> tuple[str, ...]:
        return tuple(slurm_options.of(site).step_options)

    def site_for_workers(self, site: Site, *, several: bool) -> Site:
        """Each worker is a job of its own, unless the site asks for one job: then all begin together."""
        options = slurm_options.of(site)
        together = options.allocation == "suite"
        if together and several:
            raise UserError(
                f"site {site.name}: allocation: suite: several workers on a node are jobs of their own; give each a "
                "node (slot.per_node: 1), or leave `allocation` out"
            )
        changed = {} if together else {"allocation": "round", "exclusive": options.exclusive and not several}
        return msgspec.structs.replace(site, launcher_options={**site.launcher_options, **changed})

    def allocation(self, handle: str) -> str | None:
        """`slurm://site/job/order`: the job."""
        return handle.rpartition("/")[0]

    def render(self, spec: AttemptSpec, site: Site) -> Request:
        return slurm_plan.render(spec, site, trees.of_case(spec.case, self._trees))

    def submit(self, request: Request) -> StartedAttempt:
        about = request.nodes[0].plan["slurm"]
        run_dir = Path(about["run_dir"])
        try:
            self._write_programs(run_dir, about)
            for node in request.nodes:
                write_node_plan(node.dir, node.plan)
            allocation = self._allocation(run_dir, about)
            order = self._leave(allocation, request, about)
        except OSError as error:
            raise SiteError(f"{request.attempt_dir}: {error.strerror}") from None
        handle = _handle(about, allocation, order)
        job = StartedAttempt(handle, request.attempt_dir, request.token, _queued(allocation))
        self._follow(job, allocation, order)
        return job

    def find(self, attempt_dir: Path, token: str) -> StartedAttempt | None:
        nodes = self._nodes(attempt_dir, token)
        record = read_json(attempt_dir / RECORD)
        if not nodes or not isinstance(record, dict):
            return None
        about = nodes[0].plan["slurm"]
        allocation = self._known(Path(about["run_dir"]) / TOP / record["allocation"])
        allocation.recover()
        if allocation.job is None or allocation.stage(record["order"]) in ("", "withdrawn"):
            return None
        handle = _handle(about, allocation, record["order"])
        job = StartedAttempt(handle, attempt_dir, token, _queued(allocation))
        if job.handle not in self._attempts:
            self._follow(job, allocation, record["order"])
        return job

    def poll(self, jobs: Sequence[StartedAttempt], seconds: float) -> dict[str, Ended]:
        following = {job.handle: self._attempt(job) for job in jobs}
        deadline = time.monotonic() + seconds
        while True:
            for watch in self._watches.values():
                watch.step()
            states = {handle: attempt.state() for handle, attempt in following.items()}
            if time.monotonic() >= deadline or any(state.state.ended for state in states.values()):
                return states
            time.sleep(_LOOK_SECONDS)

    def cancel(self, job: StartedAttempt, epoch: int, why: Reason | str, how: How) -> None:
        attempt = self._attempt(job)
        if how != "destroy":
            # Agents look at their orders each second.
            if attempts.command(job.attempt_dir, epoch, how, why):
                attempt.agents.asked_to_end = True
                attempt.withdraw(why)
            return
        if attempt.withdraw(why):
            return
        attempt.kill()
        if attempt.allocation.silent() > SILENT_SECONDS and attempt.allocation.job:
            cancel(attempt.allocation)

    def adopt(self, job: StartedAttempt, epoch: int) -> None:
        attempts.command(job.attempt_dir, epoch, "adopt", reason("controller-took-over"))

    def collect(self, job: StartedAttempt) -> None:
        """All of it is in the run's folder already. An allocation that lost a node is given back."""
        attempt = self._attempt(job)
        if attempt.verdict is not None and not attempt.allocation.usable:
            self._note_lost(attempt)
            self._end(attempt.allocation)

    def job_logs(self, run_dir: Path) -> list[Path]:
        """Of each job: its batch script, then its steps."""
        folders = [one.folder for one in all_of(run_dir)]
        return [
            file for folder in folders for file in (folder / LOG, *sorted(folder.glob("[0-9]*.log"))) if file.is_file()
        ]

    def release(self, run_dir: Path) -> list[str]:
        """Ends exactly the jobs of this run; returns when Slurm has none of them left, or who is."""
        open_ones = [one for one in all_of(run_dir) if not one.gone and self._recovered(one)]
        for allocation in open_ones:
            allocation.finish()
        left = self._left(open_ones, _LEAVE_SECONDS)
        for allocation in left:
            cancel(allocation)
        left = self._left(left, _GONE_SECONDS)
        late = f"not ended within {_GONE_SECONDS:g} s"
        return [
            f"steps in Slurm job {one.job} have {late}; see `squeue -s -j {one.job}`"
            if one.borrowed
            else f"Slurm job {one.job} has {late}; see `squeue -j {one.job}`"
            for one in left
        ]

    # ---- starting

    def _write_programs(self, run_dir: Path, about: dict[str, Any]) -> None:
        """The node side and the workload's files, once for the whole run."""
        top = run_dir / TOP
        node_zip.write(top)
        for tree in self._trees.values():
            if tree.name == about["tree"]:
                trees.unpack(tree, top / "trees" / tree.name)

    def _allocation(self, run_dir: Path, about: dict[str, Any]) -> Allocation:
        """The one that stands under this key, or a new one. Those of other keys are given back first."""
        for other in all_of(run_dir):
            if other.folder.stem != about["key"] and other.folder not in self._ended and other.usable:
                self._end(self._known(other.folder))
        known = of_key(run_dir, about["key"])
        if known and about["key"] != slurm_plan.OWN:
            last = self._known(known[-1].folder)
            last.recover()
            over = self._watch(about).end(last.job or "") is not None or (last.borrowed and not last.serving)
            if last.usable and not over:
                return last
            self._end(last)
        number = int(known[-1].folder.suffix[1:]) + 1 if known else 1
        made = self._known(run_dir / TOP / f"{about['key']}.{number}")
        config = {**about["batch_job"], "once": about["key"] == slurm_plan.OWN}
        inside = covering(about["hosts"]) if about["reuse"] and about["named"] else None
        if inside is not None:
            made.borrow(slurm_plan.batch_job(sys.executable, about, str(made.folder)), inside.job, config)
            return made
        name = f"trainmark-{about['run']}-{made.folder.name}"
        argv = slurm_plan.sbatch_of(about, str(made.folder), name, self._excluded())
        made.ask(argv, name, config, about["conf"])
        return made

    def _leave(self, allocation: Allocation, request: Request, about: dict[str, Any]) -> str:
        content = {
            "token": request.token,
            "dirs": [str(node.dir) for node in request.nodes],
            "hosts": [node.host for node in request.nodes],
            "named": about["named"],
            "srun": about["srun"],
        }
        order = allocation.next_order()
        # First where to look, then what to find: a controller that takes over in between finds no order, nor ever will.
        write_json(request.attempt_dir / RECORD, {"allocation": allocation.folder.name, "order": order}, durable=True)
        allocation.order(order, content)
        return order

    # ---- following

    def _watch(self, about: dict[str, Any]) -> QueueWatch:
        return self._watches.setdefault(about["conf"], QueueWatch(about["conf"]))

    def _known(self, folder: Path) -> Allocation:
        return self._allocations.setdefault(folder, Allocation(folder))

    def _nodes(self, attempt_dir: Path, token: str) -> list[FolderNode]:
        return [
            FolderNode(folder, plan, SharedFolderTransport(folder), float(plan["slurm"]["lost_seconds"]))
            for folder, plan in attempts.plans_of(attempt_dir, token)
        ]

    def _follow(self, job: StartedAttempt, allocation: Allocation, order: str) -> None:
        nodes = self._nodes(job.attempt_dir, job.token)
        watch = self._watch(nodes[0].plan["slurm"])
        if allocation.job:
            watch.want(allocation.job)
        self._attempts[job.handle] = SlurmAttempt(allocation, order, nodes, watch)

    def _attempt(self, job: StartedAttempt) -> SlurmAttempt:
        if job.handle not in self._attempts and self.find(job.attempt_dir, job.token) is None:
            raise SiteError(f"{job.attempt_dir}: nothing is known of {job.handle}")
        return self._attempts[job.handle]

    def _note_lost(self, attempt: SlurmAttempt) -> None:
        for node in attempt.nodes:
            if node.ended is not None and node.ended.state == "LOST":
                self._lost[node.host] = time.monotonic()

    def _excluded(self) -> list[str]:
        """Hosts to do without. One that was lost long ago may be back; if it is not, Slurm knows by now."""
        now = time.monotonic()
        return sorted(host for host, when in self._lost.items() if now - when < _EXCLUDE_SECONDS)

    # ---- ending

    def _recovered(self, allocation: Allocation) -> bool:
        """Whether it has a job that may still be there."""
        try:
            allocation.recover()
        except SiteError:
            return False
        return allocation.job is not None

    def _end(self, allocation: Allocation) -> None:
        """An allocation that is of no use any more."""
        self._ended.add(allocation.folder)
        allocation.finish()
        if allocation.job:
            cancel(allocation)
            for watch in self._watches.values():
                watch.forget(allocation.job)

    def _left(self, allocations: list[Allocation], seconds: float) -> list[Allocation]:
        """Waits for the end of jobs; returns those that are still there."""
        deadline, pause = time.monotonic() + seconds, 0.25
        left = still_there(allocations)
        while left and time.monotonic() < deadline:
            time.sleep(pause)
            pause = min(2.0, pause * 1.5)
            left = still_there(left)
        return left


def _handle(about: dict[str, Any], allocation: Allocation, order: str) -> str:
    """A job that is borrowed may be borrowed several times."""
    place = f"{allocation.folder.name}-{order}" if allocation.borrowed else order
    return f"slurm://{about['site']}/{allocation.job}/{place}"


def _queued(allocation: Allocation) -> Reason | None:
    """What an order waits for before the batch job of its allocation was ever heard."""
    if allocation.borrowed or allocation.beat():
        return None
    return reason("slurm-job", job=str(allocation.job), why=reason("slurm-waits-in-queue"))
