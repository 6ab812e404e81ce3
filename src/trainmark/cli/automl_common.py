"""What the verbs of an experiment share."""

from __future__ import annotations

import argparse

from trainmark.automl.experiment import plan as plans
from trainmark.automl.experiment import record, result
from trainmark.automl.experiment.config import Experiment
from trainmark.automl.experiment.result import Result
from trainmark.cli import common
from trainmark.plan.records import Plan
from trainmark.report.build import present_state
from trainmark.run import session
from trainmark.store.rundir import RunDir


def find(args: argparse.Namespace) -> tuple[RunDir, Plan, Experiment]:
    """The run that is meant; UserError when it is no experiment."""
    run = common.find_run(args)
    plan = run.manifest().plan
    return run, plan, plans.experiment_of(plan)


def look(run: RunDir, plan: Plan, experiment: Experiment) -> Result:
    """How the experiment stands, from its record alone."""
    state = present_state(run, session.state_of(run, plan))
    return result.build(run.id, str(state), experiment, record.read(run))
