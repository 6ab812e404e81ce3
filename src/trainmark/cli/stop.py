"""`trainmark stop`."""

from __future__ import annotations

import argparse

from trainmark.cli import common, terminal
from trainmark.run import campaign, control, session


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    parser.add_argument("--now", action="store_true", help="give the ranks no time to end by themselves")
    parser.add_argument(
        "--timeout", type=float, default=120.0, metavar="S", help="wait this long at most (default: 120)"
    )


def call(args: argparse.Namespace) -> int:
    made = campaign.find(args.runs, args.run)
    if made is not None:
        stopped = control.stop_campaign(made, now=args.now, timeout=args.timeout)
        more = "" if made.record().finished else f"; `trainmark resume {made.name}` would go on"
        terminal.tell(f"{made.name} {'has stopped' if stopped else 'is not running'}{more}\n")
        return 0
    run = common.find_run(args, own=True)
    plan = run.manifest().plan
    if not control.stop_run(run, now=args.now, timeout=args.timeout):
        terminal.tell(f"run {run.id} is not running\n")
        # Another tool's run has no site of ours.
        for text in [] if plan.kind == "import" else session.release(run, plan):
            terminal.err(f"warning: {text}\n")
        return 0
    state = session.state_of(run, plan)
    more = f"; `{common.resume_line(run, plan)}` would go on" if state.unfinished() else ""
    terminal.tell(f"run {run.id} has stopped: {state.finished or 'its controller ended'}{more}\n")
    return 0
