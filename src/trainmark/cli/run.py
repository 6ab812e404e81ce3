"""`trainmark run`."""

from __future__ import annotations

import argparse

from trainmark.cli import common, drive, fit
from trainmark.run import planning
from trainmark.spec import suite_cases

EPILOG = """\
examples:
  trainmark run quick                                  this machine in a few minutes
  trainmark run mnist:pytorch:cpu:1:2:3                one case: 1 node, 2 processes, 3 rounds
  trainmark run gpt2:pytorch:cpu:1:1:5 --seconds 60    each round measures for a minute
  trainmark run my-suite.yaml --set batch=64 --json    a suite of your own, result as JSON
"""


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_suite(parser)
    common.add_seconds(parser)
    common.add_runs(parser)
    drive.add_options(parser)
    common.add_no_check(parser)


def call(args: argparse.Namespace) -> int:
    loaded, site = common.load_suite(args), common.load_site(args)
    if suite_cases.wanted_batches(loaded):
        return fit.begin(loaded, site, args)
    plan = planning.plan_suite(loaded, site, common.overrides(args), args.seed, allow_skip=args.allow_skip)
    plan = planning.with_kept_peaks(plan, args.site)
    common.check(plan, args)
    run = drive.create(plan, args)
    return drive.drive(run, plan, args)
