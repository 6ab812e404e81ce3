"""What squeue and sacct say, and what that means. Pure; the tests hold recorded outputs.

Only text with fields that were asked for is read: the JSON of these programs changed its shape with every release.
"""

from __future__ import annotations

from typing import Any

import msgspec

from trainmark.launch.protocol import Ended
from trainmark.spec.states import JobState

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


_ENDS: dict[str, tuple[JobState, str]] = {
    "COMPLETED": (JobState.LOST, "it ended by itself before the round was done"),
    "FAILED": (JobState.LOST, "its batch script failed"),
    "BOOT_FAIL": (JobState.LOST, "a node did not boot"),
    "NODE_FAIL": (JobState.LOST, "a node failed"),
    "LAUNCH_FAILED": (JobState.LOST, "a node could not start it"),
    "DEADLINE": (JobState.TIMEOUT, "it reached its deadline"),
    "TIMEOUT": (JobState.TIMEOUT, "it reached its time limit; ask for more with `slurm.time`"),
    "OUT_OF_MEMORY": (JobState.FAILED, "it ran out of memory; ask for more with `slurm.memory`"),
    "PREEMPTED": (JobState.PREEMPTED, "another job took its nodes"),
    "CANCELLED": (JobState.CANCELLED, "it was cancelled"),
    "REVOKED": (JobState.CANCELLED, "another cluster of the federation started it"),
    "REQUEUED": (JobState.PREEMPTED, "it was put back into the queue"),
}
_SHORTENED = (*_ENDS, *WAITING, *LIVING)


def ended(job: SlurmJob, who: str = "") -> Ended:
    """What the end of a job means for a round that was in it. `who` is the name behind `by`."""
    state, words = _ENDS.get(job.state, (JobState.LOST, f"it is in state {job.state}"))
    if job.state == "CANCELLED" and (who or job.by):
        words += f" by {who or 'user ' + job.by}"
    if job.state in ("NODE_FAIL", "BOOT_FAIL") and job.nodes:
        words += f" (it had {job.nodes})"
    starved = job.state == "OUT_OF_MEMORY"
    return Ended(state, f"Slurm job {job.id}: {words}", failure_of("oom", []) if starved else None)


def failure_of(kind: str, lines: list[str]) -> dict[str, Any]:
    """What failed when it was no rank."""
    return {"rank": None, "kind": kind, "last_lines": lines}


_REASONS = {
    "Priority": "jobs of higher priority come first",
    "Resources": "the nodes it wants are busy",
    "BeginTime": "its begin time has not come",
    "Dependency": "it waits for another job",
    "PartitionTimeLimit": "its time limit is longer than the partition allows",
    "PartitionNodeLimit": "the partition does not give so many nodes",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition takes no jobs now",
    "ReqNodeNotAvail": "a node it names is not available",
    "NodeDown": "a node it needs is down",
    "BadConstraints": "no node can ever give what it asks for",
    "Reservation": "it waits for its reservation",
    "Licenses": "it waits for a licence",
    "JobHeldUser": "it is held; `scontrol release` lets it go",
    "JobHeldAdmin": "an administrator holds it",
    "JobArrayTaskLimit": "its array runs as many tasks at once as it may",
    "Cleaning": "what is left of its last run is being cleaned up",
    "AssociationJobLimit": "the account runs as many jobs as it may",
    "QOSMaxJobsPerUserLimit": "you run as many jobs as the QoS allows",
    "QOSMaxNodePerUserLimit": "you have as many nodes as the QoS allows",
    "QOSMaxGRESPerUser": "you have as many devices as the QoS allows",
    "InvalidAccount": "the account is not valid",
    "InvalidQOS": "the QoS is not valid",
    "QOSUsageThreshold": "the QoS has used up its share",
    "launch failed requeued held": "a node could not start it, and it is held",
}


def waiting_for(reason: str) -> str:
    """Why a job is not running, in plain English; Slurm's own term stays in brackets."""
    first = reason.partition(",")[0].strip()
    if not first or first == "None":
        return "it waits in the queue"
    plain = _REASONS.get(first)
    if plain is None and first.startswith(("Assoc", "QOS")):
        plain = "a limit of the account or QoS is reached"
    if first.startswith("Nodes required for job are DOWN"):
        return "nodes it needs are down, drained or reserved"
    return f"{plain} ({reason})" if plain else f"it waits: {reason}"


def memory_kill(lines: list[str]) -> str | None:
    """slurmstepd's own word that a step was over its memory; accounting does not always say it."""
    for line in lines:
        low = line.lower()
        over = "exceeded" in low and "memory limit" in low
        if over or "oom-kill" in low or "oom_kill" in low:
            return line.strip()
    return None
