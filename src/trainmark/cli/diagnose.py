"""`trainmark diagnose`: why a step takes as long as it does."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from trainmark.cli import common, drive, terminal
from trainmark.errors import CASE_FAILED, OK, UserError
from trainmark.plan import diagnose as plans
from trainmark.run import planning, session
from trainmark.store import secrets
from trainmark.store.rundir import RunDir

if TYPE_CHECKING:
    from trainmark.score.records import Diagnosis

EPILOG = """\
examples:
  trainmark diagnose resnet50:pytorch:cpu:1:2:1 --preset smoke
  trainmark diagnose last                  the cases of a run, on the same site; a diagnostic run is shown again
  trainmark diagnose last:mnist            those of its cases that begin so
  trainmark compare --why last other       what makes the difference between two diagnostic runs
Every case gets rounds of its own: untraced, traced by the profiler, and without communication between ranks,
in the same blocks. Their speeds are no results.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_suite(parser, "a case id, a suite, or a run (id, its start or end, folder, `last`)")
    common.add_runs(parser)
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="blocks of rounds, 3 and more (default: 5)")
    parser.add_argument(
        "--steps", type=int, default=20, metavar="N", help="steps that count, 20 and more (default: 20)"
    )
    parser.add_argument("--skip", type=int, default=5, metavar="N", help="steps before those (default: 5)")
    common.add_no_check(parser)
    drive.add_options(parser)


def call(args: argparse.Namespace) -> int:
    named = common.named_run(args)
    if named is None:
        plan, case = common.make_plan(args), ""
    else:
        found, case = named
        plan = found.manifest().plan
        if plan.kind == "diagnosis":
            return OK if all(one.traced_step.value is not None for one in _write(found, args)) else CASE_FAILED
        plan = secrets.whole(found, plan)
    seed = planning.random_seed() if args.seed is None else args.seed
    made = plans.diagnostic(plans.distinct(plan, case), args.rounds, args.skip, args.steps, seed)
    common.check(made, args)
    return drive.drive(drive.create(made, args), made, args)


def show(run: RunDir, args: argparse.Namespace) -> int:
    _write(run, args)
    return OK


def _write(run: RunDir, args: argparse.Namespace) -> list[Diagnosis]:
    from trainmark.report.make import diagnosis
    from trainmark.report.show import show

    state = session.state_of(run, run.manifest().plan)
    found = diagnosis.of_run(run, state)
    if not found:
        raise UserError(f"{run.id}: no diagnostic rounds")
    folder = diagnosis.gather(run, state)
    if args.json:
        shown = {"run": run.id, "dir": str(run.path), "traces": str(folder or ""), "diagnoses": found}
        terminal.out(show(shown, "json-line"))
        return found
    terminal.out("\n" + show(found, "text", args.language))
    terminal.tell(f"\nkept in {run.path}; `trainmark report {run.id} --format html` draws it\n")
    if folder is not None:
        terminal.tell(f"traces (for ui.perfetto.dev, chrome://tracing): {folder}\n")
    return found
