"""`trainmark history`: a case over all runs of a folder."""

from __future__ import annotations

import argparse

from trainmark.cli import common
from trainmark.report.show import format_of, show

EPILOG = """\
examples:
  trainmark history mnist:pytorch:cpu:1:1              its speed in every run here, and where it changed
  trainmark history mnist -o mnist.html                every case that begins so, as a page
Runs on other hosts are a history of their own. Changes are looked for from 6 runs on.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("case", metavar="CASE", help="a case id (its repeats do not matter), or how it begins")
    common.add_runs(parser)
    parser.add_argument("--format", choices=("text", "html", "json"), help="default: what FILE ends in, else text")
    common.add_output(parser)
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")


def call(args: argparse.Namespace) -> int:
    from trainmark.report.make import history

    kind = format_of(args.format, args.output)
    shown = show(history.collect(args.runs, args.case), kind, common.language(kind, args))
    common.write(shown, args.output)
    return 0
