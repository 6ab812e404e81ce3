"""`trainmark baseline`: the run that others are compared with, one for each set of hosts and suite."""

from __future__ import annotations

import argparse
import time

from trainmark.cli import common, terminal
from trainmark.cli.list import table
from trainmark.errors import UserError
from trainmark.spec.states import JobState
from trainmark.store import baselines, journal, rundir
from trainmark.store.baselines import Baseline
from trainmark.store.state import RunState

EPILOG = """\
examples:
  trainmark baseline set last            the newest run is what later runs on these hosts are compared with
  trainmark compare baseline last        is the newest run slower than the baseline of its hosts?
  trainmark baseline show                the baseline that the newest run would be compared with
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("set", "list", "show"))
    common.add_run(parser)
    parser.add_argument("--json", action="store_true", help="print as JSON")


def call(args: argparse.Namespace) -> int:
    if args.what == "list":
        if args.run is not None:
            raise UserError("baseline list takes no RUN; `show RUN` tells the baseline of one")
        _show(args, baselines.read(args.runs))
        return 0
    run = common.find_run(args)
    manifest = run.manifest()
    if args.what == "show":
        _show(args, [baselines.find(args.runs, manifest)])
        return 0
    if run.path.resolve().parent != args.runs.resolve():
        raise UserError(f"{run.path} does not lie in {args.runs}; name its folder with --runs")
    state = RunState.replay(manifest.plan, journal.read(run.path).records)
    if state.finished is not JobState.SUCCEEDED:
        found = state.finished or "not finished"
        raise UserError(f"{run.id} is {found}: only a run that succeeded can be a baseline")
    _show(args, [baselines.put(args.runs, manifest)])
    return 0


def _show(args: argparse.Namespace, found: list[Baseline]) -> None:
    if args.json:
        terminal.json(found)
        return
    known = set(rundir.run_ids(args.runs))
    rows = [
        {
            "hosts": ", ".join(one.hosts),
            "suite": one.suite,
            "run": one.run + ("" if one.run in known else " (gone)"),
            "set": time.strftime("%Y-%m-%d %H:%M", time.localtime(one.set_at / 1e9)),
        }
        for one in found
    ]
    terminal.out(table(rows) or terminal.said("no baselines\n"))
