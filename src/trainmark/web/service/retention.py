"""What is kept, and for how long: `retention` in server.yaml. Without it everything is kept."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from sqlalchemy import select

from trainmark.web.server import Server
from trainmark.web.service import audit, database, jobs
from trainmark.web.service.rules import Retention
from trainmark.web.service.tables import jobs as table

log = logging.getLogger("trainmark.web")


class Kept(msgspec.Struct, frozen=True):
    """A job that ended, and what it left."""

    job: str
    ended: float
    bytes: int
    pinned: bool
    folders: tuple[Path, ...]


def too_much(found: Sequence[Kept], rules: Retention, now: float) -> list[Kept]:
    """What goes: all that is older than the rules say, then the oldest until the rest is small enough. Pinned ones
    stay, and count."""
    loose = sorted((one for one in found if not one.pinned), key=lambda one: one.ended)
    going = [one for one in loose if rules.days is not None and now - one.ended > rules.days * 86400.0]
    if rules.gigabytes is not None:
        left = sum(one.bytes for one in found) - sum(one.bytes for one in going)
        for one in loose[len(going) :]:
            if left <= rules.gigabytes * 1e9:
                break
            going.append(one)
            left -= one.bytes
    return going


def apply(server: Server, now: float | None = None) -> list[str]:
    """Removes runs and folders of jobs that are beyond the rules; the jobs stay in the list. Returns their ids."""
    rules = server.rules.retention
    if rules is None:
        return []
    removed = []
    for one in too_much(_found(server), rules, time.time() if now is None else now):
        if not _remove(server, one):
            continue
        removed.append(one.job)
        with database.writing(server.engine) as connection:
            audit.note(connection, "", "run.expire", f"{one.job} {one.bytes} bytes")
        log.info("job %s: its run was removed by the rules of retention", one.job)
    return removed


def _remove(server: Server, one: Kept) -> bool:
    """False if somebody pinned it since it was looked at, which takes a while, or if something of it is left."""
    with database.reading(server.engine) as connection:
        if connection.execute(select(table.c.pinned).where(table.c.id == one.job)).scalar():
            return False
    for folder in one.folders:
        shutil.rmtree(folder, ignore_errors=True)
    left = [str(folder) for folder in one.folders if os.path.lexists(folder)]
    if left:
        log.warning("job %s: the rules of retention could not remove all of %s", one.job, ", ".join(left))
    return not left


def _found(server: Server) -> list[Kept]:
    asked = select(table).where(table.c.state.not_in(jobs.ACTIVE), table.c.ended.is_not(None))
    with database.reading(server.engine) as connection:
        rows = list(connection.execute(asked).mappings())
    found = []
    for row in rows:
        folders = [server.home.job(row["id"])]
        if row["run"]:
            folders.append(jobs.run_path(server, row))
        there = tuple(folder for folder in folders if folder.is_dir())
        if there:
            found.append(Kept(row["id"], row["ended"], sum(map(_size, there)), row["pinned"], there))
    return found


def _size(folder: Path) -> int:
    """What its files take, links not followed."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except OSError:
                continue
    return total
