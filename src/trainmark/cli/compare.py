"""`trainmark compare`: is B faster than A?"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trainmark.cli import common
from trainmark.cli.list import table
from trainmark.errors import OK, THRESHOLD_CROSSED, UserError, did_you_mean, one_of
from trainmark.spec import share
from trainmark.store import rundir

if TYPE_CHECKING:
    from trainmark.report.compare import Compared, Comparison, Side
    from trainmark.score.verdict import Verdict

EPILOG = """\
examples:
  trainmark compare 20260102-101500-quick-a1b2 last            every case that both runs have
  trainmark compare last:mnist:pytorch:cpu:1:1:5 last:mnist:pytorch:cpu:1:2:5     two cases of one run
verdicts on B: faster, slower, equivalent (within the margin), inconclusive (with the runs per side it would take).
exit code 4: a case lost more than the threshold, and that is beyond doubt (5 % over all cases); else 0.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    for name in ("A", "B"):
        parser.add_argument(
            name.lower(), metavar=name, help="a run (id, its start or end, folder, `last`), or RUN:CASE"
        )
    common.add_runs(parser)
    parser.add_argument("--margin", default="3%", metavar="SHARE", help="differences up to this do not matter (3%%)")
    parser.add_argument("--threshold", default="5%", metavar="SHARE", help="a loss beyond this gives exit code 4 (5%%)")
    parser.add_argument("--metric", default="throughput", help="throughput (default) or sustained_throughput")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.add_argument(
        "--why", action="store_true", help="of two diagnostic runs: what adds how much to the difference"
    )


def call(args: argparse.Namespace) -> int:
    if args.why:
        return _why(args)
    from trainmark.report.compare import METRICS, compare

    margin = share.parse(args.margin, "--margin")
    threshold = share.parse(args.threshold, "--threshold", zero=True)
    if args.metric not in METRICS:
        raise UserError(
            f"--metric: found `{args.metric}`{did_you_mean(args.metric, METRICS)}, allowed is {one_of(METRICS)}"
        )
    a, b = _side(args, args.a), _side(args, args.b)
    if (a.case is None) != (b.case is None):
        raise UserError("A and B: either both name a case (RUN:CASE) or none does")
    if (a.report.dir, a.case) == (b.report.dir, b.case):
        raise UserError(f"A and B are the same: {a.case or a.report.run}")
    found = compare(a, b, args.metric, margin, threshold)
    if args.json:
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    else:
        sys.stdout.write(text(found))
    return THRESHOLD_CROSSED if found.past_threshold else OK


def _why(args: argparse.Namespace) -> int:
    from trainmark.report import build, why

    (run_a, _, case_a), (run_b, _, case_b) = args.a.partition(":"), args.b.partition(":")
    reports = [build.build(rundir.find(args.runs, name)) for name in (run_a, run_b)]
    found = why.why(reports[0], reports[1], case_a or None, case_b or None)
    if args.json:
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    else:
        sys.stdout.write(why.text(found))
    return OK


def _side(args: argparse.Namespace, name: str) -> Side:
    """A run, or one case of it: `:` ends the name of the run."""
    from trainmark.report.build import build
    from trainmark.report.compare import Side

    run_name, colon, case = name.partition(":")
    if colon and (Path(name) / rundir.MANIFEST).is_file():
        run_name, case = name, ""
    run = rundir.find(args.runs, run_name)
    manifest = run.manifest()
    identity = None
    if case:
        known = {plan.case: plan.id.identity for plan in manifest.plan.cases}
        found = [known[case]] if case in known else [known[one] for one in known if one.startswith(case)]
        if len(found) != 1:
            raise UserError(
                f"{name}: {'several cases begin' if found else 'no case begins'} with `{case}`"
                f"{did_you_mean(case, known)}; {run.id} has {one_of(known)}"
            )
        identity = found[0]
    return Side(build(run), manifest, identity)


def text(found: Comparison) -> str:
    margin, threshold = 100 * found.margin, 100 * found.threshold
    lines = [f"A  {found.a}", f"B  {found.b}", f"{found.metric}, margin ±{margin:g} %, threshold {threshold:g} %", ""]
    if found.cases:
        lines.append(table([_row(one) for one in found.cases]))
    for one in found.cases:
        lines += [f"{_name(one)}:", *(f"  {remark}" for remark in _remarks(one, found)), ""]
    if found.left:
        lines += ["not compared:", *(f"  {left.case}: {left.reason}" for left in found.left), ""]
    if found.notes:
        lines += ["A and B were not made alike:", *(f"  {note}" for note in found.notes), ""]
    return "\n".join([*lines, _overall(found)]) + "\n"


def _row(one: Compared) -> dict[str, str]:
    verdict = one.verdict
    return {
        "case": _name(one),
        "A": f"{one.a:,.4g}",
        "B": f"{one.b:,.4g}",
        "unit": one.unit,
        "B ÷ A": _ratio(verdict),
        "runs": f"{verdict.n_a}/{verdict.n_b}",
        "verdict": verdict.word,
        "needed": str(verdict.needed) if verdict.needed else "–",
    }


def _name(one: Compared) -> str:
    return one.case_a if one.case_a == one.case_b else f"{one.case_a} → {one.case_b}"


def _ratio(verdict: Verdict) -> str:
    interval = "" if verdict.ci_low is None else f" ({verdict.ci_low:.3f} … {verdict.ci_high:.3f})"
    return f"{verdict.ratio:.3f}{interval}"


def _remarks(one: Compared, found: Comparison) -> list[str]:
    remarks = [f"{one.verdict.reason} ({one.verdict.method})", *one.notes]
    if one.verdict.past_threshold:
        remarks.insert(0, f"lost more than {100 * found.threshold:g} %")
    return remarks


def _overall(found: Comparison) -> str:
    overall = found.overall
    said = f"overall: {overall.word}"
    if overall.verdict is not None:
        said += f", {overall.verdict.method} {_ratio(overall.verdict)}, {overall.verdict.reason}"
    return said + (f"\n  without a result on one side: {', '.join(overall.missing)}" if overall.missing else "")
