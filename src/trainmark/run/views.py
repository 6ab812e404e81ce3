"""Those who watch the loop without a terminal: the run's log, and several watchers as one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from trainmark.launch.protocol import Ended
from trainmark.plan.records import CasePlan, RoundRef
from trainmark.spec.states import JobState

if TYPE_CHECKING:
    from trainmark.run.words import View


class LogView:
    """`run.log`: a line for everything that happened, with its time."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def started(self, case: CasePlan, ref: RoundRef, attempt: int) -> None:
        self.note(f"{case.case} round {ref.round} attempt {attempt}: started")

    def tick(self, attempt_dir: Path) -> None:
        """Progress is in the heartbeats, not in the log."""

    def ended(self, case: CasePlan, ref: RoundRef, ended: Ended) -> None:
        self.note(outcome_line(case, ref, ended))

    def note(self, text: str) -> None:
        with self._file.open("a", encoding="utf-8") as out:
            out.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")


class Both:
    """Two watchers, told the same."""

    def __init__(self, first: View, second: View) -> None:
        self._views = (first, second)

    def started(self, case: CasePlan, ref: RoundRef, attempt: int) -> None:
        for view in self._views:
            view.started(case, ref, attempt)

    def tick(self, attempt_dir: Path) -> None:
        for view in self._views:
            view.tick(attempt_dir)

    def ended(self, case: CasePlan, ref: RoundRef, ended: Ended) -> None:
        for view in self._views:
            view.ended(case, ref, ended)

    def note(self, text: str) -> None:
        for view in self._views:
            view.note(text)

    def close(self) -> None:
        for view in self._views:
            getattr(view, "close", lambda: None)()


def outcome_line(case: CasePlan, ref: RoundRef, ended: Ended) -> str:
    """How a round ended, in one line."""
    from trainmark.report.i18n.speaker import say

    head = case.case if ended.state is JobState.SKIPPED else f"{case.case} round {ref.round}"
    return f"{head}: {ended.state}" + (f": {say(ended.reason)}" if ended.reason else "")
