"""What is followed live: logs, samples and states of jobs, as server-sent events that go on where they broke off."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import anyio
import anyio.to_thread
import msgspec
from litestar import MediaType, get
from litestar.params import Parameter
from litestar.response import Stream

from trainmark.errors import UserError
from trainmark.spec.states import JobState
from trainmark.store.rundir import RunDir
from trainmark.web.api.access import Access, rules
from trainmark.web.api.account_routes import Asked, asker_of
from trainmark.web.api.job_routes import JobName
from trainmark.web.server import Server
from trainmark.web.service import database, jobs, logs, notices, samples
from trainmark.web.service.errors import TooMany
from trainmark.web.service.records import Principal

Rank = Annotated[int | None, Parameter(ge=0, le=1_000_000, description="one rank; all when it is left out")]
_LOOK_SECONDS = 0.4
# A sign of life, without which proxies close a connection; and how often it is asked whether the client still may.
_QUIET_SECONDS, _CHECK_SECONDS = 15.0, 10.0
MOST_FOLLOWERS = 400
_RETRY = 1000
_KIND = "text/event-stream"
_Events = AsyncIterator[bytes]


class _Watched:
    """A job that people follow: looked up once a second for all of them, in a thread."""

    def __init__(self, server: Server, number: int) -> None:
        self._server, self._number = server, number
        self._until = 0.0
        self._looking = asyncio.Lock()
        self._files: dict[int | None, dict[int, Path]] = {}
        self.run: RunDir | None = None
        self.over = False

    async def refresh(self) -> None:
        if time.monotonic() < self._until:
            return
        async with self._looking:
            if time.monotonic() >= self._until:
                await anyio.to_thread.run_sync(self._look)
                self._until = time.monotonic() + 1.0

    def _look(self) -> None:
        with database.reading(self._server.engine) as connection:
            row = jobs.by_number(connection, self._number)
        self.run = jobs.run_of(self._server, row)
        self._files = {} if self.run is None else {rank: logs.rank_files(self.run, rank) for rank in list(self._files)}
        # Said last: whoever sees it has the files that were there at the end.
        self.over = JobState(row["state"]).ended

    def files(self, rank: int | None) -> dict[int, Path]:
        """Of one rank, or of all. Those that nobody has asked for yet are looked up at once."""
        if rank not in self._files:
            self._until = 0.0
        return self._files.setdefault(rank, {})


class _Follower:
    """Somebody who follows a job, and may, until a moment."""

    def __init__(self, server: Server, asker: Principal, job: str) -> None:
        self._server, self._asker, self._job = server, asker, job
        self._until = time.monotonic() + server.settings.stream_seconds
        self._checked = 0.0

    async def begin(self, rank: int | None) -> _Watched:
        """NotFound where the asker may not see the job."""
        number = await anyio.to_thread.run_sync(self._find)
        watched: _Watched = self._server.watched.get(number) or _Watched(self._server, number)
        self._server.watched[number] = watched
        watched.files(rank)
        await watched.refresh()
        return watched

    def _find(self) -> int:
        with database.reading(self._server.engine) as connection:
            found = jobs.find(connection, self._asker, self._job)
        self._checked = time.monotonic()
        return int(found["number"])

    async def may(self) -> bool:
        """Asked again and again: a job may be shared no more, a user may be disabled."""
        now = time.monotonic()
        if now > self._until:
            return False
        if now - self._checked > _CHECK_SECONDS:
            try:
                await anyio.to_thread.run_sync(self._find)
            except UserError:
                return False
        return True


def _events(server: Server, stream: _Events) -> Stream:
    if server.followers >= MOST_FOLLOWERS:
        raise TooMany(10)

    async def counted() -> _Events:
        """Whoever left before the first event is not counted, for nobody would tell that they left."""
        server.followers += 1
        try:
            async for one in stream:
                yield one
        finally:
            server.followers -= 1

    return Stream(counted(), media_type=_KIND, headers={"x-accel-buffering": "no"})


def _message(kind: str, number: str, data: Any) -> bytes:
    """JSON has no line breaks, so it is one line of data."""
    head = f"id: {number}\nevent: {kind}\nretry: {_RETRY}\ndata: ".encode()
    return head + msgspec.json.encode(data) + b"\n\n"


_QUIET = b": still here\n\n"


@get("/jobs/{job:str}/logs", **rules(Access.READ), media_type=MediaType.TEXT)
def job_logs(
    request: Asked,
    server: Server,
    job: JobName,
    rank: Rank = None,
    most: Annotated[int, Parameter(ge=1, le=logs.MOST_BYTES)] = 1 << 20,
) -> str:
    """The end of what ranks have written, at most so many bytes of each. The whole is among the job's files."""
    run = jobs.need_run(server, asker_of(request), job)
    return logs.tail(logs.rank_files(run, rank), most)


