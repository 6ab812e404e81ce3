"""`trainmark verify`."""

from __future__ import annotations

import argparse
from pathlib import Path

from trainmark import api_trust
from trainmark.api_objects import Result
from trainmark.cli import common, terminal
from trainmark.cli.compare import exit_code
from trainmark.errors import OK, THRESHOLD_CROSSED, UserError
from trainmark.report.make.compare import Comparison
from trainmark.report.show import format_of, show

FORMATS = ("text", "md", "html", "json")

EPILOG = """\
examples:
  trainmark verify result.tmk                     signatures, digests, completeness, plausibility, every figure anew
  trainmark verify *.tmk --json                   several at once
  trainmark verify result.tmk --rerun             also run its cases here, and compare: A is the bundle
  trainmark verify result.tmk --cite              how to cite it, with an entry for BibTeX
exit code 0: nothing is wrong (remarks are worth reading all the same); 4: a fault was found, or, with --strict, a
remark, or a case is slower here by more than 5 %; 2: not a bundle. docs/trust.md says what no check can find.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundles", nargs="+", type=Path, metavar="BUNDLE", help="files made by `trainmark pack`")
    parser.add_argument("--strict", action="store_true", help="remarks count as faults")
    parser.add_argument("--rerun", action="store_true", help="run its cases here and compare the figures")
    parser.add_argument("--case", metavar="CASE", help="with --rerun: only this one of its cases")
    parser.add_argument("--site", type=Path, metavar="FILE", help="with --rerun: where to run them (default: here)")
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
    if len(args.bundles) > 1 and args.rerun:
        raise UserError("--rerun runs the cases of one bundle; name one")
    if len(args.bundles) > 1 and kind == "html":
        raise UserError("a page shows one bundle; name one")
    if not args.rerun and (args.case or args.site):
        raise UserError("--case and --site say what --rerun runs, and where; add --rerun")
    results = api_trust.verify_all(args.bundles)
    found = [one.record for one in results]
    good = all(one.verified and not (args.strict and one.findings) for one in found)
    again = _rerun(args, kind) if args.rerun and found[0].verified else None
    if args.rerun and again is None:
        terminal.err(f"{args.bundles[0]}: has faults, and was not run again\n")
    if kind == "json":
        one = found[0] if len(found) == 1 else {"verifications": found}
        text = show(one if again is None else {"verification": one, "comparisons": again.record}, "json")
    else:
        text = "\n".join(
            one.report(kind) for one in (*results, *([again] if again is not None and kind != "html" else ()))
        )
    common.write(text, args.output)
    if again is not None and kind == "html":
        terminal.out(again.report())
    if not good:
        return THRESHOLD_CROSSED
    return OK if again is None else exit_code(again.record)


def _rerun(args: argparse.Namespace, kind: str) -> Result[list[Comparison]]:
    """Its cases here, against its figures."""
    quiet = kind == "json" or args.output is not None
    if not quiet:
        terminal.err(f"{args.bundles[0]}: running its cases here\n")
    return api_trust.rerun(args.bundles[0], case=args.case, site=args.site, runs=args.runs)
