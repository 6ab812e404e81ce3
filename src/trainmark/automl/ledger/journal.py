"""The ledger on a journal file: the same words, said faster, and what belongs together in one step.

The file is in the format of Optuna's journals, and Optuna reads it. But a worker looks at and writes what belongs
together while nobody else can write, in one write instead of several, and of what others wrote it keeps only what
entries are made of.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trainmark.automl.ledger.journal_file import JournalFile
from trainmark.automl.ledger.ledger import ENDED, Ended, Entry, Ledger, State, made
from trainmark.automl.ledger.storage import connect, quiet

# Optuna's numbers of what is done, of states, and of the direction in which values are better.
_NEW_STUDY, _NEW_TRIAL, _STATE, _ATTRIBUTE = 0, 4, 6, 8
_STATES: dict[State, int] = {"running": 0, "done": 1, "pruned": 2, "failed": 3, "waiting": 4}
_NAMES = {number: name for name, number in _STATES.items()}
_MAXIMIZE = 2


class _Trial:
    """What the file says of a trial."""

    __slots__ = ("attrs", "number", "state", "values")

    def __init__(self, number: int, line: dict[str, Any]) -> None:
        self.number = number
        self.state: State = _NAMES[line.get("state", 0)]
        self.attrs: dict[str, Any] = dict(line.get("user_attrs", {}))
        value = line.get("value")
        self.values: list[float] | None = line.get("values") if value is None else [value]


class _Study:
    """What the lines of a file come to, for one of the studies in it."""

    def __init__(self, name: str) -> None:
        self.name, self.id = name, -1
        self._studies: list[str] = []
        # All trials have numbers of their own in a file; those of other studies are None.
        self.by_id: list[_Trial | None] = []
        self.ids: list[int] = []
        # Numbers of trials that are new or have changed.
        self.changed: set[int] = set()

    def apply(self, line: dict[str, Any]) -> None:
        code = line["op_code"]
        if code in (_STATE, _ATTRIBUTE):
            trial = self.by_id[line["trial_id"]] if line["trial_id"] < len(self.by_id) else None
            # As Optuna has it: what has ended stays as it is, and who runs cannot be claimed.
            if trial is None or trial.state in ENDED:
                return
            if code == _ATTRIBUTE:
                trial.attrs.update(line["user_attr"])
            elif not line["state"] == _STATES[trial.state] == _STATES["running"]:
                trial.state, trial.values = _NAMES[line["state"]], line["values"] or trial.values
            self.changed.add(trial.number)
        elif code == _NEW_TRIAL:
            self._add(line)
        elif code == _NEW_STUDY and line["study_name"] not in self._studies:
            self._studies.append(line["study_name"])
            if line["study_name"] == self.name:
                self.id = len(self._studies) - 1

    def _add(self, line: dict[str, Any]) -> None:
        if line["study_id"] >= len(self._studies):
            return
        if line["study_id"] != self.id:
            self.by_id.append(None)
            return
        trial = _Trial(len(self.ids), line)
        self.ids.append(len(self.by_id))
        self.by_id.append(trial)
        self.changed.add(trial.number)

    def trial(self, number: int) -> _Trial:
        found = self.by_id[self.ids[number]]
        if found is None:
            raise LookupError(number)
        return found


class JournalLedger(Ledger):
    def __init__(self, url: str, name: str) -> None:
        self._url, self._name = url, name
        path = Path(url.partition(":")[2])
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = JournalFile(str(path))
        self._worker = str(uuid.uuid4())
        # Of threads, one at a time reads or writes; whoever does may say more.
        self._mutex = threading.RLock()
        # What is said within `at_once`.
        self._held: Any = None
        self._forget()
        with self.at_once():
            if self._replay.id < 0:
                self._say(op_code=_NEW_STUDY, study_name=name, directions=[_MAXIMIZE])

    def _forget(self) -> None:
        self._replay, self._read = _Study(self._name), 0
        # Entries as of the last look, and the numbers of those that have not ended.
        self._known: list[Entry] = []
        self._open: set[int] = set()

    def close(self) -> None:
        self._file.lock.leave()

    # ---- what is known

    def entries(self) -> list[Entry]:
        with self._mutex:
            self._refresh()
            return self._known.copy()

    def known(self, number: int) -> Entry:
        return self._known[number] if number < len(self._known) else self.entries()[number]

    def _not_ended(self) -> list[Entry]:
        with self._mutex:
            self._refresh()
            return [self._known[number] for number in sorted(self._open)]

    def _refresh(self) -> None:
        self._sync()
        for number in sorted(self._replay.changed):
            trial = self._replay.trial(number)
            entry = made(number, trial.state, trial.attrs, trial.values)
            self._known[number : number + 1] = [entry]
            (self._open.discard if entry.ended else self._open.add)(number)
        self._replay.changed.clear()

    def _sync(self) -> None:
        """Reads what is new: nothing, while nobody else can write."""
        if self._held is None:
            lines = self._file.read_logs(self._read)
            for line in lines:
                self._replay.apply(line)
            self._read += len(lines)

    # ---- what is said

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        with self._mutex:
            if self._held is not None:
                yield
                return
            # Most of what is new is read before anybody has to wait for us.
            self._sync()
            with self._file.locked() as write:
                self._sync()
                held: list[dict[str, Any]] = []
                self._held = held
                try:
                    yield
                    if held:
                        write(held)
                        self._read += len(held)
                except BaseException:
                    if held:
                        # What was said is known here already, and to nobody else.
                        self._forget()
                    raise
                finally:
                    self._held = None

    def _say(self, **line: Any) -> None:
        """Only within `at_once`."""
        said = {**line, "worker_id": self._worker}
        self._held.append(said)
        self._replay.apply(said)

    def falls_behind(self, number: int, epoch: int, value: float, first: int, factor: int) -> bool:
        return self._optunas.falls_behind(number, epoch, value, first, factor)

    @functools.cached_property
    def _optunas(self) -> Ledger:
        """For what only Optuna can do."""
        with quiet():
            return Ledger(connect(self._url), self._name)

    # ---- in the words of the storage

    def _take(self, number: int, owner: str) -> bool:
        state, attrs = self._look(number)
        if state != "waiting" or attrs.get("owner", "") not in ("", owner):
            return False
        if attrs.get("owner") != owner:
            # First, in case only a part of this gets onto a full disk: whose it is must be known.
            self._set(number, owner=owner)
        return self._change(number, "running")

    def _look(self, number: int) -> tuple[State, dict[str, Any]]:
        with self._mutex:
            self._sync()
            trial = self._replay.trial(number)
            return trial.state, trial.attrs

    def _create(self, attrs: dict[str, Any]) -> int:
        with self.at_once():
            empty: dict[str, Any] = {"distributions": {}, "params": {}, "system_attrs": {}, "intermediate_values": {}}
            unknown = {"value": None, "values": None, "datetime_start": None}
            given = {"study_id": self._replay.id, "state": _STATES["waiting"], "user_attrs": attrs}
            self._say(op_code=_NEW_TRIAL, **given, **empty, **unknown)
            return len(self._replay.ids) - 1

    def _set(self, number: int, **attrs: Any) -> None:
        for name, value in attrs.items():
            self._say(op_code=_ATTRIBUTE, trial_id=self._changeable(number), user_attr={name: value})

    def _change(self, number: int, state: State, value: float | None = None) -> bool:
        identity, values = self._changeable(number), None if value is None else [value]
        now = datetime.now(tz=UTC).isoformat(timespec="microseconds")
        when = {"datetime_start": now} if state == "running" else {"datetime_complete": now} if state in ENDED else {}
        self._say(op_code=_STATE, trial_id=identity, state=_STATES[state], values=values, **when)
        return True

    def _changeable(self, number: int) -> int:
        if self._replay.trial(number).state in ENDED:
            raise Ended
        return self._replay.ids[number]
