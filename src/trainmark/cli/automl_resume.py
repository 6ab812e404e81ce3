"""`trainmark automl resume`."""

from __future__ import annotations

import argparse
import sys
import time

from trainmark.cli import automl_common, common, drive
from trainmark.run import session

EPILOG = """\
Workers that still train are followed, others are started again, and every trial goes on from its last epoch. The clock
of the experiment does not stop in between: what is left of its time is what is left.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    drive.add_options(parser)


def call(args: argparse.Namespace) -> int:
    run, plan, experiment = automl_common.find(args)
    over = time.time() >= float(plan.cases[0].params["until"])
    if session.nothing_left(run, plan) or (over and not session.state_of(run, plan).open_attempts()):
        what = f"its time of {experiment.max_duration} is up" if over else "all trials are done"
        sys.stderr.write(f"experiment {run.id} has nothing left to do: {what}\n")
    return drive.drive(run, plan, args)
