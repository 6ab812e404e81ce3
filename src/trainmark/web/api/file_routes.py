"""Files of jobs and of users, with ranges and uploads that go on where they broke off."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Annotated
from urllib.parse import quote

import anyio.to_thread
import msgspec
from litestar import delete, get, put
from litestar.exceptions import HTTPException
from litestar.params import Parameter
from litestar.response import Stream

from trainmark.web.api.access import Access, rules
from trainmark.web.api.account_routes import Asked, asker_of
from trainmark.web.api.job_routes import JobName
from trainmark.web.server import Server
from trainmark.web.service import database, files, job_plans, jobs
from trainmark.web.service.errors import NotFound
from trainmark.web.service.files import FileInfo

# Of one piece of an upload; a file may have any number of them.
_LARGEST_PIECE = 16 << 20
_LARGEST_FILE = files.QUOTA


class JobFiles(msgspec.Struct, frozen=True):
    """`run`: of the run; `work`: what a command left in the folder it worked in."""

    run: list[FileInfo]
    work: list[FileInfo]


class Uploaded(msgspec.Struct, frozen=True):
    path: str
    bytes: int


class BadRange(HTTPException):
    status_code = 416


def _range(header: str, size: int) -> tuple[int, int] | None:
    """From where to where, end excluded; None: all of it. One range, as every client asks for."""
    if not header:
        return None
    found = re.fullmatch(r"bytes=(\d{0,18})-(\d{0,18})", header.strip(), re.ASCII)
    if found is None or found[1] == found[2] == "":
        return None  # so says the standard: what is not understood is passed over
    if not found[1]:
        start, end = max(0, size - int(found[2])), size
    else:
        start, end = int(found[1]), min(size, int(found[2]) + 1 if found[2] else size)
    if start >= size or end <= start:
        raise BadRange(f"the file has {size} bytes")
    return start, end


def _send(request: Asked, handle: int, name: str) -> Stream:
    """Never shown by a browser in place: what a job wrote may be a page with a script."""
    size = os.fstat(handle).st_size
    try:
        asked = _range(request.headers.get("range", ""), size)
    except BadRange:
        os.close(handle)
        raise
    start, end = asked or (0, size)
    headers = {
        "content-disposition": f"attachment; filename*=UTF-8''{quote(name.rpartition('/')[2], safe='')}",
        "accept-ranges": "bytes",
        "content-length": str(end - start),
        "content-security-policy": "default-src 'none'; sandbox",
    }
    if asked is not None:
        headers["content-range"] = f"bytes {start}-{end - 1}/{size}"
    status = 200 if asked is None else 206
    return Stream(
        _pieces(handle, start, end), status_code=status, headers=headers, media_type="application/octet-stream"
    )


def _pieces(handle: int, start: int, end: int) -> Iterator[bytes]:
    try:
        while start < end:
            data = os.pread(handle, min(files.PIECE, end - start), start)
            if not data:
                break
            start += len(data)
            yield data
    finally:
        os.close(handle)


@get("/jobs/{job:str}/files", **rules(Access.READ))
def list_job_files(request: Asked, server: Server, job: JobName) -> JobFiles:
    """What a job left."""
    with database.reading(server.engine) as connection:
        row = jobs.find(connection, asker_of(request), job)
    run = jobs.run_of(server, row)
    work = server.home.job(row["id"]) / job_plans.WORK
    return JobFiles(files.listed(run.path, of_run=True) if run else [], files.listed(work))


@get("/jobs/{job:str}/files/run/{path:path}", **rules(Access.READ))
def get_run_file(request: Asked, server: Server, job: JobName, path: str) -> Stream:
    """One file of a job's run, or a range of it."""
    run = jobs.need_run(server, asker_of(request), job)
    if not files.shown_of_run(path):
        raise NotFound("no such file")
    return _send(request, files.open_below(run.path, path), path)


@get("/jobs/{job:str}/files/work/{path:path}", **rules(Access.READ))
def get_work_file(request: Asked, server: Server, job: JobName, path: str) -> Stream:
    """One file that a job's command left, or a range of it."""
    with database.reading(server.engine) as connection:
        row = jobs.find(connection, asker_of(request), job)
    return _send(request, files.open_below(server.home.job(row["id"]) / job_plans.WORK, path), path)


@get("/files", **rules(Access.READ))
def list_files(request: Asked, server: Server) -> list[FileInfo]:
    """One's own files."""
    return files.listed(server.home.files(asker_of(request).id))


@get("/files/{path:path}", **rules(Access.READ))
def get_file(request: Asked, server: Server, path: str) -> Stream:
    """One of one's own files, or a range of it."""
    top = server.home.files(asker_of(request).id)
    if not top.is_dir():
        raise NotFound("no such file")
    return _send(request, files.open_below(top, path), path)


@get("/uploads/{path:path}", **rules(Access.SUBMIT))
def get_upload(request: Asked, server: Server, path: str) -> Uploaded:
    """How much of an upload has arrived."""
    return Uploaded(path.strip("/"), files.uploaded(server.home.files(asker_of(request).id), path))


@put("/uploads/{path:path}", **{**rules(Access.SUBMIT), "sync_to_thread": None}, request_max_body_size=_LARGEST_PIECE)
async def put_upload(
    request: Asked,
    server: Server,
    path: str,
    start: Annotated[int, Parameter(ge=0, le=_LARGEST_FILE)] = 0,
    total: Annotated[int | None, Parameter(ge=0, le=_LARGEST_FILE)] = None,
) -> Uploaded:
    """One piece of a file, as the body: from byte `start` of `total` (default: the piece is the file)."""

    data = await request.body()
    whole = len(data) + start if total is None else total
    top = server.home.files(asker_of(request).id)
    there = await anyio.to_thread.run_sync(files.append, top, path, start, whole, data)
    return Uploaded(path.strip("/"), there)


@delete("/files/{path:path}", **rules(Access.SUBMIT))
def remove_file(request: Asked, server: Server, path: str) -> None:
    """Remove one of one's own files."""
    top = server.home.files(asker_of(request).id)
    if not top.is_dir():
        raise NotFound("no such file")
    files.remove(top, path)


ROUTES = [
    list_job_files,
    get_run_file,
    get_work_file,
    list_files,
    get_file,
    get_upload,
    put_upload,
    remove_file,
]
