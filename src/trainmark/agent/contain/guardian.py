"""The guardian: the top process where the kernel alone would leave something behind when the agent is killed.

It does nothing but wait. Should the working agent die without a result, it ends what the agent started and writes
the result itself; should the guardian die, the working agent notices and stops.
"""

from __future__ import annotations

import os
import signal
import time

from trainmark.agent import linux, result
from trainmark.agent.contain.choose import clear, reap_all
from trainmark.agent.record import read_json
from trainmark.agent.verdict import Verdict, signal_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trainmark.agent.contain.choose import Containment
    from trainmark.agent.result import Job
    from trainmark.agent.round import Round
    from trainmark.agent.wake import Wakeup


def stand(job: Job, containment: Containment, work: Round, wakeup: Wakeup) -> int:
    """Forks the working agent, stands by it, and returns the exit code for both."""
    linux.become_subreaper()
    lifeline, held = os.pipe()
    job.cpu_before = time.process_time()
    worker = os.fork()
    if worker == 0:
        os.close(held)
        _work(job, work, wakeup, lifeline)
    os.close(lifeline)
    status = _Guard(worker, wakeup).wait()
    if os.path.exists(job.plan.file(result.RESULT)):
        return os.WEXITSTATUS(status) if os.WIFEXITED(status) else result.WRITTEN
    return _take_over(job, containment, status, wakeup)


def _work(job: Job, work: Round, wakeup: Wakeup, lifeline: int) -> None:
    """The working agent's process: everything else happens here. Never returns."""
    code = result.INTERNAL
    try:
        os.setpgid(0, 0)  # a signal to the whole group comes once, through the guardian
        linux.become_subreaper()
        wakeup.renew()
        code = work.run(lifeline)
    except Exception:
        import traceback

        job.log.line(traceback.format_exc())
    finally:
        os._exit(code)


class _Guard:
    """Waits for the working agent, reaping what else comes by."""

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


def _take_over(job: Job, containment: Containment, status: int, wakeup: Wakeup) -> int:
    """Ends what the dead agent left, saves its events, and says what happened."""
    from trainmark.agent.ship import EVENTS, complete

    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        reason = "the agent was killed by signal %d" % number
        job.log.line("%s (%s)" % (reason, signal_name(number)))
    else:
        reason = "the agent ended with code %d and no result" % os.WEXITSTATUS(status)
    tally = result.Tally()
    tally.left = clear(containment, reap_all, wakeup.wait)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == result.NOT_WRITTEN:
        return result.NOT_WRITTEN
    complete(job.plan.dir)
    tally.events = _count(job.plan.file(EVENTS))
    tally.samples = max(0, _count(job.plan.file("samples.jsonl")) - 1)
    tally.ranks = _ranks(job)
    return result.write(job, Verdict("FAILED", reason, "agent"), tally, result.INTERNAL)


def _count(path: str) -> int:
    try:
        with open(path, "rb") as file:
            return sum(1 for _ in file)
    except OSError:
        return 0


def _ranks(job: Job) -> list[dict[str, Any]]:
    """The ranks as the agent last described them; how they ended, nobody saw."""
    status = read_json(job.plan.file("status.json")) or {}
    known = {rank.get("rank"): rank for rank in status.get("ranks") or ()}
    unknown = dict.fromkeys(("exit", "signal", "cpu_s", "max_rss_bytes"))
    ranks = []
    for plan in job.plan.ranks:
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
