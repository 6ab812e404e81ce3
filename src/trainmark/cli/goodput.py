"""`trainmark goodput`: how much of a job's time is training."""

from __future__ import annotations

import argparse
import math

from trainmark.cli import common, drive, terminal
from trainmark.errors import OK, UserError
from trainmark.plan.goodput import goodput
from trainmark.run import faults, session
from trainmark.store.rundir import RunDir

EPILOG = """\
examples:
  trainmark goodput last                                        a run that was made already
  trainmark goodput mnist:pytorch:cpu:1:2:1 --kill 1            kills rank 1 after two checkpoints, lets it recover
  trainmark goodput last --failures-per-day 2 --hours 720       what that means for a month
"""
_HOURS = 24.0


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_suite(parser, "a case id, a suite, or a run (id, its start or end, folder, `last`)")
    common.add_runs(parser)
    parser.add_argument("--kill", type=int, metavar="RANK", help="kill this rank once, after its second checkpoint")
    parser.add_argument("--failures-per-day", type=float, metavar="N", help="of the whole job, for a forecast")
    parser.add_argument("--hours", type=float, default=_HOURS, metavar="H", help="length of that job (default: 24)")
    parser.add_argument(
        "--save-every", type=float, metavar="SECONDS", help="between its checkpoints (default: as seen)"
    )
    common.add_no_check(parser)
    drive.add_options(parser)


def call(args: argparse.Namespace) -> int:
    for name in ("failures_per_day", "hours", "save_every"):
        value = getattr(args, name)
        if value is not None and not (0 < value < math.inf):
            raise UserError(f"--{name.replace('_', '-')}: found {value}, allowed is a number above 0")
    named = common.named_run(args)
    if named is not None:
        if args.kill is not None:
            raise UserError(f"--kill: {named[0].id} is over; name a case instead of a run")
        return show(named[0], args, named[1])
    plan = goodput(common.make_plan(args), args.kill)
    faults.check(plan)
    common.check(plan, args)
    return drive.drive(drive.create(plan, args), plan, args)


def show(run: RunDir, args: argparse.Namespace, begins: str = "") -> int:
    """Also at the end of `resume`, which has no options for a forecast."""
    from trainmark.report import show as reports
    from trainmark.report.make import goodput as reading
    from trainmark.score.studies.goodput import forecast

    plan = run.manifest().plan
    found = [one for one in reading.of_run(run, session.state_of(run, plan)) if one.case.startswith(begins)]
    if not found:
        raise UserError(f"{run.id}: nothing was tried yet")
    given = vars(args)
    rate, hours, every = given.get("failures_per_day"), given.get("hours", _HOURS), given.get("save_every")
    forecasts = [None if rate is None else forecast(one, rate, hours, every) for one in found]
    cases = [reading.GoodputCase(one, more) for one, more in zip(found, forecasts, strict=True)]
    whole = reading.GoodputRun(run.id, str(run.path), cases)
    if args.json:
        terminal.out(reports.show(whole, "json-line"))
        return OK
    terminal.out("\n" + reports.show(whole, "text", args.language))
    drawn = f"; `trainmark report {run.id} --format html` draws it" if plan.kind == "goodput" else ""
    terminal.tell(f"\nkept in {run.path}{drawn}\n")
    return OK
