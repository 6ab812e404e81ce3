"""The thread that looks after the queue: follows the runs of jobs, and starts those whose turn has come.

All it knows is in the database and in the run directories, so a server that was killed at any moment is replaced by
another one. A run is driven by a process of its own, which outlives the server; of several that are sent to drive one,
the run's lease lets one do it. Every step writes down what it is about to do before it does it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import RowMapping, select, update

from trainmark.errors import UserError
from trainmark.reasons import Reason, reason
from trainmark.run import background, lease, machine, session
from trainmark.run import stop as stops
from trainmark.spec.notation import parse_seconds
from trainmark.spec.states import JobState
from trainmark.store import journal
from trainmark.store.rundir import RunDir
from trainmark.store.state import RunState
from trainmark.web.queue import policy
from trainmark.web.queue.idle import IdleWatch
from trainmark.web.queue.policy import Going, Waiting
from trainmark.web.server import Server
from trainmark.web.service import database, host_states, job_plans, notices, sites, user_secrets
from trainmark.web.service.jobs import ACTIVE, decode_reason, encode_reason, needs_of, run_path, slots_of, spec_of
from trainmark.web.service.tables import jobs, users

log = logging.getLogger("trainmark.web")

_LOOK_SECONDS = 0.5
# A controller that was started and does not own its run after so long has failed.
_START_SECONDS = 60.0
# How often a job's controller is replaced that ended before the job did.
_MOST_RESTARTS = 3
_WELL_SECONDS = 30.0


class Keeper:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._wake, self._ending = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, name="queue", daemon=True)
        self._starters = ThreadPoolExecutor(4, "start")
        self._starting: dict[str, Future[None]] = {}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._looked = time.monotonic()
        self._idle = IdleWatch()

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Jobs go on; the next server finds them."""
        self._ending.set()
        self._wake.set()
        self._thread.join(10.0)
        self._starters.shutdown(wait=True)

    def wake(self) -> None:
        """Something has changed that need not wait for the next look."""
        self._wake.set()

    def is_well(self) -> bool:
        return self._thread.is_alive() and time.monotonic() - self._looked < _WELL_SECONDS

    def _work(self) -> None:
        while not self._ending.is_set():
            try:
                self.look()
            except Exception:
                # The next look may do better: a full disk gets room, a database comes back.
                log.exception("the queue could not be looked after")
            self._wake.wait(_LOOK_SECONDS)
            self._wake.clear()

    def look(self) -> None:
        """Once: what has become of runs, and what may start."""
        self._processes = [one for one in self._processes if one.poll() is None]  # also collects exit codes
        self._starting = {job: one for job, one in self._starting.items() if not one.done()}
        for row in self._active():
            if row["launched"] is not None and row["id"] not in self._starting:
                self._follow(row)
        rows = self._active()
        self._idle.keep(row["id"] for row in rows)
        self._decide(rows)
        self._looked = time.monotonic()

    def _active(self) -> list[RowMapping]:
        asked = select(jobs, users.c.name.label("owner")).join(users, users.c.id == jobs.c.owner_id)
        with database.reading(self._server.engine) as connection:
            return list(connection.execute(asked.where(jobs.c.state.in_(ACTIVE))).mappings())

    def _set(self, row: RowMapping, **values: Any) -> None:
        with database.writing(self._server.engine) as connection:
            connection.execute(update(jobs).where(jobs.c.number == row["number"]).values(**values))

    # What has become of a run.

    def _follow(self, row: RowMapping) -> None:
        run = RunDir(run_path(self._server, row))
        try:
            state = session.state_of(run, run.manifest().plan)
        except UserError as error:
            self._end(row, JobState.FAILED, reason("job-not-started", why=str(error)))
            return
        driven = lease.seems_alive(run.path)
        if driven:
            self._follow_driven(row, run, state)
        elif state.finished is not None:
            self._over(row, state.finished, _why(state), taken=_taken(state))
        else:
            self._replace(row, run)

    def _follow_driven(self, row: RowMapping, run: RunDir, state: Any) -> None:
        wanted, now = row["wanted"], time.time()
        if wanted == "go" and row["started"] is not None and now - row["started"] > row["limit"]:
            self._set(row, wanted="stop", reason=encode_reason(reason("job-time-limit", seconds=row["limit"])))
            wanted = "stop"
        if wanted != "go":
            if stops.standing(run.path) is None:
                stops.request(run.path, now=False)
            return
        waits = next((one.reason for _, one in state.open_attempts() if state.in_queue()), None)
        shown = JobState.PENDING if waits is not None else JobState.RUNNING
        idle = self._idle_reason(row, run, now) if waits is None else None
        if idle is not None and idle.code == "job-idle-stopped":
            self._set(row, wanted="stop", reason=encode_reason(idle))
            return
        why = encode_reason(waits or idle)
        if row["state"] != shown or row["reason"] != why:
            self._set(row, state=shown, reason=why, started=row["started"] or now)

    def _idle_reason(self, row: RowMapping, run: RunDir, now: float) -> Reason | None:
        """What is said of a job that holds devices and uses none; one that shall stay open is not stopped for it."""
        rule = self._server.rules.of(row["site"]).idle
        seconds = self._idle.seconds(row["id"], run, now, slots_of(row).get(os.uname().nodename, frozenset()))
        if seconds < parse_seconds(rule.after, "idle.after"):
            return None
        stops_it = rule.stop and not spec_of(row).stays
        return reason("job-idle-stopped" if stops_it else "job-idle", minutes=int(seconds // 60))

    def _over(self, row: RowMapping, final: JobState, why: Reason | None, *, taken: bool = False) -> None:
        machine.release(run_path(self._server, row))
        told = decode_reason(row["reason"])
        made_way = row["wanted"] == "requeue" and final is JobState.CANCELLED
        if made_way or (taken and row["wanted"] == "go" and row["preemptible"]):
            again = {"state": JobState.PENDING, "wanted": "go", "launched": None, "slots": "", "started": None}
            self._set(row, reason=encode_reason(reason("job-requeued")), **again)
        elif row["wanted"] == "stop" and told is not None and told.code == "job-time-limit":
            self._end(row, JobState.TIMEOUT, told)
        elif row["wanted"] == "stop":
            self._end(row, final, told if final is JobState.CANCELLED else why)
        else:
            self._end(row, final, why)

    def _end(self, row: RowMapping, state: JobState, why: Reason | None) -> None:
        user_secrets.take_back(self._server, row["id"])
        now = time.time()
        values = {"state": state, "reason": encode_reason(why), "ended": now, "slots": ""}
        with database.writing(self._server.engine) as connection:
            connection.execute(update(jobs).where(jobs.c.number == row["number"]).values(**values))
            notices.about_end(connection, row, state, why, now)
        log.info("job %s ended: %s", row["id"], state)

    def _replace(self, row: RowMapping, run: RunDir) -> None:
        """Nobody drives it and it has not ended: its controller died, or has not come so far."""
        epoch = _epoch(run)
        young = time.time() - row["launched"] < _START_SECONDS
        if epoch == row["epoch"] and young and self._is_coming(run):
            return
        if row["wanted"] != "go":
            with contextlib.suppress(UserError):
                session.end(run, run.manifest().plan)
            self._over(row, JobState.CANCELLED, None)
        elif epoch == row["epoch"]:
            self._launch(row, run)  # it never began
        elif row["restarts"] >= _MOST_RESTARTS:
            self._end(row, JobState.LOST, reason("job-lost", count=row["restarts"] + 1))
        else:
            self._set(row, restarts=row["restarts"] + 1)
            self._launch(row, run)

    def _is_coming(self, run: RunDir) -> bool:
        """Whether a controller that this or an earlier server started is on its way."""
        wanted = str(run.path).encode()
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                with contextlib.suppress(OSError):
                    words = Path("/proc", entry, "cmdline").read_bytes().split(b"\0")
                    if b"resume" in words and wanted in words:
                        return True
        return False

    # What may start.

    def _decide(self, rows: list[RowMapping]) -> None:
        waiting = [row for row in rows if row["launched"] is None and row["id"] not in self._starting]
        holding = [row for row in rows if row["launched"] is not None]
        foreign = self._foreign(rows)
        slots = self._slots(rows)
        going = [_going(row) for row in holding] + [_foreign_going(one, slots) for one in foreign]
        closed = self._closed(waiting)
        asked = [_waiting(row) for row in waiting if row["id"] not in closed]
        decision = policy.decide(asked, going, slots, time.time())
        for row in waiting:
            if row["id"] in decision.start:
                self._begin(row, decision.start[row["id"]])
                continue
            why = closed.get(row["id"]) or _behind_foreign(row, foreign) or decision.reasons[row["id"]]
            if decode_reason(row["reason"]) != why:
                self._set(row, reason=encode_reason(why))
        for row in holding:
            if row["id"] in decision.preempt and row["wanted"] == "go":
                self._set(row, wanted="requeue")

    def _closed(self, waiting: list[RowMapping]) -> dict[str, Reason]:
        """Jobs whose hosts an admin keeps from them, and why."""
        if not waiting:
            return {}
        with database.reading(self._server.engine) as connection:
            states = host_states.listed(connection)
        found = {row["id"]: host_states.closed_to(row["owner"], needs_of(row), states) for row in waiting}
        return {job: why for job, why in found.items() if why is not None}

    def _slots(self, rows: list[RowMapping]) -> dict[str, frozenset[int]]:
        """Of this machine by its devices, of every other host one: whoever is there has it whole."""
        here = os.uname().nodename
        hosts = {host for row in rows for host in needs_of(row)}
        count = sites.device_here(self._server.rules)[1]
        return {host: frozenset(range(count if host == here else 1)) for host in hosts | {here}}

    def _foreign(self, rows: list[RowMapping]) -> list[machine.Claim]:
        """What is held by runs that are no jobs of this server."""
        own = {str(run_path(self._server, row)) for row in rows if row["run"]}
        return [one for one in machine.claims() if one.run not in own]

    def _begin(self, row: RowMapping, slots: Mapping[str, frozenset[int]]) -> None:
        """The slots are its own from here on, whatever becomes of this process."""
        held = msgspec.json.encode({host: sorted(numbers) for host, numbers in slots.items()}).decode()
        try:
            run = self._run(row, slots)
        except UserError as error:
            self._end(row, JobState.FAILED, reason("job-not-started", why=str(error)))
            return
        places = {host: None if self._whole(host, numbers) else sorted(numbers) for host, numbers in slots.items()}
        if places and machine.try_claim(run.path, places):
            return  # somebody was faster; the next look tells whom it waits for
        if not self._launch(row, run, held):
            machine.release(run.path)

    def _whole(self, host: str, numbers: frozenset[int]) -> bool:
        return host != os.uname().nodename or len(numbers) >= sites.device_here(self._server.rules)[1]

    def _run(self, row: RowMapping, slots: Mapping[str, frozenset[int]]) -> RunDir:
        """Its run: the one it has if it ran before, else a new one, noted before anything is started."""
        if row["run"]:
            return RunDir(run_path(self._server, row))
        server, runs = self._server, self._server.home.runs(row["owner_id"])
        command = ["trainmark", "serve", f"job {row['id']} of {row['owner']}"]
        made = job_plans.create_run(
            server.home, server.rules, row["owner"], row["id"], spec_of(row), slots, runs, command
        )
        self._set(row, run=made.id)
        return made

    def _launch(self, row: RowMapping, run: RunDir, slots: str | None = None) -> bool:
        """False: somebody stopped the job at this moment, or removed a secret that it needs."""
        wanted_secrets = spec_of(row).secrets
        if wanted_secrets:
            try:
                user_secrets.hand(self._server, row["owner_id"], row["id"], wanted_secrets)
            except (UserError, OSError) as error:
                machine.release(run.path)
                self._end(row, JobState.FAILED, reason("job-not-started", why=str(error)))
                return False
        epoch = _epoch(run)
        values = {"epoch": epoch, "launched": time.time(), "slots": row["slots"] if slots is None else slots}
        wanted = update(jobs).where(jobs.c.number == row["number"], jobs.c.wanted == "go", jobs.c.state.in_(ACTIVE))
        with database.writing(self._server.engine) as connection:
            changed = connection.execute(wanted.values(reason=encode_reason(reason("job-starting")), **values))
        if changed.rowcount != 1:
            return False
        self._starting[row["id"]] = self._starters.submit(self._drive, run, epoch)
        return True

    def _drive(self, run: RunDir, epoch: int) -> None:
        command = ["resume", "--log-level", "warning", "--after-epoch", str(epoch), str(run.path)]
        try:
            self._processes.append(background.start(run, command))
        except UserError as error:
            log.warning("run %s: %s", run.id, error)
        self._wake.set()


def _epoch(run: RunDir) -> int:
    owner = lease.read(run.path)
    return max(owner.epoch if owner else 0, journal.highest_epoch(run.path), 0)


def _why(state: Any) -> Reason | None:
    """Of a run that ended: what the first round that did not succeed says."""
    if state.finished is JobState.SUCCEEDED:
        return None
    for ref in state.plan.order:
        outcome, why = state.outcome(ref)
        if outcome is not JobState.SUCCEEDED and why is not None:
            found: Reason = why
            return found
    stopped: Reason | None = state.stop_reason
    return stopped


def _taken(state: RunState) -> bool:
    """Whether the site's own scheduler gave the nodes of a run that ended to another. A run that somebody stopped is
    not begun again."""
    lasts = [item.last() for item in state.rounds.values()]
    failed = state.finished is JobState.FAILED and state.stop_reason is None
    return failed and any(last is not None and last.state is JobState.PREEMPTED for last in lasts)


def _waiting(row: RowMapping) -> Waiting:
    return Waiting(row["id"], needs_of(row), row["priority"], row["queued"], row["limit"], row["preemptible"])


def _going(row: RowMapping) -> Going:
    ends = (row["started"] or row["launched"] or time.time()) + row["limit"]
    leaving = row["wanted"] != "go"
    return Going(row["id"], slots_of(row), ends, row["preemptible"], row["priority"], leaving)


def _foreign_going(claim: machine.Claim, slots: Mapping[str, frozenset[int]]) -> Going:
    """How long it will take is not known, so nothing is begun in the hope that it takes long."""
    held = {
        host: slots.get(host, frozenset()) if numbers is None else frozenset(numbers)
        for host, numbers in claim.places.items()
    }
    return Going(f"run {claim.run}", held, time.time())


def _behind_foreign(row: RowMapping, foreign: list[machine.Claim]) -> Reason | None:
    found = next((one for one in foreign if set(one.places) & set(needs_of(row))), None)
    return reason("waits-for-run", run=Path(found.run).name) if found is not None else None
