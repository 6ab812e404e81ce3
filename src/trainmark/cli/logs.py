"""`trainmark logs`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from trainmark.cli import common, terminal
from trainmark.errors import UserError
from trainmark.run import control
from trainmark.spec.states import JobState
from trainmark.store.rundir import RunDir

LOOK_SECONDS = 0.3
# After so long without a line it is said what is waited for.
QUIET_SECONDS = 2.0

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
    rank = None if args.rank == "all" else int(args.rank)
    positions: dict[Path, int] = {}
    waits = _Waiting(run)
    while True:
        ended = not args.follow or not control.is_driven(run)
        files = control.log_files(run, args.what, rank, args.case, args.round)
        new = _print_new(files, positions)
        if ended:
            if not positions:
                raise UserError(f"run {run.id} has no such log; `trainmark status {run.id}` shows what was run")
            return 0
        waits.look(new)
        time.sleep(LOOK_SECONDS)


class _Waiting:
    """Says, on standard error, what is waited for while nothing is printed."""

    def __init__(self, run: RunDir) -> None:
        self._run, self._quiet_since, self._said = run, time.monotonic(), ""

    def look(self, new: bool) -> None:
        now = time.monotonic()
        if new:
            self._quiet_since, self._said = now, ""
        if now - self._quiet_since < QUIET_SECONDS:
            return
        said = self._what()
        if said != self._said:
            self._said = said
            terminal.err(f"({said})\n")

    def _what(self) -> str:
        for one in control.status(self._run).rounds:
            if one.state is JobState.RUNNING:
                doing = (one.progress.phase or one.progress.state.lower()) if one.progress else "starting"
                return f"waiting for {one.case} round {one.round}: {doing}"
        return "waiting for the next round to start"


def _print_new(files: list[Path], positions: dict[Path, int]) -> bool:
    """What was added to the files since the last call, if anything; `positions` is updated."""
    anything = False
    for file in files:
        with file.open("rb") as source:
            source.seek(positions.get(file, 0))
            new = source.read()
        positions[file] = positions.get(file, 0) + len(new)
        anything = anything or bool(new)
        head = file.name.partition(".")[0] + ": " if len(files) > 1 else ""
        for line in new.decode(errors="replace").splitlines():
            terminal.out(f"{head}{line}\n")
    sys.stdout.flush()
    return anything
