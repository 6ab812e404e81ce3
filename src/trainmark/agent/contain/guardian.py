"""The guardian: the top process, for kinds of containment that do not end by themselves when the agent is killed.

It only waits. If the working agent dies without a result, the guardian kills what it started and writes the result; if
the guardian dies, the working agent notices and stops.
"""

from __future__ import annotations

import os
import signal
import time
import traceback
from typing import Any

from trainmark.agent import linux, result
from trainmark.agent.contain.choose import Containment, clear, reap_all
from trainmark.agent.ending import Ending, signal_name
from trainmark.agent.events.shipper import EVENTS, complete
from trainmark.agent.files import read_json
from trainmark.agent.reasons import reason
from trainmark.agent.result import Context
from trainmark.agent.round import Round
from trainmark.agent.wakeup import Wakeup


def run_guarded(context: Context, containment: Containment, work: Round, wakeup: Wakeup) -> int:
    """Forks the working agent, waits for it, and returns the exit code for both."""
    linux.become_subreaper()
    lifeline, held = os.pipe()
    context.cpu_before = time.process_time()
    worker = os.fork()
    if worker == 0:
        os.close(held)
        _work(context, work, wakeup, lifeline)
    os.close(lifeline)
    status = _Guard(worker, wakeup).wait()
    if os.path.exists(context.plan.file(result.RESULT)):
        return os.WEXITSTATUS(status) if os.WIFEXITED(status) else result.WRITTEN
    return _take_over(context, containment, status, wakeup)


def _work(context: Context, work: Round, wakeup: Wakeup, lifeline: int) -> None:
    """In the forked working agent: runs the round. Never returns."""
    code = result.INTERNAL
    try:
        os.setpgid(0, 0)  # so that a signal to the group arrives once, through the guardian
        linux.become_subreaper()
        wakeup.renew()
        code = work.run(lifeline)
    except Exception:
        context.log.line(traceback.format_exc())
    finally:
        os._exit(code)


class _Guard:
    """Waits for the working agent and reaps orphans."""

    def __init__(self, worker: int, wakeup: Wakeup) -> None:
        self._worker = worker
        self._wakeup = wakeup

    def wait(self) -> int:
        """The working agent's wait status."""
        while True:
            status = self._reap()
            if status is not None:
                return status
            for number in self._wakeup.wait(3600.0)[0]:
                if number in (signal.SIGTERM, signal.SIGINT):
                    os.kill(self._worker, signal.SIGTERM)

    def _reap(self) -> int | None:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == self._worker:
                return status
            if pid == 0:
                return None


def _take_over(context: Context, containment: Containment, status: int, wakeup: Wakeup) -> int:
    """Kills what the dead agent left, ships its events, and writes the result."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        why = reason("agent-killed", signal=number)
        context.log.line("the agent was killed by signal %d (%s)" % (number, signal_name(number)))
    else:
        why = reason("agent-without-result", code=os.WEXITSTATUS(status))
    summary = result.RoundSummary()
    summary.left = clear(containment, reap_all, wakeup.wait)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == result.NOT_WRITTEN:
        return result.NOT_WRITTEN
    complete(context.plan.dir)
    summary.events = _count(context.plan.file(EVENTS))
    summary.samples = max(0, _count(context.plan.file("samples.jsonl")) - 1)
    summary.ranks = _ranks(context)
    return result.write(context, Ending("FAILED", why, "agent"), summary, result.INTERNAL)


def _count(path: str) -> int:
    try:
        with open(path, "rb") as file:
            return sum(1 for _ in file)
    except OSError:
        return 0


def _ranks(context: Context) -> list[dict[str, Any]]:
    """The ranks as status.json last described them; how they ended is not known."""
    status = read_json(context.plan.file("status.json")) or {}
    known = {rank.get("rank"): rank for rank in status.get("ranks") or ()}
    unknown = dict.fromkeys(("exit", "signal", "cpu_s", "max_rss_bytes"))
    ranks = []
    for plan in context.plan.ranks:
        last = known.get(plan.rank) or {}
        ranks.append(
            dict(
                unknown,
                rank=plan.rank,
                pid=last.get("pid"),
                steps=last.get("step", 0),
                samples=last.get("samples", 0),
            )
        )
    return ranks
