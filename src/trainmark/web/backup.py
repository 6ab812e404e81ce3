"""`trainmark serve backup` and `restore`: the server's folder and database as one archive, and back.

The archive is as private as the folder: it has the server's key unless that lies elsewhere.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy.engine import URL, make_url

from trainmark.agent import private
from trainmark.errors import SiteError, UserError
from trainmark.web.home import Home
from trainmark.web.service import database

# Of PostgreSQL; SQLite's is a file like the others.
_DUMP = "database.dump"
_FOLDERS = ("sites", "runs", "files", "jobs")
_FILES = ("server.key", "server.yaml")


def backup(home: Home, address: str | None, archive: Path) -> int:
    """Writes the archive, mode 0600; returns its bytes. A server may run meanwhile: the database is copied as it was at
    one moment, and runs only ever grow."""
    if not home.path.is_dir():
        raise UserError(f"--home {home.path}: no such folder")
    if archive.exists():
        raise UserError(f"{archive}: exists already")
    part = archive.with_name(f".{archive.name}.part")
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, private.FILE)
        with (
            tempfile.TemporaryDirectory(dir=archive.parent) as folder,
            os.fdopen(handle, "wb") as out,
            tarfile.open(fileobj=out, mode="w:gz", compresslevel=3) as made,
        ):
            copy = _copied(home, address, Path(folder))
            made.add(copy, copy.name)
            for name in (*_FILES, *_FOLDERS):
                if (home.path / name).exists():
                    made.add(home.path / name, name, filter=_plain)
        part.replace(archive)
    except FileNotFoundError as error:
        raise UserError(f"{archive}: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)
    return archive.stat().st_size


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Files, folders, and links as links; what a job left as a device or a pipe is left out."""
    return info if info.isfile() or info.isdir() or info.issym() else None


def _copied(home: Home, address: str | None, folder: Path) -> Path:
    if address:
        file = folder / _DUMP
        _postgres("pg_dump", address, "--format=custom", "--no-owner", f"--file={file}")
        return file
    file = folder / home.database.name
    source, target = sqlite3.connect(f"file:{home.database}?mode=ro", uri=True), sqlite3.connect(file)
    try:
        source.backup(target)
    except sqlite3.Error as error:
        raise SiteError(f"the database cannot be used: {error}") from None
    finally:
        source.close()
        target.close()
    return file


def restore(archive: Path, home: Home, address: str | None) -> None:
    """Into a folder that is not there yet. The schema is brought up to date, as at every start."""
    if home.path.exists() and any(home.path.iterdir()):
        raise UserError(f"--home {home.path}: is not empty; a backup is restored into a new folder")
    try:
        with tarfile.open(archive, "r:gz") as found:
            names = {one.name.split("/")[0] for one in found.getmembers()}
            has = _DUMP if address else home.database.name
            if has not in names or not names <= {_DUMP, home.database.name, *_FILES, *_FOLDERS}:
                raise UserError(f"{archive}: no backup of a server that keeps its data {_where(address)}")
            private.keep_folder(str(home.path))
            found.extractall(home.path, filter="tar")
    except (OSError, tarfile.TarError) as error:
        raise UserError(f"{archive}: cannot be read: {error}") from None
    home.path.chmod(private.FOLDER)
    for name in (home.database.name, "server.key"):
        if (home.path / name).is_file():
            (home.path / name).chmod(private.FILE)
    if address:
        _postgres("pg_restore", address, "--no-owner", "--exit-on-error", str(home.path / _DUMP))
        (home.path / _DUMP).unlink()
    engine = database.connect(address) if address else database.of_file(home.database)
    database.migrate(engine)
    engine.dispose()


def _where(address: str | None) -> str:
    return "in PostgreSQL" if address else "in its folder"


def _postgres(program: str, address: str, *more: str) -> None:
    """PostgreSQL's own programs; they find a password where they always do, never among arguments."""
    found = shutil.which(program)
    if found is None:
        raise SiteError(f"`{program}` is not here; it comes with PostgreSQL's client")
    made = subprocess.run([found, *_target(make_url(address)), *more], capture_output=True, text=True)
    if made.returncode:
        raise SiteError(f"{program}: {made.stderr.strip().partition(chr(10))[0]}")


def _target(url: URL) -> Sequence[str]:
    host = url.host or str(url.query.get("host", ""))
    found = [f"--dbname={url.database or ''}"]
    found += [f"--username={url.username}"] if url.username else []
    found += [f"--host={host}"] if host else []
    return found + ([f"--port={url.port}"] if url.port else [])
