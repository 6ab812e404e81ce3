"""The ledger of an experiment: one entry per architecture, in an Optuna storage that all workers share.

An entry waits, is claimed by one worker, and is told once. A worker that was lost gives its entries back (`release`, by
the controller, which knows who is lost), and whoever claims one next goes on with it. Optuna keeps that honest: only a
waiting trial can be claimed, and one that was told is never changed.
"""

from __future__ import annotations

import contextlib
import functools
import time
from pathlib import Path
from typing import Any, Literal

import msgspec

from trainmark.automl.moves import Move
from trainmark.errors import SiteError

State = Literal["waiting", "running", "done", "pruned", "failed"]
ENDED: tuple[State, ...] = ("done", "pruned", "failed")
FILE = "ledger.log"
# How long a worker waits for a ledger that is away, and how often it asks.
_AWAY_SECONDS, _RETRY_SECONDS = 3600.0, 1.0
_GIVEN = ("key", "file", "parent", "parent_file", "moves", "owner", "graph")


class Entry(msgspec.Struct, frozen=True):
    """An architecture of the experiment."""

    number: int
    state: State
    # Equal for equal architectures.
    key: str
    # The name of its graph on the shelf. Graphs with one key may number their layers in different ways.
    file: str = ""
    parent: int | None = None
    # The parent's graph to which the moves were done.
    parent_file: str = ""
    moves: tuple[Move, ...] = ()
    # The worker it was made for or that trains it; empty when anybody may claim it.
    owner: str = ""
    # How often a worker began with it.
    begun: int = 0
    value: float | None = None
    why: str = ""
    # The best hyper-parameters, which children begin with.
    best: dict[str, Any] = {}
    # Only where workers share no folder.
    graph: str | None = None

    @property
    def ended(self) -> bool:
        return self.state in ENDED


