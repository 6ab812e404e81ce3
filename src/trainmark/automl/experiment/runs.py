"""An experiment as a run: made, driven, looked at, its results and its best network written to files."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trainmark import extras
from trainmark.automl.experiment import plan as plans
from trainmark.automl.experiment import record, result
from trainmark.automl.experiment.clock import Clock
from trainmark.automl.experiment.config import SYNTHETIC, Experiment
from trainmark.automl.experiment.reading import check_rules, load
from trainmark.automl.experiment.result import Result, TrialRow
from trainmark.automl.experiment.supervisor import Supervisor
from trainmark.automl.graph.graph import Graph
from trainmark.automl.ledger import server
from trainmark.automl.ledger.ledger import open_ledger
from trainmark.automl.ledger.storage import connect
from trainmark.automl.search.generator import limits_of, start_models
from trainmark.errors import UserError
from trainmark.i18n.speaker import say
from trainmark.launch.protocol import Ended, launcher_of
from trainmark.plan.records import CasePlan, Plan, RoundRef
from trainmark.reasons import Reason, reason
from trainmark.report.records import Experiment as Scored
from trainmark.run import control, planning, session
from trainmark.run.campaign import Companion
from trainmark.run.observers import Observer
from trainmark.run.preflight import unmet, unmet_elsewhere
from trainmark.run.progress import duration
from trainmark.spec.site import Site
from trainmark.spec.states import JobState
from trainmark.store import rundir
from trainmark.store.rundir import RunDir
from trainmark.store.state import RunState

if TYPE_CHECKING:
    from trainmark.automl.experiment.monitoring import Series
    from trainmark.report.document import Document

FOLDER = "automl"
_FAILED = (JobState.FAILED, JobState.LOST, JobState.TIMEOUT, JobState.INVALID)
SUCCEED, FAILED = "Report_Succeed.html", "Report_Failed.html"
# Experiments of ours, by name.
DEMOS = {
    name: Path(__file__).resolve().parents[1] / "demo" / file
    for name, file in (("demo", "experiment.yaml"), ("demo-vit", "vit.yaml"), ("demo-text", "text.yaml"))
}
# Logs of a run: everything that is text. Checkpoints and weights stay where they are.
_LOGS = ("run.log", "journal.jsonl", "manifest.json", "automl/ledger.log", "automl/graphs/*.json")
_NODE_LOGS = ("*.out.log", "agent.log", "result.json", "facts.json", "events.jsonl", "samples.jsonl")


def read(path: Path, rules: str | None = None) -> tuple[Experiment, list[str]]:
    """An experiment of ours, one of the demos by its name, or AAH's, translated, and what was changed. `rules`: another
    rule set than the file says."""
    from trainmark.automl.aah import config as aah

    if str(path) in DEMOS and not path.exists():
        path = DEMOS[str(path)]
    if aah.is_theirs(path):
        experiment, notes = aah.read(path)
        return (aah.with_rules(experiment, rules) if rules else experiment), notes
    experiment = load(path)
    return (msgspec.structs.replace(experiment, rules=rules) if rules else experiment), []


def create(
    experiment: Experiment,
    site: Site,
    runs: Path,
    *,
    check: bool = True,
    command: Sequence[str] = (),
    folder: Path | None = None,
) -> RunDir:
    """A new experiment, whose clock begins with its first training step. Everything is looked at before anything is
    written."""
    extras.need("automl", "an AutoML experiment", "optuna")
    plan = make_plan(experiment, site)
    launcher = launcher_of(site)
    launcher.check_runs(site, runs)
    if check or launcher.this_machine:
        launcher.check_plan(plan)
    if experiment.ledger:
        # Better found out now than by all workers.
        connect(experiment.ledger)
    if not launcher.shared_folder and len(site.hosts) > 1 and not site.shared_dir:
        raise UserError(
            f"site {site.name}: workers on {len(site.hosts)} hosts need `shared_dir`, a folder that all of them see: a "
            "network inherits the weights of its parent, which may have been trained on another host"
        )
    run = rundir.create(runs.resolve(), plan.suite)
    where = _places(experiment, site, run)
    plan = plans.at_home(plan, experiment, start_models(experiment), run.id, *where)
    session.describe(run, plan, command, folder)
    return run


def make_plan(experiment: Experiment, site: Site) -> Plan:
    """Start models, options and data are looked at, too, and whether its score could ever be valid."""
    from trainmark.automl.search import policy

    check_rules(experiment)
    policy.make(experiment.policy, start_models(experiment), limits_of(experiment), experiment.policy_options)
    names = {experiment.data} - {SYNTHETIC}
    plan = plans.make(experiment, site, planning.places(site, names))
    missing = (unmet if launcher_of(site).this_machine else unmet_elsewhere)(plan.cases[0])
    if missing:
        raise UserError(say(missing))
    return plan


def _places(experiment: Experiment, site: Site, run: RunDir) -> tuple[str, str]:
    """The workers' folder, and their ledger's URL. Where they do not see the run's, the site may name one."""
    if launcher_of(site).shared_folder:
        home = str(run.path / FOLDER)
        return home, experiment.ledger or f"journal:{home}/ledger.log"
    home = f"{site.shared_dir}/trainmark-{FOLDER}/{run.id}" if site.shared_dir else ""
    return home, experiment.ledger or f"grpc://127.0.0.1:{server.free_port()}"


