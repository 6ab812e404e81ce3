"""The subject: takes a test, says how far it is, and reports. A tester that is away delays only the report."""

from __future__ import annotations

import contextlib
import os
import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from trainmark import __version__
from trainmark.errors import UserError
from trainmark.launch.protocol import Ended
from trainmark.plan.records import CasePlan, Plan, RoundRef
from trainmark.reasons import Reason, reason
from trainmark.run import session
from trainmark.run.observers import Observer
from trainmark.spec.yamlfile import Location
from trainmark.store.rundir import RunDir
from trainmark.tester import attachment
from trainmark.tester.attachment import Attachment, Said
from trainmark.tester.client import Away, Link, RefusedByTester
from trainmark.tester.definition import Definition, check
from trainmark.tester.server import Told
from trainmark.tester.tickets import Heartbeat, Ticket, TicketVerdict
from trainmark.trust import keys, pack

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

# How long a question is repeated to a tester that does not answer, and how long a verdict is waited for.
# Nobody waits long for an address that may be wrong.
PATIENCE_SECONDS, SHORT_SECONDS = 30.0, 3.0
VERDICT_SECONDS = 600.0
_LOOK_SECONDS = 0.5
_MOST_PAUSE = 5.0
T = TypeVar("T")


def definition(link: Link) -> Definition:
    """What the tester wants to be run. UserError when this trainmark cannot run it as the tester would recompute it."""
    answer = _patiently(lambda: link.ask("/v1/definition", {}), SHORT_SECONDS)
    # First of all: a definition of another version may have fields that this one does not know.
    version = answer.get("trainmark") if isinstance(answer, dict) else None
    if version != __version__:
        raise UserError(f"--tester {link.url}: the tester has trainmark {version}, this is {__version__}; install that")
    told = msgspec.convert(answer, Told)
    check(told.definition, Location(f"test {told.definition.test}"))
    return told.definition


def take(link: Link) -> Ticket:
    """From now on the test is taken, whatever comes of it. Where the answer is lost, the same is asked again."""
    asked = os.urandom(16).hex()
    return _patiently(lambda: msgspec.convert(link.ask("/v1/tickets", {"asked": asked}), Ticket))


def attach(
    run: RunDir, link: Link, key: str, ticket: Ticket, test: Definition, changed: dict[str, str], ca: str | None
) -> None:
    """Before the first round: the run belongs to that ticket."""
    attachment.write(run, Attachment(link.url, link.tester, key, ticket, test, changed, ca))


def link_of(made: Attachment, passphrase: str | None = None) -> Link:
    return Link(made.url, made.tester, keys.load(made.key, passphrase), made.ca)


def _patiently(call: Callable[[], T], seconds: float = PATIENCE_SECONDS) -> T:
    deadline, pause = time.monotonic() + seconds, 0.2
    while True:
        try:
            return call()
        except Away:
            if time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        pause = min(_MOST_PAUSE, 2 * pause)


class Heartbeats(Observer):
    """Tells the tester how far the run is, from a thread of its own: the run never waits for it."""

    def __init__(self, run: RunDir, plan: Plan, made: Attachment, link: Link) -> None:
        self._link, self._target = link, f"/v1/tickets/{made.ticket.ticket}/heartbeat"
        self._every = made.definition.limits.heartbeat_seconds
        self._tell: Callable[[Reason], None] = lambda _: None
        self._news: queue.SimpleQueue[Reason] = queue.SimpleQueue()
        self._run, self._rounds, self._case = run.id, len(plan.order), ""
        self._over = _ended(run, plan)
        self.away = False
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    def telling(self, tell: Callable[[Reason], None]) -> Heartbeats:
        """`tell`: who hears of a tester that is away, or back, in the thread of the run."""
        self._tell = tell
        return self

    def started(self, case: CasePlan, ref: RoundRef, attempt: int) -> None:
        del ref, attempt
        self._case = case.case

    def ended(self, case: CasePlan, ref: RoundRef, ended: Ended) -> None:
        del case, ref, ended
        self._over += 1

    def tick(self, attempt_dir: Path) -> None:
        del attempt_dir
        with contextlib.suppress(queue.Empty):
            while True:
                self._tell(self._news.get_nowait())

    def close(self) -> None:
        self._left.set()
        self._thread.join()

    def _beat(self) -> None:
        while True:
            state = "ended" if self._left.is_set() else "running"
            beat = Heartbeat(self._run[:200], state, self._rounds, min(self._over, self._rounds), self._case[:200])
            try:
                self._link.ask(self._target, beat)
                if self.away:
                    self._news.put(reason("tester-back"))
                self.away = False
            except (Away, RefusedByTester) as error:
                if not self.away:
                    self._news.put(reason("tester-away", why=str(error)))
                self.away = True
            if self._left.wait(self._every) and state == "ended":
                return


def _ended(run: RunDir, plan: Plan) -> int:
    state = session.state_of(run, plan)
    return sum(state.is_over(ref) for ref in plan.order)


def report(
    run: RunDir, made: Attachment, link: Link, key: Ed25519PrivateKey, patience: float = PATIENCE_SECONDS
) -> Said:
    """Packs the run, sends it and waits for the verdict; may be done again. Away when the tester is."""
    target = f"/v1/tickets/{made.ticket.ticket}"
    answer = _patiently(lambda: link.ask(f"{target}/verdict", {}), patience)
    if not answer["received"]:
        with _packed(run, key) as file:
            size, most = file.stat().st_size, made.definition.limits.bundle_mb << 20
            if size > most:
                raise UserError(f"{run.id}: its bundle has {size:,} bytes, the test allows {most:,}; ask the tester")
            answer = _patiently(lambda: link.upload(f"{target}/result", file))
    deadline = time.monotonic() + VERDICT_SECONDS
    while answer["verdict"] is None and time.monotonic() < deadline:
        attachment.note(run, Said())
        time.sleep(_LOOK_SECONDS)
        answer = _patiently(lambda: link.ask(f"{target}/verdict", {}))
    said = Said(None if answer["verdict"] is None else msgspec.convert(answer["verdict"], TicketVerdict))
    attachment.note(run, said)
    return said


@contextlib.contextmanager
def _packed(run: RunDir, key: Ed25519PrivateKey) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="trainmark-report-") as folder:
        file = Path(folder) / "result.tmk"
        pack.pack([run], file, key=key)
        yield file


def attached(run: RunDir) -> Attachment:
    """UserError for a run that belongs to no test."""
    found = attachment.read(run)
    if found is None:
        raise UserError(f"run {run.id} belongs to no test; `trainmark run --tester URL` takes one")
    return found
