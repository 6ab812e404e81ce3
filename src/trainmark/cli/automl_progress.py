"""Progress of an experiment: now and then a line of trials and accuracy, and one whenever a worker comes or goes."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import IO

from trainmark.automl import plan as plans
from trainmark.cli import automl_common
from trainmark.cli.automl_top import head
from trainmark.launch import Ended
from trainmark.plan.records import CasePlan, Plan, RoundRef
from trainmark.store.rundir import RunDir

SECONDS = 20.0


class Progress:
    """A view of the loop. A lost terminal is no reason to end an experiment."""

    def __init__(self, out: IO[str], run: RunDir, plan: Plan) -> None:
        self._out, self._run, self._plan = out, run, plan
        self._told = time.monotonic()

    def started(self, case: CasePlan, _ref: RoundRef, attempt: int) -> None:
        again = f", attempt {attempt}" if attempt > 1 else ""
        self.note(f"worker {case.params['slot']} starts on {', '.join(node.host for node in case.nodes)}{again}")

    def tick(self, _attempt_dir: Path) -> None:
        if time.monotonic() - self._told < SECONDS:
            return
        found = automl_common.look(self._run, self._plan, plans.experiment_of(self._plan))
        self._told = time.monotonic()
        self.note(f"{head(found, self._plan.site.name)[1]}")

    def ended(self, case: CasePlan, _ref: RoundRef, ended: Ended) -> None:
        self.note(f"worker {case.params['slot']}: {ended.state}" + (f": {ended.reason}" if ended.reason else ""))

    def note(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._out.write(text + "\n")
            self._out.flush()
