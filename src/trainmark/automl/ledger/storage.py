"""Optuna's storages, as the ledger needs them."""

from __future__ import annotations

import contextlib
import functools
import time
from pathlib import Path
from typing import Any

from trainmark.errors import SiteError

# How long a worker waits for a ledger that is away, and how often it asks.
_AWAY_SECONDS, _RETRY_SECONDS = 3600.0, 1.0


def connect(url: str) -> Any:
    """`url`: `journal:PATH` for a file that all workers see, `grpc://HOST:PORT`, or a database's URL."""
    kind, _, rest = url.partition(":")
    try:
        import optuna

        if kind == "journal":
            from trainmark.automl.ledger.journal import journal_storage

            return journal_storage(Path(rest))
        if kind == "grpc":
            host, _, port = rest.removeprefix("//").partition(":")
            return _Patient(optuna.storages.GrpcStorageProxy(host=host, port=int(port)))
    except ImportError as error:
        raise SiteError(
            f"the ledger {kind} needs a package that is not here: {error}; `pip install 'trainmark[automl]'` adds it"
        ) from None
    return _database(url)


def _database(url: str) -> Any:
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    try:
        return optuna.storages.get_storage(url)
    except ImportError:
        raise SiteError(
            f"ledger {url}: no driver for this database is here; for PostgreSQL: pip install 'psycopg[binary]'"
        ) from None
    except (SQLAlchemyError, ValueError) as error:
        # The database's own message; the text around it repeats statements.
        said = " ".join(str(getattr(error, "orig", None) or error).split())
        raise SiteError(f"ledger {url}: cannot be used: {said}") from None


def holds_password(url: str) -> bool:
    """Whether a database's URL does what it should leave to the database's own file."""
    rest, _, query = url.partition("?")
    names = {part.partition("=")[0].lower() for part in query.split("&")}
    place = rest.partition("://")[2].rpartition("@")[0]
    return ":" in place or bool(names & {"password", "passwd", "sslpassword"})


class _Patient:
    """A storage behind a connection that may be away for a while: calls wait until it is back."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._storage, name)
        return functools.partial(self._ask, found) if callable(found) else found

    @staticmethod
    def _ask(method: Any, *args: Any, **options: Any) -> Any:
        import grpc

        deadline = time.monotonic() + _AWAY_SECONDS
        while True:
            try:
                return method(*args, **options)
            except grpc.RpcError as error:
                away = error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
                if not away or time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_SECONDS)


@contextlib.contextmanager
def quiet() -> Any:
    """Optuna announces studies and experimental parts; neither is news to anybody here."""
    import warnings

    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield
