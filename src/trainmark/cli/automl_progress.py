"""Progress of an experiment: a line whenever a worker comes or goes, and what the supervisor says."""

from __future__ import annotations

import contextlib
from typing import IO

from trainmark.launch.protocol import Ended
from trainmark.plan.records import CasePlan, RoundRef
from trainmark.report.i18n.speaker import say
from trainmark.run.observers import Observer


class Progress(Observer):
    """A lost terminal is no reason to end an experiment."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out

    def started(self, case: CasePlan, _ref: RoundRef, attempt: int) -> None:
        again = f", attempt {attempt}" if attempt > 1 else ""
        hosts = ", ".join(node.host or "any node" for node in case.nodes)
        self.note(f"worker {case.params['slot']} starts on {hosts}{again}")

    def ended(self, case: CasePlan, _ref: RoundRef, ended: Ended) -> None:
        self.note(f"worker {case.params['slot']}: {ended.state}" + (f": {say(ended.reason)}" if ended.reason else ""))
        last = (ended.failure or {}).get("last_lines") or []
        if last:
            self.note(f"  its last line: {last[-1]}")

    def note(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._out.write(text + "\n")
            self._out.flush()
