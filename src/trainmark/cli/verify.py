"""`trainmark verify`."""

from __future__ import annotations

import argparse
from pathlib import Path

from trainmark import api_trust
from trainmark.cli import common, terminal
from trainmark.errors import OK, THRESHOLD_CROSSED, UserError
from trainmark.report.show import format_of, show

FORMATS = ("text", "md", "html", "json")

EPILOG = """\
examples:
  trainmark verify result.tmk                     signatures, digests, completeness, plausibility, every figure anew
  trainmark verify *.tmk --json                   several at once
  trainmark verify result.tmk --rerun             also run its cases here, and compare
  trainmark verify result.tmk --cite              how to cite it, with an entry for BibTeX
exit code 0: nothing is wrong (remarks are worth reading all the same); 4: a fault was found, or, with --strict, a
remark; 2: not a bundle. docs/trust.md says what no check can find.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundles", nargs="+", type=Path, metavar="BUNDLE", help="files made by `trainmark pack`")
    parser.add_argument("--strict", action="store_true", help="remarks count as faults")
    parser.add_argument("--rerun", action="store_true", help="run its cases here and compare the figures")
    common.add_runs(parser)
    parser.add_argument("--cite", action="store_true", help="print how to cite it")
    parser.add_argument(
        "--format", choices=FORMATS, help="default: what the name of FILE ends in (.html, .md, .json), else text"
    )
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write to a file instead of the terminal")


def call(args: argparse.Namespace) -> int:
    if args.cite:
        from trainmark.trust import verify

        for path in args.bundles:
            terminal.out(verify.cite(path))
        return OK
    kind = format_of(args.format, args.output)
    if len(args.bundles) > 1 and kind == "html":
        raise UserError("a page shows one bundle; name one, or another --format")
    results = api_trust.verify_all(args.bundles)
    found = [one.record for one in results]
    if kind == "json":
        text = show(found[0] if len(found) == 1 else {"verifications": found}, "json")
    else:
        text = "\n".join(one.report(kind) for one in results)
    common.write(text, args.output)
    bad = any(not one.verified or (args.strict and one.findings) for one in found)
    if args.rerun:
        bad = _rerun(args) or bad
    return THRESHOLD_CROSSED if bad else OK


def _rerun(args: argparse.Namespace) -> bool:
    """Whether a case is shown to be slower here than its bundle says."""
    crossed = False
    for path in args.bundles:
        result = api_trust.rerun(path, runs=args.runs)
        terminal.out(result.report())
        crossed = crossed or any(one.past_threshold for one in result.record)
    return crossed
