"""What the loop asks of its surroundings. Only for type checkers and readers: nothing here runs."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from trainmark.launch.protocol import Ended
from trainmark.plan.records import CasePlan, RoundRef
from trainmark.run.judge import Judged
from trainmark.store.journal import Record


class Writer(Protocol):
    """The journal, as far as the loop needs it."""

    def append(self, kind: str, **fields: object) -> Record: ...


class Switch(Protocol):
    """Whether somebody wants the run to stop: 0 no, 1 with grace, 2 at once."""

    @property
    def reason(self) -> str: ...

    def level(self) -> int: ...


class Judge(Protocol):
    """Looks at the events of an attempt that ended well, before its end is written down."""

    def __call__(self, case: CasePlan, ref: RoundRef, attempt_dir: Path, /) -> Judged: ...


class View(Protocol):
    """Somebody who watches the loop: the terminal, a log, nobody."""

    def started(self, case: CasePlan, ref: RoundRef, attempt: int) -> None: ...
    def tick(self, attempt_dir: Path) -> None: ...
    def ended(self, case: CasePlan, ref: RoundRef, ended: Ended) -> None: ...
    def note(self, text: str) -> None: ...
