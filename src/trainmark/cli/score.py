"""`trainmark score`: one figure for a machine, against a reference machine."""

from __future__ import annotations

import argparse

from trainmark.api_objects import Run
from trainmark.cli import common
from trainmark.errors import CASE_FAILED, NOTHING_COMPARED, OK, UserError
from trainmark.report.show import format_of, show

EPILOG = """\
examples:
  trainmark score                                      the newest run against the reference that comes with trainmark
  trainmark score RUN --against lab.json               against a reference of your own
  trainmark score --make-reference RUN -o lab.json     makes one of a run all of whose cases gave a speed
The score is the geometric mean of the cases' speeds, each divided by the reference's: 2 is twice as fast. A case with
another preset, model, batch or number format than the reference's is left out, and the score is flagged for it.
exit code 1: a case of the reference has no part in the score; 5: there is no score; else 0.
"""
FORMATS = ("text", "md", "html", "json")


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    parser.add_argument("--against", metavar="REFERENCE", help="a reference's name or file (default: the shipped one)")
    parser.add_argument("--make-reference", action="store_true", help="write RUN's figures as a reference to -o FILE")
    parser.add_argument("--name", metavar="NAME", help="of the reference that is made (default: FILE's name)")
    parser.add_argument("--note", default="", metavar="TEXT", help="kept in the reference that is made, and shown")
    parser.add_argument("--format", choices=FORMATS, help="default: what FILE ends in, else text")
    common.add_output(parser)
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")


def call(args: argparse.Namespace) -> int:
    if args.make_reference:
        return _make(args)
    found = Run(common.find_run(args)).score(args.against).record
    kind = format_of(args.format, args.output)
    common.write(show(found, kind, common.language(kind, args)), args.output)
    if found.value is None:
        return NOTHING_COMPARED
    return OK if found.counted == found.of else CASE_FAILED


def _make(args: argparse.Namespace) -> int:
    if args.output is None:
        raise UserError("--make-reference: name the file with -o FILE")
    if args.against is not None:
        raise UserError("--make-reference writes a reference, --against reads one: give one of them")
    name = args.name or args.output.stem
    common.write(show(Run(common.find_run(args)).reference(name, args.note), "json"), args.output)
    return OK
