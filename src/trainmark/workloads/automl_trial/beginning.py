"""What a training begins with: its values, its graph, and its network with first weights.

Most of it is made beside the training before, by the client's thread. That one touches neither the device, which has no
room for two, nor torch's random numbers, which belong to the training under way.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import inheritance
import torch
from torch import nn
from trial import Trial

from trainmark.automl.experiment.config import Experiment
from trainmark.automl.experiment.worker import Assignment
from trainmark.automl.graph import flops
from trainmark.automl.graph.flops import Flops
from trainmark.automl.graph.graph import Graph
from trainmark.automl.graph.moves import tuned
from trainmark.automl.graph.network import build
from trainmark.automl.graph.weights import fitted
from trainmark.automl.ledger.files import TrialFiles
from trainmark.automl.ledger.ledger import Entry
from trainmark.automl.search import hpo
from trainmark.automl.search.hpo import Values


class Beginning(NamedTuple):
    graph: Graph
    counts: dict[str, Flops]
    # On the host; None where weights must be drawn.
    network: nn.Module | None


class Beginnings:
    def __init__(self, experiment: Experiment, files: TrialFiles) -> None:
        self._experiment, self._files = experiment, files
        self._ahead: tuple[Trial, Beginning] | None = None

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

    def of(self, trial: Trial, given: Assignment) -> tuple[Beginning, nn.Module]:
        """The trial's next training, and its network."""
        ahead, self._ahead = self._ahead, None
        made = ahead[1] if ahead is not None and ahead[0] is trial else self._make(trial, given)
        seed = self._experiment.seed + trial.entry.number
        torch.manual_seed(seed)
        network = made.network or self._drawn(trial, made.graph, given.parent)
        # The same draws follow, whichever way the weights came.
        torch.manual_seed(seed)
        return made, network

    def _read(self, given: Assignment) -> Trial:
        return Trial(given.entry, given.round, self._files.checkpoint(given.entry.number))

    def _make(self, trial: Trial, given: Assignment) -> Beginning:
        if not trial.values:
            trial.values = self._values(trial, given.parent)
        graph = self._files.graph(given.entry.file, given.entry.graph)
        graph = tuned(graph, given.body, trial.values["kernel_size"], trial.values["dropout"])
        counts = {rules: flops.count(graph, rules) for rules in flops.RULES}
        return Beginning(graph, counts, self._filled(trial, graph, given.parent))

    def _values(self, trial: Trial, parent: Entry | None) -> Values:
        if trial.tried:
            seed = self._experiment.seed + trial.entry.number
            return hpo.suggest(self._experiment.hpo, trial.tried, seed)
        return hpo.inherited(self._experiment.training, parent.best if parent is not None else {})

    def _filled(self, trial: Trial, graph: Graph, parent: Entry | None) -> nn.Module | None:
        """With the checkpoint's weights or the parent's; None where they are not all there are."""
        weights = trial.model
        if weights is None and (trial.run == 0 or trial.inherited):
            weights = inheritance.from_parent(self._files, trial.entry, parent, self._experiment.seed)
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
            weights = inheritance.from_parent(self._files, trial.entry, parent, self._experiment.seed)
        if weights is not None:
            made, taken = fitted(weights, own)
            trial.inherited = taken > 0
        elif self._experiment.weights and (trial.run == 0 or trial.pretrained):
            made, _ = inheritance.from_file(self._experiment.weights, graph, own)
            trial.pretrained = True
        else:
            return network
        network.load_state_dict(made)
        return network
