"""`trainmark stop`."""

from __future__ import annotations

import argparse
import sys

from trainmark.cli import common
from trainmark.run import control, session


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    parser.add_argument("--now", action="store_true", help="give the ranks no time to end by themselves")
    parser.add_argument(
        "--timeout", type=float, default=120.0, metavar="S", help="wait this long at most (default: 120)"
    )


def call(args: argparse.Namespace) -> int:
    run = common.find_run(args)
    manifest = run.manifest()
    if not control.stop_run(run, now=args.now, timeout=args.timeout):
        sys.stdout.write(f"run {run.id} is not running\n")
        # Another tool's run has no site of ours.
        for text in [] if manifest.imported else session.release(run, manifest.plan):
            sys.stderr.write(f"warning: {text}\n")
        return 0
    state = session.state_of(run, manifest.plan)
    more = f"; `{common.resume_line(run, manifest.plan)}` would go on" if state.unfinished() else ""
    sys.stdout.write(f"run {run.id} has stopped: {state.finished or 'its controller ended'}{more}\n")
    return 0
