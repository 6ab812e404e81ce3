"""`trainmark predict`: how fast more nodes would be, from what was measured on fewer."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trainmark.cli import common
from trainmark.cli.list import table
from trainmark.cli.report import write
from trainmark.errors import UserError
from trainmark.report import formats

if TYPE_CHECKING:
    from trainmark.report.border import Border
    from trainmark.report.study import Measured
    from trainmark.score.studies.predict import Prediction
    from trainmark.store.rundir import Manifest, RunDir

EPILOG = """\
examples:
  trainmark predict last --nodes 8                  every series of the newest run, on 8 nodes
  trainmark predict last --nodes 4 --nodes 128      two sizes
  trainmark predict last --nodes 2 --site my.yaml   no run on two nodes, but `trainmark peaks` of what lies between
  trainmark predict last --nodes 2 --all-reduce 0.03    the same by your own measurement: 30 ms a step
Only whole nodes are predicted, from a speed on at least two of them: what lies between nodes cannot be known from
inside of one. The interval is that of published tables; `benchmarks/predict.py` tells how often it held.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    parser.add_argument(
        "--nodes", type=int, action="append", required=True, metavar="N", help="how many nodes; may be given often"
    )
    parser.add_argument(
        "--all-reduce",
        type=float,
        metavar="SECONDS",
        help="measured time of an all-reduce of the gradients between two nodes, where no run on two nodes was made",
    )
    parser.add_argument(
        "--site",
        type=Path,
        metavar="FILE",
        help="take the peaks kept with this site; default: those that were kept when the run was planned",
    )
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write a page (.html), .json or text")


def call(args: argparse.Namespace) -> int:
    from trainmark.report.build import build
    from trainmark.report.study import measured

    for nodes in args.nodes:
        if nodes < 1:
            raise UserError(f"--nodes: found {nodes}, allowed is a whole number from 1")
    if args.all_reduce is not None and not 0 <= args.all_reduce < 1e6:
        raise UserError(f"--all-reduce: found {args.all_reduce:g}, allowed are seconds from 0")
    run = common.find_run(args)
    manifest = run.manifest()
    series = measured(manifest.plan.cases, build(run).cases)
    found: list[tuple[Measured, list[Prediction]]] = []
    refused: list[str] = []
    for one in series:
        try:
            crossing = _border(args, run, manifest, one)
            found.append((one, [_predict(one, nodes, crossing) for nodes in args.nodes]))
        except UserError as error:
            refused.append(f"{one.name}: {error}")
    if not found:
        raise UserError(f"{run.id}: " + ("; ".join(refused) or "no case has a speed"))
    kind = "json" if args.json else formats.chosen(None, args.output)
    if kind not in ("text", "html", "json"):
        raise UserError(f"--output {args.output}: a prediction is written as .html, .json or text")
    shown = _render(kind, run.id, found, refused)
    if args.output is None:
        sys.stdout.write(shown)
    else:
        write(args.output, shown)
    return 0


def _render(kind: str, run: str, found: list[tuple[Measured, list[Prediction]]], refused: list[str]) -> str:
    if kind == "html":
        from trainmark.report import predict_page

        return predict_page.render(run, found, refused)
    if kind == "json":
        rows = [{"series": one.name, "unit": one.unit, "predictions": told} for one, told in found]
        return msgspec.json.encode({"run": run, "series": rows, "refused": refused}).decode() + "\n"
    return _text(found, refused)


def _border(args: argparse.Namespace, run: RunDir, manifest: Manifest, one: Measured) -> Border | None:
    """What is known of the gradients between two nodes, where no speed on two nodes tells more."""
    from trainmark.report import border
    from trainmark.spec import peaks, site

    if any(point.nodes > 1 and point.speeds for point in one.points):
        return None
    if args.all_reduce is not None:
        return border.Border(args.all_reduce)
    if args.site is None:
        known = border.of_plan(manifest)
        return border.border(run, manifest, one, known) if known is not None and len(known.hosts) > 1 else None
    kept = site.peaks_file(args.site, os.uname().nodename)
    known = peaks.load(kept)
    if known is None:
        raise UserError(f"{kept}: nothing is kept yet; `trainmark peaks --site {args.site}` measures it")
    return border.border(run, manifest, one, known)


def _predict(one: Measured, nodes: int, crossing: Border | None) -> Prediction:
    from trainmark.score.studies.predict import predict

    if one.mode == "strong":
        raise UserError("the model is of weak scaling (a fixed batch per process), and this study is strong")
    found = predict(one.points, nodes, None if crossing is None else _share(one, crossing.seconds))
    source = [crossing.source] if crossing is not None and crossing.source else []
    return msgspec.structs.replace(found, notes=[*source, *found.notes])


def _share(one: Measured, seconds: float) -> float:
    """Of a step on one node, with as many processes as the largest such point has."""
    from trainmark.score.stats.verdict import geometric_mean

    single = [point for point in one.points if point.nodes == 1 and point.speeds]
    if not single or one.batch is None:
        raise UserError("an all-reduce alone needs a speed on one node and a `batch`, to know how long a step takes")
    largest = max(single, key=lambda point: point.procs)
    return seconds * geometric_mean(largest.speeds) / (one.batch * largest.procs)


def _text(found: list[tuple[Measured, list[Prediction]]], refused: list[str]) -> str:
    from trainmark.report.i18n.speaker import say

    parts = []
    for one, predictions in found:
        measured = ", ".join(f"{point.nodes}x{point.procs}" for point in one.points if point.speeds)
        rows = [_row(told, one.unit) for told in predictions]
        said = sorted({f"  {text}" for told in predictions for text in (say(told.method), *map(say, told.notes))})
        parts += [f"{one.name}  (measured: {measured})", table(rows).rstrip(), *said, ""]
    return "\n".join(parts + [f"not predicted: {text}" for text in refused]).rstrip() + "\n"


def _row(told: Prediction, unit: str) -> dict[str, str]:
    from trainmark.report.numbers import number

    return {
        "nodes x processes": f"{told.nodes}x{told.procs}",
        "predicted": f"{number(told.value)} {unit}",
        "90 % prediction interval": f"{number(told.low)} … {number(told.high)}",
        "efficiency": f"{100 * told.efficiency:.0f} %",
    }
