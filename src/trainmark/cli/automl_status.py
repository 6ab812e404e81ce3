"""`trainmark automl status`."""

from __future__ import annotations

import argparse
import sys

import msgspec

from trainmark.cli import automl_common, automl_top, common
from trainmark.cli.list import table
from trainmark.cli.status import rows, shown_state
from trainmark.run import control


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    parser.add_argument("--json", action="store_true", help="print as JSON")


def call(args: argparse.Namespace) -> int:
    run, plan, experiment = automl_common.find(args)
    status = control.status(run)
    found = automl_common.look(run, plan, experiment)
    workers, state = rows(status), shown_state(run, status)
    if args.json:
        told = {"run": run.id, "state": state, "workers": workers, "trials": found.trials}
        sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")
        return 0
    lines = automl_top.head(found, plan.site.name)
    sys.stdout.write("\n".join(lines) + f"\n{state}\n\n" + table(workers))
    return 0
