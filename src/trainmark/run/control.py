"""Looking at runs and stopping them, from any process: their state, their owner, each round, what runs just now."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec

from trainmark.errors import SiteError, UserError
from trainmark.launch.protocol import launcher_of
from trainmark.plan.records import CasePlan, Plan, RoundRef
from trainmark.reasons import Reason
from trainmark.run import campaign, lease, progress, session, stop
from trainmark.run.campaign import Campaign
from trainmark.run.lease import Owner
from trainmark.run.progress import Progress
from trainmark.spec.states import JobState
from trainmark.store import rundir
from trainmark.store.files import decode_line
from trainmark.store.logs import last_lines
from trainmark.store.rundir import RUN_LOG, SAMPLES, RunDir
from trainmark.store.state import Attempt, RunState

_LOOK_SECONDS = 0.1
_AGAIN_SECONDS = 1.0
# Only the newest runs can be running; older ones are not looked at again each second.
_NEWEST = 20


class RoundStatus(msgspec.Struct, frozen=True):
    """One round: its newest attempt (0: none yet), and how far that is while it runs."""

    case: str
    unit: str
    round: int
    attempt: int
    state: JobState
    reason: Reason | None = None
    progress: Progress | None = None


class RunStatus(msgspec.Struct, frozen=True):
    """Where a run stands. LOST: it is not finished and its controller is gone; resuming it goes on."""

    run: str
    state: JobState
    owner: Owner | None
    rounds: list[RoundStatus]


class Running(msgspec.Struct, frozen=True):
    """An attempt that runs now. `sample` is the newest of its first node; `owned`: whether a controller follows it."""

    run: RunDir
    plan: Plan
    case: CasePlan
    round: int
    progress: Progress | None
    sample: dict[str, Any]
    owned: bool
    # What it waits for in a queue; None when it has begun.
    waits_for: Reason | None = None


def is_driven(run: RunDir) -> bool:
    """Whether somebody works on it."""
    owner = lease.read(run.path)
    return owner is not None and lease.is_alive(owner, run.path)


def state_of(run: RunDir, state: RunState) -> JobState:
    """RUNNING only while somebody works on it: a killed controller's run is LOST. PENDING: what was begun of it waits
    in a queue."""
    if state.finished is not None:
        return state.finished
    if not is_driven(run):
        return JobState.LOST
    return JobState.PENDING if state.in_queue() else JobState.RUNNING


def status(run: RunDir) -> RunStatus:
    state = session.state_of(run, run.manifest().plan)
    owner = lease.read(run.path)
    if owner is not None and owner.released:
        owner = None
    rounds = [_round(run, state, ref) for ref in state.plan.order if not state.is_spare(ref)]
    return RunStatus(run.id, state_of(run, state), owner, rounds)


def _round(run: RunDir, state: RunState, ref: RoundRef) -> RoundStatus:
    case, last = state.plan.cases[ref.case], state.rounds[ref].last()
    outcome, reason = state.outcome(ref)
    seen = None
    if outcome is JobState.RUNNING and last is not None:
        seen = progress.look(run.attempt(case, ref, last.number), case)
    return RoundStatus(case.case, case.unit, ref.round, last.number if last else 0, outcome, reason, seen)


def running(runs: Path) -> list[Running]:
    """All attempts that run now, of the newest runs in a folder."""
    found = []
    for name in rundir.run_ids(runs)[-_NEWEST:]:
        run = RunDir(runs / name)
        try:
            state = session.state_of(run, run.manifest().plan)
        except UserError:
            continue  # `list` shows what is wrong with it
        # Agents may go on without a controller, up to their own deadlines.
        owned = state.finished is None and lease.seems_alive(run.path)
        found += [_running(run, state.plan, ref, attempt, owned) for ref, attempt in state.open_attempts()]
    return found


def _running(run: RunDir, plan: Plan, ref: RoundRef, attempt: Attempt, owned: bool) -> Running:
    case = plan.cases[ref.case]
    folder = run.attempt(case, ref, attempt.number)
    seen = progress.look(folder, case)
    return Running(run, plan, case, ref.round, seen, last_sample(folder), owned, attempt.reason)


def last_sample(attempt_dir: Path) -> dict[str, Any]:
    """The newest sample of the first node; empty before there is one."""
    for file in sorted(attempt_dir.glob(f"*/{SAMPLES}")):
        for line in reversed(last_lines(file, 2)):
            found = decode_line(line)
            if isinstance(found, dict) and "t" in found:  # not the first line, which tells the units
                return found
    return {}


def stop_run(run: RunDir, *, now: bool = False, timeout: float = 120.0) -> bool:
    """Stops a run, whoever drives it, and returns when nothing of it is left; False when it was not running."""
    plan = run.manifest().plan
    made = campaign.of_run(run)
    if made is not None and stop_campaign(made, now=now, timeout=timeout):
        return True  # also between two of its runs, when nobody owns either
    if _stop(run, f"run {run.id}", run.id, now, timeout):
        return True
    if session.state_of(run, plan).open_attempts():
        # Its controller is gone but an agent may still work: become the controller just to end it.
        session.end(run, plan, now=now)
        return True
    return False


def stop_campaign(made: Campaign, *, now: bool = False, timeout: float = 120.0) -> bool:
    """Stops a campaign and the run that it is at; False when nobody works on it."""
    return _stop(RunDir(made.folder), made.name, made.name, now, timeout)


def _stop(folder: RunDir, what: str, name: str, now: bool, timeout: float) -> bool:
    rundir.check_own(folder.path)
    if not is_driven(folder):
        return False
    stop.request(folder.path, now=now)
    deadline = time.monotonic() + timeout
    while not wait(folder, min(_AGAIN_SECONDS, timeout / 2)):
        if time.monotonic() >= deadline:
            raise SiteError(f"{what} has not stopped within {timeout:g} s; {_harsher(folder, name, now)}")
        if stop.standing(folder.path) is None:
            stop.request(folder.path, now=now)  # a controller that took over has cleared it
    return True


def _harsher(folder: RunDir, name: str, now: bool) -> str:
    """What helps when asking did not."""
    owner = lease.read(folder.path)
    if not now or owner is None:
        return f"`trainmark stop --now {name}` is harsher"
    return (
        f"its controller, {owner}, does not answer: end it there with `kill -9 {owner.pid}`, "
        f"then `trainmark stop {name}` ends what is left of its ranks"
    )


def wait(run: RunDir, timeout: float | None = None) -> bool:
    """Until its owner has let go: by then its agents have proved that nothing is left. False: it took too long."""
    deadline = None if timeout is None else time.monotonic() + timeout
    while is_driven(run):
        if deadline is not None and time.monotonic() >= deadline:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def log_files(
    run: RunDir, what: str = "ranks", rank: int | None = 0, case: str | None = None, round: int | None = None
) -> list[Path]:
    """The controller's log (`what` is `run`), those of its jobs at a scheduler (`job`), or those of the ranks or agents
    of the newest attempt that fits: of a case whose id holds `case`, of round `round`. `rank` None is all ranks."""
    if what == "run":
        return [run.path / RUN_LOG]
    if what == "job":
        return launcher_of(run.manifest().plan.site).job_logs(run.path)
    attempt = newest_attempt(run, case, round)
    if attempt is None:
        return []
    if what == "agent":
        return sorted(attempt.glob("*/agent.log"))
    found = attempt.glob(f"*/rank{'*' if rank is None else rank}.out.log")
    return sorted(found, key=lambda file: int(file.name.partition(".")[0][4:]))


def newest_attempt(run: RunDir, name: str | None = None, number: int | None = None) -> Path | None:
    """Rounds run in the plan's order."""
    state = session.state_of(run, run.manifest().plan)
    newest = None
    for ref in state.plan.order:
        case, last = state.plan.cases[ref.case], state.rounds[ref].last()
        if last is not None and (name is None or name in case.case) and number in (None, ref.round):
            newest = run.attempt(case, ref, last.number)
    return newest
