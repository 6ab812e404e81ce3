"""The next architecture: what the policy proposes, from all that the ledger knows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from random import Random

import msgspec

from trainmark.automl.experiment.config import Experiment, classes_of, image_of, text_of
from trainmark.automl.experiment.schedule import budget
from trainmark.automl.graph.flops import rules_for
from trainmark.automl.graph.graph import Graph, Shape
from trainmark.automl.graph.keys import aiperf_key, canonical_hash
from trainmark.automl.graph.space import Limits
from trainmark.automl.graph.start_networks import OPTIONS, STARTS, start
from trainmark.automl.ledger.files import TrialFiles
from trainmark.automl.ledger.ledger import Entry, Ledger
from trainmark.automl.search import policy as policies
from trainmark.automl.search.features import features
from trainmark.automl.search.hpo import Tried
from trainmark.automl.search.policy import Proposal, Trial
from trainmark.errors import UserError, one_of

_TRIES = 16
# Tokens of a text that a start model reads, if nothing else is said.
_CONTEXT = 64
# A search for hyper-parameters looks at so many of the last trials that searched, and learns from the nearest of them.
_SEARCHED, _NEAREST = 200, 24


def limits_of(experiment: Experiment) -> Limits:
    bounds = experiment.limits
    return Limits(bounds.parameters, bounds.depth, bounds.kernel, bounds.tokens)


def start_models(experiment: Experiment) -> list[Graph]:
    """The graphs that a search begins from. UserError for one that does not fit the data, or that the rule set has no
    formulas for."""
    shape, classes = _data_shape(experiment), classes_of(experiment)
    names = experiment.init_models or [experiment.start]
    options = _start_options(experiment)
    if experiment.start_options:
        made = [STARTS[experiment.start](shape=shape, classes=classes, **options)]
    else:
        made = [start(name, shape, classes) for name in names]
    rules = experiment.rule_set
    for graph, name in zip(made, names, strict=True):
        # A text is cut into pieces of the length that a network reads.
        fits = len(graph.shape) == 1 if text_of(experiment) else graph.shape == shape
        if not fits or graph.classes != classes:
            raise UserError(
                f"{name}: takes {'×'.join(map(str, graph.shape))} and knows {graph.classes} classes; the data has "
                f"{'×'.join(map(str, shape))} and {classes}: set `image:` or `text:`, or take another model"
            )
        if rules.counts and rules.flops not in rules_for(graph):
            raise UserError(
                f"{name}: rule set `{rules.name}` counts operations by AIPerf's formulas, which know no transformers; "
                "take another start model or other `rules`"
            )
    return made


def _data_shape(experiment: Experiment) -> Shape:
    """Of what a start model reads."""
    if text_of(experiment) is None:
        image = image_of(experiment)
        return (image.size, image.size, image.channels)
    return (experiment.start_options.get("context", _CONTEXT),)


def _start_options(experiment: Experiment) -> dict[str, int]:
    """Those that are no shape. UserError for one that the start model does not have."""
    if experiment.start_options and experiment.init_models:
        raise UserError("start_options: found beside `init_models`, whose files say all; leave out one of both")
    allowed = OPTIONS.get(experiment.start, ())
    for name, value in experiment.start_options.items():
        if name not in allowed or not 1 <= value <= 4096:
            raise UserError(
                f"start_options.{name}: found {value!r}; `{experiment.start}` has {one_of(allowed) or 'no options'}"
            )
    return {name: value for name, value in experiment.start_options.items() if name != "context"}


class Generator:
    """Owns the policy; one thread uses it."""

    def __init__(
        self,
        experiment: Experiment,
        start: Sequence[Graph],
        ledger: Ledger,
        files: TrialFiles,
        owner: str,
        *,
        carry: bool = False,
    ) -> None:
        """`carry`: whether entries carry their graph along, since workers share no folder."""
        self._experiment, self._ledger, self._files, self._owner, self._carry = experiment, ledger, files, owner, carry
        self._key: Callable[[Graph], str] = aiperf_key if experiment.rule_set.flops == "aiperf" else canonical_hash
        self._policy = policies.make(experiment.policy, start, limits_of(experiment), experiment.policy_options)
        self._ended: dict[int, Trial] = {}
        self._rng = Random(f"{experiment.seed} {owner}")  # noqa: S311 - a search, not a secret
        # Processor time of the last architecture.
        self.seconds: float | None = None

    def graph_of(self, entry: Entry) -> Graph:
        return self._files.graph(entry.file, entry.graph)

    def searched_nearby(self, entry: Entry, entries: list[Entry]) -> list[list[Tried]]:
        """The trainings of trials that searched hyper-parameters, of networks that are most like the entry's."""
        searched = [one for one in entries if one.number != entry.number and len(one.tried) > 1][-_SEARCHED:]
        if not searched:
            return []
        rows = features([self.graph_of(entry), *map(self.graph_of, searched)]).rows
        nearest = (-(rows[1:] @ rows[0])).argsort(kind="stable")[:_NEAREST]
        return [msgspec.convert(searched[at].tried, list[Tried]) for at in nearest]

    def make(self, entries: list[Entry]) -> Entry | None:
        """One more entry, claimed by this worker; None when there are as many as there may be. `entries` are all."""
        begin = time.thread_time()
        for left in reversed(range(_TRIES)):
            if len(entries) >= self._experiment.architectures:
                return None
            proposal, key, known = self._new(entries)
            # Another worker may have had the same idea meanwhile: then this one has to have another.
            made = self._ledger.propose(self._entry(proposal, key, entries), self._owner, repeated=known or not left)
            self.seconds = time.thread_time() - begin
            if made is not None:
                return made
            entries = self._ledger.entries()
        return None

    def _new(self, entries: list[Entry]) -> tuple[Proposal, str, bool]:
        """A proposal, its key, and whether there is an equal entry, since nothing new was to be found."""
        history, pending = self._seen(entries)
        epochs = budget(self._experiment.training.epochs, self._experiment.round_of(len(entries)))
        keys = {trial.key for trial in (*history, *pending)}
        for _ in range(_TRIES):
            proposal = self._policy.ask(history, pending, self._rng, epochs)
            key = self._key(proposal.graph)
            if key not in keys:
                return proposal, key, False
        return proposal, key, True

    def _entry(self, proposal: Proposal, key: str, entries: list[Entry]) -> Entry:
        from trainmark.automl.graph.graph_json import encode

        return Entry(
            number=-1,
            state="waiting",
            key=key,
            file=self._files.put_graph(proposal.graph),
            parent=proposal.parent,
            parent_file="" if proposal.parent is None else entries[proposal.parent].file,
            moves=proposal.moves,
            graph=encode(proposal.graph).decode() if self._carry else None,
        )

    def _seen(self, entries: list[Entry]) -> tuple[list[Trial], list[Trial]]:
        """What has ended, which the policy gets once, and what is under way."""
        pending = []
        for entry in entries:
            if entry.number in self._ended:
                continue
            trial = Trial(
                number=entry.number,
                graph=self.graph_of(entry),
                key=entry.key,
                value=entry.value,
                parent=entry.parent,
                moves=entry.moves,
                seen=entry.seen,
            )
            if entry.ended:
                self._ended[entry.number] = trial
                self._policy.tell(trial)
            else:
                pending.append(trial)
        return list(self._ended.values()), pending


def start_model_of(ledger: Ledger, entry: Entry) -> Entry:
    """The start model that an entry comes from."""
    while entry.parent is not None:
        entry = ledger.known(entry.parent)
    return entry


def summary(entry: Entry) -> dict[str, object]:
    """An entry as it stands in the record."""
    fields: dict[str, object] = msgspec.to_builtins(entry)
    del fields["graph"], fields["claim"], fields["why"], fields["tried"]
    return fields
