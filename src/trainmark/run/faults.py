"""Faults that a run injects into itself: a rank that is killed, so that the run shows how it recovers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trainmark.errors import UserError
from trainmark.launch.protocol import Ended, launcher_of
from trainmark.plan.records import CasePlan, Plan, RoundRef
from trainmark.reasons import reason
from trainmark.run import session
from trainmark.run.campaign import Companion
from trainmark.run.observers import Observer
from trainmark.spec.states import JobState
from trainmark.store.files import read_json
from trainmark.store.rundir import STATUS, RunDir
from trainmark.store.state import RunState

# A rank has something to go on from, and has gone on training since it was saved.
LEAST_CHECKPOINTS = 2


def check(plan: Plan) -> None:
    """UserError where a rank could not be killed."""
    if plan.kill is not None and not launcher_of(plan.site).this_machine:
        raise UserError("--kill: only on this machine; elsewhere, end a process or a host yourself while it runs")


def victim(rank: int, nodes: Sequence[Mapping[str, Any]], checkpoints: int) -> int | None:
    """The process to kill now, from the heartbeats of all nodes; None while it is too early."""
    if checkpoints < LEAST_CHECKPOINTS:
        return None
    ranks = (one for node in nodes for one in node.get("ranks", []))
    pids = (int(one["pid"]) for one in ranks if one.get("rank") == rank and one.get("state") == "running")
    return next(pids, None)


def struck(state: RunState) -> set[RoundRef]:
    """The rounds in which a process was killed already: none is killed twice, by whichever controller."""
    return {ref for ref, one in state.rounds.items() if any(_by_signal(attempt.failure) for attempt in one.attempts)}


def _by_signal(failure: Mapping[str, Any] | None) -> bool:
    return (failure or {}).get("kind") == "signal"


class Killer(Companion):
    """Kills one rank of each case once, by its pid, after its second checkpoint. Rounds run one after the other."""

    def __init__(self, rank: int, plan: Plan, state: RunState, warn: Observer) -> None:
        self._rank, self._struck, self._warn = rank, struck(state), warn
        self._refs = {case.id.dir_name(): RoundRef(index, 1) for index, case in enumerate(plan.cases)}

    def tick(self, attempt_dir: Path) -> None:
        round_dir = attempt_dir.parent
        ref = self._refs[round_dir.parent.name]
        if ref in self._struck:
            return
        found = [read_json(file) for file in attempt_dir.glob(f"*/{STATUS}")]
        pid = victim(self._rank, [one for one in found if isinstance(one, dict)], _checkpoints(round_dir))
        if pid is not None:
            self._struck.add(ref)
            os.kill(pid, signal.SIGKILL)

    def ended(self, case: CasePlan, ref: RoundRef, ended: Ended) -> None:
        if _by_signal(ended.failure):
            self._struck.add(ref)
        elif ref not in self._struck and ended.state is JobState.SUCCEEDED:
            self._warn.note(reason("rank-not-killed", case=case.case, rank=self._rank))


def _checkpoints(round_dir: Path) -> int:
    """Whole ones, of any framework."""
    return sum(file.suffix != ".half" for file in round_dir.glob("checkpoints/*/step-*"))


@contextmanager
def companion(run: RunDir, plan: Plan, observer: Observer) -> Iterator[Companion]:
    if plan.kill is None:
        yield Companion()
    else:
        yield Killer(plan.kill, plan, session.state_of(run, plan), observer)
