"""The ledger in a journal file that many workers write to at once: the same words, said faster.

Optuna's lock waits twice as long after each failure, up to a second, so that with 64 workers the file lies idle most of
the time; here it is tried again after some milliseconds. What belongs together is one write instead of several, and
entries that did not change are not made again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

from trainmark.automl.ledger import Entry, Ledger
from trainmark.hashes import sha256_hex

# Nobody holds the lock for longer than a write takes: then its owner is gone.
_GONE_SECONDS = 30.0
_SHORT, _LONG = 0.0005, 0.008


class Lock:
    """A file that must not exist: opening it is atomic, also on NFS from version 3 on. Of the workers on one host only
    one at a time asks for it; the others sleep until the kernel lets them in."""

    def __init__(self, path: str) -> None:
        self._file = f"{path}.lock"
        name = f"trainmark-{os.getuid()}-{sha256_hex(os.path.abspath(path).encode())[:16]}.lock"
        self._door = os.path.join(tempfile.gettempdir(), name)
        self._inside = -1

    def acquire(self) -> bool:
        door = os.open(self._door, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(door, fcntl.LOCK_EX)
        since, seen = time.monotonic(), (0, 0)
        while True:
            try:
                os.close(os.open(self._file, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                self._inside = door
                return True
            except FileExistsError:
                # Another file each time as long as it changes hands.
                now = self._which()
                if now != seen:
                    since, seen = time.monotonic(), now
                elif time.monotonic() - since > _GONE_SECONDS:
                    self._break(seen)
                time.sleep(random.uniform(_SHORT, _LONG))  # noqa: S311 - not a secret
            except BaseException:
                os.close(door)
                raise

    def release(self) -> None:
        os.unlink(self._file)
        os.close(self._inside)

    def _which(self) -> tuple[int, int]:
        try:
            found = os.stat(self._file)
        except FileNotFoundError:
            return 0, 0
        return found.st_ino, found.st_mtime_ns

    def _break(self, seen: tuple[int, int]) -> None:
        """Takes the lock from whoever is gone; of several who try, one renames it and the others find it missing."""
        if self._which() == seen:
            apart = f"{self._file}.{os.uname().nodename}.{os.getpid()}"
            with contextlib.suppress(FileNotFoundError):
                os.rename(self._file, apart)
                os.unlink(apart)


class JournalLedger(Ledger):
    """For `journal:PATH` only."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__(url, name)
        self._storage._backend._lock = Lock(url.partition(":")[2])
        self._write = self._storage._write_log
        self._storage._write_log = self._write_or_hold
        # By thread, what is held back to be written together.
        self._held = threading.local()
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

    def tell(self, number: int, value: float | None, *, pruned: bool = False, **found: Any) -> bool:
        try:
            with self._together():
                return super().tell(number, value, pruned=pruned, **found)
        except self._optuna.exceptions.UpdateFinishedTrialError:
            return False

    def _set(self, identity: int, **attrs: Any) -> None:
        # A worker that claims what was made for it is its owner already: nothing to write.
        known = self._storage._replay_result._trials[identity].user_attrs
        with self._together():
            super()._set(identity, **{name: value for name, value in attrs.items() if known.get(name, known) != value})

    @contextlib.contextmanager
    def _together(self) -> Iterator[None]:
        if getattr(self._held, "logs", None) is not None:
            yield
            return
        self._held.logs = []
        try:
            yield
            logs, self._held.logs = self._held.logs, None
        finally:
            self._held.logs = None
        if logs:
            self._flush(logs)

    def _flush(self, logs: list[dict[str, Any]]) -> None:
        """Writes all at once. UpdateFinishedTrialError if the trial had ended before."""
        refused = None
        with self._storage._thread_lock:
            self._storage._backend.append_logs(logs)
            # Each of them may be refused, and a refusal ends the reading: none must be left for somebody else to meet.
            for _ in logs:
                try:
                    self._storage._sync_with_backend()
                    break
                except self._optuna.exceptions.UpdateFinishedTrialError as error:
                    refused = error
        if refused is not None:
            raise refused

    def _write_or_hold(self, op_code: int, extra_fields: dict[str, Any]) -> None:
        held = getattr(self._held, "logs", None)
        if held is None:
            self._write(op_code, extra_fields)
        else:
            held.append({"op_code": op_code, "worker_id": self._storage._replay_result.worker_id, **extra_fields})
