"""The result in plain text: for the terminal and `results.txt`."""

from __future__ import annotations

from trainmark.automl.experiment.result import Result
from trainmark.automl.experiment.score import Point
from trainmark.report import numbers
from trainmark.report.i18n.speaker import say

_MOST_ROWS = 40


def render(result: Result) -> str:
    """What is said, in the order people ask: does it count, what is it, how did it come about."""
    lines = [f"experiment {result.run}  {result.state}  rules {result.rules}: {result.rules_title}", ""]
    if result.valid:
        lines.append("VALID: every rule was met")
    else:
        lines.append("NOT VALID: " + ("; ".join(map(say, result.reasons)) or "no epoch was done to its end"))
    lines += [f"  {_mark(one.met)} {one.rule}: {say(one.found)} (wanted: {say(one.wanted)})" for one in result.verdicts]
    lines += [""]
    lines.append(f"score            {numbers.quantity(result.score, 'FLOPS')}  ({result.flops_rules} operations)")
    lines.append(f"regulated score  {numbers.quantity(result.regulated, 'FLOPS')}")
    lines.append(f"error            {100 * result.error:.2f} %  (best accuracy {100 * result.accuracy:.2f} %)")
    lines.append(
        f"work             {numbers.quantity(result.flops, 'FLOP')} in {result.epochs} epochs of "
        f"{len(result.trials)} trials, {numbers.quantity(result.seconds, 's')}"
    )
    if result.busy is not None:
        lines.append(f"workers          {100 * result.busy:.1f} % of their time in epochs that were done to their end")
    if result.gaps:
        gaps = result.gaps
        lines.append(
            f"gaps             {gaps.count}, {gaps.mean:.3f} s on average, {gaps.longest:.3f} s at most, "
            f"{gaps.late} longer than 1 % of the trial (0.3 s for trials under 30 s)"
        )
    lines += [f"note: {say(remark)}" for remark in result.remarks]
    if result.curve:
        lines += ["", f"{'time (h)':>10} {'error (%)':>10} {'PFLOPS':>14} {'score (PFLOPS)':>16}"]
        lines += [_row(point) for point in thinned(result.curve)]
    return "\n".join(lines) + "\n"


def _row(point: Point) -> str:
    peta, regulated = point.score / 1e15, point.regulated / 1e15
    return f"{point.seconds / 3600:>10.4f} {100 * point.error:>10.2f} {peta:>14.6g} {regulated:>16.6g}"


def thinned(curve: list[Point]) -> list[Point]:
    every = max(1, -(-len(curve) // _MOST_ROWS))
    kept = curve[every - 1 :: every]
    return kept if kept and kept[-1] is curve[-1] else [*kept, curve[-1]]


def _mark(met: bool | None) -> str:
    return {True: "+", False: "-", None: "?"}[met]
