"""The database: SQLite in the server's folder, or PostgreSQL by its address. Migrated at every start."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from trainmark.errors import SiteError, UserError

# As many as the web framework has.
_THREADS = 40
_MIGRATIONS = Path(__file__).resolve().parent.parent / "migrations"


def connect(address: str) -> Engine:
    """`sqlite:///FILE` or `postgresql://USER@HOST/NAME`; nothing is read yet."""
    try:
        url = make_url(address)
    except ArgumentError:
        raise UserError("--database: allowed is postgresql://USER@HOST/NAME or sqlite:///FILE") from None
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise UserError(f"--database: found `{url.get_backend_name()}`, allowed is postgresql or sqlite")
    try:
        # One for each thread that answers requests: making one takes longer than most questions.
        more: dict[str, Any] = {"pool_size": _THREADS, "max_overflow": 8}
        if url.get_backend_name() == "postgresql":
            # A database in SQL_ASCII, as `initdb` makes it without a locale, would answer with bytes.
            more |= {"pool_pre_ping": True, "connect_args": {"client_encoding": "utf8"}}
        engine = create_engine(url, **more)
    except ImportError as error:
        raise UserError(f"--database: {error}; `pip install 'trainmark[web]'` adds what is needed") from None
    if url.get_backend_name() == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def of_file(file: Path) -> Engine:
    return connect(f"sqlite:///{file}")


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """One consistent look."""
    with engine.connect() as connection:
        yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction: all of it, or nothing when an error is raised."""
    with engine.connect().execution_options(**{_WRITES: True}) as connection, connection.begin():
        yield connection


_WRITES = "trainmark_writes"


def _begin_sqlite(connection: Connection) -> None:
    """SQLite has one writer. Who will write says so at once, and waits; who found out later would have to give up."""
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get(_WRITES) else "BEGIN")


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    """WAL: readers never wait for the writer. `secure_delete`: what was removed is gone from the file."""
    connection.isolation_level = None  # transactions begin where `_begin_sqlite` says
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=10000", "secure_delete=ON"):
        connection.execute(f"PRAGMA {pragma}")


def migrate(engine: Engine) -> None:
    """To the newest schema, from whichever it has; SiteError when it cannot be reached or is of a newer version."""
    made = Config()
    made.set_main_option("script_location", str(_MIGRATIONS))
    try:
        with writing(engine) as connection:
            made.attributes["connection"] = connection
            command.upgrade(made, "head")
    except SQLAlchemyError as error:
        raise SiteError(f"the database cannot be used: {_brief(error)}") from None
    except Exception as error:
        # So alembic says that it does not know the schema's version.
        if type(error).__name__ != "CommandError":
            raise
        raise SiteError(f"the database is of another version of trainmark: {error}") from None


def is_ready(engine: Engine) -> bool:
    try:
        with engine.connect() as connection:
            connection.execute(text("SELECT 1"))
        return True
    except SQLAlchemyError:
        return False


def _brief(error: SQLAlchemyError) -> str:
    """The first line: what follows repeats the statement and its values."""
    return str(getattr(error, "orig", None) or error).partition("\n")[0]
