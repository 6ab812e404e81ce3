"""What squeue and sacct say, and what that means. Pure; the tests hold recorded outputs.

Only text with fields that were asked for is read: the JSON of these programs changed its shape with every release.
"""

from __future__ import annotations

from typing import Any

import msgspec

from trainmark.launch.protocol import Ended
from trainmark.reasons import Reason, reason
from trainmark.spec.states import JobState
from trainmark.store.state import CANCELLED_KIND

SQUEUE = ("%i", "%T", "%r", "%S", "%N")
SACCT = ("JobID", "State", "ExitCode", "Start", "End", "NodeList", "Reason")

WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD")
LIVING = ("RUNNING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT", "COMPLETING")


class SlurmJob(msgspec.Struct, frozen=True):
    """One job as Slurm reports it. `by`: the user id that cancelled it."""

    id: str
    state: str
    reason: str = ""
    nodes: str = ""
    code: int | None = None
    by: str = ""

    @property
    def over(self) -> bool:
        return self.state not in WAITING and self.state not in LIVING

    @property
    def waiting(self) -> bool:
        return self.state in WAITING


def parse_squeue(text: str) -> dict[str, SlurmJob]:
    """Job id → job, of `squeue -h -o` with the fields above, separated by |."""
    found: dict[str, list[SlurmJob]] = {}
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) != len(SQUEUE) or not fields[0].strip():
            continue
        number, state, reason, _, nodes = (field.strip() for field in fields)
        job = SlurmJob(_base(number), _state(state), "" if reason == "None" else reason, nodes)
        found.setdefault(job.id, []).append(job)
    return {number: _whole(parts) for number, parts in found.items()}


def parse_sacct(text: str) -> dict[str, list[SlurmJob]]:
    """Job id → its lives, oldest first, of `sacct -n -P -X -D` with the fields above: a requeued job has several."""
    parts: dict[str, dict[str, list[SlurmJob]]] = {}
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) != len(SACCT) or not fields[0].strip() or "." in fields[0]:
            continue
        number, state, code, _, _, nodes, reason = (field.strip() for field in fields)
        word, _, by = state.partition(" by ")
        job = SlurmJob(_base(number), _state(word), "" if reason == "None" else reason, nodes, _code(code), by)
        parts.setdefault(job.id, {}).setdefault(number, []).append(job)
    return {number: _lives(list(of_job.values())) for number, of_job in parts.items()}


def _lives(parts: list[list[SlurmJob]]) -> list[SlurmJob]:
    """The lives of a job from those of its parts, which are requeued together. The newest are at the end."""
    longest = max(len(part) for part in parts)
    return [_whole([part[-back] for part in parts if len(part) >= back]) for back in range(longest, 0, -1)]


def _state(word: str) -> str:
    """`CANCELLED+` was cut for a table; the rest of the word is known."""
    word = word.strip().split(" ")[0].rstrip("+").upper()
    return next((known for known in _SHORTENED if known.startswith(word)), word) if word else "UNKNOWN"


def _base(number: str) -> str:
    """123 of `123`, of the array tasks `123_4` and `123_[5-9%2]`, and of the part `123+1` of a heterogeneous job."""
    return number.strip().split("_")[0].split("+")[0]


def _code(text: str) -> int | None:
    first = text.partition(":")[0]
    return int(first) if first.isdigit() else None


def _whole(parts: list[SlurmJob]) -> SlurmJob:
    """One word for all parts of a job: it waits while one waits, lives while one lives, and failed if one has."""
    for test in (lambda job: job.waiting, lambda job: not job.over, lambda job: job.state != "COMPLETED"):
        for job in parts:
            if test(job):
                return job
    return parts[0]


# Slurm's name of an end → what it means for a round in the job, and the code of the reason.
_ENDS: dict[str, tuple[JobState, str]] = {
    "COMPLETED": (JobState.LOST, "slurm-completed"),
    "FAILED": (JobState.LOST, "slurm-failed"),
    "BOOT_FAIL": (JobState.LOST, "slurm-boot-failed"),
    "NODE_FAIL": (JobState.LOST, "slurm-node-failed"),
    "LAUNCH_FAILED": (JobState.LOST, "slurm-launch-failed"),
    "DEADLINE": (JobState.TIMEOUT, "slurm-deadline"),
    "TIMEOUT": (JobState.TIMEOUT, "slurm-timeout"),
    "OUT_OF_MEMORY": (JobState.FAILED, "slurm-out-of-memory"),
    "PREEMPTED": (JobState.PREEMPTED, "slurm-preempted"),
    "CANCELLED": (JobState.CANCELLED, "slurm-cancelled"),
    "REVOKED": (JobState.CANCELLED, "slurm-revoked"),
    "REQUEUED": (JobState.PREEMPTED, "slurm-requeued"),
}
_SHORTENED = (*_ENDS, *WAITING, *LIVING)


