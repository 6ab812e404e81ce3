"""What a training begins with: the trial's state, its hyper-parameters, its graph, and its network with first weights.

Most of it is made while the trial before is trained, in the thread that speaks with the ledger. That thread touches
neither the device, which has no room for two networks, nor torch's random numbers, which belong to the training.
"""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

import msgspec
import torch
from torch import nn
from weights_file import Taken, weights_of_file

from trainmark.automl.experiment.config import Experiment
from trainmark.automl.experiment.worker import Assignment
from trainmark.automl.graph import flops
from trainmark.automl.graph.flops import Flops
from trainmark.automl.graph.graph import Graph
from trainmark.automl.graph.moves import apply, carries, tuned
from trainmark.automl.graph.network import build
from trainmark.automl.graph.weights import fitted, inherit
from trainmark.automl.ledger.files import TrialFiles
from trainmark.automl.ledger.ledger import Entry
from trainmark.automl.search import hpo
from trainmark.automl.search.hpo import Tried, Values


class Trial:
    """A trial in training. All of it is in its checkpoint, except `unsaved`."""

    def __init__(self, entry: Entry, round_number: int, saved: dict[str, Any] | None) -> None:
        self.entry, self.round = entry, round_number
        saved = saved or {}
        # Trainings that are done, the values of the present one, and its epochs.
        self.tried = [Tried(one["values"], one["accuracy"]) for one in saved.get("tried", [])]
        self.values: Values = saved.get("values") or {}
        self.epochs: list[dict[str, Any]] = saved.get("epochs", [])
        self.best: float = saved.get("best", -1.0)
        self.best_run: int = saved.get("best_run", 0)
        self.model: dict[str, Any] | None = saved.get("model")
        self.optimizer: dict[str, Any] | None = saved.get("optimizer")
        self.scaler: dict[str, Any] | None = saved.get("scaler")
        self.pretrained: bool = saved.get("pretrained", False)
        self.inherited: bool = saved.get("inherited", False)
        # The best weights, until they are saved.
        self.unsaved: dict[str, Any] | None = None

    @property
    def run(self) -> int:
        return len(self.tried)

    @property
    def best_epoch(self) -> int:
        """After which epoch of the best training the best weights were there."""
        return max(self.epochs, key=lambda epoch: epoch["accuracy"])["epoch"] if self.epochs else 0

    def of_run(self) -> list[dict[str, Any]]:
        return [epoch for epoch in self.epochs if epoch["run"] == self.run]

    def end_run(self) -> None:
        """The present training is over; the next has values of its own."""
        accuracies = [epoch["accuracy"] for epoch in self.of_run()]
        self.tried.append(Tried(self.values, max(accuracies, default=None)))
        self.values, self.model, self.optimizer, self.scaler = {}, None, None, None

    def record(self) -> dict[str, Any]:
        saved = ("values", "epochs", "best", "best_run", "model", "optimizer", "scaler", "pretrained", "inherited")
        return {"tried": msgspec.to_builtins(self.tried), **{name: getattr(self, name) for name in saved}}


class Prepared(NamedTuple):
    """What one training of a trial begins with."""

    graph: Graph
    counts: dict[str, Flops]
    # On the host; None where weights must be drawn.
    network: nn.Module | None


