"""The server's folder: database, keys, files of users, and the runs of their jobs. Private; one server at a time."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainmark.agent import private
from trainmark.errors import SiteError, UserError
from trainmark.store.files import write_whole

_KEY_BYTES = 32
DEFAULT = Path("~/.local/share/trainmark/server")


class Home:
    """Names in the folder, in one place."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()

    @property
    def database(self) -> Path:
        return self.path / "server.db"

    @property
    def sites(self) -> Path:
        """`NAME.yaml`: the sites that jobs may name, besides this machine."""
        return self.path / "sites"

    @property
    def rules(self) -> Path:
        return self.path / "server.yaml"

    def runs(self, user: int) -> Path:
        """Each user's runs lie apart: a history or a baseline is theirs alone."""
        return self.path / "runs" / f"user{user}"

    def files(self, user: int) -> Path:
        return self.path / "files" / f"user{user}"

    def job(self, job: str) -> Path:
        """What a job was made of: its command, and the folder it works in."""
        return self.path / "jobs" / job

    @property
    def boards(self) -> Path:
        """Sockets of TensorBoards on logs of jobs that have ended."""
        return self.path / "boards"

    def handed(self, job: str) -> Path:
        """Secrets that a job was given, while it has not ended. No backup has them."""
        return self.path / "handed" / job

    def prepare(self) -> None:
        """The folders, made if need be; UserError where another account could have written."""
        try:
            private.keep_folder(str(self.path))
            for name in ("sites", "runs", "files", "jobs", "handed", "boards"):
                private.keep_folder(str(self.path / name))
        except OSError as error:
            raise UserError(f"--home {self.path}: cannot be used: {error.strerror}") from None

    def key(self, other: Path | None = None) -> bytes:
        """The server's key: of a file that was named, else its own, made at the first start."""
        file = other or self.path / "server.key"
        if other is None and not file.exists():
            write_whole(file, secrets.token_bytes(_KEY_BYTES), durable=True, mode=private.FILE)
        try:
            info = file.stat()
            found = file.read_bytes()
        except OSError as error:
            raise UserError(f"key {file}: {error.strerror}") from None
        if info.st_mode & 0o077:
            raise UserError(f"key {file}: others may read it; `chmod 600 {file}`")
        if len(found) < _KEY_BYTES:
            raise UserError(f"key {file}: found {len(found)} bytes, needed are {_KEY_BYTES}")
        return found

    @contextmanager
    def served(self) -> Iterator[None]:
        """Holds the folder for one server; SiteError when another has it."""
        handle = os.open(self.path / "server.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, private.FILE)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise SiteError(f"--home {self.path}: another server works with this folder") from None
            yield
        finally:
            os.close(handle)
