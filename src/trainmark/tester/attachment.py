"""`tester.json` in a run's folder: which test the run belongs to.

It is written before the first round, never changed, and packed with the run. What the tester said is kept beside it,
and is no part of the run."""

from __future__ import annotations

import msgspec

from trainmark.store.files import decode, write_json
from trainmark.store.rundir import TESTER, TESTER_SAID, RunDir
from trainmark.tester.definition import Definition
from trainmark.tester.tickets import Ticket, TicketVerdict


class Attachment(msgspec.Struct, frozen=True):
    """`tester`: its public key. `key`: the name of the subject's own. `changed`: what it chose where it could."""

    url: str
    tester: str
    key: str
    ticket: Ticket
    definition: Definition
    changed: dict[str, str] = {}
    # Who vouches for the tester's certificate, where that is no authority of this machine.
    ca: str | None = None
    schema: int = 1


class Said(msgspec.Struct, frozen=True):
    """What the tester answered last: that it has the result, and what it says of it."""

    verdict: TicketVerdict | None = None
    schema: int = 1


def read(run: RunDir) -> Attachment | None:
    try:
        return decode(run.path / TESTER, Attachment)
    except FileNotFoundError:
        return None


def write(run: RunDir, made: Attachment) -> None:
    write_json(run.path / TESTER, made, durable=True)


def said(run: RunDir) -> Said | None:
    try:
        return decode(run.path / TESTER_SAID, Said)
    except FileNotFoundError:
        return None


def note(run: RunDir, made: Said) -> None:
    write_json(run.path / TESTER_SAID, made, durable=True)