class Ledger:
    """`url`: `journal:PATH` for a file that all workers see, `grpc://HOST:PORT`, or a database's URL."""

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        with _quiet():
            import optuna

            self._optuna = optuna
            self._storage = _storage(url)
            self._study = optuna.create_study(
                storage=self._storage, study_name=name, direction="maximize", load_if_exists=True
            )
        self._id = self._study._study_id
        self._names = {
            optuna.trial.TrialState.WAITING: "waiting",
            optuna.trial.TrialState.RUNNING: "running",
            optuna.trial.TrialState.COMPLETE: "done",
            optuna.trial.TrialState.PRUNED: "pruned",
            optuna.trial.TrialState.FAIL: "failed",
        }
        self._ids: dict[int, int] = {}
        # Entries that ended never change again.
        self._ended: dict[int, Entry] = {}

    def entries(self) -> list[Entry]:
        """All, by number."""
        found = []
        for trial in self._storage.get_all_trials(self._id, deepcopy=False):
            entry = self._ended.get(trial.number) or self._entry(trial)
            if entry.ended:
                self._ended[entry.number] = entry
            found.append(entry)
        return found

    def count(self) -> int:
        return int(self._storage.get_n_trials(self._id))

    def propose(self, new: Entry) -> int:
        """An entry that waits for its owner. Returns its number; the one it came with does not count."""
        state = self._optuna.trial.TrialState.WAITING
        attrs = {name: value for name, value in msgspec.to_builtins(new).items() if name in _GIVEN and value != ""}
        made = self._optuna.trial.create_trial(state=state, user_attrs=attrs)
        identity = self._storage.create_new_trial(self._id, template_trial=made)
        number = int(self._storage.get_trial_number_from_id(identity))
        self._ids[number] = identity
        return number

    def claim(self, entry: Entry, owner: str) -> bool:
        """Whether the entry is this worker's now: it waited, and nobody else was faster."""
        identity = self._identity(entry.number)
        running = self._optuna.trial.TrialState.RUNNING
        try:
            if not self._storage.set_trial_state_values(identity, state=running):
                return False
        except self._optuna.exceptions.UpdateFinishedTrialError:
            return False
        self._set(identity, owner=owner)
        return True

    def mark_begun(self, entry: Entry) -> None:
        """A worker begins to train it. Should the worker crash, this is what is known of who did it."""
        with contextlib.suppress(self._optuna.exceptions.UpdateFinishedTrialError):
            self._set(self._identity(entry.number), begun=entry.begun + 1)

    def tell(self, number: int, value: float | None, *, pruned: bool = False, **found: Any) -> bool:
        """How it went; `found` are other fields of the entry. False when it had been told: the first word counts."""
        identity, states = self._identity(number), self._optuna.trial.TrialState
        state = states.FAIL if value is None else states.PRUNED if pruned else states.COMPLETE
        try:
            # Together, since each word is a write that all workers wait for.
            self._set(identity, told=found)
            values = None if value is None else [value]
            return bool(self._storage.set_trial_state_values(identity, state=state, values=values))
        except self._optuna.exceptions.UpdateFinishedTrialError:
            return False

    def release(self, owner: str) -> list[int]:
        """Gives back what a worker had that is gone: what it trained and what it had made for itself."""
        given = []
        for entry in self.entries():
            # One that runs without an owner was claimed by somebody who died before the next word.
            if not entry.ended and (entry.owner == owner or (entry.state == "running" and not entry.owner)):
                identity = self._identity(entry.number)
                with contextlib.suppress(self._optuna.exceptions.UpdateFinishedTrialError):
                    self._set(identity, owner="")
                    self._storage.set_trial_state_values(identity, state=self._optuna.trial.TrialState.WAITING)
                    given.append(entry.number)
        return given

    def falls_behind(self, number: int, epoch: int, value: float, first: int, factor: int) -> bool:
        """Successive halving, asynchronous: whether a training is worth less than others were at this rung."""
        identity = self._identity(number)
        try:
            self._storage.set_trial_intermediate_value(identity, epoch, value)
        except self._optuna.exceptions.UpdateFinishedTrialError:
            return True
        pruner = self._optuna.pruners.SuccessiveHalvingPruner(min_resource=first, reduction_factor=factor)
        return bool(pruner.prune(self._study, self._storage.get_trial(identity)))

    def _set(self, identity: int, **attrs: Any) -> None:
        for name, value in attrs.items():
            self._storage.set_trial_user_attr(identity, name, value)

    def _identity(self, number: int) -> int:
        if number not in self._ids:
            self._ids[number] = self._storage.get_trial_id_from_study_id_trial_number(self._id, number)
        return self._ids[number]

    def _entry(self, trial: Any) -> Entry:
        attrs = {**trial.user_attrs, **trial.user_attrs.get("told", {})}
        state: Any = self._names[trial.state]
        return Entry(
            number=trial.number,
            state=state,
            key=attrs.get("key", ""),
            file=attrs.get("file", ""),
            parent=attrs.get("parent"),
            parent_file=attrs.get("parent_file", ""),
            moves=tuple(msgspec.convert(move, Move) for move in attrs.get("moves", [])),
            owner=attrs.get("owner", ""),
            begun=int(attrs.get("begun", 0)),
            value=trial.values[0] if trial.values and state != "failed" else None,
            why=attrs.get("why", ""),
            best=attrs.get("best", {}),
            graph=attrs.get("graph"),
        )


def _storage(url: str) -> Any:
    import optuna

    kind, _, rest = url.partition(":")
    try:
        if kind == "journal":
            from optuna.storages import JournalStorage
            from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

            Path(rest).parent.mkdir(parents=True, exist_ok=True)
            # Opening a file that must not exist is atomic on NFS from version 3 on.
            return JournalStorage(JournalFileBackend(rest, lock_obj=JournalFileOpenLock(rest)))
        if kind == "grpc":
            host, _, port = rest.removeprefix("//").partition(":")
            return _Patient(optuna.storages.GrpcStorageProxy(host=host, port=int(port)))
        return optuna.storages.get_storage(url)
    except ImportError as error:
        raise SiteError(
            f"the ledger {kind} needs a package that is not here: {error}; get `trainmark[automl]`"
        ) from None


class _Patient:
    """A storage behind a connection that may be away for a while: whoever asks waits until it is back."""

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
def _quiet() -> Any:
    """Optuna announces studies and experimental parts; neither is news to anybody here."""
    import warnings

    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield
