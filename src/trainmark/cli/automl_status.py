"""`trainmark automl status`."""

from __future__ import annotations

import argparse
import sys

import msgspec

from trainmark.cli import automl_common, automl_top, common
from trainmark.cli.list import table
from trainmark.cli.status import rounds, run_state
from trainmark.run import session


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    parser.add_argument("--json", action="store_true", help="print as JSON")


def call(args: argparse.Namespace) -> int:
    run, plan, experiment = automl_common.find(args)
    state = session.state_of(run, plan)
    found = automl_common.look(run, plan, experiment)
    workers = rounds(run, state)
    if args.json:
        told = {"run": run.id, "state": run_state(run, state), "workers": workers, "trials": found.trials}
        sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")
        return 0
    lines = automl_top.head(found, plan.site.name)
    sys.stdout.write("\n".join(lines) + f"\n{run_state(run, state)}\n\n" + table(workers))
    return 0
