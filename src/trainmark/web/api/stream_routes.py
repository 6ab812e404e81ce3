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
from litestar.response import ServerSentEvent, ServerSentEventMessage

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
_QUIET_SECONDS, _CHECK_SECONDS = 15.0, 5.0
MOST_FOLLOWERS = 400
_RETRY = 1000


class _Followed:
    """A job that somebody follows: its row and files, looked up again after a while in a thread."""

    def __init__(self, server: Server, asker: Principal, job: str, rank: int | None) -> None:
        self._server, self._asker, self._job, self._rank = server, asker, job, rank
        self._until = 0.0
        self.files: dict[int, Path] = {}
        self.run: RunDir | None = None
        self.over = False

    async def refresh(self) -> None:
        if time.monotonic() < self._until:
            return
        await anyio.to_thread.run_sync(self._look)
        self._until = time.monotonic() + (_CHECK_SECONDS if self.files else 1.0)

    def hurry(self) -> None:
        """Nothing new came: it may have ended."""
        self._until = min(self._until, time.monotonic() + 1.0)

    def _look(self) -> None:
        """NotFound once the asker may not see it any more."""
        with database.reading(self._server.engine) as connection:
            row = jobs.find(connection, self._asker, self._job)
        self.over = JobState(row["state"]).ended
        self.run = jobs.run_of(self._server, row)
        if self.run is not None:
            self.files = logs.rank_files(self.run, self._rank)


def _events(server: Server, stream: AsyncIterator[ServerSentEventMessage]) -> ServerSentEvent:
    if server.followers >= MOST_FOLLOWERS:
        raise TooMany(10)

    async def counted() -> AsyncIterator[ServerSentEventMessage]:
        """For a while: who comes back after that is asked again who they are. Whoever left before the first event is
        not counted, for nobody would tell that they left."""
        until = time.monotonic() + server.settings.stream_seconds
        server.followers += 1
        try:
            while (left := until - time.monotonic()) > 0:
                yield await asyncio.wait_for(anext(stream), left)
        except (StopAsyncIteration, TimeoutError):
            return
        finally:
            server.followers -= 1

    return ServerSentEvent(counted(), headers={"x-accel-buffering": "no"})


def _message(kind: str, number: str, data: Any) -> ServerSentEventMessage:
    return ServerSentEventMessage(msgspec.json.encode(data).decode(), event=kind, id=number, retry=_RETRY)


_QUIET = ServerSentEventMessage(data="", comment="still here")


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


@get("/jobs/{job:str}/logs/stream", **{**rules(Access.READ), "sync_to_thread": None}, media_type="text/event-stream")
async def follow_logs(request: Asked, server: Server, job: JobName, rank: Rank = None) -> ServerSentEvent:
    """Events `log` (rank, start, end, text) as they are written, and `end`. `Last-Event-ID` goes on behind it."""
    followed = _Followed(server, asker_of(request), job, rank)
    await followed.refresh()
    seen = logs.decode_seen(request.headers.get("last-event-id", ""))
    return _events(server, _logs(followed, seen))


async def _logs(followed: _Followed, seen: dict[int, int]) -> AsyncIterator[ServerSentEventMessage]:
    quiet = time.monotonic()
    while True:
        over = followed.over
        found = logs.following(followed.files, seen, final=over)
        for piece in found:
            yield _message("log", logs.encode_seen(seen), piece)
        if found:
            quiet = time.monotonic()
            continue
        if over:
            yield _message("end", logs.encode_seen(seen), {})
            return
        if time.monotonic() - quiet > _QUIET_SECONDS:
            quiet = time.monotonic()
            yield _QUIET
        await asyncio.sleep(_LOOK_SECONDS)
        try:
            await followed.refresh()
        except UserError:
            return
        followed.hurry()


@get("/jobs/{job:str}/metrics/stream", **{**rules(Access.READ), "sync_to_thread": None}, media_type="text/event-stream")
async def follow_metrics(request: Asked, server: Server, job: JobName) -> ServerSentEvent:
    """Events `sample` (one line of a node's samples), `progress` (how far each round that runs is) and `end`.
    `Last-Event-ID` goes on behind it, as long as it is the same attempt."""
    followed = _Followed(server, asker_of(request), job, 0)
    await followed.refresh()
    attempt, _, seen = request.headers.get("last-event-id", "").partition(" ")
    return _events(server, _metrics(followed, attempt, logs.decode_seen(seen)))


async def _metrics(followed: _Followed, attempt: str, seen: dict[int, int]) -> AsyncIterator[ServerSentEventMessage]:
    last: list[dict[str, Any]] = []
    while True:
        over = followed.over
        if followed.run is not None:
            name, found = await anyio.to_thread.run_sync(samples.following, followed.run, attempt, seen)
            attempt = name
            for one in found:
                yield _message("sample", f"{attempt} {logs.encode_seen(seen)}", one)
            if found:
                continue  # there may be more of them
            progress = await anyio.to_thread.run_sync(samples.progress, followed.run)
            if progress != last:
                last = progress
                yield _message("progress", f"{attempt} {logs.encode_seen(seen)}", progress)
        if over:
            yield _message("end", f"{attempt} {logs.encode_seen(seen)}", {})
            return
        await asyncio.sleep(1.0)
        followed.hurry()
        try:
            await followed.refresh()
        except UserError:
            return


@get("/events", **{**rules(Access.READ), "sync_to_thread": None}, media_type="text/event-stream")
async def follow_jobs(request: Asked, server: Server) -> ServerSentEvent:
    """Events `job` whenever one of the newest hundred jobs that one may see changes, and `notice` of what one wants to
    be told in a browser; each goes to one of those who follow. Who comes back with a
    `Last-Event-ID` is told of all of them once, so that nothing that changed meanwhile is missed."""
    again = "last-event-id" in request.headers
    asker = asker_of(request)
    told = partial(notices.take_for_browser, server, asker.id)
    # A script that follows jobs does not take what a page is to show.
    return _events(server, _changes(partial(_newest, server, asker), told if asker.session else None, again))


def _newest(server: Server, asker: Principal) -> dict[str, Any]:
    with database.reading(server.engine) as connection:
        found = jobs.listed(connection, asker, limit=100)
    return {one.id: one for one in found}


async def _changes(
    look: Callable[[], dict[str, Any]], told: Callable[[], list[dict[str, Any]]] | None, again: bool
) -> AsyncIterator[ServerSentEventMessage]:
    known: dict[str, Any] = {} if again else await anyio.to_thread.run_sync(look)
    number, quiet = 0, time.monotonic()
    while True:
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
