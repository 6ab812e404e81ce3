"""`trainmark run`."""

from __future__ import annotations

import argparse
import sys

from trainmark.cli import common, drive
from trainmark.errors import SiteError
from trainmark.launch import REGISTRY
from trainmark.plan.records import Plan
from trainmark.run import session

EPILOG = """\
examples:
  trainmark run quick                                  this machine in a few minutes
  trainmark run mnist:pytorch:cpu:1:2:3                one case: 1 node, 2 processes, 3 rounds
  trainmark run my-suite.yaml --set batch=64 --json    a suite of your own, result as JSON
"""


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_suite(parser)
    common.add_runs(parser)
    drive.add_options(parser)
    parser.add_argument("--no-check", action="store_true", help="do not look at the site's hosts before the start")


def call(args: argparse.Namespace) -> int:
    plan = common.make_plan(args)
    if plan.site.launcher == "slurm":
        from trainmark.launch import slurm_plan

        slurm_plan.check_runs(plan.site, args.runs)
    if plan.site.launcher != "local" and not args.no_check:
        check_site(plan)
    run = session.create(plan, args.runs.resolve())
    return drive.drive(run, plan, args)


def check_site(plan: Plan) -> None:
    """The hosts this run needs, before anything is started or written."""
    from trainmark.cli import doctor

    found = REGISTRY.get(plan.site.launcher).check(plan.site, plan)
    if doctor.bad(found):
        sys.stderr.write(doctor.text(doctor.bad(found)))
        raise SiteError(f"site `{plan.site.name}` cannot be used as it is; `--no-check` starts all the same")