def ended(job: SlurmJob, who: str = "") -> Ended:
    """What the end of a job means for a round that was in it. `who` is the name behind `by`."""
    state, code = _ENDS.get(job.state, (JobState.LOST, ""))
    why = reason(code) if code else reason("slurm-state", state=job.state)
    if job.state == "CANCELLED" and (who or job.by):
        why = reason("slurm-cancelled-by", user=who) if who else reason("slurm-cancelled-by-id", user=job.by)
    if job.state in ("NODE_FAIL", "BOOT_FAIL") and job.nodes:
        why = reason("slurm-with-nodes", why=why, nodes=job.nodes)
    # What a person or an operator cancelled is not asked for again.
    kind = {"OUT_OF_MEMORY": "oom", "CANCELLED": CANCELLED_KIND}.get(job.state)
    return Ended(state, reason("slurm-job", job=job.id, why=why), failure_of(kind, []) if kind else None)


def failure_of(kind: str, lines: list[str]) -> dict[str, Any]:
    """What failed when it was no rank."""
    return {"rank": None, "kind": kind, "last_lines": lines}


# Slurm's reasons for a job that waits → codes of ours.
_WAITS = {
    "Priority": "slurm-waits-priority",
    "Resources": "slurm-waits-resources",
    "BeginTime": "slurm-waits-begin-time",
    "Dependency": "slurm-waits-dependency",
    "PartitionTimeLimit": "slurm-waits-partition-time-limit",
    "PartitionNodeLimit": "slurm-waits-partition-node-limit",
    "PartitionDown": "slurm-waits-partition-down",
    "PartitionInactive": "slurm-waits-partition-inactive",
    "ReqNodeNotAvail": "slurm-waits-req-node-not-avail",
    "NodeDown": "slurm-waits-node-down",
    "BadConstraints": "slurm-waits-bad-constraints",
    "Reservation": "slurm-waits-reservation",
    "Licenses": "slurm-waits-licenses",
    "JobHeldUser": "slurm-waits-job-held-user",
    "JobHeldAdmin": "slurm-waits-job-held-admin",
    "JobArrayTaskLimit": "slurm-waits-job-array-task-limit",
    "Cleaning": "slurm-waits-cleaning",
    "AssociationJobLimit": "slurm-waits-association-job-limit",
    "QOSMaxJobsPerUserLimit": "slurm-waits-qos-max-jobs-per-user-limit",
    "QOSMaxNodePerUserLimit": "slurm-waits-qos-max-node-per-user-limit",
    "QOSMaxGRESPerUser": "slurm-waits-qos-max-gres-per-user",
    "InvalidAccount": "slurm-waits-invalid-account",
    "InvalidQOS": "slurm-waits-invalid-qos",
    "QOSUsageThreshold": "slurm-waits-qos-usage-threshold",
    "launch failed requeued held": "slurm-waits-launch-failed-requeued-held",
}


def waiting_for(term: str) -> Reason:
    """Why a job is not running; Slurm's own term is shown with it."""
    first = term.partition(",")[0].strip()
    if not first or first == "None":
        return reason("slurm-waits-in-queue")
    if first.startswith("Nodes required for job are DOWN"):
        return reason("slurm-waits-nodes-down")
    known = _WAITS.get(first) or ("slurm-waits-limit" if first.startswith(("Assoc", "QOS")) else None)
    return reason("slurm-waits", why=reason(known), term=term) if known else reason("slurm-waits-other", term=term)


def memory_kill(lines: list[str]) -> str | None:
    """slurmstepd's own word that a step was over its memory; accounting does not always say it."""
    for line in lines:
        low = line.lower()
        over = "exceeded" in low and "memory limit" in low
        if over or "oom-kill" in low or "oom_kill" in low:
            return line.strip()
    return None
