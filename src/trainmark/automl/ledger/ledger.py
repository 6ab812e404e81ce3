"""The ledger of an experiment: one entry per architecture, in an Optuna storage that all workers share.

An entry waits, is claimed by one worker, and is told once. A worker that was lost gives its entries back (`release`, by
the controller, which knows who is lost), and whoever claims one next goes on with it. Optuna keeps that honest: only a
waiting trial can be claimed, and one that was told is never changed.

Whose a claimed entry is must be known at every moment, or it might be given back while its worker trains it. Optuna
changes a trial's state and its attributes in separate steps, so a worker first says that it asks for an entry. On a
journal file, `journal.py` does it all in one step.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal

import msgspec

from trainmark.automl.graph.moves import Move
from trainmark.automl.ledger.storage import connect, quiet

State = Literal["waiting", "running", "done", "pruned", "failed"]
ENDED: tuple[State, ...] = ("done", "pruned", "failed")
# How long those who asked for an entry at the same time may take until it is known who got it.
_SETTLE_SECONDS, _LOOK_SECONDS = 5.0, 0.02
# Attributes of a new entry.
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


def open_ledger(url: str, name: str) -> Ledger:
    """The ledger of the experiment `name`, for every URL that `connect` knows."""
    if url.startswith("journal:"):
        from trainmark.automl.ledger.journal import JournalLedger

        return JournalLedger(url, name)
    with quiet():
        return Ledger(connect(url), name)


class Ended(Exception):
    """What was to be changed has ended."""


class Ledger:
    """With any storage; `open_ledger` makes the one that suits it best."""

    def __init__(self, storage: Any, name: str) -> None:
        with quiet():
            import optuna

            self._optuna = optuna
            self._storage = storage
            self._study = optuna.create_study(
                storage=self._storage, study_name=name, direction="maximize", load_if_exists=True
            )
        self._id = self._study._study_id
        states = optuna.trial.TrialState
        self._states: dict[State, Any] = {
            "waiting": states.WAITING,
            "running": states.RUNNING,
            "done": states.COMPLETE,
            "pruned": states.PRUNED,
            "failed": states.FAIL,
        }
        self._names: dict[Any, State] = {state: name for name, state in self._states.items()}
        self._ids: dict[int, int] = {}
        # Entries that ended never change again.
        self._ended: dict[int, Entry] = {}

    def close(self) -> None:
        """Leaves nothing on this host."""

    # ---- what is known

    def entries(self) -> list[Entry]:
        """All, by number."""
        found = []
        for trial in self._storage.get_all_trials(self._id, deepcopy=False):
            entry = self._ended.get(trial.number)
            if entry is None:
                entry = made(trial.number, self._names[trial.state], trial.user_attrs, trial.values)
            if entry.ended:
                self._ended[entry.number] = entry
            found.append(entry)
        return found

    def known(self, number: int) -> Entry:
        """One entry; as of the last look where a look takes long."""
        return self._ended.get(number) or self.entries()[number]

    def waiting(self, owner: str, most: int) -> list[Entry]:
        """What this worker may claim of the first `most`: what was left behind, then what was made for it."""
        free = [entry for entry in self._not_ended() if entry.state == "waiting" and entry.number < most]
        mine = [entry for entry in free if entry.owner in ("", owner)]
        return sorted(mine, key=lambda one: (one.owner, one.number))

    # ---- what is said

    def at_once(self) -> AbstractContextManager[None]:
        """Where the storage allows for it, all that is said within is one write, and nobody else writes between what is
        read within and that write."""
        return contextlib.nullcontext()

    def propose(self, new: Entry) -> int:
        """An entry that waits for its owner. Returns its number; the one it came with does not count."""
        given = msgspec.to_builtins(new)
        return self._create({name: value for name, value in given.items() if name in _GIVEN and value != ""})

    def claim(self, entry: Entry, owner: str) -> bool:
        """Whether the entry is this worker's now: it waited for it or for anybody, and nobody else was faster."""
        if entry.owner not in ("", owner):
            return False
        try:
            with self.at_once():
                return self._take(entry.number, owner)
        except Ended:
            return False

    def mark_begun(self, entry: Entry) -> None:
        """A worker begins to train it. Should the worker crash, this is what is known of who did it."""
        with contextlib.suppress(Ended), self.at_once():
            self._set(entry.number, begun=entry.begun + 1)

    def tell(self, number: int, value: float | None, *, pruned: bool = False, **found: Any) -> bool:
        """How it went; `found` are other fields of the entry. False when it had been told: the first word counts."""
        try:
            with self.at_once():
                # One attribute for all, since each is a write that all workers wait for.
                self._set(number, told=found)
                return self._change(number, "failed" if value is None else "pruned" if pruned else "done", value)
        except Ended:
            return False

    def release(self, owner: str) -> list[int]:
        """Gives back what a worker had that is gone: what it trained and what it had made for itself."""
        given = []
        for entry in self._not_ended():
            if entry.owner == owner or self._died_claiming(entry, owner):
                with contextlib.suppress(Ended), self.at_once():
                    if self._give_back(entry, owner):
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

    # ---- who has what

    def _take(self, number: int, owner: str) -> bool:
        self._set(number, **{_asks(owner): True})
        if not self._change(number, "running"):
            self._set(number, **{_asks(owner): False})
            return False
        self._set(number, owner=owner)
        return True

    def _give_back(self, entry: Entry, owner: str) -> bool:
        _, attrs = self._look(entry.number)
        if attrs.get("owner", "") != entry.owner:
            return False
        # Nobody else can claim it before the owner's name is gone; should we die before, it is still known whose it is.
        self._change(entry.number, "waiting")
        self._set(entry.number, owner="")
        if attrs.get(_asks(owner)):
            self._set(entry.number, **{_asks(owner): False})
        return True

    def _died_claiming(self, entry: Entry, owner: str) -> bool:
        """Whether this worker claimed it and was lost before it could write its name. Of several who asked, those who
        live will soon have written their name or have taken back that they ask."""
        if entry.state != "running" or entry.owner:
            return False
        deadline = time.monotonic() + _SETTLE_SECONDS
        while True:
            state, attrs = self._look(entry.number)
            asking = {name for name, value in attrs.items() if name.startswith(_asks("")) and value is True}
            if state != "running" or attrs.get("owner") or _asks(owner) not in asking:
                return False
            if len(asking) == 1 or time.monotonic() > deadline:
                return True
            time.sleep(_LOOK_SECONDS)

    # ---- in the words of the storage; `Ended` where an entry cannot be changed any more

    def _not_ended(self) -> list[Entry]:
        return [entry for entry in self.entries() if not entry.ended]

    def _look(self, number: int) -> tuple[State, dict[str, Any]]:
        trial = self._storage.get_trial(self._identity(number))
        return self._names[trial.state], trial.user_attrs

    def _create(self, attrs: dict[str, Any]) -> int:
        trial = self._optuna.trial.create_trial(state=self._states["waiting"], user_attrs=attrs)
        identity = self._storage.create_new_trial(self._id, template_trial=trial)
        number = int(self._storage.get_trial_number_from_id(identity))
        self._ids[number] = identity
        return number

    def _set(self, number: int, **attrs: Any) -> None:
        with self._ending():
            for name, value in attrs.items():
                self._storage.set_trial_user_attr(self._identity(number), name, value)

    def _change(self, number: int, state: State, value: float | None = None) -> bool:
        """False when somebody else was faster to claim it."""
        values = None if value is None else [value]
        with self._ending():
            return bool(
                self._storage.set_trial_state_values(self._identity(number), state=self._states[state], values=values)
            )

    @contextlib.contextmanager
    def _ending(self) -> Iterator[None]:
        try:
            yield
        except self._optuna.exceptions.UpdateFinishedTrialError:
            raise Ended from None

    def _identity(self, number: int) -> int:
        if number not in self._ids:
            self._ids[number] = self._storage.get_trial_id_from_study_id_trial_number(self._id, number)
        return self._ids[number]


def made(number: int, state: State, attrs: dict[str, Any], values: Sequence[float] | None) -> Entry:
    """An entry, of what a storage has of it."""
    attrs = {**attrs, **attrs.get("told", {})}
    return Entry(
        number=number,
        state=state,
        key=attrs.get("key", ""),
        file=attrs.get("file", ""),
        parent=attrs.get("parent"),
        parent_file=attrs.get("parent_file", ""),
        moves=tuple(msgspec.convert(move, Move) for move in attrs.get("moves", [])),
        owner=attrs.get("owner", ""),
        begun=int(attrs.get("begun", 0)),
        value=values[0] if values and state != "failed" else None,
        why=attrs.get("why", ""),
        best=attrs.get("best", {}),
        graph=attrs.get("graph"),
    )


def _asks(owner: str) -> str:
    """The attribute that says that a worker is about to claim an entry. One each: nobody overwrites another's."""
    return f"asks {owner}"
