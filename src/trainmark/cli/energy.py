"""`trainmark energy`: what a run drew, by device, node and round."""

from __future__ import annotations

import argparse
import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trainmark.cli import common, terminal
from trainmark.cli.list import table
from trainmark.errors import UserError

if TYPE_CHECKING:
    from trainmark.report.make.energy import Ask, Row

EPILOG = """\
examples:
  trainmark energy last                                             what devices and processors drew
  trainmark energy last --carbon 380                                and the CO2 at 380 g for a kWh
  trainmark energy last --meter plug.csv                            beside what a meter read (time, watts[, host])
  trainmark energy last --prometheus http://mon:9090 --query 'pdu_watts{rack="3"}'
"""


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    parser.add_argument("--carbon", type=float, metavar="G", help="grams of CO2 for a kWh of the site's current")
    parser.add_argument("--meter", type=Path, metavar="CSV", help="readings of an external meter: time, watts, host")
    parser.add_argument("--prometheus", metavar="URL", help="a Prometheus server that has a meter's readings")
    parser.add_argument("--query", metavar="PROMQL", help="what to ask it for: watts, by host")
    parser.add_argument("--json", action="store_true", help="print as JSON")


def call(args: argparse.Namespace) -> int:
    from trainmark.report.make import energy

    if args.carbon is not None and not 0 <= args.carbon < math.inf:
        raise UserError(f"--carbon: found {args.carbon}, allowed is a number from 0")
    rows = energy.rows(common.find_run(args), _ask(args), args.carbon)
    if args.json:
        terminal.json(msgspec.to_builtins(rows))
    elif rows:
        terminal.out(table([_shown(row, args.carbon is not None) for row in rows]))
    else:
        terminal.out("nothing in this run tells of energy: no RAPL, no device, no board; `--meter` adds a meter's\n")
    return 0


def _ask(args: argparse.Namespace) -> Ask | None:
    from trainmark.report import meters

    if args.meter is not None and args.prometheus is not None:
        raise UserError("--meter and --prometheus: one meter at a time")
    if args.meter is not None:
        read = meters.read_csv(args.meter)
        return lambda _begin, _end: read
    if args.prometheus is not None:
        if not args.query:
            raise UserError("--prometheus needs --query: what to ask it for")
        return partial(meters.ask_prometheus, args.prometheus, args.query)
    return None


def _shown(row: Row, carbon: bool) -> dict[str, str]:
    one = msgspec.to_builtins(row)
    gaps = f", {one['gaps']} gaps" if one["gaps"] else ""
    rate = "–" if one["rate"] is None else f"{one['rate']:.2g} Hz"
    shown = {
        "round": f"{one['case']} {one['round']}",
        "over": one["over"],
        "host": one["host"],
        "part": one["part"],
        "joules": f"{one['joules']:.1f}",
        "mean W": f"{one['mean_w']:.1f}",
        "max W": "–" if one["max_w"] is None else f"{one['max_w']:.1f}",
        "by": f"{one['way']}, {rate}",
        "covered": f"{100 * one['coverage']:.1f} %{gaps}",
    }
    return {**shown, "CO2 g": f"{one['carbon_g']:.3f}"} if carbon else shown
