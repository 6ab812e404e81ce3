"""`trainmark automl run` and `resume`: driving an experiment."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path
from typing import IO

from trainmark.automl.experiment import runs
from trainmark.automl.experiment.config import Experiment
from trainmark.automl.experiment.document import document
from trainmark.automl.experiment.plan import experiment_of
from trainmark.automl.experiment.reading import to_yaml
from trainmark.automl.experiment.rules import RULES
from trainmark.cli import common, drive, terminal
from trainmark.cli.plan import text as plan_text
from trainmark.errors import CASE_FAILED, OK
from trainmark.i18n.speaker import say
from trainmark.launch.protocol import Ended
from trainmark.plan.records import CasePlan, RoundRef
from trainmark.reasons import Reason
from trainmark.report import show as reports
from trainmark.report.render.escape import clean
from trainmark.run.observers import Observer
from trainmark.store.rundir import RunDir

EPILOGS = {
    "resume": """\
Workers that still train are followed, others are started again, and every trial goes on from its last epoch. The clock
of the experiment does not stop in between: what is left of its time is what is left.
"""
}


def configure_plan(parser: argparse.ArgumentParser) -> None:
    _configure_experiment(parser)
    parser.add_argument("--json", action="store_true", help="print the whole plan as JSON")


def plan(args: argparse.Namespace) -> int:
    """Nothing is written and nothing started; what `run` refuses is refused here, too."""
    experiment = _read(args)
    made = runs.make_plan(experiment, common.load_site(args))
    if args.json:
        terminal.json(made, indent=1)
        return OK
    shape = experiment.slot
    terminal.tell(
        f"experiment {experiment.name}: {made.width} workers of {shape.nodes} node(s) × {shape.devices} device(s), "
        f"{len(made.cases)} place(s) for them\n"
        f"rules {experiment.rules}, at most {experiment.max_trials} trials and {experiment.max_duration} from the "
        "first training step on\n\n" + plan_text(made, drawn=False)
    )
    return OK


def _configure_experiment(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "experiment",
        type=Path,
        metavar="FILE",
        help="an experiment, a config.yml of AAH or AIPerf, `demo`, `demo-vit` or `demo-text`",
    )
    parser.add_argument("--site", type=Path, metavar="FILE", help="where to run (default: this machine)")
    parser.add_argument("--rules", choices=sorted(RULES), help="score by another rule set than the file says")


def _read(args: argparse.Namespace) -> Experiment:
    experiment, notes = runs.read(args.experiment, args.rules)
    for note in notes:
        terminal.err(f"{args.experiment}: {note}\n")
    return experiment


def configure_run(parser: argparse.ArgumentParser) -> None:
    _configure_experiment(parser)
    parser.add_argument("--show", action="store_true", help="print the experiment as YAML and what was changed; no run")
    common.add_no_check(parser)
    common.add_runs(parser)
    drive.add_options(parser)


def run(args: argparse.Namespace) -> int:
    experiment = _read(args)
    if args.show:
        terminal.out(to_yaml(experiment))
        return OK
    made = runs.create(
        experiment,
        common.load_site(args),
        args.runs,
        check=not args.no_check,
        command=drive.command(args),
        folder=Path.cwd(),
    )
    planned = made.manifest().plan
    terminal.err(f"experiment {made.id}: {planned.width} workers, {experiment.max_duration} at most\n")
    return drive.drive(made, planned, args)


def configure_resume(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    drive.add_options(parser)


def resume(args: argparse.Namespace) -> int:
    found = common.find_run(args, own=True)
    planned = found.manifest().plan
    experiment_of(planned)  # refuses any other run
    why = runs.nothing_left(found)
    if why:
        terminal.err(f"experiment {found.id} has nothing left to do: {why}\n")
    return drive.drive(found, planned, args)


def show(run: RunDir, args: argparse.Namespace) -> int:
    """The end of an experiment: as `automl report`, whenever it ended. 1 where the score does not count."""
    found = runs.look(run)
    page = runs.write_results(run, found, run.path / "results")
    if args.json:
        terminal.out(reports.show(found, "json-line"))
    else:
        terminal.out("\n" + reports.show(document(found), "text", args.language) + f"\n{page}\n")
    return OK if found.valid else CASE_FAILED


class Progress(Observer):
    """A line whenever a worker comes or goes, and what the supervisor says. A lost terminal is no reason to end an
    experiment."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out

    def started(self, case: CasePlan, _ref: RoundRef, attempt: int) -> None:
        again = f", attempt {attempt}" if attempt > 1 else ""
        hosts = ", ".join(node.host or "any node" for node in case.nodes)
        self._write(f"worker {case.params['slot']} starts on {hosts}{again}")

    def ended(self, case: CasePlan, _ref: RoundRef, ended: Ended) -> None:
        self._write(f"worker {case.params['slot']}: {ended.state}" + (f": {say(ended.reason)}" if ended.reason else ""))
        last = (ended.failure or {}).get("last_lines") or []
        if last:
            self._write(f"  its last line: {last[-1]}")

    def note(self, note: Reason) -> None:
        self._write(say(note))

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._out.write(clean(text) + "\n")
            self._out.flush()
