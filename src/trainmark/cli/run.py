"""`trainmark run`."""

from __future__ import annotations

import argparse

from trainmark.cli import common, drive
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


def call(args: argparse.Namespace) -> int:
    plan = common.make_plan(args)
    if plan.site.launcher == "slurm":
        from trainmark.launch import slurm_plan

        slurm_plan.check_runs(plan.site, args.runs)
    run = session.create(plan, args.runs.resolve())
    return drive.drive(run, plan, args)
