"""`trainmark status`."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import msgspec

from trainmark.cli import common
from trainmark.cli.list import table
from trainmark.report.i18n.speaker import say
from trainmark.run import lease, progress, session
from trainmark.spec.states import JobState
from trainmark.store.rundir import RunDir
from trainmark.store.state import RunState


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    parser.add_argument("--json", action="store_true", help="print as JSON")


def call(args: argparse.Namespace) -> int:
    run = common.find_run(args)
    state = session.state_of(run, run.manifest().plan)
    if args.json:
        found = {
            "run": run.id,
            "state": run_state(run, state),
            "owner": _owner(run),
            "rounds": rounds(run, state),
        }
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
        return 0
    sys.stdout.write(f"run {run.id}  {run_state(run, state)}  {_owner(run)}\n\n" + table(rounds(run, state)))
    return 0


def run_state(run: RunDir, state: RunState) -> str:
    """RUNNING only while somebody works on it: a killed controller's run is not."""
    if state.finished is not None:
        return str(state.finished)
    owner = lease.read(run.path)
    if owner is not None and lease.is_alive(owner, run.path):
        return str(JobState.RUNNING)
    return f"LOST: its controller is gone; `{common.resume_line(run, state.plan)}` goes on"


def _owner(run: RunDir) -> str:
    owner = lease.read(run.path)
    return "" if owner is None or owner.released else f"owner {owner}, epoch {owner.epoch}"


def rounds(run: RunDir, state: RunState) -> list[dict[str, Any]]:
    rows = []
    for ref in state.plan.order:
        if state.is_spare(ref):
            continue
        case = state.plan.cases[ref.case]
        outcome, reason = state.outcome(ref)
        last = state.rounds[ref].last()
        if outcome is JobState.RUNNING and last is not None:
            seen = progress.look(run.attempt(case, ref, last.number), case)
            reason = seen.text(case.unit) if seen else "starting"
        rows.append(
            {
                "case": case.case,
                "round": ref.round,
                "attempt": last.number if last else 0,
                "state": str(outcome),
                "what": say(reason),
            }
        )
    return rows