class _Supervised(Companion):
    """The supervisor, and the ledger's tunnels, which have to be looked after while workers need them."""

    def __init__(self, supervisor: Supervisor, tend: Callable[[], None]) -> None:
        self._supervisor, self._tend = supervisor, tend

    def ended(self, case: CasePlan, ref: RoundRef, ended: Ended) -> None:
        self._supervisor.ended(case, ref, ended)

    def ending(self) -> Reason | None:
        self._tend()
        return self._supervisor.ending()


@contextmanager
def companion(run: RunDir, plan: Plan, observer: Observer) -> Iterator[Companion]:
    """Until the experiment is over: its time is up, or all its trials are done."""
    experiment = plans.experiment_of(plan)
    working = {int(plan.cases[ref.case].params["slot"]) for ref, _ in session.state_of(run, plan).open_attempts()}
    with server.served(run, plan, observer.note) as (ledger, tend):
        supervisor = Supervisor(
            experiment,
            Clock(experiment, ledger, plan.cases[0].params),
            ledger,
            len(plan.cases),
            working,
            observer.note,
        )
        yield _Supervised(supervisor, tend)


def nothing_left(run: RunDir) -> str:
    """Why an experiment that is resumed has nothing left to do; empty when it has."""
    plan = run.manifest().plan
    experiment = plans.experiment_of(plan)
    ledger = open_ledger(server.url_here(run, plan), run.id)
    over = Clock(experiment, ledger, plan.cases[0].params).over()
    if session.nothing_left(run, plan) or (over and not session.state_of(run, plan).open_attempts()):
        return f"its time of {experiment.max_duration} is up" if over else "all trials are done"
    return ""


def look(run: RunDir, reader: record.Reader | None = None) -> Result:
    """How the experiment stands, from its record alone. `reader`: of an earlier look, which has read most of it."""
    plan = run.manifest().plan
    experiment = plans.experiment_of(plan)
    replayed = session.state_of(run, plan)
    state = control.state_of(run, replayed)
    found = result.build(run.id, str(state), experiment, (reader or record.Reader(run)).read())
    return msgspec.structs.replace(found, remarks=[*found.remarks, *_failed_workers(plan, replayed)])


def scored(run: RunDir) -> Scored:
    """What the run's report says of the experiment as a whole."""
    return result.summary(look(run), plans.experiment_of(run.manifest().plan))


def _failed_workers(plan: Plan, state: RunState) -> list[Reason]:
    """Workers that were lost or crashed, with their hosts, and why the last time: the score has suffered by it."""
    found = []
    for ref, known in state.rounds.items():
        failed = [attempt for attempt in known.attempts if attempt.state in _FAILED]
        if failed:
            case = plan.cases[ref.case]
            where = ", ".join(node.host for node in case.nodes if node.host) or "–"
            why = failed[-1].reason or reason("automl-no-reason")
            slot = int(case.params["slot"])
            found.append(reason("automl-worker-failed", worker=slot, hosts=where, count=len(failed), why=why))
    return found


def check_reportable(found: Result, least: float) -> None:
    """A report of one that runs needs something to tell; `least`: seconds after which its rule set reports."""
    if found.state != "RUNNING":
        return
    so_far = time.time() - found.start if found.start is not None else 0.0
    if found.start is None or so_far < least:
        left = "a first epoch" if so_far >= least else duration(least - so_far)
        raise UserError(
            f"experiment {found.run} has run for {duration(so_far)}; rule set `{found.rules}` reports after "
            f"{duration(least)}: wait for {left}"
        )


def write_results(run: RunDir, found: Result, out: Path, language: str | None = None) -> Path:
    """The page, `results.txt` and `results.json`. A page of an earlier verdict does not stay beside it."""
    return write_page(found, out, _monitored(run, found), _best_graph(run, found), language)


def document_of(run: RunDir, found: Result) -> Document:
    """The page as a document, with its charts and the best network."""
    from trainmark.automl.experiment.document import document

    return document(found, _monitored(run, found), _best_graph(run, found))


def _monitored(run: RunDir, found: Result) -> list[Series]:
    from trainmark.automl.experiment import monitoring

    return monitoring.read(run, found.start, found.seconds) if found.start is not None else []


def write_page(
    found: Result, out: Path, nodes: Sequence[Series] = (), best: Graph | None = None, language: str | None = None
) -> Path:
    from trainmark.automl.experiment.document import document
    from trainmark.report.show import show

    out.mkdir(parents=True, exist_ok=True)
    page, other = (SUCCEED, FAILED) if found.valid else (FAILED, SUCCEED)
    (out / other).unlink(missing_ok=True)
    (out / page).write_text(show(document(found, nodes, best), "html", language), encoding="utf-8")
    (out / "results.txt").write_text(show(document(found)), encoding="utf-8")
    (out / "results.json").write_text(show(found, "json"), encoding="utf-8")
    return out / page


def _best_graph(run: RunDir, found: Result) -> Graph | None:
    """None where it lies on the hosts, or cannot be read."""
    from trainmark.automl.graph.graph_json import decode

    best = next((trial for trial in found.trials if trial.number == found.best), None)
    if best is None:
        return None
    file = run.path / FOLDER / "graphs" / f"{best.file}.json"
    try:
        return decode(file.read_bytes(), str(file))
    except (OSError, UserError):
        return None


def gather_logs(run: RunDir, target: Path) -> None:
    """Copies logs, each to where it was in the run's folder."""
    files = [path for pattern in _LOGS for path in run.path.glob(pattern)]
    files += [path for pattern in _NODE_LOGS for path in run.path.glob(f"*/round*/attempt*/*/{pattern}")]
    for path in files:
        place = target / path.relative_to(run.path)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)


def save_network(run: RunDir, number: int | None, out: Path) -> tuple[Result, TrialRow]:
    """The network of a trial, of the best without a number: `model.py` and `weights.pt`, which need torch alone,
    `graph.json` and `trial.json`."""
    from trainmark.automl.graph import network
    from trainmark.automl.ledger.files import TrialFiles

    plan, found = run.manifest().plan, look(run)
    number = found.best if number is None else number
    trial = next((one for one in found.trials if one.number == number), None)
    if trial is None or trial.accuracy is None:
        raise UserError(f"experiment {run.id} has no trial {number if number is not None else ''} with an accuracy yet")
    files = TrialFiles(run.path / FOLDER)
    entry = open_ledger(server.url_here(run, plan), run.id).entries()[trial.number]
    weights = files.weights(trial.number)
    if weights is None and not launcher_of(plan.site).shared_folder:
        home = plan.cases[0].params["home"] or "their own checkpoint folders"
        raise UserError(f"the weights of trial {trial.number} are on the hosts, in {home}: copy them from there")
    if weights is None:
        most = plans.experiment_of(plan).keep_weights
        raise UserError(f"the weights of trial {trial.number} are not kept, only those of the best {most}")
    network.save(files.graph(entry.file, entry.graph), weights, out)
    (out / "trial.json").write_bytes(msgspec.json.encode(trial) + b"\n")
    return found, trial
