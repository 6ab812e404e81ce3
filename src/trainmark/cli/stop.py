"""`trainmark stop`."""

from __future__ import annotations

import argparse
import sys
import time

from trainmark.cli import common
from trainmark.errors import SiteError
from trainmark.run import lease, session, stop
from trainmark.store.rundir import RunDir


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    parser.add_argument("--now", action="store_true", help="give the ranks no time to end by themselves")
    parser.add_argument(
        "--timeout", type=float, default=120.0, metavar="S", help="wait this long at most (default: 120)"
    )


def call(args: argparse.Namespace) -> int:
    run = common.find_run(args)
    manifest = run.manifest()
    state = session.state_of(run, manifest.plan)
    owner = lease.read(run.path)
    if owner is not None and lease.is_alive(owner, run.path):
        stop.request(run.path, now=args.now)
        _wait(run, args.timeout)
    elif state.open_attempts():
        # Its controller is gone but an agent may still work: become the controller just to end it.
        session.end(run, state.plan, now=args.now)
    else:
        sys.stdout.write(f"run {run.id} is not running\n")
        # Another tool's run has no site of ours.
        if not manifest.imported:
            for text in session.release(run, state.plan):
                sys.stderr.write(f"warning: {text}\n")
        return 0
    state = session.state_of(run, state.plan)
    more = f"; `{common.resume_line(run, state.plan)}` would go on" if state.unfinished() else ""
    sys.stdout.write(f"run {run.id} has stopped: {state.finished or 'its controller ended'}{more}\n")
    return 0


def _wait(run: RunDir, seconds: float) -> None:
    """Until its owner has let go: by then its agents have proved that nothing is left."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        owner = lease.read(run.path)
        if owner is None or not lease.is_alive(owner, run.path):
            return
        time.sleep(0.1)
    raise SiteError(f"run {run.id} has not stopped within {seconds:g} s; `trainmark stop --now {run.id}` is harsher")
