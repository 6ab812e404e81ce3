"""Who owns a run. One controller at a time; every take-over raises the epoch, and only the highest is obeyed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from trainmark.errors import UserError
from trainmark.launch import process
from trainmark.store import journal, rundir
from trainmark.store.files import Damaged, decode, write_json
from trainmark.store.rundir import LEASE

_LOCK = "lease.lock"
# An owner on another machine cannot be looked up by its pid: its renewals are watched for this long instead.
RENEW_SECONDS = 2.0
WATCH_SECONDS = 3 * RENEW_SECONDS
YOUNG_SECONDS = 60.0


class Owner(msgspec.Struct, frozen=True):
    """`lease.json`. Agents read `epoch` from it before they start anything."""

    epoch: int
    host: str
    boot_id: str
    pid: int
    start_ticks: int
    released: bool = False

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class LostLease(Exception):
    """Another controller took this run over: this one must end without writing anything more."""


class Owned(UserError):
    """The run has a living owner."""


class Lease:
    """A held lease. As a context manager it is released on every way out."""

    def __init__(self, run_dir: Path, owner: Owner) -> None:
        self._dir = run_dir
        self.owner = owner
        self._renewed = time.monotonic()

    @property
    def epoch(self) -> int:
        return self.owner.epoch

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside, nobody can take the run over; fails if somebody already has."""
        with _locked(self._dir):
            current = read(self._dir)
            if current is None or current.epoch != self.epoch:
                raise LostLease(f"run {self._dir.name} was taken over by {current}")
            yield

    def renew(self) -> None:
        """Shows watchers on other machines that the owner lives. Cheap, to be called often."""
        if time.monotonic() - self._renewed >= RENEW_SECONDS:
            with self.held():
                os.utime(self._dir / LEASE)
            self._renewed = time.monotonic()

    def release(self) -> None:
        """The run has no owner any more. Nothing happens if another controller took it over."""
        with contextlib.suppress(LostLease), self.held():
            write_json(self._dir / LEASE, msgspec.structs.replace(self.owner, released=True))

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        # A folder that was removed or a full disk must not hide what ended the work.
        with contextlib.suppress(OSError, UserError):
            self.release()


def read(run_dir: Path) -> Owner | None:
    """Who owns it, or owned it last. Of a lease that was damaged nothing can be said, so nobody owns the run; epochs go
    on from the journal's, and a controller that still lives finds out when it next renews."""
    try:
        return decode(run_dir / LEASE, Owner)
    except (FileNotFoundError, Damaged):
        return None


def take(run_dir: Path, after: int | None = None) -> Lease:
    """Own the run, or say who does. `after`: only if the last owner's epoch is this one (0: nobody has owned it), so
    that of several who were sent to go on with it one does."""
    rundir.check_own(run_dir)
    seen = read(run_dir)
    if seen is not None and is_alive(seen, run_dir):
        raise Owned(
            f"run {run_dir.name} is being worked on by {seen}; "
            f"watch it with `trainmark status {run_dir.name}`, end it with `trainmark stop {run_dir.name}`"
        )
    with _locked(run_dir):
        current = read(run_dir)
        if current != seen:
            raise Owned(f"run {run_dir.name} was taken over by {current} at this moment")
        # A lease that was lost must not let the epoch fall: the journal would take the new owner for a replaced one.
        highest = max(current.epoch if current else 0, journal.highest_epoch(run_dir), 0)
        if after is not None and highest != after:
            raise Owned(f"run {run_dir.name} was worked on by another controller in the meantime (epoch {highest})")
        me = Owner(
            epoch=highest + 1,
            host=os.uname().nodename,
            boot_id=process.boot_id(),
            pid=os.getpid(),
            start_ticks=process.start_ticks(os.getpid()) or 0,
        )
        write_json(run_dir / LEASE, me, durable=True)
    return Lease(run_dir, me)


def is_alive(owner: Owner, run_dir: Path, sleep: Callable[[float], None] = time.sleep) -> bool:
    """Whether the owner still works: by its process on this machine, by its renewals on another."""
    if owner.released:
        return False
    if owner.host == os.uname().nodename:
        return owner.boot_id == process.boot_id() and process.start_ticks(owner.pid) == owner.start_ticks
    before = (run_dir / LEASE).stat().st_mtime_ns
    sleep(WATCH_SECONDS)
    return (run_dir / LEASE).stat().st_mtime_ns != before


def seems_alive(run_dir: Path) -> bool:
    """The same at a glance, for lists: an owner on another machine is believed while its renewals are young."""
    owner = read(run_dir)
    if owner is None or owner.released or owner.host == os.uname().nodename:
        return owner is not None and is_alive(owner, run_dir)
    return time.time() - (run_dir / LEASE).stat().st_mtime < YOUNG_SECONDS


@contextmanager
def _locked(run_dir: Path) -> Iterator[None]:
    try:
        handle = os.open(run_dir / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise UserError(f"run {run_dir.name} cannot be owned: {error.filename}: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
