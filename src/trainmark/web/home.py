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

    def prepare(self) -> None:
        """The folders, made if need be; UserError where another account could have written."""
        try:
            private.keep_folder(str(self.path))
            for name in ("sites", "runs", "files", "jobs"):
                private.keep_folder(str(self.path / name))
        except OSError as error:
            raise UserError(f"--home {self.path}: cannot be used: {error.strerror}") from None

    def key(self) -> bytes:
        """The server's own key, made at the first start. Secrets of users are encrypted with it."""
        file = self.path / "server.key"
        if not file.exists():
            write_whole(file, secrets.token_bytes(32), durable=True, mode=private.FILE)
        return file.read_bytes()

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
