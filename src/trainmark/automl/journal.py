"""The ledger on a journal file: the same words, said faster, and what belongs together in one step.

The file is Optuna's, and Optuna reads it. What belongs together is looked at and written while nobody else can write,
in one write instead of several, and entries that did not change are not made again. That takes parts of Optuna's
storage which it does not promise to keep: `fits` says whether they are there.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from trainmark.automl.ledger import Entry, Ledger
from trainmark.automl.lock import Lock

_STORAGE = ("_thread_lock", "_backend", "_replay_result", "_sync_with_backend", "_write_log")
_REPLAYED = ("_trials", "_study_id_to_trial_ids", "worker_id")


def fits(storage: Any) -> bool:
    """Whether it is a journal, of an Optuna whose inner parts are known here."""
    if not all(hasattr(storage, name) for name in _STORAGE):
        return False
    locked = isinstance(getattr(storage._backend, "_lock", None), Lock)
    return locked and all(hasattr(storage._replay_result, name) for name in _REPLAYED)


class JournalLedger(Ledger):
    """With a storage that `fits`, which it takes for itself."""

    def __init__(self, storage: Any, name: str) -> None:
        super().__init__(storage, name)
        self._lock = storage._backend._lock
        # Storage methods are called while it is held.
        storage._thread_lock = threading.RLock()
        self._write = storage._write_log
        storage._write_log = self._write_or_hold
        # What is held back to be written together.
        self._held: list[dict[str, Any]] | None = None
        # Entries up to the first that has not ended; the others with the trials that they were made of.
        self._settled: list[Entry] = []
        self._open: dict[int, tuple[Any, Entry]] = {}

    def entries(self) -> list[Entry]:
        found, fresh = self._settled.copy(), {}
        for trial in self._trials_from(len(found)):
            known = self._open.get(trial.number)
            # A trial that changes is replaced by another object.
            entry = known[1] if known is not None and known[0] is trial else self._entry(trial)
            if entry.ended and len(self._settled) == entry.number:
                self._settled.append(entry)
            else:
                fresh[entry.number] = trial, entry
            found.append(entry)
        self._open = fresh
        return found

    def _trials_from(self, number: int) -> list[Any]:
        """Optuna's own way walks through all trials, which takes longer than everything else in a hand-over."""
        with self._storage._thread_lock:
            self._storage._sync_with_backend()
            replayed = self._storage._replay_result
            return [replayed._trials[identity] for identity in replayed._study_id_to_trial_ids[self._id][number:]]

    def _take(self, identity: int, owner: str) -> bool:
        trial, states = self._storage._replay_result._trials[identity], self._optuna.trial.TrialState
        known = trial.user_attrs.get("owner", "")
        if trial.state != states.WAITING or known not in ("", owner):
            return False
        self._storage.set_trial_state_values(identity, state=states.RUNNING)
        if known != owner:
            self._set(identity, owner=owner)
        return True

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with self._storage._thread_lock:
            self._lock.acquire()
            try:
                self._storage._sync_with_backend()
                logs: list[dict[str, Any]] = []
                with self._holding(logs):
                    yield
            finally:
                self._lock.release()
            self._read_back(len(logs))

    @contextlib.contextmanager
    def _together(self) -> Iterator[None]:
        with self._storage._thread_lock:
            logs: list[dict[str, Any]] = []
            with self._holding(logs):
                yield
            self._read_back(len(logs))

    @contextlib.contextmanager
    def _holding(self, logs: list[dict[str, Any]]) -> Iterator[None]:
        """Writes what was said within, all at once; nothing on an error."""
        self._held = logs
        try:
            yield
        finally:
            self._held = None
        if logs:
            self._storage._backend.append_logs(logs)

    def _read_back(self, written: int) -> None:
        """UpdateFinishedTrialError if the trial had ended before. Each refusal ends the reading: none must be left for
        the next who reads."""
        refused = None
        for _ in range(written):
            try:
                self._storage._sync_with_backend()
                break
            except self._optuna.exceptions.UpdateFinishedTrialError as error:
                refused = error
        if refused is not None:
            raise refused

    def _write_or_hold(self, op_code: int, extra_fields: dict[str, Any]) -> None:
        if self._held is None:
            self._write(op_code, extra_fields)
            return
        replayed = self._storage._replay_result
        trial = replayed._trials[extra_fields["trial_id"]]
        if trial.state.is_finished():
            raise self._optuna.exceptions.UpdateFinishedTrialError(f"trial {trial.number} has ended")
        self._held.append({"op_code": op_code, "worker_id": replayed.worker_id, **extra_fields})
