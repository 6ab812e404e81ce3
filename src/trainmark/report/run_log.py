"""`run.log`: what a run's observers are told, as lines of text; and work that is recorded there."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from trainmark.errors import SiteError, UserError
from trainmark.i18n.speaker import say
from trainmark.i18n.texts import joined, label
from trainmark.launch.protocol import Ended
from trainmark.plan.records import CasePlan, Plan, RoundRef
from trainmark.reasons import Reason, reason
from trainmark.report.render.escape import flat
from trainmark.run import session
from trainmark.run.campaign import Step
from trainmark.run.observers import Observer, Observers
from trainmark.run.stop import Switch
from trainmark.spec.states import JobState
from trainmark.store.rundir import RUN_LOG, RunDir


class RunLog(Observer):
    """A line for everything that happened, with its time. Progress is in the heartbeats instead."""

    def __init__(self, run: RunDir) -> None:
        self._file: Path = run.path / RUN_LOG

    def started(self, case: CasePlan, ref: RoundRef, attempt: int) -> None:
        self._write(f"{case.case} round {ref.round} attempt {attempt}: started")

    def ended(self, case: CasePlan, ref: RoundRef, ended: Ended) -> None:
        self._write(outcome_line(case, ref, ended))

    def note(self, note: Reason) -> None:
        self._write(say(note))

    def _write(self, text: str) -> None:
        with self._file.open("a", encoding="utf-8") as out:
            out.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {flat(text)}\n")


def logged(run: RunDir, observer: Observer, work: Callable[[Observer], JobState]) -> JobState:
    """Does `work` with an observer that also writes the run's log, where an error is recorded, too."""
    log = RunLog(run)
    try:
        return work(Observers(log, observer))
    except (UserError, FileNotFoundError) as error:
        if not run.path.is_dir():
            raise SiteError(f"the folder of the run was removed while it ran: {run.path}; start it anew") from None
        if isinstance(error, UserError):
            log.note(reason("error", text=str(error)))
        raise
    finally:
        observer.close()


def drive_quietly(_step: Step, run: RunDir, plan: Plan, switch: Switch) -> JobState:
    """The driver of a campaign's runs that are not shown: only their logs tell of them."""
    return logged(run, Observer(), lambda observer: session.drive(run, plan, observer, switch))


def outcome_line(case: CasePlan, ref: RoundRef, ended: Ended, language: str = "en") -> str:
    """How a round ended, in one line."""
    head = case.case if ended.state is JobState.SKIPPED else label("progress.round", case.case, ref.round)
    return say(joined(head, str(ended.state), ended.reason, joint=": "), language)
