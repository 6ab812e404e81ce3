"""result.json: the last word on a round, and the context everybody who may have to write it shares."""

from __future__ import annotations

import os
import time

from trainmark.agent.record import Log, drop_reserve, is_disk_full, replace_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trainmark.agent.contain.choose import Containment
    from trainmark.agent.linux import Proc
    from trainmark.agent.neighbours import Neighbours
    from trainmark.agent.nodeplan import NodePlan
    from trainmark.agent.tuning import Settings
    from trainmark.agent.verdict import Verdict

RESULT = "result.json"
WRITTEN, INTERNAL, NOT_WRITTEN, OUTRANKED = 0, 70, 75, 76


class Job:
    """A claimed plan on its way: what has been prepared so far."""

    def __init__(self, plan: NodePlan, proc: Proc) -> None:
        self.plan = plan
        self.proc = proc
        self.log = Log(plan.file("agent.log"))
        self.started_wall = time.time_ns()
        self.started = time.monotonic()
        self.epoch = plan.epoch
        self.cpu_before = 0.0  # processor seconds spent before a fork
        self.warnings: list[str] = list(plan.warnings)
        self.containment: Containment | None = None
        self.why: list[str] = []
        self.settings: Settings | None = None
        self.ports: list[int] = []
        self.neighbours: Neighbours | None = None


class Tally:
    """What the round itself adds to the result."""

    def __init__(self) -> None:
        self.ranks: list[dict[str, Any]] = []
        self.lines: list[str] = []
        self.left = 0
        self.events = 0
        self.samples = 0


def build(job: Job, verdict: Verdict, tally: Tally) -> dict[str, Any]:
    plan = job.plan
    return {
        "schema": 1,
        "token": plan.token,
        "epoch": job.epoch,
        "state": verdict.state,
        "reason": verdict.reason,
        "started": job.started_wall,
        "ended": time.time_ns(),
        "duration": round(time.monotonic() - job.started, 6),
        "first_failure": verdict.first_failure(tally.lines),
        "ranks": tally.ranks,
        "containment": {
            "used": job.containment.name if job.containment else None,
            "why": job.why,
            "left": tally.left,
        },
        "settings": job.settings.record() if job.settings else None,
        "ports": job.ports,
        "overhead": {"agent_cpu_s": round(job.cpu_before + time.process_time(), 6)},
        "warnings": job.warnings,
        "disturbed": job.neighbours.leave() if job.neighbours else [],
        "events": tally.events,
        "samples": tally.samples,
    }


def write(job: Job, verdict: Verdict, tally: Tally, code: int = WRITTEN) -> int:
    """Writes the result, on the reserve's space if need be, and returns the agent's exit code."""
    drop_reserve(job.plan.dir)
    job.log.line("%s: %s" % (verdict.state, verdict.reason))
    try:
        replace_json(os.path.join(job.plan.dir, RESULT), build(job, verdict, tally), durable=True)
    except OSError as error:
        job.log.line("the result cannot be written: %s" % error)
        return NOT_WRITTEN if is_disk_full(error) else INTERNAL
    return code
