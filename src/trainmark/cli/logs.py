"""`trainmark logs`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from trainmark.cli import common, terminal
from trainmark.errors import UserError
from trainmark.i18n.speaker import say
from trainmark.i18n.texts import Text, label
from trainmark.run import control
from trainmark.spec.states import JobState
from trainmark.store.logs import Follower
from trainmark.store.rundir import RunDir

LOOK_SECONDS = 0.3
# After so long without a line it is said what is waited for.
QUIET_SECONDS = 2.0

EPILOG = """\
examples:
  trainmark logs                     output of rank 0 in the newest attempt of the newest run
  trainmark logs RUN --rank all      every rank's output, each line with its rank
  trainmark logs -n 20               its last 20 lines
  trainmark logs -f                  go on printing until the run ends
  trainmark logs --what run          what the controller did (also: agent)
  trainmark logs --what job          what Slurm and its batch script said
"""


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the run ends")
    parser.add_argument("-n", "--lines", type=int, metavar="N", help="begin with the last N lines (default: all)")
    parser.add_argument("--rank", default="0", metavar="R", help="a rank or `all` (default: 0)")
    parser.add_argument("--case", metavar="TEXT", help="the newest attempt of a case whose id holds TEXT")
    parser.add_argument("--round", type=int, metavar="N", help="the newest attempt of round N")
    parser.add_argument(
        "--what", choices=("ranks", "agent", "run", "job"), default="ranks", help="whose log (default: ranks)"
    )


def call(args: argparse.Namespace) -> int:
    if args.rank != "all" and not args.rank.isdigit():
        raise UserError(f"--rank {args.rank}: expected a number or `all`")
    if args.lines is not None and args.lines < 0:
        raise UserError(f"--lines {args.lines}: expected 0 or more")
    run = common.find_run(args)
    rank = None if args.rank == "all" else int(args.rank)
    known: dict[Path, Follower] = {}
    waits = _Waiting(run, args.language)
    while True:
        ended = not args.follow or not control.is_driven(run)
        files = control.log_files(run, args.what, rank, args.case, args.round)
        for file in files:
            known.setdefault(file, Follower(file, args.lines))
        new = _print_new(files, known, ended)
        if ended:
            if not known:
                raise UserError(f"run {run.id} has no such log; `trainmark status {run.id}` shows what was run")
            return 0
        waits.look(new)
        time.sleep(LOOK_SECONDS)


class _Waiting:
    """Says, on standard error, what is waited for while nothing is printed."""

    def __init__(self, run: RunDir, language: str) -> None:
        self._run, self._language = run, language
        self._quiet_since, self._said = time.monotonic(), ""

    def look(self, new: bool) -> None:
        now = time.monotonic()
        if new:
            self._quiet_since, self._said = now, ""
        if now - self._quiet_since < QUIET_SECONDS:
            return
        said = say(waited_for(self._run), self._language)
        if said != self._said:
            self._said = said
            terminal.err(f"({said})\n")


def waited_for(run: RunDir) -> Text:
    """The round that runs, and what it does; else what holds up the next one."""
    for one in control.status(run).rounds:
        if one.state is JobState.RUNNING:
            doing = one.progress.doing() if one.progress else one.reason or label("progress.starting")
            return label("progress.awaited", one.case, one.round, doing)
        if one.state is JobState.PENDING and one.reason is not None:  # in the queue of a scheduler
            return label("progress.awaited", one.case, one.round, one.reason)
    return label("progress.awaited_next")


def _print_new(files: list[Path], known: dict[Path, Follower], ended: bool) -> bool:
    """What was added to the files since the last call, if anything was."""
    anything = False
    for file in files:
        head = file.name.partition(".")[0] + ": " if len(files) > 1 else ""
        for line in known[file].lines(ended):
            # A progress bar returns to the start of its line: each of its states is shown on one of its own.
            for part in line.rstrip("\r").split("\r"):
                terminal.out(f"{head}{part}\n")
            anything = True
    sys.stdout.flush()
    return anything
