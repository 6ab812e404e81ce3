"""`trainmark automl top` and `status`: the experiment, and its trials as `nnictl top` shows them."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from trainmark.automl.experiment.result import Result, TrialRow
from trainmark.cli import automl_common, common
from trainmark.cli.list import table
from trainmark.report import numbers
from trainmark.report.i18n.speaker import say
from trainmark.run.progress import duration

_MOST = 30


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    parser.add_argument("--once", action="store_true", help="print once and end (also when piped)")
    parser.add_argument("--seconds", type=float, default=3.0, metavar="S", help="time between two looks (default: 3)")


def call(args: argparse.Namespace) -> int:
    if args.once or not sys.stdout.isatty():
        sys.stdout.write(screen(args))
        return 0
    from rich.live import Live
    from rich.text import Text

    with Live(Text(screen(args)), screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(max(0.5, args.seconds))
            live.update(Text(screen(args)), refresh=True)


def screen(args: argparse.Namespace) -> str:
    run, plan, experiment = automl_common.find(args)
    found = automl_common.look(run, plan, experiment)
    trials = sorted(found.trials, key=lambda one: (one.end is not None, -one.begin))[:_MOST]
    return "\n".join([*head(found, plan.site.name), "", table([row(found, trial) for trial in trials])])


def head(found: Result, site: str) -> list[str]:
    started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(found.start)) if found.start else "–"
    length = time.time() - found.start if found.start and found.state == "RUNNING" else found.seconds
    running = sum(trial.state == "RUNNING" for trial in found.trials)
    return [
        f"experiment {found.run}   {found.state}   site {site}   started {started}   {duration(length)} of "
        f"{found.max_duration}",
        f"trials {len(found.trials)} ({running} running)   accuracy {100 * found.accuracy:.2f} %   "
        f"score {numbers.quantity(found.score, 'FLOPS')}   regulated {numbers.quantity(found.regulated, 'FLOPS')}",
    ]


def row(found: Result, trial: TrialRow) -> dict[str, Any]:
    def at(seconds: float | None) -> str:
        if seconds is None or found.start is None:
            return "–"
        return time.strftime("%H:%M:%S", time.localtime(found.start + seconds))

    return {
        "trial": trial.number,
        "start": at(trial.begin),
        "end": at(trial.end),
        "status": trial.state,
        "accuracy": "–" if trial.accuracy is None else f"{100 * trial.accuracy:.2f} %",
        "epochs": trial.epochs,
        "parent": "–" if trial.parent is None else trial.parent,
        "node": ", ".join(trial.hosts),
        "what": say(trial.why),
    }
