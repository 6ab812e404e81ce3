"""Driving an experiment: the loop, with the supervisor watching it and the ledger at hand."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from trainmark.automl.experiment import plan as plans
from trainmark.automl.experiment.config import Experiment
from trainmark.automl.experiment.supervisor import Supervisor
from trainmark.automl.ledger.ledger import Ledger
from trainmark.cli import automl_server, drive
from trainmark.errors import CASE_FAILED, OK
from trainmark.plan.records import Plan
from trainmark.run import session
from trainmark.run.observers import Observer, Observers
from trainmark.run.stop import StopSwitch
from trainmark.spec.states import JobState
from trainmark.store.rundir import RunDir


def go(run: RunDir, plan: Plan, args: argparse.Namespace) -> int:
    """The exit code is that of the loop, and 1 where the score does not count."""
    from trainmark.cli import automl_common, automl_report
    from trainmark.cli.automl_progress import Progress

    watch = Progress(sys.stderr if args.json else sys.stdout)
    code = drive.drive(
        run,
        plan,
        args,
        lambda observer, switch: work(run, plan, observer, switch),
        automl_report.show,
        watch,
        resume=("automl", "resume"),
    )
    if code == OK and not args.detach and not automl_common.look(run, plan, plans.experiment_of(plan)).valid:
        return CASE_FAILED
    return code


def work(run: RunDir, plan: Plan, observer: Observer, switch: StopSwitch) -> JobState:
    """Until the experiment is over: its time is up, or all its trials are done."""
    experiment = plans.experiment_of(plan)
    with automl_server.served(run, plan, observer.note) as (ledger, tend):
        return _work(run, plan, observer, switch, experiment, ledger, tend)


def _work(
    run: RunDir,
    plan: Plan,
    observer: Observer,
    switch: StopSwitch,
    experiment: Experiment,
    ledger: Ledger,
    tend: Callable[[], None],
) -> JobState:
    first = plan.cases[0].params
    open_ones = {int(plan.cases[ref.case].params["slot"]) for ref, _ in session.state_of(run, plan).open_attempts()}
    supervisor = Supervisor(experiment, ledger, float(first["until"]), len(plan.cases), open_ones, observer.note)

    def ending() -> str:
        tend()
        return supervisor.ending()

    return session.drive(run, plan, Observers(supervisor, observer), switch, ending=ending)
