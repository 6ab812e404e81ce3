"""`trainmark resume`."""

from __future__ import annotations

import argparse

from trainmark.cli import common, drive, terminal
from trainmark.errors import UserError
from trainmark.run import campaign, session
from trainmark.run.campaign import Campaign

EPILOG = """\
Rounds that ended are kept as they are. A round whose agent still works is followed, one that was cut off gets a new
attempt, and cases that were skipped are looked at again. Nothing is counted twice.
An acceptance, a bisection, a search for the largest batch or a live comparison goes on as a whole, to its result; they
are named by their folder (`.bisect-…`, `.fit-…`, `.live-…`), a live comparison also by either of its runs. Without RUN
it is the newest run, or a newer one of these.
The clock of an AutoML experiment does not stop in between: what is left of its time is what is left.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    drive.add_options(parser)


def call(args: argparse.Namespace) -> int:
    made = campaign.find(args.runs, args.run)
    if made is not None:
        return _go_on(made, args)
    run = common.find_run(args, own=True)
    plan = run.manifest().plan
    if plan.kind == "import":
        raise UserError(f"run {run.id} was imported: another tool ran it, so there is nothing here to go on with")
    if plan.kind == "acceptance":
        from trainmark.campaigns import accept

        made = accept.find(run)
    elif plan.kind in ("bisect", "fit") or plan.turns:
        made = campaign.of_run(run)
    if made is not None:
        return _go_on(made, args)
    if plan.kind == "automl":
        from trainmark.cli.automl.run import resume

        return resume(args)
    if session.nothing_left(run, plan) and not args.json:
        terminal.tell(f"run {run.id} has nothing left to do\n")
    return drive.drive(run, plan, args)


def _go_on(made: Campaign, args: argparse.Namespace) -> int:
    from trainmark.cli import accept, bisect, compare_live, fit

    doors = {"acceptance": accept.go_on, "bisect": bisect.go_on, "fit": fit.go_on, "live": compare_live.go_on}
    return doors[made.record().kind](made, args)
