"""`trainmark automl status`, `top` (as `nnictl top` shows trials), `report` and `pack`: how an experiment stands."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from trainmark import api
from trainmark.automl.experiment import runs
from trainmark.automl.experiment.document import document
from trainmark.automl.experiment.plan import experiment_of
from trainmark.automl.experiment.record import Reader
from trainmark.automl.experiment.result import Result, TrialRow
from trainmark.cli import common, terminal
from trainmark.cli import pack as packing
from trainmark.cli.list import table
from trainmark.cli.status import rows, shown_state
from trainmark.errors import CASE_FAILED, OK
from trainmark.i18n.speaker import say
from trainmark.report import numbers
from trainmark.report import show as reports
from trainmark.report.render.escape import clean
from trainmark.run import control
from trainmark.run.progress import duration
from trainmark.store.rundir import RunDir

EPILOGS = {
    "report": """\
The page is called Report_Succeed.html when the score counts, else Report_Failed.html, with the reasons.
""",
    "pack": """\
The bundle holds the experiment, its record and ledger, all graphs, logs, the training code, and the results as of now;
weights stay here. `trainmark verify` recomputes the score from the record. docs/bundle.md describes the format.
""",
}
_MOST = 30


def configure_status(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    parser.add_argument("--json", action="store_true", help="print as JSON")


def status(args: argparse.Namespace) -> int:
    run = common.find_run(args)
    found, standing = runs.look(run), control.status(run)
    workers, state = rows(standing), shown_state(run, standing)
    if args.json:
        shown = {"run": run.id, "state": state, "workers": workers, "trials": found.trials}
        terminal.json(shown)
        return 0
    lines = _head(found, run.manifest().plan.site.name)
    terminal.out(terminal.said("\n".join(lines) + f"\n{state}\n\n") + table(workers))
    return 0


def configure_top(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    parser.add_argument("--once", action="store_true", help="print once and end (also when piped)")
    parser.add_argument("--seconds", type=float, default=3.0, metavar="S", help="time between two looks (default: 3)")


def top(args: argparse.Namespace) -> int:
    run = common.find_run(args)
    reader = Reader(run)
    if args.once or not sys.stdout.isatty():
        terminal.out(screen(run, reader))
        return 0
    from rich.live import Live
    from rich.text import Text

    with Live(Text(clean(screen(run, reader))), screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(max(0.5, args.seconds))
            live.update(Text(clean(screen(run, reader))), refresh=True)


def screen(run: RunDir, reader: Reader) -> str:
    found = runs.look(run, reader)
    trials = sorted(found.trials, key=lambda one: (one.end is not None, -one.begin))[:_MOST]
    head = _head(found, run.manifest().plan.site.name)
    return "\n".join([*head, "", table([_row(found, trial) for trial in trials])])


_REACHED = {"accuracy": "accuracy", "loss": "test loss"}


def _head(found: Result, site: str) -> list[str]:
    started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(found.start)) if found.start else "–"
    length = time.time() - found.start if found.start and found.state == "RUNNING" else found.seconds
    running = sum(trial.state == "RUNNING" for trial in found.trials)
    return [
        f"experiment {found.run}   {found.state}   site {site}   started {started}   {duration(length)} of "
        f"{found.max_duration}",
        f"trials {len(found.trials)} ({running} running)   {_REACHED[found.metric]} {found.shown(found.accuracy)}   "
        f"score {numbers.quantity(found.score, 'FLOPS')}   regulated {numbers.quantity(found.regulated, 'FLOPS')}",
    ]


def _row(found: Result, trial: TrialRow) -> dict[str, Any]:
    def at(seconds: float | None) -> str:
        if seconds is None or found.start is None:
            return "–"
        return time.strftime("%H:%M:%S", time.localtime(found.start + seconds))

    return {
        "trial": trial.number,
        "start": at(trial.begin),
        "end": at(trial.end),
        "status": trial.state,
        _REACHED[found.metric]: "–" if trial.accuracy is None else found.shown(trial.accuracy),
        "epochs": trial.epochs,
        "parent": "–" if trial.parent is None else trial.parent,
        "node": ", ".join(trial.hosts),
        "what": say(trial.why),
    }


def configure_report(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    parser.add_argument("--json", action="store_true", help="print as JSON")
    common.add_folder(parser, "where files are written (default: RUN/results)")
    parser.add_argument("--logs", action="store_true", help="also gather all logs into results/logs")


def report(args: argparse.Namespace) -> int:
    run = common.find_run(args)
    found = runs.look(run)
    runs.check_reportable(found, experiment_of(run.manifest().plan).rule_set.report_after)
    out = args.output or run.path / "results"
    page = runs.write_results(run, found, out, args.lang)
    if args.json:
        terminal.out(reports.show(found, "json-line"))
    else:
        terminal.out(reports.show(document(found), "text", args.language) + f"\n{page}\n")
    if args.logs:
        if found.state == "RUNNING":
            terminal.err("warning: the experiment still runs: copying its logs costs it disk and network\n")
        runs.gather_logs(run, out / "logs")
        terminal.err(f"logs are in {out / 'logs'}\n")
    return 0


def configure_pack(parser: argparse.ArgumentParser) -> None:
    packing.configure(parser)


def pack(args: argparse.Namespace) -> int:
    for name in args.run or ["last"]:
        run = api.open(name, args.runs).folder
        experiment_of(run.manifest().plan)  # refuses any other run
        runs.write_results(run, runs.look(run), run.path / "results", args.lang)
    return packing.call(args)


def configure_import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="with `hyperparameter_epoch`, or a `results/logs`")
    parser.add_argument("--nni", type=Path, metavar="DIR", help="with `trials`, the logs, if that is another folder")
    parser.add_argument("--rules", default="release", help="the rule set to judge by (default: release)")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    common.add_folder(parser, "where files are written (default: DIR/trainmark)")


def imported(args: argparse.Namespace) -> int:
    from trainmark.automl.aah import results

    found = results.read(args.folder, args.rules, args.nni)
    page = runs.write_page(found, args.output or args.folder / "trainmark", language=args.lang)
    if args.json:
        terminal.out(reports.show(found, "json-line"))
    else:
        terminal.out(reports.show(document(found), "text", args.language) + f"\n{page}\n")
    return OK if found.valid else CASE_FAILED
