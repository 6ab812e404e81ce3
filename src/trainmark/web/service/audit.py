"""The audit log: who did what, when, from where. Rows are only ever added."""

from __future__ import annotations

import time

from sqlalchemy import Connection, insert, select

from trainmark.web.service.records import AuditEntry
from trainmark.web.service.tables import audit


def note(
    connection: Connection, user: str, action: str, target: object = "", address: str = "", outcome: str = "done"
) -> None:
    """In the same transaction as what it tells of: neither is there without the other."""
    row = {"user": user, "action": action, "target": str(target), "address": address, "outcome": outcome}
    clean = {name: _plain(value) for name, value in row.items()}
    connection.execute(insert(audit).values(at=time.time(), **clean))


def entries(connection: Connection, *, before: int | None = None, limit: int = 100) -> list[AuditEntry]:
    """The newest first."""
    asked = select(audit).order_by(audit.c.id.desc()).limit(limit)
    if before is not None:
        asked = asked.where(audit.c.id < before)
    return [AuditEntry(**row) for row in connection.execute(asked).mappings()]


def _plain(text: str) -> str:
    """Nothing that a reader's terminal would obey, and no second line."""
    return "".join(char if char.isprintable() else "?" for char in text)[:200]
