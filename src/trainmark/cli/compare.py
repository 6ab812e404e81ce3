"""`trainmark compare`: is B faster than A? And C, and D?"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from trainmark import api
from trainmark.cli import common, compare_live
from trainmark.errors import NOTHING_COMPARED, OK, THRESHOLD_CROSSED, UserError
from trainmark.report.show import format_of, show
from trainmark.spec.notation import parse_share
from trainmark.store import rundir

if TYPE_CHECKING:
    from trainmark.report.make.compare import Comparison

FORMATS = ("text", "md", "html", "json")

EPILOG = """\
examples:
  trainmark compare 20260102-101500-quick-a1b2 last            every case that both runs have
  trainmark compare last:mnist:pytorch:cpu:1:1:5 last:mnist:pytorch:cpu:1:2:5     two cases of one run
  trainmark compare baseline last --fail-over 5% -o comment.md     against the baseline of its hosts, for a pull request
  trainmark compare monday tuesday wednesday                   every other one against the first
  trainmark compare --live old-run new-suite.yaml              both are run anew, in turns; then the same verdict
  trainmark compare --live gpt2:pytorch:cpu:1:1:5 --set-b dtype=bf16     one case, and the same with another setting
verdicts on B: faster, slower, equivalent (within the margin), inconclusive (with the rounds per side it would take).
exit codes: 4 a case lost more than the threshold, and that is beyond doubt (5 % over all cases); 5 nothing could be
compared (no case has two rounds with a figure on both sides); else 0.
Runs of different days differ by more than their rounds do: how much is taken from other runs of the case in the folder,
from 3 on; else a note says how wide the interval might be. Cases of one run (RUN:CASE) are interleaved: they need none.
With --live, A and B become two new runs whose blocks are taken in turns; who comes first is drawn for each block.
`trainmark resume` goes on with one that was stopped, and `trainmark compare` of the two says the same again.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sides",
        nargs="+",
        metavar="RUN",
        help="A, B and more: a run (id, its start or end, folder, `last`), RUN:CASE, or for A `baseline`",
    )
    common.add_runs(parser)
    parser.add_argument("--margin", default="3%", metavar="SHARE", help="differences up to this do not matter (3%%)")
    parser.add_argument(
        "--fail-over",
        "--threshold",
        dest="threshold",
        default="5%",
        metavar="SHARE",
        help="a loss beyond this gives exit code 4 (5%%)",
    )
    parser.add_argument("--metric", default="throughput", help="throughput (default) or sustained_throughput")
    parser.add_argument(
        "--force",
        action="store_true",
        help="also compare unfinished runs, other models, and other versions of a workload, marked",
    )
    parser.add_argument(
        "--format", choices=FORMATS, help="default: what the name of FILE ends in (.html, .md, .json), else text"
    )
    common.add_output(parser)
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")
    parser.add_argument(
        "--why", action="store_true", help="of two diagnostic runs: what adds how much to the difference"
    )
    compare_live.configure(parser)


def call(args: argparse.Namespace) -> int:
    if args.live:
        return compare_live.begin(args)
    compare_live.refuse(args)
    if args.why:
        return _why(args)
    found = api.compare(
        *args.sides,
        runs=args.runs,
        metric=args.metric,
        margin=parse_share(args.margin, "--margin"),
        threshold=parse_share(args.threshold, "--fail-over", zero=True),
        force=args.force,
    ).record
    write(found, format_of(args.format, args.output), args.output, args)
    return exit_code(found)


def exit_code(found: list[Comparison]) -> int:
    if any(one.past_threshold for one in found):
        return THRESHOLD_CROSSED
    return OK if any(one.judged for one in found) else NOTHING_COMPARED


def write(found: list[Comparison], kind: str, output: Path | None, args: argparse.Namespace) -> None:
    several = {"comparisons": found} if kind == "json" and len(found) > 1 else found
    common.write(show(found[0] if len(found) == 1 else several, kind, common.language(kind, args)), output)


def _why(args: argparse.Namespace) -> int:
    from trainmark.report import build
    from trainmark.report.make import why

    if len(args.sides) != 2:
        raise UserError(f"--why compares two runs, found {len(args.sides)}")
    kind = format_of(args.format, args.output)
    if kind not in ("text", "json"):
        raise UserError(f"--why is shown as text or JSON, found `{kind}`")
    (run_a, _, case_a), (run_b, _, case_b) = (name.partition(":") for name in args.sides)
    reports = [build.build(rundir.find(args.runs, name)) for name in (run_a, run_b)]
    found = why.why(reports[0], reports[1], case_a or None, case_b or None)
    common.write(show(found, kind, common.language(kind, args)), args.output)
    return OK
