"""The next architecture: what the policy proposes, from all that the ledger knows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from random import Random

import msgspec

from trainmark.automl.experiment.config import Experiment, image_of
from trainmark.automl.graph.graph import Graph
from trainmark.automl.graph.keys import aiperf_key, canonical_hash
from trainmark.automl.graph.moves import Limits
from trainmark.automl.graph.start_networks import STARTS, start
from trainmark.automl.ledger.files import Shelf
from trainmark.automl.ledger.ledger import Entry, Ledger
from trainmark.automl.search import policy as policies
from trainmark.automl.search.policy import Proposal, Trial
from trainmark.errors import UserError, one_of

_TRIES = 16


def limits_of(experiment: Experiment) -> Limits:
    bounds = experiment.limits
    return Limits(bounds.parameters, bounds.depth, bounds.kernel)


def start_models(experiment: Experiment) -> list[Graph]:
    """The graphs that a search begins from. UserError for one that does not fit the data."""
    image = image_of(experiment)
    shape = (image.size, image.size, image.channels)
    if experiment.start_options:
        allowed = {"small_cnn": ("blocks", "width")}.get(experiment.start, ())
        for name, value in experiment.start_options.items():
            if name not in allowed or not 1 <= value <= 4096:
                raise UserError(
                    f"start_options.{name}: found {value!r}; `{experiment.start}` has {one_of(allowed) or 'no options'}"
                )
        made = [STARTS[experiment.start](shape=shape, classes=image.classes, **experiment.start_options)]
    else:
        names = experiment.init_models or [experiment.start]
        made = [start(name, shape, image.classes) for name in names]
    for graph, name in zip(made, experiment.init_models or [experiment.start], strict=True):
        if graph.shape != shape or graph.classes != image.classes:
            raise UserError(
                f"{name}: takes {'×'.join(map(str, graph.shape))} and knows {graph.classes} classes; the data has "
                f"{'×'.join(map(str, shape))} and {image.classes}: set `image:` or take another model"
            )
    return made


class Generator:
    """Owns the policy; one thread uses it."""

    def __init__(
        self,
        experiment: Experiment,
        start: Sequence[Graph],
        ledger: Ledger,
        shelf: Shelf,
        owner: str,
        *,
        carry: bool = False,
    ) -> None:
        """`carry`: whether entries carry their graph along, since workers share no folder."""
        self._experiment, self._ledger, self._shelf, self._owner, self._carry = experiment, ledger, shelf, owner, carry
        self._key: Callable[[Graph], str] = aiperf_key if experiment.rule_set.flops == "aiperf" else canonical_hash
        self._policy = policies.make(experiment.policy, start, limits_of(experiment), experiment.policy_options)
        self._told: dict[int, Trial] = {}
        self._rng = Random(f"{experiment.seed} {owner}")  # noqa: S311 - a search, not a secret
        # Processor time of the last architecture.
        self.seconds: float | None = None

    def graph_of(self, entry: Entry) -> Graph:
        return self._shelf.graph(entry.file, entry.graph)

    def make(self, entries: list[Entry]) -> int | None:
        """One more entry, which waits for this worker; None when others were faster to make the last there may be.
        `entries` are all there are."""
        begin = time.thread_time()
        tries = 0
        while True:
            proposal, key = self._new(entries)
            made = self._entry(proposal, key, entries)
            self.seconds, tries = time.thread_time() - begin, tries + 1
            with self._ledger.at_once():
                now = self._ledger.entries()
                if len(now) >= self._experiment.architectures:
                    return None
                # Another worker may have had the same idea meanwhile.
                if tries == _TRIES or key not in {entry.key for entry in now[len(entries) :]}:
                    return self._ledger.propose(made)
            entries = now

    def _new(self, entries: list[Entry]) -> tuple[Proposal, str]:
        """What nobody has tried, or where nothing else is to be found, what somebody has."""
        history, pending = self._seen(entries)
        known = {trial.key for trial in (*history, *pending)}
        for _ in range(_TRIES):
            proposal = self._policy.ask(history, pending, self._rng)
            key = self._key(proposal.graph)
            if key not in known:
                break
        return proposal, key

    def _entry(self, proposal: Proposal, key: str, entries: list[Entry]) -> Entry:
        from trainmark.automl.graph.own_json import encode

        return Entry(
            number=-1,
            state="waiting",
            key=key,
            file=self._shelf.put_graph(proposal.graph),
            parent=proposal.parent,
            parent_file="" if proposal.parent is None else entries[proposal.parent].file,
            moves=proposal.moves,
            owner=self._owner,
            graph=encode(proposal.graph).decode() if self._carry else None,
        )

    def _seen(self, entries: list[Entry]) -> tuple[list[Trial], list[Trial]]:
        """What ended, told to the policy as it is heard of, and what is under way."""
        pending = []
        for entry in entries:
            if entry.number in self._told:
                continue
            trial = Trial(
                number=entry.number,
                graph=self.graph_of(entry),
                key=entry.key,
                value=entry.value,
                parent=entry.parent,
                moves=entry.moves,
            )
            if entry.ended:
                self._told[entry.number] = trial
                self._policy.tell(trial)
            else:
                pending.append(trial)
        return list(self._told.values()), pending


def family(ledger: Ledger, entry: Entry) -> Entry:
    """The start model that an entry comes from."""
    while entry.parent is not None:
        entry = ledger.known(entry.parent)
    return entry


def summary(entry: Entry) -> dict[str, object]:
    """An entry as it is told in the record."""
    told: dict[str, object] = msgspec.to_builtins(entry)
    told.pop("graph")
    return told
