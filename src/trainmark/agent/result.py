"""result.json: how a round ended, and the context that every writer of it needs."""

from __future__ import annotations

import os
import time
from typing import Any, Callable

from trainmark.agent.contain.choose import Containment
from trainmark.agent.digests import Digests, of_folder
from trainmark.agent.ending import Ending
from trainmark.agent.files import Log, drop_reserve, is_disk_full, replace_json
from trainmark.agent.linux import Proc
from trainmark.agent.node_plan import CONFIG, NodePlan
from trainmark.agent.other_attempts import OtherAttempts
from trainmark.agent.reasons import Reason, log_text
from trainmark.agent.secrets import without_settings
from trainmark.agent.tuning import Settings

RESULT = "result.json"
WRITTEN, INTERNAL, NOT_WRITTEN, OUTRANKED = 0, 70, 75, 76


class Context:
    """A claimed plan and what has been prepared for it so far."""

    def __init__(self, plan: NodePlan, proc: Proc) -> None:
        self.plan = plan
        self.proc = proc
        self.log = Log(plan.file("agent.log"))
        self.started_wall = time.time_ns()
        self.started = time.monotonic()
        self.epoch = plan.epoch
        self.cpu_before = 0.0  # processor seconds spent before a fork
        self.warnings: list[Reason | str] = list(plan.warnings)  # those of the plan may be text
        self.containment: Containment | None = None
        self.why: list[Reason] = []
        self.settings: Settings | None = None
        self.ports: list[int] = []
        self.foreign_listener: Callable[[], tuple[int, int] | None] = lambda: None
        self.other_attempts: OtherAttempts | None = None


class RoundSummary:
    """What the round adds to the result."""

    def __init__(self) -> None:
        self.ranks: list[dict[str, Any]] = []
        self.lines: list[str] = []
        self.left = 0
        self.events = 0
        self.samples = 0
        self.files: Digests = {}  # digests that are known already


def build(context: Context, ending: Ending, summary: RoundSummary) -> dict[str, Any]:
    plan = context.plan
    return {
        "schema": 1,
        "token": plan.token,
        "epoch": context.epoch,
        "state": ending.state,
        "reason": ending.reason,
        "started": context.started_wall,
        "ended": time.time_ns(),
        "duration": round(time.monotonic() - context.started, 6),
        "first_failure": ending.first_failure(summary.lines),
        "ranks": summary.ranks,
        "containment": {
            "used": context.containment.name if context.containment else None,
            "why": context.why,
            "left": summary.left,
        },
        "settings": context.settings.record() if context.settings else None,
        "ports": context.ports,
        "overhead": {"agent_cpu_s": round(context.cpu_before + time.process_time(), 6)},
        "warnings": context.warnings,
        "disturbed": context.other_attempts.leave() if context.other_attempts else [],
        "events": summary.events,
        "samples": summary.samples,
        "files": of_folder(plan.dir, summary.files),
    }


def write(context: Context, ending: Ending, summary: RoundSummary, code: int = WRITTEN) -> int:
    """Writes the result, on the reserve's space if need be, and returns the agent's exit code."""
    drop_reserve(context.plan.dir)
    context.log.line("%s: %s" % (ending.state, log_text(ending.reason)))
    try:
        _forget_secrets(context.plan)
        replace_json(os.path.join(context.plan.dir, RESULT), build(context, ending, summary), durable=True)
    except OSError as error:
        context.log.line("the result cannot be written: %s" % error)
        return NOT_WRITTEN if is_disk_full(error) else INTERNAL
    return code


def _forget_secrets(plan: NodePlan) -> None:
    """Ranks, which are over, were told their parameters in config.json. It stays, and its digest is in the result."""
    params = plan.config.get("params")
    if not isinstance(params, dict) or not os.path.exists(plan.file(CONFIG)):
        return
    kept = without_settings(params)
    if kept != params:
        replace_json(plan.file(CONFIG), dict(plan.config, params=kept))
