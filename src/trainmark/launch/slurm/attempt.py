"""An attempt in an allocation: what its folder, its batch job and Slurm itself tell, and what that means."""

from __future__ import annotations

import pwd
import time
from typing import Any

from trainmark.launch import attempt as attempts
from trainmark.launch.attempt import AttemptNodes, FolderNode
from trainmark.launch.protocol import Ended
from trainmark.launch.slurm.allocation import SILENT_SECONDS, Allocation
from trainmark.launch.slurm.queue import QueueWatch
from trainmark.launch.slurm.states import SlurmJob, ended, failure_of, memory_kill, waiting_for
from trainmark.reasons import Reason, as_reason, reason
from trainmark.spec.states import JobState
from trainmark.store.files import read_json
from trainmark.store.rundir import CONTROL

# How long Slurm may take to say why a step ended that nobody here had ended.
_DOUBT_SECONDS = 15.0
# A job may be COMPLETING for as long as Slurm's KillWait and a bad node make it.
_END_SECONDS = 180.0
# An agent begins within seconds of its step, but Python may come from a slow file server.
_BEGIN_SECONDS = 60.0
# Agents write their status each second; a thousand of them are not looked at more often.
_NODE_SECONDS = 1.0
_SUPERSEDED = 76


class SlurmAttempt:
    """Follows one order to its end: by its agents, by the batch job of its allocation, and by Slurm's own account."""

    def __init__(self, allocation: Allocation, order: str, nodes: list[FolderNode], watch: QueueWatch) -> None:
        self.allocation, self.order, self.watch = allocation, order, watch
        self.nodes, self.agents = nodes, AttemptNodes(nodes)
        self.verdict: Ended | None = None
        self._about: dict[str, Any] = nodes[0].plan["slurm"]
        self._begun = time.monotonic()
        self._taken_at: float | None = None
        self._doubt_since: float | None = None
        self._back_since: float | None = None
        self._looked = 0.0
        self._killed = False
        self._waits_for = reason("slurm-waits-in-queue")
        # When its job was seen to run, and when all agents had told their results.
        self._job_began: float | None = None
        self._told_at: float | None = None

    def state(self) -> Ended:
        """How it stands now; stays as it is once it has ended."""
        if self.verdict is None:
            now = time.monotonic()
            found = self._look(now)
            if not found.state.ended:
                return found
            self.verdict = found
        return self.verdict

    def withdraw(self, why: Reason | str) -> bool:
        """Takes it back if no batch job has it yet."""
        if self.allocation.withdraw(self.order):
            self.verdict = Ended(JobState.CANCELLED, as_reason(why))
            return True
        return False

    def kill(self) -> None:
        """Ends its step without asking its agents."""
        self._killed = True
        self.allocation.kill(self.order)

    # ---- looking

    def _look(self, now: float) -> Ended:
        stage, job = self.allocation.stage(self.order), self.allocation.job
        if stage == "done":
            return self._done(now, self.allocation.done(self.order))
        if stage == "withdrawn":
            return Ended(JobState.CANCELLED, self._order_reason() or reason("slurm-withdrawn"))
        if stage == "" or job is None:
            return Ended(JobState.LOST, reason("agent-never-began"))
        over = self.watch.end(job)
        if over is not None:
            return self._by_job(over)
        seen = self.watch.job(job)
        if stage == "waiting":
            return self._waiting(now, seen, job)
        if self._taken_at is None:
            self._taken_at = now
        # What was heard before the step began is old news.
        if seen is not None and seen.waiting and self.watch.moment > self._taken_at:
            return self._requeued(now, job)
        if stage == "ending":
            return Ended(JobState.RUNNING)  # its batch job clears up, and will tell
        return self._running(now)

    def _waiting(self, now: float, seen: SlurmJob | None, job: str) -> Ended:
        begins = seen is not None and not seen.waiting and not seen.over
        limit = float(self._about["queue_seconds"]) + (_BEGIN_SECONDS if begins else 0.0)
        if begins:
            self._waits_for = reason("slurm-job-begins")
        elif seen is not None and seen.waiting:
            self._waits_for = waiting_for(seen.reason)
        why = self._waits_for
        if begins and self._job_is_silent(now) and self.allocation.withdraw(self.order):
            self.allocation.give_up()
            return Ended(JobState.LOST, reason("slurm-job", job=job, why=reason("slurm-job-silent")))
        if now - self._begun > limit and self.allocation.withdraw(self.order):
            self.allocation.give_up()
            late = reason("slurm-job-late", job=job, seconds=limit, why=why)
            return Ended(JobState.FAILED, late, failure_of("submit", []))
        if begins and self.allocation.beat():
            return Ended(JobState.RUNNING)  # its batch job takes the order in a moment
        return Ended(JobState.PENDING, reason("slurm-job", job=job, why=why))

    def _job_is_silent(self, now: float) -> bool:
        """Whether the batch job of a job that runs has not been heard for too long: it may be stopped."""
        if self._job_began is None:
            self._job_began = now
        silent = min(now - self._job_began, self.allocation.silent())
        return silent > float(self._about["lost_seconds"]) + (0.0 if self.allocation.beat() else _BEGIN_SECONDS)

    def _running(self, now: float) -> Ended:
        if now - self._looked < _NODE_SECONDS:
            return Ended(JobState.RUNNING)
        self._looked = now
        self.agents.follow(now)
        if self.allocation.silent() > SILENT_SECONDS:
            self.watch.hurry()
        if self.agents.over and any(_lost(node) for node in self.nodes):
            # srun would wait for the lost one until Slurm gives its node up.
            self.kill()
            self.allocation.give_up()
            return self.agents.verdict()
        if self.agents.over:
            self._told_at = self._told_at or now
            if now - self._told_at > float(self._about["lost_seconds"]):
                # Whoever should end the step is stopped. Its results are here.
                self.kill()
                self.allocation.give_up()
                return self.agents.verdict()
        return Ended(JobState.RUNNING)

    def _order_reason(self) -> Reason | None:
        found = read_json(self.nodes[0].folder / CONTROL)
        return as_reason(found.get("reason")) if isinstance(found, dict) else None

    # ---- ends

    def _done(self, now: float, done: dict[str, Any]) -> Ended:
        """The step is over: by the agents' results where there are such, else by what Slurm says of it."""
        said, code = list(done.get("said") or []), done.get("code")
        for node in self.nodes:
            node.read_result()
        missing = [node for node in self.nodes if node.ended is None]
        if missing and memory_kill(said):
            return _starved(said)
        if done.get("restarted"):
            return self._requeued(now, self.allocation.job or "")
        if not missing:
            verdict = self.agents.verdict()
            asked = any(node.command() in ("stop", "kill") for node in self.nodes)
            # Slurm signals agents and ranks at once: a rank may be gone before its agent knows why.
            doubtful = verdict.state is JobState.CANCELLED or (verdict.failure or {}).get("kind") in ("signal", "exit")
            return self._explained(now, verdict) if doubtful and not asked else verdict
        if code == _SUPERSEDED:
            return attempts.of_node(missing[0].folder, missing[0].plan["token"], code)
        return self._explained(now, self._unexplained(missing, code, said))

    def _unexplained(self, missing: list[FolderNode], code: int | None, said: list[str]) -> Ended:
        hosts = ", ".join(node.host for node in missing)
        if self._killed:
            return Ended(JobState.LOST, reason("agent-destroyed", hosts=hosts))
        line = next((line for line in reversed(said) if line.strip()), "")
        gone = "agent-gone-from-step" if line else "agent-gone-from-silent-step"
        why = reason(gone, hosts=hosts, code=code, line=line)
        return Ended(JobState.LOST, why, failure_of("agent", said))

    def _explained(self, now: float, otherwise: Ended) -> Ended:
        """The end of the job explains the end of a step that nobody here had ended."""
        job = self.allocation.job or ""
        if self._doubt_since is None:
            self._doubt_since = now
        self.watch.hurry()
        over = self.watch.end(job)
        if over is not None:
            return self._by_job(over)
        seen = self.watch.job(job)
        if seen is not None and seen.waiting and self.watch.moment > self._doubt_since:
            return self._requeued(now, job)
        beat = self.allocation.beat().get("restart")
        if beat != self.allocation.done(self.order).get("restart"):
            return self._requeued(now, job)
        if self._killed:
            return otherwise
        fresh = self.watch.moment > self._doubt_since + 1.0
        state = seen.state if seen is not None and fresh else ""
        # A job that runs may run again: only a beat of the same batch job after that answer shows that it never ended.
        heard = self.allocation.silent() < now - self.watch.moment - 1.0
        waited = now - self._doubt_since
        if (state == "RUNNING" and heard) or waited > (_END_SECONDS if state == "COMPLETING" else _DOUBT_SECONDS):
            return otherwise
        return Ended(JobState.RUNNING)

    def _requeued(self, now: float, job: str) -> Ended:
        """Slurm took the nodes away and put the job back; accounting knows why, a little later."""
        if self._back_since is None:
            self._back_since = now
        self.watch.hurry()
        life = self.watch.last_life(job, self._back_since)
        if life is None and now - self._back_since < _DOUBT_SECONDS:
            return Ended(JobState.RUNNING)
        if life is not None and life.state == "NODE_FAIL":
            self.allocation.give_up()
        return ended(life or SlurmJob(job, "REQUEUED"))

    def _by_job(self, over: SlurmJob) -> Ended:
        self.allocation.give_up()
        for node in self.nodes:
            node.read_result()
        results = [node.ended for node in self.nodes]
        if all(end is not None and end.state is JobState.SUCCEEDED for end in results):
            return self.agents.verdict()
        failed = [end for end in results if end is not None and end.state in (JobState.FAILED, JobState.INVALID)]
        if failed and over.state == "COMPLETED":
            return self.agents.verdict()
        said = self.allocation.said(self.order)
        if memory_kill(said):
            return _starved(said)
        if self._killed and over.state == "CANCELLED":
            return self._unexplained([node for node in self.nodes if node.ended is None], None, said)
        if over.state == "FAILED" and not self.allocation.beat():
            return self._never_served(over, said)
        return ended(over, _user(over.by))

    def _never_served(self, over: SlurmJob, said: list[str]) -> Ended:
        """The batch job could not even begin: no Python, an old one, or a folder that its node does not see."""
        line = next((line for line in reversed(said) if line.strip()), "")
        why = reason("slurm-batch-failed", line=line) if line else reason("slurm-batch-silent")
        return Ended(JobState.FAILED, reason("slurm-job", job=over.id, why=why), failure_of("site", said))


def _starved(said: list[str]) -> Ended:
    return Ended(JobState.FAILED, reason("slurm-step-over-memory", line=memory_kill(said)), failure_of("oom", said))


def _lost(node: FolderNode) -> bool:
    return node.ended is not None and node.ended.state is JobState.LOST


def _user(uid: str) -> str:
    try:
        return pwd.getpwuid(int(uid)).pw_name
    except (KeyError, ValueError):
        return ""
