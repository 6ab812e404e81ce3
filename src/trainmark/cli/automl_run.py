"""`trainmark automl run`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import msgspec

from trainmark.automl.experiment import plan as plans
from trainmark.automl.experiment.config import SYNTHETIC, Experiment
from trainmark.automl.experiment.reading import load, to_yaml
from trainmark.automl.experiment.rules import RULES
from trainmark.automl.ledger import server
from trainmark.automl.ledger.storage import connect
from trainmark.automl.search.generator import limits_of, start_models
from trainmark.cli import common, drive
from trainmark.errors import UserError
from trainmark.launch.protocol import launcher_of
from trainmark.plan.records import Plan
from trainmark.run import planning, session
from trainmark.run.preflight import unmet, unmet_elsewhere
from trainmark.spec.site import Site
from trainmark.store import rundir
from trainmark.store.rundir import RunDir

FOLDER = "automl"
_DEMO = Path(plans.__file__).parent / "demo" / "experiment.yaml"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "experiment", type=Path, metavar="FILE", help="an experiment, a config.yml of AAH or AIPerf, or `demo`"
    )
    parser.add_argument("--site", type=Path, metavar="FILE", help="where to run (default: this machine)")
    parser.add_argument("--show", action="store_true", help="print the experiment as YAML and what was changed; no run")
    parser.add_argument("--rules", choices=sorted(RULES), help="score by another rule set than the file says")
    parser.add_argument("--no-check", action="store_true", help="do not look at the site's hosts before the start")
    common.add_runs(parser)
    drive.add_options(parser)


def call(args: argparse.Namespace) -> int:
    experiment = read(args.experiment, args.rules)
    if args.show:
        sys.stdout.write(to_yaml(experiment))
        return 0
    site = common.load_site(args)
    plan = make_plan(experiment, site)
    launcher = launcher_of(site)
    launcher.check_runs(site, args.runs)
    if not launcher.this_machine and not args.no_check:
        planning.check_hosts(plan)
    if experiment.ledger:
        # Better found out now than by all workers.
        connect(experiment.ledger)
    if not launcher.shared_folder and experiment.slot.nodes > 1 and not site.shared_dir:
        raise UserError("slot.nodes: workers of several nodes need `shared_dir` in the site, for their checkpoints")
    run = rundir.create(args.runs.resolve(), plan.suite)
    until = time.time() + experiment.seconds
    start = start_models(experiment)
    plan = plans.at_home(plan, experiment, start, run.id, *_places(experiment, site, run), until)
    session.describe(run, plan, drive.command(args), Path.cwd())
    sys.stderr.write(f"experiment {run.id}: {plan.width} workers, {experiment.max_duration} at most\n")
    return drive.drive(run, plan, args)


def _places(experiment: Experiment, site: Site, run: RunDir) -> tuple[str, str]:
    """The workers' folder, and their ledger's URL. Where they do not see the run's, the site may name one."""
    if launcher_of(site).shared_folder:
        home = str(run.path / FOLDER)
        return home, experiment.ledger or f"journal:{home}/ledger.log"
    home = f"{site.shared_dir}/trainmark-{FOLDER}/{run.id}" if site.shared_dir else ""
    return home, experiment.ledger or f"grpc://127.0.0.1:{server.free_port()}"


def read(path: Path, rules: str | None) -> Experiment:
    """An experiment of ours, or AAH's, translated; what was changed is told on standard error."""
    from trainmark.automl.aah import config as aah

    if str(path) == "demo" and not path.exists():
        path = _DEMO
    if aah.is_theirs(path):
        experiment, notes = aah.read(path)
        for note in notes:
            sys.stderr.write(f"{path}: {note}\n")
        return aah.with_rules(experiment, rules) if rules else experiment
    experiment = load(path)
    return msgspec.structs.replace(experiment, rules=rules) if rules else experiment


def make_plan(experiment: Experiment, site: Site) -> Plan:
    """Everything is looked at before anything is started: start models, options, data."""
    from trainmark.automl.search import policy

    policy.make(experiment.policy, start_models(experiment), limits_of(experiment), experiment.policy_options)
    names = {experiment.data} - {SYNTHETIC}
    plan = plans.make(experiment, site, planning.places(site, names))
    missing = (unmet if launcher_of(site).this_machine else unmet_elsewhere)(plan.cases[0])
    if missing:
        raise UserError(missing)
    return plan
