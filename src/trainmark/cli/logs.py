"""`trainmark logs`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from trainmark.cli import common
from trainmark.errors import UserError
from trainmark.run import lease, session
from trainmark.store.rundir import RUN_LOG, RunDir
from trainmark.store.state import RunState

LOOK_SECONDS = 0.3

EPILOG = """\
examples:
  trainmark logs                     output of rank 0 in the newest attempt of the newest run
  trainmark logs RUN --rank all      every rank's output, each line with its rank
  trainmark logs -f                  go on printing until the run ends
  trainmark logs --what run          what the controller did (also: agent)
"""


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the run ends")
    parser.add_argument("--rank", default="0", metavar="R", help="a rank or `all` (default: 0)")
    parser.add_argument("--case", metavar="TEXT", help="the newest attempt of a case whose id holds TEXT")
    parser.add_argument("--round", type=int, metavar="N", help="the newest attempt of round N")
    parser.add_argument("--what", choices=("ranks", "agent", "run"), default="ranks", help="whose log (default: ranks)")


def call(args: argparse.Namespace) -> int:
    if args.rank != "all" and not args.rank.isdigit():
        raise UserError(f"--rank {args.rank}: expected a number or `all`")
    run = common.find_run(args)
    positions: dict[Path, int] = {}
    while True:
        ended = not args.follow or _is_over(run)
        printed = _print_new(run, args, positions)
        if ended:
            if not positions and not printed:
                raise UserError(f"run {run.id} has no such log; `trainmark status {run.id}` shows what was run")
            return 0
        time.sleep(LOOK_SECONDS)


def _is_over(run: RunDir) -> bool:
    owner = lease.read(run.path)
    return owner is None or not lease.is_alive(owner, run.path)


def _print_new(run: RunDir, args: argparse.Namespace, positions: dict[Path, int]) -> bool:
    files = [run.path / RUN_LOG] if args.what == "run" else list(_files(run, args))
    many = len(files) > 1
    for file in files:
        with file.open("rb") as source:
            source.seek(positions.get(file, 0))
            new = source.read()
        positions[file] = positions.get(file, 0) + len(new)
        head = file.name.partition(".")[0] + ": " if many else ""
        for line in new.decode(errors="replace").splitlines():
            sys.stdout.write(f"{head}{line}\n")
    sys.stdout.flush()
    return bool(files)


def _files(run: RunDir, args: argparse.Namespace) -> Iterator[Path]:
    attempt = _attempt(run, session.state_of(run, run.manifest().plan), args)
    if attempt is None:
        return
    if args.what == "agent":
        yield from sorted(attempt.glob("*/agent.log"))
        return
    wanted = "*" if args.rank == "all" else args.rank
    found = attempt.glob(f"*/rank{wanted}.out.log")
    yield from sorted(found, key=lambda file: int(file.name.partition(".")[0][4:]))


def _attempt(run: RunDir, state: RunState, args: argparse.Namespace) -> Path | None:
    """The newest attempt that fits; rounds run in the plan's order."""
    newest = None
    for ref in state.plan.order:
        case = state.plan.cases[ref.case]
        last = state.rounds[ref].last()
        fits = (args.case is None or args.case in case.case) and args.round in (None, ref.round)
        if last is not None and fits:
            newest = run.attempt(case, ref, last.number)
    return newest
