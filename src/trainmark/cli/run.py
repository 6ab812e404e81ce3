"""`trainmark run`."""

from __future__ import annotations

import argparse
from pathlib import Path

from trainmark.cli import common, drive, fit, terminal, tester
from trainmark.errors import UserError
from trainmark.run import planning
from trainmark.spec import suite_cases

EPILOG = """\
examples:
  trainmark run quick                                  this machine in a few minutes
  trainmark run mnist:pytorch:cpu:1:2:3                one case: 1 node, 2 processes, 3 rounds
  trainmark run gpt2:pytorch:cpu:1:1:5 --seconds 60    each round measures for a minute
  trainmark run resnet50:mindspore:cpu:1:1:3 --grid 1n1g,1n2g,2n1g,2n2g --site lab.yaml --dlperf out \
   a scaling study, and DLPerf's table and JSON of it
  trainmark run my-suite.yaml --set batch=64 --json    a suite of your own, result as JSON
  trainmark run --tester http://HOST:9527              the test of a tester, and report to it
"""


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_suite(parser, optional=True)
    common.add_seconds(parser)
    common.add_runs(parser)
    drive.add_options(parser)
    common.add_no_check(parser)
    tester.add_options(parser)
    parser.add_argument(
        "--dlperf", type=Path, metavar="DIR", help="write the result as DLPerf does, too: JSON, table and logs"
    )


def call(args: argparse.Namespace) -> int:
    if args.dlperf is not None and args.detach:
        raise UserError("--dlperf: a detached run has no result yet; `trainmark export dlperf` writes it later")
    if args.tester is not None:
        return tester.begin(args)
    if args.suite is None:
        raise UserError("no SUITE: name a suite, a YAML file or a case; `trainmark run quick` is a start")
    loaded, site = common.load_suite(args), common.load_site(args)
    if suite_cases.wanted_batches(loaded):
        return fit.begin(loaded, site, args)
    plan = planning.plan_suite(loaded, site, common.overrides(args), args.seed, allow_skip=args.allow_skip)
    plan = planning.with_kept_peaks(plan, args.site)
    common.check(plan, args)
    run = drive.create(plan, args)
    code = drive.drive(run, plan, args)
    if args.dlperf is not None:
        from trainmark.interop.protocol import REGISTRY, Format

        form: Format = REGISTRY.get("dlperf", "export")
        for file in form.write([run], args.dlperf, {}):
            terminal.err(f"{file}\n")
    return code
