"""`trainmark serve backup` and `restore`: the server's folder and database as one archive, and back.

The archive is as private as the folder: it has the server's key unless that lies elsewhere.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import stat
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Sequence
from io import FileIO
from pathlib import Path

import msgspec
from sqlalchemy.engine import URL, make_url

from trainmark.agent import private
from trainmark.errors import SiteError, UserError
from trainmark.web.home import Home
from trainmark.web.service import database

# Of PostgreSQL; SQLite's is a file like the others.
_DUMP = "database.dump"
_FOLDERS = ("sites", "runs", "files", "jobs")
_FILES = ("server.key", "server.yaml")
_PIECE, _IN_MEMORY = 1 << 20, 1 << 24


class Saved(msgspec.Struct, frozen=True):
    """The archive's bytes, and how many files went away or could not be read while it was made."""

    bytes: int
    skipped: int


def backup(home: Home, address: str | None, archive: Path) -> Saved:
    """Writes the archive, mode 0600. A server may run meanwhile: the database is copied as it was at one moment, and
    runs only ever grow."""
    if not home.path.is_dir():
        raise UserError(f"--home {home.path}: no such folder")
    if archive.exists():
        raise UserError(f"{archive}: exists already")
    part = archive.with_name(f".{archive.name}.part")
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, private.FILE)
    except FileExistsError:
        raise UserError(f"{part}: another backup is writing it; remove it if none is") from None
    except OSError as error:
        raise UserError(f"{archive}: {error.strerror}") from None
    # From here on the file is ours to remove.
    try:
        with (
            os.fdopen(handle, "wb") as out,
            tempfile.TemporaryDirectory(dir=archive.parent) as folder,
            tarfile.open(fileobj=out, mode="w:gz", compresslevel=3) as made,
        ):
            copy = _copied(home, address, Path(folder))
            made.add(copy, copy.name)
            trees = _Trees(made, folder)
            for name in (*_FILES, *_FOLDERS):
                if (home.path / name).exists():
                    trees.add(home.path / name, name)
        part.replace(archive)
        return Saved(archive.stat().st_size, trees.skipped)
    except OSError as error:
        raise UserError(f"{archive}: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)


class _Trees:
    """Puts folders into an archive while others write in them. No link is followed, also not one that a job puts in a
    folder's place meanwhile; what a job left as a device or a pipe is left out."""

    def __init__(self, made: tarfile.TarFile, folder: str) -> None:
        self._made, self._folder = made, folder
        self.skipped = 0
        # Files of several names, by all that tells one from a later one of the same number.
        self._several: dict[tuple[int, ...], str] = {}

    def add(self, top: Path, name: str) -> None:
        """Whoever set the server up may have put this one elsewhere: it is taken from there."""
        top = top.resolve()
        self._add(top, name, None)
        for place, folders, files, handle in os.fwalk(top, onerror=self._skip):
            for one in sorted((*folders, *files)):
                path = Path(place, one)
                self._add(path, str(name / path.relative_to(top)), handle)

    def _skip(self, _: OSError) -> None:
        self.skipped += 1

    def _add(self, path: Path, name: str, beside: int | None) -> None:
        here = path.name if beside is not None else str(path)
        try:
            kind = os.stat(here, dir_fd=beside, follow_symlinks=False).st_mode
            if stat.S_ISREG(kind):
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                source = FileIO(os.open(here, flags, dir_fd=beside))
            else:
                info = self._made.gettarinfo(str(path), name)
        except OSError as error:
            self._skip(error)
            return
        if stat.S_ISREG(kind):
            with source:
                self._add_file(source, name)
        elif info is not None and (info.isdir() or info.issym()):
            self._made.addfile(info)

    def _add_file(self, source: FileIO, name: str) -> None:
        """Copied before it is added: it may shrink while it is read, and its length comes first in the archive."""
        found = os.fstat(source.fileno())
        info = self._made.gettarinfo(arcname=name, fileobj=source)
        same = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        if found.st_nlink > 1 and same in self._several:
            info.type, info.linkname, info.size = tarfile.LNKTYPE, self._several[same], 0
            self._made.addfile(info)
            return
        with tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=self._folder) as copy:
            try:
                while (left := found.st_size - copy.tell()) > 0 and (piece := source.read(min(left, _PIECE))):
                    copy.write(piece)
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    raise  # of the archive's disk
                self._skip(error)
                return
            info.type, info.linkname, info.size = tarfile.REGTYPE, "", copy.tell()
            copy.seek(0)
            self._made.addfile(info, copy)
        self._several[same] = name


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
            members = found.getmembers()
            names = {one.name.split("/")[0] for one in members}
            has = _DUMP if address else home.database.name
            if has not in names or not names <= {_DUMP, home.database.name, *_FILES, *_FOLDERS}:
                raise UserError(f"{archive}: no backup of a server that keeps its data {_where(address)}")
            _check_links(archive, members)
            private.keep_folder(str(home.path))
            found.extractall(home.path, filter="tar")
    except (OSError, tarfile.TarError, EOFError, zlib.error) as error:
        # Half of a backup is none, and would stand in the way of the whole one.
        shutil.rmtree(home.path, ignore_errors=True)
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


def _check_links(archive: Path, members: Sequence[tarfile.TarInfo]) -> None:
    """A second name of a file is one of a file of this archive, and nothing of it is there twice."""
    plain = {one.name for one in members if one.isreg()}
    twice = len({one.name for one in members}) < len(members)
    if twice or any(one.islnk() and one.linkname not in plain for one in members):
        raise UserError(f"{archive}: cannot be read: it has links to files that are not in it")


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
