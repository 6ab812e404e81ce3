"""The story of the agent, in order: claim, look at the lease, contain, tune, hold ports, run the round."""

from __future__ import annotations

import os
import sys
import time

from trainmark.agent import linux, ports, result, tuning
from trainmark.agent.contain import choose as contain
from trainmark.agent.nodeplan import PlanError, claim, outranked, read_plan
from trainmark.agent.record import is_disk_full, to_json
from trainmark.agent.round import Round
from trainmark.agent.verdict import Verdict, disk_verdict
from trainmark.agent.wake import Wakeup
from trainmark.devices.cpu.node import cpu_quota

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trainmark.agent.result import Job

_USAGE = """usage: agent run NODEPLAN.json   do what the plan says, write result.json into its folder
       agent sweep TOKEN         end whatever an attempt left behind
       agent complete DIR        bring events a killed agent left in its spool into events.jsonl
       agent facts               print what is known of this host
       agent selftest            try each kind of containment on this host
       agent share DIR TOKEN     look whether DIR is the folder in which another host holds the token's lock
       agent serve WORK          talk to a controller on standard input and output; keeps its files in WORK
       agent steward DIR         the batch job of a Slurm allocation: makes steps of the orders in DIR
       agent task ORDER NODES    one node of such a step; `tidy` clears up after one
       agent head | door …       the nodes of a command that starts ranks on all of them (mpirun, srun, horovodrun)
       agent ssh | rank …        what such a command finds on its PATH: its way to the doors, and a rank's beginning
"""


def run(path: str) -> int:
    """Runs a node plan; returns the agent's exit code."""
    try:
        plan = read_plan(path)
        if not claim(plan):
            return _say("%s is claimed by another agent" % plan.dir, result.INTERNAL)
    except PlanError as error:
        return _say(str(error), result.INTERNAL)
    except OSError as error:
        return _say(str(error), result.NOT_WRITTEN if is_disk_full(error) else result.INTERNAL)
    if outranked(plan):
        return _say("a controller with a higher epoch owns the run", result.OUTRANKED)
    job = result.Job(plan, linux.Proc())
    try:
        return _attempt(job)
    except contain.RungError as error:
        return _fail(job, Verdict("FAILED", str(error), "agent"))
    except ports.PortTaken as error:
        return _fail(job, Verdict("FAILED", str(error), "port"))
    except Exception as error:
        return _fail(job, disk_verdict(error)) if is_disk_full(error) else _break(job, error)


def _attempt(job: Job) -> int:
    plan = job.plan
    linux.seal_descriptors()
    if plan.active:
        from trainmark.agent.neighbours import Neighbours

        job.neighbours = Neighbours(plan.active, plan.host, plan.token)
        job.neighbours.enter()
    _clear_up(job)
    wakeup = Wakeup()
    containment, job.why = contain.choose(plan.containment, plan.token, job.proc)
    job.containment = containment
    settings = tuning.choose(plan, tuning.look(plan, cpu_quota()), os.environ)
    job.settings = settings
    job.warnings += settings.warnings
    held = ports.Ports(job.proc)
    held.hold(plan.ports)
    job.ports = held.numbers
    work = Round(job, containment, settings, wakeup)
    if not containment.guarded:
        return work.run()
    from trainmark.agent.contain import guardian

    return guardian.stand(job, containment, work, wakeup)


def _clear_up(job: Job) -> None:
    """What attempts have left on this host and nobody came back to."""
    plan = job.plan
    folders = {os.path.dirname(plan.spool)} - {plan.dir}
    if plan.active or folders:
        from trainmark.agent.stale_spools import TEMPORARY, clear

        for spool in clear(folders | {TEMPORARY}, plan.dir):
            job.log.line("cleared %s, which an earlier attempt had left" % spool)


def _fail(job: Job, verdict: Verdict, code: int = result.WRITTEN) -> int:
    """The round did not come to its own end: the containment goes, with whatever is in it."""
    tally = result.Tally()
    if job.containment:
        tally.left = contain.clear(job.containment, contain.reap_all, time.sleep)
    return result.write(job, verdict, tally, code)


def _break(job: Job, error: Exception) -> int:
    """A fault of the agent's own."""
    import traceback

    job.log.line(traceback.format_exc())
    verdict = Verdict("FAILED", "the agent failed: %s: %s" % (type(error).__name__, error), "agent")
    return _fail(job, verdict, result.INTERNAL)


def _say(text: str, code: int) -> int:
    """A line for the launcher, if it still listens."""
    try:
        os.write(2, ("trainmark agent: %s\n" % text).encode("utf-8", "replace"))
    except OSError:
        pass
    return code


def _print(value: Any) -> int:
    sys.stdout.write(to_json(value) + "\n")
    return 0


def main(argv: list[str]) -> int:
    """One verb of the agent; returns the exit code."""
    verb, rest = (argv[0], argv[1:]) if argv else ("", [])
    if verb == "run" and len(rest) == 1:
        return run(rest[0])
    if verb == "sweep" and len(rest) == 1:
        from trainmark.agent.contain.sweep import sweep

        return _print(sweep(rest[0]))
    if verb == "complete" and len(rest) == 1:
        from trainmark.agent.ship import complete

        return _print({"completed": complete(rest[0])})
    if verb == "facts" and not rest:
        from trainmark.devices.cpu.node import detect

        return _print(detect())
    if verb == "selftest" and not rest:
        from trainmark.agent.contain.selftest import selftest

        report = selftest()
        return _print(report) or int(not report["ok"])
    if verb == "share" and len(rest) == 2:
        from trainmark.agent.relay.check import Share

        return _print({"why": Share(rest[0], rest[1]).step("look")})
    if verb == "serve" and len(rest) == 1:
        from trainmark.agent.relay.main import serve

        return serve(rest[0])
    if verb == "steward" and len(rest) == 1:
        from trainmark.agent.slurm.batch_job import steward

        return steward(rest[0])
    if verb == "head" and len(rest) > 3:
        from trainmark.agent.mpi.head import head

        return head(rest, sys.argv[0])
    if verb == "door" and len(rest) > 3:
        from trainmark.agent.mpi.member import door

        return door(rest, sys.argv[0])
    if verb in ("rank", "ssh"):
        from trainmark.agent.mpi import wrappers as guest

        return guest.ssh(rest) if verb == "ssh" else guest.rank()
    if verb in ("task", "tidy") and len(rest) == 2:
        from trainmark.agent.slurm import step as steptask

        return steptask.task(*rest) if verb == "task" else steptask.tidy(*rest)
    sys.stderr.write(_USAGE)
    return 2


def entry() -> None:
    """For `__main__`."""
    sys.exit(main(sys.argv[1:]))
