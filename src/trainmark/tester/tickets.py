"""The tester's folder: who took the test and when, what was heard of them, results and verdicts.

DIR/messages.jsonl           which messages were heard, so that none is heard twice
DIR/tickets/ID/ticket.json   heard.json   result.tmk   tries.json   verdict.json
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from trainmark.agent import private
from trainmark.agent.digests import of_file
from trainmark.errors import UserError
from trainmark.reasons import reason
from trainmark.run.planning import random_seed
from trainmark.store.files import Damaged, decode, write_json
from trainmark.tester.definition import Limits
from trainmark.tester.messages import Refused
from trainmark.trust.records import Finding

T = TypeVar("T")
MESSAGES = "messages.jsonl"
_TICKETS = "tickets"
_TICKET, _HEARD, RESULT, _VERDICT = "ticket.json", "heard.json", "result.tmk", "verdict.json"
_TRIES = "tries.json"
_Short = Annotated[str, Meta(max_length=200)]
_Count = Annotated[int, Meta(ge=0, le=1 << 40)]


class Ticket(msgspec.Struct, frozen=True):
    """A subject takes a test once with each. The tester draws the seed, so no run from before can be its result."""

    ticket: str
    test: str
    seed: int
    issued: float
    until: float


class Issued(msgspec.Struct, frozen=True):
    """A ticket as the tester keeps it. `asked`: the subject's own name for its question, which may be repeated."""

    ticket: Ticket
    subject: str
    asked: str


class Heartbeat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a run is."""

    run: _Short
    state: _Short
    rounds: _Count
    ended: _Count
    case: _Short = ""


class Heard(msgspec.Struct, frozen=True):
    """What came of heartbeats so far. `silence`: the longest time without one, in seconds."""

    count: int
    first: float
    last: float
    silence: float
    beat: Heartbeat


class TicketVerdict(msgspec.Struct, frozen=True):
    """What the tester says of a result. `figures`: as the tester computed them from the events."""

    ticket: str
    test: str
    bundle: str
    accepted: bool
    findings: list[Finding]
    figures: list[dict[str, Any]]
    received: float


class Row(msgspec.Struct, frozen=True):
    """A ticket with all that is known of it."""

    issued: Issued
    heard: Heard | None
    received: bool
    verdict: TicketVerdict | None


class Tickets:
    """All tickets of a tester. May be used from any thread."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self.folder, self.clock = folder, clock
        self._lock = threading.Lock()
        for one in (folder.absolute(), folder.absolute() / _TICKETS):
            try:
                private.keep_folder(str(one))
            except OSError as error:
                raise UserError(f"--dir {one}: cannot be used: {error.strerror}") from None

    def rows(self, broken: Callable[[Damaged], None] = lambda _: None) -> list[Row]:
        """Oldest first. A ticket that cannot be read is told to `broken`, and hides no other."""
        found = []
        for one in (self.folder / _TICKETS).iterdir():
            try:
                found += [row for row in (self.row(one.name),) if row is not None]
            except Damaged as damaged:
                broken(damaged)
        return sorted(found, key=lambda row: row.issued.ticket.issued)

    def row(self, ticket: str) -> Row | None:
        folder = self._place(ticket)
        issued = _read(folder / _TICKET, Issued)
        if issued is None:
            return None
        heard, verdict = _heard(folder / _HEARD), _read(folder / _VERDICT, TicketVerdict)
        return Row(issued, heard, (folder / RESULT).is_file(), verdict)

    def take(self, subject: str, asked: str, test: str, limits: Limits) -> Ticket:
        """A new ticket, or the one that this question got before; Refused when there are no more."""
        with self._lock:
            own = [
                row.issued for row in self.rows() if row.issued.subject == subject and row.issued.ticket.test == test
            ]
            for one in own:
                if one.asked == asked:
                    return one.ticket
            if len(own) >= limits.runs:
                raise Refused(409, reason("tester-no-more-runs", most=limits.runs))
            now = self.clock()
            made = Ticket(secrets.token_hex(16), test, random_seed(), now, now + limits.hours * 3600)
            folder = self._place(made.ticket)
            folder.mkdir(0o700)
            write_json(folder / _TICKET, Issued(made, subject, asked), durable=True)
            for changed in (folder, folder.parent):
                _to_disk(changed)
            return made

    def of(self, subject: str, ticket: str) -> Row:
        """Refused unless the ticket is this subject's."""
        row = self.row(ticket)
        if row is None or row.issued.subject != subject:
            raise Refused(404, reason("tester-no-such-ticket"))
        return row

    def beat(self, row: Row, beat: Heartbeat) -> None:
        now, file = self.clock(), self._place(row.issued.ticket.ticket) / _HEARD
        with self._lock:
            last = _heard(file)
            silence = max(last.silence, now - last.last) if last is not None else 0.0
            count, first = (last.count + 1, last.first) if last is not None else (1, now)
            write_json(file, Heard(count, first, now, silence, beat))

    def keep(self, row: Row, part: Path) -> None:
        """A result that is here in full, from now on also when the power fails: the subject is told so, and may remove
        its own. The first one stays; another one in its place is refused."""
        target = self._place(row.issued.ticket.ticket) / RESULT
        _to_disk(part)
        with self._lock:
            try:
                os.link(part, target)
            except FileExistsError:
                if of_file(str(target)) != of_file(str(part)):
                    raise Refused(409, reason("tester-other-result")) from None
        _to_disk(target.parent)

    def new_part(self, ticket: str) -> Path:
        """Where a result lies while it comes in."""
        return self._place(ticket) / f".{secrets.token_hex(8)}.part"

    def clear(self) -> None:
        """Removes what a tester that was killed had received in part."""
        for part in (self.folder / _TICKETS).glob("*/.*.part"):
            part.unlink(missing_ok=True)

    def result(self, ticket: str) -> Path:
        return self._place(ticket) / RESULT

    def tries(self, ticket: str) -> Path:
        """Says how often judging was begun, and did not come to a verdict."""
        return self._place(ticket) / _TRIES

    def begin_judging(self, ticket: str, most: int) -> bool:
        """Whether to try it. Counted before, on disk: what ends the tester itself is not tried for ever, either."""
        before = _read(self.tries(ticket), int) or 0
        if before < most:
            write_json(self.tries(ticket), before + 1, durable=True)
        return before < most

    def conclude(self, verdict: TicketVerdict) -> None:
        write_json(self._place(verdict.ticket) / _VERDICT, verdict, durable=True)
        self.tries(verdict.ticket).unlink(missing_ok=True)

    def _place(self, ticket: str) -> Path:
        return self.folder / _TICKETS / ticket


def at(folder: Path) -> Tickets:
    """Those of a folder that is there."""
    if not (folder / _TICKETS).is_dir():
        raise UserError(f"--dir {folder}: no tester has worked here; `trainmark tester serve` makes one")
    return Tickets(folder)


def _to_disk(path: Path) -> None:
    """Waits until a file, or the list of names in a folder, is on the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return decode(path, kind)
    except FileNotFoundError:
        return None


def _heard(path: Path) -> Heard | None:
    """It is not forced to the disk, so a power failure may leave half of it: then heartbeats are counted anew."""
    try:
        return _read(path, Heard)
    except Damaged:
        return None
