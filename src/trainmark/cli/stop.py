"""`trainmark stop`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from trainmark.cli import common
from trainmark.errors import SiteError
from trainmark.run import campaign, lease, session, stop
from trainmark.store.rundir import RunDir


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    parser.add_argument("--now", action="store_true", help="give the ranks no time to end by themselves")
    parser.add_argument(
        "--timeout", type=float, default=120.0, metavar="S", help="wait this long at most (default: 120)"
    )


def call(args: argparse.Namespace) -> int:
    made = campaign.find(args.runs, args.run)
    if made is None:
        return _stop_run(common.find_run(args), args)
    working = _is_owned(made.folder)
    if working:
        _ask(made.folder, made.name, args)
    what = "has stopped" if working else "is not running"
    more = "" if made.record().finished else f"; `trainmark resume {made.name}` would go on"
    sys.stdout.write(f"{made.name} {what}{more}\n")
    return 0


def _stop_run(run: RunDir, args: argparse.Namespace) -> int:
    plan = run.manifest().plan
    made = campaign.of_run(run)
    state = session.state_of(run, plan)
    if made is not None and _is_owned(made.folder):
        # Also between two of its runs, when nobody owns either.
        _ask(made.folder, made.name, args)
    elif _is_owned(run.path):
        _ask(run.path, f"run {run.id}", args)
    elif state.open_attempts():
        # Its controller is gone but an agent may still work: become the controller just to end it.
        session.end(run, plan, now=args.now)
    else:
        sys.stdout.write(f"run {run.id} is not running\n")
        # Another tool's run has no site of ours.
        if plan.kind != "import":
            for text in session.release(run, plan):
                sys.stderr.write(f"warning: {text}\n")
        return 0
    state = session.state_of(run, plan)
    more = f"; `{common.resume_line(run, plan)}` would go on" if state.unfinished() else ""
    sys.stdout.write(f"run {run.id} has stopped: {state.finished or 'its controller ended'}{more}\n")
    return 0


def _is_owned(folder: Path) -> bool:
    owner = lease.read(folder)
    return owner is not None and lease.is_alive(owner, folder)


def _ask(folder: Path, name: str, args: argparse.Namespace) -> None:
    """Returns when its owner has let go: by then its agents have proved that nothing is left."""
    stop.request(folder, now=args.now)
    deadline = time.monotonic() + args.timeout
    while time.monotonic() < deadline:
        if not _is_owned(folder):
            return
        time.sleep(0.1)
    raise SiteError(
        f"{name} has not stopped within {args.timeout:g} s; `trainmark stop --now {folder.name}` is harsher"
    )
