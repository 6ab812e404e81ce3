"""Who uses which host: runs hold the hosts they measure on, so that none is measured beside another by accident.

Claims are files in the cache folder, so all runs of one account see them, those of the command line and those of a
server. A claim lives as long as the process that holds it, or the one that owns its run.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from trainmark import cache
from trainmark.errors import UserError
from trainmark.launch import process
from trainmark.launch.protocol import launcher_of
from trainmark.plan.records import Plan
from trainmark.reasons import Reason, listed, reason
from trainmark.run import lease
from trainmark.store.files import decode, write_json

# Set by whoever wants to measure beside others all the same.
BESIDE = "TRAINMARK_BESIDE"
# In the environment of ranks: what runs inside a run does not wait for it.
_INSIDE = "TRAINMARK_TOKEN"
# Host → numbers of the slots that are taken there; None: the whole host.
Places = Mapping[str, list[int] | None]


class Claim(msgspec.Struct, frozen=True):
    run: str
    places: dict[str, list[int] | None]
    holder: dict[str, Any]
    since: float


def places_of(plan: Plan) -> dict[str, list[int] | None]:
    """The hosts that a plan measures on, whole; none where a scheduler hands them out."""
    if launcher_of(plan.site).chooses_hosts:
        return {}
    hosts = {node.host for case in plan.cases for node in case.nodes if node.host}
    return dict.fromkeys(sorted(hosts))


def claims() -> list[Claim]:
    """All that are held now. What nobody holds any more is removed."""
    with _locked():
        return _living()


def try_claim(run: Path, places: Places) -> list[Claim]:
    """Holds the places for the run and returns nothing, or returns who is in the way."""
    with _locked():
        living = _living()
        if any(one.run == str(run) for one in living):
            return []
        blocking = [one for one in living if _overlap(one.places, places)]
        if not blocking:
            _write(run, places)
        return blocking


@contextmanager
def held(run: Path, plan: Plan) -> Iterator[None]:
    """While the run is worked on, its claim is this process's. A run that nobody claimed for claims its hosts, whether
    or not others are there: who cares about that asks first."""
    wanted = places_of(plan)
    with contextlib.suppress(OSError, UserError), _locked():
        mine = next((one for one in _living() if one.run == str(run)), None)
        places = wanted if mine is None else mine.places
        if places:
            _write(run, places)
    try:
        yield
    finally:
        release(run)


def release(run: Path) -> None:
    with contextlib.suppress(OSError, UserError):
        _file(run).unlink(missing_ok=True)


def wait_asked() -> bool:
    """Whether a run of the command line waits for others."""
    return not os.environ.get(BESIDE) and _INSIDE not in os.environ


def in_the_way(blocking: list[Claim]) -> Reason:
    return reason("hosts-held", runs=listed([Path(one.run).name for one in blocking]), beside=BESIDE)


def _overlap(one: Places, other: Places) -> bool:
    for host in one.keys() & other.keys():
        taken, wanted = one[host], other[host]
        if taken is None or wanted is None or set(taken) & set(wanted):
            return True
    return False


def _living() -> list[Claim]:
    found = []
    for file in sorted(_folder().glob("*.json")):
        try:
            claim = decode(file, Claim)
        except (OSError, UserError):
            claim = None
        if claim is not None and (process.is_alive(claim.holder) or lease.seems_alive(Path(claim.run))):
            found.append(claim)
        else:
            file.unlink(missing_ok=True)
    return found


def _write(run: Path, places: Places) -> None:
    write_json(_file(run), Claim(str(run), dict(places), process.name(os.getpid()), time.time()))


def _file(run: Path) -> Path:
    return _folder() / f"{hashlib.sha256(str(run).encode()).hexdigest()[:24]}.json"


def _folder() -> Path:
    found = cache.cache_dir("hosts")
    cache.make(found)
    return found


@contextmanager
def _locked() -> Iterator[None]:
    handle = os.open(_folder() / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        # By name: a process that was forked meanwhile has the handle, too, and would keep the lock.
        fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)
