"""Failed sign-ins: after a few for one name, or many from one address, no further attempt is looked at for a while."""

from __future__ import annotations

import time

from sqlalchemy import Connection, delete, insert, select, update

from trainmark.web.service.errors import TooMany
from trainmark.web.service.tables import failures

# Failures before the first lock, by what is counted; names are counted whether or not there is such a user.
_FREE = {"name": 5, "address": 30}
_FIRST_SECONDS, _LONGEST_SECONDS = 30.0, 900.0
# After so long without a failure the count begins again.
_FORGET_SECONDS = 3600.0


def check(connection: Connection, name: str, address: str, now: float | None = None) -> None:
    """TooMany while either is locked."""
    now = time.time() if now is None else now
    asked = select(failures.c.until).where(failures.c.key.in_(_keys(name, address)))
    until = max((row.until for row in connection.execute(asked)), default=0.0)
    if until > now:
        raise TooMany(until - now)


def failed(connection: Connection, name: str, address: str, now: float | None = None) -> None:
    now = time.time() if now is None else now
    for key in _keys(name, address):
        row = connection.execute(select(failures).where(failures.c.key == key)).mappings().first()
        count = 1 if row is None or now - row["last"] > _FORGET_SECONDS else row["count"] + 1
        over = count - _FREE[key.partition(":")[0]]
        until = now + min(_FIRST_SECONDS * 2 ** min(over, 20), _LONGEST_SECONDS) if over >= 0 else 0.0
        values = {"count": count, "last": now, "until": until}
        if row is None:
            connection.execute(insert(failures).values(key=key, **values))
        else:
            connection.execute(update(failures).where(failures.c.key == key).values(**values))


def succeeded(connection: Connection, name: str, address: str) -> None:
    """The name's count begins again. That of the address does not: who knows one password could else guess others."""
    connection.execute(delete(failures).where(failures.c.key == _keys(name, address)[0]))
    connection.execute(delete(failures).where(failures.c.last < time.time() - 2 * _FORGET_SECONDS))


def _keys(name: str, address: str) -> tuple[str, str]:
    return f"name:{name[:100]}", f"address:{address[:100]}"
