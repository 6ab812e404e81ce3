"""An experiment as a run: how it stands, and what goes on beside its rounds while it is driven."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from trainmark.automl.experiment import plan as plans
from trainmark.automl.experiment import record, result
from trainmark.automl.experiment.result import Result
from trainmark.automl.experiment.supervisor import Supervisor
from trainmark.automl.ledger import server
from trainmark.launch.protocol import Ended
from trainmark.plan.records import CasePlan, Plan, RoundRef
from trainmark.report.build import present_state
from trainmark.run import session
from trainmark.run.campaign import Companion
from trainmark.run.observers import Observer
from trainmark.store.rundir import RunDir


def look(run: RunDir) -> Result:
    """How the experiment stands, from its record alone."""
    plan = run.manifest().plan
    state = present_state(run, session.state_of(run, plan))
    return result.build(run.id, str(state), plans.experiment_of(plan), record.read(run))


class _Supervised(Companion):
    """The supervisor, and the ledger's tunnels, which have to be looked after while workers need them."""

    def __init__(self, supervisor: Supervisor, tend: Callable[[], None]) -> None:
        self._supervisor, self._tend = supervisor, tend

    def ended(self, case: CasePlan, ref: RoundRef, ended: Ended) -> None:
        self._supervisor.ended(case, ref, ended)

    def ending(self) -> str:
        self._tend()
        return self._supervisor.ending()


@contextmanager
def companion(run: RunDir, plan: Plan, observer: Observer) -> Iterator[Companion]:
    """Until the experiment is over: its time is up, or all its trials are done."""
    experiment = plans.experiment_of(plan)
    until = float(plan.cases[0].params["until"])
    working = {int(plan.cases[ref.case].params["slot"]) for ref, _ in session.state_of(run, plan).open_attempts()}
    with server.served(run, plan, observer.note) as (ledger, tend):
        supervisor = Supervisor(experiment, ledger, until, len(plan.cases), working, observer.note)
        yield _Supervised(supervisor, tend)