class Preparation:
    def __init__(self, experiment: Experiment, files: TrialFiles) -> None:
        self._experiment, self._files = experiment, files
        self._ahead: tuple[Trial, Prepared] | None = None
        # What the last network took from the experiment's file of weights, until somebody asks.
        self._taken: Taken | None = None

    def prepare(self, given: Assignment) -> None:
        """In another thread than the one that trains, which waits for the end of this before it asks for the trial."""
        self._ahead = None
        if given.parent is None or not given.parent.ended:
            return
        # What fails here will fail again when it is the trial's turn, and then be known as its result or its fault.
        with contextlib.suppress(Exception):
            trial = self._read(given)
            self._ahead = trial, self._make(trial, given)

    def trial(self, given: Assignment) -> Trial:
        if self._ahead is not None and self._ahead[0].entry.number == given.entry.number:
            return self._ahead[0]
        return self._read(given)

    def of(self, trial: Trial, given: Assignment) -> tuple[Prepared, nn.Module]:
        """The trial's next training, and its network."""
        ahead, self._ahead = self._ahead, None
        made = ahead[1] if ahead is not None and ahead[0] is trial else self._make(trial, given)
        seed = self._experiment.seed + trial.entry.number
        torch.manual_seed(seed)
        network = made.network or self._drawn(trial, made.graph, given.parent)
        # The same draws follow, whichever way the weights came.
        torch.manual_seed(seed)
        return made, network

    def taken(self) -> Taken | None:
        """What the last network took from a file of weights; once."""
        taken, self._taken = self._taken, None
        return taken

    def _read(self, given: Assignment) -> Trial:
        return Trial(given.entry, given.round, self._files.checkpoint(given.entry.number))

    def _make(self, trial: Trial, given: Assignment) -> Prepared:
        if not trial.values:
            trial.values = self._values(trial, given)
        graph = self._files.graph(given.entry.file, given.entry.graph)
        graph = tuned(graph, given.body, trial.values["kernel_size"], trial.values["dropout"])
        counts = {rules: flops.count(graph, rules) for rules in flops.rules_for(graph)}
        return Prepared(graph, counts, self._filled(trial, graph, given.parent))

    def _values(self, trial: Trial, given: Assignment) -> Values:
        if trial.tried:
            seed = self._experiment.seed + trial.entry.number
            return hpo.suggest(self._experiment.hpo, trial.tried, seed, given.searched)
        return hpo.inherited(self._experiment.training, given.parent.best if given.parent is not None else {})

    def _filled(self, trial: Trial, graph: Graph, parent: Entry | None) -> nn.Module | None:
        """With the checkpoint's weights or the parent's; None where they are not all there are."""
        weights = trial.model
        if weights is None and (trial.run == 0 or trial.inherited):
            weights = weights_of_parent(self._files, trial.entry, parent, self._experiment.seed)
        if weights is None:
            return None
        with torch.device("meta"):
            network = build(graph)
        if trial.model is None:
            weights, taken = fitted(weights, network.state_dict())
            if taken < len(weights):
                return None
            trial.inherited = True
        network.to_empty(device="cpu").load_state_dict(weights)
        return network

    def _drawn(self, trial: Trial, graph: Graph, parent: Entry | None) -> nn.Module:
        """With fresh weights, and in their place as many as there are from elsewhere."""
        network = build(graph)
        own = network.state_dict()
        weights = None
        if trial.run == 0 or trial.inherited:
            weights = weights_of_parent(self._files, trial.entry, parent, self._experiment.seed)
        if weights is not None:
            made, count = fitted(weights, own)
            trial.inherited = count > 0
        elif self._experiment.weights and (trial.run == 0 or trial.pretrained):
            taken = weights_of_file(self._experiment.weights, graph, own)
            made, trial.pretrained = taken.weights, True
            self._taken = taken
        else:
            return network
        network.load_state_dict(made)
        return network


# ---- first weights


def weights_of_parent(files: TrialFiles, entry: Entry, parent: Entry | None, seed: int) -> dict[str, Any] | None:
    """Weights with which the entry's network computes what its parent's does, or begins near it; None where that cannot
    be."""
    if parent is None or parent.file != entry.parent_file:
        return None
    weights = files.weights(parent.number)
    if weights is None:
        return None
    graph = files.graph(parent.file, parent.graph)
    for move in entry.moves:
        if not carries(graph, move):
            return None
        child = apply(graph, move)
        weights, graph = inherit(weights, graph, child, move, seed), child
    return weights
