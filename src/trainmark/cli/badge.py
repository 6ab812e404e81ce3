"""`trainmark badge`: one result as a small picture, or as the JSON that badge services read."""

from __future__ import annotations

import argparse

from trainmark.cli import common
from trainmark.errors import UserError

EPILOG = """\
examples:
  trainmark badge -o speed.svg                       the first case of the newest run
  trainmark badge last --case resnet50 -o speed.svg  the case whose address begins so
  trainmark badge last --json -o speed.json          for services that draw badges from JSON
"""


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    parser.add_argument("--case", metavar="CASE", help="the case whose address begins so (default: the first)")
    parser.add_argument("--label", metavar="TEXT", help="what stands on the left (default: the workload)")
    parser.add_argument("--json", action="store_true", help="JSON with schemaVersion, label, message and color")
    common.add_output(parser)


def call(args: argparse.Namespace) -> int:
    from trainmark.report import badge, build

    run = common.find_run(args)
    report = build.build(run)
    cases = [case for case in report.cases if case.case.startswith(args.case or "")]
    if not cases:
        raise UserError(f"{run.id}: no case begins with `{args.case}`")
    made = badge.of_case(cases[0], args.label)
    common.write(badge.to_json(made) if args.json else badge.to_svg(made), args.output)
    return 0
