"""`trainmark resume`."""

from __future__ import annotations

import argparse
import sys

from trainmark.cli import common, drive
from trainmark.errors import UserError
from trainmark.run import session
from trainmark.store.rundir import RunDir

EPILOG = """\
Rounds that ended are kept as they are. A round whose agent still works is followed, one that was cut off gets a new
attempt, and cases that were skipped are looked at again. Nothing is counted twice.
An acceptance goes on as a whole, to its verdict.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    drive.add_options(parser)


def call(args: argparse.Namespace) -> int:
    run: RunDir = common.find_run(args)
    manifest = run.manifest()
    if manifest.imported:
        raise UserError(f"run {run.id} was imported: another tool ran it, so there is nothing here to go on with")
    plan = manifest.plan
    if plan.kind == "automl":
        raise UserError(f"run {run.id} is an AutoML experiment: `trainmark automl resume {run.id}` goes on with it")
    if plan.kind == "acceptance":
        from trainmark.cli import accept, accept_course

        first = accept_course.first_of(run)
        if first is not None:
            return accept.go_on(args, first)
    if session.nothing_left(run, plan) and not args.json:
        sys.stdout.write(f"run {run.id} has nothing left to do\n")
    return drive.drive(run, plan, args)