@get("/jobs/{job:str}/logs/stream", **{**rules(Access.READ), "sync_to_thread": None}, media_type=_KIND)
async def follow_logs(request: Asked, server: Server, job: JobName, rank: Rank = None) -> Stream:
    """Events `log` (rank, start, end, text) as they are written, and `end`. `Last-Event-ID` goes on behind it."""
    follower = _Follower(server, asker_of(request), job)
    watched = await follower.begin(rank)
    seen = logs.decode_seen(request.headers.get("last-event-id", ""))
    return _events(server, _logs(follower, watched, rank, seen))


async def _logs(follower: _Follower, watched: _Watched, rank: int | None, seen: dict[int, int]) -> _Events:
    quiet = time.monotonic()
    while await follower.may():
        over = watched.over
        found = logs.following(watched.files(rank), seen, final=over)
        for piece in found:
            yield _message("log", logs.encode_seen(seen), piece)
        if found:
            quiet = time.monotonic()
        elif over:
            yield _message("end", logs.encode_seen(seen), {})
            return
        elif time.monotonic() - quiet > _QUIET_SECONDS:
            quiet = time.monotonic()
            yield _QUIET
        # What was written long ago comes at once, what is new now and then.
        behind = any(piece.end - piece.start >= logs.PIECE // 2 for piece in found)
        await asyncio.sleep(0.0 if behind or (found and over) else _LOOK_SECONDS)
        await watched.refresh()


@get("/jobs/{job:str}/metrics/stream", **{**rules(Access.READ), "sync_to_thread": None}, media_type=_KIND)
async def follow_metrics(request: Asked, server: Server, job: JobName) -> Stream:
    """Events `sample` (one line of a node's samples), `progress` (how far each round that runs is) and `end`.
    `Last-Event-ID` goes on behind it, as long as it is the same attempt."""
    follower = _Follower(server, asker_of(request), job)
    watched = await follower.begin(0)
    attempt, _, seen = request.headers.get("last-event-id", "").partition(" ")
    return _events(server, _metrics(follower, watched, attempt, logs.decode_seen(seen)))


async def _metrics(follower: _Follower, watched: _Watched, attempt: str, seen: dict[int, int]) -> _Events:
    last: list[dict[str, Any]] = []
    while await follower.may():
        over = watched.over
        if watched.run is not None:
            name, found = await anyio.to_thread.run_sync(samples.following, watched.run, attempt, seen)
            attempt = name
            for one in found:
                yield _message("sample", f"{attempt} {logs.encode_seen(seen)}", one)
            if found:
                continue  # there may be more of them
            progress = await anyio.to_thread.run_sync(samples.progress, watched.run)
            if progress != last:
                last = progress
                yield _message("progress", f"{attempt} {logs.encode_seen(seen)}", progress)
        if over:
            yield _message("end", f"{attempt} {logs.encode_seen(seen)}", {})
            return
        await asyncio.sleep(1.0)
        await watched.refresh()


@get("/events", **{**rules(Access.READ), "sync_to_thread": None}, media_type=_KIND)
async def follow_jobs(request: Asked, server: Server) -> Stream:
    """Events `job` whenever one of the newest hundred jobs that one may see changes, and `notice` of what one wants to
    be told in a browser; each goes to one of those who follow. Who comes back with a
    `Last-Event-ID` is told of all of them once, so that nothing that changed meanwhile is missed."""
    again = "last-event-id" in request.headers
    asker = asker_of(request)
    until = time.monotonic() + server.settings.stream_seconds
    told = partial(notices.take_for_browser, server, asker.id)
    # A script that follows jobs does not take what a page is to show.
    return _events(server, _changes(partial(_newest, server, asker), told if asker.session else None, again, until))


def _newest(server: Server, asker: Principal) -> dict[str, Any]:
    with database.reading(server.engine) as connection:
        found = jobs.listed(connection, asker, limit=100)
    return {one.id: one for one in found}


async def _changes(
    look: Callable[[], dict[str, Any]], told: Callable[[], list[dict[str, Any]]] | None, again: bool, until: float
) -> _Events:
    known: dict[str, Any] = {} if again else await anyio.to_thread.run_sync(look)
    number, quiet = 0, time.monotonic()
    while time.monotonic() < until:
        now = await anyio.to_thread.run_sync(look)
        for name, one in now.items():
            if known.get(name) != one:
                number += 1
                quiet = time.monotonic()
                yield _message("job", str(number), one)
        known = now
        for notice in await anyio.to_thread.run_sync(told) if told is not None else ():
            number += 1
            yield _message("notice", str(number), notice)
        if time.monotonic() - quiet > _QUIET_SECONDS:
            quiet = time.monotonic()
            yield _QUIET
        await asyncio.sleep(1.0)


ROUTES = [job_logs, follow_logs, follow_metrics, follow_jobs]
