"""`trainmark predict`: how fast more nodes would be, from what was measured on fewer."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from trainmark.cli import common
from trainmark.errors import UserError
from trainmark.report.show import format_of, show

if TYPE_CHECKING:
    pass

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
    from trainmark.report.make.predict import peaks_of_site, predict_run

    for nodes in args.nodes:
        if nodes < 1:
            raise UserError(f"--nodes: found {nodes}, allowed is a whole number from 1")
    if args.all_reduce is not None and not 0 <= args.all_reduce < 1e6:
        raise UserError(f"--all-reduce: found {args.all_reduce:g}, allowed are seconds from 0")
    kind = "json" if args.json else format_of(None, args.output)
    if kind == "csv":
        raise UserError(f"--output {args.output}: a prediction is written as .html, .md, .json or text")
    run = common.find_run(args)
    known = None if args.site is None else peaks_of_site(args.site)
    shown = show(
        predict_run(run, args.nodes, all_reduce=args.all_reduce, peaks=known), kind, common.language(kind, args)
    )
    common.write(shown, args.output)
    return 0
