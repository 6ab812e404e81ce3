"""The ledger of an experiment: which architectures there are, which worker has which, and how each went.

It is stored in an Optuna storage that all workers share. An entry is one architecture. Every claim of it by a worker is
one Optuna trial, created running and with its owner's name in a single write. Telling the result and giving the claim
back both end that trial, and Optuna lets a trial end only once: the first of the two counts. An entry that was given
back is claimed again by a new trial for its next `attempt`; of several workers that create one, the first in Optuna's
order has it. Trials that lost such a race are skipped by every reader alike, so all number the entries in the same way.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from trainmark.automl.graph.space import Move
from trainmark.automl.ledger.storage import connect, quiet
from trainmark.reasons import Reason, as_reason

State = Literal["waiting", "running", "done", "pruned", "failed"]
ENDED: tuple[State, ...] = ("done", "pruned", "failed")
# Fields of an entry that are those of its architecture.
_ARCHITECTURE = ("key", "file", "parent", "parent_file", "moves", "graph")
# Attributes of the study: each worker that saw no other train before it says when it began.
_BEGAN = "began:"
# The attribute with the result; ledgers of the first version call it `told`.
_RESULT, _OLD_RESULT = "result", "told"


class Entry(msgspec.Struct, frozen=True):
    """An architecture of the experiment."""

    number: int
    state: State
    # Equal for equal architectures.
    key: str
    # The name of its graph among the trial files. Graphs with one key may number their layers in different ways.
    file: str = ""
    parent: int | None = None
    # The parent's graph that the moves were applied to.
    parent_file: str = ""
    moves: tuple[Move, ...] = ()
    # The worker that has it; empty when any worker may claim it.
    owner: str = ""
    # How often a worker began to train it.
    begun: int = 0
    value: float | None = None
    # Why it failed.
    why: Reason | None = None
    # The best hyper-parameters, which children begin with.
    best: dict[str, Any] = {}
    # Epochs that its weights have seen, with those of the entries that it inherited them from.
    seen: int = 0
    # Its trainings, where there were several: values and accuracy of each.
    tried: list[dict[str, Any]] = []
    # Only where workers share no folder.
    graph: str | None = None
    # The claim: Optuna's id of its trial, and which claim of this entry it is.
    claim: int = -1
    attempt: int = 1

    @property
    def ended(self) -> bool:
        return self.state in ENDED


def open_ledger(url: str, name: str, most: int | None = None) -> Ledger:
    """The ledger of the experiment `name`, for every URL that `connect` knows."""
    with quiet():
        return Ledger(connect(url), name, most)


class Ledger:
    """One worker's or the controller's view of the ledger. Its methods may be called from several threads."""

    def __init__(self, storage: Any, name: str, most: int | None = None) -> None:
        """`most`: so many architectures there may be; later ones are no entries."""
        import optuna

        self._optuna, self._storage, self._most = optuna, storage, most
        with quiet():
            self._study = optuna.create_study(
                storage=storage, study_name=name, direction="maximize", load_if_exists=True
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
        self._lock = threading.RLock()
        # How many trials were read, and the entries as of then.
        self._read = 0
        self._entries: list[Entry] = []
        # Running claims: of each trial, by its number, the entry's number and what was read.
        self._running: dict[int, tuple[int, Any]] = {}
        # What no further proposal may be marked with.
        self._taken: set[str] = set()

    # ---- reading

    def entries(self) -> list[Entry]:
        """All, by number."""
        with self._lock:
            self._refresh()
            return self._entries.copy()

    def known(self, number: int) -> Entry:
        """One entry, as of the last look."""
        with self._lock:
            if number >= len(self._entries):
                self._refresh()
            return self._entries[number]

    def _refresh(self) -> None:
        """Reads new trials and those that were running; what has ended never changes."""
        trials = self._storage.get_all_trials(self._id, deepcopy=False)
        for at, (number, seen) in list(self._running.items()):
            if trials[at] is not seen:
                self._update(number, trials[at])
        while self._read < len(trials) and trials[self._read].number == self._read:
            claimed = self._entry_of(trials[self._read].user_attrs)
            if claimed is not None:
                self._update(claimed, trials[self._read])
            self._read += 1

    def _entry_of(self, attrs: Mapping[str, Any]) -> int | None:
        """The entry that a new trial is a claim of; None when another was created before it."""
        number = attrs.get("entry")
        if number is not None:
            return number if attrs["attempt"] == self._entries[number].attempt + 1 else None
        key = attrs.get("key", "")
        if len(self._entries) == self._most or attrs.get("unique") in self._taken:
            return None
        self._taken.update((key, attrs.get("unique", key)))
        self._entries.append(Entry(len(self._entries), "waiting", key))
        return len(self._entries) - 1

    def _update(self, number: int, trial: Any) -> None:
        attrs, state = trial.user_attrs, self._names[trial.state]
        result = attrs.get(_RESULT) or attrs.get(_OLD_RESULT) or {}
        if self._is_given_back(trial):
            state, result = "waiting", {}
        fields = {**attrs, **result}
        self._entries[number] = Entry(
            number=number,
            state=state,
            key=attrs.get("key", ""),
            file=fields.get("file", ""),
            parent=attrs.get("parent"),
            parent_file=attrs.get("parent_file", ""),
            moves=tuple(msgspec.convert(move, Move) for move in attrs.get("moves", ())),
            owner="" if state == "waiting" else attrs.get("owner", ""),
            begun=int(attrs.get("begun", 0)),
            value=trial.values[0] if trial.values and state in ("done", "pruned") else None,
            why=as_reason(fields.get("why")),
            best=fields.get("best", {}),
            seen=int(fields.get("seen", 0)),
            tried=fields.get("tried", []),
            graph=fields.get("graph"),
            claim=trial._trial_id,
            attempt=int(attrs.get("attempt", 1)),
        )
        if state == "running":
            self._running[trial.number] = number, trial
        else:
            self._running.pop(trial.number, None)

    def _is_given_back(self, trial: Any) -> bool:
        """Whether a claim ended without a result of its own: a failed training has one, which says so."""
        if self._names[trial.state] != "failed":
            return False
        result = trial.user_attrs.get(_RESULT)
        return result.get("state") != "failed" if result is not None else _OLD_RESULT not in trial.user_attrs

    # ---- writing

    def propose(self, new: Entry, owner: str, *, repeated: bool = False) -> Entry | None:
        """A new architecture, claimed by the worker that made it; number, state and owner of `new` do not count.

        None when there are enough already, or another worker was faster to propose an equal one, unless `repeated`.
        """
        token = uuid.uuid4().hex
        return self._claim({**_architecture(new), "unique": token if repeated else new.key}, owner, token)

    def claim(self, entry: Entry, owner: str) -> Entry | None:
        """The entry, if it waits, as this worker's; None when another was faster."""
        if entry.state != "waiting":
            return None
        before = self._storage.get_trial(entry.claim)
        claim = {"entry": entry.number, "attempt": entry.attempt + 1, "begun": entry.begun}
        return self._claim({**_architecture(entry), **claim}, owner, uuid.uuid4().hex, before)

    def mark_begun(self, entry: Entry) -> None:
        """A worker begins to train what it claimed. When the worker crashes, this is what is known of the cause."""
        self._change(lambda: self._storage.set_trial_user_attr(entry.claim, "begun", entry.begun + 1))

    def tell(
        self, entry: Entry, value: float | None, *, pruned: bool = False, why: Reason | None = None, **fields: Any
    ) -> bool:
        """The result of a claim: `value` is None where training failed, `fields` are other fields of the entry.

        False when the claim had ended: it was given back, or its result was known before.
        """
        state: State = "failed" if value is None else "pruned" if pruned else "done"
        result = {"state": state, "why": msgspec.to_builtins(why), **fields}
        values = None if value is None else [value]
        # The result first: once a trial has ended, its attributes cannot change.
        return self._change(lambda: self._storage.set_trial_user_attr(entry.claim, _RESULT, result)) and self._end(
            entry, state, values
        )

    def release(self, owner: str) -> list[int]:
        """Gives back all that a worker has claimed; returns the numbers of these entries."""
        mine = [entry for entry in self.entries() if entry.state == "running" and entry.owner == owner]
        return [entry.number for entry in mine if self._end(entry, "failed")]

    def start_clock(self, owner: str, wall: float) -> float:
        """When the first training step of all workers was; `wall`: when this worker's was, which may be it."""
        if self.began() is None:
            self._study.set_user_attr(f"{_BEGAN}{owner}", wall)
        return min(wall, self.began() or wall)

    def began(self) -> float | None:
        """When the first training step was; None while nobody has trained."""
        attrs = self._storage.get_study_user_attrs(self._id)
        return min((float(wall) for name, wall in attrs.items() if name.startswith(_BEGAN)), default=None)

    def falls_behind(self, entry: Entry, epoch: int, value: float, first: int, factor: int) -> bool:
        """Asynchronous successive halving: whether a training is worth less than others were at this rung."""
        if not self._change(lambda: self._storage.set_trial_intermediate_value(entry.claim, epoch, value)):
            return True
        pruner = self._optuna.pruners.SuccessiveHalvingPruner(min_resource=first, reduction_factor=factor)
        claims: Any = _Claims(self)
        return bool(pruner.prune(claims, self._storage.get_trial(entry.claim)))

    def _claim(self, attrs: dict[str, Any], owner: str, token: str, before: Any = None) -> Entry | None:
        """`before`: the trial of the claim before, whose reports go on with this one."""
        trial = self._optuna.trial.create_trial(
            state=self._states["running"],
            user_attrs={**attrs, "owner": owner, "token": token},
            intermediate_values=dict(before.intermediate_values) if before else None,
            system_attrs=dict(before.system_attrs) if before else None,
        )
        created = self._storage.create_new_trial(self._id, template_trial=trial)
        with self._lock:
            self._refresh()
            for number, found in self._running.values():
                # By the token, not by the id: over a connection that broke the trial may have been created twice.
                if found.user_attrs.get("token") == token:
                    return self._entries[number]
        self._change(lambda: self._storage.set_trial_state_values(created, state=self._states["failed"]))
        return None

    def _end(self, entry: Entry, state: State, values: list[float] | None = None) -> bool:
        return self._change(
            lambda: self._storage.set_trial_state_values(entry.claim, state=self._states[state], values=values)
        )

    def _change(self, write: Any) -> bool:
        """False when the trial has ended, and so was not changed."""
        try:
            write()
        except self._optuna.exceptions.UpdateFinishedTrialError:
            return False
        return True


class _Claims:
    """What Optuna's pruner reads of a study, without claims that were given back: the next one has their values."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._storage, self.direction = ledger, ledger._storage, ledger._study.direction

    def get_trials(self, deepcopy: bool = True) -> list[Any]:
        trials = self._storage.get_all_trials(self._ledger._id, deepcopy=deepcopy)
        return [trial for trial in trials if not self._ledger._is_given_back(trial)]


def _architecture(entry: Entry) -> dict[str, Any]:
    given = msgspec.to_builtins(entry)
    return {name: given[name] for name in _ARCHITECTURE if given[name] not in ("", None, [])}
