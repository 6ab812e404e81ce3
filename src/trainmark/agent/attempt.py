"""One attempt on this node: claim the folder, check the lease, contain, tune, hold ports, run the round."""

from __future__ import annotations

import os
import time

from trainmark.agent import linux, result, tuning
from trainmark.agent.contain import choose as contain
from trainmark.agent.ending import Ending, agent_failed, disk_full
from trainmark.agent.files import is_disk_full
from trainmark.agent.node_plan import PlanError, claim, outranked, read_plan
from trainmark.agent.reasons import ReasonedError
from trainmark.agent.result import Context
from trainmark.agent.round import Round
from trainmark.agent.wakeup import Wakeup
from trainmark.devices.cpu.node import cpu_quota


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
    context = result.Context(plan, linux.Proc())
    try:
        return _attempt(context)
    except ReasonedError as error:
        return _fail(context, Ending("FAILED", error.reason, error.kind))
    except Exception as error:
        return _fail(context, disk_full(error)) if is_disk_full(error) else _fail_internally(context, error)


def _attempt(context: Context) -> int:
    plan = context.plan
    linux.seal_descriptors()
    if plan.active:
        from trainmark.agent.other_attempts import OtherAttempts

        context.other_attempts = OtherAttempts(plan.active, plan.host, plan.token)
        context.other_attempts.enter()
    _clear_stale_spools(context)
    wakeup = Wakeup()
    containment, context.why = contain.choose(plan.containment, plan.token, context.proc)
    context.containment = containment
    settings = tuning.choose(plan, tuning.look(plan, cpu_quota()), os.environ)
    if plan.device.get("setup"):
        from trainmark.agent.vendor_setup import variables

        found, warnings = variables(plan.device["setup"], os.environ)
        settings.env.update({name: value for name, value in found.items() if name not in plan.env})
        context.warnings += warnings
    context.settings = settings
    context.warnings += settings.warnings
    if plan.ports:
        from trainmark.agent.ports import Ports

        held = Ports(context.proc)  # until this process ends
        held.hold(plan.ports)
        context.ports, context.foreign_listener = held.numbers, held.foreign_listener
    work = Round(context, containment, settings, wakeup)
    if not containment.guarded:
        return work.run()
    from trainmark.agent.contain import guardian

    return guardian.run_guarded(context, containment, work, wakeup)


def _clear_stale_spools(context: Context) -> None:
    """Removes the spools that killed attempts left on this host."""
    plan = context.plan
    folders = {os.path.dirname(plan.spool)} - {plan.dir}
    if plan.active or folders:
        from trainmark.agent.events.spools import TEMPORARY, clear_stale

        for spool in clear_stale(folders | {TEMPORARY}, plan.dir):
            context.log.line("cleared %s, which an earlier attempt had left" % spool)


def _fail(context: Context, ending: Ending, code: int = result.WRITTEN) -> int:
    """The round did not end by itself: everything in the containment is killed."""
    summary = result.RoundSummary()
    if context.containment:
        summary.left = contain.clear(context.containment, contain.reap_all, time.sleep)
    return result.write(context, ending, summary, code)


def _fail_internally(context: Context, error: Exception) -> int:
    """A fault of the agent itself."""
    import traceback

    context.log.line(traceback.format_exc())
    return _fail(context, agent_failed(error), result.INTERNAL)


def _say(text: str, code: int) -> int:
    """Writes a line for the launcher, if it still reads."""
    try:
        os.write(2, ("trainmark agent: %s\n" % text).encode("utf-8", "replace"))
    except OSError:
        pass
    return code
