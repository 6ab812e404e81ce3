"""An attempt that is a training job: what the service says of it, what its workers left, and what that means."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from trainmark.agent.ending import last_lines
from trainmark.launch import attempt as attempts
from trainmark.launch.attempt import AgentSilence, LaunchedNode
from trainmark.launch.modelarts.calls import CallFailed
from trainmark.launch.modelarts.object_store import Listed, ObjectStore
from trainmark.launch.modelarts.options import ModelArtsOptions
from trainmark.launch.modelarts.plan import LOGS, folder_of
from trainmark.launch.modelarts.service import ModelArtsJob, TrainingService
from trainmark.launch.modelarts.transport import ObjectStoreTransport, take_file
from trainmark.launch.protocol import Ended
from trainmark.reasons import Reason, as_reason, listed, reason
from trainmark.spec.states import JobState
from trainmark.store.state import CANCELLED_KIND

_QUEUED = ("Creating", "Pending")
# Lines of the service itself in the log of a worker.
_SERVICE = "[ModelArts Service Log]"
# Files may appear a little after the end of a job.
_SETTLE_SECONDS = 3.0


class CloudNode(LaunchedNode):
    transport: ObjectStoreTransport


class CloudAttempt:
    def __init__(
        self, job: str, nodes: list[CloudNode], options: ModelArtsOptions, service: TrainingService, store: ObjectStore
    ) -> None:
        self.job, self.nodes, self._options = job, nodes, options
        self._service, self._store = service, store
        about = nodes[0].plan["modelarts"]
        self._bucket, self._prefix = folder_of(options, about["job"])
        self.logs = Path(about["run_dir"]) / "modelarts" / about["job"]
        self.verdict: Ended | None = None
        self.whole = False
        self._asked: Reason | str | None = None
        self._destroyed = False
        self._looked = 0.0
        self._begun = time.monotonic()
        self._standing = Ended(JobState.PENDING, reason("modelarts-waits", phase="Creating"))
        self._failing_since: float | None = None
        self._ended_at: float | None = None
        self._silences = {node.folder: AgentSilence(options.lost_seconds, options.poll_seconds) for node in nodes}
        self._signs: dict[Path, set[Any]] = {node.folder: set() for node in nodes}

    # ---- what is asked of it

    def state(self) -> Ended:
        """How it stands; the service is asked every few seconds only."""
        if self.verdict is not None:
            return self.verdict
        now = time.monotonic()
        if now - self._looked < self._options.poll_seconds:
            return self._standing
        try:
            found = self._look(now)
            self._failing_since = None
        except CallFailed as error:
            found = self._unreachable(now, error)
        self._looked = time.monotonic()
        if found.state.ended:
            self.verdict = found
        self._standing = found
        return found

    def stop(self, why: Reason | str, *, destroy: bool) -> None:
        self._asked, self._destroyed = why, self._destroyed or destroy
        try:
            self._service.stop(self.job)
        except CallFailed:
            return  # asked again when it is looked at
        self._looked = 0.0

    # ---- looking

    def _look(self, now: float) -> Ended:
        job = self._service.show(self.job)
        if job is None:
            return Ended(JobState.LOST, reason("modelarts-job-gone", job=self.job))
        if job.phase in _QUEUED:
            return self._queued(now, job)
        self._fetch()
        if job.ended:
            return self._over(now, job)
        if self._asked is not None and job.phase != "Terminating":
            self._service.stop(self.job)
        return self._follow_agents(now)

    def _queued(self, now: float, job: ModelArtsJob) -> Ended:
        if now - self._begun > self._options.queue_seconds:
            self._service.stop(self.job)
            why = reason("modelarts-job-late", job=self.job, seconds=self._options.queue_seconds, phase=job.phase)
            return Ended(JobState.FAILED, why, _failure("submit"))
        if self._asked is not None:
            self._service.stop(self.job)
        return Ended(JobState.PENDING, reason("modelarts-waits", phase=job.phase))

    def _unreachable(self, now: float, error: CallFailed) -> Ended:
        """A service that does not answer for a while says nothing about the job."""
        if not error.passes and error.status not in (401, 403):
            return Ended(JobState.LOST, reason("modelarts-unreachable", seconds=0.0, why=str(error)))
        if self._failing_since is None:
            self._failing_since = now
        failing = now - self._failing_since
        if failing > self._options.retry_seconds:
            return Ended(JobState.LOST, reason("modelarts-unreachable", seconds=failing, why=str(error)))
        return self._standing

    def _fetch(self) -> None:
        """One listing for all nodes and logs."""
        there = list(self._store.below(self._bucket, self._prefix))
        by_node: dict[str, list[Listed]] = {}
        for one in there:
            first = one.key[len(self._prefix) :].partition("/")[0] + "/"
            by_node.setdefault(self._prefix + first, []).append(one)
        for one in by_node.get(self._prefix + LOGS, ()):
            task = one.key.rpartition(f"-{self.job}-")[2]
            if task.endswith(".log") and "/" not in task:
                take_file(self._store, self._bucket, one, self.logs / task)
        for node in self.nodes:
            node.transport.take(by_node.get(node.transport.prefix, []))

    def _follow_agents(self, now: float) -> Ended:
        """An agent that was heard again and again, and then no more, is lost. Where the service brings output home only
        at the end, nothing can be said."""
        for node in self.nodes:
            sign = attempts.last_sign(node.folder)
            self._signs[node.folder].add(sign)
            self._silences[node.folder].hear(sign, now)
            silent = self._silences[node.folder].too_long(now)
            if (
                silent is not None
                and len(self._signs[node.folder]) > 2
                and not attempts.has_result(node.folder, node.plan["token"])
            ):
                self._service.stop(self.job)
                why = reason("no-sign-of-life", seconds=silent)
                return attempts.whole([(one.host, Ended(JobState.LOST, why)) for one in [node]])
        return Ended(JobState.RUNNING)

    # ---- ends

    def _over(self, now: float, job: ModelArtsJob) -> Ended:
        missing = {node.host: node.transport.missing() for node in self.nodes}
        without = [node for node in self.nodes if not attempts.has_result(node.folder, node.plan["token"])]
        incomplete = any(missing.values()) or bool(without)
        if self._ended_at is None:
            self._ended_at = now
        if incomplete and now - self._ended_at < _SETTLE_SECONDS:
            return Ended(JobState.RUNNING)
        self.whole = not incomplete
        ends = [(node.host, self._of_node(node, job, missing[node.host])) for node in self.nodes]
        states = {end.state for _, end in ends}
        if states == {JobState.SUCCEEDED}:
            return ends[0][1]
        if self._destroyed:
            return Ended(JobState.LOST, reason("agent-destroyed", hosts=", ".join(host for host, _ in ends)))
        if self._asked is not None and job.phase == "Terminated":
            return Ended(JobState.CANCELLED, as_reason(self._asked))
        if job.phase == "Terminated" and not states & {JobState.FAILED, JobState.INVALID, JobState.TIMEOUT}:
            why = reason("modelarts-stopped-outside", job=self.job)
            return Ended(JobState.CANCELLED, why, _failure(CANCELLED_KIND))
        return attempts.whole(ends)

    def _of_node(self, node: CloudNode, job: ModelArtsJob, missing: list[str]) -> Ended:
        """By its result; without one, by what the service says of its task."""
        if attempts.has_result(node.folder, node.plan["token"]):
            ended = attempts.of_node(node.folder, node.plan["token"], None)
            if missing and ended.state is JobState.SUCCEEDED:
                why = reason("modelarts-files-missing", files=listed(missing))
                return Ended(JobState.FAILED, why, _failure("site"))
            return ended
        name = f"worker-{node.plan['node']}"
        task = next((task for task in job.tasks if task.name == name), None)
        lines = last_lines(str(self.logs / f"{name}.log"))
        if job.phase == "Abnormal" or job.secondary == "Lost":
            why = reason("modelarts-node-lost", task=name, message=task.message if task else job.secondary)
            bad = task is None or bool(task.exit_code)
            return Ended(JobState.LOST if bad else JobState.CANCELLED, why, _failure("site", lines))
        if job.phase == "Completed":
            return Ended(JobState.FAILED, reason("modelarts-result-missing", task=name), _failure("site", lines))
        if job.phase == "Terminated":
            return Ended(JobState.CANCELLED, reason("stopped-by-signal"))
        own = [line for line in lines if line.strip() and not line.startswith(_SERVICE)]
        said = (task.message if task else "") or (own[-1] if own else "")
        why = reason("modelarts-task-failed", task=name, code=task.exit_code if task else None, said=said)
        return Ended(JobState.FAILED, why, _failure("site", lines))


def _failure(kind: str, lines: list[str] | None = None) -> dict[str, Any]:
    return {"rank": None, "kind": kind, "last_lines": lines or []}
